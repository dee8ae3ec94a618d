//! The error of a caller's input: what every module may refuse.

use crate::ids::ModelHash;
use crate::lexical::{Analyzer, OtherTerms};
use crate::passages::{BadPassages, Passages};
use crate::scan::Similarity;
use crate::stop::BadStop;

/// A caller's document, query or option that cannot be used; nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A query without a character that is not white space.
    #[error("the question is empty")]
    EmptyQuery,
    /// A document whose title and text are both empty.
    #[error("document `{id}` has neither title nor text")]
    EmptyDocument {
        /// The document's id.
        id: String,
    },
    /// A document of which a static encoder has no vector of any token: no word of it is in the vocabulary.
    #[error("document `{id}` has no token that the encoder has a vector for")]
    UnknownText {
        /// The document's id.
        id: String,
    },
    /// An id is empty or too long.
    #[error("an id of {found} bytes; ids have 1 to {most} bytes of UTF-8")]
    InvalidId {
        /// Its length in bytes.
        found: usize,
        /// The longest length allowed.
        most: usize,
    },
    /// Title, text and metadata are too long together; split the document.
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
    /// An embedding has an element that f16 cannot hold: NaN, an infinity, or more than 65,504.
    #[error("element {position} of the embedding of {id:?} is not finite")]
    NotFinite {
        /// The document's id.
        id: String,
        /// The first such element.
        position: usize,
    },
    /// `k` of a search is 0.
    #[error("k is 0; ask for at least one hit")]
    ZeroK,
    /// The beam of a search is 0.
    #[error("the beam is 0; visit at least one leaf")]
    ZeroBeam,
    /// Two options of a search that exclude each other.
    #[error("`{}` and `{}` exclude each other", options[0], options[1])]
    Conflict {
        /// The options.
        options: [&'static str; 2],
    },
    /// A reranker was to read no hit at all.
    #[error("the reranker is to read 0 hits; give a depth of at least 1")]
    ZeroDepth,
    /// Codes were asked for where the similarity is not a dot product.
    #[error("codes are for cosine and dot product, the similarity of the index is {similarity}")]
    NoCodes {
        /// The similarity of the index.
        similarity: Similarity,
    },
    /// Codes were asked for where embeddings are too narrow for them.
    #[error("codes are for embeddings of {least} values or more, those of the index have {dim}")]
    TooNarrowForCodes {
        /// Width of the index.
        dim: usize,
        /// The narrowest embeddings that have codes.
        least: usize,
    },
    /// An option of [`IndexBuilder`](crate::IndexBuilder) that the call has no use for.
    #[error("`{option}` has no meaning for `{call}`; leave it out")]
    InapplicableOption {
        /// The option.
        option: &'static str,
        /// The call.
        call: &'static str,
    },
    /// A way of joining scores with a parameter out of range.
    #[error("{what} of a fusion is {found}; it must be {expected}")]
    BadFusion {
        /// The parameter.
        what: &'static str,
        /// What was given.
        found: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// A parameter of the lexical score out of range.
    #[error("{reason}")]
    BadBm25 {
        /// Which, and what is allowed.
        reason: String,
    },
    /// Statistics of words that are not those of the index.
    #[error(transparent)]
    OtherTerms(#[from] OtherTerms),
    /// A request that cannot be read.
    #[error("the request cannot be read: {reason}")]
    BadRequest {
        /// Which entry of it, and why.
        reason: String,
    },
    /// A search by words for a query that is an embedding.
    #[error("a query that is an embedding has no words; ask in text, or search by embeddings alone")]
    NoWords,
    /// More words and phrases with a sign than are looked for.
    #[error("the question has more than {most} words and phrases that are required or excluded")]
    TooManySigned {
        /// How many there may be.
        most: usize,
    },
    /// A question of which every word is excluded.
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
    /// The index has other words than asked for.
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
    /// A rule to stop by that would never let a search begin.
    #[error(transparent)]
    BadStop(#[from] BadStop),
    /// A number of lists of an evaluation's baseline is 0.
    #[error("the number of lists is 0; divide the documents into at least one")]
    ZeroLists,
    /// An evaluation with judgments of another collection than the index has.
    #[error(
        "none of the {documents} documents judged for the queries of the split `{split}` is in the index"
    )]
    NothingJudged {
        /// The split.
        split: String,
        /// Its judged documents.
        documents: usize,
    },
    /// An evaluation without a query that can be asked.
    #[error("the split `{split}` has no query to ask; it judges {queries} without a text")]
    NothingAsked {
        /// The split.
        split: String,
        /// Its judged queries.
        queries: usize,
    },
    /// A leaf beyond those of the tree.
    #[error("there is no leaf {leaf}; the tree has {leaves}, counted from 0")]
    UnknownLeaf {
        /// The leaf asked for.
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
    /// A vector with NaN or an infinity, or one without a direction: its L2 norm is below 2^-14.
    #[error("the vector holds a NaN or an infinity, or has no direction: its norm must be 0.000062 or more")]
    BadVector,
    /// A share of exact search's hits that is not above 0 and at most 1.
    #[error("the recall must be above 0 and at most 1, not {found}")]
    BadRecall {
        /// The share given.
        found: f64,
    },
    /// Passages that are too short or too long, or have too much in common.
    #[error(transparent)]
    BadPassages(#[from] BadPassages),
    /// An index has other passages than those asked for, or none; they are chosen when it is created.
    #[error("the index has {}, not passages of {given}", described(*index))]
    PassagesMismatch {
        /// Those of the index.
        index: Option<Passages>,
        /// Those asked for.
        given: Passages,
    },
    /// Embeddings of whole documents, for an index that has one for each passage.
    #[error(
        "the index has an embedding for each passage, of {passages} tokens; insert the documents as texts"
    )]
    NeedsTexts {
        /// The passages of the index.
        passages: Passages,
    },
    /// A weight of a judgment that is not above 0 and at most 1.
    #[error("the weight of a judgment must be above 0 and at most 1, not {found}")]
    BadWeight {
        /// The weight given.
        found: f64,
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
    /// A tree for fewer documents than make one.
    #[error(
        "a tree cannot be made from {documents} documents, only from {least} on; so few need none, and \
         searches score all of them"
    )]
    TooFewToTune {
        /// Live documents.
        documents: usize,
        /// The fewest.
        least: usize,
    },
    /// A training or a change of model while another one is under way.
    #[error("another call is training or changing the model of this index")]
    ChangeUnderWay,
    /// A change to the model that is in service already.
    #[error("the index is served by model {model} already")]
    SameModel {
        /// Hash of the model.
        model: ModelHash,
    },
    /// A change to another encoder of an index with documents that have an embedding and no text.
    #[error(
        "{documents} documents have an embedding and neither title nor text ({}), so another encoder has nothing to \
         encode; give them texts, or delete them and insert embeddings of the new encoder after the change",
        named(ids, *documents)
    )]
    WithoutText {
        /// How many there are.
        documents: usize,
        /// The ids of the first of them, 5 at most.
        ids: Vec<String>,
    },
    /// A return to an earlier model where none is kept.
    #[error("no earlier model is kept; there was no change of model, or its old one was dropped")]
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

/// Quotes the ids, with an ellipsis if `all` is more than these.
fn named(ids: &[String], all: usize) -> String {
    let named = ids.iter().map(|id| format!("{id:?}")).collect::<Vec<_>>().join(", ");
    if all > ids.len() { format!("{named} ...") } else { named }
}

fn described(passages: Option<Passages>) -> String {
    passages.map_or_else(|| "no passages".to_owned(), |passages| format!("passages of {passages}"))
}
