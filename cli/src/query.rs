//! Options of a search, for the commands that search.

use ehi::search::DEFAULT_K;
use ehi::{Filter, Fusion, Index, Query, QueryEncoder, Stop};

use crate::failure::Failure;
use crate::filtering::filter;

/// What a search ranks by.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
#[cfg_attr(
    any(feature = "explore", feature = "mcp"),
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
#[cfg_attr(feature = "mcp", derive(serde::Serialize, rmcp::schemars::JsonSchema))]
#[cfg_attr(feature = "mcp", schemars(crate = "rmcp::schemars"))]
pub enum Mode {
    #[default]
    Best,
    Dense,
    Lexical,
    Hybrid,
}

impl Mode {
    /// The query with this, where nothing is said of how scores are joined.
    pub fn apply<I>(self, query: Query<'_, I>) -> Query<'_, I> {
        match self {
            Self::Best => query.learned(),
            Self::Dense => query,
            Self::Lexical => query.lexical(),
            Self::Hybrid => query.hybrid(Fusion::default()),
        }
    }
}

#[derive(clap::Args)]
pub struct QueryArgs {
    /// Hits at most
    #[arg(long, short, default_value_t = DEFAULT_K)]
    k: usize,
    /// Leaves to visit and no more, or `all`. If absent, as many as `--recall` takes, or all where `--stop`
    /// says when to stop
    #[arg(long, short, value_name = "LEAVES", value_parser = beam)]
    beam: Option<usize>,
    /// Visit as many leaves as it takes to find this share of exact search's hits, on average; 0.95 if
    /// absent. Every document is scored where there are few, and where `ehi calibrate` has not measured it
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["beam", "stop"])]
    recall: Option<f64>,
    /// Stop earlier, by the first rule that applies: patience=LEAVES, mass=SHARE, documents=COUNT,
    /// fraction=SHARE
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    stop: Vec<Stop>,
    /// What to rank by: embeddings, words (nothing is encoded), or both. `best` is both where `ehi fuse` has
    /// found that words help or the question has signs, and embeddings otherwise; `--alpha` and `--rrf` make
    /// it both
    #[arg(long, value_enum, default_value_t = Mode::Best)]
    mode: Mode,
    /// Weight of the embeddings in a hybrid search, from 0 to 1; what `ehi fuse` learned if absent (1 where
    /// words do not help), else 0.7
    #[arg(long, value_name = "WEIGHT")]
    alpha: Option<f64>,
    /// Join the ranks of a hybrid search and not the scores, with this k (60 is usual)
    #[arg(long, value_name = "K", conflicts_with = "alpha")]
    rrf: Option<f64>,
    /// Which encoder reads the question: full, or fast, the one of `ehi distil`. By default the fast one
    /// where it was shown to lose little
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<QueryEncoder>,
    /// Search among the documents whose metadata pass, for instance {"year": {"$gte": 2010}, "lang": "en"};
    /// @FILE reads it from a file, - from standard input
    #[arg(long, value_name = "JSON", value_parser = filter)]
    filter: Option<Filter>,
    /// Whether codes may rule documents out, so that fewer embeddings are read. By default they may, but for
    /// searches that score every document
    #[arg(long, value_name = "BOOL")]
    codes: Option<bool>,
    /// Passages of each hit, at most, in an index that has them; the best one if absent
    #[arg(long, value_name = "COUNT")]
    passages: Option<usize>,
}

impl QueryArgs {
    /// A search with these options and no others.
    #[cfg(feature = "mcp")]
    pub fn of(k: usize, mode: Mode, filter: Option<Filter>) -> Self {
        let (beam, recall, stop) = (None, None, Vec::new());
        let (alpha, rrf, encoder, codes, passages) = (None, None, None, None, None);
        Self { k, beam, recall, stop, mode, alpha, rrf, encoder, filter, codes, passages }
    }

    /// Why a search found nothing, where leaves were what an option asked for.
    pub fn note_on_none(&self, index: &Index) -> Option<&'static str> {
        let asked = self.beam.is_some() || !self.stop.is_empty();
        (asked && !index.is_empty() && self.filter.is_none()).then_some(
            "there is no document in the leaves that were visited; without --beam and --stop a search goes as far as \
             it takes",
        )
    }

    /// The query with these options.
    ///
    /// # Errors
    /// Options that have no use in the mode.
    pub fn apply<'a, I>(&'a self, query: Query<'a, I>) -> Result<Query<'a, I>, Failure> {
        let mut query = query.k(self.k);
        let fusion = match (self.alpha, self.rrf) {
            (Some(alpha), _) => Some(Fusion::Convex(alpha)),
            (None, Some(k)) => Some(Fusion::Rrf { k }),
            (None, None) => None,
        };
        query = match (self.mode, fusion) {
            (mode, None) => mode.apply(query),
            // What is said of fusion asks for it.
            (Mode::Best | Mode::Hybrid, Some(fusion)) => query.hybrid(fusion),
            (Mode::Dense | Mode::Lexical, Some(_)) => {
                let option = if self.alpha.is_some() { "--alpha" } else { "--rrf" };
                return Err(Failure::Usage(format!("{option} is for `--mode hybrid`")));
            }
        };
        if let Some(encoder) = self.encoder {
            query = query.encoder(encoder);
        }
        if let Some(beam) = self.beam {
            query = query.beam(beam);
        }
        if let Some(recall) = self.recall {
            query = query.recall(recall);
        }
        for &stop in &self.stop {
            query = query.stop(stop);
        }
        if let Some(filter) = &self.filter {
            query = query.filter(filter);
        }
        if let Some(codes) = self.codes {
            query = query.codes(codes);
        }
        if let Some(passages) = self.passages {
            query = query.passages(passages);
        }
        Ok(query)
    }
}

fn beam(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        _ => text.parse().map_err(|_| "expected a number of leaves, or `all`".to_owned()),
    }
}
