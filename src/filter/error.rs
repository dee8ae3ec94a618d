//! What is wrong with a filter written as JSON.

/// The operators under a field.
pub(super) const ON_FIELDS: [&str; 10] =
    ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$not"];
/// The operators beside fields.
pub(super) const ON_FILTERS: [&str; 5] = ["$and", "$or", "$nor", "$not", "$ids"];

/// A filter that cannot be read; every message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The text is not JSON.
    #[error("the filter is not JSON: {message}; write an object such as {{\"lang\": \"en\"}}")]
    NotJson {
        /// What the JSON parser said, with line and column.
        message: String,
    },
    /// Something else where an object must stand.
    #[error("a filter is an object such as {{\"lang\": \"en\"}}, not {found}")]
    NotAnObject {
        /// What stands there.
        found: &'static str,
    },
    /// A name with `$` that is not an operator. A field of such a name cannot be filtered by.
    #[error(
        "unknown operator `{operator}`, and a field's name cannot begin with `$`; write one of {} \
         under a field, one of {} beside fields",
        ON_FIELDS.join(" "),
        ON_FILTERS.join(" ")
    )]
    UnknownOperator {
        /// The name as written.
        operator: String,
    },
    /// An operator on fields that stands beside them, or the reverse.
    #[error("the operator `{operator}` cannot stand here; write {expected}")]
    Misplaced {
        /// The operator.
        operator: &'static str,
        /// Where it can stand.
        expected: &'static str,
    },
    /// An object under a field which is empty or has a key that does not begin with `$`.
    #[error(
        "the object under `{field}` is not an operator; write {{\"$eq\": {{...}}}} to compare with an object, or \
         one of {}",
        ON_FIELDS.join(" ")
    )]
    BareObject {
        /// The field.
        field: String,
    },
    /// A value that the operator cannot take.
    #[error("`{operator}` takes {expected}")]
    WrongValue {
        /// The operator.
        operator: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// `$and`, `$or` or `$nor` of no filters.
    #[error("`{operator}` is empty; write at least one filter in it, or leave it out")]
    Empty {
        /// The operator.
        operator: &'static str,
    },
    /// More nesting than a filter may have.
    #[error(
        "the filter is nested more than {most} deep; write it with fewer objects and arrays in each other"
    )]
    TooDeep {
        /// Most objects and arrays in each other.
        most: usize,
    },
}
