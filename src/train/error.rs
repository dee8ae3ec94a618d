//! What can go wrong in training.

/// An error of the trainer. A run that fails writes no bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A value of the configuration is out of range.
    #[error("configuration: {field} is {found}, expected {expected}")]
    Config {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: String,
        /// Valid values.
        expected: String,
    },
    /// The configuration file cannot be read.
    #[error("configuration file {}: {source}", path.display())]
    ConfigFile {
        /// The file.
        path: std::path::PathBuf,
        /// Where and why.
        source: SettingsError,
    },
    /// No query with a relevant document is left to train on.
    #[error("the training set has no query with a relevant document")]
    NoPairs,
    /// A judgment names a document or a query that the dataset does not hold.
    #[error("a training judgment names {kind} `{id}`, which the dataset does not hold")]
    Unknown {
        /// Document or query.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// Two documents of a training set have one id.
    #[error("two documents of the training set have the id `{id}`")]
    Duplicate {
        /// The id.
        id: String,
    },
    /// A pair's query holds nothing but white space.
    #[error("the query of a pair with document `{document}` is empty")]
    EmptyQuery {
        /// Id of the pair's document.
        document: String,
    },
    /// A static encoder has no vector for any token of a text.
    #[error("{kind} `{id}` has no token that the encoder has a vector for")]
    UnknownText {
        /// Document or query.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The index of the first search holds documents other than those trained on.
    #[error(
        "the document `{id}` is not the same in the index of the first search and among the documents given; \
         both must hold the same ones"
    )]
    OtherDocuments {
        /// Id of the first one found.
        id: String,
    },
    /// The corpus is too small for the tree.
    #[error("{documents} documents cannot fill {leaves} leaves; lower the branching factor or the height")]
    TooFewDocuments {
        /// Documents in the corpus.
        documents: usize,
        /// Leaves of the tree.
        leaves: u32,
    },
    /// A loss is NaN or infinite.
    #[error(
        "the {part} loss is {value} at step {step}, in the batch of the queries {}; lower the learning rates",
        some_of(batch)
    )]
    NonFiniteLoss {
        /// The loss term.
        part: &'static str,
        /// Its value.
        value: f64,
        /// Optimiser step, from 0.
        step: usize,
        /// Ids of the batch's queries.
        batch: Vec<String>,
    },
    /// A trainable tensor got no gradient: the graph is broken.
    #[error("tensor `{tensor}` received no gradient in the first step")]
    NoGradient {
        /// The tensor's name.
        tensor: String,
    },
    /// A trainable tensor has the same values after the run as before.
    #[error("tensor `{tensor}` did not change during training")]
    NotTrained {
        /// The tensor's name.
        tensor: String,
    },
    /// The cache of the frozen layers' output cannot be written.
    #[error("cache of hidden states in {}: {source}", dir.display())]
    Cache {
        /// Intended location.
        dir: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A checkpoint cannot be read or written.
    #[error("checkpoint {}: {detail}", path.display())]
    Checkpoint {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        detail: String,
    },
    /// A checkpoint belongs to a run with other data, another base or another configuration.
    #[error(
        "checkpoint {} is of another run, with other {what}; run as then, or start anew without `--resume` \
         (`resume`)",
        path.display()
    )]
    OtherRun {
        /// The file.
        path: std::path::PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// The run was given no base model or no place for its bundle.
    #[error("a training run needs `{what}`")]
    Missing {
        /// The builder's method.
        what: &'static str,
    },
    /// Options of a distillation are given for removing the query encoder.
    #[error("removing the query encoder takes no options of its training; leave them out")]
    NothingToDistil,
    /// A query encoder needs more texts to learn from.
    #[error(
        "there are {found} texts to learn from, with the titles and sentences of documents; at least {least} \
         are needed"
    )]
    TooFewTexts {
        /// Texts found.
        found: usize,
        /// Texts needed.
        least: usize,
    },
    /// No document is a negative for a reranker to learn from.
    #[error(
        "a reranker learns from documents that do not answer a question next to those that do: of {documents} \
         documents none is left"
    )]
    NoNegatives {
        /// Documents of the training set.
        documents: usize,
    },
    /// The encoder's embeddings are not of unit length, and those of a query encoder always are.
    #[error(
        "the encoder's embeddings do not have unit norm; a query encoder needs an encoder whose embeddings do"
    )]
    NoUnitNorm,
    /// The encoder is itself a table of token vectors, like a query encoder.
    #[error("the encoder is a table of token vectors, and no query encoder would be faster")]
    StaticEncoder,
    /// The machine has no usable GPU, or the crate was built without the `cuda` feature.
    #[error("device cuda is not available: {reason}")]
    NoCuda {
        /// Why.
        reason: String,
    },
}

/// The first few of a long list.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        shown.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    shown
}

/// Checks that a setting has at least the value `least`, and at most the value `most` if that is given.
pub(crate) fn check_setting<T: PartialOrd + std::fmt::Display>(
    field: &'static str,
    found: T,
    least: T,
    most: Option<T>,
) -> Result<(), TrainError> {
    if found >= least && most.as_ref().is_none_or(|most| found <= *most) {
        return Ok(());
    }
    let expected = match most {
        None => format!("at least {least}"),
        Some(most) => format!("{least} to {most}"),
    };
    Err(TrainError::Config { field, found: found.to_string(), expected })
}

/// The error for a failed operation on tensors.
pub(crate) fn tensor_error(error: candle_core::Error) -> crate::Error {
    crate::model::ModelError::from(error).into()
}

/// The error for a setting with an invalid value.
pub(crate) fn out_of_range(field: &'static str, found: impl ToString, expected: String) -> crate::Error {
    TrainError::Config { field, found: found.to_string(), expected }.into()
}

/// Why settings cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read, is not a JSON object, or repeats a name in an object.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// No setting has this name.
    #[error("unknown setting `{name}`{}", meant(near))]
    Unknown {
        /// The name as given.
        name: String,
        /// Settings of that name in a group.
        near: Vec<String>,
    },
    /// A value of the wrong type.
    #[error("setting `{name}`: {source}")]
    Type {
        /// The setting.
        name: String,
        /// The value found, and the expected type.
        source: serde_json::Error,
    },
    /// A setting is given under both its grouped and its dotted name.
    #[error("setting `{name}` is given twice")]
    Twice {
        /// The setting.
        name: String,
    },
}

fn meant(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { String::new() } else { format!("; did you mean {}?", quoted.join(" or ")) }
}
