//! Limits of calls and of answers.

use std::ops::RangeInclusive;

use ehi::search::DEFAULT_K;
use serde::Serialize;

use crate::failure::Failure;
use crate::text::{beginning, floor};

/// Characters of `--about`. Some clients refuse all tools if a description has more than 1,024.
pub const ABOUT: usize = 500;
/// Bytes of the arguments of a call, as JSON.
pub const ARGUMENTS: usize = 8 << 20;
/// Calls that run or wait for a thread.
pub const CALLS: usize = 64;
/// Bytes of an answer as JSON.
pub const ANSWER: usize = 64 << 10;
/// Bytes of an answer reserved for fields outside its lists.
pub const REST: usize = 8 << 10;
/// Bytes of a failure that the model reads.
const FAILURE: usize = 2_000;
/// Notes of an answer, and bytes of each as JSON.
const NOTES: usize = 10;
const NOTE: usize = 400;
/// Bytes of a question.
pub const QUESTION: usize = 16 << 10;
/// Bytes of a filter as JSON.
pub const FILTER: usize = 16 << 10;
/// Bytes of a title in a list, as JSON.
pub const TITLE: usize = 300;
/// Bytes of metadata in a list, as JSON; larger metadata is left out.
pub const METADATA: usize = 2_000;
/// Hits of a call.
pub const HITS: usize = 50;
/// Hits of a question, over all calls.
pub const ALL_HITS: usize = 500;
/// Bytes of a hit's passage.
pub const PASSAGE: usize = 4_000;
/// Bytes of a document in one answer, before they are written as JSON.
pub const PART: usize = 64 << 10;
/// Fields whose values are counted in a call, and values of each.
pub const FIELDS: usize = 20;
pub const FACETS: usize = 100;
/// Documents of an insert, ids of a delete.
pub const BATCH: usize = 1_000;
/// Documents that are listed as resources.
pub const LISTED: usize = 1_000;

/// Default number of hits of a call.
pub fn default_hits() -> usize {
    DEFAULT_K
}

/// Checks a number from a call.
///
/// # Errors
/// The number is out of range.
pub fn within(name: &str, given: usize, range: RangeInclusive<usize>) -> Result<usize, Failure> {
    match range.contains(&given) {
        true => Ok(given),
        false => {
            let (least, most) = range.into_inner();
            Err(Failure::Usage(format!("`{name}` is {given}; it is from {least} to {most}")))
        }
    }
}

/// Checks a question from a call.
///
/// # Errors
/// The question is empty or too long.
pub fn question(given: &str) -> Result<&str, Failure> {
    if given.trim().is_empty() {
        return Err(Failure::Usage("`question` is empty".to_owned()));
    }
    match given.len() <= QUESTION {
        true => Ok(given),
        false => {
            Err(Failure::Usage(format!("the question has {} bytes; ask in {QUESTION} at most", given.len())))
        }
    }
}

/// The longest start of a text within `most` bytes, and whether the text was cut.
pub fn start(text: &str, most: usize) -> (&str, bool) {
    let end = floor(text, most);
    (&text[..end], end < text.len())
}

/// The longest start of a text within `most` bytes as JSON, and whether the text was cut.
pub fn start_json(text: &str, most: usize) -> (&str, bool) {
    let mut bytes = 2;
    for (place, character) in text.char_indices() {
        bytes += match character {
            '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
            '\0'..='\u{1f}' => 6,
            other => other.len_utf8(),
        };
        if bytes > most {
            return (&text[..place], true);
        }
    }
    (text, false)
}

/// Bytes of a value as JSON.
pub fn json_bytes(value: &impl Serialize) -> usize {
    // Serialization fails only for types that no answer has, such as a map without string keys.
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// The first items of a list that fit into `most` bytes as JSON, and how many were left out.
pub fn fit<T: Serialize>(mut items: Vec<T>, most: usize) -> (Vec<T>, usize) {
    let mut bytes = 2;
    let mut fits = |item: &T| {
        bytes += json_bytes(item) + 1;
        bytes <= most
    };
    let kept = items.iter().take_while(|item| fits(item)).count();
    let left = items.len() - kept;
    items.truncate(kept);
    (items, left)
}

/// The notes of an answer, bounded.
pub fn notes(given: &[String]) -> Vec<String> {
    given.iter().take(NOTES).map(|note| beginning_json(note, NOTE)).collect()
}

/// A failure as the model reads it, bounded: it may quote the model's own input.
pub fn failure(line: &str) -> String {
    beginning_json(line, FAILURE)
}

fn beginning_json(text: &str, most: usize) -> String {
    beginning(text, start_json(text, most).0.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(start("aé", 3), ("aé", false));
        assert_eq!(start("aé", 2), ("a", true));
        assert_eq!(start("é", 1), ("", true));
        assert_eq!(start("", 1), ("", false));
    }

    #[test]
    fn bytes_are_those_of_the_json() {
        for text in ["", "a\"b\\c", "\u{0}\u{1f}\n\r\t\u{8}\u{c}\u{7f}", "é漢😀\u{2028}"] {
            let bytes = json_bytes(&text);
            assert_eq!(start_json(text, bytes), (text, false));
            if !text.is_empty() {
                let (shorter, is_cut) = start_json(text, bytes - 1);
                assert!(is_cut && text.starts_with(shorter) && json_bytes(&shorter) < bytes);
            }
        }
        let items = vec!["\u{1}".repeat(10); 5];
        let (kept, left) = fit(items, 2 + 2 * 63);
        assert_eq!((kept.len(), left), (2, 3));
        assert!(json_bytes(&kept) <= 2 + 2 * 63);
    }

    #[test]
    fn notes_are_bounded() {
        assert_eq!(notes(&["a".to_owned()]), ["a"]);
        let many = notes(&vec!["\u{1}".repeat(10_000); 1_000]);
        assert!(many.len() == NOTES && json_bytes(&many) < REST, "{many:?}");
        assert!(failure(&"x".repeat(1 << 20)).len() < 2 * FAILURE);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(within("k", 50, 1..=50).unwrap(), 50);
        let error = within("k", 51, 1..=50).unwrap_err();
        assert_eq!(error.to_string(), "`k` is 51; it is from 1 to 50");
        assert!(within("k", 0, 1..=50).is_err());
    }
}
