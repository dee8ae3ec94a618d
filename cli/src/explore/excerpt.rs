//! The part of a text that a hit shows, with the words of the question in it marked.

use std::ops::Range;

use ehi::Hit;
use ehi::search::QuestionWords;
use serde::Serialize;

use crate::text::floor;

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
