//! The values of a field among some documents, for people.

use serde::Serialize;
use serde_json::Value;

use super::key::{is_number, value};
use super::tally::{Counted, Tally};

/// The values of a field among the documents that pass a filter
/// ([`Index::facets`](crate::Index::facets)).
///
/// Numbers, strings, booleans and nulls are values, as a filter compares them: 1 and 1.0 are one value, and
/// so are two forms of one time, which is given in UTC. An array has each of its values; other arrays and
/// objects in it are left out, and so is an object at the field itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Facet {
    /// The field, or a path of keys separated by dots, as in a [`Filter`](crate::Filter).
    pub field: String,
    /// Number of documents that pass the filter.
    #[serde(skip)]
    pub documents: usize,
    /// The values that most documents have, those first; equal counts in the order of values.
    pub values: Vec<FacetValue>,
    /// Number of different values, including those that are not in `values`.
    pub distinct: usize,
    /// Documents without the field.
    pub missing: usize,
    /// The least and the greatest number; `None` without numbers.
    pub range: Option<[Value; 2]>,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FacetValue {
    /// A number, a string, a boolean or null.
    pub value: Value,
    /// Number of documents that have it.
    pub documents: usize,
}

impl Facet {
    /// The `most` most frequent values of a field among `documents` documents.
    pub(crate) fn new(field: &str, documents: usize, tally: Tally<'_>, most: usize) -> Self {
        let Tally { present, mut values } = tally;
        let distinct = values.len();
        let mut numbers = values.iter().filter(|(key, _)| is_number(key));
        let least = numbers.next();
        let range = least.zip(numbers.next_back().or(least));
        let range = range.and_then(|(least, greatest)| Some([value(&least.0)?, value(&greatest.0)?]));
        let order = |a: &Counted<'_>, b: &Counted<'_>| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0));
        if most < distinct {
            values.select_nth_unstable_by(most, order);
            values.truncate(most);
        }
        values.sort_unstable_by(order);
        let shown = |(key, documents): Counted<'_>| Some(FacetValue { value: value(&key)?, documents });
        Self {
            field: field.to_owned(),
            documents,
            values: values.into_iter().filter_map(shown).collect(),
            distinct,
            missing: documents.saturating_sub(present),
            range,
        }
    }
}
