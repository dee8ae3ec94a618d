//! Crashes and failing disks, through the backend.

use std::{
    io::{Error, Result as IoResult},
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{
    super::{
        io::{Backend, BackendFile, FileSystem, OpenMode},
        layout::{names, vectors::HEADER_BYTES},
    },
    *,
};

/// Fails one operation, the `fail_at`th since the count was reset, as a full disk does.
struct Faulty {
    fail_at: usize,
    count: Arc<AtomicUsize>,
    /// What the failing operation was.
    failed: Arc<Mutex<Option<&'static str>>>,
}

impl Faulty {
    fn new(fail_at: usize) -> Self {
        Self { fail_at, count: Arc::default(), failed: Arc::default() }
    }

    fn step(&self, name: &'static str) -> IoResult<()> {
        if self.count.fetch_add(1, Ordering::SeqCst) == self.fail_at {
            *self.failed.lock().unwrap() = Some(name);
            return Err(Error::from(std::io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    fn again(&self) -> Self {
        Self { fail_at: self.fail_at, count: self.count.clone(), failed: self.failed.clone() }
    }
}

struct FaultyFile {
    file: Box<dyn BackendFile>,
    faults: Faulty,
}

impl Backend for Faulty {
    fn open(&self, path: &Path, mode: OpenMode) -> IoResult<Box<dyn BackendFile>> {
        self.step("open")?;
        Ok(Box::new(FaultyFile { file: FileSystem.open(path, mode)?, faults: self.again() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.step("rename")?;
        FileSystem.rename(from, to)
    }
    fn sync_directory(&self, path: &Path) -> IoResult<()> {
        self.step("sync")?;
        FileSystem.sync_directory(path)
    }
}

impl BackendFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> IoResult<()> {
        self.faults.step("read")?;
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> IoResult<()> {
        if let Err(error) = self.faults.step("write") {
            // As much as fitted.
            self.file.write_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(error);
        }
        self.file.write_at(bytes, offset)
    }
    fn len(&self) -> IoResult<u64> {
        self.faults.step("len")?;
        self.file.len()
    }
    fn grow(&self, len: u64) -> IoResult<()> {
        self.faults.step("grow")?;
        self.file.grow(len)
    }
    fn sync_data(&self) -> IoResult<()> {
        self.faults.step("sync")?;
        self.file.sync_data()
    }
    fn sync_all(&self) -> IoResult<()> {
        self.faults.step("sync")?;
        self.file.sync_all()
    }
    fn as_file(&self) -> &std::fs::File {
        self.file.as_file()
    }
}

#[test]
fn a_create_that_fails_anywhere_can_be_done_again() {
    let mut failures = 0;
    loop {
        let dir = tempfile::tempdir().unwrap();
        let faults = Faulty::new(failures);
        let result = Store::create_on(Arc::new(faults.again()), dir.path(), &config()).map(drop);
        let Some(failed) = *faults.failed.lock().unwrap() else {
            result.unwrap();
            break;
        };
        failures += 1;
        if !dir.path().join(names::MANIFEST).exists() {
            assert!(matches!(result, Err(StoreError::Io { .. })), "{failed}: {result:?}");
            assert!(matches!(
                Store::open(dir.path()),
                Err(StoreError::InterruptedCreate { .. } | StoreError::NotAnIndex { .. })
            ));
            drop(Store::create(dir.path(), &config()).unwrap());
        }
        assert_is(&Store::open(dir.path()).unwrap(), &Model::new());
    }
    assert!(failures > 10, "only {failures} operations");
}

#[test]
fn a_write_or_sync_that_fails_anywhere_loses_nothing_acknowledged() {
    let (origin, before) = sample();
    let batches: Vec<WriteBatch> = vec![
        puts((0..40).map(|n| put(&format!("new{n}"), n, &[n % 16])).collect()),
        WriteBatch { puts: vec![put("id001", 1001, &[9])], deletes: vec!["id002".into()] },
        puts(vec![put("last", 1002, &[1, 2, 3])]),
    ];
    let mut failures = Vec::new();
    loop {
        let dir = tempfile::tempdir().unwrap();
        copy_directory(origin.path(), dir.path());
        let path = dir.path().join(names::VECTORS);
        // So that the first commit has to grow the file.
        let committed = HEADER_BYTES as u64 + 301 * 16;
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(committed).unwrap();
        let faults = Faulty::new(failures.len());
        let store = Store::open_on(Arc::new(faults.again()), dir.path());
        let (mut acknowledged, mut newest) = (before.clone(), before.clone());
        if let Ok(store) = store {
            for batch in &batches {
                let outcome = store.commit(batch.clone());
                if matches!(outcome, Err(StoreError::Poisoned)) {
                    // By an earlier batch, which checked that it had to be.
                    continue;
                }
                let failed = *faults.failed.lock().unwrap();
                if outcome.is_ok() {
                    apply(&mut newest, batch);
                    if store.flush().is_ok() {
                        acknowledged = newest.clone();
                    } else {
                        assert!(matches!(store.flush(), Err(StoreError::Poisoned)));
                        assert!(matches!(store.commit(batch.clone()), Err(StoreError::Poisoned)));
                    }
                } else if failed == Some("sync") {
                    assert!(matches!(store.commit(batch.clone()), Err(StoreError::Poisoned)));
                    assert!(matches!(store.flush(), Err(StoreError::Poisoned)));
                } else {
                    // Nothing happened yet: the same commit works once there is room.
                    assert_is(&store, &newest);
                    store.commit(batch.clone()).unwrap();
                    apply(&mut newest, batch);
                    store.flush().unwrap();
                    acknowledged = newest.clone();
                }
                // Reading goes on in any case.
                assert_is_readable(&store, &newest);
            }
        }
        let failed = *faults.failed.lock().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let is_acknowledged = store.read().live() == acknowledged.len();
        assert_is(&store, if is_acknowledged { &acknowledged } else { &newest });
        let Some(failed) = failed else { break };
        failures.push(failed);
    }
    for kind in ["open", "read", "len", "grow", "write", "sync"] {
        assert!(failures.contains(&kind), "no {kind} in {failures:?}");
    }
}

fn assert_is_readable(store: &Store, model: &Model) {
    let view = store.read();
    assert_eq!(view.live(), model.len());
    for (id, put) in model.iter().take(5) {
        let row = view.row_of(id).unwrap().unwrap();
        assert_eq!(view.document(row).unwrap(), put.document);
    }
}

/// Copies the whole directory right after the vector file was synced: what a crash
/// between steps 2 and 3 of a commit leaves.
struct CopyAfterSync {
    from: PathBuf,
    to: PathBuf,
}

struct CopyingFile {
    file: Box<dyn BackendFile>,
    from: PathBuf,
    to: PathBuf,
}

impl Backend for CopyAfterSync {
    fn open(&self, path: &Path, mode: OpenMode) -> IoResult<Box<dyn BackendFile>> {
        let file = FileSystem.open(path, mode)?;
        if !path.ends_with(names::VECTORS) {
            return Ok(file);
        }
        Ok(Box::new(CopyingFile { file, from: self.from.clone(), to: self.to.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        FileSystem.rename(from, to)
    }
    fn sync_directory(&self, path: &Path) -> IoResult<()> {
        FileSystem.sync_directory(path)
    }
}

impl BackendFile for CopyingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> IoResult<()> {
        self.file.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> IoResult<()> {
        self.file.write_at(bytes, offset)
    }
    fn len(&self) -> IoResult<u64> {
        self.file.len()
    }
    fn grow(&self, len: u64) -> IoResult<()> {
        self.file.grow(len)
    }
    fn sync_data(&self) -> IoResult<()> {
        self.file.sync_data()?;
        copy_directory(&self.from, &self.to);
        Ok(())
    }
    fn sync_all(&self) -> IoResult<()> {
        self.file.sync_all()
    }
    fn as_file(&self) -> &std::fs::File {
        self.file.as_file()
    }
}

#[test]
fn a_crash_between_the_sync_and_the_batch_leaves_the_old_generation() {
    let (dir, model) = sample();
    let image = tempfile::tempdir().unwrap();
    let backend = CopyAfterSync { from: dir.path().into(), to: image.path().into() };
    let store = Store::open_on(Arc::new(backend), dir.path()).unwrap();
    let batch = puts((0..300).map(|n| put(&format!("id{n:03}"), 1000 + n, &[n % 16])).collect());
    store.commit(batch).unwrap();
    drop(store);

    let rows = |path: &Path| fs::read(path.join("vectors.f16")).unwrap()[HEADER_BYTES..][..601 * 16].to_vec();
    assert!(rows(image.path()) == rows(dir.path()), "the new rows are in the image");
    let store = Store::open(image.path()).unwrap();
    assert_is(&store, &model);
    assert_eq!(store.read().rows(), 301);
    // The next commit overwrites what the lost one left.
    let mut model = model;
    let batch = puts((0..3).map(|n| put(&format!("after{n}"), 1500 + n, &[n])).collect());
    apply(&mut model, &batch);
    store.commit(batch).unwrap();
    assert_eq!(store.read().rows(), 304);
    drop(store);
    assert_is(&Store::open(image.path()).unwrap(), &model);
}

#[test]
fn garbage_behind_the_committed_rows_is_overwritten() {
    for garbage in [1, 15, 16, 5000] {
        let (dir, mut model) = sample();
        let path = dir.path().join("vectors.f16");
        let committed = HEADER_BYTES + 301 * 16;
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(committed);
        bytes.resize(committed + garbage, 0xff);
        fs::write(&path, bytes).unwrap();
        let store = Store::open(dir.path()).unwrap();
        assert_is(&store, &model);
        let batch = puts(vec![put("after", 7, &[7])]);
        apply(&mut model, &batch);
        store.commit(batch).unwrap();
        assert_is(&store, &model);
        drop(store);
        assert_is(&Store::open(dir.path()).unwrap(), &model);
    }
}

/// Copies of the directory at any moment of a run, which is what a killed process leaves
/// in the page cache, open at a whole generation that is no older than the last flush.
#[test]
fn an_image_of_a_live_directory_is_a_whole_generation() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &config()).unwrap();
    let mut history = vec![Model::new()];
    for n in 0..24u32 {
        let batch = WriteBatch {
            puts: (0..n * 3).map(|i| put(&format!("{}", (i * 7 + n) % 50), n * 40 + i, &[i % 16])).collect(),
            deletes: vec![format!("{}", n * 3 % 50), "x".into()],
        };
        let mut model = history.last().unwrap().clone();
        apply(&mut model, &batch);
        let generation = store.commit(batch).unwrap().generation.0 as usize;
        if generation == history.len() {
            history.push(model);
        }
        if n % 4 == 0 {
            store.flush().unwrap();
        }
        let flushed = if n % 4 == 0 { generation } else { 0 };
        let image = tempfile::tempdir().unwrap();
        // In the order of a crash-consistent snapshot: the database first, so that no
        // batch in it names rows that were written after the vector file was copied.
        copy_directory(&dir.path().join("documents"), &image.path().join("documents"));
        for name in ["MANIFEST", "FLUSHED", "vectors.f16"] {
            fs::copy(dir.path().join(name), image.path().join(name)).unwrap();
        }
        let copy = Store::open(image.path()).unwrap();
        let generation = copy.read().generation().0 as usize;
        assert!(generation >= flushed);
        assert_is(&copy, &history[generation]);
    }
}
