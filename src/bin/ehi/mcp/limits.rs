//! What a call may ask for and what an answer may hold.

use std::ops::RangeInclusive;

use ehi::search::DEFAULT_K;

use crate::cut::floor;
use crate::failure::Failure;

/// A request, in bytes.
pub const REQUEST: usize = 8 << 20;
/// Calls that are at work or wait for one of the threads.
pub const CALLS: usize = 64;
/// Bytes of an answer of `search`, about; the hits behind it are for the next call.
pub const ANSWER: usize = 64 << 10;
/// Bytes of a question.
pub const QUESTION: usize = 16 << 10;
/// Bytes of a filter as JSON.
pub const FILTER: usize = 16 << 10;
/// Bytes of a title in a list.
pub const TITLE: usize = 300;
/// Bytes of metadata as JSON in a list; what is larger has to be asked for.
pub const METADATA: usize = 2_000;
/// Hits of a call.
pub const HITS: usize = 50;
/// Hits of a question, by all calls.
pub const ALL_HITS: usize = 500;
/// Bytes of a hit's passage.
pub const PASSAGE: usize = 4_000;
/// Bytes of a document by one call.
pub const PART: usize = 64 << 10;
/// Documents of an insert, ids of a delete.
pub const BATCH: usize = 1_000;
/// Documents that are listed as resources.
pub const LISTED: usize = 1_000;

/// Hits where a call does not say how many.
pub fn default_hits() -> usize {
    DEFAULT_K
}

/// A number that a call gave.
///
/// # Errors
/// One out of range.
pub fn within(name: &str, given: usize, range: RangeInclusive<usize>) -> Result<usize, Failure> {
    match range.contains(&given) {
        true => Ok(given),
        false => {
            let (least, most) = range.into_inner();
            Err(Failure::Usage(format!("`{name}` is {given}; it is from {least} to {most}")))
        }
    }
}

/// A question that a call gave.
///
/// # Errors
/// One that is too long.
pub fn question(given: &str) -> Result<&str, Failure> {
    match given.len() <= QUESTION {
        true => Ok(given),
        false => {
            Err(Failure::Usage(format!("the question has {} bytes; ask in {QUESTION} at most", given.len())))
        }
    }
}

/// The start of a text, of whole characters; whether something was left off.
pub fn start(text: &str, most: usize) -> (&str, bool) {
    let end = floor(text, most);
    (&text[..end], end < text.len())
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
    fn numbers_out_of_range_are_refused() {
        assert_eq!(within("k", 50, 1..=50).unwrap(), 50);
        let error = within("k", 51, 1..=50).unwrap_err();
        assert_eq!(error.to_string(), "`k` is 51; it is from 1 to 50");
        assert!(within("k", 0, 1..=50).is_err());
    }
}
