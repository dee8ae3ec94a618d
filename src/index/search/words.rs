//! A question's words: their terms, the rows that match them, and their scores.
//!
//! A word of several tokens is a sequence of terms, and so are several characters of a script without spaces.
//! Required or excluded words, and phrases, are searched in the texts of the few rows that would be among the
//! best: posting lists say which rows contain the terms, but not where.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::encode::EncoderText;
use super::filter::RowFilter;
use super::plan::Plan;
use super::ties;
use crate::error::{InputError, Result};
use crate::ids::Row;
use crate::index::analysis::{Analysis, QuestionTerms};
use crate::lexical::syntax::{self, Clause, ClauseRole};
use crate::lexical::{self, Bm25, LexicalStats, Norms, QueryTerm};
use crate::progress::Stop;
use crate::scan::TopK;
use crate::store::{TermPart, View};

/// Maximum number of different terms searched for; if there are more, the rarest.
pub const MOST_TERMS: usize = 1024;

/// Maximum number of different words and phrases that a question requires or excludes.
pub const MOST_SIGNED: usize = 32;

/// The position of each term in the terms of a question that is being read.
type Places = HashMap<u32, usize>;

/// A question as terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Words {
    /// Each term once, in question order: how often it occurs in the question, and whether every hit must
    /// contain it.
    terms: Vec<(u32, u32, bool)>,
    /// What every hit must contain: terms in this order, the last of them the end of a word.
    required: Vec<Vec<u32>>,
    /// What no hit may contain.
    excluded: Vec<Vec<u32>>,
    /// What an encoder reads: everything that is not excluded, without signs.
    pub text: String,
    /// Its tokens for the encoder, if they are a by-product of finding the words.
    pub tokens: Option<Vec<u32>>,
}

impl Words {
    /// Reads a question by its clauses: `+word`, `-word`, `"a phrase"` and `-"a phrase"` as in common search
    /// boxes.
    ///
    /// # Errors
    /// [`InputError::OnlyExclusions`], [`InputError::TooManySigned`]; failures of the tokenizer.
    pub fn parse(question: &str, clauses: &[Clause], analysis: Analysis<'_>) -> Result<Self> {
        let text = syntax::plain_text(clauses);
        if text.trim().is_empty() && !question.trim().is_empty() {
            return Err(InputError::OnlyExclusions.into());
        }
        if let [Clause { role: ClauseRole::Optional, .. }] = clauses {
            return Self::plain(&text, analysis);
        }
        let (mut words, mut places) = (Self { text, ..Self::default() }, Places::new());
        for clause in clauses {
            match clause.role {
                ClauseRole::Optional => {
                    words.look_for(&mut places, &analysis.question(&clause.text)?.terms, 1, false)
                }
                ClauseRole::Required => words.require(&mut places, &clause.text, analysis)?,
                ClauseRole::Excluded => add(&mut words.excluded, analysis.sequence(&clause.text)?),
            }
            if words.required.len() + words.excluded.len() > MOST_SIGNED {
                return Err(InputError::TooManySigned { most: MOST_SIGNED }.into());
            }
        }
        Ok(words)
    }

    /// Reads a question in which signs have no meaning.
    pub fn plain(question: &str, analysis: Analysis<'_>) -> Result<Self> {
        let QuestionTerms { terms, tokens } = analysis.question(question)?;
        let mut words = Self { text: question.to_owned(), tokens, ..Self::default() };
        words.look_for(&mut Places::new(), &terms, 1, false);
        Ok(words)
    }

    fn require(&mut self, places: &mut Places, text: &str, analysis: Analysis<'_>) -> Result<()> {
        let (terms, sequence) = (analysis.question(text)?.terms, analysis.sequence(text)?);
        self.look_for(places, &terms, 1, false);
        // The single terms are required: the two characters of a pair may be on different lines.
        self.look_for(places, &sequence, 0, true);
        add(&mut self.required, sequence);
        Ok(())
    }

    fn look_for(&mut self, places: &mut Places, terms: &[u32], times: u32, required: bool) {
        for &term in terms {
            let place = *places.entry(term).or_insert_with(|| {
                self.terms.push((term, 0, false));
                self.terms.len() - 1
            });
            let own = &mut self.terms[place];
            (own.1, own.2) = (own.1 + times, own.2 || required);
        }
    }

    /// Whether texts have to be examined.
    pub fn has_sequences(&self) -> bool {
        !self.required.is_empty() || !self.excluded.is_empty()
    }
}

impl<'a> From<&'a Words> for EncoderText<'a> {
    fn from(words: &'a Words) -> Self {
        Self { text: &words.text, tokens: words.tokens.as_deref() }
    }
}

/// A word of a question with less than this share of the greatest weight does not tell passages apart.
const LEAST_WEIGHT: f32 = 0.2;

/// The first two letters of the words of a question that count: a word of a text that begins in another way
/// has none of their terms, except for a few irregular forms, so that it need not be split into terms or
/// stemmed.
struct Beginnings(Vec<[u8; 2]>);

impl Beginnings {
    fn of(question: &str, weight: impl Fn(&str) -> Result<f32>) -> Result<Self> {
        let words: Vec<(&str, f32)> =
            ascii_words(question).map(|word| Ok((word, weight(word)?))).collect::<Result<_>>()?;
        let most = words.iter().map(|&(_, weight)| weight).fold(0.0, f32::max);
        let count = words.iter().filter(|&&(_, weight)| weight >= LEAST_WEIGHT * most);
        Ok(Self(count.map(|(word, _)| beginning(word)).collect()))
    }

    /// The words of a text that begin as one of the question does, and those that are not ASCII.
    fn words_of<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        ascii_words(text).filter(|word| !word.is_ascii() || self.0.contains(&beginning(word)))
    }
}

/// Sequences of letters, digits and whatever is not ASCII.
fn ascii_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

fn beginning(word: &str) -> [u8; 2] {
    let mut bytes = word.bytes().map(|byte| byte.to_ascii_lowercase());
    [bytes.next().unwrap_or(0), bytes.next().unwrap_or(0)]
}

/// A question's terms in the parts of one view.
pub(super) struct WordSearch<'a> {
    view: &'a View,
    words: &'a Words,
    analysis: Analysis<'a>,
    parts: Vec<(TermPart<'a>, Vec<QueryTerm<'a>>)>,
    /// The terms searched for, in the order of each part's lists.
    terms: Vec<u32>,
    norms: Norms,
    k1: f32,
    /// Rows whose texts were examined, and whether they contain all that is required and nothing excluded.
    looked_at: RefCell<HashMap<Row, bool>>,
    beginnings: OnceCell<Beginnings>,
    /// The terms of words of texts, because some tokenizers are slow.
    terms_of: RefCell<HashMap<String, Vec<u32>>>,
    pub stats: LexicalStats,
    /// Time taken so far.
    pub elapsed: Duration,
}

impl<'a> WordSearch<'a> {
    /// Finds the lists and the statistics. Statistics are those of the plan, or cover all rows of the view,
    /// including dead ones until they are merged away.
    ///
    /// # Errors
    /// [`StoreError::NotLexical`](crate::store::StoreError::NotLexical), and damage.
    pub fn new(view: &'a View, words: &'a Words, analysis: Analysis<'a>, plan: &Plan<'_>) -> Result<Self> {
        let started = Instant::now();
        let (bm25, given) = (plan.bm25(), plan.request.statistics.as_deref());
        let parts = view.term_parts()?;
        let (rows, total) = match given {
            Some(given) => (given.documents(), given.total_length()),
            None => (
                parts.iter().map(|part| u64::from(part.documents())).sum(),
                parts.iter().map(|part| part.total_length).sum::<u64>(),
            ),
        };
        let average = if rows > 0 { (total as f64 / rows as f64) as f32 } else { 0.0 };
        let mut found = Vec::with_capacity(parts.len());
        for part in parts {
            let own = words
                .terms
                .iter()
                .map(|&(term, _, required)| Ok(QueryTerm { list: part.list(term)?, weight: 0.0, required }));
            let own = own.collect::<Result<Vec<_>>>()?;
            found.push((part, own));
        }
        let holding = |place: usize| match given {
            Some(given) => given.documents_with(words.terms[place].0),
            None => found.iter().map(|(_, own)| own[place].list.len() as u64).sum::<u64>(),
        };
        let mut kept: Vec<_> =
            words.terms.iter().zip(0..).map(|(term, place)| (place, term, holding(place))).collect();
        if kept.len() > MOST_TERMS {
            kept.sort_unstable_by_key(|&(_, &(term, _, required), holding)| (!required, holding, term));
            kept.truncate(MOST_TERMS);
            kept.sort_unstable_by_key(|&(place, ..)| place);
        }
        for (_, own) in &mut found {
            let weighed = kept.iter().map(|&(place, &(_, count, _), holding)| QueryTerm {
                weight: Bm25::idf(rows, holding) * count as f32,
                ..own[place]
            });
            *own = weighed.collect();
        }
        Ok(Self {
            view,
            words,
            analysis,
            terms: kept.iter().map(|&(_, &(term, ..), _)| term).collect(),
            parts: found,
            norms: Norms::new(bm25, average),
            k1: bm25.k1,
            looked_at: RefCell::default(),
            beginnings: OnceCell::new(),
            terms_of: RefCell::default(),
            stats: LexicalStats::default(),
            elapsed: started.elapsed(),
        })
    }

    /// The best rows that match and pass the filter; of each document its representative row.
    pub fn best(&mut self, k: usize, mut filter: Option<&mut RowFilter<'_>>) -> Result<Vec<(f32, Row)>> {
        let started = Instant::now();
        let mut best = TopK::new(k);
        let sequences = self.words.has_sequences();
        if !self.words.terms.is_empty() {
            for (part, terms) in &self.parts {
                let mut accept = |row: u32, _: f32| -> Result<bool> {
                    let global = Row(part.base() + row);
                    Ok(part.is_live(row)
                        && filter.as_mut().map_or(Ok(true), |filter| filter.passes(global))?
                        && (!sequences || self.has_sequences(global)?))
                };
                self.stats +=
                    lexical::search(terms, part.lengths, &self.norms, part.base(), &mut accept, &mut best)?;
            }
        }
        let sorted = ties::sorted(self.view, best)?;
        self.elapsed += started.elapsed();
        Ok(sorted)
    }

    /// The scores of representative rows of documents, ascending; `None` for one that lacks what is required
    /// or has what is excluded.
    pub fn scores(&mut self, rows: &[Row]) -> Result<Vec<Option<f32>>> {
        let started = Instant::now();
        let mut scores = Vec::with_capacity(rows.len());
        for (part, terms) in &self.parts {
            let end = part.base() as usize + part.lengths.len();
            let own = rows[scores.len()..].iter().take_while(|row| row.index() < end);
            let own: Vec<u32> = own.map(|row| row.0 - part.base()).collect();
            self.stats += lexical::score_rows(terms, part.lengths, &self.norms, &own, &mut scores)?;
        }
        if self.words.has_sequences() {
            for (score, &row) in scores.iter_mut().zip(rows) {
                if score.is_some() && !self.has_sequences(row)? {
                    *score = None;
                }
            }
        }
        self.elapsed += started.elapsed();
        Ok(scores)
    }

    /// The part that contains a row.
    fn part_of(&self, row: Row) -> Option<&(TermPart<'a>, Vec<QueryTerm<'a>>)> {
        let part = self.parts.partition_point(|(part, _)| part.base() <= row.0).checked_sub(1);
        part.map(|place| &self.parts[place])
    }

    /// The terms that a row's document contains, with their shares of its score.
    pub fn matches(&self, row: Row) -> Result<Vec<(u32, f32)>> {
        let row = self.view.head(row)?;
        let Some((part, terms)) = self.part_of(row) else { return Ok(Vec::new()) };
        let (mut found, mut score) = (Vec::new(), Vec::new());
        for (&term, own) in self.terms.iter().zip(terms) {
            score.clear();
            let own = [QueryTerm { required: true, ..*own }];
            lexical::score_rows(&own, part.lengths, &self.norms, &[row.0 - part.base()], &mut score)?;
            let score = score.first().copied().flatten();
            found.extend(score.filter(|score| *score > 0.0).map(|score| (term, score)));
        }
        Ok(found)
    }

    /// Passages of a document by how much of the question they contain, best first: the sum of each word's
    /// weight times `c (k1 + 1) / (c + k1)`, where the passage contains it c times.
    pub fn best_passages(&self, row: Row, passages: &[Row]) -> Result<Vec<(f32, Row)>> {
        let terms = self.part_of(row).map_or(&[][..], |(_, terms)| terms);
        let beginnings = match self.beginnings.get() {
            Some(beginnings) => beginnings,
            None => {
                let beginnings = Beginnings::of(&self.words.text, |word| self.weight(word))?;
                self.beginnings.get_or_init(|| beginnings)
            }
        };
        let document = self.view.document(row)?;
        let mut scored = Vec::with_capacity(passages.len());
        for &passage in passages {
            let span = self.view.span(passage)?.unwrap_or_default();
            let mut found = Vec::new();
            for word in beginnings.words_of(span.part(&document.text).unwrap_or_default()) {
                self.add_terms(word, &mut found)?;
            }
            let weight = |(term, own): (&u32, &QueryTerm<'_>)| {
                let count = found.iter().filter(|other| *other == term).count() as f32;
                own.weight * count * (self.k1 + 1.0) / (count + self.k1)
            };
            // With a k1 of 0, a word without occurrence gives 0 / 0.
            let weights = self.terms.iter().zip(terms).map(weight).filter(|weight| weight.is_finite());
            scored.push((weights.sum(), passage));
        }
        // The sort is stable: equal passages stay in text order.
        scored.sort_by(|a: &(f32, Row), b| b.0.total_cmp(&a.0));
        Ok(scored)
    }

    /// Adds the terms of a word of a text.
    fn add_terms(&self, word: &str, found: &mut Vec<u32>) -> Result<()> {
        if let Some(terms) = self.terms_of.borrow().get(word) {
            found.extend(terms);
            return Ok(());
        }
        let mut terms = Vec::new();
        // As it stands in a text, which some tokenizers tell from its beginning.
        self.analysis.list_terms(&format!(" {word}"), &Stop::default(), &mut terms)?;
        found.extend(&terms);
        self.terms_of.borrow_mut().insert(word.to_owned(), terms);
        Ok(())
    }

    /// The greatest weight of a word's terms.
    fn weight(&self, word: &str) -> Result<f32> {
        let mut terms = Vec::new();
        self.add_terms(word, &mut terms)?;
        let Some((_, own)) = self.parts.first() else { return Ok(0.0) };
        let weights = self.terms.iter().zip(own).filter(|(term, _)| terms.contains(term));
        Ok(weights.map(|(_, own)| own.weight).fold(0.0, f32::max))
    }

    /// Whether the texts of a row contain every required sequence and no excluded one.
    fn has_sequences(&self, row: Row) -> Result<bool> {
        if let Some(&known) = self.looked_at.borrow().get(&row) {
            return Ok(known);
        }
        let document = self.view.document(row)?;
        let texts = [self.analysis.sequence(&document.title)?, self.analysis.sequence(&document.text)?];
        let continues = |term: u32| self.analysis.continues(term);
        let has = |own: &Vec<u32>| texts.iter().any(|terms| holds(terms, own, continues));
        let found = self.words.required.iter().all(has) && !self.words.excluded.iter().any(has);
        self.looked_at.borrow_mut().insert(row, found);
        Ok(found)
    }
}

/// Adds a sequence unless it is empty or already present.
fn add(known: &mut Vec<Vec<u32>>, sequence: Vec<u32>) {
    // A sign before punctuation alone has no meaning.
    if !sequence.is_empty() && !known.contains(&sequence) {
        known.push(sequence);
    }
}

/// Whether terms contain a sequence that ends at the end of a word.
fn holds(terms: &[u32], sequence: &[u32], continues: impl Fn(u32) -> bool) -> bool {
    !sequence.is_empty()
        && terms.windows(sequence.len()).enumerate().any(|(start, window)| {
            let next = terms.get(start + sequence.len());
            window == sequence && !next.is_some_and(|&next| continues(next))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_whole_words() {
        // Terms from 1000 on continue the previous word.
        let continues = |term: u32| term >= 1000;
        let tokens = [1, 2, 1000, 3, 2];
        for (sequence, found) in [
            (&[1][..], true),
            (&[2, 1000], true),
            (&[2], true),
            (&[1, 2], false),
            (&[3, 2], true),
            (&[2, 3], false),
            (&[], false),
            (&[1, 2, 1000, 3, 2, 1], false),
        ] {
            assert_eq!(holds(&tokens, sequence, continues), found, "{sequence:?}");
        }
        assert!(!holds(&[2, 1000], &[2], continues));
    }
}
