//! The full check: every key, every checksum, every invariant.

use std::collections::HashMap;

use super::{
    Result, Store, StoreError, View,
    error::Damage,
    flushed::FlushedMark,
    layout::{keys, names},
    manifest::Manifest,
    postings::LeafTable,
    records::{self, CommitRecord},
    state::{State, read_posting_block},
    vectors::{self, Tail, VectorFile},
    view::decode_document,
};
use crate::ids::Row;

/// Problems kept in a report; a damaged file can have one for every key.
const MOST_PROBLEMS: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file or database, relative to the directory of the index.
    pub file: &'static str,
    /// What is wrong with it.
    pub damage: Damage,
}

/// What a full check walked and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Live documents, each read in full.
    pub documents: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Entries of all posting lists.
    pub postings: u64,
    /// Blocks of rows whose checksum was compared, the last incomplete one included.
    pub vector_blocks: u64,
    /// The first problems found, at most 100.
    pub problems: Vec<Problem>,
    /// Number of all problems found.
    pub problem_count: u64,
}

impl VerifyReport {
    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, file: &'static str, damage: Damage) {
        self.problem_count += 1;
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(Problem { file, damage });
        }
    }

    /// Notes damage as a problem; passes any other failure on.
    fn note<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Corrupt { file, detail }) => {
                self.problem(file, detail);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    fn compare(&mut self, what: &'static str, expected: u64, found: u64) {
        if expected != found {
            self.problem(names::DOCUMENTS, Damage::Disagreement { what, expected, found });
        }
    }
}

impl Store {
    /// Reads the whole index and checks everything that can be checked.
    ///
    /// Costs a read of every byte and some 20 bytes of memory for each document. Commits
    /// wait until it is done.
    ///
    /// # Errors
    ///
    /// Damage is in the report; errors are failures of reading.
    pub fn verify(&self) -> Result<VerifyReport> {
        let view = self.read();
        // Not before the view: a commit in its last step refuses reads meanwhile.
        self.health.check_reads()?;
        let mut walk = Walk {
            view: &view,
            report: VerifyReport::default(),
            chunks: HashMap::new(),
            ids: 0,
            commits: 0,
            full_blocks: 0,
            record: None,
            leaves: LeafTable::default(),
            expected_postings: 0,
        };
        walk.files()?;
        for entry in self.database.all() {
            let Some((key, value)) = walk.report.note(entry)? else {
                break;
            };
            walk.entry(&key, &value)?;
        }
        walk.finish();
        Ok(walk.report)
    }
}

/// The walk over all keys in order: commit record, documents, then what belongs to them.
struct Walk<'a> {
    view: &'a View<'a>,
    report: VerifyReport,
    /// Chunks of each live row.
    chunks: HashMap<Row, u32>,
    ids: u64,
    commits: u64,
    full_blocks: u64,
    record: Option<CommitRecord>,
    /// The posting lists as they are on disk.
    leaves: LeafTable,
    expected_postings: u64,
}

impl Walk<'_> {
    fn files(&mut self) -> Result<()> {
        let store = self.view.store;
        let manifest = Manifest::read(&*store.backend, &store.dir);
        let Some(manifest) = self.report.note(manifest)? else {
            return Ok(());
        };
        if manifest != store.manifest() {
            self.report.problem(names::MANIFEST, Damage::Foreign);
        }
        let State { rows, generation, .. } = *self.view.state;
        let flushed = FlushedMark::open(&*store.backend, &store.dir, store.store_id)
            .and_then(|flushed| flushed.check(generation));
        self.report.note(flushed)?;
        let vectors = VectorFile::open(&*store.backend, &store.dir, &store.manifest(), rows);
        self.report.note(vectors)?;
        Ok(())
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let damage = match key.first() {
            Some(&keys::COMMIT) if key == keys::COMMIT_KEY => {
                self.commits += 1;
                self.record = CommitRecord::decode(value);
                None
            }
            Some(&keys::DOCUMENT) => return self.document(key, value),
            Some(&keys::POSTINGS) => self.posting_block(key, value).err(),
            Some(&keys::ROW) => self.id(key, value).err(),
            Some(&keys::TEXT) => self.text(key).err(),
            Some(&keys::VECTOR_BLOCK) => self.vector_block(key, value).err(),
            prefix => Some(Damage::Stray { prefix: prefix.copied().unwrap_or(0), number: 0 }),
        };
        if let Some(damage) = damage {
            self.report.problem(names::DOCUMENTS, damage);
        }
        Ok(())
    }

    /// A document: its row has its id, its payload reads, each of its leaves lists it.
    fn document(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (id, record) = match decode_document(key, value) {
            Ok(found) => found,
            Err(damage) => {
                self.report.problem(names::DOCUMENTS, damage);
                return Ok(());
            }
        };
        let row = record.row;
        if row.0 >= self.view.state.rows || self.chunks.insert(row, record.chunks()).is_some() {
            let (field, found) = ("the row of a document", row.0.into());
            self.report.problem(names::DOCUMENTS, Damage::Field { field, found });
            return Ok(());
        }
        for &leaf in &record.leaves {
            if self.view.postings(leaf).binary_search(&row).is_err() {
                let what = "the posting of a document";
                self.report.problem(names::DOCUMENTS, Damage::Missing { what });
            }
        }
        let key = keys::row(row);
        let back = self.view.store.database.get(&key);
        let back = self.report.note(back)?.flatten();
        if back.and_then(|value| records::decode_id(&key, &value)).as_deref() != Some(id.as_str()) {
            let (what, number) = ("the id of row", row.0.into());
            self.report.problem(names::DOCUMENTS, Damage::Undecodable { what, number });
        }
        let loaded = self.view.load(id, &record);
        self.report.note(loaded)?;
        self.report.documents += 1;
        self.report.payload_bytes += u64::from(record.payload_bytes);
        self.expected_postings += record.leaves.len() as u64;
        Ok(())
    }

    fn posting_block(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damage> {
        let (config, rows) = (&self.view.store.config, self.view.state.rows);
        let (_, rows) = read_posting_block(config, rows, &mut self.leaves, key, value)?;
        self.report.postings += rows.len() as u64;
        match rows.iter().find(|row| !self.chunks.contains_key(row)) {
            Some(row) => Err(Damage::Stray { prefix: keys::POSTINGS, number: row.0.into() }),
            None => Ok(()),
        }
    }

    fn id(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damage> {
        let stray = |number| Damage::Stray { prefix: keys::ROW, number };
        let row = Row::from_key(keys::parse_one(key).ok_or_else(|| stray(0))?);
        // That it is the right id was checked from the document's side.
        if !self.chunks.contains_key(&row) || records::decode_id(key, value).is_none() {
            return Err(stray(row.0.into()));
        }
        self.ids += 1;
        Ok(())
    }

    fn text(&mut self, key: &[u8]) -> Result<(), Damage> {
        let stray = |number| Damage::Stray { prefix: keys::TEXT, number };
        let (row, chunk) = keys::parse_two(key).ok_or_else(|| stray(0))?;
        let row = Row::from_key(row);
        if self.chunks.get(&row).is_none_or(|chunks| chunk >= *chunks) {
            return Err(stray(row.0.into()));
        }
        Ok(())
    }

    fn vector_block(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damage> {
        let stray = |number| Damage::Stray { prefix: keys::VECTOR_BLOCK, number };
        let block = u32::from_be_bytes(keys::parse_one(key).ok_or_else(|| stray(0))?);
        let number = u64::from(block);
        if block >= (Tail { rows: self.view.state.rows, crc: 0 }).full_blocks() {
            return Err(stray(number));
        }
        self.full_blocks += 1;
        let undecodable = Damage::Undecodable { what: "the checksum of vector block", number };
        let crc = records::decode_block_crc(key, value).ok_or(undecodable)?;
        self.block(block, crc);
        Ok(())
    }

    fn block(&mut self, block: u32, crc: u32) {
        self.report.vector_blocks += 1;
        let bytes = vectors::block_bytes(self.view.row_matrix(), self.view.state.dim, block);
        if crc32fast::hash(bytes) != crc {
            let damage = Damage::Checksum { what: "block", number: block.into() };
            self.report.problem(names::VECTORS, damage);
        }
    }

    /// The counts. Leaves of documents that all have postings, and as many postings as
    /// leaves of documents, mean that every posting is one of those.
    fn finish(&mut self) {
        let state = &self.view.state;
        let documents = self.report.documents;
        match self.record {
            Some(record) => {
                self.report.compare("the generation", record.generation.0, state.generation.0);
                self.report.compare("the number of rows", record.rows.into(), state.rows.into());
                self.report.compare("the number of documents", record.documents.into(), documents);
                let tail = Tail { rows: record.rows, crc: record.tail_crc };
                self.report.compare(
                    "the number of vector block checksums",
                    tail.full_blocks().into(),
                    self.full_blocks,
                );
                if record.rows % super::layout::vectors::BLOCK_ROWS != 0 {
                    self.block(tail.full_blocks(), tail.crc);
                }
            }
            None => {
                let what = "the commit record";
                self.report.problem(names::DOCUMENTS, Damage::Missing { what });
            }
        }
        self.report.compare("the number of commit records", 1, self.commits);
        self.report.compare("the number of documents in memory", documents, state.documents.into());
        self.report.compare("the number of ids of rows", documents, self.ids);
        let postings = self.report.postings;
        self.report.compare("the number of postings", self.expected_postings, postings);
        let mut differing = 0;
        for (leaf, list) in state.leaves.iter() {
            differing += u64::from(self.leaves.rows(leaf) != list.rows());
        }
        for (leaf, list) in self.leaves.iter() {
            differing += u64::from(state.leaves.rows(leaf) != list.rows());
        }
        self.report.compare("the number of leaves that differ in memory", 0, differing);
        let differs = |row| state.live.contains(row) != self.chunks.contains_key(&row);
        let differing = (0..state.rows).map(Row).filter(|row| differs(*row)).count() as u64;
        self.report.compare("the number of rows whose liveness differs", 0, differing);
    }
}
