//! The write path; the order of its steps is stated at the head of the store.

use half::f16;

use super::{
    Committed, Result, Store, StoreError, WriteBatch,
    batch::{CheckedBatch, CheckedPut},
    documents::Changes,
    error::Damage,
    layout::{keys, limits, names},
    postings::LeafEdit,
    records::{self, CommitRecord, DocumentRecord},
    state::State,
    view::find_record,
};
use crate::ids::Row;

/// All that a batch changes, worked out before anything is written.
struct Staged {
    changes: Changes,
    edit: LeafEdit,
    /// `[puts, dim]`, the rows to append.
    matrix: Vec<f16>,
    dead: Vec<Row>,
    done: Committed,
}

impl Store {
    /// Makes the changes of `batch` visible together and returns what it did.
    ///
    /// Waits for other commits, and before the last step for open views. A batch that
    /// changes nothing leaves the generation as it is.
    ///
    /// # Durability
    ///
    /// A crash leaves the whole batch or nothing of it. It is sure to survive once
    /// [`Store::flush`] has returned.
    ///
    /// # Errors
    ///
    /// An input that cannot be stored is named before anything is written. After a failed
    /// write of rows (a full disk, say) the index is as before and the commit may be
    /// tried again; after any other failure the handle answers [`StoreError::Poisoned`].
    pub fn commit(&self, batch: WriteBatch) -> Result<Committed> {
        // Before the lock: encoding a large batch holds up nobody.
        let checked = batch.check(&self.config)?;
        let mut writer = self.lock_writer();
        self.health.check_writes()?;
        let (rows, mut staged) = {
            let state = self.read_state();
            (state.rows, self.stage(&state, checked)?)
        };
        let Committed { generation, inserted, replaced, deleted } = staged.done;
        if inserted + replaced + deleted == 0 {
            return Ok(staged.done);
        }

        let bytes: &[u8] = bytemuck::cast_slice(&staged.matrix);
        let (tail, full_blocks) = writer.tail.extend(bytes, writer.vectors.stride());
        if !bytes.is_empty() {
            writer.vectors.append(rows, bytes)?;
            writer.vectors.sync().inspect_err(|_| self.health.refuse_writes())?;
        }

        for block in full_blocks {
            let key = keys::vector_block(block.number);
            staged.changes.put(&key, records::encode_block_crc(&key, block.crc));
        }
        for (leaf, block, rows) in staged.edit.blocks() {
            let key = keys::postings(leaf, block);
            if rows.is_empty() {
                staged.changes.remove(&key);
            } else {
                staged.changes.put(&key, records::encode_postings(&key, rows));
            }
        }
        let mut state = self.write_state();
        // Counts cannot overflow: the batch was staged against this very state.
        let documents = state.documents + inserted as u32 - deleted as u32;
        let record = CommitRecord { generation, rows: tail.rows, documents, tail_crc: tail.crc };
        staged.changes.put(&keys::COMMIT_KEY, record.encode());
        // Set first: a failure or a panic leaves the database in an unknown state.
        self.health.refuse_everything();
        writer.dirty = true;
        self.database.apply(staged.changes)?;

        state.generation = generation;
        state.documents = documents;
        state.rows = tail.rows;
        state.mapping = writer.vectors.mapping().clone();
        state.leaves.publish(staged.edit);
        staged.dead.into_iter().for_each(|row| state.live.remove(row));
        (rows..tail.rows).for_each(|row| state.live.insert(Row(row)));
        writer.tail = tail;
        self.health.restore();
        Ok(staged.done)
    }

    fn stage(&self, state: &State, batch: CheckedBatch) -> Result<Staged> {
        let wanted = batch.puts.len();
        let fits = u32::try_from(wanted).is_ok_and(|wanted| state.rows.checked_add(wanted).is_some());
        if !fits {
            return Err(StoreError::TooManyRows { used: state.rows, wanted });
        }
        let mut staged = Staged {
            changes: Changes::default(),
            edit: LeafEdit::default(),
            matrix: Vec::with_capacity(wanted * state.dim),
            dead: Vec::new(),
            done: Committed { generation: state.generation, inserted: 0, replaced: 0, deleted: 0 },
        };
        for id in &batch.deletes {
            if let Some(record) = find_record(self, id)? {
                staged.changes.remove(&keys::document(id));
                staged.retire(state, &record)?;
                staged.done.deleted += 1;
            }
        }
        for (put, row) in batch.puts.into_iter().zip(state.rows..) {
            match find_record(self, &put.id)? {
                Some(record) => {
                    staged.retire(state, &record)?;
                    staged.done.replaced += 1;
                }
                None => staged.done.inserted += 1,
            }
            staged.add(state, Row(row), put);
        }
        if staged.done.inserted + staged.done.replaced + staged.done.deleted > 0 {
            staged.done.generation = state.generation.next();
        }
        Ok(staged)
    }
}

impl Staged {
    /// Removes all that hangs on the row of a document that is deleted or replaced.
    fn retire(&mut self, state: &State, record: &DocumentRecord) -> Result<()> {
        self.changes.remove(&keys::row(record.row));
        for chunk in 0..record.chunks() {
            self.changes.remove(&keys::text(record.row, chunk));
        }
        for &leaf in &record.leaves {
            if !self.edit.remove(&state.leaves, leaf, record.row) {
                let detail = Damage::Missing { what: "the posting of a document" };
                return Err(StoreError::corrupt(names::DOCUMENTS, detail));
            }
        }
        self.dead.push(record.row);
        Ok(())
    }

    /// Adds a document under a new row, the largest so far.
    fn add(&mut self, state: &State, row: Row, put: CheckedPut) {
        let CheckedPut { id, payload, embedding, leaves } = put;
        for (chunk, bytes) in (0..).zip(payload.chunks(limits::CHUNK_BYTES)) {
            self.changes.put(&keys::text(row, chunk), bytes.to_vec());
        }
        for &leaf in &leaves {
            self.edit.push(&state.leaves, leaf, row);
        }
        let key = keys::row(row);
        self.changes.put(&key, records::encode_id(&key, &id));
        let record = DocumentRecord {
            row,
            payload_bytes: payload.len() as u32,
            payload_crc: crc32fast::hash(&payload),
            leaves,
        };
        let key = keys::document(&id);
        self.changes.put(&key, record.encode(&key));
        self.matrix.extend_from_slice(&embedding);
    }
}
