//! Repair of an index that does not open, or that has internal damage.
//!
//! Everything proven is kept: the manifest, or its copy if that is damaged; each document whose bytes match
//! their checksums. Derived data is rebuilt: embeddings and posting lists, from texts and model. The caller
//! decides what cannot be known. Nothing is removed: damaged files get a second name in `damaged` before the
//! manifest leaves them out, and that is the commit point, as everywhere.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use half::f16;

use super::{
    Result, StoreConfig, StoreError, StoreOptions,
    batch::{CheckedPut, Put, check_leaf},
    error::Damage,
    files::{self, set_aside},
    header,
    layout::names,
    lock::DirectoryLock,
    manifest::{Manifest, SegmentEntry},
    memtable::Memtable,
    part::VersionPart,
    recovery,
    repair_report::RepairReport,
    rows::{Member, Passage, RowSource, Rows},
    segment::{self, Codes, NewSegment, Segment},
    terms::Lexer,
    tombstones::Tombstones,
};
use crate::disk::{Backend, Kind};
use crate::document::Document;
use crate::ids::Generation;

/// Maximum number of ids in a report.
const MOST_IDS: usize = 100;
/// Documents encoded together.
const GROUP: usize = 256;

/// What to do with documents that may have been deleted, because the file of dead rows is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undecided {
    /// Change nothing and return [`StoreError::Undecided`].
    #[default]
    Refuse,
    /// Keep them: some deleted documents reappear.
    Keep,
    /// Leave them out: the index loses some documents that were not deleted; their files are set aside.
    Drop,
}

/// The embedding of a document, `[dim]` f16, if it is readable and the document has no passages.
pub(crate) type Readable = Option<Vec<f16>>;

/// Encodes and routes documents again; documents with a readable embedding are only routed, and those without
/// a text or an encoder get one that is similar to nothing.
pub(crate) type Compute<'a, E> = &'a mut dyn FnMut(Vec<Document>, Vec<Readable>) -> Result<Vec<Put>, E>;

/// How to rebuild what follows from texts and model.
pub(crate) struct Anew<'a, E> {
    pub(crate) compute: Compute<'a, E>,
    /// Whether it can encode texts.
    pub(crate) encodes: bool,
    /// The embedding in another store of a document that was inserted in this generation.
    pub(crate) elsewhere: &'a mut dyn FnMut(&Document, Generation) -> Readable,
    /// Needed if rows have posting lists of terms.
    pub(crate) lexer: Option<&'a dyn Lexer>,
}

/// A readable document of a damaged segment.
struct ReadableDocument {
    /// Its representative row in the segment.
    head: u32,
    id: String,
    /// Its rows in the order of its text, if they could be read with their embeddings and leaves.
    rows: Option<Vec<u32>>,
}

/// The readable documents of damaged segments.
#[derive(Default)]
struct Salvaged {
    /// Segments, with the rows of their whole documents.
    whole: Vec<(Segment, Vec<u32>)>,
    /// Documents whose rows were rebuilt, with their generations.
    again: Vec<(Arc<CheckedPut>, Generation)>,
    ids: HashSet<String>,
}

/// A directory under repair, locked.
pub(crate) struct Repair {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) dir: PathBuf,
    options: StoreOptions,
    pub(super) manifest: Manifest,
    pub(crate) report: RepairReport,
    _lock: DirectoryLock,
}

impl Repair {
    /// Takes the lock, and finds the manifest or restores it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`], [`StoreError::NotAnIndex`], [`StoreError::UnsupportedVersion`]; the damage of
    /// the manifest if its copies are damaged too.
    pub(crate) fn begin_on(backend: Arc<dyn Backend>, dir: &Path, options: StoreOptions) -> Result<Self> {
        let there = |name: &str| dir.join(name).exists();
        if ![names::MANIFEST, names::MANIFEST_COPY].into_iter().any(there) {
            let path = dir.to_owned();
            // A directory that never became an index has nothing to repair.
            return Err(match there(names::MANIFEST_NEW) {
                true => StoreError::InterruptedCreate { path },
                false => StoreError::NotAnIndex { path },
            });
        }
        for path in
            [dir.to_owned(), dir.join(names::SEGMENTS), dir.join(names::LOG), dir.join(names::DAMAGED)]
        {
            if files::kind(&*backend, &path)?.is_some_and(|kind| kind != Kind::Directory) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Err(StoreError::corrupt(name, Damage::NotADirectory));
            }
        }
        let lock = DirectoryLock::take(dir, options.lock_wait)?;
        files::create_directory(&*backend, &dir.join(names::SEGMENTS))?;
        let mut report = RepairReport::default();
        let manifest = match Manifest::read(&*backend, dir) {
            Ok(manifest) => match recovery::evidence_of_later(&*backend, dir, &manifest) {
                None => manifest,
                Some(_) => go_on_from_later(&*backend, dir, manifest, &mut report)?,
            },
            Err(error) if !matches!(error, StoreError::Corrupt { .. }) && there(names::MANIFEST) => {
                return Err(error);
            }
            Err(error) => {
                // Both were written after the files that they name were durable. Of equal ones the last wins.
                let mut copies = Vec::new();
                for name in [names::MANIFEST_NEW, names::MANIFEST_COPY] {
                    match Manifest::read_named(&*backend, dir, name) {
                        Ok(copy) => copies.push((copy, name)),
                        Err(StoreError::Corrupt { .. }) => {}
                        Err(_) if !there(name) => {}
                        Err(other) => return Err(other),
                    }
                }
                // The newest copy whose files all exist, or else the newest.
                copies.sort_by_key(|(copy, _)| (is_whole(&*backend, dir, copy), copy.generation));
                let (manifest, found) = copies.pop().ok_or(error)?;
                set_others_aside(&*backend, dir, &manifest, &mut report)?;
                // It may be the only one left, so it is not rewritten if it already has that name.
                if found != names::MANIFEST_NEW {
                    manifest.write_provisional(&*backend, dir)?;
                }
                Manifest::publish(&*backend, dir)?;
                manifest
            }
        };
        Ok(Self { backend, dir: dir.to_owned(), options, manifest, report, _lock: lock })
    }

    /// The configuration in the manifest.
    pub(crate) fn config(&self) -> &super::StoreConfig {
        &self.manifest.config
    }

    /// As [`Store::id`](super::Store::id).
    pub(crate) fn store_id(&self) -> String {
        header::text_of(self.manifest.store_id)
    }

    /// Sets the files of segments aside and publishes a manifest without them.
    fn leave_out(&mut self, damaged: &[SegmentEntry], manifest: &Manifest) -> Result<()> {
        let files = || damaged.iter().flat_map(SegmentEntry::files).map(|name| name.to_string());
        for name in files().filter(|name| self.dir.join(name).exists()) {
            self.report.set_aside.push(set_aside(&*self.backend, &self.dir, &name)?);
        }
        files::sync(&*self.backend, &self.dir.join(names::SEGMENTS))?;
        manifest.write_provisional(&*self.backend, &self.dir)?;
        Manifest::publish(&*self.backend, &self.dir)?;
        manifest.write_copy(&*self.backend, &self.dir);
        for name in files() {
            // They have their other name. If one is missing, that was the damage.
            let _ = self.backend.remove(&self.dir.join(name));
        }
        Ok(())
    }

    /// Replaces damaged segments by their readable documents.
    ///
    /// Memory: the ids of damaged segments, and the documents whose embeddings are recomputed; all ids if a
    /// file of dead rows is damaged.
    pub(crate) fn run<E: From<StoreError>>(
        mut self,
        undecided: Undecided,
        mut anew: Anew<'_, E>,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<RepairReport, E> {
        self.mend_log()?;
        // An unusable copy would not help the next repair.
        self.manifest.renew_copy(&*self.backend, &self.dir);
        let waiting = recovery::waiting(&*self.backend, &self.dir, &self.manifest)?;
        self.report.waiting_documents = waiting.map_or(0, |waiting| waiting.documents);
        let number = self.manifest.next_segment;
        let mut manifest =
            Manifest { next_segment: number + 1, segments: Vec::new(), ..self.manifest.clone() };
        let (mut sound, mut damaged) = (Vec::new(), Vec::new());
        for entry in &self.manifest.segments {
            match self.open_sound(entry) {
                Ok(part) => {
                    self.report.documents += u64::from(part.live_documents());
                    manifest.segments.push(*entry);
                    sound.push(part);
                }
                Err(StoreError::Corrupt { file, detail }) => {
                    tracing::warn!(index = %self.dir.display(), "{file} is damaged: {detail}");
                    damaged.push(*entry);
                }
                Err(other) => return Err(other.into()),
            }
        }
        self.report.damaged_segments = damaged.len() as u64;
        if damaged.is_empty() {
            return Ok(self.report);
        }
        let mut salvaged = Salvaged::default();
        // Of an id in several segments, which only damage can cause, the newest.
        for entry in damaged.iter().rev() {
            self.salvage(entry, &sound, undecided, &mut anew, &mut salvaged)?;
        }
        let Salvaged { whole, again, ids } = salvaged;
        self.report.recovered = ids.len() as u64;
        self.report.documents += self.report.recovered;
        let config = &self.manifest.config;
        let again = Memtable::new(config, again);
        let rows = whole.iter().map(|(_, rows)| rows.clone()).chain([(0..again.rows()).collect()]);
        let members = (0..)
            .zip(rows)
            .flat_map(|(source, rows)| rows.into_iter().map(move |row| Member { source, row }));
        let members: Vec<Member> = members.collect();
        let mut sources: Vec<&dyn RowSource> =
            whole.iter().map(|(segment, _)| segment as &dyn RowSource).collect();
        sources.push(&again);
        if !members.is_empty() {
            let codes = Codes::wanted(&self.manifest.config, &self.options);
            let lexer = match self.manifest.config.is_lexical() {
                true => Some(anew.lexer.ok_or_else(StoreError::no_lexer)?),
                false => None,
            };
            let segment =
                NewSegment { number, codes, lexer, expires: config.expires.as_deref(), leaf: &|_| None };
            let folder = self.manifest.folder(&*self.backend, &self.dir);
            let files = segment::build(folder, segment, &sources, members, tick)?;
            manifest.segments.push(SegmentEntry { files, tombstones: None });
        }
        self.leave_out(&damaged, &manifest)?;
        Ok(self.report)
    }

    fn open(&self, entry: &SegmentEntry, damaged: bool) -> Result<Segment> {
        let folder = self.manifest.folder(&*self.backend, &self.dir);
        Segment::open(folder, self.manifest.config.dim, entry.files, damaged)
    }

    fn tombstones(&self, entry: &SegmentEntry, damaged: bool) -> Result<Arc<Tombstones>> {
        entry.read_tombstones(self.manifest.folder(&*self.backend, &self.dir), damaged)
    }

    /// A segment without any damage.
    fn open_sound(&self, entry: &SegmentEntry) -> Result<VersionPart> {
        let segment = self.open(entry, false)?;
        segment.check_bytes().collect::<Result<()>>()?;
        segment.check_terms(true)?;
        segment.check_lists()?;
        segment.check_expiries(self.manifest.config.expires.as_deref())?;
        if self.manifest.config.is_lexical() && !segment.is_lexical() {
            let detail = Damage::Missing { what: "the posting lists of terms" };
            return Err(StoreError::corrupt(segment.name().to_owned(), detail));
        }
        VersionPart::sealed(Arc::new(segment), self.tombstones(entry, false)?, entry.tombstones)
    }

    /// Adds the readable part of a segment.
    fn salvage<E: From<StoreError>>(
        &mut self,
        entry: &SegmentEntry,
        sound: &[VersionPart],
        undecided: Undecided,
        anew: &mut Anew<'_, E>,
        salvaged: &mut Salvaged,
    ) -> Result<(), E> {
        let config = self.manifest.config.clone();
        let Some(segment) = undamaged(self.open(entry, true))? else {
            self.report.lost += live(entry);
            return Ok(());
        };
        self.report.mended_bytes += segment.patched();
        segment.trust_all_but_terms(|| self.open(entry, true), anew.lexer)?;
        let tombstones = undamaged(self.tombstones(entry, true))?;
        let is_dead = |row| tombstones.as_ref().is_some_and(|tombstones| tombstones.contains(row));
        let mut found = Vec::new();
        let has_passages = config.passages.is_some();
        for row in (0..entry.files.rows).filter(|row| !is_dead(*row)) {
            // In a document with passages, only the first row has the id.
            if has_passages && undamaged(segment.id(row))?.is_some_and(str::is_empty) {
                continue;
            }
            let Some(document) = undamaged(segment.document(row))? else {
                self.lose(undamaged(segment.id(row))?);
                continue;
            };
            let rows = rows_of(&segment, row, &document, &config)?;
            let rows = rows.filter(|rows| !rows.iter().any(|row| is_dead(*row)));
            found.push(ReadableDocument { head: row, id: document.id, rows });
        }
        if tombstones.is_none() {
            self.decide(entry, sound, undecided, &mut found)?;
        }
        found.retain(|document| salvaged.ids.insert(document.id.clone()));
        let (whole, broken): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|document| document.rows.is_some());
        for group in broken.chunks(GROUP) {
            let (mut known, mut documents, mut embeddings) = (Vec::new(), Vec::new(), Vec::new());
            for &ReadableDocument { head, .. } in group {
                let document = segment.document(head)?;
                let own = if has_passages { None } else { undamaged(segment.embedding(head))? };
                let mut own = own.filter(|own| own.iter().all(|x| x.is_finite())).map(<[f16]>::to_vec);
                let is_lost = own.is_none() && (document.is_empty() || !anew.encodes);
                if is_lost {
                    own = (anew.elsewhere)(&document, segment.created_at(head)?);
                }
                match (is_lost, &own) {
                    (false, _) => self.report.recomputed += 1,
                    (true, Some(_)) => self.report.embeddings_of_previous += 1,
                    (true, None) => {
                        self.report.lost_embeddings += 1;
                        note_id(&mut self.report.lost_embedding_ids, Some(&document.id));
                    }
                }
                known.push(head);
                documents.push(document);
                embeddings.push(own);
            }
            for (head, Put { document, rows, terms }) in
                known.into_iter().zip((anew.compute)(documents, embeddings)?)
            {
                let (payload, metadata) = (segment.payload(head)?.to_vec(), segment.metadata(head)?.to_vec());
                let put = CheckedPut::new(document.id, payload, metadata, rows, terms);
                salvaged.again.push((Arc::new(put), segment.created_at(head)?));
            }
        }
        salvaged.whole.push((segment, whole.into_iter().flat_map(|own| own.rows).flatten().collect()));
        Ok(())
    }

    fn lose(&mut self, id: Option<&str>) {
        self.report.lost += 1;
        note_id(&mut self.report.lost_ids, id);
    }

    /// Decides about the documents of a segment whose dead rows are unknown.
    fn decide(
        &mut self,
        entry: &SegmentEntry,
        sound: &[VersionPart],
        undecided: Undecided,
        found: &mut Vec<ReadableDocument>,
    ) -> Result<()> {
        // A live document elsewhere proves that the one with the same id here was replaced.
        let mut elsewhere = HashSet::new();
        for part in sound {
            for row in part.live_rows() {
                elsewhere.insert(part.id(row)?);
            }
        }
        // The empty id of passages after the first.
        elsewhere.remove("");
        let (replaced, others): (Vec<_>, Vec<_>) =
            found.drain(..).partition(|document| elsewhere.contains(&*document.id));
        *found = others;
        // One row for each document whose rows are unknown.
        let replaced: usize =
            replaced.iter().map(|document| document.rows.as_ref().map_or(1, Vec::len)).sum();
        let tombstones = entry.tombstones.map_or(0, |tombstones| tombstones.count) as usize;
        if replaced >= tombstones {
            return Ok(());
        }
        let (documents, deleted) = (found.len() as u64, (tombstones - replaced) as u64);
        match undecided {
            Undecided::Refuse => Err(StoreError::Undecided { documents, deleted }),
            Undecided::Keep => {
                self.report.undecided += documents;
                Ok(())
            }
            Undecided::Drop => {
                self.report.undecided += documents;
                found.clear();
                Ok(())
            }
        }
    }
}

/// Adds an id to those of a report.
fn note_id(ids: &mut Vec<String>, id: Option<&str>) {
    if ids.len() < MOST_IDS {
        ids.extend(id.map(str::to_owned));
    }
}

/// The rows of a document, given by its representative row, in the order of its text; `None` if they are
/// unreadable or inconsistent.
fn rows_of(
    segment: &Segment,
    head: u32,
    document: &Document,
    config: &StoreConfig,
) -> Result<Option<Vec<u32>>> {
    let (mut rows, mut at, mut last) = (Vec::new(), head, None);
    loop {
        let embedding = undamaged(segment.matrix(at..at + 1))?;
        let leaf = undamaged(segment.leaf_of(at))?;
        let whole = embedding.is_some_and(|row| row.iter().all(|x| x.is_finite()))
            && leaf.is_some_and(|leaf| check_leaf(&document.id, leaf, config).is_ok());
        if !whole {
            return Ok(None);
        }
        rows.push(at);
        if config.passages.is_none() {
            return Ok(Some(rows));
        }
        let Some(Some(Passage { head: own, next, span })) = undamaged(segment.passage(at))? else {
            return Ok(None);
        };
        let follows = last.replace(span.start).is_none_or(|last| last < span.start);
        if own != head || !follows || span.part(&document.text).is_none() {
            return Ok(None);
        }
        if next == at {
            return Ok(Some(rows));
        }
        at = next;
    }
}

/// `None` for damage. Other errors may be temporary, so they must not be taken for a loss.
fn undamaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Live documents according to the manifest; live rows if documents have passages.
fn live(entry: &SegmentEntry) -> u64 {
    u64::from(entry.files.rows - entry.tombstones.map_or(0, |tombstones| tombstones.count))
}

/// Whether all files that a manifest names are there.
fn is_whole(backend: &dyn Backend, dir: &Path, manifest: &Manifest) -> bool {
    manifest.opening(backend, dir) == manifest.segments.len()
}

/// If an older manifest was put back: continues with the later one, of which there is a copy, if all its
/// files exist; otherwise with the current one, and sets files of a later one aside. Likewise if that of
/// another store is in its place.
fn go_on_from_later(
    backend: &dyn Backend,
    dir: &Path,
    manifest: Manifest,
    report: &mut RepairReport,
) -> Result<Manifest> {
    let is_later = |copy: &Manifest| {
        let is_whole = copy.store_id != manifest.store_id || is_whole(backend, dir, copy);
        is_whole && manifest.is_superseded(backend, dir, copy)
    };
    let copy = Manifest::read_named(backend, dir, names::MANIFEST_COPY).ok().filter(is_later);
    let manifest = copy.unwrap_or(manifest);
    set_others_aside(backend, dir, &manifest, report)?;
    manifest.write_provisional(backend, dir)?;
    Manifest::publish(backend, dir)?;
    Ok(manifest)
}

/// Sets aside the current manifest, before another one replaces it, and all files that the new one does not
/// name: files of a later generation, if any, are evidence, but not provably whole.
fn set_others_aside(
    backend: &dyn Backend,
    dir: &Path,
    manifest: &Manifest,
    report: &mut RepairReport,
) -> Result<()> {
    report.manifest_restored = true;
    if dir.join(names::MANIFEST).exists() {
        report.set_aside.push(set_aside(backend, dir, names::MANIFEST)?);
    }
    for name in manifest.orphans(backend, dir) {
        let name = name.to_string();
        report.set_aside.push(set_aside(backend, dir, &name)?);
        files::remove_file(backend, &dir.join(name))?;
    }
    Ok(())
}
