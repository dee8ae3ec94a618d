//! A text as words.

use super::stop_words::STOP_WORDS;

/// In characters; longer runs are sequences, hashes and addresses.
const LONGEST: usize = 40;

/// The words of a lower-case text: runs of letters and digits, without numbers, single
/// ASCII characters and English stop words.
///
/// Scripts without spaces between words give whole phrases.
pub(super) fn tokens(lower: &str) -> impl Iterator<Item = &str> {
    lower.split(|c: char| !c.is_alphanumeric()).filter(|token| {
        token.len() > 1
            && token.chars().any(char::is_alphabetic)
            && token.chars().nth(LONGEST).is_none()
            && STOP_WORDS.binary_search(token).is_err()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<&str> {
        tokens(text).collect()
    }

    #[test]
    fn words_without_numbers_letters_and_stop_words() {
        assert_eq!(of("the hiv-1 tat protein, 12% of il2rα's"), ["hiv", "tat", "protein", "il2rα"]);
        assert_eq!(of("größe é 字"), ["größe", "é", "字"]);
        assert!(of("  a b 3.14 isn't won't").is_empty());
    }

    #[test]
    fn sequences_are_left_out() {
        let longest = "x".repeat(LONGEST);
        assert_eq!(of(&format!("{longest} {longest}y")), [longest]);
    }
}
