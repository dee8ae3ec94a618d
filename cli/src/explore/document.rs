//! A document: at most the first MiB of its text, which may be as large as 64 MiB.

use ehi::search::QuestionWords;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use hyper::StatusCode;

use super::excerpt::{Stretch, marked};
use super::question::check_length;
use super::reply::{Refusal, Reply, json};
use super::search::MOST_TITLE;
use super::site::Site;
use crate::text::floor;

/// Most bytes of text shown.
const MOST_TEXT: usize = 1 << 20;
/// Most bytes of metadata shown.
const MOST_METADATA: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    id: String,
    /// The question whose words are marked.
    #[serde(default)]
    question: String,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    title: &'a str,
    stretches: Vec<Stretch<'a>>,
    /// Whether more of the text follows.
    is_cut: bool,
    /// Bytes of the whole text.
    bytes: usize,
    /// As indented JSON, truncated if long.
    metadata: Option<String>,
}

pub fn document(site: &Site, body: &[u8]) -> Result<Reply, Refusal> {
    let Ask { id, question } = json(body)?;
    check_length(&question)?;
    let index = site.held.index()?;
    let Some(document) = index.get(&id)? else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_document", "the index has no such document"));
    };
    let text = &document.text;
    let shown = &text[..floor(text, MOST_TEXT)];
    Ok(Reply::json(&Shown {
        id: &document.id,
        title: &document.title[..floor(&document.title, MOST_TITLE)],
        stretches: marked(shown, &QuestionWords::of(&question)),
        is_cut: shown.len() < text.len(),
        bytes: text.len(),
        metadata: document.metadata.as_ref().map(written),
    }))
}

fn written(metadata: &Value) -> String {
    let mut written = serde_json::to_string_pretty(metadata).unwrap_or_default();
    if written.len() > MOST_METADATA {
        written.truncate(floor(&written, MOST_METADATA));
        written.push('…');
    }
    written
}
