//! Answers a filter by the lists of values, without the metadata of documents.

use std::cmp::Ordering;
use std::ops::Range;

use serde_json::Value;

use super::bits;
use super::key::{NULL_KEY, is_scalar, key, size_key, text_key};
use super::lists::{BLOCKS, EVERYTHING, HAS_ARRAYS, HAS_BLOCKS, LEFT_OUT, block_of};
use super::matches::{Relation, Test};
use super::tally::Tally;
use super::{Filter, Join, Node, time};

/// The lists of a segment as they are stored; any of them may be damaged.
#[derive(Clone, Copy)]
pub(crate) struct FieldLists<'a> {
    /// Number of rows of the segment.
    pub rows: usize,
    pub more: u64,
    pub names: &'a [u8],
    pub name_ends: &'a [u32],
    pub fields: &'a [[u32; 2]],
    pub keys: &'a [u8],
    pub key_ends: &'a [u32],
    pub lists: &'a [[u32; 2]],
    pub listed: &'a [u32],
    pub bits: &'a [u64],
}

/// Most ids of a filter that are looked for.
const MOST_IDS: usize = 512;

/// Lists that contradict each other.
#[derive(Debug, PartialEq)]
pub(crate) struct BadLists;

type Result<T> = std::result::Result<T, BadLists>;

/// What lists say of a filter: sets of rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// Rows that pass.
    pub passing: Vec<u64>,
    /// Rows that pass, and those of which the metadata decides.
    pub possible: Vec<u64>,
}

impl Answer {
    /// Whether a row passes; `None` if its metadata decides.
    pub(crate) fn of(&self, row: usize) -> Option<bool> {
        match (bits::has(&self.passing, row), bits::has(&self.possible, row)) {
            (true, _) => Some(true),
            (false, false) => Some(false),
            (false, true) => None,
        }
    }

    /// Number of rows of which the metadata decides.
    pub(crate) fn undecided(&self) -> usize {
        bits::count(&self.possible) - bits::count(&self.passing)
    }
}

/// The rows of the document with an id, which may not exist; `None` if that cannot be read.
pub(crate) type RowsOfId<'a> = &'a dyn Fn(&str) -> Option<Vec<u32>>;

impl Filter {
    /// The rows of a segment that pass, as far as its lists say.
    pub(crate) fn answer(&self, lists: &FieldLists<'_>, rows_of_id: RowsOfId<'_>) -> Result<Answer> {
        match &self.node {
            Node::Test { test, negated } => {
                let Some(passing) = lists.passing(test, rows_of_id)? else {
                    return Ok(Answer { passing: bits::none(lists.rows), possible: bits::all(lists.rows) });
                };
                let passing = if *negated { lists.others(passing) } else { passing };
                Ok(Answer { possible: passing.clone(), passing })
            }
            Node::Join { join, parts } => {
                let (start, change): (_, fn(u64, u64) -> u64) = match join {
                    Join::All => (bits::all(lists.rows), |a, b| a & b),
                    Join::Any => (bits::none(lists.rows), |a, b| a | b),
                };
                let mut joined = Answer { possible: start.clone(), passing: start };
                for part in parts {
                    let own = part.answer(lists, rows_of_id)?;
                    bits::zip(&mut joined.passing, &own.passing, change);
                    bits::zip(&mut joined.possible, &own.possible, change);
                }
                Ok(joined)
            }
        }
    }
}

/// What is known of a field.
enum Known {
    /// The numbers of its lists; the first has the rows where it is present. And whether it has blocks.
    Listed(Range<usize>, bool),
    /// No document has it.
    Absent,
    /// The metadata decides.
    Undecided,
}

impl<'a> FieldLists<'a> {
    /// The named fields whose lists were left out.
    pub(crate) fn left_out(&self) -> Result<Vec<String>> {
        let is_left_out = |place: &usize| self.fields[*place][0] & LEFT_OUT != 0;
        let name =
            |place| Ok(String::from_utf8_lossy(entry(self.names, self.name_ends, place)?).into_owned());
        (0..self.fields.len()).filter(is_left_out).map(name).collect()
    }

    /// The values of a field and how many of these rows have each; `None` if the metadata decides.
    pub(crate) fn tally(&self, field: &str, among: &[u64]) -> Result<Option<Tally<'a>>> {
        let lists = match self.field(field)? {
            Known::Undecided => return Ok(None),
            Known::Absent => return Ok(Some(Tally::default())),
            Known::Listed(lists, _) => lists,
        };
        let is_all = bits::count(among) == self.rows;
        let count = |list: usize| {
            if is_all {
                return Ok((self.lists.get(list).ok_or(BadLists)?[0] as usize).min(self.rows));
            }
            Ok(match self.list(list)? {
                List::Bits(own) => bits::shared(own, among),
                List::Rows(rows) => rows.iter().filter(|row| bits::has(among, **row as usize)).count(),
            })
        };
        let mut tally = Tally { present: count(lists.start)?, values: Vec::new() };
        for list in lists.start + 1..lists.end {
            let key = entry(self.keys, self.key_ends, list)?;
            // Sizes of arrays follow the scalars.
            if !is_scalar(key) {
                break;
            }
            let count = count(list)?;
            if count > 0 {
                tally.values.push((key.into(), count));
            }
        }
        Ok(Some(tally))
    }

    /// The rows that pass a test; `None` if the metadata decides.
    fn passing(&self, test: &Test, rows_of_id: RowsOfId<'_>) -> Result<Option<Vec<u64>>> {
        let mut found = bits::none(self.rows);
        let Some(field) = test.field() else {
            // Comparing the ids of the rows that a search visits is faster than looking for many.
            let Test::Ids(ids) = test else { return Ok(None) };
            if ids.len() > MOST_IDS {
                return Ok(None);
            }
            for id in ids {
                let Some(rows) = rows_of_id(id) else { return Ok(None) };
                bits::set(&mut found, &rows);
            }
            return Ok(Some(found));
        };
        let (lists, has_blocks) = match self.field(field)? {
            Known::Undecided => return Ok(None),
            Known::Listed(lists, has_blocks) => (lists, has_blocks),
            Known::Absent => (0..0, false),
        };
        let values = (lists.start + 1).min(lists.end)..lists.end;
        match test {
            Test::Ids(_) => {}
            Test::Exists { .. } => lists.take(1).try_for_each(|list| self.add(list, &mut found))?,
            Test::Compare { relation, value, .. } => {
                let range = self.related(values, *relation, value)?;
                self.add_range(&lists, has_blocks, range, &mut found)?;
            }
            Test::Prefix { prefix, .. } => {
                // A key has a time in another form than the string.
                if time::may_begin(prefix) {
                    return Ok(None);
                }
                let prefix = text_key(prefix);
                let start = search(values.clone(), |list| {
                    Ok(entry(self.keys, self.key_ends, list)?.cmp(&prefix).then(Ordering::Greater))
                });
                let (Err(start) | Ok(start)) = start?;
                let end = search(start..values.end, |list| {
                    let begins = entry(self.keys, self.key_ends, list)?.starts_with(&prefix);
                    Ok(if begins { Ordering::Less } else { Ordering::Greater })
                });
                let (Err(end) | Ok(end)) = end?;
                self.add_range(&lists, has_blocks, start..end, &mut found)?;
            }
            Test::Size { size, .. } => {
                if let Ok(list) = self.find(values, &size_key(*size))? {
                    self.add(list, &mut found)?;
                }
            }
            Test::OneOf { values: wanted, .. } => {
                for value in wanted.iter() {
                    // Arrays and objects have no list.
                    let Some(key) = key(value) else { return Ok(None) };
                    if let Ok(list) = self.find(values.clone(), &key)? {
                        self.add(list, &mut found)?;
                    }
                    if key == NULL_KEY {
                        let mut present = bits::none(self.rows);
                        lists.clone().take(1).try_for_each(|list| self.add(list, &mut present))?;
                        bits::zip(&mut found, &self.others(present), |a, b| a | b);
                    }
                }
            }
        }
        Ok(Some(found))
    }

    /// All rows but these.
    fn others(&self, mut rows: Vec<u64>) -> Vec<u64> {
        bits::zip(&mut rows, &bits::all(self.rows), |own, all| all & !own);
        rows
    }

    fn field(&self, name: &str) -> Result<Known> {
        if self.more == EVERYTHING {
            return Ok(Known::Undecided);
        }
        // A path through an array leads to each of its elements, or to one: the metadata has them.
        for (dot, _) in name.match_indices('.') {
            match self.place(&name[..dot])? {
                Ok(place) if self.fields.get(place).ok_or(BadLists)?[0] & (HAS_ARRAYS | LEFT_OUT) != 0 => {
                    return Ok(Known::Undecided);
                }
                Err(_) if self.more != 0 => return Ok(Known::Undecided),
                _ => {}
            }
        }
        let Ok(place) = self.place(name)? else {
            return Ok(if self.more != 0 { Known::Undecided } else { Known::Absent });
        };
        let end = |place: usize| self.fields.get(place).ok_or(BadLists);
        let &[state, last] = end(place)?;
        if state & LEFT_OUT != 0 {
            return Ok(Known::Undecided);
        }
        let first = if place == 0 { 0 } else { end(place - 1)?[1] };
        let lists = first as usize..last as usize;
        if lists.start < lists.end && lists.end <= self.lists.len() {
            Ok(Known::Listed(lists, state & HAS_BLOCKS != 0))
        } else {
            Err(BadLists)
        }
    }

    /// The place of a field, or else where it would be.
    fn place(&self, name: &str) -> Result<std::result::Result<usize, usize>> {
        search(0..self.fields.len(), |place| {
            Ok(entry(self.names, self.name_ends, place)?.cmp(name.as_bytes()))
        })
    }

    /// Among lists of a field, that of a key, or else where it would be.
    fn find(&self, lists: Range<usize>, key: &[u8]) -> Result<std::result::Result<usize, usize>> {
        search(lists, |list| Ok(entry(self.keys, self.key_ends, list)?.cmp(key)))
    }

    /// The lists whose keys have a relation to a value, among those of the same type.
    fn related(&self, lists: Range<usize>, relation: Relation, value: &Value) -> Result<Range<usize>> {
        let key = key(value).ok_or(BadLists)?;
        let of_type = |list: usize| {
            Ok(entry(self.keys, self.key_ends, list)?.first().copied().cmp(&key.first().copied()))
        };
        let start = search(lists.clone(), |list| Ok(of_type(list)?.then(Ordering::Greater)))?;
        let end = search(lists.clone(), |list| Ok(of_type(list)?.then(Ordering::Less)))?;
        let (Err(start), Err(end)) = (start, end) else { return Err(BadLists) };
        let (below, above) = match self.find(lists, &key)? {
            Ok(place) => (place, place + 1),
            Err(place) => (place, place),
        };
        Ok(match relation {
            Relation::Less => start..below,
            Relation::LessOrEqual => start..above,
            Relation::Greater => above..end,
            Relation::GreaterOrEqual => below..end,
        })
    }

    /// Adds the rows of a list.
    fn add(&self, list: usize, found: &mut [u64]) -> Result<()> {
        match self.list(list)? {
            List::Bits(bits) => bits::zip(found, bits, |a, b| a | b),
            List::Rows(rows) => bits::set(found, rows),
        }
        Ok(())
    }

    /// Adds the rows of a range of the lists of a field.
    fn add_range(
        &self,
        lists: &Range<usize>,
        has_blocks: bool,
        range: Range<usize>,
        found: &mut [u64],
    ) -> Result<()> {
        if !has_blocks || range.is_empty() {
            return range.into_iter().try_for_each(|list| self.add(list, found));
        }
        let place =
            |list: usize| self.lists.get(list).map(|&[count, start]| [count as usize, start as usize]);
        let [_, before] = place(lists.start + 1).ok_or(BadLists)?;
        let [count, last] = place(lists.end - 1).ok_or(BadLists)?;
        let all = (last + count).checked_sub(before).ok_or(BadLists)?;
        // None of the lists is dense, so their rows are joined.
        let start = |list: usize| if list == lists.end { Some(last + count) } else { Some(place(list)?[1]) };
        let block = |list: usize| {
            Ok(block_of(place(list).ok_or(BadLists)?[1].checked_sub(before).ok_or(BadLists)?, all))
        };
        let mut add = |range: Range<usize>| {
            let rows = start(range.start).ok_or(BadLists)?..start(range.end).ok_or(BadLists)?;
            bits::set(found, self.listed.get(rows).ok_or(BadLists)?);
            Ok(())
        };
        // Whole blocks, and the lists before and after them.
        let first_of = |wanted: usize| {
            let order = |list| Ok(block(list)?.cmp(&wanted).then(Ordering::Greater));
            search(range.clone(), order).map(|(Ok(list) | Err(list))| list)
        };
        let (first, end) = (block(range.start)? + 1, block(range.end - 1)?);
        if first >= end {
            return add(range);
        }
        add(range.start..first_of(first)?)?;
        add(first_of(end)?..range.end)?;
        let [_, present] = place(lists.start).ok_or(BadLists)?;
        let words = bits::words(self.rows);
        for block in first..end.min(BLOCKS) {
            let start = present + (1 + block) * words;
            bits::zip(found, self.bits.get(start..start + words).ok_or(BadLists)?, |a, b| a | b);
        }
        Ok(())
    }

    fn list(&self, list: usize) -> Result<List<'a>> {
        let &[count, start] = self.lists.get(list).ok_or(BadLists)?;
        let (count, start) = (count as usize, start as usize);
        let is_dense = super::lists::is_dense(count, self.rows);
        let len = if is_dense { bits::words(self.rows) } else { count };
        let range = start..start.checked_add(len).ok_or(BadLists)?;
        match is_dense {
            true => self.bits.get(range).map(List::Bits),
            false => self.listed.get(range).map(List::Rows),
        }
        .ok_or(BadLists)
    }
}

/// The rows of a value.
enum List<'a> {
    /// One bit per row.
    Bits(&'a [u64]),
    /// Ascending.
    Rows(&'a [u32]),
}

/// An entry of joined ones.
fn entry<'a>(joined: &'a [u8], ends: &[u32], place: usize) -> Result<&'a [u8]> {
    let start = if place == 0 { 0 } else { *ends.get(place - 1).ok_or(BadLists)? };
    let end = *ends.get(place).ok_or(BadLists)?;
    joined.get(start as usize..end as usize).ok_or(BadLists)
}

/// Binary search by an order that may fail.
fn search(
    places: Range<usize>,
    order: impl Fn(usize) -> Result<Ordering>,
) -> Result<std::result::Result<usize, usize>> {
    let (mut low, mut high) = (places.start, places.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match order(middle)? {
            Ordering::Equal => return Ok(Ok(middle)),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    Ok(Err(low))
}
