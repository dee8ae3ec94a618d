//! What a query is given as: checked, read as words, and encoded, as far as its ranking needs it.

use std::borrow::Cow;
use std::time::Instant;

use super::asked::Asked;
use super::encode::{Encoding, Question};
use super::plan::{Plan, RankBy};
use super::signs::Signs;
use super::words::Words;
use crate::error::{Error, InputError, Result};
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::lexical::syntax;
use crate::scan::has_direction;
use crate::store::View;

/// What a query is given as.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) enum Input<'a> {
    Text(&'a str),
    Vector(&'a [f32]),
    /// A text whose embedding is known.
    Encoded(&'a str, &'a [f32]),
}

impl Index {
    /// Questions go into the log as an encoder would read them.
    pub(super) fn log_inputs(&self, inputs: &[Input<'_>], asked: &[Asked<'_>]) {
        for question in inputs.iter().zip(asked).filter_map(|(input, asked)| question(input, asked)) {
            self.log_question(question.text);
        }
    }
}

impl ActiveModel {
    /// A query, checked and encoded as far as a ranking needs it, and how long that took.
    pub(in crate::index) fn read_input<'a>(
        &self,
        input: &Input<'a>,
        plan: &Plan<'_>,
        view: &View,
    ) -> Result<(Asked<'a>, Encoding)> {
        let started = Instant::now();
        let mut asked = self.read_inputs(std::slice::from_ref(input), plan, view)?;
        let asked = asked.pop().unwrap_or_default();
        let encoding = Encoding { time: started.elapsed(), by: asked.encoder };
        Ok((asked, encoding))
    }

    /// As [`Self::read_input`], of several. Texts are encoded together.
    pub(super) fn read_inputs<'a>(
        &self,
        inputs: &[Input<'a>],
        plan: &Plan<'_>,
        view: &View,
    ) -> Result<Vec<Asked<'a>>> {
        let words_help = self.words_help(plan.encoder);
        let analysis = self.analysis();
        let mut all = Vec::with_capacity(inputs.len());
        for input in inputs {
            let clauses = match *input {
                Input::Vector(_) => Vec::new(),
                Input::Text(text) | Input::Encoded(text, _) => syntax::parse(text),
            };
            let mut signs = Signs::of_clauses(&clauses);
            let by = match plan.by {
                RankBy::Best if !view.is_lexical() || !words_help && signs.is_empty() => RankBy::Dense,
                by => by,
            };
            let mut ignored = None;
            let words = match *input {
                Input::Vector(_) if !matches!(by, RankBy::Dense | RankBy::Best) => {
                    return Err(InputError::NoWords.into());
                }
                Input::Vector(_) | Input::Encoded(..) if plan.encoder.is_some() => {
                    let call = "a query that is an embedding";
                    return Err(InputError::InapplicableOption { option: "encoder", call }.into());
                }
                Input::Vector(vector) => {
                    self.check_vector(vector)?;
                    None
                }
                Input::Text(text) | Input::Encoded(text, _) => {
                    if let Input::Encoded(_, vector) = input {
                        self.check_vector(vector)?;
                    }
                    match by {
                        _ if text.trim().is_empty() => return Err(InputError::EmptyQuery.into()),
                        RankBy::Dense => None,
                        RankBy::Lexical | RankBy::Hybrid(_) => Some(Words::parse(text, &clauses, analysis)?),
                        RankBy::Best => match Words::parse(text, &clauses, analysis) {
                            // In this mode signs that cannot be heeded are read as text.
                            Err(Error::Input(
                                why @ (InputError::OnlyExclusions | InputError::TooManySigned { .. }),
                            )) => {
                                ignored = Some(why.to_string());
                                words_help.then(|| Words::plain(text, analysis)).transpose()?
                            }
                            words => Some(words?),
                        },
                    }
                }
            };
            let vector = match *input {
                Input::Vector(vector) | Input::Encoded(_, vector) => Cow::Borrowed(vector),
                Input::Text(_) => Cow::default(),
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
            all.push(Asked { vector, words, signs, note, encoder: None });
        }
        if plan.by == RankBy::Lexical {
            return Ok(all);
        }
        let texts = inputs.iter().zip(&all).filter(|(input, _)| matches!(input, Input::Text(_)));
        let questions: Vec<_> = texts.filter_map(|(input, asked)| question(input, asked)).collect();
        if !questions.is_empty() {
            let mut encoded = self.encode_questions(&questions, plan.encoder)?.into_iter();
            for (asked, _) in all.iter_mut().zip(inputs).filter(|(_, input)| matches!(input, Input::Text(_)))
            {
                let (vector, encoder) = encoded.next().unzip();
                asked.vector = Cow::Owned(vector.unwrap_or_default());
                asked.encoder = encoder;
            }
        }
        Ok(all)
    }

    pub(in crate::index) fn check_vector(&self, vector: &[f32]) -> Result<()> {
        let expected = self.model().indexer.dim();
        if vector.len() != expected {
            return Err(InputError::Dimension { found: vector.len(), expected }.into());
        }
        if has_direction(vector) { Ok(()) } else { Err(InputError::BadVector.into()) }
    }
}

/// What an encoder reads of an input; nothing of an embedding.
fn question<'q>(input: &Input<'q>, asked: &'q Asked<'_>) -> Option<Question<'q>> {
    match (input, &asked.words) {
        (Input::Vector(_), _) => None,
        (Input::Text(_) | Input::Encoded(..), Some(words)) => Some(words.into()),
        (Input::Text(text) | Input::Encoded(text, _), None) => Some((*text).into()),
    }
}
