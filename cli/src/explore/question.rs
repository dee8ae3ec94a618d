//! A question with its options, as the page sends it.

use ehi::SearchRequest;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::reply::Refusal;

/// Most hits per request: the page asks for more on scrolling.
const MOST_HITS: usize = 200;
/// Bytes of a question: far more than an encoder reads.
const MOST_QUESTION: usize = 16 << 10;

#[derive(Deserialize)]
pub struct Ask {
    pub question: String,
    /// Whether the question was submitted, not merely typed; it is then logged if logging is on.
    #[serde(default)]
    pub asked: bool,
    /// Whether hits include their judged grades for this question.
    #[serde(default)]
    pub grades: bool,
    /// Whether values of the hits' fields are counted.
    #[serde(default)]
    pub facets: bool,
    /// Filters that must all pass, each as JSON in a string. The page returns those it received with the hits
    /// unread, because JavaScript would round large integers.
    #[serde(default)]
    filters: Vec<String>,
    /// The rest of a [`SearchRequest`].
    #[serde(flatten)]
    options: Map<String, Value>,
}

/// # Errors
/// A question over the page's limit.
pub fn check_length(question: &str) -> Result<(), Refusal> {
    if question.len() <= MOST_QUESTION {
        return Ok(());
    }
    let (found, most) = (question.len(), MOST_QUESTION >> 10);
    Err(Refusal::bad(format!("the question has {found} bytes; at most {most} KiB are searched for here")))
}

impl Ask {
    /// # Errors
    /// Too many hits, a question that is too long, or an invalid request.
    pub fn request(&self) -> Result<SearchRequest, Refusal> {
        check_length(&self.question)?;
        let mut json = self.options.clone();
        let filters = self.filters.iter().map(|filter| serde_json::from_str(filter));
        let filters: Vec<Value> =
            filters.collect::<Result<_, _>>().map_err(|error| Refusal::bad(format!("a filter: {error}")))?;
        if !filters.is_empty() {
            json.insert("filter".to_owned(), json!({ "$and": filters }));
        }
        let request = SearchRequest::from_json(Value::Object(json))?;
        match request.k > MOST_HITS {
            true => Err(Refusal::bad(format!("there are at most {MOST_HITS} hits"))),
            false => Ok(request),
        }
    }
}
