//! All documents that pass a filter.

use serde_json::Value;

use super::damage::damaged;
use super::filter::{FilterCache, RowFilter};
use crate::error::Result;
use crate::filter::{Filter, Tally, bits};
use crate::ids::Row;
use crate::store::{Run, View};

/// Live documents of a view.
pub(in crate::index) struct Passing<'a> {
    /// Each part with the rows that represent the documents, one bit per row.
    parts: Vec<(Run<'a>, Vec<u64>)>,
}

impl<'a> Passing<'a> {
    pub fn all(view: &'a View) -> Result<Self> {
        let parts = view.parts().into_iter().map(|part| Ok((part.clone(), part.live_heads()?)));
        Ok(Self { parts: parts.collect::<Result<_>>()? })
    }

    /// Those that pass a filter.
    pub fn of(view: &'a View, filter: &'a Filter, cache: &'a FilterCache) -> Result<Self> {
        let mut rows = RowFilter::new(view, filter, cache);
        if let Some(ids) = filter.candidate_ids() {
            return Self::named(view, &ids, &mut rows);
        }
        let parts = rows.all()?.into_iter().map(|(part, passing)| {
            let mut heads = part.live_heads()?;
            bits::zip(&mut heads, &passing, |own, passing| own & passing);
            Ok((part, heads))
        });
        Ok(Self { parts: parts.collect::<Result<_>>()? })
    }

    /// Those with one of these ids that pass.
    fn named(view: &'a View, ids: &[&str], filter: &mut RowFilter<'_>) -> Result<Self> {
        let empty = view.parts().into_iter().map(|part| (bits::none(part.len()), part));
        let mut parts: Vec<(Run<'a>, Vec<u64>)> = empty.map(|(rows, part)| (part, rows)).collect();
        for id in ids {
            let Some(head) = view.row_of(id)? else { continue };
            let place = parts.partition_point(|(part, _)| part.first_row() <= head).checked_sub(1);
            if let Some((part, rows)) = place.and_then(|place| parts.get_mut(place))
                && filter.passes(head)?
            {
                bits::set(rows, &[head.0 - part.first_row().0]);
            }
        }
        Ok(Self { parts })
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|(_, rows)| bits::count(rows)).sum()
    }

    /// Their representative rows, ascending.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.parts.iter().flat_map(|(part, rows)| {
            let first = part.first_row().0;
            bits::rows(rows).map(move |row| Row(first + row))
        })
    }

    /// Their ids, in byte order.
    pub fn ids(&self) -> Result<Vec<String>> {
        let mut ids = Vec::with_capacity(self.len());
        for (part, rows) in &self.parts {
            for row in bits::rows(rows) {
                ids.push(part.tags(row as usize)?.0.to_owned());
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// The values of a field among them.
    pub fn tally(&self, field: &str) -> Result<Tally<'a>> {
        let mut tally = Tally::default();
        for (part, rows) in &self.parts {
            let own = match part.tally(field, rows) {
                Some(own) => own,
                None => Tally::of(field, bits::rows(rows).map(|row| metadata(part.tags(row as usize)?.1)))?,
            };
            tally.add(own);
        }
        Ok(tally)
    }
}

/// The metadata of a document as stored.
pub(super) fn metadata(stored: &[u8]) -> Result<Option<Value>> {
    match stored {
        [] => Ok(None),
        json => {
            let read = serde_json::from_slice(json);
            Ok(Some(read.map_err(|_| damaged("segments", "the metadata of a document"))?))
        }
    }
}
