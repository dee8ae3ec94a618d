//! Which documents a search may return: conditions on their ids and metadata.

pub(crate) mod bits;
mod error;
mod facet;
mod json;
mod key;
mod kinds;
mod lists;
mod lookup;
mod matches;
mod tally;
mod time;
mod values;

#[cfg(test)]
mod tests;

use std::ops::Not;

use serde_json::Value;

pub use error::FilterError;
pub use facet::{Facet, FacetValue};
pub(crate) use json::kind;
pub(crate) use kinds::Observed;
pub(crate) use lists::{BuiltLists, ListBuilder, SECTIONS};
pub(crate) use lookup::{Answer, FieldLists};
pub(crate) use matches::each_whole_at;
use matches::{Relation, Test, each_at};
pub(crate) use tally::Tally;
#[cfg(feature = "folders")]
pub(crate) use time::rfc3339;
pub(crate) use time::unix_milliseconds;
use values::ValueSet;
pub(crate) use values::depth;

/// A condition on a document's metadata and id.
///
/// Made with the functions below, or read from JSON in the form known from MongoDB:
///
/// ```
/// use ehi::Filter;
/// use serde_json::json;
///
/// let read: Filter = r#"{"lang": "en", "year": {"$gte": 2010, "$lt": 2015}}"#.parse()?;
/// let made = Filter::eq("lang", "en").and(Filter::gte("year", 2010)).and(Filter::lt("year", 2015));
/// assert_eq!(read, made);
/// assert!(made.matches("id-1", Some(&json!({"lang": "en", "year": 2012.5}))));
/// # Ok::<(), ehi::FilterError>(())
/// ```
///
/// # JSON
///
/// An object whose entries must all hold; `{}` holds for every document. (If an object repeats a key, the
/// last value counts, as in all JSON.)
///
/// | entry | holds where |
/// |---|---|
/// | `"field": value` | as `$eq`; an object must be written with `$eq` |
/// | `"field": {"$eq": value}`, `$ne` | the field equals the value; it does not |
/// | `"field": {"$gt": value}`, `$gte`, `$lt`, `$lte` | the field is greater, ... |
/// | `"field": {"$in": [value, ...]}`, `$nin` | the field equals one of the values; none of them |
/// | `"field": {"$all": [value, ...]}` | the field, an array, has each of the values |
/// | `"field": {"$size": number}` | the field is an array of this many elements |
/// | `"field": {"$regex": "^text"}` | the field is a string that begins with the text |
/// | `"field": {"$exists": true}` | the field is there, even as null; with `false`, is missing |
/// | `"field": {"$not": {...}}` | the operators in the object do not all hold |
/// | `"$and": [filter, ...]`, `$or`, `$nor` | all, at least one, none of the filters hold |
/// | `"$not": filter` | the filter does not hold |
/// | `"$ids": ["id", ...]` | the document's id is one of these |
///
/// # Fields
///
/// A field is a key of the metadata, or a path of keys separated by dots. An object is first searched for the
/// whole path as one key, then for the part before the first dot; so `author.name` finds both
/// `{"author.name": ...}` and `{"author": {"name": ...}}`, and prefers the former. In an array, a number in
/// the path is an index from 0, and any other key is looked up in each element that is an object. In JSON, a
/// field cannot begin with `$`.
///
/// # Values
///
/// Numbers compare by their exact value: 1 equals 1.0, and 9007199254740993 does not equal
/// 9007199254740992.0. Arrays and objects are equal if all their contents are. Greater and less hold only
/// between two numbers, two strings (by their bytes in UTF-8) or two booleans (false is less), never across
/// types. Times such as `2024-01-05T10:00:00Z` (RFC 3339) compare by the clock, with or without fractions of
/// a second, in UTC or with an offset: `10:00:00Z` equals `10:00:00.000Z` and `12:00:00+02:00`, and is less
/// than `10:00:00.5Z`. A field that is null, or missing, equals null and nothing else, so `$ne` with null
/// holds if the field exists with a value; only `$exists` distinguishes missing from null.
///
/// If the field is an array, a comparison holds if it does for the array as a whole or for any of its
/// elements; two comparisons may hold for different elements. `$ne` and `$nin` are the exact opposites of
/// `$eq` and `$in`, so for an array they hold if no element is equal.
///
/// The only regular expressions are `^` and a text, which is compared byte by byte. Characters with a meaning
/// there, such as `.`, need a backslash.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    node: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Test {
        test: Test,
        negated: bool,
    },
    /// No part has the same join, and there are none or at least two.
    Join {
        join: Join,
        parts: Vec<Filter>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    All,
    Any,
}

impl Filter {
    /// Deepest nesting of objects and arrays in a filter's JSON, as written by [`Filter::to_json`].
    ///
    /// The functions can make deeper filters; visiting them takes a little of the stack for each level.
    pub const MAX_DEPTH: usize = 64;

    /// The field equals the value; a missing one equals null. (A NaN or an infinity becomes null in JSON.)
    pub fn eq(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::one_of(field, [value])
    }

    /// The field does not equal the value; also holds if it is missing, unless the value is null.
    pub fn ne(field: impl Into<String>, value: impl Into<Value>) -> Self {
        !Self::eq(field, value)
    }

    /// The field is greater than the value.
    ///
    /// Nothing is greater or less than a null, an array or an object; such a filter matches nothing.
    pub fn gt(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::compare(field, Relation::Greater, value)
    }

    /// The field is greater than the value or equal to it; see [`Filter::gt`].
    pub fn gte(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::compare(field, Relation::GreaterOrEqual, value)
    }

    /// The field is less than the value; see [`Filter::gt`].
    pub fn lt(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::compare(field, Relation::Less, value)
    }

    /// The field is less than the value or equal to it; see [`Filter::gt`].
    pub fn lte(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::compare(field, Relation::LessOrEqual, value)
    }

    /// The field equals one of the values; with an empty list, the filter matches nothing.
    pub fn one_of(field: impl Into<String>, values: impl IntoIterator<Item = impl Into<Value>>) -> Self {
        let values = ValueSet::new(values.into_iter().map(Into::into));
        Self::test(Test::OneOf { field: field.into(), values })
    }

    /// The field is an array that has each of the values, or a single value that equals each of them; with an
    /// empty list, the filter matches nothing.
    pub fn has_all(field: impl Into<String>, values: impl IntoIterator<Item = impl Into<Value>>) -> Self {
        let field = field.into();
        let parts: Vec<Self> = values.into_iter().map(|value| Self::eq(&*field, value)).collect();
        if parts.is_empty() { Self::any([]) } else { Self::all(parts) }
    }

    /// The field is an array of this many elements.
    pub fn size(field: impl Into<String>, size: usize) -> Self {
        Self::test(Test::Size { field: field.into(), size })
    }

    /// The field is a string that begins with this text, or an array with such a string; compared byte by
    /// byte, even if it is a time.
    pub fn starts_with(field: impl Into<String>, prefix: impl Into<String>) -> Self {
        Self::test(Test::Prefix { field: field.into(), prefix: prefix.into() })
    }

    /// The field exists, even if it is null.
    pub fn exists(field: impl Into<String>) -> Self {
        Self::test(Test::Exists { field: field.into() })
    }

    /// The document's id is one of these; with an empty list, the filter matches nothing.
    pub fn ids(ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut ids: Vec<String> = ids.into_iter().map(Into::into).collect();
        ids.sort_unstable();
        ids.dedup();
        Self::test(Test::Ids(ids))
    }

    /// All the filters match; with an empty list, everything matches.
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Self {
        Self::join(Join::All, filters)
    }

    /// At least one of the filters matches; with an empty list, nothing matches.
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Self {
        Self::join(Join::Any, filters)
    }

    /// Both this and the other filter match.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::all([self, other])
    }

    /// This or the other filter matches, or both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::any([self, other])
    }

    /// The fields that it uses, without duplicates.
    pub fn fields(&self) -> Vec<&str> {
        let mut fields: Vec<&str> = Vec::new();
        self.each_test(&mut |test| {
            fields.extend(test.field().filter(|field| !fields.contains(field)));
        });
        fields
    }

    /// Whether a document with this id and metadata matches.
    pub fn matches(&self, id: &str, metadata: Option<&Value>) -> bool {
        self.evaluate(&|test| Some(test.holds(id, metadata))) == Some(true)
    }

    /// As [`Filter::matches`], with the metadata as stored: JSON, or empty for none.
    ///
    /// The JSON is not parsed if the id decides, so it may then even be damaged.
    pub(crate) fn matches_bytes(&self, id: &str, metadata: &[u8]) -> Result<bool, serde_json::Error> {
        if metadata.is_empty() {
            return Ok(self.matches(id, None));
        }
        if let Some(matches) = self.evaluate(&|test| test.holds_for_id(id)) {
            return Ok(matches);
        }
        Ok(self.matches(id, Some(&serde_json::from_slice(metadata)?)))
    }

    /// The only ids that matching documents can have, sorted, without duplicates; `None` if the filter does
    /// not restrict ids.
    pub(crate) fn candidate_ids(&self) -> Option<Vec<&str>> {
        match &self.node {
            Node::Test { test: Test::Ids(ids), negated: false } => {
                Some(ids.iter().map(String::as_str).collect())
            }
            Node::Test { .. } => None,
            Node::Join { join: Join::All, parts } => {
                parts.iter().filter_map(Self::candidate_ids).min_by_key(Vec::len)
            }
            Node::Join { join: Join::Any, parts } => {
                let mut ids = parts.iter().map(Self::candidate_ids).collect::<Option<Vec<_>>>()?.concat();
                ids.sort_unstable();
                ids.dedup();
                Some(ids)
            }
        }
    }

    /// The only scalar at a field of a document, with its key; `None` if the field is missing or null, or has
    /// an array or an object.
    pub(crate) fn scalar_at(metadata: Option<&Value>, field: &str) -> Option<(Vec<u8>, Value)> {
        let (mut found, mut is_other) = (None, false);
        each_at(metadata, field, |value| {
            let own = value.and_then(key::key).zip(value.cloned());
            is_other = found.is_some() || value.is_some() && own.is_none();
            found = own;
            is_other
        });
        found.filter(|(_, value)| !is_other && !value.is_null())
    }

    /// Passes each test to `visit`, in order.
    fn each_test<'a>(&'a self, visit: &mut impl FnMut(&'a Test)) {
        match &self.node {
            Node::Test { test, .. } => visit(test),
            Node::Join { parts, .. } => parts.iter().for_each(|part| part.each_test(visit)),
        }
    }

    /// Whether the filter holds, given tests that hold, do not hold, or are undecided (`None`); decided as
    /// soon as the decided tests suffice.
    fn evaluate(&self, holds: &impl Fn(&Test) -> Option<bool>) -> Option<bool> {
        match &self.node {
            Node::Test { test, negated } => holds(test).map(|holds| holds != *negated),
            Node::Join { join, parts } => {
                let unless = *join == Join::All;
                let mut value = Some(unless);
                for part in parts {
                    match part.evaluate(holds) {
                        Some(part) if part != unless => return Some(part),
                        Some(_) => {}
                        None => value = None,
                    }
                }
                value
            }
        }
    }

    fn test(test: Test) -> Self {
        Self { node: Node::Test { test, negated: false } }
    }

    fn join(join: Join, filters: impl IntoIterator<Item = Self>) -> Self {
        let mut parts = Vec::new();
        for filter in filters {
            match filter.node {
                // Parts of the same join, so that a long chain of `and` stays flat.
                Node::Join { join: inner, parts: mut own } if inner == join => parts.append(&mut own),
                _ => parts.push(filter),
            }
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => Self { node: Node::Join { join, parts } },
        }
    }

    fn compare(field: impl Into<String>, relation: Relation, value: impl Into<Value>) -> Self {
        match value.into() {
            Value::Null | Value::Array(_) | Value::Object(_) => Self::any([]),
            value => Self::test(Test::Compare { field: field.into(), relation, value }),
        }
    }
}

/// The filter that matches exactly what this one does not.
///
/// By De Morgan's laws, so only tests are ever negated, and negating twice gives the same filter.
impl Not for Filter {
    type Output = Self;

    fn not(mut self) -> Self {
        match &mut self.node {
            Node::Test { negated, .. } => *negated = !*negated,
            Node::Join { join, parts } => {
                *join = if *join == Join::All { Join::Any } else { Join::All };
                *parts = std::mem::take(parts).into_iter().map(Not::not).collect();
            }
        }
        self
    }
}
