//! How texts become terms: tokens of the index's encoder or stems, and characters in scripts without spaces
//! between words.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::lexical::{Analyzer, Piece, normalised, own_term, pairs, pieces, singles, stems, unknown};
use crate::model::{Bundle, Encoder, ModelError, Token};
use crate::progress::Stop;
use crate::store::{Lexer, LexerError, Lexers};

/// The kind of terms in an index's posting lists, with the model that it may need to extract them.
#[derive(Clone, Copy)]
pub(crate) struct Analysis<'a> {
    pub analyzer: Analyzer,
    /// For tokens alone.
    pub encoder: Option<&'a Encoder>,
}

/// A searchable part of a text.
enum Found<'a> {
    /// A token of the encoder.
    Token(u32),
    /// A word with its term: that of its stem, or a term of its own if the encoder does not know the stem.
    Word(&'a str, u32),
    /// A run of adjacent characters of a script without spaces, or symbols.
    Run(&'a str),
}

/// The terms that a question or a text is searched for, and its tokens.
pub(crate) struct QuestionTerms {
    pub terms: Vec<u32>,
    /// For the encoder, if it would read the same tokens.
    pub tokens: Option<Vec<u32>>,
}

impl Analysis<'_> {
    /// The terms of a text in order, for comparison with those of another text: without punctuation, and with
    /// each character of a run on its own.
    pub fn sequence(&self, text: &str) -> Result<Vec<u32>> {
        let mut out = Vec::new();
        self.walk(text, &mut |found| match found {
            Found::Token(token) if self.is_punctuation(token) => {}
            Found::Token(term) | Found::Word(_, term) => out.push(term),
            Found::Run(run) => out.extend(singles(run).map(own_term)),
        })?;
        Ok(out)
    }

    /// The terms of a question to look up in the lists: without punctuation, and with each pair of neighbours
    /// of a run.
    pub fn question(&self, text: &str) -> Result<QuestionTerms> {
        // The encoder and this function read such a text alike.
        if self.analyzer == Analyzer::Tokens
            && text.is_ascii()
            && let Some(question) = self.encoder()?.question(text)?
        {
            return Ok(QuestionTerms { terms: question.words, tokens: Some(question.all) });
        }
        let mut terms = Vec::new();
        let tell = &mut |found: Found<'_>| match found {
            Found::Token(token) if self.is_punctuation(token) => {}
            Found::Token(term) | Found::Word(_, term) => terms.push(term),
            Found::Run(run) => {
                let before = terms.len();
                terms.extend(pairs(run).map(own_term));
                if terms.len() == before {
                    terms.push(own_term(run));
                }
            }
        };
        self.walk(text, tell)?;
        Ok(QuestionTerms { terms, tokens: None })
    }

    /// Adds the terms of a text for the posting lists. Returns the number of tokens that the encoder reads,
    /// if the text was tokenised as it is.
    pub fn list_terms(
        &self,
        text: &str,
        stop: &Stop,
        out: &mut Vec<u32>,
    ) -> std::result::Result<Option<usize>, ModelError> {
        self.walk_until(text, stop, &mut |found| match found {
            Found::Token(term) | Found::Word(_, term) => out.push(term),
            Found::Run(run) => out.extend(singles(run).chain(pairs(run)).map(own_term)),
        })
    }

    /// Whether a term continues the word of the term before it.
    pub fn continues(&self, term: u32) -> bool {
        self.analyzer == Analyzer::Tokens && self.encoder.is_some_and(|encoder| encoder.continues(term))
    }

    /// How to print the terms of a question.
    ///
    /// # Errors
    /// Failures of the tokenizer.
    pub fn names(&self, question: &str) -> Result<impl Fn(u32) -> String + use<'_>> {
        let mut written: HashMap<u32, String> = HashMap::new();
        let mut note = |word: &str, term: u32| {
            written.entry(term).or_insert_with(|| word.to_owned());
        };
        self.walk(question, &mut |found| match found {
            Found::Token(_) => {}
            Found::Word(word, term) => note(word, term),
            Found::Run(run) => singles(run).chain(pairs(run)).for_each(|own| note(own, own_term(own))),
        })?;
        let encoder = self.encoder;
        Ok(move |term| {
            written
                .get(&term)
                .cloned()
                .unwrap_or_else(|| encoder.map(|own| own.token(term)).unwrap_or_default())
        })
    }

    fn encoder(&self) -> std::result::Result<&Encoder, ModelError> {
        self.encoder.ok_or(ModelError::NoEncoder)
    }

    fn is_punctuation(&self, token: u32) -> bool {
        self.encoder.is_some_and(|encoder| encoder.is_punctuation(token))
    }

    fn walk(&self, text: &str, tell: &mut dyn FnMut(Found<'_>)) -> std::result::Result<(), ModelError> {
        self.walk_until(text, &Stop::default(), tell).map(drop)
    }

    /// Visits the parts of a text in order. Returns its number of tokens if the whole text was tokenised as
    /// it is.
    fn walk_until(
        &self,
        text: &str,
        stop: &Stop,
        tell: &mut dyn FnMut(Found<'_>),
    ) -> std::result::Result<Option<usize>, ModelError> {
        let normal = normalised(text);
        let mut tokens = None;
        for piece in pieces(&normal, matches!(self.analyzer, Analyzer::Stems(_))) {
            match (piece, self.analyzer) {
                (Piece::Characters(run), _) => tell(Found::Run(run)),
                (Piece::Text(part), Analyzer::Stems(language)) => {
                    stems(language, part, |word, term| {
                        tell(Found::Word(word, term));
                        stop.check()
                    })?;
                }
                (Piece::Text(part), Analyzer::Tokens) => {
                    let tell_token = &mut |token: Token<'_>| match token {
                        Token::Known(id) => tell(Found::Token(id)),
                        Token::Unknown(part) => unknown(part, |piece| match piece {
                            Piece::Text(word) => tell(Found::Word(word, own_term(word))),
                            Piece::Characters(run) => tell(Found::Run(run)),
                        }),
                    };
                    tokens =
                        self.encoder()?.tokenizer()?.words(part, stop, tell_token)?.filter(|_| part == text);
                }
            }
        }
        Ok(tokens)
    }
}

impl Lexer for Analysis<'_> {
    fn terms(&self, text: &str, out: &mut Vec<u32>) -> std::result::Result<(), LexerError> {
        self.list_terms(text, &Stop::default(), out)?;
        Ok(())
    }
}

/// An analyzer with the model that it may need.
struct ModelLexer(Analyzer, Arc<Bundle>);

impl Lexer for ModelLexer {
    fn terms(&self, text: &str, out: &mut Vec<u32>) -> std::result::Result<(), LexerError> {
        Analysis { analyzer: self.0, encoder: self.1.model().encoder().ok() }.terms(text, out)
    }
}

/// The lexers of an index with this model, by the analyzer's code.
pub(super) fn lexers(bundle: Arc<Bundle>) -> Lexers {
    let lexer = move |code| Some(Arc::new(ModelLexer(Analyzer::from_code(code)?, Arc::clone(&bundle))) as _);
    Arc::new(lexer)
}
