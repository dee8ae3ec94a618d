//! How texts become terms: by the index's encoder, or by stems.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::lexical::{Analyzer, stems};
use crate::model::{Bundle, Encoder};
use crate::store::{Lexer, LexerError, Lexers, SharedLexer};

/// An analyzer with the encoder that it may need.
#[derive(Clone, Copy)]
pub(crate) struct Analysis<'a> {
    pub analyzer: Analyzer,
    pub encoder: &'a Encoder,
}

impl Analysis<'_> {
    /// The terms of a question or of a text in their order, to be looked for or compared: without
    /// punctuation, and with a gap, which equals no term, for what the encoder does not know.
    pub fn words(&self, text: &str) -> Result<Vec<u32>> {
        match self.analyzer {
            Analyzer::Tokens => Ok(self.encoder.words(text)?),
            Analyzer::Stems(language) => {
                let mut found = Vec::new();
                stems(language, text, |_, term| found.push(term));
                Ok(found)
            }
        }
    }

    /// The [terms](Self::words) of a question that are known, and its tokens where the encoder reads no
    /// others.
    pub fn question(&self, text: &str) -> Result<(Vec<u32>, Option<Vec<u32>>)> {
        if self.analyzer == Analyzer::Tokens
            && let Some(question) = self.encoder.question(text)?
        {
            return Ok((question.words, Some(question.all)));
        }
        let mut words = self.words(text)?;
        words.retain(|&token| Encoder::is_known(token));
        Ok((words, None))
    }

    /// Whether a term goes on with the word of the one before it.
    pub fn continues(&self, term: u32) -> bool {
        self.analyzer == Analyzer::Tokens && self.encoder.continues(term)
    }

    /// How the terms of a question are written.
    pub fn names(&self, question: &str) -> impl Fn(u32) -> String + use<'_> {
        let mut written: HashMap<u32, String> = HashMap::new();
        if let Analyzer::Stems(language) = self.analyzer {
            stems(language, question, |word, term| {
                written.entry(term).or_insert_with(|| word.to_owned());
            });
        }
        let encoder = self.encoder;
        move |term| written.get(&term).cloned().unwrap_or_else(|| encoder.token(term))
    }
}

impl Lexer for Analysis<'_> {
    fn terms(&self, text: &str, out: &mut Vec<u32>) -> std::result::Result<(), LexerError> {
        match self.analyzer {
            Analyzer::Tokens => {
                self.encoder.terms(text, out)?;
            }
            Analyzer::Stems(language) => stems(language, text, |_, term| out.push(term)),
        }
        Ok(())
    }
}

/// An analyzer with the model that it may need.
struct ModelLexer(Analyzer, Arc<Bundle>);

impl Lexer for ModelLexer {
    fn terms(&self, text: &str, out: &mut Vec<u32>) -> std::result::Result<(), LexerError> {
        Analysis { analyzer: self.0, encoder: self.1.model().encoder() }.terms(text, out)
    }
}

/// The lexers of an index with this model, by the code of the analyzer.
pub(super) fn lexers(bundle: Arc<Bundle>) -> Lexers {
    let tokens: SharedLexer = Arc::new(ModelLexer(Analyzer::Tokens, Arc::clone(&bundle)));
    Arc::new(move |code| match Analyzer::from_code(code)? {
        Analyzer::Tokens => Some(Arc::clone(&tokens)),
        analyzer => Some(Arc::new(ModelLexer(analyzer, Arc::clone(&bundle)))),
    })
}
