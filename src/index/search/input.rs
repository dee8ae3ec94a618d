//! The input of a query: checked, read as words, and encoded, as its ranking requires.

use super::asked::Asked;
use super::fusion::Fusion;
use super::plan::Plan;
use super::request::{RankBy, SearchRequest};
use super::signs::Signs;
use super::words::Words;
use crate::error::{Error, InputError, Result};
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::lexical::syntax;
use crate::scan::{Similarity, has_direction, norm};
use crate::store::View;

/// The input of a search: a text, an embedding, or both.
#[derive(Clone, Copy, Debug)]
pub enum Question<'a> {
    /// A text, which is encoded.
    Text(&'a str),
    /// An embedding, `[dim]` f32, finite, of norm 2^-14 or more; it need not have unit norm. It has no words
    /// to rank by.
    Vector(&'a [f32]),
    /// A text with its embedding: nothing is encoded. The embedding is that of the question without signs and
    /// excluded words ([`plain_question`](crate::search::plain_question)).
    Encoded(&'a str, &'a [f32]),
}

impl<'a> From<&'a str> for Question<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a &str> for Question<'a> {
    fn from(text: &'a &str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Question<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [f32]> for Question<'a> {
    fn from(vector: &'a [f32]) -> Self {
        Self::Vector(vector)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Question<'a> {
    fn from(vector: &'a [f32; N]) -> Self {
        Self::Vector(vector)
    }
}

impl<'a> From<&'a Vec<f32>> for Question<'a> {
    fn from(vector: &'a Vec<f32>) -> Self {
        Self::Vector(vector)
    }
}

impl Index {
    /// Questions are logged as an encoder would read them.
    pub(super) fn log(&self, request: &SearchRequest, asked: &[Asked<'_>]) {
        for text in asked.iter().filter_map(Asked::encoder_text).filter(|_| !request.unlogged) {
            self.log_question(text.text);
        }
    }
}

impl ActiveModel {
    /// A question, checked and encoded as its ranking requires.
    pub(in crate::index) fn read_question<'a>(
        &self,
        question: Question<'a>,
        plan: &Plan<'_>,
        view: &View,
    ) -> Result<Asked<'a>> {
        let mut asked = self.read_questions(&[question], plan, view)?;
        Ok(asked.pop().unwrap_or_default())
    }

    /// As [`Self::read_question`], for several questions. Texts are encoded together.
    pub(super) fn read_questions<'a>(
        &self,
        questions: &[Question<'a>],
        plan: &Plan<'_>,
        view: &View,
    ) -> Result<Vec<Asked<'a>>> {
        let (mode, encoder) = (plan.request.mode, plan.request.encoder);
        let words_help = self.words_help(encoder);
        let (analysis, dim) = (self.analysis(), self.model().dim());
        let has_encoder = self.model().has_encoder();
        let mut all = Vec::with_capacity(questions.len());
        for question in questions {
            let (text, vector) = match *question {
                Question::Text(text) => (Some(text), None),
                Question::Vector(vector) => (None, Some(vector)),
                Question::Encoded(text, vector) => (Some(text), Some(vector)),
            };
            if text.is_none() && !matches!(mode, RankBy::Best | RankBy::Dense) {
                return Err(InputError::NoWords.into());
            }
            if vector.is_some() && encoder.is_some() {
                let call = "a query that is an embedding";
                return Err(InputError::InapplicableOption { option: "encoder", call }.into());
            }
            vector.map_or(Ok(()), |vector| check_vector(vector, dim, self.similarity))?;
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Err(InputError::EmptyQuery.into());
            }
            // By words alone: there is nothing else to compare a text by.
            let by_words = vector.is_none() && !has_encoder;
            if by_words {
                plan.request.check_by_words(mode, view)?;
            }
            let clauses = text.map(syntax::parse).unwrap_or_default();
            let mut signs = Signs::of_clauses(&clauses);
            let mut ignored = None;
            let words = match (mode, text) {
                (_, None) | (RankBy::Dense, _) => None,
                (RankBy::Best, _) if !view.is_lexical() || !words_help && !by_words && signs.is_empty() => {
                    None
                }
                (RankBy::Best, Some(text)) if !by_words => match Words::parse(text, &clauses, analysis) {
                    // In this mode, signs that cannot be honoured are read as text.
                    Err(Error::Input(
                        why @ (InputError::OnlyExclusions | InputError::TooManySigned { .. }),
                    )) => {
                        ignored = Some(why.to_string());
                        words_help.then(|| Words::plain(text, analysis)).transpose()?
                    }
                    words => Some(words?),
                },
                (_, Some(text)) => Some(Words::parse(text, &clauses, analysis)?),
            };
            if words.is_none() && !signs.is_empty() && ignored.is_none() {
                ignored = Some(match view.is_lexical() {
                    true => "a search by embeddings alone (mode `dense`) looks for no words".to_owned(),
                    false => {
                        "the index has no words to look for; `ehi compact --lexical` adds them".to_owned()
                    }
                });
            }
            signs.ignored = ignored.is_some();
            let note = ignored.map(|why| format!("`+`, `-` and quotes were read as text: {why}"));
            let by = match mode {
                RankBy::Best if by_words => RankBy::Lexical,
                RankBy::Best if words.is_some() => RankBy::Hybrid(Fusion::Learned),
                RankBy::Best => RankBy::Dense,
                by => by,
            };
            let vector = vector.unwrap_or_default().into();
            all.push(Asked { by, text, vector, words, signs, note, ..Asked::default() });
        }
        let is_unread = |asked: &Asked<'_>| asked.vector.is_empty() && asked.by != RankBy::Lexical;
        let texts = all.iter().filter(|asked| is_unread(asked)).filter_map(Asked::encoder_text);
        let texts: Vec<_> = texts.collect();
        if !texts.is_empty() {
            let encoded = self.encode_questions(&texts, encoder)?;
            for (asked, (vector, by)) in all.iter_mut().filter(|asked| is_unread(asked)).zip(encoded) {
                (asked.vector, asked.encoder) = (vector.into(), Some(by));
            }
        }
        Ok(all)
    }
}

/// The scores of larger vectors could be infinite: numbers of stored ones are at most 65,504.
const MOST_NORM: f64 = 1e18;

/// Whether an embedding can be compared with those of an index of this width and similarity.
pub(in crate::index) fn check_vector(
    vector: &[f32],
    expected: usize,
    similarity: Similarity,
) -> std::result::Result<(), InputError> {
    if vector.len() != expected {
        return Err(InputError::Dimension { found: vector.len(), expected });
    }
    let is_usable = match similarity {
        Similarity::Cosine => has_direction(vector),
        Similarity::DotProduct | Similarity::Manhattan => norm(vector) < MOST_NORM,
    };
    if is_usable { Ok(()) } else { Err(InputError::BadVector) }
}
