//! The error for a caller's invalid input, shared by all modules.

use crate::ids::ModelHash;
use crate::lexical::{Analyzer, OtherTerms};
use crate::passages::{BadPassages, Passages};
use crate::scan::Similarity;

/// An invalid document, query or option; nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// An empty query, or one of white space only.
    #[error("the question is empty")]
    EmptyQuery,
    /// A document whose title and text are both empty.
    #[error("document `{id}` has neither title nor text")]
    EmptyDocument {
        /// The document's id.
        id: String,
    },
    /// A document without any token in the vocabulary of a static encoder.
    #[error("document `{id}` has no token that the encoder has a vector for")]
    UnknownText {
        /// The document's id.
        id: String,
    },
    /// A text must be encoded, but the index has no encoder ([`Bundle::for_vectors`]).
    ///
    /// [`Bundle::for_vectors`]: crate::Bundle::for_vectors
    #[error(
        "this needs an encoder, and the index has none: give vectors, or search by words alone (mode `lexical`); \
         `ehi reencode` gives it an encoder"
    )]
    NoEncoder,
    /// An id is empty or too long.
    #[error("an id of {found} bytes; ids have 1 to {most} bytes of UTF-8")]
    InvalidId {
        /// Its length in bytes.
        found: usize,
        /// The longest length allowed.
        most: usize,
    },
    /// Title, text and metadata together are too long; split the document.
    #[error("{id:?} takes {found} bytes as JSON, at most {most} are stored; split it")]
    DocumentTooLarge {
        /// The document's id.
        id: String,
        /// Its size in bytes.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// The metadata is nested too deeply to be read back.
    #[error("the metadata of {id:?} is nested more than {most} levels deep")]
    MetadataTooDeep {
        /// The document's id.
        id: String,
        /// The limit.
        most: usize,
    },
    /// A part of the outline does not begin at a character of the text.
    #[error("the outline of {id:?} does not fit its text")]
    OutlineMismatch {
        /// The document's id.
        id: String,
    },
    /// An embedding has an element that f16 cannot hold: NaN, an infinity, or more than 65,504.
    #[error(
        "number {position} of the vector of {id:?}, counted from 0, is not from -65504 to 65504, the range of the half \
         floats (f16) that vectors are stored as; divide all vectors of the index by the same number"
    )]
    NotFinite {
        /// The document's id.
        id: String,
        /// The first such element.
        position: usize,
    },
    /// A number that is out of range.
    #[error("{what} is {found}; it must be {expected}")]
    OutOfRange {
        /// What it is for.
        what: &'static str,
        /// The number.
        found: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// Two mutually exclusive options of a search, or an option and a mode without a use for it.
    #[error("{}", conflict(options))]
    Conflict {
        /// The options; a mode by its name, or as `mode` if only another one has a use for the option.
        options: [&'static str; 2],
    },
    /// Codes were requested, but the similarity is not a dot product.
    #[error("codes are for cosine and dot product, the similarity of the index is {similarity}")]
    NoCodes {
        /// The similarity of the index.
        similarity: Similarity,
    },
    /// Codes were requested, but embeddings are too narrow for them.
    #[error("codes are for embeddings of {least} values or more, those of the index have {dim}")]
    TooNarrowForCodes {
        /// Width of the index.
        dim: usize,
        /// The narrowest embeddings that have codes.
        least: usize,
    },
    /// An option of [`IndexBuilder`](crate::IndexBuilder) that does not apply to the call.
    #[error("`{option}` does not apply to {call}; leave it out")]
    InapplicableOption {
        /// The option.
        option: &'static str,
        /// The call.
        call: &'static str,
    },
    /// Statistics of other terms than those of the index.
    #[error(transparent)]
    OtherTerms(#[from] OtherTerms),
    /// An unreadable request.
    #[error("the request cannot be read: {reason}")]
    BadRequest {
        /// The entry, and the reason.
        reason: String,
    },
    /// A search by words with an embedding as the query.
    #[error("a query that is an embedding has no words; ask in text, or search by embeddings alone")]
    NoWords,
    /// Too many words and phrases with a sign.
    #[error("the question has more than {most} words and phrases that are required or excluded")]
    TooManySigned {
        /// The limit.
        most: usize,
    },
    /// A question that excludes all of its words.
    #[error("the question only excludes; add a word to search for")]
    OnlyExclusions,
    /// The index ranks by another similarity than the options say.
    #[error("the index was made for {index}, not for {given}; the similarity is chosen when it is created")]
    SimilarityMismatch {
        /// The similarity of the index.
        index: Similarity,
        /// The similarity given.
        given: Similarity,
    },
    /// The index has another analyzer than the options say.
    #[error(
        "the index's words are {index}, not {given}; they are chosen once: make another index of what `ehi export` \
         prints"
    )]
    AnalyzerMismatch {
        /// Those of the index.
        index: Analyzer,
        /// Those given.
        given: Analyzer,
    },
    /// An evaluation with judgments of another collection than that of the index.
    #[error(
        "none of the {documents} documents judged for the queries of the split `{split}` is in the index"
    )]
    NothingJudged {
        /// The split.
        split: String,
        /// Its judged documents.
        documents: usize,
    },
    /// An evaluation without any usable query.
    #[error("the split `{split}` has no query to ask; it judges {queries} without a text")]
    NothingAsked {
        /// The split.
        split: String,
        /// Its judged queries.
        queries: usize,
    },
    /// Ids without a document, where each must have one.
    #[error("the index has no document {}", named(&ids[..ids.len().min(MOST_NAMED)], ids.len()))]
    NoDocument {
        /// The ids.
        ids: Vec<String>,
    },
    /// An update of fields of metadata that has none: it is a list, a text or a number.
    #[error("the metadata of `{id}` is no object with fields to update; insert the document again")]
    MetadataWithoutFields {
        /// The document's id.
        id: String,
    },
    /// A leaf that the tree does not have.
    #[error("there is no leaf {leaf}; the tree has {leaves}, counted from 0")]
    UnknownLeaf {
        /// The requested leaf.
        leaf: u32,
        /// Leaves of the tree.
        leaves: u32,
    },
    /// A search by the fast encoder with a model that has none.
    #[error("the model has no query encoder; `ehi distil` makes one")]
    NoQueryEncoder,
    /// A query vector of another width than the index.
    #[error("the vector has {found} values, the index has {expected}")]
    Dimension {
        /// Width given.
        found: usize,
        /// Width of the index.
        expected: usize,
    },
    /// A vector with NaN or an infinity, or of an L2 norm of 1e18 or more, or for cosine one without a
    /// direction: its norm is below 2^-14.
    #[error(
        "the vector has a NaN, an infinity or too large numbers, or for cosine no direction, for which its norm must \
         be 0.000062 or more"
    )]
    BadVector,
    /// Passages that are too short or too long, or overlap too much.
    #[error(transparent)]
    BadPassages(#[from] BadPassages),
    /// An index has other passages than requested, or none; they are fixed when it is created.
    #[error("the index has {}, not passages of {given}", described(*index))]
    PassagesMismatch {
        /// Those of the index.
        index: Option<Passages>,
        /// The requested ones.
        given: Passages,
    },
    /// A document whose time of expiry cannot be read
    /// ([`IndexBuilder::expires`](crate::IndexBuilder::expires)).
    #[error(
        "document {id:?}: its field `{field}` is {found}, which is not {}",
        if *is_late {
            "before the year 10000; expected a number of seconds since 1970, not of milliseconds"
        } else {
            "a time at which it expires; write a time with its zone, such as \"2027-01-31T18:00:00Z\", or a number \
             of seconds since 1970, or leave the field out to keep the document"
        }
    )]
    BadExpiry {
        /// The document's id.
        id: String,
        /// The field of its metadata.
        field: String,
        /// The value as JSON, or that there are several.
        found: String,
        /// Whether it is a number of seconds after the year 9999.
        is_late: bool,
    },
    /// Documents of an index expire by another field than requested, or do not expire; it is fixed when it is
    /// created.
    #[error("documents of the index expire by {}, not by {given}", index.as_deref().unwrap_or("no field"))]
    ExpiresMismatch {
        /// The field of the index.
        index: Option<String>,
        /// The requested one.
        given: String,
    },
    /// Documents of an index without passages, for one with an embedding per passage.
    #[error(
        "the index has passages of {passages} tokens, and the other index has none; insert the documents' texts"
    )]
    NeedsTexts {
        /// The passages of the index.
        passages: Passages,
    },
    /// A calibration of an index without a tree.
    #[error(
        "the index has no tree, so its searches score every document and there is nothing to calibrate; \
         `ehi tune` makes a tree"
    )]
    NoTree,
    /// A calibration of an index with fewer than two documents.
    #[error("the index holds too few documents to calibrate searches with")]
    NothingToCalibrate,
    /// Too few documents for a tree.
    #[error(
        "a tree cannot be made from {documents} documents, only from {least} on; so few need none, and \
         searches score all of them"
    )]
    TooFewToTune {
        /// Live documents.
        documents: usize,
        /// The minimum.
        least: usize,
    },
    /// A training or a change of model while another one is in progress.
    #[error("another call is training or changing the model of this index")]
    ChangeUnderWay,
    /// A change to the model that is already in service.
    #[error("the index already uses model {model}")]
    SameModel {
        /// Hash of the model.
        model: ModelHash,
    },
    /// An index with embeddings of another width than those of the model given.
    #[error("the index has vectors of {index} numbers, not of {given}")]
    WidthMismatch {
        /// Width of the index.
        index: usize,
        /// The width given.
        given: usize,
    },
    /// A change to another encoder, for an index with documents that have an embedding and no text.
    #[error(
        "{documents} documents have an embedding and neither title nor text ({}), so another encoder has nothing to \
         encode; give them texts, or delete them and insert embeddings of the new encoder after the change",
        named(ids, *documents)
    )]
    WithoutText {
        /// Number of such documents.
        documents: usize,
        /// The ids of the first of them, at most 5.
        ids: Vec<String>,
    },
    /// A rollback to a model without an encoder, for an index with documents that have no vector for it.
    #[error(
        "the previous model has no encoder, and {documents} of the documents, added or changed since, have no vector \
         for it ({}); keep a copy of them with `ehi export`, delete them, roll back, and insert them with vectors",
        named(ids, *documents)
    )]
    WithoutVector {
        /// Number of such documents.
        documents: usize,
        /// The ids of the first of them, at most 5.
        ids: Vec<String>,
    },
    /// A rollback without a kept model.
    #[error(
        "there is no previous model to return to: the model was never changed, or the previous one was dropped"
    )]
    NoPreviousModel,
    /// The index was made with another model.
    #[error("the index was made with model {index}, not with {given}")]
    ModelMismatch {
        /// Hash of the index's own model.
        index: ModelHash,
        /// Hash of the model given.
        given: ModelHash,
    },
}

impl InputError {
    /// A count of 0.
    pub(crate) fn zero(what: &'static str) -> Self {
        Self::OutOfRange { what, found: 0.0, expected: "at least 1" }
    }
}

/// Most ids in a message.
const MOST_NAMED: usize = 10;

fn conflict([one, other]: &[&str; 2]) -> String {
    match (*one, *other) {
        (option, "mode") => format!("`{option}` needs the mode hybrid"),
        (mode @ ("dense" | "lexical"), option) => format!("`{option}` has no meaning in the mode {mode}"),
        (one, other) => format!("`{one}` and `{other}` exclude each other"),
    }
}

/// Quotes the ids, with an ellipsis if `all` exceeds their number.
fn named(ids: &[String], all: usize) -> String {
    let named = ids.iter().map(|id| format!("{id:?}")).collect::<Vec<_>>().join(", ");
    if all > ids.len() { format!("{named} ...") } else { named }
}

fn described(passages: Option<Passages>) -> String {
    passages.map_or_else(|| "no passages".to_owned(), |passages| format!("passages of {passages}"))
}
