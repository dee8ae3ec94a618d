//! Counts of an insert.

use std::io::Write;

use ehi::data::{DataError, FolderReport, Note};
use ehi::{CutTexts, Index, InsertSummary};
use serde_json::json;

use super::left_out::LeftOut;
use crate::escape::escaped;
use crate::failure::Failure;
use crate::printing::{self, counted};

#[derive(Default)]
pub struct Tally {
    /// Documents read.
    pub read: u64,
    inserted: u64,
    replaced: u64,
    superseded: u64,
    /// Documents, and files, that are not stored.
    pub refused: u64,
    /// Files of a folder that the index holds as they are.
    pub unchanged: u64,
    /// Documents removed, whose files are gone.
    pub removed: u64,
    /// Notes shown to the user, one sentence each.
    pub notes: Vec<String>,
    /// Columns of tables that are text because of some of their cells.
    text_columns: Vec<String>,
    /// Entries of folders, and values of files, that are not read.
    left_out: LeftOut,
    /// Lines that are not documents.
    bad_lines: u64,
    /// Truncated texts.
    cut: CutTexts,
    passages: u64,
}

impl Tally {
    pub fn folder(&mut self, report: &FolderReport) {
        self.unchanged += report.unchanged;
        self.left_out.add(report);
    }

    /// Counts the subject of a note.
    pub fn noted(&mut self, note: &Note) {
        self.left_out.values += note.left_out;
        self.text_columns.extend(note.text_column.clone());
    }

    pub fn add(&mut self, summary: &InsertSummary) {
        self.inserted += summary.inserted as u64;
        self.replaced += summary.replaced as u64;
        self.superseded += summary.superseded as u64;
        self.refused += summary.refused.len() as u64;
        self.cut.join(summary.cut);
        self.passages += summary.passages as u64;
    }

    /// Counts the documents of a failed group that were stored, `more` of them new to the index.
    pub fn add_partly(&mut self, stored: u64, more: u64) {
        self.inserted += more.min(stored);
        self.replaced += stored.saturating_sub(more);
    }

    /// Counts a line that could be read and is not a document.
    pub fn bad_line(&mut self, error: &DataError) {
        if !error.is_of_reading() {
            self.bad_lines += 1;
        }
    }

    /// The failure after a signal.
    pub fn interrupted(&self, signal: i32) -> Failure {
        let left = format!(
            "{} of the {} documents read are stored, and nothing that follows; run the same command again: documents \
             already stored are replaced, none is lost",
            self.stored(),
            self.read
        );
        Failure::Stopped { signal, left }
    }

    /// Documents stored.
    pub fn stored(&self) -> u64 {
        self.inserted + self.replaced
    }

    /// Documents that were read, but not stored because of a bad line or an interrupt.
    fn not_stored(&self) -> u64 {
        self.read.saturating_sub(self.stored() + self.superseded + self.refused) + self.bad_lines
    }

    /// Flushes, also after a failure: the documents stored before it remain, so they must be durable.
    pub fn finish(
        &self,
        index: &Index,
        result: Result<(), Failure>,
        as_json: bool,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let result = match (result, self.refused) {
            (Ok(()), 1..) => Err(Failure::Refused { count: self.refused, read: self.read }),
            (result, _) => result,
        };
        let flushed = index.flush();
        let waiting = match &flushed {
            Ok(()) => 0,
            // If unknown, all of them.
            Err(_) => index.stats().map_or_else(|_| self.stored(), |stats| stats.memtable_documents),
        };
        let complete = matches!(result, Ok(()) | Err(Failure::Refused { .. })) && flushed.is_ok();
        let written = match as_json {
            true => self.write_json(out, index, waiting),
            false => self.write(out, index, (!complete).then_some(waiting)).map_err(Failure::Output),
        };
        let result = match flushed {
            Ok(()) => result,
            Err(source) => Err(Failure::Unflushed {
                waiting,
                source: Box::new(source),
                before: result.err().map(Box::new),
            }),
        };
        result.and(written)
    }

    fn write(&self, out: &mut dyn Write, index: &Index, waiting: Option<u64>) -> std::io::Result<()> {
        let documents = counted(index.len(), "document");
        let max_tokens = index.bundle().model().encoder().max_tokens();
        let Self { inserted, replaced, superseded, .. } = self;
        write!(out, "{inserted} inserted, {replaced} replaced")?;
        if *superseded > 0 {
            write!(out, ", {superseded} superseded (their ids came again)")?;
        }
        if self.passages > 0 {
            write!(out, ", {}", counted(self.passages, "passage"))?;
        }
        for (count, what) in
            [(self.unchanged, "unchanged"), (self.removed, "removed"), (self.refused, "refused")]
        {
            if count > 0 {
                write!(out, ", {count} {what}")?;
            }
        }
        if let Some(waiting) = waiting {
            let stored = self.stored();
            let durable = stored.saturating_sub(waiting);
            if self.not_stored() > 0 {
                write!(out, ", {} read and not stored", self.not_stored())?;
            }
            if self.bad_lines > 0 {
                write!(out, ", nothing read behind it")?;
            }
            if stored > 0 {
                write!(out, "; {durable} of the {stored} stored are on disk")?;
            }
            match waiting {
                0 => {}
                1 => write!(out, ", 1 document is in memory and the log only")?,
                more => write!(out, ", {more} documents are in memory and the log only")?,
            }
        }
        write!(out, "{}", self.left_out.line())?;
        if !self.text_columns.is_empty() {
            let columns =
                self.text_columns.iter().map(|column| escaped(column)).collect::<Vec<_>>().join(", ");
            write!(out, "; text because of some cells: {columns}")?;
        }
        writeln!(out, "; the index has {documents}")?;
        self.write_cut(out, max_tokens)
    }

    fn write_json(&self, out: &mut dyn Write, index: &Index, waiting: u64) -> Result<(), Failure> {
        let Self { inserted, replaced, superseded, passages, unchanged, removed, refused, .. } = self;
        let summary = json!({
            "inserted": inserted,
            "replaced": replaced,
            "superseded": superseded,
            "passages": passages,
            "unchanged": unchanged,
            "removed": removed,
            "refused": refused,
            "not_stored": self.not_stored(),
            "waiting": waiting,
            "not_read": self.left_out,
            "text_columns": self.text_columns,
            "notes": self.notes,
            "cut": self.cut,
            "documents": index.len(),
        });
        printing::json(out, &summary)
    }

    /// Reports texts whose embeddings do not cover the end.
    fn write_cut(&self, out: &mut dyn Write, max_tokens: usize) -> std::io::Result<()> {
        let CutTexts { documents, tokens, tokens_cut, longest, .. } = self.cut;
        if documents == 0 {
            return Ok(());
        }
        let share = 100.0 * tokens_cut as f64 / tokens.max(1) as f64;
        let texts = if documents == 1 { "text was" } else { "texts were" };
        writeln!(
            out,
            "{documents} {texts} cut at the {max_tokens} tokens that the model reads: {share:.0}% of their \
             tokens are not in their embeddings, and the longest has {longest}; an index made by `ehi create \
             --passages 200/40` reads all of a text"
        )
    }
}
