//! Errors in a filter written as JSON.

/// The operators under a field.
pub(super) const ON_FIELDS: [&str; 10] =
    ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$not"];
/// The operators next to fields.
pub(super) const ON_FILTERS: [&str; 5] = ["$and", "$or", "$nor", "$not", "$ids"];

/// An unreadable filter; every message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The text is not JSON.
    #[error("the filter is not JSON: {message}; write an object such as {{\"lang\": \"en\"}}")]
    NotJson {
        /// The message of the JSON parser, with line and column.
        message: String,
    },
    /// A value of another type in place of an object.
    #[error("a filter is an object such as {{\"lang\": \"en\"}}, not {found}")]
    NotAnObject {
        /// Its type.
        found: &'static str,
    },
    /// A name with `$` that is not an operator. Fields with such names cannot be filtered.
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
    /// An operator under a field that belongs next to fields, or the reverse.
    #[error("the operator `{operator}` cannot stand here; write {expected}")]
    Misplaced {
        /// The operator.
        operator: &'static str,
        /// Where it belongs.
        expected: &'static str,
    },
    /// An object under a field that is empty or has a key that does not begin with `$`.
    #[error(
        "the object under `{field}` is not an operator; write {{\"$eq\": {{...}}}} to compare with an object, or \
         one of {}",
        ON_FIELDS.join(" ")
    )]
    BareObject {
        /// The field.
        field: String,
    },
    /// A value that the operator does not accept.
    #[error("`{operator}` takes {expected}")]
    WrongValue {
        /// The operator.
        operator: &'static str,
        /// What it accepts.
        expected: &'static str,
    },
    /// `$and`, `$or` or `$nor` with an empty list.
    #[error("`{operator}` is empty; write at least one filter in it, or leave it out")]
    Empty {
        /// The operator.
        operator: &'static str,
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
