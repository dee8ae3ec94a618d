//! Texts with the words of the question marked: the part that a hit shows, and a document around its passage.

use std::borrow::Cow;
use std::ops::Range;

use ehi::search::{QuestionWords, Snippet};
use ehi::{Document, Hit, HitPassage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use hyper::StatusCode;

use super::question::check_length;
use super::reply::{Refusal, Reply, json};
use super::search::MOST_TITLE;
use super::site::Site;
use crate::hits::begins_within;
use crate::text::{floor, flowing};

/// Most bytes of text in an answer. The page asks for the text above and below.
const MOST_TEXT: usize = 256 << 10;
/// Most bytes of metadata shown.
const MOST_METADATA: usize = 16 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    id: String,
    /// The question whose words are marked.
    #[serde(default)]
    question: String,
    /// The passage to open at.
    passage: Option<Range<usize>>,
    /// The part to show; without it, the text around the passage.
    part: Option<Range<usize>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    title: &'a str,
    /// The text above the passage, the passage, and the text below it, which is all of it without a passage.
    above: Vec<Stretch<'a>>,
    passage: Vec<Stretch<'a>>,
    below: Vec<Stretch<'a>>,
    /// Where the passage is.
    headings: Vec<String>,
    line: Option<u32>,
    /// The bytes shown, and those of the whole text.
    start: usize,
    end: usize,
    bytes: usize,
    /// As indented JSON, truncated if long.
    metadata: Option<String>,
}

pub fn document(site: &Site, body: &[u8]) -> Result<Reply, Refusal> {
    let Ask { id, question, passage, part } = json(body)?;
    check_length(&question)?;
    let index = site.held.index()?;
    let Some(document) = index.get(&id)? else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_document", "the index has no such document"));
    };
    let words = QuestionWords::of(&question);
    let text = &document.text;
    let (Range { start, end }, lit, place) = match part {
        Some(part) => (within(text, part), None, Snippet::default()),
        None => {
            let (lit, place) = opened(&document, passage, &words);
            (around(text, lit.clone().unwrap_or_default()), lit, place)
        }
    };
    let lit = lit.map_or(start..start, |lit| lit.start..lit.end.min(end));
    let marked = |part: Range<usize>| {
        let marks = words.marks(&text[part.clone()]);
        let marks = marks.into_iter().map(|mark| part.start + mark.start..part.start + mark.end);
        stretches(part.clone(), marks, |part| text[part].into())
    };
    Ok(Reply::json(&Shown {
        id: &document.id,
        title: &document.title[..floor(&document.title, MOST_TITLE)],
        above: marked(start..lit.start),
        passage: marked(lit.clone()),
        below: marked(lit.end..end),
        headings: place.headings,
        line: place.line,
        start,
        end,
        bytes: text.len(),
        metadata: document.metadata.as_ref().map(written),
    }))
}

/// The passage to open a document at, and where it is: the given one, or else the part with the most words
/// of the question. The whole text is none.
fn opened(
    document: &Document,
    passage: Option<Range<usize>>,
    words: &QuestionWords,
) -> (Option<Range<usize>>, Snippet) {
    let text = &document.text;
    let is_part = |part: &Range<usize>| !part.is_empty() && part.len() < text.len();
    // The document may have been replaced since.
    let passage = passage.map(|own| floor(text, own.start)..floor(text, own.end)).filter(is_part);
    let all = passage.clone().unwrap_or(0..text.len());
    let mut place = snippet(document, all.clone(), words);
    if place.marks.is_empty() {
        place = document.snippet(all, words, SHOWN);
    }
    let has_words = !place.marks.is_empty();
    let lit = passage.or_else(|| Some(place.start..place.end).filter(|own| has_words && is_part(own)));
    if lit.is_none() {
        place = Snippet::default();
    }
    (lit, place)
}

/// The text around a part of it.
fn around(text: &str, part: Range<usize>) -> Range<usize> {
    let last = text.len().saturating_sub(MOST_TEXT);
    let start = part.start.saturating_sub(MOST_TEXT / 2).min(last);
    within(text, start..start + MOST_TEXT)
}

/// A part of the text, of whole characters.
fn within(text: &str, Range { start, end }: Range<usize>) -> Range<usize> {
    let start = floor(text, start);
    start..floor(text, end.min(start + MOST_TEXT)).max(start)
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
    text: Cow<'a, str>,
    marked: bool,
}

#[derive(Debug, Serialize)]
pub struct Excerpt<'a> {
    stretches: Vec<Stretch<'a>>,
    /// Whether the passage continues before it, and after it.
    before: bool,
    behind: bool,
    /// Where it is.
    headings: Vec<String>,
    line: Option<u32>,
}

/// The part of a hit's passage with the most words of the question, on one line.
pub fn excerpt<'a>(hit: &'a Hit, words: &QuestionWords) -> Excerpt<'a> {
    let text = &hit.document.text;
    let passage = hit.passages.first().map_or(0..text.len(), HitPassage::range);
    let part = snippet(&hit.document, passage.clone(), words);
    Excerpt {
        stretches: stretches(part.start..part.end, part.marks.iter().cloned(), |part| {
            flowing(text, part).into()
        }),
        before: begins_within(text, &passage, &part),
        behind: part.end < passage.end,
        headings: part.headings,
        line: part.line,
    }
}

/// The part with the most words of the question, of the beginning of a passage.
fn snippet(document: &Document, passage: Range<usize>, words: &QuestionWords) -> Snippet {
    let end = floor(&document.text, passage.end.min(passage.start + LOOKED_AT));
    document.snippet(passage.start..end, words, SHOWN)
}

fn stretches<'a>(
    part: Range<usize>,
    marks: impl Iterator<Item = Range<usize>>,
    text: impl Fn(Range<usize>) -> Cow<'a, str>,
) -> Vec<Stretch<'a>> {
    let mut all = Vec::new();
    let mut at = part.start;
    for mark in marks {
        all.push(Stretch { text: text(at..mark.start), marked: false });
        at = mark.end;
        all.push(Stretch { text: text(mark), marked: true });
    }
    all.push(Stretch { text: text(at..part.end), marked: false });
    all.retain(|stretch| !stretch.text.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_the_whole_text() {
        let words = QuestionWords::of("what do zebras eat?");
        let of = |text: &'static str| {
            let marks = words.marks(text).into_iter();
            let all = stretches(0..text.len(), marks, |part| text[part].into());
            all.into_iter().map(|own| (own.text, own.marked)).collect::<Vec<_>>()
        };
        let expected = [("<b>", false), ("zebra", true), ("</b> ", false), ("eats", true)];
        assert_eq!(of("<b>zebra</b> eats"), expected.map(|(text, marked)| (text.into(), marked)));
        assert_eq!((of(""), of("none")), (vec![], vec![("none".into(), false)]));
    }

    #[test]
    fn a_document_opens_at_its_passage_or_else_at_the_words_of_the_question() {
        let text = format!("{}A zebra eats grass. {}", "é ".repeat(200_000), "word ".repeat(100_000));
        let zebra = text.find("zebra").unwrap();
        let document = Document::new("id", "title", text.clone());
        let of = |question: &str, passage| opened(&document, passage, &QuestionWords::of(question)).0;
        assert_eq!(of("grass", Some(999..2_001)), Some(999..2_001));
        for none in
            [None, Some(0..text.len()), Some(Range { start: 9, end: 3 }), Some(text.len()..usize::MAX)]
        {
            assert!(of("zebra", none.clone()).unwrap().contains(&zebra));
            assert_eq!(of("quagga", none), None);
        }
        // Of another version of the text: its characters stay whole.
        assert_eq!(of("grass", Some(1..4)), Some(0..3));
        for lit in [0..0, 0..4, zebra..zebra + 600, text.len() - 5..text.len()] {
            let shown = around(&text, lit.clone());
            assert!(text[shown.clone()].len() + 4 > MOST_TEXT, "{shown:?}");
            assert!(shown.start <= lit.start && lit.end <= shown.end, "{shown:?}");
        }
        assert_eq!((around("short", 2..3), within("short", 9..usize::MAX)), (0..5, 5..5));
        assert_eq!(within("short", Range { start: 4, end: 2 }), 4..4);
    }
}
