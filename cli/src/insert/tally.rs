//! Counts of an insert.

use std::io::Write;

use ehi::data::{DataError, FolderReport, Note};
use ehi::model::Encoder;
use ehi::{CutTexts, Index, InsertSummary};
use serde::Serialize;

use crate::failure::Failure;
use crate::printing;
use crate::text::{counted, escaped};

#[derive(Default, Serialize)]
pub struct Tally {
    /// Documents read.
    #[serde(skip)]
    pub read: u64,
    inserted: u64,
    replaced: u64,
    superseded: u64,
    /// Documents past their time.
    expired: u64,
    /// Stored documents that will expire.
    expiring: u64,
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
    not_read: LeftOut,
    /// Lines that are not documents.
    #[serde(skip)]
    bad_lines: u64,
    /// Truncated texts.
    cut: CutTexts,
    passages: u64,
    /// Embeddings that were in the cache.
    cached: u64,
}

/// Counts of skipped folder entries and file values, by reason.
#[derive(Default, Serialize)]
struct LeftOut {
    hidden: u64,
    ignored: u64,
    links: u64,
    code: u64,
    others: u64,
    empty: u64,
    /// Values of a file that are not in any document.
    values: u64,
}

impl LeftOut {
    fn add(&mut self, report: &FolderReport) {
        self.hidden += report.hidden;
        self.ignored += report.ignored;
        self.links += report.links;
        self.code += report.code;
        self.others += report.others;
        self.empty += report.empty.len() as u64;
    }

    /// What was not read; empty if everything was.
    fn line(&self) -> String {
        let Self { hidden, ignored, links, code, others, empty, values } = *self;
        let counts = [
            (hidden, "hidden entry", ""),
            (ignored, "ignored entry", ""),
            (links, "link", ""),
            (code, "file", " of source code (see `--code`)"),
            (others, "file", " of other kinds"),
            (empty, "file", " without text"),
            (values, "value", ""),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        let said: Vec<String> = counts.map(|(count, noun, more)| counted(count, noun) + more).collect();
        match &said[..] {
            [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
            said => said.concat(),
        }
    }
}

/// The summary of an insert, as JSON.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    tally: &'a Tally,
    not_stored: u64,
    /// Documents that are in memory and the log only.
    waiting: u64,
    /// Documents of the index.
    documents: usize,
}

/// Counts above 0 with what they count, between commas.
fn listed(counts: &[(u64, &str)]) -> String {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

impl Tally {
    pub fn folder(&mut self, report: &FolderReport) {
        self.unchanged += report.unchanged;
        self.not_read.add(report);
    }

    /// Counts the subject of a note.
    pub fn noted(&mut self, note: &Note) {
        self.not_read.values += note.left_out;
        self.text_columns.extend(note.text_column.clone());
    }

    pub fn add(&mut self, summary: &InsertSummary) {
        self.inserted += summary.inserted as u64;
        self.replaced += summary.replaced as u64;
        self.superseded += summary.superseded as u64;
        self.expired += summary.expired as u64;
        self.expiring += summary.expiring as u64;
        self.refused += summary.refused.len() as u64;
        self.cut.join(summary.cut);
        self.passages += summary.passages as u64;
        self.cached += summary.cached as u64;
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

    /// Whether nothing was stored, removed, refused or noted.
    pub fn is_idle(&self) -> bool {
        self.read == 0 && self.removed == 0 && self.notes.is_empty()
    }

    /// Leaves out what is the same in each synchronisation of a folder.
    pub fn only_changes(&mut self) {
        self.unchanged = 0;
        self.not_read = LeftOut::default();
    }

    /// Documents stored.
    pub fn stored(&self) -> u64 {
        self.inserted + self.replaced
    }

    /// Documents that were read, but not stored because of a bad line or an interrupt.
    fn not_stored(&self) -> u64 {
        self.read.saturating_sub(self.stored() + self.superseded + self.expired + self.refused)
            + self.bad_lines
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
            (Ok(()), 1..) => Err(Failure::Refused {
                count: self.refused,
                read: self.read,
                kept: self.read.saturating_sub(self.refused + self.expired),
            }),
            (result, _) => result,
        };
        let flushed = index.flush();
        let waiting = match &flushed {
            Ok(()) => 0,
            // If unknown, all of them.
            Err(_) => index.stats().map_or_else(|_| self.stored(), |stats| stats.memtable_documents),
        };
        let complete = matches!(result, Ok(()) | Err(Failure::Refused { .. })) && flushed.is_ok();
        let (not_stored, documents) = (self.not_stored(), index.len());
        let summary = Summary { tally: self, not_stored, waiting, documents };
        let written = printing::report(out, as_json, &summary, |out| {
            self.write(out, index, (!complete).then_some(waiting))
        });
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
        let Self { inserted, replaced, superseded, passages, .. } = *self;
        let more = listed(&[
            (superseded, "superseded by later documents of the same id"),
            (self.expired, "already expired"),
            (if passages > inserted + replaced { passages } else { 0 }, "passages"),
            (self.cached, "embeddings from the cache"),
            (self.unchanged, "unchanged"),
            (self.removed, "removed"),
            (self.refused, "refused"),
        ]);
        write!(out, "{inserted} inserted, {replaced} replaced")?;
        if !more.is_empty() {
            write!(out, ", {more}")?;
        }
        if let Some(waiting) = waiting {
            let stored = self.stored();
            if self.not_stored() > 0 {
                write!(out, ", {} read but not stored", self.not_stored())?;
            }
            if self.bad_lines > 0 {
                write!(out, ", and reading stopped there")?;
            }
            if stored > 0 {
                write!(out, "; {} of the {stored} stored are on disk", stored.saturating_sub(waiting))?;
            }
            if waiting > 0 {
                write!(out, ", {} in memory and the log only", counted(waiting, "document"))?;
            }
        }
        for (head, list) in [
            ("not read", self.not_read.line()),
            ("text because of some cells", escaped(&self.text_columns.join(", "))),
        ] {
            if !list.is_empty() {
                write!(out, "; {head}: {list}")?;
            }
        }
        writeln!(out, "; the index has {}", counted(index.len(), "document"))?;
        let is_first = self.inserted > 0 && self.inserted == index.len() as u64;
        if let (Some(field), true, 0) = (index.expires(), is_first, self.expiring + self.expired) {
            let field = escaped(&field);
            writeln!(
                out,
                "note: no stored document has a time in the field `{field}`, so these do not expire"
            )?;
        }
        self.write_cut(out, index.bundle().model().encoder().map_or(0, Encoder::max_tokens))
    }

    /// Reports texts whose embeddings do not cover the end.
    fn write_cut(&self, out: &mut dyn Write, max_tokens: usize) -> std::io::Result<()> {
        let CutTexts { documents, tokens, tokens_cut, longest, .. } = self.cut;
        if documents == 0 {
            return Ok(());
        }
        let share = 100.0 * tokens_cut as f64 / tokens.max(1) as f64;
        let are = if documents == 1 { "text is" } else { "texts are" };
        writeln!(
            out,
            "warning: {documents} {are} longer than the {max_tokens} tokens that the model reads (the longest has \
             {longest}), so searches by meaning miss {share:.0}% of their tokens; to search all of a text, copy the \
             documents into an index created without `--whole`"
        )
    }
}
