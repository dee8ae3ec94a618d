//! Which judgments count, and how much.

use std::collections::HashMap;

use serde::Serialize;

use super::Index;
use crate::error::Result;
use crate::judgment::Judgment;

/// What a judgment counts for in searches now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Standing {
    /// Whether the index holds its document; without it, the judgment does not count.
    pub has_document: bool,
    /// Whether the document's title or text was replaced since it was judged; then the judgment counts half.
    pub stale: bool,
    /// Whether another spelling of the question has a judgment of the same document that says the opposite;
    /// then they take from each other.
    pub contradicted: bool,
    /// What is left of the judgment's weight; 0 if it is too old to count.
    pub left: f64,
}

impl Index {
    /// What each of these judgments counts for, as far as the others of them say.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn standings(&self, judgments: &[Judgment]) -> Result<Vec<Standing>> {
        let (view, half_life) = (self.serving().view(), self.half_life()?);
        let mut said = HashMap::new();
        for own in judgments.iter().filter(|own| own.weight_left(half_life) > 0.0) {
            said.entry((own.same_question(), &*own.id)).or_insert([false; 2])[usize::from(own.grade > 0)] =
                true;
        }
        let standing = |own: &Judgment| {
            let text = view.row_of(&own.id)?.map(|row| view.text_checksum(row)).transpose()?;
            let left = own.weight_left(half_life);
            let all_said = said.get(&(own.same_question(), &*own.id));
            Ok(Standing {
                has_document: text.is_some(),
                stale: text.is_some_and(|text| own.text.is_some_and(|judged| judged != text)),
                contradicted: left > 0.0 && all_said == Some(&[true; 2]),
                left,
            })
        };
        judgments.iter().map(standing).collect()
    }
}
