//! A document, piece by piece: its text may be as large as 64 MiB.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use hyper::StatusCode;

use super::excerpt::{Stretch, marked};
use super::reply::{Refusal, Reply};
use super::routes::{Call, Site};
use super::search::MOST_TITLE;
use crate::cut::floor;
use crate::passage::Words;

/// Bytes of a piece.
const PIECE: usize = 64 << 10;
/// Bytes of metadata that are shown.
const MOST_METADATA: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    id: String,
    /// The byte at which the piece begins, a `next` of the piece before.
    #[serde(default)]
    from: usize,
    /// Whose words are marked.
    #[serde(default)]
    question: String,
}

#[derive(Serialize)]
struct Piece<'a> {
    id: &'a str,
    title: &'a str,
    stretches: Vec<Stretch<'a>>,
    /// Where the next piece begins; none behind the last.
    next: Option<usize>,
    /// Of the whole text.
    bytes: usize,
    /// As indented JSON, its beginning where it is long.
    metadata: Option<String>,
}

pub fn document(site: &Site, call: &Call) -> Result<Reply, Refusal> {
    let Ask { id, from, question } = call.json()?;
    let index = site.held.index()?;
    let Some(document) = index.get(&id)? else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_document", "the index has no such document"));
    };
    let text = &document.text;
    if from > text.len() || !text.is_char_boundary(from) {
        return Err(Refusal::bad("no piece of the text begins there"));
    }
    let end = floor(text, from + PIECE);
    Ok(Reply::json(&Piece {
        id: &document.id,
        title: &document.title[..floor(&document.title, MOST_TITLE)],
        stretches: marked(&text[from..end], &Words::of(&question)),
        next: (end < text.len()).then_some(end),
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
