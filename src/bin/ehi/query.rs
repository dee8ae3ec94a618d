//! Options of a search, for the commands that search.

use ehi::search::{DEFAULT_K, has_signs};
use ehi::{Document, Filter, Fusion, Index, Query, QueryEncoder, Stop};
use serde_json::Value;

use crate::escape::escaped;
use crate::failure::Failure;
use crate::filtering::filter;

/// Documents among which a field of a filter is looked for, where nothing was found.
const MOST_LOOKED_AT: usize = 100_000;
/// Fields of a filter that are looked for then.
const MOST_FIELDS: usize = 50;

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
    /// found that words help, and embeddings otherwise; `--alpha` and `--rrf` make it both
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

    /// That the signs of a question are not heeded, where it has some.
    pub fn note_on_signs(&self, question: &str) -> Option<&'static str> {
        let heeds = match self.mode {
            Mode::Lexical | Mode::Hybrid => true,
            Mode::Best => self.alpha.is_some() || self.rrf.is_some(),
            Mode::Dense => false,
        };
        let note = "`+`, `-` and quotes count with `--mode lexical` and `--mode hybrid` alone";
        (!heeds && has_signs(question)).then_some(note)
    }

    /// What kept a search from finding anything, where an option did.
    pub fn notes_on_none(&self, index: &Index) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        if let Some(filter) = &self.filter {
            let mut compared: Vec<Compared> = Vec::new();
            for field in filter.fields().into_iter().take(MOST_FIELDS) {
                compared.push(Compared::new(field));
            }
            wanted(&filter.to_json(), &mut compared);
            for document in index.iter().take(MOST_LOOKED_AT) {
                let document = document?;
                compared.retain_mut(|own| !own.look(&document));
                if compared.is_empty() {
                    break;
                }
            }
            if index.len() <= MOST_LOOKED_AT {
                notes.extend(compared.iter().map(Compared::note));
            }
        }
        if (self.beam.is_some() || !self.stop.is_empty()) && !index.is_empty() && self.filter.is_none() {
            notes.push(
                "there is no document in the leaves that were visited; without --beam and --stop a search goes as far \
                 as it takes"
                    .to_owned(),
            );
        }
        Ok(notes)
    }

    /// Says the first of these on standard error.
    pub fn say_signs(&self, question: &str) {
        if let Some(note) = self.note_on_signs(question) {
            eprintln!("note: {note}");
        }
    }

    /// Says the others there.
    pub fn say_why_none(&self, index: &Index) -> Result<(), Failure> {
        self.notes_on_none(index)?.iter().for_each(|note| eprintln!("note: {note}"));
        Ok(())
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

/// Kinds of values that are never equal to one another.
const KINDS: [&str; 3] = ["number", "string", "boolean"];

/// A field of a filter that found nothing.
struct Compared {
    field: String,
    is_there: bool,
    /// The kinds that it is compared with, and those that documents hold.
    wanted: [bool; 3],
    held: [bool; 3],
    exists: Filter,
    holds: [Filter; 3],
}

impl Compared {
    fn new(field: &str) -> Self {
        // What the library finds at a field, arrays and paths with it: all that is not below the least one.
        let holds = [Filter::gte(field, f64::MIN), Filter::gte(field, ""), Filter::gte(field, false)];
        let (wanted, held) = ([false; 3], [false; 3]);
        let exists = Filter::exists(field);
        Self { field: field.to_owned(), is_there: false, wanted, held, exists, holds }
    }

    /// Looks at a document; whether it has what the field is compared with, so that there is nothing to say.
    fn look(&mut self, document: &Document) -> bool {
        let matches = |filter: &Filter| filter.matches(&document.id, document.metadata.as_ref());
        if !matches(&self.exists) {
            return false;
        }
        self.is_there = true;
        for (held, holds) in self.held.iter_mut().zip(&self.holds) {
            *held = *held || matches(holds);
        }
        let mut both = self.wanted.iter().zip(&self.held);
        self.wanted == [false; 3] || both.any(|(wanted, held)| *wanted && *held)
    }

    fn note(&self) -> String {
        let field = escaped(&self.field);
        if !self.is_there {
            return format!("no document has the field `{field}` in its metadata");
        }
        let names = |of: [bool; 3]| -> String {
            let names: Vec<_> =
                KINDS.iter().zip(of).filter(|(_, is)| *is).map(|(kind, _)| format!("{kind}s")).collect();
            if names.is_empty() { "no such values".to_owned() } else { names.join(" and ") }
        };
        let (held, wanted) = (names(self.held), names(self.wanted));
        format!(
            "the field `{field}` holds {held}, and the filter compares it with {wanted}, which are never equal"
        )
    }
}

/// Notes what kinds of values the fields of a filter are compared with.
fn wanted(filter: &Value, compared: &mut [Compared]) {
    for (name, value) in filter.as_object().into_iter().flatten() {
        match value {
            Value::Array(filters) if name.starts_with('$') => {
                filters.iter().for_each(|filter| wanted(filter, compared));
            }
            filter if name.starts_with('$') => wanted(filter, compared),
            value => {
                if let Some(own) = compared.iter_mut().find(|own| own.field == *name) {
                    operands(value, &mut own.wanted);
                }
            }
        }
    }
}

/// Of the operators under a field, or of the value in their place.
fn operands(value: &Value, wanted: &mut [bool; 3]) {
    let Value::Object(operators) = value else { return operand(value, wanted) };
    for (operator, value) in operators {
        match (operator.as_str(), value) {
            ("$exists", _) => {}
            ("$not", value) => operands(value, wanted),
            ("$in" | "$nin", Value::Array(values)) => values.iter().for_each(|own| operand(own, wanted)),
            (_, value) => operand(value, wanted),
        }
    }
}

fn operand(value: &Value, wanted: &mut [bool; 3]) {
    match value {
        Value::Number(_) => wanted[0] = true,
        Value::String(_) => wanted[1] = true,
        Value::Bool(_) => wanted[2] = true,
        _ => {}
    }
}

fn beam(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        _ => text.parse().map_err(|_| "expected a number of leaves, or `all`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of documents with this metadata.
    fn notes(filter: &Value, metadata: &[Value]) -> Vec<String> {
        let filter = Filter::from_json(filter).unwrap();
        let mut compared: Vec<Compared> = filter.fields().into_iter().map(Compared::new).collect();
        wanted(&filter.to_json(), &mut compared);
        for own in metadata {
            let document = Document::new("a", "", "b").with_metadata(own.clone());
            compared.retain_mut(|own| !own.look(&document));
        }
        compared.iter().map(Compared::note).collect()
    }

    #[test]
    fn what_a_field_is_compared_with_and_holds_is_said_where_they_differ() {
        let metadata = [json!({ "year": 2010, "by": { "name": "x" }, "tags": ["a"], "at": [1] }), json!({})];
        let year = "the field `year` holds numbers, and the filter compares it with strings";
        for (filter, says) in [
            (json!({ "year": "2010" }), Some(year)),
            (json!({ "year": { "$not": { "$gte": "2010" } } }), Some(year)),
            (json!({ "$or": [{ "year": { "$in": ["2010"] } }, { "$ids": ["b"] }] }), Some(year)),
            (json!({ "year": { "$in": ["2010", 2010] } }), None),
            (json!({ "year": 2011 }), None),
            (json!({ "year": null }), None),
            (json!({ "year": { "$exists": false } }), None),
            (json!({ "by.name": true }), Some("holds strings, and the filter compares it with booleans")),
            (json!({ "by": { "$eq": { "name": 1 } } }), None),
            (json!({ "by": 1 }), Some("holds no such values, and the filter compares it with numbers")),
            (json!({ "tags": "b" }), None),
            (json!({ "tags": 1 }), Some("holds strings")),
            (json!({ "at": { "$eq": ["x"] } }), None),
            (json!({ "lang": "en" }), Some("no document has the field `lang`")),
        ] {
            let notes = notes(&filter, &metadata);
            match says {
                None => assert_eq!(notes, [""; 0], "{filter}"),
                Some(says) => assert!(notes.len() == 1 && notes[0].contains(says), "{filter}: {notes:?}"),
            }
        }
    }
}
