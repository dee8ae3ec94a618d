//! The query syntax of the search box: words, and a few signs before them.
//!
//! | Typed | Meaning |
//! |---|---|
//! | `word` | rows that hold it rank higher |
//! | `+word` | only rows that hold it |
//! | `-word` | no row that holds it |
//! | `"some words"`, `+"some words"` | only rows that hold these words side by side |
//! | `-"some words"` | no row that does |
//!
//! A sign counts at the start or after white space, directly before a letter, a digit, one of `$€£¥#@`
//! followed by one of these, a symbol beyond ASCII such as an emoji or an arrow, or a closed quote; quotes
//! may be typographic. `-` does not count if it makes a negative number (`-20`, `-$5`) or an option of one
//! letter (`-u`); `-"20"` excludes the number. Full-width `＋`, `－` and `＂` are the same signs. Everything
//! else is plain text, so `COVID-19`, `C++`, `a - b` and `5" pipe` are taken literally, and every text is
//! valid.

use crate::characters::is_symbol;

/// Quotes at either end of a phrase.
const QUOTES: [char; 5] = ['"', '\u{ff02}', '\u{201c}', '\u{201d}', '\u{201e}'];
/// Plain and full-width, as keyboards for Chinese and Japanese type them.
const PLUS: [char; 2] = ['+', '\u{ff0b}'];
const MINUS: [char; 2] = ['-', '\u{ff0d}'];
/// What a word may begin with in addition to a letter or a digit.
const BEFORE_WORDS: &str = "$\u{20ac}\u{a3}\u{a5}#@";
/// The ones that may stand between a sign and its number.
const CURRENCIES: &str = "$\u{20ac}\u{a3}\u{a5}";

/// A number, as in `+\u{221e}`.
const INFINITY: char = '\u{221e}';

/// How a clause affects the rows that contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClauseRole {
    /// They match.
    Optional,
    /// Only they match.
    Required,
    /// They do not match.
    Excluded,
}

/// A part of a query with one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Its effect on rows.
    pub role: ClauseRole,
    /// Without sign and quotes; never only white space.
    pub text: String,
    /// Whether its words must be adjacent.
    pub phrase: bool,
}

/// The clauses of a query: all its plain text in one [`ClauseRole::Optional`] clause at the position of its
/// first part, and the others in order.
pub fn parse(query: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = Vec::new();
    let mut plain: Vec<&str> = Vec::new();
    let mut place = 0;
    let mut rest = query.trim_start();
    // Text right after a closed quote does not follow white space.
    let mut apart = true;
    while !rest.is_empty() {
        let (clause, after) = match operator(rest).filter(|_| apart) {
            Some((clause, after)) => (Some(clause), after),
            None => {
                let (word, after) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
                if plain.is_empty() {
                    place = clauses.len();
                }
                plain.push(word);
                (None, after)
            }
        };
        clauses.extend(clause);
        rest = after.trim_start();
        apart = rest.len() < after.len();
    }
    if !plain.is_empty() {
        clauses.insert(place, Clause { role: ClauseRole::Optional, text: plain.join(" "), phrase: false });
    }
    clauses
}

/// What an encoder reads: the texts of all clauses that are not excluded, separated by spaces.
pub fn plain_text(clauses: &[Clause]) -> String {
    let wanted = clauses.iter().filter(|clause| clause.role != ClauseRole::Excluded);
    wanted.map(|clause| clause.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// The words of a plain clause that look like signed ones: negative numbers and options of one letter.
pub fn doubtful(plain: &str) -> impl Iterator<Item = &str> {
    let is = |word: &str| word.strip_prefix(MINUS).is_some_and(is_number_or_option);
    plain.split_whitespace().filter(move |word| is(word))
}

/// The clause at the start of a text, if it begins with a sign or a quote that counts, and the rest.
fn operator(text: &str) -> Option<(Clause, &str)> {
    let (role, operand) = match (text.strip_prefix(PLUS), text.strip_prefix(MINUS)) {
        (Some(operand), _) => (ClauseRole::Required, operand),
        (_, Some(operand)) => (ClauseRole::Excluded, operand),
        _ if text.starts_with(QUOTES) => (ClauseRole::Required, text),
        _ => return None,
    };
    if let Some(quoted) = operand.strip_prefix(QUOTES) {
        let (inside, after) = quoted.split_once(QUOTES)?;
        let inside = inside.trim();
        let clause = Clause { role, text: inside.to_owned(), phrase: true };
        return (!inside.is_empty()).then_some((clause, after));
    }
    let word = operand.strip_prefix(|c| BEFORE_WORDS.contains(c)).unwrap_or(operand);
    let first = word.chars().next().filter(|first| !first.is_whitespace()).or(operand.chars().next())?;
    let counts = first.is_alphanumeric() || !first.is_ascii() && is_symbol(first);
    if !counts || first == INFINITY {
        return None;
    }
    let (word, after) = operand.split_at(operand.find(char::is_whitespace).unwrap_or(operand.len()));
    if role == ClauseRole::Excluded && is_number_or_option(word) {
        return None;
    }
    Some((Clause { role, text: word.to_owned(), phrase: false }, after))
}

/// Whether a word after `-` is more likely a negative number, or an option of a program, than an excluded
/// word.
fn is_number_or_option(word: &str) -> bool {
    let number = word.strip_prefix(|c| CURRENCIES.contains(c)).unwrap_or(word);
    let mut letters = word.trim_end_matches(['.', ',', ';', ':', '?', '!', ')', '"', '\'']).chars();
    number.starts_with(|c: char| c.is_numeric() || c == INFINITY)
        || letters.next().is_some_and(|first| first.is_ascii_alphabetic()) && letters.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// In the form `o:text`, `+:text`, `-:text`, with quotes around phrases.
    fn written(query: &str) -> Vec<String> {
        let clause = |clause: Clause| {
            let role = match clause.role {
                ClauseRole::Optional => 'o',
                ClauseRole::Required => '+',
                ClauseRole::Excluded => '-',
            };
            let quote = if clause.phrase { "\"" } else { "" };
            format!("{role}:{quote}{}{quote}", clause.text)
        };
        parse(query).into_iter().map(clause).collect()
    }

    #[test]
    fn plain_text_stays_plain() {
        for plain in [
            "lung cancer",
            "COVID-19",
            "C++",
            "a - b",
            "--x",
            "+",
            "-",
            "a + b",
            "\"",
            "5\" pipe",
            "a\"b c\"d",
            "-(x)",
            "+-x",
            "x+",
            "x-",
            "-\u{301}x",
            "−5",
            "\"open",
            "-\"open",
            "+\"",
            "\"\"",
            "- \"",
            "-'x'",
            "+$",
            "-# x",
            "\u{201c}open",
            "a -",
            "-5",
            "storage at -20 degrees",
            "-0.5% -\u{bd}",
            "-\u{20ac}5 -$100",
            "git stash -u",
            "-u.",
            "-X, -y",
            "+\u{221e}",
        ] {
            assert_eq!(written(plain), [format!("o:{plain}")], "{plain}");
            assert_eq!(plain_text(&parse(plain)), plain);
        }
        for nothing in ["", " ", "\n\t\u{3000}"] {
            assert!(parse(nothing).is_empty());
        }
        assert_eq!(written("  two \n  words "), ["o:two words"]);
    }

    #[test]
    fn signs_and_quotes_count_before_words() {
        assert_eq!(written("+mouse"), ["+:mouse"]);
        assert_eq!(written("-mouse"), ["-:mouse"]);
        assert_eq!(written("a +mouse b -cat c"), ["o:a b c", "+:mouse", "-:cat"]);
        assert_eq!(written("+COVID-19 -mRNA +été -猫"), ["+:COVID-19", "-:mRNA", "+:été", "-:猫"]);
        assert_eq!(written("+$100 -#1 -€uro +@me +5"), ["+:$100", "-:#1", "-:€uro", "+:@me", "+:5"]);
        assert_eq!(written("+🎉 -☃ -C++ -é"), ["+:🎉", "-:☃", "-:C++", "-:é"]);
        assert_eq!(written("-\"20\" -\"u\""), ["-:\"20\"", "-:\"u\""]);
        assert_eq!(
            written("\u{201c}lung cancer\u{201d} -\u{201e}a b\u{201c}"),
            ["+:\"lung cancer\"", "-:\"a b\""]
        );
        assert_eq!(written("\"lung cancer\""), ["+:\"lung cancer\""]);
        assert_eq!(written("+\"lung cancer\" -\"side effect\""), ["+:\"lung cancer\"", "-:\"side effect\""]);
        assert_eq!(
            written("therapy of \" lung  cancer \" in mice"),
            ["o:therapy of in mice", "+:\"lung  cancer\""]
        );
        assert_eq!(written("\"a - b\""), ["+:\"a - b\""]);
        // Text right after a quote follows it.
        assert_eq!(written("\"a b\"c"), ["+:\"a b\"", "o:c"]);
        assert_eq!(written("\"a b\"-cc -dd"), ["+:\"a b\"", "o:-cc", "-:dd"]);
        // The first quote closes, and the last one has no partner.
        assert_eq!(written("\"a b\" c\""), ["+:\"a b\"", "o:c\""]);
        assert_eq!(written("+a\"b"), ["+:a\"b"]);
    }

    #[test]
    fn excluded_words_are_not_encoded() {
        assert_eq!(plain_text(&parse("a +b -cc \"d e\" -\"f g\" h")), "a h b d e");
        assert_eq!(plain_text(&parse("-aa")), "");
    }

    /// Each quote is tried once, so that a long query does not take quadratic time.
    #[test]
    fn hostile_queries_are_quick() {
        for pattern in ["\" ", "-\" ", "\"\" ", "+ ", "-x\" ", "-xx\" "] {
            assert!(parse(&pattern.repeat(200_000)).len() < 200_001);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_query(query in "([-+\" ]|a|é|\\PC|\\s){0,40}") {
            let clauses = parse(&query);
            let mut plain = 0;
            for clause in &clauses {
                prop_assert!(!clause.text.trim().is_empty());
                plain += usize::from(clause.role == ClauseRole::Optional);
            }
            prop_assert!(plain <= 1);
            // No letter is lost or added.
            let letters = |text: &str| {
                let mut letters: Vec<_> = text.chars().filter(|c| c.is_alphanumeric()).collect();
                letters.sort_unstable();
                letters
            };
            let all: String = clauses.iter().map(|clause| clause.text.as_str()).collect();
            prop_assert_eq!(letters(&all), letters(&query));
            // Without signs and quotes, everything is plain.
            if !query.contains(['-', '+']) && !query.contains(QUOTES) {
                let words: Vec<_> = query.split_whitespace().collect();
                prop_assert_eq!(plain_text(&clauses), words.join(" "));
            }
        }
    }
}
