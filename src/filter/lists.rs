//! Which rows have which values in the fields of their metadata: lists made when rows are sealed, which
//! answer tests of a filter without the metadata.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::bits;
use super::key::{key, size_key};
use super::matches::{each_at, each_whole_at};

/// Most fields with lists.
const MOST_FIELDS: usize = 1_000;
/// Most bytes of the name of a field with lists.
const MOST_NAME_BYTES: usize = 512;
/// A list of more than one row in this many is a bit per row.
const DENSE: usize = 32;
/// Lists may take one in this many of the bytes that documents and embeddings take, which is about a tenth of
/// their files: these also have codes.
const LARGEST_SHARE: u64 = 8;
/// Bytes that lists may take, however many documents there are: their places are `u32`.
const MOST_BYTES: usize = u32::MAX as usize;
/// Bytes that lists may take, however few documents there are.
const FEWEST_BYTES: usize = 64 << 10;

/// In the state of a field: at least one document has an array there.
pub(super) const HAS_ARRAYS: u32 = 1;
/// In the state of a field: its lists were left out.
pub(super) const LEFT_OUT: u32 = 2;
/// In the state of a field: the bits of its first list are followed by those of [`BLOCKS`] blocks of its
/// other lists.
pub(super) const HAS_BLOCKS: u32 = 4;
/// The blocks of a field: each has the rows of a part of the lists, so that a range need not read them all.
/// The parts have about equally many rows.
pub(super) const BLOCKS: usize = 16;
/// Fewest lists of a field with blocks.
const FEWEST_LISTS: usize = 64;
/// There are fields that are not named.
const OTHERS: u64 = 1;
/// The lists decide nothing: the metadata of a document is an array or cannot be read.
pub(super) const EVERYTHING: u64 = 2;

/// The sections of lists. A field's first list, with an empty key, has the rows where the field is present.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct BuiltLists {
    /// Fields in the order of their bytes, joined, and the end of each.
    names: Vec<u8>,
    name_ends: Vec<u32>,
    /// Of each field: flags, and the end of its lists among all lists.
    fields: Vec<[u32; 2]>,
    /// Keys of the lists, those of a field ascending, joined, and the end of each.
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    /// Of each list: how many rows it has, and where it begins: a dense one in `bits`, others in `rows`.
    lists: Vec<[u32; 2]>,
    /// Rows, ascending within a list.
    rows: Vec<u32>,
    /// A bit for each row of the segment.
    bits: Vec<u64>,
    /// 0, [`OTHERS`] or [`EVERYTHING`].
    more: u64,
}

/// The values of a field and the documents that have them, while lists are built.
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
pub(crate) struct ListBuilder {
    fields: BTreeMap<String, Field>,
    more: u64,
    rows: usize,
    /// Rows of a document, on average.
    rows_per_document: usize,
    /// Bytes that lists may take, and the bytes that those of all fields would take.
    most: usize,
    size: usize,
}

impl ListBuilder {
    /// For `rows` rows of `documents` documents, which take `bytes` bytes with their embeddings. Lists take
    /// at most an eighth of that: those of the fields with the largest are left out.
    pub(crate) fn new(rows: usize, documents: usize, bytes: u64) -> Self {
        let rows_per_document = rows.div_ceil(documents.max(1));
        let most = ((bytes / LARGEST_SHARE) as usize).clamp(FEWEST_BYTES, MOST_BYTES);
        Self { fields: BTreeMap::new(), more: 0, rows, rows_per_document, most, size: 0 }
    }

    /// Adds the metadata of a document, as stored, given by its head; heads ascend. If it cannot be read, the
    /// lists decide nothing.
    pub(crate) fn add(&mut self, head: u32, metadata: &[u8]) {
        if metadata.is_empty() {
            return;
        }
        match serde_json::from_slice::<Value>(metadata) {
            Ok(metadata) if !metadata.is_array() => self.add_below(head, &metadata, &metadata, None),
            _ => self.more = EVERYTHING,
        }
        while self.size > 2 * self.most && self.leave_largest_out() {}
    }

    /// Adds every path of keys through the objects of `value`, which is at `path` in the metadata.
    fn add_below(&mut self, head: u32, metadata: &Value, value: &Value, path: Option<&str>) {
        let Value::Object(fields) = value else { return };
        for (key, value) in fields {
            let len = path.map_or(0, |path| path.len() + 1) + key.len();
            let name = path.filter(|_| len <= MOST_NAME_BYTES).map(|path| format!("{path}.{key}"));
            let name = name.unwrap_or_else(|| key.clone());
            let is_known = self.fields.contains_key(&name);
            if len > MOST_NAME_BYTES || !is_known && self.fields.len() == MOST_FIELDS {
                self.more = self.more.max(OTHERS);
            } else {
                let (rows, per_document) = (self.rows, self.rows_per_document);
                let field = self.fields.entry(name.clone()).or_default();
                field.state |= if value.is_array() { HAS_ARRAYS } else { 0 };
                let before = if is_known { field.size(&name, rows, per_document) } else { 0 };
                field.add(head, metadata, &name);
                self.size = self.size + field.size(&name, rows, per_document) - before;
            }
            if len <= MOST_NAME_BYTES {
                self.add_below(head, metadata, value, Some(&name));
            }
        }
    }

    /// Leaves out the lists of the field with the largest, of equal ones the last by name; `false` if there
    /// is none with lists.
    fn leave_largest_out(&mut self) -> bool {
        let (rows, per_document) = (self.rows, self.rows_per_document);
        let listed = self.fields.iter_mut().filter(|(_, field)| field.state & LEFT_OUT == 0);
        let sized = listed.map(|(name, field)| (field.size(name, rows, per_document), name, field));
        let Some((size, name, field)) = sized.max_by_key(|(size, ..)| *size) else { return false };
        *field = Field { state: field.state | LEFT_OUT, ..Field::default() };
        self.size = self.size - size + field.size(name, rows, per_document);
        true
    }

    /// The lists; `rows_of` adds the rows of the document with a head, in any order.
    pub(crate) fn build(mut self, rows_of: &dyn Fn(u32, &mut Vec<u32>)) -> BuiltLists {
        while self.size > self.most && self.leave_largest_out() {}
        let rows = self.rows;
        let mut built = BuiltLists { more: self.more, ..BuiltLists::default() };
        let mut of_list = Vec::new();
        for (name, field) in &mut self.fields {
            built.names.extend_from_slice(name.as_bytes());
            built.name_ends.push(built.names.len() as u32);
            if field.state & LEFT_OUT != 0 {
                built.fields.push([field.state, built.lists.len() as u32]);
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
            if built.push_blocks(built.fields.last().map_or(0, |[_, end]| *end as usize), rows) {
                field.state |= HAS_BLOCKS;
            }
            built.fields.push([field.state, built.lists.len() as u32]);
        }
        built
    }
}

impl Field {
    /// Bytes that its name and its lists take at most.
    fn size(&self, name: &str, rows: usize, rows_per_document: usize) -> usize {
        if self.state & LEFT_OUT != 0 {
            return name.len() + 16;
        }
        let present = (4 * self.present.len() * rows_per_document).min(rows / 8);
        let values = self.key_bytes + 12 * self.keys.len() + 4 * self.found.len() * rows_per_document;
        // Of rows that are passages, more may have a key.
        let has_blocks = self.keys.len() + 1 >= FEWEST_LISTS && present == rows / 8;
        name.len() + 40 + present + values + if has_blocks { BLOCKS * rows / 8 } else { 0 }
    }

    fn add(&mut self, head: u32, metadata: &Value, name: &str) {
        if self.state & LEFT_OUT != 0 {
            return;
        }
        each_at(Some(metadata), name, |found| {
            let Some(value) = found else { return false };
            if self.present.last() != Some(&head) {
                self.present.push(head);
            }
            if let Some(key) = key(value) {
                self.add_key(key, head);
            }
            false
        });
        each_whole_at(Some(metadata), name, |found| {
            if let Some(items) = found.and_then(Value::as_array) {
                self.add_key(size_key(items.len()), head);
            }
            false
        });
    }

    fn add_key(&mut self, key: Vec<u8>, head: u32) {
        let (next, bytes) = (self.keys.len() as u32, key.len());
        let number = *self.keys.entry(key).or_insert_with(|| {
            self.key_bytes += bytes;
            next
        });
        if self.found.last() != Some(&(number, head)) {
            self.found.push((number, head));
        }
    }
}

impl BuiltLists {
    fn push(&mut self, key: &[u8], list: &[u32], rows: usize) {
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len() as u32);
        let is_dense = is_dense(list.len(), rows);
        let start = if is_dense { self.bits.len() } else { self.rows.len() };
        match is_dense {
            true => {
                self.bits.resize(start + bits::words(rows), 0);
                bits::set(&mut self.bits[start..], list);
            }
            false => self.rows.extend_from_slice(list),
        }
        self.lists.push([list.len() as u32, start as u32]);
    }

    /// Adds the blocks of the field whose lists are those from `first` on: if it is in many rows, and its
    /// lists of values are many and none of them is dense, so that their rows are joined.
    fn push_blocks(&mut self, first: usize, rows: usize) -> bool {
        let [present, values @ ..] = &self.lists[first..] else { return false };
        let is_dense = |list: &[u32; 2]| is_dense(list[0] as usize, rows);
        if values.len() + 1 < FEWEST_LISTS || !is_dense(present) || values.iter().any(is_dense) {
            return false;
        }
        let before = values[0][1] as usize;
        let all = self.rows.len() - before;
        let mut blocks = vec![bits::none(rows); BLOCKS];
        for &[count, start] in values {
            let (start, block) = (start as usize, block_of(start as usize - before, all));
            bits::set(&mut blocks[block], &self.rows[start..start + count as usize]);
        }
        self.bits.extend(blocks.concat());
        true
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

/// The block of a list that begins at this place among `all` rows of a field's lists.
pub(super) fn block_of(start: usize, all: usize) -> usize {
    start * BLOCKS / all.max(1)
}

/// Whether a list of `count` of `rows` rows is a bit per row.
pub(super) fn is_dense(count: usize, rows: usize) -> bool {
    count.saturating_mul(DENSE) > rows
}

/// Number of sections.
pub(crate) const SECTIONS: usize = 9;
