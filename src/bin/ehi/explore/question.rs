//! A question with its options, as the page sends it.

use ehi::{Filter, Fusion, Index, Query, QueryEncoder};
use serde::Deserialize;
use serde_json::Value;

use super::reply::Refusal;

/// Hits at most: the page asks for more as one scrolls.
const MOST_HITS: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    pub question: String,
    k: usize,
    #[serde(default)]
    pub mode: Mode,
    #[serde(default)]
    reach: Reach,
    #[serde(default)]
    filter: Option<Value>,
    /// The one that the index prefers if absent.
    #[serde(default)]
    encoder: Option<QueryEncoder>,
    /// Whether somebody asked this, and is not merely typing: then it is logged where questions are.
    #[serde(default)]
    pub asked: bool,
}

/// What a search ranks by, as of `ehi search --mode`.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Best,
    Dense,
    Lexical,
    Hybrid,
}

/// How far a search goes.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reach {
    /// As far as the library goes by itself.
    #[default]
    Auto,
    Recall(f64),
    Leaves(usize),
    /// Every document.
    Exact,
}

impl Ask {
    /// The filter, whose life the query shares.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn filter(&self) -> Result<Option<Filter>, Refusal> {
        let filter = self.filter.as_ref().map(Filter::from_json).transpose();
        filter.map_err(|error| ehi::Error::from(error).into())
    }

    /// # Errors
    /// More hits than are given.
    pub fn query<'a>(&'a self, index: &'a Index, filter: Option<&'a Filter>) -> Result<Query<'a>, Refusal> {
        if self.k > MOST_HITS {
            return Err(Refusal::bad(format!("there are at most {MOST_HITS} hits")));
        }
        let mut query = index.query(&self.question).k(self.k);
        query = match self.mode {
            Mode::Best => query.learned(),
            Mode::Dense => query,
            Mode::Lexical => query.lexical(),
            Mode::Hybrid => query.hybrid(Fusion::default()),
        };
        query = match self.reach {
            Reach::Auto => query,
            Reach::Recall(recall) => query.recall(recall),
            Reach::Leaves(leaves) => query.beam(leaves),
            Reach::Exact => query.exact(),
        };
        if let Some(encoder) = self.encoder {
            query = query.encoder(encoder);
        }
        if let Some(filter) = filter {
            query = query.filter(filter);
        }
        Ok(query)
    }
}
