//! Prepares documents for storing: embeddings and leaves.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use half::f16;
use half::vec::HalfFloatVecExt;
use rayon::prelude::*;
use serde::Serialize;

use super::analysis::Analysis;
use super::vectors::{unit, unit_of_stored};
use crate::characters::floor;
use crate::document::Document;
use crate::embedding_cache::{EmbeddingCache, Key, KeyMaker};
use crate::error::{Error, InputError, Result};
use crate::ids::LeafId;
use crate::lexical::Analyzer;
use crate::model::{Bundle, Encoder, Model, ModelError, Role};
use crate::outline::BETWEEN_HEADINGS;
use crate::passages::{self, Passages, Span};
use crate::progress::{Stop, Tick, ticking};
use crate::scan::{Similarity, unit_to_store};
use crate::store::{Lexer, LexerError, Put, PutRow, Terms};

/// A model, and how embeddings are stored.
#[derive(Clone, Copy)]
pub(super) struct Ingest<'a> {
    pub bundle: &'a Bundle,
    pub similarity: Similarity,
    /// The kind of terms for documents, if any. They are extracted here, on all threads; the store would do
    /// it sequentially.
    pub analyzer: Option<Analyzer>,
    /// If set, documents get a row for each passage.
    pub passages: Option<Passages>,
    /// Has embeddings of texts that were encoded before.
    pub cache: Option<&'a EmbeddingCache>,
}

/// A document as read before encoding.
struct Read {
    terms: Option<Terms>,
    /// The part of the text that each row covers.
    spans: Vec<Span>,
    /// The text to encode for each row.
    texts: Vec<String>,
    /// Tokens of title and text; 0 if they are too few to be cut.
    tokens: usize,
}

/// Texts that the encoder reads only in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CutTexts {
    /// Stored documents whose end does not affect their embedding.
    pub documents: usize,
    /// Tokens of their titles and texts.
    pub tokens: u64,
    /// How many of those tokens are not read.
    pub tokens_cut: u64,
    /// Tokens of the longest of them.
    pub longest: usize,
}

impl CutTexts {
    /// Adds a text of `tokens` tokens, of which at most `read` are read.
    fn note(&mut self, tokens: usize, read: usize) {
        if tokens > read {
            self.documents += 1;
            self.tokens += tokens as u64;
            self.tokens_cut += (tokens - read) as u64;
            self.longest = self.longest.max(tokens);
        }
    }

    /// Adds the counts of `others`.
    pub fn join(&mut self, others: Self) {
        self.documents += others.documents;
        self.tokens += others.tokens;
        self.tokens_cut += others.tokens_cut;
        self.longest = self.longest.max(others.longest);
    }
}

/// Documents ready to be stored.
#[derive(Default)]
pub(super) struct Prepared {
    pub puts: Vec<Put>,
    /// Which texts were not read completely.
    pub cut: CutTexts,
    /// Rows that were in the cache.
    pub cached: usize,
}

impl Ingest<'_> {
    /// Encodes and routes documents; `tick` is called several times a second meanwhile.
    pub fn prepare(self, documents: Vec<Document>, tick: &mut Tick<'_>) -> Result<Prepared> {
        let encoder = self.model().encoder()?;
        let room = encoder.max_tokens() - encoder.tokens_around()?;
        let read = |stop: &Stop| {
            let read = documents.par_iter().map(|document| self.read(encoder, document, room, stop));
            read.collect::<Result<Vec<_>>>()
        };
        let bytes: usize = documents.iter().map(Document::heap_bytes).sum();
        let read = if bytes > READ_AT_ONCE { ticking(tick, read)? } else { read(&Stop::default())? };
        let mut cut = CutTexts::default();
        let texts: Vec<Cow<'_, str>> = match self.passages {
            Some(_) => read.iter().flat_map(|read| &read.texts).map(|text| text.as_str().into()).collect(),
            None => {
                read.iter().for_each(|read| cut.note(read.tokens, room));
                documents.iter().map(|document| text_for(encoder, document)).collect::<Result<_>>()?
            }
        };
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let (rows, cached) = self.embed(encoder, &texts, tick).map_err(|error| match error {
            ModelError::NoTokens { index } => unknown(&documents, &read, index),
            error => error.into(),
        })?;
        let (terms, spans) = read.into_iter().map(|read| (read.terms, read.spans)).unzip();
        Ok(Prepared { puts: self.place_with(documents, terms, spans, &rows), cut, cached })
    }

    /// Embeddings as they are stored, `[texts, dim]` f16, and how many of them were in the cache.
    fn embed(
        self,
        encoder: &Encoder,
        texts: &[&str],
        tick: &mut Tick<'_>,
    ) -> std::result::Result<(Vec<f16>, usize), ModelError> {
        // A table is looked up faster than a cache.
        let Some(cache) = self.cache.filter(|_| !encoder.is_static()) else {
            return Ok((self.to_store(&encoder.embed_with(texts, Role::Document, tick)?), 0));
        };
        let is_unit = self.similarity == Similarity::Cosine;
        let maker = KeyMaker::of_documents(self.bundle, encoder.precision(), is_unit);
        let keys: Vec<Key> = texts.par_iter().map(|text| maker.key(text)).collect();
        let dim = encoder.dim();
        let mut rows = cache.get(&keys, dim);
        let missing: Vec<usize> = (0..texts.len()).filter(|&text| rows[text].is_none()).collect();
        if !missing.is_empty() {
            let unknown: Vec<&str> = missing.iter().map(|&text| texts[text]).collect();
            let made = encoder.embed_with(&unknown, Role::Document, tick);
            let made = self.to_store(&made.map_err(|error| error.in_batch(|index| missing[index]))?);
            let made = || missing.iter().zip(made.chunks_exact(dim));
            cache.put(made().map(|(&text, row)| (&keys[text], row)));
            made().for_each(|(&text, row)| rows[text] = Some(row.to_vec()));
        }
        Ok((rows.into_iter().flatten().flatten().collect(), texts.len() - missing.len()))
    }

    /// Rows as they are stored.
    fn to_store(self, rows: &[f32]) -> Vec<f16> {
        let rows = rows.chunks_exact(self.model().dim());
        match self.similarity == Similarity::Cosine {
            true => rows.flat_map(|row| unit_to_store(&unit(row))).collect(),
            false => rows.flat_map(Vec::from_f32_slice).collect(),
        }
    }

    /// Documents with rows from another store. Rows keep their leaves if those belong to the `same` model,
    /// and are routed otherwise.
    pub fn keep_stored(
        self,
        documents: Vec<Document>,
        mut rows: Vec<Vec<PutRow>>,
        same: bool,
    ) -> Result<Vec<Put>> {
        let terms = self.terms(&documents)?;
        if !same {
            let embeddings: Vec<f16> =
                rows.iter().flatten().flat_map(|row| &row.embedding).copied().collect();
            let leaves = self.route_stored(&embeddings);
            rows.iter_mut().flatten().zip(leaves).for_each(|(row, leaf)| row.leaf = leaf);
        }
        let put = |((document, rows), terms)| Put { document, rows, terms };
        Ok(documents.into_iter().zip(rows).zip(terms).map(put).collect())
    }

    /// As [`Self::keep_stored`] for documents whose rows are given; encodes and routes the others. In the
    /// order given.
    pub fn again(
        self,
        documents: Vec<Document>,
        rows: Vec<Option<Vec<PutRow>>>,
        same: bool,
        tick: &mut Tick<'_>,
    ) -> Result<Vec<Put>> {
        let is_known: Vec<bool> = rows.iter().map(Option::is_some).collect();
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (document, is_known) in documents.into_iter().zip(&is_known) {
            if *is_known { known.push(document) } else { unknown.push(document) }
        }
        let mut known = self.keep_stored(known, rows.into_iter().flatten().collect(), same)?.into_iter();
        let mut unknown = match unknown.is_empty() {
            true => Vec::new().into_iter(),
            false => self.prepare(unknown, tick)?.puts.into_iter(),
        };
        let put = |is_known: bool| if is_known { known.next() } else { unknown.next() };
        Ok(is_known.into_iter().filter_map(put).collect())
    }

    /// Routes documents of one row each with their embeddings, `[documents, dim]` f32.
    pub fn place(self, documents: Vec<Document>, rows: &[f32]) -> Result<Vec<Put>> {
        let terms = self.terms(&documents)?;
        let spans = documents.iter().map(|document| vec![self.whole(document)]).collect();
        Ok(self.place_with(documents, terms, spans, &self.to_store(rows)))
    }

    fn place_with(
        self,
        documents: Vec<Document>,
        terms: Vec<Option<Terms>>,
        spans: Vec<Vec<Span>>,
        rows: &[f16],
    ) -> Vec<Put> {
        let leaves = self.route_stored(rows);
        let mut rows = rows.chunks_exact(self.model().dim()).map(<[f16]>::to_vec).zip(leaves);
        let put = |((document, terms), spans): ((_, _), Vec<Span>)| {
            let own = spans.into_iter().zip(rows.by_ref());
            let rows = own.map(|(span, (embedding, leaf))| PutRow { embedding, leaf, span }).collect();
            Put { document, rows, terms }
        };
        documents.into_iter().zip(terms).zip(spans).map(put).collect()
    }

    /// A row that covers all of a document, to be routed.
    pub fn whole_row(self, document: &Document, embedding: Vec<f16>) -> Vec<PutRow> {
        vec![PutRow { embedding, leaf: LeafId(0), span: self.whole(document) }]
    }

    /// The span of a row that covers all of a document.
    fn whole(self, document: &Document) -> Span {
        self.passages.map_or_else(Span::default, |_| Span::of(&document.text))
    }

    /// The terms of documents, if they are to have any.
    fn terms(self, documents: &[Document]) -> Result<Vec<Option<Terms>>> {
        let Some(analyzer) = self.analyzer else { return Ok(vec![None; documents.len()]) };
        let analysis = Analysis { analyzer, encoder: self.model().encoder().ok() };
        // Load the tokenizer once, before several threads each do.
        analysis.sequence("a")?;
        let terms = |document: &Document| Ok(Some(Terms::of(&document.title, &document.text, &analysis)?));
        documents.par_iter().map(terms).collect()
    }

    /// `room`: tokens of title and text that the encoder reads.
    fn read(self, encoder: &Encoder, document: &Document, room: usize, stop: &Stop) -> Result<Read> {
        let Document { title, text, .. } = document;
        let count = || -> Result<usize> {
            // A token takes at least one byte.
            if self.passages.is_some() || title.len() + text.len() <= room {
                return Ok(0);
            }
            let tokenizer = encoder.tokenizer()?;
            Ok(tokenizer.tokens(title, stop, &mut |_| {})? + tokenizer.tokens(text, stop, &mut |_| {})?)
        };
        let (terms, tokens) = match self.analyzer {
            None => (None, count()?),
            Some(analyzer) => {
                let counting = Counting {
                    analysis: Analysis { analyzer, encoder: Some(encoder) },
                    stop,
                    tokens: AtomicUsize::new(0),
                    all: AtomicBool::new(true),
                };
                let terms = Terms::of(title, text, &counting)?;
                let Counting { tokens, all, .. } = counting;
                (Some(terms), if all.into_inner() { tokens.into_inner() } else { count()? })
            }
        };
        let (spans, texts) = match self.passages {
            Some(passages) => {
                let (spans, texts) = cut_document(encoder, document, passages, room, stop)?;
                known_passages(encoder, spans, texts, stop)?
            }
            None => (vec![self.whole(document)], Vec::new()),
        };
        Ok(Read { terms, spans, texts, tokens })
    }

    /// The leaves of stored embeddings, `[rows, dim]` f16.
    pub fn route_stored(self, rows: &[f16]) -> Vec<LeafId> {
        let rows = rows.chunks_exact(self.model().dim());
        self.model().indexer.route_rows(&rows.flat_map(unit_of_stored).collect::<Vec<f32>>())
    }

    fn model(&self) -> &Model {
        self.bundle.model()
    }
}

/// The passages in which the encoder reads anything, or the first passage.
fn known_passages(
    encoder: &Encoder,
    spans: Vec<Span>,
    texts: Vec<String>,
    stop: &Stop,
) -> Result<(Vec<Span>, Vec<String>)> {
    let knows = |text: &String| {
        stop.check()?;
        Ok(encoder.knows(text)?)
    };
    let known = texts.iter().map(knows).collect::<Result<Vec<bool>>>()?;
    let first = known.iter().position(|known| *known).unwrap_or(0);
    let rows = spans.into_iter().zip(texts).zip(known).enumerate();
    Ok(rows.filter(|(place, (_, known))| *known || *place == first).map(|(_, (row, _))| row).unzip())
}

/// The error for a row whose text the encoder reads nothing of.
fn unknown(documents: &[Document], read: &[Read], row: usize) -> Error {
    let ends = read.iter().scan(0, |end, read| {
        *end += read.spans.len();
        Some(*end)
    });
    let id = ends.zip(documents).find(|(end, _)| row < *end).map(|(_, document)| document.id.clone());
    InputError::UnknownText { id: id.unwrap_or_default() }.into()
}

/// The passages of a document, and the text to encode for each: the title with the headings above the
/// passage, then the passage. A title with headings that leaves less than half of a passage's tokens is cut.
pub(super) fn cut_document(
    encoder: &Encoder,
    document: &Document,
    passages: Passages,
    room: usize,
    stop: &Stop,
) -> Result<(Vec<Span>, Vec<String>)> {
    let Document { title, text, outline, .. } = document;
    let (most, overlap) = (passages.tokens as usize, passages.overlap as usize);
    let tokenizer = encoder.tokenizer()?;
    let starts = |text: &str| -> Result<Vec<u32>> {
        let mut starts = Vec::new();
        tokenizer.starts(text, stop, &mut starts)?;
        Ok(starts)
    };
    let own = starts(text)?;
    let of_title = starts(title)?;
    let between = starts(BETWEEN_HEADINGS)?.len();
    let titled = of_title.len() + outline.longest_path(text, &own, between);
    // Two texts tokenised separately may differ from both as one.
    let beside = titled + if titled == 0 { 0 } else { TITLE_SLACK };
    let most = most.min(room.saturating_sub(beside).max(most / 2));
    let left = room.saturating_sub(most + TITLE_SLACK);
    let title = of_title.get(left).map_or(&**title, |&cut| &title[..floor(title, cut as usize)]);
    let spans = passages::cut(text, outline, &own, [most, overlap.min(most / 2)], stop)?;
    let to_encode = |span: &Span| -> Result<String> {
        stop.check()?;
        let mut title = outline.title(title, text, span.start);
        if titled > left
            && let Some(&first_cut) = starts(&title)?.get(left)
        {
            title.truncate(floor(&title, first_cut as usize));
        }
        Ok(match (&*title, span.part(text).unwrap_or_default()) {
            ("", part) | (part, "") => part.to_owned(),
            (title, part) => format!("{title} {part}"),
        })
    };
    let texts = spans.iter().map(to_encode).collect::<Result<_>>()?;
    Ok((spans, texts))
}

/// Bytes of documents that are read without asking whether to continue: a few milliseconds' work.
const READ_AT_ONCE: usize = 64 << 10;

/// By how many tokens a title and a passage together may differ from the two apart.
const TITLE_SLACK: usize = 2;

/// Counts tokens if terms are extracted from the text as the encoder reads it.
struct Counting<'a> {
    analysis: Analysis<'a>,
    stop: &'a Stop,
    tokens: AtomicUsize,
    /// Whether the tokens of every text are counted.
    all: AtomicBool,
}

impl Lexer for Counting<'_> {
    fn terms(&self, text: &str, out: &mut Vec<u32>) -> std::result::Result<(), LexerError> {
        match self.analysis.list_terms(text, self.stop, out)? {
            Some(tokens) => {
                self.tokens.fetch_add(tokens, Ordering::Relaxed);
            }
            None if text.is_empty() => {}
            None => self.all.store(false, Ordering::Relaxed),
        }
        Ok(())
    }
}

/// [`Document::embedding_text`], cut to what the encoder reads, so that no long text is copied.
fn text_for<'a>(encoder: &Encoder, document: &'a Document) -> Result<Cow<'a, str>> {
    let tokenizer = encoder.tokenizer()?;
    Ok(match (document.title.as_str(), document.text.as_str()) {
        ("", text) | (text, "") => Cow::Borrowed(tokenizer.head(text)),
        (title, text) => Cow::Owned(format!("{} {}", tokenizer.head(title), tokenizer.head(text))),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::lexical::Language;
    use crate::outline::Outline;

    #[test]
    fn every_step_of_reading_a_long_text_ends_when_the_call_is_cancelled() {
        let encoder = Encoder::load(Path::new("tests/fixtures/static/model2vec-0.10/plain")).unwrap();
        let (go, stop) = (Stop::default(), Stop::default());
        stop.set();
        let text = "An ox saw me. ".repeat(5_000);
        let document = Document::new("a", "", &text);
        for analyzer in [Analyzer::Tokens, Analyzer::Stems(Language::English)] {
            let analysis = Analysis { analyzer, encoder: Some(&encoder) };
            let ended = analysis.list_terms(&text, &stop, &mut Vec::new());
            assert!(matches!(ended, Err(ModelError::Cancelled)), "{analyzer}: {ended:?}");
        }
        let mut starts = Vec::new();
        let tokenizer = encoder.tokenizer().unwrap();
        assert!(matches!(tokenizer.starts(&text, &stop, &mut starts), Err(ModelError::Cancelled)));
        assert!(matches!(tokenizer.tokens(&text, &stop, &mut |_| {}), Err(ModelError::Cancelled)));
        tokenizer.starts(&text, &go, &mut starts).unwrap();
        for text in [&text, &text.replace('.', "")] {
            let cut = |stop| passages::cut(text, &Outline::default(), &starts, [50, 10], stop);
            assert!(cut(&stop).is_err() && cut(&go).is_ok());
        }
        let passages = Passages::new(50, 10).unwrap();
        let (spans, texts) = cut_document(&encoder, &document, passages, 100, &go).unwrap();
        assert!(spans.len() > 100, "{}", spans.len());
        let ended = known_passages(&encoder, spans, texts, &stop);
        assert!(matches!(ended, Err(Error::Cancelled)));
    }
}
