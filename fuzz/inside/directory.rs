//! A whole store with bytes changed anywhere.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use half::f16;

use crate::{
    document::Document,
    ids::{LeafId, ModelHash},
    store::{
        Anew, Durability, Notice, Put, Repair, Result, Store, StoreConfig, StoreOptions, Undecided,
        WriteBatch, terms,
    },
};

const DIM: u32 = 2;
/// Flushed documents, in two segments.
const SEALED: u32 = 24;

fn put(number: u32) -> Put {
    let document = Document::new(format!("id{number}"), "a title", format!("text {number}"));
    Put::whole(document, vec![f16::from_f32(number as f32), f16::ONE], LeafId(number % 4))
}

/// A store with two segments, dead rows, and commits in its log.
fn sample() -> &'static Path {
    static SAMPLE: OnceLock<PathBuf> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let (dir, left) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let config = StoreConfig {
            dim: DIM,
            branching_factor: 4,
            height: 1,
            similarity: 0,
            model_hash: ModelHash([0; 32]),
            terms: 1,
            passages: None,
            expires: None,
        };
        let store = Store::create(dir.path(), &config, StoreOptions::default()).expect("a new directory");
        let commit = |from, to, deletes: &[&str]| {
            let deletes = deletes.iter().map(|id| (*id).to_owned()).collect();
            store.commit(WriteBatch { puts: (from..to).map(put).collect(), deletes }).expect("a commit");
        };
        commit(0, SEALED, &[]);
        store.flush().expect("a flush");
        commit(SEALED, SEALED + 2, &["id3"]);
        store.flush().expect("a flush");
        commit(40, 43, &["id4"]);
        commit(43, 44, &[]);
        copy(dir.path(), left.path());
        left.keep()
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

fn files(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        if entry.path().is_dir() { files(&entry.path(), all) } else { all.push(entry.path()) }
    }
    all.sort();
}

/// Each eight bytes are a change: which file, whether it is truncated or changed, where, and how. What is
/// reported sound must work; anything else must be an error or a repair, and never a panic.
pub fn directory(bytes: &[u8]) {
    let Ok(dir) = tempfile::tempdir() else { return };
    copy(sample(), dir.path());
    let mut all = Vec::new();
    files(dir.path(), &mut all);
    for change in bytes.as_chunks::<8>().0.iter().take(8) {
        let [file, kind, a, b, c, d, by, _] = *change;
        let path = &all[usize::from(file) % all.len()];
        let Ok(mut content) = fs::read(path) else { continue };
        let at = u32::from_le_bytes([a, b, c, d]) as usize % (content.len() + 1);
        match kind % 8 {
            0 => content.truncate(at),
            // A missing log is not noticed: see docs/reliability.md.
            1 if path.extension().is_none_or(|ending| ending != "log") => drop(fs::remove_file(path)),
            1 => {}
            2 => content.extend_from_slice(&bytes[..bytes.len().min(64)]),
            _ => content.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= by),
        }
        if path.exists() && kind % 8 != 1 {
            fs::write(path, content).expect("a file");
        }
    }
    let options = StoreOptions { durability: Durability::OnFlush, ..StoreOptions::default() };
    let reader = Store::open_read_only(dir.path()).and_then(|reader| reader.verify());
    let is_sound = reader.as_ref().is_ok_and(|report| report.is_sound());
    match Store::open(dir.path(), options) {
        Ok(store) => work(store, is_sound),
        Err(error) => {
            assert!(!is_sound, "called sound, and does not open: {error}");
            if repair(dir.path(), options).is_ok()
                && let Ok(store) = Store::open(dir.path(), options)
            {
                work(store, false);
            }
        }
    }
}

/// Operations on a sound store must work; on another one they may fail.
fn work(store: Store, is_sound: bool) {
    let torn = store.notices().iter().any(|notice| matches!(notice, Notice::TornLog { .. }));
    let documents = store.read().live();
    // All of them, except those lost with a torn log.
    assert!(!is_sound || torn || documents == 28, "{documents} documents");
    let steps = [
        store.commit(WriteBatch { puts: vec![put(90)], deletes: vec!["id1".to_owned()] }).map(drop),
        store.flush(),
        store.compact(&mut || Ok(())),
    ];
    for step in steps {
        assert!(!is_sound || step.is_ok(), "called sound: {step:?}");
    }
    if is_sound {
        assert!(store.verify().is_ok_and(|report| report.is_sound()), "no longer sound");
    }
}

fn repair(dir: &Path, options: StoreOptions) -> Result<()> {
    let mut compute = |documents: Vec<Document>, _: Vec<Option<Vec<half::f16>>>| -> Result<Vec<Put>> {
        Ok(documents.into_iter().map(|document| Put { document, ..put(1) }).collect())
    };
    Repair::begin_on(options.backend(), dir, options)?
        .run(
            Undecided::Keep,
            Anew {
                compute: &mut compute,
                encodes: true,
                elsewhere: &mut |_, _| None,
                lexer: Some(&terms::WordLexer),
            },
            &mut || Ok(()),
        )
        .map(drop)
}
