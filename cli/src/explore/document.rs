//! A document, piece by piece: its text may be as large as 64 MiB.

use std::hash::{DefaultHasher, Hash, Hasher};

use ehi::search::QuestionWords;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use hyper::StatusCode;

use super::excerpt::{Stretch, marked};
use super::question::check_length;
use super::reply::{Refusal, Reply};
use super::search::MOST_TITLE;
use super::site::{Call, Site};
use crate::cut::floor;

/// Bytes of a piece.
const PIECE: usize = 64 << 10;
/// Most bytes of metadata shown.
const MOST_METADATA: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    id: String,
    /// The byte at which the piece begins, a `next` of the piece before.
    #[serde(default)]
    from: usize,
    /// The `version` of the piece before: all pieces must be of the same text.
    #[serde(default)]
    version: Option<String>,
    /// The question whose words are marked.
    #[serde(default)]
    question: String,
}

#[derive(Serialize)]
struct Piece<'a> {
    id: &'a str,
    /// Changes with the text.
    version: String,
    title: &'a str,
    stretches: Vec<Stretch<'a>>,
    /// Start of the next piece; `None` after the last.
    next: Option<usize>,
    /// Bytes of the whole text.
    bytes: usize,
    /// As indented JSON, truncated if long.
    metadata: Option<String>,
}

pub fn document(site: &Site, call: &Call) -> Result<Reply, Refusal> {
    let Ask { id, from, version: before, question } = call.json()?;
    check_length(&question)?;
    let index = site.held.index()?;
    let Some(document) = index.get(&id)? else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_document", "the index has no such document"));
    };
    let text = &document.text;
    let version = version(text);
    if before.is_some_and(|before| before != version) {
        let message = "the document was replaced meanwhile: open it again";
        return Err(Refusal::new(StatusCode::CONFLICT, "replaced", message));
    }
    if from > text.len() || !text.is_char_boundary(from) {
        return Err(Refusal::bad("no piece of the text begins there"));
    }
    let end = floor(text, from + PIECE);
    Ok(Reply::json(&Piece {
        id: &document.id,
        version,
        title: &document.title[..floor(&document.title, MOST_TITLE)],
        stretches: marked(&text[from..end], &QuestionWords::of(&question)),
        next: (end < text.len()).then_some(end),
        bytes: text.len(),
        metadata: document.metadata.as_ref().map(written),
    }))
}

/// Distinguishes texts; has no meaning outside this program.
fn version(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn written(metadata: &Value) -> String {
    let mut written = serde_json::to_string_pretty(metadata).unwrap_or_default();
    if written.len() > MOST_METADATA {
        written.truncate(floor(&written, MOST_METADATA));
        written.push('…');
    }
    written
}
