//! Texts with the words of the question marked: the part that a hit shows, and a document: at most the first
//! MiB, of up to 64 MiB.

use std::ops::Range;

use ehi::Hit;
use ehi::search::QuestionWords;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use hyper::StatusCode;

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

/// Bytes of a text searched for words; more would be noticeable while typing.
const LOOKED_AT: usize = 64 << 10;
/// Approximate bytes of the part.
const SHOWN: usize = 480;

/// A stretch of text, and whether it is a word of the question.
#[derive(Debug, PartialEq, Serialize)]
pub struct Stretch<'a> {
    text: &'a str,
    marked: bool,
}

#[derive(Debug, Serialize)]
pub struct Excerpt<'a> {
    stretches: Vec<Stretch<'a>>,
    /// Whether the passage continues before it, and after it.
    before: bool,
    behind: bool,
}

/// The part of a hit's passage with the most words of the question.
pub fn excerpt<'a>(hit: &'a Hit, words: &QuestionWords) -> Excerpt<'a> {
    let text = hit.passage_text();
    let part = words.snippet(&text[..floor(text, LOOKED_AT)], SHOWN);
    Excerpt {
        stretches: stretches(text, part.start..part.end, &part.marks),
        before: part.start > 0,
        behind: part.end < text.len(),
    }
}

/// A whole text, marked.
pub fn marked<'a>(text: &'a str, words: &QuestionWords) -> Vec<Stretch<'a>> {
    stretches(text, 0..text.len(), &words.marks(text))
}

fn stretches<'a>(text: &'a str, part: Range<usize>, marks: &[Range<usize>]) -> Vec<Stretch<'a>> {
    let mut all = Vec::new();
    let mut at = part.start;
    for mark in marks {
        all.push(Stretch { text: &text[at..mark.start], marked: false });
        all.push(Stretch { text: &text[mark.clone()], marked: true });
        at = mark.end;
    }
    all.push(Stretch { text: &text[at..part.end], marked: false });
    all.retain(|stretch| !stretch.text.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_the_whole_text() {
        let words = QuestionWords::of("what do zebras eat?");
        let of = |text| marked(text, &words).iter().map(|own| (own.text, own.marked)).collect::<Vec<_>>();
        assert_eq!(
            of("<b>zebra</b> eats"),
            [("<b>", false), ("zebra", true), ("</b> ", false), ("eats", true)]
        );
        assert_eq!((of(""), of("none")), (vec![], vec![("none", false)]));
    }
}
