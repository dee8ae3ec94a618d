//! The meaning of the signs in a question.

use std::fmt;

use serde::Serialize;

use crate::characters::{is_mark, is_symbol};
use crate::lexical::syntax::{self, Clause, ClauseRole};

/// What a question requires of hits and excludes from them, with `+`, `-` and quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Signs {
    /// Words that every hit must contain: `+word`.
    pub required: Vec<String>,
    /// Phrases that every hit must contain: `"some words"`.
    pub phrases: Vec<String>,
    /// Words that no hit may contain: `-word`.
    pub excluded: Vec<String>,
    /// Phrases that no hit may contain: `-"some words"`.
    pub excluded_phrases: Vec<String>,
    /// Words with `-` that were read literally, as negative numbers (`-20`) or as options of a program
    /// (`-u`): they exclude nothing. `-"20"` excludes a number.
    pub as_text: Vec<String>,
    /// Whether signs were read as plain text, as in a search by embeddings alone.
    pub ignored: bool,
}

impl Signs {
    /// The signs of a question. A sign before punctuation alone has no meaning, and is left out.
    pub fn of(question: &str) -> Self {
        Self::of_clauses(&syntax::parse(question))
    }

    pub(super) fn of_clauses(clauses: &[Clause]) -> Self {
        let mut signs = Self::default();
        let says = |text: &str| {
            text.contains(|c: char| c.is_alphanumeric() || is_mark(c) || !c.is_ascii() && is_symbol(c))
        };
        for clause in clauses.iter().filter(|clause| says(&clause.text)) {
            match (clause.role, clause.phrase) {
                (ClauseRole::Optional, _) => {
                    signs.as_text.extend(syntax::doubtful(&clause.text).map(str::to_owned));
                    continue;
                }
                (ClauseRole::Required, false) => &mut signs.required,
                (ClauseRole::Required, true) => &mut signs.phrases,
                (ClauseRole::Excluded, false) => &mut signs.excluded,
                (ClauseRole::Excluded, true) => &mut signs.excluded_phrases,
            }
            .push(clause.text.clone());
        }
        signs
    }

    /// Whether the question requires nothing and excludes nothing.
    pub fn is_empty(&self) -> bool {
        let Self { required, phrases, excluded, excluded_phrases, as_text: _, ignored: _ } = self;
        [required, phrases, excluded, excluded_phrases].into_iter().all(Vec::is_empty)
    }
}

/// As "required: a, "b c"; excluded: d; read as text: -5"; empty if there are no signs.
impl fmt::Display for Signs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            ("required", &self.required, &self.phrases),
            ("excluded", &self.excluded, &self.excluded_phrases),
            ("read as text", &self.as_text, &Vec::new()),
        ];
        let mut before = "";
        for (name, words, phrases) in all {
            let phrases = phrases.iter().map(|phrase| format!("\"{phrase}\""));
            let all: Vec<String> = words.iter().cloned().chain(phrases).collect();
            if !all.is_empty() {
                write!(f, "{before}{name}: {}", all.join(", "))?;
                before = "; ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_told_apart_and_written() {
        let signs = Signs::of("tree +leaf \"tree has -5\" -cell -\"a b\" \"...\" -20");
        let written = "required: leaf, \"tree has -5\"; excluded: cell, \"a b\"; read as text: -20";
        assert_eq!(signs.to_string(), written);
        assert_eq!((signs.is_empty(), signs.ignored), (false, false));
        for none in ["", "plain", "10-20", "C++ - a", "\"?!\"", "\"…\""] {
            assert!(Signs::of(none).is_empty() && Signs::of(none).to_string().is_empty(), "{none}");
        }
        let doubtful = Signs::of("git stash -u at -20 degrees");
        assert!(doubtful.is_empty() && doubtful.as_text == ["-u", "-20"]);
        assert_eq!(Signs::of("x -cell").to_string(), "excluded: cell");
    }
}
