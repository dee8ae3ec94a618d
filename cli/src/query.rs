//! Options of a search, for the commands that search.

use std::io::Read;
use std::path::PathBuf;

use ehi::search::{DEFAULT_K, Question};
use ehi::{Filter, Index, QueryEncoder, SearchRequest};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::arguments::{self, filter, finite};
use crate::failure::Failure;
use crate::printing;
use crate::vector;

/// Most bytes of a file with a vector: one has at most 65,536 numbers.
const MOST_VECTOR_BYTES: u64 = 4 << 20;

/// By the names of [`SearchRequest::from_json`], which says what can be combined.
#[derive(clap::Args, Serialize)]
pub struct QueryArgs {
    /// Hits at most. A hybrid search scales scores to its candidates, so a number above 48 can change the
    /// order of the first hits
    #[arg(
        long,
        short,
        visible_alias = "top-k",
        visible_short_alias = 'n',
        default_value_t = DEFAULT_K,
        allow_negative_numbers = true
    )]
    pub k: usize,
    /// Leaves to visit and no more, or `all`; as many as `--recall` takes if absent
    #[arg(long, short, value_name = "LEAVES", value_parser = beam)]
    beam: Option<usize>,
    /// Visit as many leaves as it takes to find this share of exact search's hits, on average; 0.95 if
    /// absent. Every document is scored where there are few, and where `ehi calibrate` has not measured it
    #[arg(long, value_name = "SHARE", conflicts_with = "beam", value_parser = finite)]
    recall: Option<f64>,
    /// What to rank by: `dense` embeddings, `lexical` words (nothing is encoded), or `hybrid`, both. `best`,
    /// the default, is both, and embeddings alone where `ehi fuse` has found that words do not help, unless
    /// the question has signs or `--alpha` or `--rrf` is given
    #[arg(long, value_parser = ["best", "dense", "lexical", "hybrid"])]
    mode: Option<String>,
    /// Weight of the embeddings in a hybrid search, from 0 to 1; what `ehi fuse` learned if absent (1 where
    /// words do not help), else 0.7
    #[arg(long, value_name = "WEIGHT", value_parser = finite)]
    alpha: Option<f64>,
    /// Join the ranks of a hybrid search and not the scores, with this k (60 is usual)
    #[arg(long, value_name = "K", conflicts_with = "alpha", value_parser = finite)]
    rrf: Option<f64>,
    /// Which encoder reads the question: full, or fast, the one of `ehi distil`. By default the fast one
    /// where it was shown to lose little
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<QueryEncoder>,
    /// Search among the documents whose metadata pass, for instance {"year": {"$gte": 2010}, "lang": "en"};
    /// @FILE reads it from a file, - from standard input
    #[arg(long, value_name = "JSON", value_parser = filter)]
    #[serde(serialize_with = "as_json")]
    filter: Option<Filter>,
    /// Hits in groups of documents with the same value of this field of the metadata, `-k` groups
    #[arg(long, value_name = "FIELD")]
    group_by: Option<String>,
    /// Hits of each group, at most, of those among the best documents: twice as many as all groups can show
    #[arg(long, value_name = "COUNT", requires = "group_by")]
    per_group: Option<usize>,
    /// Whether codes may rule documents out, so that fewer embeddings are read. By default they may, except
    /// with `--exact`
    #[arg(long, value_name = "BOOL")]
    codes: Option<bool>,
    /// Passages of each hit, at most, in an index that has them; the best one if absent, none with 0
    #[arg(long, value_name = "COUNT")]
    passages: Option<usize>,
    /// Leave judgments (`ehi judge`) out of the ranking
    #[arg(long)]
    no_memory: bool,
    /// File with the question's vector, a JSON array of numbers; - for standard input. A question given
    /// with it is searched by its words
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    vector: Option<PathBuf>,
}

/// A question, its vector, or both.
pub fn asked<'a>(question: &'a str, vector: Option<&'a [f32]>) -> Question<'a> {
    match vector {
        Some(vector) if question.trim().is_empty() => Question::Vector(vector),
        Some(vector) => Question::Encoded(question, vector),
        None => Question::Text(question),
    }
}

impl QueryArgs {
    /// The question's vector, if one is given.
    pub fn vector(&self) -> Result<Option<Vec<f32>>, Failure> {
        let Some(file) = &self.vector else { return Ok(None) };
        let mut text = String::new();
        let opened = arguments::open(file).map_err(Failure::file("open", file))?;
        opened.take(MOST_VECTOR_BYTES).read_to_string(&mut text).map_err(Failure::file("read", file))?;
        let name = printing::path(file);
        match serde_json::from_str(&text) {
            Ok(Value::Array(values)) => vector::numbers(&values)
                .map(Some)
                .ok_or_else(|| Failure::Usage(format!("the vector in {name} {}", vector::NO_NUMBERS))),
            Ok(_) => Err(Failure::Usage(format!("{name} holds no JSON array of numbers"))),
            Err(error) => Err(Failure::Usage(format!("{name} holds no JSON array of numbers: {error}"))),
        }
    }

    /// Why a search found nothing, where leaves were what an option asked for.
    pub fn note_on_none(&self, index: &Index) -> Option<&'static str> {
        (self.beam.is_some() && !index.is_empty() && self.filter.is_none()).then_some(
            "the leaves that were visited hold no documents; without --beam a search visits as many as it takes",
        )
    }

    /// What these options ask for.
    ///
    /// # Errors
    /// Options that exclude each other.
    pub fn request(&self) -> Result<SearchRequest, Failure> {
        let json = serde_json::to_value(self).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(SearchRequest::from_json(json)?)
    }
}

fn as_json<S: Serializer>(filter: &Option<Filter>, serializer: S) -> Result<S::Ok, S::Error> {
    filter.as_ref().map(Filter::to_json).serialize(serializer)
}

fn beam(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        _ => text.parse().map_err(|_| "expected a number of leaves, or `all`".to_owned()),
    }
}
