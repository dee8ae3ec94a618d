use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::json;

use super::*;
use crate::input::InputError;

#[test]
fn a_new_store_is_empty_and_keeps_its_config() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/c");
    let config = StoreConfig { similarity: 200, model_hash: ModelHash([9; 32]), ..config() };
    assert_is(&Store::create(&path, &config, StoreOptions::default()).unwrap(), &Model::new());
    let store = open(&path).unwrap();
    assert_eq!(store.config(), &config);
    assert_eq!(store.read().generation(), Generation(0));
    assert_is(&store, &Model::new());
}

#[test]
fn insert_replace_delete_reopen() {
    let mut with_metadata = put("c", 3, 15);
    with_metadata.document.metadata = Some(json!({"page": 7, "score": 0.1}));
    let steps = [
        (puts(vec![put("a", 1, 0), put("b", 2, 3), with_metadata]), (3, 0, 0)),
        (puts(vec![put("a", 4, 5)]), (0, 1, 0)),
        (deletes(&["b", "b", "unknown", ""]), (0, 0, 1)),
        (WriteBatch { puts: vec![put("c", 5, 1)], deletes: vec!["c".into(), "a".into()] }, (0, 1, 1)),
        (puts(vec![put("a", 6, 2), put("d", 7, 2), put("a", 8, 4)]), (2, 0, 0)),
    ];
    for durability in [Durability::None, Durability::OnFlush, Durability::EveryBatch] {
        let options = StoreOptions { durability, ..StoreOptions::default() };
        let dir = tempfile::tempdir().unwrap();
        let mut model = Model::new();
        drop(Store::create(dir.path(), &config(), options).unwrap());
        for (n, (batch, (inserted, replaced, deleted))) in (1..).zip(steps.clone()) {
            let store = Store::open(dir.path(), options).unwrap();
            apply(&mut model, &batch);
            let generation = Generation(n);
            let committed = store.commit(batch).unwrap();
            assert_eq!((committed.generation, committed.deleted), (generation, deleted));
            assert_eq!(committed.replaced.iter().filter(|r| **r).count(), replaced);
            assert_eq!(committed.replaced.len(), inserted + replaced);
            assert_eq!(store.read().generation(), generation);
            assert_is(&store, &model);
            drop(store);
            assert!(dir.path().join("log").read_dir().unwrap().next().is_none(), "a closed index has no log");
            let store = Store::open(dir.path(), options).unwrap();
            assert_eq!(store.read().generation(), generation);
            assert_is(&store, &model);
        }
    }
}

#[test]
fn a_batch_that_changes_nothing_makes_no_generation() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    for batch in [WriteBatch::default(), deletes(&["unknown"])] {
        assert_eq!(store.commit(batch).unwrap().generation, Generation(0));
    }
}

#[test]
fn dead_rows_are_not_visible() {
    let (dir, model) = sample();
    let store = open(dir.path()).unwrap();
    let view = store.read();
    let stats = store.stats().unwrap();
    assert_eq!((stats.documents, stats.rows, stats.dead_rows, stats.segments), (299, 301, 2, 2));
    assert_eq!(stats.memtable_documents, 0);
    let postings = model.len();
    assert_eq!(stats.leaf_sizes.iter().map(|leaf| leaf.documents).sum::<usize>(), postings);
    let tombstones: Vec<Row> = (0..301).map(Row).filter(|row| !view.is_live(*row)).collect();
    assert_eq!(tombstones.len(), 2);
    for row in tombstones.into_iter().chain([Row(301), Row(u32::MAX)]) {
        assert!(matches!(view.id(row), Err(StoreError::NoSuchRow { row: found }) if found == row));
        assert!(matches!(view.document(row), Err(StoreError::NoSuchRow { .. })));
    }
    assert!(!view.contains("id007").unwrap());
    assert_eq!(view.row_of("id008").unwrap(), Some(Row(300)));
}

#[test]
fn what_cannot_be_stored_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    store.commit(puts(vec![put("a", 1, 0)])).unwrap();
    let refused = |bad: Put| {
        let error = store.commit(puts(vec![put("ok", 2, 1), bad])).unwrap_err();
        assert_eq!((store.read().generation(), store.read().live()), (Generation(1), 1));
        error
    };
    let with = |change: fn(&mut Put)| {
        let mut put = put("b", 2, 1);
        change(&mut put);
        put
    };
    let bad_rows = |put| match refused(put) {
        StoreError::BadRows { what, .. } => what,
        other => panic!("{other:?}"),
    };
    let narrow = with(|p| p.rows[0].embedding.truncate(7));
    assert_eq!(bad_rows(narrow), "its embedding has 7 elements, the index has 8");
    for bad in [f16::NAN, f16::INFINITY, f16::NEG_INFINITY] {
        let mut put = with(|_| ());
        put.rows[0].embedding[5] = bad;
        assert!(matches!(refused(put), StoreError::Input(InputError::NotFinite { position: 5, .. })));
    }
    assert_eq!(bad_rows(put("b", 2, 16)), "it is put in leaf#16, the tree has 16 leaves");
    assert!(matches!(refused(put("", 2, 1)), StoreError::Input(InputError::InvalidId { found: 0, .. })));
    let long = "é".repeat(257);
    assert!(matches!(refused(put(&long, 2, 1)), StoreError::Input(InputError::InvalidId { found: 514, .. })));
    assert!(matches!(
        refused(with(|p| p.document.text = "\n".repeat(40 << 20))),
        StoreError::Input(InputError::DocumentTooLarge { .. })
    ));
    // The handle is still usable.
    store.commit(puts(vec![put(&"x".repeat(512), 2, 1)])).unwrap();
}

#[test]
fn big_documents_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    let mut model = Model::new();
    let mut big = put("big", 1, 1);
    let mut state = 1u32;
    big.document.text = (0..10 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b' ' + (state >> 25) as u8 % 95)
        })
        .collect();
    commit(&store, &mut model, puts(vec![put("a", 0, 0), big, put("z", 2, 2)]));
    // The state after a killed process: only in the log.
    let image = tempfile::tempdir().unwrap();
    copy_directory(dir.path(), image.path());
    assert_is(&open(image.path()).unwrap(), &model);
    store.flush().unwrap();
    drop(store);
    let store = open(dir.path()).unwrap();
    assert_is(&store, &model);
    commit(&store, &mut model, puts(vec![put("big", 3, 1)]));
    assert_is(&store, &model);
    store.compact(&mut || Ok(())).unwrap();
    assert_is(&store, &model);
    assert!(store.stats().unwrap().bytes.total() < 100_000);
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    assert!(matches!(open(dir.path()), Err(StoreError::Locked { .. })));
    let again = Store::create(dir.path(), &config(), StoreOptions::default());
    assert!(matches!(again, Err(StoreError::AlreadyExists { .. })));
    let reader = Store::open_read_only(dir.path()).unwrap();
    for write in [reader.commit(deletes(&["x"])).map(drop), reader.flush(), reader.compact(&mut || Ok(()))] {
        assert!(matches!(write, Err(StoreError::ReadOnly { .. })));
    }
    drop(store);
    open(dir.path()).unwrap();
}

/// A reader sees what was flushed when it refreshes, whatever the writer did to the files since.
#[test]
fn a_reader_follows_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    let reader = Store::open_read_only(dir.path()).unwrap();
    let (mut model, mut seen) = (Model::new(), Model::new());
    for n in 0..60u32 {
        let batch = WriteBatch {
            puts: (0..n % 7).map(|i| put(&format!("{}", (i * 11 + n) % 30), n * 30 + i, i)).collect(),
            deletes: vec![format!("{}", n * 13 % 30)],
        };
        commit(&store, &mut model, batch);
        let flushed = match n % 5 {
            0 => store.flush().is_ok(),
            3 if n % 2 == 0 => store.compact(&mut || Ok(())).is_ok(),
            _ => false,
        };
        // Not refreshed yet: what it has open is still readable.
        assert_is(&reader, &seen);
        let moved = reader.refresh().unwrap();
        assert!(flushed || !moved, "moved to what was not flushed");
        if flushed {
            assert_eq!(reader.read().generation(), store.read().generation());
            seen = model.clone();
        }
        assert_is(&reader, &seen);
    }
    assert!(!store.refresh().unwrap());
}

#[test]
fn directories_that_hold_no_index_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert!(matches!(open(&missing), Err(StoreError::NotFound { path }) if path == missing));
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("notes.txt"), "mine").unwrap();
    for refused in [open(&foreign), Store::open_read_only(&foreign), open(&foreign.join("notes.txt"))] {
        assert!(matches!(refused, Err(StoreError::NotAnIndex { .. })));
    }
    // A refused directory is left as it was.
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
    for name in ["log", "segments"] {
        let path = foreign.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("precious"), "mine").unwrap();
        let error = Store::create(&foreign, &config(), StoreOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::AlreadyExists { path: found } if found == path));
        assert_eq!(fs::read(path.join("precious")).unwrap(), b"mine");
        fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("model")).unwrap();
    fs::write(dir.path().join("model/weights"), "w").unwrap();
    fs::write(dir.path().join("unknown"), "u").unwrap();
    let store = create(dir.path());
    fs::write(dir.path().join("segments/notes.txt"), "n").unwrap();
    store.commit(puts(vec![put("a", 1, 0)])).unwrap();
    store.compact(&mut || Ok(())).unwrap();
    drop(store);
    drop(open(dir.path()).unwrap());
    assert_eq!(fs::read(dir.path().join("model/weights")).unwrap(), b"w");
    assert_eq!(fs::read(dir.path().join("unknown")).unwrap(), b"u");
    assert_eq!(fs::read(dir.path().join("segments/notes.txt")).unwrap(), b"n");
}

#[test]
fn readers_see_whole_generations_while_a_writer_works() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    let done = AtomicBool::new(false);
    // Generation g: document "x" has seed g and lies only in leaf g % 16.
    let batch = |g: u32| puts(vec![put("x", g, g % LEAVES), put(&format!("y{g:04}"), g, 15 - g % 15)]);
    store.commit(batch(1)).unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = Generation(0);
                while !done.load(Ordering::Relaxed) {
                    let view = store.read();
                    let g = view.generation().0 as u32;
                    assert!(view.generation() >= last);
                    last = view.generation();
                    assert_eq!(view.live(), g as usize + 1);
                    let row = view.row_of("x").unwrap().unwrap();
                    assert!(view.postings(LeafId(g % LEAVES)).unwrap().contains(&row));
                    assert_eq!(view.embedding(row).unwrap(), embedding(g));
                    assert_eq!(view.document(row).unwrap().title, format!("title {g}"));
                }
            });
        }
        for g in 2..400 {
            assert_eq!(store.commit(batch(g)).unwrap().generation, Generation(g.into()));
            match g % 40 {
                7 => store.flush().unwrap(),
                33 => store.compact(&mut || Ok(())).unwrap(),
                _ => {}
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(store.verify().unwrap().is_sound());
}

/// Copies of the directory at any moment of a run, as a killed process leaves them in the page cache, open at
/// a whole generation at least as recent as the last flush.
#[test]
fn an_image_of_a_live_directory_is_a_whole_generation() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    let mut history = vec![Model::new()];
    let mut flushed = 0;
    for n in 0..24u32 {
        let batch = WriteBatch {
            puts: (0..n * 3).map(|i| put(&format!("{}", (i * 7 + n) % 50), n * 40 + i, i % LEAVES)).collect(),
            deletes: vec![format!("{}", n * 3 % 50), "x".into()],
        };
        let mut model = history.last().unwrap().clone();
        let generation = commit(&store, &mut model, batch).generation.0 as usize;
        if generation == history.len() {
            history.push(model);
        }
        if n % 4 == 0 {
            store.flush().unwrap();
            flushed = generation;
        }
        let image = tempfile::tempdir().unwrap();
        copy_directory(dir.path(), image.path());
        let copy = open(image.path()).unwrap();
        let generation = copy.read().generation().0 as usize;
        assert!(generation >= flushed);
        assert_is(&copy, &history[generation]);
        drop(copy);
        assert_is(&open(image.path()).unwrap(), &history[generation]);
    }
}

#[test]
fn posting_lists_are_rebuilt_from_the_embeddings() {
    let (dir, mut model) = sample();
    let store = open(dir.path()).unwrap();
    store.commit(puts(vec![put("fresh", 1500, 3)])).unwrap();
    apply(&mut model, &puts(vec![put("fresh", 1500, 3)]));
    // By the first element, which is the seed.
    let leaf = |row: &[f16]| LeafId((row[0].to_f32() as u32 + 5) % LEAVES);
    let route = |rows: &[f16]| rows.chunks_exact(DIM).map(leaf).collect();
    store.rebuild_postings(&route, &mut || Ok(())).unwrap();
    model.values_mut().for_each(|put| put.rows[0].leaf = leaf(&put.rows[0].embedding));
    assert_is(&store, &model);
    assert!(store.verify().unwrap().is_sound());
    let refused = store.rebuild_postings(&|rows| vec![LeafId(LEAVES); rows.len() / DIM], &mut || Ok(()));
    assert!(matches!(refused, Err(StoreError::BadRows { .. })), "{refused:?}");
    assert_is(&store, &model);
    drop(store);
    assert_is(&open(dir.path()).unwrap(), &model);
}

#[test]
fn a_snapshot_is_an_index_of_its_own() {
    let (dir, mut model) = sample();
    let parent = tempfile::tempdir().unwrap();
    let at = |name: &str| parent.path().join(name);
    let store = open(dir.path()).unwrap();
    store.commit(puts(vec![put("fresh", 1500, 3)])).unwrap();
    apply(&mut model, &puts(vec![put("fresh", 1500, 3)]));
    store.snapshot(&at("one")).unwrap();
    let taken = model.clone();
    assert!(matches!(store.snapshot(&at("one")), Err(StoreError::AlreadyExists { .. })));
    // Both continue, and neither sees the other.
    store.commit(deletes(&["fresh", "id001"])).unwrap();
    apply(&mut model, &deletes(&["fresh", "id001"]));
    store.compact(&mut || Ok(())).unwrap();
    let copy = open(&at("one")).unwrap();
    assert_is(&copy, &taken);
    assert!(copy.verify().unwrap().is_sound());
    copy.commit(deletes(&["id002"])).unwrap();
    copy.compact(&mut || Ok(())).unwrap();
    assert_is(&store, &model);
    assert!(store.verify().unwrap().is_sound());
    // If the writer has removed a read-only handle's files, the handle moves on to the newest.
    let reader = Store::open_read_only(dir.path()).unwrap();
    store.commit(puts(vec![put("later", 1501, 4)])).unwrap();
    apply(&mut model, &puts(vec![put("later", 1501, 4)]));
    store.compact(&mut || Ok(())).unwrap();
    reader.snapshot(&at("two")).unwrap();
    assert_is(&open(&at("two")).unwrap(), &model);
}

/// An interrupted snapshot shares files with the index; a create in its place must not write to them.
#[test]
fn what_a_snapshot_shares_is_never_written_to() {
    let (dir, model) = sample();
    let store = open(dir.path()).unwrap();
    let copy = tempfile::tempdir().unwrap();
    store.snapshot(copy.path()).unwrap();
    // The state of one that was interrupted before its last step.
    fs::rename(copy.path().join("MANIFEST"), copy.path().join("MANIFEST.new")).unwrap();
    fs::remove_file(copy.path().join("MANIFEST.copy")).unwrap();
    let other = create(copy.path());
    for n in 0..4 {
        other.commit(puts(vec![put(&format!("n{n}"), n, 1)])).unwrap();
        other.flush().unwrap();
    }
    drop(other);
    assert_is(&store, &model);
    drop(store);
    let store = open(dir.path()).unwrap();
    assert!(store.verify().unwrap().is_sound());
    assert_is(&store, &model);
}
