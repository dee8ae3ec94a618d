//! Damaged files: a typed error or the same answer, never another answer, a panic or a loss.

use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::{
    super::{layout::names, manifest::Manifest},
    *,
};
use crate::disk::FileSystem;

/// Opens a damaged directory and reads everything: an error, or the original contents.
fn error_or_same(dir: &Path, model: &Model) -> std::result::Result<(), StoreError> {
    let store = open(dir)?;
    let report = store.verify()?;
    match compare(&store.read(), model) {
        Ok(()) => Ok(()),
        // The difference is the text of a read error, which `verify` saw as well.
        Err(difference) => {
            assert!(!report.is_sound(), "another answer, and no damage found: {difference}");
            let problem = report.problems[0].clone();
            Err(StoreError::Corrupt { file: problem.file, detail: problem.damage })
        }
    }
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(dir.join(names::SEGMENTS)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.push(dir.join(names::MANIFEST));
    files.sort();
    files
}

#[test]
fn every_byte_of_the_manifest() {
    let (dir, model) = sample();
    let path = dir.path().join(names::MANIFEST);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let Err(StoreError::Corrupt { file, .. }) = open(dir.path()) else { panic!("byte {at}") };
        assert_eq!(file, names::MANIFEST);
        // Nothing is removed, so that the damage can be examined.
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(matches!(open(dir.path()), Err(StoreError::Corrupt { .. })), "{len} bytes");
    }
    fs::write(&path, &whole).unwrap();
    assert_is(&open(dir.path()).unwrap(), &model);
}

#[test]
fn a_file_that_is_gone_or_another_indexs() {
    let (dir, model) = sample();
    let (other, _) = sample();
    for path in files(dir.path()).into_iter().filter(|path| !path.ends_with(names::MANIFEST)) {
        let aside = dir.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        assert!(matches!(open(dir.path()), Err(StoreError::Corrupt { detail: Damage::Missing { .. }, .. })));
        let name = path.strip_prefix(dir.path()).unwrap();
        fs::copy(other.path().join(name), &path).unwrap();
        let damage = error_or_same(dir.path(), &model);
        assert!(matches!(damage, Err(StoreError::Corrupt { .. })), "{}: {damage:?}", name.display());
        fs::rename(&aside, &path).unwrap();
    }
    assert_is(&open(dir.path()).unwrap(), &model);
}

/// Commits that cannot be replayed because of damage in another file wait for its repair.
#[test]
fn a_sound_log_outlives_a_damaged_segment() {
    let (dir, mut model) = sample();
    let store = open(dir.path()).unwrap();
    commit(&store, &mut model, puts(vec![put("id001", 77, 5)]));
    let image = tempfile::tempdir().unwrap();
    copy_directory(dir.path(), image.path());
    drop(store);
    let damaged: Vec<_> = files(image.path())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "documents"))
        .map(|path| {
            let whole = fs::read(&path).unwrap();
            let mut bytes = whole.clone();
            // Everything except header and end, so that no id can be looked up.
            let end = bytes.len() - 600;
            bytes[4096..end].iter_mut().for_each(|byte| *byte ^= 1);
            fs::write(&path, bytes).unwrap();
            (path, whole)
        })
        .collect();
    assert!(matches!(open(image.path()), Err(StoreError::Corrupt { .. })));
    damaged.into_iter().for_each(|(path, whole)| fs::write(path, whole).unwrap());
    assert_is(&open(image.path()).unwrap(), &model);
}

/// After the next open, the copy of the manifest matches the published one, whatever a crash has left.
#[test]
fn an_old_copy_is_made_anew() {
    let (dir, model) = sample();
    let now = Manifest::read(&FileSystem, dir.path()).unwrap();
    let before = Manifest { generation: Generation(1), segments: Vec::new(), ..now.clone() };
    before.write_provisional(&FileSystem, dir.path()).unwrap();
    before.write_copy(&FileSystem, dir.path());
    drop(open(dir.path()).unwrap());
    assert!(!dir.path().join(names::MANIFEST_NEW).exists());
    let read = |name| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read(names::MANIFEST), read(names::MANIFEST_COPY));
    // Without a manifest, the copy shows that one existed.
    before.write_provisional(&FileSystem, dir.path()).unwrap();
    fs::remove_file(dir.path().join(names::MANIFEST)).unwrap();
    assert!(matches!(open(dir.path()), Err(StoreError::Corrupt { .. })));
    let again = Store::create(dir.path(), &config(), StoreOptions::default());
    assert!(matches!(again, Err(StoreError::AlreadyExists { .. })));
    fs::copy(dir.path().join(names::MANIFEST_COPY), dir.path().join(names::MANIFEST)).unwrap();
    assert_is(&open(dir.path()).unwrap(), &model);
}

/// An earlier manifest with the files of a later one: a backup restored only in part. Nothing is removed; a
/// repair continues with the later one if that is whole.
#[test]
fn a_manifest_that_was_put_back_removes_nothing() {
    for (copy_too, copy_is_whole) in [(false, true), (false, false), (true, false)] {
        let (dir, mut model) = (tempfile::tempdir().unwrap(), Model::new());
        let store = create(dir.path());
        // Large enough not to be merged with what follows, so that the old manifest's files stay.
        commit(&store, &mut model, puts((0..300).map(|n| put(&format!("id{n}"), n, n % LEAVES)).collect()));
        drop(store);
        let path = |name: &str| dir.path().join(name);
        let old = (fs::read(path(names::MANIFEST)).unwrap(), model.clone());
        let store = open(dir.path()).unwrap();
        for n in 0..3 {
            commit(&store, &mut model, puts(vec![put(&format!("new{n}"), n, n)]));
            store.flush().unwrap();
        }
        drop(store);
        fs::write(path(names::MANIFEST), &old.0).unwrap();
        if copy_too {
            fs::write(path(names::MANIFEST_COPY), &old.0).unwrap();
        } else if !copy_is_whole {
            let newest = files(dir.path()).into_iter().rfind(|path| path.extension().is_some()).unwrap();
            fs::remove_file(newest).unwrap();
        }
        let before = files(dir.path());
        for _ in 0..2 {
            assert!(matches!(open(dir.path()), Err(StoreError::Corrupt { .. })));
        }
        assert_eq!(files(dir.path()), before);
        if let Ok(reader) = Store::open_read_only(dir.path()) {
            assert!(!reader.verify().unwrap().is_sound());
        }
        let options = StoreOptions::default();
        let mut compute = |_: Vec<Document>, _: Vec<Option<Vec<half::f16>>>| -> Result<Vec<Put>> {
            panic!("nothing is damaged")
        };
        let repaired = Repair::begin_on(options.backend(), dir.path(), options).and_then(|repair| {
            repair.run(
                Undecided::Refuse,
                Anew {
                    compute: &mut compute,
                    encodes: true,
                    elsewhere: &mut |_, _| None,
                    lexer: Some(&terms::WordLexer),
                },
                &mut || Ok(()),
            )
        });
        let report = repaired.unwrap();
        assert!(report.manifest_restored && !report.set_aside.is_empty(), "{report:?}");
        let expected = if copy_is_whole { &model } else { &old.1 };
        assert_is(&open(dir.path()).unwrap(), expected);
    }
}

/// A check rereads what was read before.
#[test]
fn damage_behind_the_back_of_a_handle_is_found() {
    let (dir, model) = sample();
    let store = open(dir.path()).unwrap();
    assert!(store.verify().unwrap().is_sound());
    assert_is(&store, &model);
    for at in [100, 5000] {
        let path = files(dir.path()).into_iter().find(|path| path.ends_with("00000000.documents")).unwrap();
        let file = fs::File::options().write(true).read(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        assert!(!store.verify().unwrap().is_sound(), "byte {at}");
        file.write_all_at(&byte, at).unwrap();
        assert!(store.verify().unwrap().is_sound());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn random_flips_in_any_file(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..8), 1..4),
    ) {
        thread_local!(static SAMPLE: (tempfile::TempDir, Model) = sample());
        SAMPLE.with(|(dir, model)| {
            let mut before = Vec::new();
            for (file, place, bit) in &flips {
                let all = files(dir.path());
                let path = file.get(&all).clone();
                let mut bytes = fs::read(&path).unwrap();
                before.push((path.clone(), bytes.clone()));
                let at = place.index(bytes.len());
                bytes[at] ^= 1 << bit;
                fs::write(&path, bytes).unwrap();
            }
            // Two flips of one bit undo each other.
            let _ = error_or_same(dir.path(), model);
            for (path, bytes) in before.into_iter().rev() {
                fs::write(path, bytes).unwrap();
            }
        });
    }
}
