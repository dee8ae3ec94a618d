//! A question with its options, as the page sends it.

use std::sync::Arc;

use ehi::{Filter, QueryEncoder, RankBy, Reach, SearchRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::reply::Refusal;

/// Hits at most: the page asks for more as one scrolls.
const MOST_HITS: usize = 200;
/// Bytes of a question: far more than an encoder reads.
const MOST_QUESTION: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    pub question: String,
    k: usize,
    #[serde(default)]
    pub mode: RankBy,
    #[serde(default)]
    reach: PageReach,
    /// Filters that must all pass, each as JSON in a string. The page hands back those that it was given with
    /// the hits, and never reads them: JavaScript would round large whole numbers.
    #[serde(default)]
    filters: Vec<String>,
    /// The one that the index prefers if absent.
    #[serde(default)]
    encoder: Option<QueryEncoder>,
    /// Whether somebody asked this, and is not merely typing: then it is logged where questions are.
    #[serde(default)]
    pub asked: bool,
    /// Whether each hit is to have the grade that it was judged by, for this question.
    #[serde(default)]
    pub grades: bool,
}

/// How far a search goes.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PageReach {
    /// As far as the library goes by itself.
    #[default]
    Auto,
    Recall(f64),
    Leaves(usize),
    /// Every document.
    Exact,
}

/// # Errors
/// A question that is longer than the page's may be.
pub fn check_length(question: &str) -> Result<(), Refusal> {
    if question.len() <= MOST_QUESTION {
        return Ok(());
    }
    let (found, most) = (question.len(), MOST_QUESTION >> 10);
    Err(Refusal::bad(format!("the question has {found} bytes; at most {most} KiB are searched for here")))
}

impl Ask {
    fn filter(&self) -> Result<Option<Filter>, Refusal> {
        if self.filters.is_empty() {
            return Ok(None);
        }
        let read = |filter: &String| {
            serde_json::from_str::<Value>(filter).map_err(|error| Refusal::bad(format!("a filter: {error}")))
        };
        let all = self.filters.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let filter = Filter::from_json(&json!({ "$and": all }));
        filter.map(Some).map_err(|error| ehi::Error::from(error).into())
    }

    /// # Errors
    /// More hits than are given; a question that is too long; what is wrong with a filter.
    pub fn request(&self) -> Result<SearchRequest, Refusal> {
        check_length(&self.question)?;
        if self.k > MOST_HITS {
            return Err(Refusal::bad(format!("there are at most {MOST_HITS} hits")));
        }
        let reach = match self.reach {
            PageReach::Auto => None,
            PageReach::Recall(recall) => Some(Reach::Recall(recall)),
            PageReach::Leaves(leaves) => Some(Reach::Beam(Some(leaves), Vec::new())),
            PageReach::Exact => Some(Reach::Exact),
        };
        let filter = self.filter()?.map(Arc::new);
        let Self { k, mode, encoder, .. } = *self;
        Ok(SearchRequest { k, reach, encoder, filter, ..SearchRequest::of(mode) })
    }
}
