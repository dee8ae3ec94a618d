//! Which rows have which values in the fields of their metadata: lists made when rows are sealed, which
//! answer tests of a filter without the metadata.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::bits;
use super::key::key;
use super::matches::each_at;

/// Most fields with lists.
const MOST_FIELDS: usize = 1_000;
/// A list of more than one row in this many is a bit per row.
const DENSE: usize = 32;
/// Lists may take one in this many of the bytes that documents and embeddings take.
const LARGEST_SHARE: u64 = 10;
/// Bytes that lists may take, however few documents there are.
const FEWEST_BYTES: usize = 64 << 10;

/// In the state of a field: at least one document has an array there.
pub(super) const HAS_ARRAYS: u32 = 1;
/// There are fields that are not named.
pub(super) const OTHERS: u64 = 1;
/// The lists decide nothing: the metadata of a document is an array or cannot be read.
pub(super) const EVERYTHING: u64 = 2;
/// In the state of a field: its lists were left out.
pub(super) const LEFT_OUT: u32 = 2;

/// The sections of lists. A field's first list, with an empty key, has the rows where the field is present.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct BuiltLists {
    /// Fields in the order of their bytes, joined, and the end of each.
    names: Vec<u8>,
    name_ends: Vec<u64>,
    /// Of each field: flags, and the end of its lists among all lists.
    fields: Vec<[u32; 2]>,
    /// Keys of the lists, those of a field ascending, joined, and the end of each.
    keys: Vec<u8>,
    key_ends: Vec<u64>,
    /// Of each list: how many rows it has, and where it begins: a dense one in `bits`, others in `rows`.
    lists: Vec<[u64; 2]>,
    /// Rows, ascending within a list.
    rows: Vec<u32>,
    /// A bit for each row of the segment.
    bits: Vec<u64>,
    /// 0, [`OTHERS`] or [`EVERYTHING`].
    more: u64,
}

/// A field's values and who has them, while lists are built.
#[derive(Default)]
struct Field {
    state: u32,
    /// Heads of documents where it is present, ascending.
    present: Vec<u32>,
    keys: HashMap<Vec<u8>, u32>,
    key_bytes: usize,
    /// Number of a key, and head of a document.
    found: Vec<(u32, u32)>,
}

/// Builds lists from the metadata of documents.
#[derive(Default)]
pub(crate) struct ListBuilder {
    fields: BTreeMap<String, Field>,
    more: u64,
    documents: usize,
}

impl ListBuilder {
    /// Adds the metadata of a document, as stored, given by its head; heads ascend. If it cannot be read, the
    /// lists decide nothing.
    pub(crate) fn add(&mut self, head: u32, metadata: &[u8]) {
        self.documents += 1;
        if metadata.is_empty() {
            return;
        }
        let Some(metadata) = serde_json::from_slice(metadata).ok().filter(|own: &Value| !own.is_array())
        else {
            self.more = EVERYTHING;
            return;
        };
        let mut names = BTreeMap::new();
        paths(&metadata, None, &mut names);
        for (name, is_array) in names {
            if self.fields.len() == MOST_FIELDS && !self.fields.contains_key(&name) {
                self.more = self.more.max(OTHERS);
                continue;
            }
            let field = self.fields.entry(name.clone()).or_default();
            field.state |= if is_array { HAS_ARRAYS } else { 0 };
            field.add(head, &metadata, &name);
        }
    }

    /// The lists of `rows` rows, of which `rows_of` adds those of the document with a head, in any order.
    /// Lists take at most about a tenth of `bytes`: those of the fields with the largest are left out.
    pub(crate) fn build(
        mut self,
        rows: usize,
        bytes: u64,
        rows_of: &dyn Fn(u32, &mut Vec<u32>),
    ) -> BuiltLists {
        let rows_per_document = rows.div_ceil(self.documents.max(1));
        let size = |field: &Field| {
            field.key_bytes + 24 * field.keys.len() + 4 * field.found.len() * rows_per_document
        };
        let mut sizes: Vec<(usize, &String)> =
            self.fields.iter().map(|(name, field)| (size(field), name)).collect();
        sizes.sort_unstable();
        let mut room = ((bytes / LARGEST_SHARE) as usize).max(FEWEST_BYTES);
        let mut left_out = HashSet::new();
        for (size, name) in sizes {
            match room.checked_sub(size) {
                Some(rest) => room = rest,
                None => {
                    left_out.insert(name.clone());
                }
            }
        }
        let mut built = BuiltLists { more: self.more, ..BuiltLists::default() };
        let mut of_list = Vec::new();
        for (name, field) in &mut self.fields {
            built.names.extend_from_slice(name.as_bytes());
            built.name_ends.push(built.names.len() as u64);
            if left_out.contains(name) {
                built.fields.push([field.state | LEFT_OUT, built.lists.len() as u32]);
                continue;
            }
            let mut list = |key: &[u8], heads: &mut dyn Iterator<Item = u32>| {
                of_list.clear();
                heads.for_each(|head| rows_of(head, &mut of_list));
                of_list.sort_unstable();
                of_list.dedup();
                built.push(key, &of_list, rows);
            };
            list(&[], &mut field.present.iter().copied());
            let mut keys: Vec<(&[u8], u32)> =
                field.keys.iter().map(|(key, &number)| (&**key, number)).collect();
            keys.sort_unstable();
            field.found.sort_unstable();
            for (key, number) in keys {
                let first = field.found.partition_point(|(other, _)| *other < number);
                let own = field.found[first..].iter().take_while(|(other, _)| *other == number);
                list(key, &mut own.map(|(_, head)| *head));
            }
            built.fields.push([field.state, built.lists.len() as u32]);
        }
        built
    }
}

impl Field {
    fn add(&mut self, head: u32, metadata: &Value, name: &str) {
        each_at(Some(metadata), name, |found| {
            let Some(value) = found else { return false };
            if self.present.last() != Some(&head) {
                self.present.push(head);
            }
            if let Some(key) = key(value) {
                let (next, bytes) = (self.keys.len() as u32, key.len());
                let number = *self.keys.entry(key).or_insert_with(|| {
                    self.key_bytes += bytes;
                    next
                });
                if self.found.last() != Some(&(number, head)) {
                    self.found.push((number, head));
                }
            }
            false
        });
    }
}

impl BuiltLists {
    fn push(&mut self, key: &[u8], list: &[u32], rows: usize) {
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len() as u64);
        let is_dense = is_dense(list.len(), rows);
        let start = if is_dense { self.bits.len() } else { self.rows.len() };
        match is_dense {
            true => {
                self.bits.resize(start + bits::words(rows), 0);
                bits::set(&mut self.bits[start..], list);
            }
            false => self.rows.extend_from_slice(list),
        }
        self.lists.push([list.len() as u64, start as u64]);
    }

    /// The lists of `rows` rows, as read.
    #[cfg(test)]
    pub(super) fn read(&self, rows: usize) -> super::FieldLists<'_> {
        let Self { names, name_ends, fields, keys, key_ends, lists, rows: listed, bits, more } = self;
        super::FieldLists { rows, more: *more, names, name_ends, fields, keys, key_ends, lists, listed, bits }
    }

    /// The bytes of each section.
    pub(crate) fn sections(&self) -> [&[u8]; SECTIONS] {
        [
            bytemuck::bytes_of(&self.more),
            &self.names,
            bytemuck::cast_slice(&self.name_ends),
            bytemuck::cast_slice(&self.fields),
            &self.keys,
            bytemuck::cast_slice(&self.key_ends),
            bytemuck::cast_slice(&self.lists),
            bytemuck::cast_slice(&self.rows),
            bytemuck::cast_slice(&self.bits),
        ]
    }
}

/// Whether a list of `count` of `rows` rows is a bit per row.
pub(super) fn is_dense(count: usize, rows: usize) -> bool {
    count.saturating_mul(DENSE) > rows
}

/// Number of sections.
pub(crate) const SECTIONS: usize = 9;

/// Every path of keys through objects, joined by dots, as a filter names it; with whether it leads to an
/// array.
fn paths(value: &Value, prefix: Option<&str>, out: &mut BTreeMap<String, bool>) {
    let Value::Object(fields) = value else { return };
    for (key, value) in fields {
        let name = prefix.map_or_else(|| key.clone(), |prefix| format!("{prefix}.{key}"));
        paths(value, Some(&name), out);
        *out.entry(name).or_default() |= value.is_array();
    }
}
