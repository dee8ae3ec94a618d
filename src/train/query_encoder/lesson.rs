//! Training data of a query encoder: question-like texts with their embeddings by the full encoder.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::model::{Encoder, Role};
use crate::progress::{OnProgress, Progress, Stage};
use crate::train::dataset::sentences;
use crate::train::refresh::make_unit;

/// Most characters read of a sentence.
const LONGEST_SENTENCE: usize = 400;
/// Texts encoded between two reports of progress.
const BLOCK: usize = 1_024;

/// A text with the documents that answer it, if known: as rows of a [`Lesson`]'s documents by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Question<D = u32> {
    pub text: String,
    pub positives: Vec<D>,
}

/// Texts with tokens and embeddings.
#[derive(Debug, Default)]
pub(crate) struct Lesson {
    pub tokens: Vec<Vec<u32>>,
    /// `[texts, dim]` unit rows of the full encoder.
    pub targets: Vec<f32>,
    pub positives: Vec<Vec<u32>>,
}

impl Lesson {
    /// Tokenises and encodes texts as questions.
    ///
    /// # Errors
    /// Failures of the encoder, and [`Error::Cancelled`].
    pub fn new(
        encoder: &Encoder,
        questions: Vec<Question>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self> {
        let mut lesson = Self::default();
        for block in questions.chunks(BLOCK) {
            let texts: Vec<&str> = block.iter().map(|question| question.text.as_str()).collect();
            let before = Progress::new(Stage::Questions, lesson.tokens.len(), questions.len());
            lesson.targets.extend(encoder.embed_with(&texts, Role::Query, &mut || on_progress(before))?);
            let tokens = texts.par_iter().map(|text| Ok(encoder.tokenize(text, Role::Query)?));
            lesson.tokens.extend(tokens.collect::<Result<Vec<_>>>()?);
            let done = lesson.tokens.len();
            Progress::new(Stage::Questions, done, questions.len()).tell(on_progress, Error::Cancelled)?;
        }
        make_unit(&mut lesson.targets, encoder.dim());
        lesson.positives = questions.into_iter().map(|question| question.positives).collect();
        Ok(lesson)
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// For each token of the vocabulary, the number of texts that hold it.
    pub fn frequencies(&self, vocabulary: usize) -> Vec<u32> {
        let (mut frequencies, mut last) = (vec![0; vocabulary], vec![0; vocabulary]);
        for (text, tokens) in (1u32..).zip(&self.tokens) {
            for &token in tokens {
                if std::mem::replace(&mut last[token as usize], text) != text {
                    frequencies[token as usize] += 1;
                }
            }
        }
        frequencies
    }
}

/// Up to `most` texts from documents, in random order: titles, up to half, and sentences.
pub(crate) fn of_documents<'a>(
    documents: impl Iterator<Item = &'a Document>,
    most: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<Question> {
    let (mut titles, mut others) = (Vec::new(), Vec::new());
    for document in documents {
        let (title, text) = (document.title.trim(), document.text.trim());
        if !title.is_empty() {
            titles.push(title);
        }
        let found = sentences(text);
        match found.is_empty() {
            // Too short to be split into sentences.
            true if !text.is_empty() => others.push(start(text)),
            _ => others.extend(found.into_iter().map(start)),
        }
    }
    // Many documents often share a title.
    titles.sort_unstable();
    titles.dedup();
    titles.shuffle(rng);
    others.shuffle(rng);
    titles.truncate(most.div_ceil(2).max(most.saturating_sub(others.len())));
    let room = most - titles.len().min(most);
    let texts = titles.into_iter().chain(others.into_iter().take(room));
    texts.map(|text| Question { text: text.to_owned(), positives: Vec::new() }).collect()
}

/// The first characters of a sentence, cut at a word boundary if it has one.
fn start(sentence: &str) -> &str {
    let Some((end, _)) = sentence.char_indices().nth(LONGEST_SENTENCE) else { return sentence };
    let start = &sentence[..end];
    start.rsplit_once(char::is_whitespace).map_or(start, |(words, _)| words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn titles_and_sentences_share_the_room() {
        let long = "a word and another one ".repeat(100);
        let documents = [
            Document::new(
                "1",
                "One title",
                "A sentence that is long enough to be one. And a second sentence that is long enough too.",
            ),
            Document::new("2", "One title", "short"),
            Document::new("3", "", &long),
            Document::new("4", " ", " "),
        ];
        let of = |most| {
            let mut rng = ChaCha8Rng::seed_from_u64(0);
            let mut texts: Vec<String> =
                of_documents(documents.iter(), most, &mut rng).into_iter().map(|q| q.text).collect();
            texts.sort_unstable();
            texts
        };
        let all = of(100);
        assert_eq!(all.len(), 5, "{all:?}");
        assert!(all.iter().all(|text| text.chars().count() <= LONGEST_SENTENCE && !text.ends_with(' ')));
        assert!(
            all.iter().any(|text| text == "short") && all.iter().filter(|t| *t == "One title").count() == 1
        );
        assert_eq!((of(2).len(), of(1), of(0).len()), (2, vec!["One title".to_owned()], 0));
    }

    #[test]
    fn a_token_counts_once_for_each_text() {
        let lesson = Lesson { tokens: vec![vec![1, 1, 2], vec![2, 0]], ..Lesson::default() };
        assert_eq!(lesson.frequencies(4), [1, 1, 2, 0]);
    }
}
