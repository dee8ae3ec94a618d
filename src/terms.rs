//! Words that distinguish groups of texts: "what is this leaf about?"
//!
//! [`TermCounts`] receives one text at a time with its group, and keeps only counts. It depends on neither
//! disk nor model, so that a corpus in memory and one in a store are read the same way.

mod stop_words;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::characters::words;
use stop_words::STOP_WORDS;

/// Terms kept while counting; above twice this number, the rarest ones are dropped.
///
/// A term that is rare in the whole corpus cannot distinguish a group, and 100,000 is more than the number of
/// words that occur in three texts of a large corpus.
const MOST_TERMS: usize = 100_000;
/// Minimum number of texts of a group that contain a term; a word of one text says nothing about the others.
const FEWEST_TEXTS: u32 = 2;
/// Weight of the prior, in mentions: how much evidence a group needs.
const PRIOR_MENTIONS: f64 = 500.0;

/// In characters; longer runs are sequences, hashes and addresses.
const LONGEST: usize = 40;

/// Whether a lower-case word is an English one without a subject of its own.
pub(crate) fn is_stop_word(lower: &str) -> bool {
    STOP_WORDS.binary_search(&lower).is_ok()
}

/// The words of a lower-case text: runs of letters and digits, without numbers, single ASCII characters and
/// English stop words. In scripts without spaces between words, these are whole phrases.
fn tokens(lower: &str) -> impl Iterator<Item = &str> {
    words(lower).map(|(_, word)| word).filter(|word| {
        word.len() > 1
            && word.chars().any(char::is_alphabetic)
            && word.chars().nth(LONGEST).is_none()
            && !is_stop_word(word)
    })
}

/// A word more frequent in a leaf's documents than in the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeafTerm {
    /// Lower case.
    pub term: String,
    /// Log-odds relative to the other leaves, in standard deviations; positive.
    pub weight: f64,
    /// Documents of the leaf that contain it.
    pub documents: u32,
}

/// Number of texts that contain a term, per group.
#[derive(Clone, Debug, Default)]
struct Counts {
    total: u64,
    /// Group and texts, ascending groups, no zeros.
    groups: Vec<(u32, u32)>,
}

/// Counts of terms in groups of texts.
///
/// A text counts a term once, however often it occurs, so that one long document does not dominate its leaf.
///
/// Memory: at most 200,000 terms, each with its bytes (at most 40 characters), a fixed 40 bytes or so, and 8
/// bytes for each group that uses it; the texts themselves are not kept.
#[derive(Clone, Debug)]
pub(crate) struct TermCounts {
    terms: HashMap<Box<str>, Counts>,
    /// Texts of each group.
    texts: Vec<u32>,
    most_terms: usize,
}

impl TermCounts {
    /// No texts yet in any of `groups` groups, which are numbered from 0.
    pub(crate) fn new(groups: usize) -> Self {
        Self { terms: HashMap::new(), texts: vec![0; groups], most_terms: MOST_TERMS }
    }

    /// Counts a text in a group; a text in several groups is given once for each.
    ///
    /// # Panics
    /// If the group does not exist.
    pub(crate) fn add(&mut self, group: usize, text: &str) {
        self.texts[group] += 1;
        let lower = text.to_lowercase();
        let said: HashSet<&str> = tokens(&lower).collect();
        for term in said {
            let counts = match self.terms.get_mut(term) {
                Some(counts) => counts,
                None => self.terms.entry(term.into()).or_default(),
            };
            counts.total += 1;
            let group = group as u32;
            match counts.groups.binary_search_by_key(&group, |entry| entry.0) {
                Ok(at) => counts.groups[at].1 += 1,
                Err(at) => counts.groups.insert(at, (group, 1)),
            }
        }
        if self.terms.len() > 2 * self.most_terms {
            self.forget_the_rarest();
        }
    }

    /// The most distinctive terms of each group, best first and at most `most`; fewer, or none, if a group
    /// has no distinctive terms.
    ///
    /// The weight is the log-odds of the term in the group against all other groups, smoothed by an
    /// informative Dirichlet prior (the whole corpus) and divided by its standard deviation: a word must be
    /// both more frequent here and frequent enough to be significant (Monroe, Colaresi and Quinn, *Fightin'
    /// Words*, 2008, section 3.5.1). Equal weights keep alphabetical order.
    pub(crate) fn distinctive(&self, most: usize) -> Vec<Vec<LeafTerm>> {
        let mut mentions = vec![0f64; self.texts.len()];
        for counts in self.terms.values() {
            for &(group, texts) in &counts.groups {
                mentions[group as usize] += f64::from(texts);
            }
        }
        let all: f64 = mentions.iter().sum();
        let mut found: Vec<Vec<LeafTerm>> = vec![Vec::new(); self.texts.len()];
        for (term, counts) in &self.terms {
            let prior = PRIOR_MENTIONS * counts.total as f64 / all;
            for &(group, texts) in &counts.groups {
                let group = group as usize;
                if texts < FEWEST_TEXTS.min(self.texts[group]) {
                    continue;
                }
                let here = f64::from(texts) + prior;
                let elsewhere = counts.total as f64 - f64::from(texts) + prior;
                let odds_here = here / (mentions[group] + PRIOR_MENTIONS - here);
                let odds_elsewhere = elsewhere / (all - mentions[group] + PRIOR_MENTIONS - elsewhere);
                let weight = (odds_here / odds_elsewhere).ln() / (1.0 / here + 1.0 / elsewhere).sqrt();
                // Not finite if the corpus has only one word.
                if weight.is_finite() && weight > 0.0 {
                    found[group].push(LeafTerm { term: term.to_string(), weight, documents: texts });
                }
            }
        }
        for terms in &mut found {
            terms.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.term.cmp(&b.term)));
            terms.truncate(most);
        }
        found
    }

    fn forget_the_rarest(&mut self) {
        let mut totals: Vec<u64> = self.terms.values().map(|counts| counts.total).collect();
        let at = totals.len() - self.most_terms;
        let (_, &mut least, _) = totals.select_nth_unstable(at);
        // Strictly more than the boundary: ties at the boundary do not affect the limit.
        self.terms.retain(|_, counts| counts.total > least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(terms: &[LeafTerm]) -> Vec<&str> {
        terms.iter().map(|term| term.term.as_str()).collect()
    }

    #[test]
    fn words_without_numbers_letters_and_stop_words() {
        let of = |text: &'static str| tokens(text).collect::<Vec<&str>>();
        assert_eq!(of("the hiv-1 tat protein, 12% of il2rα's"), ["hiv", "tat", "protein", "il2rα"]);
        assert_eq!(of("größe é 字"), ["größe", "é", "字"]);
        assert!(of("  a b 3.14 isn't won't").is_empty());
        let longest = "x".repeat(LONGEST);
        assert_eq!(tokens(&format!("{longest} {longest}y")).collect::<Vec<_>>(), [longest.as_str()]);
    }

    #[test]
    fn words_of_a_group_alone_come_first_and_common_ones_not_at_all() {
        let mut counts = TermCounts::new(3);
        for _ in 0..20 {
            counts.add(0, "The virus infects cells, and the virus spreads");
            counts.add(1, "Stars form in cells of cold gas");
        }
        counts.add(0, "virus once");
        let found = counts.distinctive(3);
        assert_eq!(names(&found[0]), ["virus", "infects", "spreads"]);
        assert_eq!(names(&found[1]), ["cold", "form", "gas"]);
        assert_eq!(found[0][0].documents, 21);
        assert!(found[0][0].weight > found[0][1].weight);
        assert!(found[2].is_empty());
        let all = counts.distinctive(100);
        assert!(!all.iter().flatten().any(|term| term.term == "once" || term.term == "the"), "{all:?}");
    }

    #[test]
    fn the_weight_is_the_one_of_the_paper() {
        let mut counts = TermCounts::new(2);
        for text in ["alpha beta", "alpha gamma"] {
            counts.add(0, text);
        }
        for text in ["beta gamma", "beta delta", "alpha delta"] {
            counts.add(1, text);
        }
        // y = 2 of 4 mentions here, 1 of 6 elsewhere; prior 500 * 3 / 10 = 150.
        let expected = {
            let (here, elsewhere) = (152.0f64, 151.0f64);
            let delta = (here / (504.0 - here)).ln() - (elsewhere / (506.0 - elsewhere)).ln();
            delta / (1.0 / here + 1.0 / elsewhere).sqrt()
        };
        let found = counts.distinctive(10);
        let alpha = found[0].iter().find(|term| term.term == "alpha").unwrap();
        assert!((alpha.weight - expected).abs() < 1e-12, "{} and {expected}", alpha.weight);
    }

    #[test]
    fn a_text_alone_in_its_group_may_speak() {
        let mut counts = TermCounts::new(2);
        counts.add(0, "solitary");
        counts.add(1, "crowd crowd");
        counts.add(1, "crowd lonely");
        let found = counts.distinctive(5);
        assert_eq!(names(&found[0]), ["solitary"]);
        assert_eq!(names(&found[1]), ["crowd"]);
    }

    #[test]
    fn nothing_in_gives_nothing_out() {
        assert_eq!(TermCounts::new(2).distinctive(5), [Vec::new(), Vec::new()]);
        assert!(TermCounts::new(0).distinctive(5).is_empty());
        let mut one_word = TermCounts::new(1);
        one_word.add(0, "word");
        one_word.add(0, "the of ... 12");
        assert_eq!(one_word.distinctive(5), [Vec::new()]);
    }

    /// A corpus of noise must not make the counts grow without bound.
    #[test]
    fn rare_terms_are_let_go_above_the_bound() {
        let mut counts = TermCounts::new(1);
        counts.most_terms = 50;
        for number in 0..1_000 {
            counts.add(0, &format!("steady noise{number}x"));
        }
        assert!(counts.terms.len() <= 101, "{}", counts.terms.len());
        assert_eq!(counts.terms["steady"].total, 1_000);
    }
}
