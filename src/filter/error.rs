//! Errors in a filter written as JSON.

/// The operators under a field.
pub(super) const ON_FIELDS: [&str; 13] =
    ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$all", "$size", "$regex", "$exists", "$not"];
/// The operators next to fields.
pub(super) const ON_FILTERS: [&str; 5] = ["$and", "$or", "$nor", "$not", "$ids"];

/// An unreadable filter; every message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The text is not JSON, or repeats a key.
    #[error("the filter is not JSON: {message}; write an object such as {{\"lang\": \"en\"}}")]
    NotJson {
        /// The message of the JSON parser, with line and column.
        message: String,
    },
    /// JSON that is not a filter: an unknown or misplaced operator, or an unsuitable value.
    #[error("{message}")]
    Malformed {
        /// The problem, and what to write instead.
        message: String,
    },
    /// A filter that is nested too deeply.
    #[error(
        "the filter is nested more than {most} deep; write it with fewer objects and arrays in each other"
    )]
    TooDeep {
        /// The limit of nested objects and arrays.
        most: usize,
    },
}
