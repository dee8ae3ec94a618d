//! What documents get on their way in: an embedding and leaves.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::f16;
use rayon::prelude::*;

use super::analysis::Analysis;
use super::insert::CutTexts;
use super::vectors::{unit, unit_of_stored};
use crate::document::Document;
use crate::error::Result;
use crate::ids::LeafId;
use crate::lexical::Analyzer;
use crate::model::{Bundle, Encoder, Model, Role};
use crate::scan::Similarity;
use crate::store::{Lexer, LexerError, Put, Terms};

/// A model, and how embeddings are stored.
#[derive(Clone, Copy)]
pub(super) struct Ingest<'a> {
    pub bundle: &'a Bundle,
    pub similarity: Similarity,
    /// What terms documents get, if any. Here, on all threads, and not in the store, which would find them
    /// one after another.
    pub analyzer: Option<Analyzer>,
}

impl Ingest<'_> {
    /// Encodes and routes documents; says which of their texts were not read whole.
    pub fn prepare(self, documents: Vec<Document>) -> Result<(Vec<Put>, CutTexts)> {
        let encoder = &self.model().encoder;
        let around = encoder.tokens_around()?;
        let read = documents.par_iter().map(|document| self.read(document, around));
        let (terms, tokens): (Vec<_>, Vec<_>) = read.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let mut cut = CutTexts::default();
        tokens.into_iter().for_each(|tokens| cut.note(tokens, encoder.max_tokens() - around));
        let texts = documents.iter().map(|document| text_for(encoder, document));
        let texts: Vec<_> = texts.collect::<Result<_>>()?;
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let rows = encoder.embed(&texts, Role::Document)?;
        Ok((self.place_with(documents, terms, &rows), cut))
    }

    /// Routes documents with their stored embeddings, `[documents, dim]` f16, which stay as they are.
    pub fn place_stored(self, documents: Vec<Document>, rows: &[f16]) -> Result<Vec<Put>> {
        let terms = self.terms(&documents)?;
        let leaves = self.route_stored(rows);
        let rows = rows.chunks_exact(self.model().encoder.dim()).map(<[f16]>::to_vec);
        let places = documents.into_iter().zip(rows).zip(leaves).zip(terms);
        let put = |(((document, embedding), leaves), terms)| Put { document, embedding, leaves, terms };
        Ok(places.map(put).collect())
    }

    /// Routes documents with their embeddings, `[documents, dim]` f32.
    pub fn place(self, documents: Vec<Document>, rows: &[f32]) -> Result<Vec<Put>> {
        let terms = self.terms(&documents)?;
        Ok(self.place_with(documents, terms, rows))
    }

    fn place_with(self, documents: Vec<Document>, terms: Vec<Option<Terms>>, rows: &[f32]) -> Vec<Put> {
        let dim = self.model().encoder.dim();
        let units: Vec<f32> = rows.chunks_exact(dim).flat_map(unit).collect();
        let leaves = self.route(&units);
        let stored = match self.similarity {
            Similarity::Cosine => &units,
            _ => rows,
        };
        let places = documents.into_iter().zip(stored.chunks_exact(dim)).zip(leaves).zip(terms);
        let put = |(((document, row), leaves), terms): (((_, &[f32]), _), _)| {
            let embedding = row.iter().map(|&x| f16::from_f32(x)).collect();
            Put { document, embedding, leaves, terms }
        };
        places.map(put).collect()
    }

    /// The terms of documents, where they are to have any.
    fn terms(self, documents: &[Document]) -> Result<Vec<Option<Terms>>> {
        let Some(analyzer) = self.analyzer else { return Ok(vec![None; documents.len()]) };
        let analysis = Analysis { analyzer, encoder: self.model().encoder() };
        // Before there are several threads, each of which would load the tokenizer.
        analysis.words("")?;
        let terms = |document: &Document| Ok(Some(Terms::of(&document.title, &document.text, &analysis)?));
        documents.par_iter().map(terms).collect()
    }

    /// The terms of a document, where it is to have any, and how many tokens its title and text have; 0 where
    /// they are too short to be cut by an encoder that adds `around` tokens.
    fn read(self, document: &Document, around: usize) -> Result<(Option<Terms>, usize)> {
        let encoder = self.model().encoder();
        let Document { title, text, .. } = document;
        let count = || -> Result<usize> {
            // A token has a byte at least.
            if title.len() + text.len() + around <= encoder.max_tokens() {
                return Ok(0);
            }
            let mut out = Vec::new();
            Ok(encoder.terms(title, &mut out)? + encoder.terms(text, &mut out)?)
        };
        let Some(analyzer) = self.analyzer else { return Ok((None, count()?)) };
        let counting = Counting { analysis: Analysis { analyzer, encoder }, tokens: AtomicUsize::new(0) };
        let terms = Terms::of(title, text, &counting)?;
        let tokens = match analyzer {
            Analyzer::Tokens => counting.tokens.into_inner(),
            Analyzer::Stems(_) => count()?,
        };
        Ok((Some(terms), tokens))
    }

    /// The leaves of stored embeddings, `[rows, dim]` f16.
    pub fn route_stored(self, rows: &[f16]) -> Vec<Vec<LeafId>> {
        let rows = rows.chunks_exact(self.model().encoder.dim());
        self.route(&rows.flat_map(unit_of_stored).collect::<Vec<f32>>())
    }

    /// The leaves of embeddings at unit norm, `[rows, dim]` f32.
    fn route(self, units: &[f32]) -> Vec<Vec<LeafId>> {
        let count = NonZeroUsize::new(self.bundle.leaves_per_document() as usize);
        self.model().indexer.route_rows(units, count.unwrap_or(NonZeroUsize::MIN))
    }

    fn model(&self) -> &Model {
        self.bundle.model()
    }
}

/// Counts the tokens that it finds, where terms are tokens.
struct Counting<'a> {
    analysis: Analysis<'a>,
    tokens: AtomicUsize,
}

impl Lexer for Counting<'_> {
    fn terms(&self, text: &str, out: &mut Vec<u32>) -> std::result::Result<(), LexerError> {
        match self.analysis.analyzer {
            Analyzer::Tokens => {
                let tokens = self.analysis.encoder.terms(text, out)?;
                self.tokens.fetch_add(tokens, Ordering::Relaxed);
                Ok(())
            }
            Analyzer::Stems(_) => self.analysis.terms(text, out),
        }
    }
}

/// [`Document::embedding_text`] as far as the encoder reads it, so that no long text is copied.
fn text_for<'a>(encoder: &Encoder, document: &'a Document) -> Result<Cow<'a, str>> {
    Ok(match (document.title.as_str(), document.text.as_str()) {
        ("", text) | (text, "") => Cow::Borrowed(encoder.head(text)?),
        (title, text) => Cow::Owned(format!("{} {}", encoder.head(title)?, encoder.head(text)?)),
    })
}
