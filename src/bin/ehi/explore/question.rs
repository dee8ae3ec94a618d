//! A question with its options, as the page sends it.

use ehi::{Filter, Index, Query, QueryEncoder};
use serde::Deserialize;
use serde_json::Value;

use super::reply::Refusal;
use crate::query::Mode;

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
        let mut query = self.mode.apply(index.query(&self.question).k(self.k));
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
