use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::json;

use super::*;

#[test]
fn a_new_store_is_empty_and_keeps_its_config() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    let config = StoreConfig { similarity: 200, model_hash: [9; 32], ..config() };
    assert_is(&Store::create(&path, &config).unwrap(), &Model::new());
    let store = Store::open(&path).unwrap();
    assert_eq!(store.config(), &config);
    assert_eq!(store.read().generation(), Generation(0));
    assert_eq!(store.read().row_matrix(), []);
    assert_is(&store, &Model::new());
}

#[test]
fn insert_replace_delete_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let mut with_metadata = put("c", 3, &[15]);
    with_metadata.document.metadata = Some(json!({"page": 7, "score": 0.1}));
    let steps = [
        (puts(vec![put("a", 1, &[0, 3]), put("b", 2, &[3]), with_metadata]), (3, 0, 0)),
        (puts(vec![put("a", 4, &[5])]), (0, 1, 0)),
        (deletes(&["b", "b", "unknown", ""]), (0, 0, 1)),
        (WriteBatch { puts: vec![put("c", 5, &[1])], deletes: vec!["c".into(), "a".into()] }, (0, 1, 1)),
        (puts(vec![put("a", 6, &[2]), put("d", 7, &[2]), put("a", 8, &[4])]), (2, 0, 0)),
    ];
    drop(Store::create(dir.path(), &config()).unwrap());
    for (n, (batch, (inserted, replaced, deleted))) in (1..).zip(steps) {
        let store = Store::open(dir.path()).unwrap();
        apply(&mut model, &batch);
        let generation = Generation(n);
        assert_eq!(store.commit(batch).unwrap(), Committed { generation, inserted, replaced, deleted });
        assert_eq!(store.read().generation(), generation);
        assert_is(&store, &model);
        drop(store);
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(store.read().generation(), generation);
        assert_is(&store, &model);
    }
}

#[test]
fn a_batch_that_changes_nothing_makes_no_generation() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &config()).unwrap();
    for batch in [WriteBatch::default(), deletes(&["unknown"])] {
        assert_eq!(store.commit(batch).unwrap().generation, Generation(0));
    }
}

#[test]
fn dead_rows_are_not_visible() {
    let (dir, model) = sample();
    let store = Store::open(dir.path()).unwrap();
    let view = store.read();
    let stats = store.stats().unwrap();
    assert_eq!((stats.documents, stats.rows, stats.dead_rows), (299, 301, 2));
    assert_eq!(stats.vector_bytes, 4096 + 301 * 16);
    assert_eq!(stats.total_bytes, stats.vector_bytes + stats.document_bytes);
    assert!(stats.document_bytes > 0);
    let postings: usize = model.values().map(|put| put.leaves.len()).sum();
    assert_eq!(stats.leaf_sizes.iter().map(|(_, size)| size).sum::<usize>(), postings);
    for dead in [Row(7), Row(8), Row(301), Row(u32::MAX)] {
        assert!(!view.is_live(dead));
        assert!(matches!(view.id(dead), Err(StoreError::NoSuchRow { row }) if row == dead));
        assert!(matches!(view.document(dead), Err(StoreError::NoSuchRow { .. })));
    }
    assert!(!view.contains("id007").unwrap());
    assert_eq!(view.row_of("id008").unwrap(), Some(Row(300)));
}

#[test]
fn what_cannot_be_stored_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &config()).unwrap();
    store.commit(puts(vec![put("a", 1, &[0])])).unwrap();
    let files = || fs::read(dir.path().join("vectors.f16")).unwrap();
    let before = files();
    let refused = |bad: Put| {
        let error = store.commit(puts(vec![put("ok", 2, &[1]), bad])).unwrap_err();
        assert_eq!(store.read().generation(), Generation(1));
        assert!(files() == before);
        error
    };
    let with = |change: fn(&mut Put)| {
        let mut put = put("b", 2, &[1]);
        change(&mut put);
        put
    };
    assert!(matches!(
        refused(with(|p| p.embedding.truncate(7))),
        StoreError::DimensionMismatch { expected: 8, found: 7, .. }
    ));
    for bad in [f16::NAN, f16::INFINITY, f16::NEG_INFINITY] {
        let mut put = with(|_| ());
        put.embedding[5] = bad;
        assert!(matches!(refused(put), StoreError::NotFinite { position: 5, .. }));
    }
    assert!(matches!(refused(with(|p| p.leaves.clear())), StoreError::LeafCount { found: 0, .. }));
    assert!(matches!(refused(put("b", 2, &[0, 1, 2, 3])), StoreError::LeafCount { found: 4, most: 3, .. }));
    assert!(matches!(
        refused(put("b", 2, &[16])),
        StoreError::LeafOutOfRange { leaf: LeafId(16), leaves: 16, .. }
    ));
    assert!(matches!(refused(put("b", 2, &[1, 1])), StoreError::DuplicateLeaf { .. }));
    assert!(matches!(refused(put("", 2, &[1])), StoreError::InvalidId { found: 0, .. }));
    let long = "é".repeat(257);
    assert!(matches!(refused(put(&long, 2, &[1])), StoreError::InvalidId { found: 514, .. }));
    assert!(matches!(
        refused(with(|p| p.document.text = "\n".repeat(40 << 20))),
        StoreError::DocumentTooLarge { .. }
    ));
    // The handle is as good as before.
    store.commit(puts(vec![put(&"x".repeat(512), 2, &[1])])).unwrap();
}

#[test]
fn big_documents_stay_in_the_synced_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &config()).unwrap();
    let mut model = Model::new();
    let mut big = put("big", 1, &[1]);
    let mut state = 1u32;
    big.document.text = (0..10 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b' ' + (state >> 25) as u8 % 95)
        })
        .collect();
    let batch = puts(vec![put("a", 0, &[0]), big, put("z", 2, &[2])]);
    apply(&mut model, &batch);
    store.commit(batch).unwrap();
    store.flush().unwrap();
    // sled puts large nodes in files of their own that it never syncs.
    assert_eq!(fs::read_dir(dir.path().join("documents/blobs")).unwrap().count(), 0);
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert_is(&store, &model);
    // Replacing and deleting takes all chunks along: a full check finds no stray key.
    let batch = puts(vec![put("big", 3, &[1])]);
    apply(&mut model, &batch);
    store.commit(batch).unwrap();
    assert_is(&store, &model);
}

#[test]
fn a_leaf_with_many_documents_has_many_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &config()).unwrap();
    let mut model = Model::new();
    let batch = puts((0..1500).map(|n| put(&format!("{n:04}"), n, &[7])).collect());
    apply(&mut model, &batch);
    store.commit(batch).unwrap();
    assert_eq!(store.stats().unwrap().posting_blocks, 3);
    let gone: Vec<String> =
        (0..1500).filter(|n| n % 3 != 0 || *n >= 1024).map(|n| format!("{n:04}")).collect();
    let batch = WriteBatch { puts: vec![put("new", 1, &[7])], deletes: gone };
    apply(&mut model, &batch);
    store.commit(batch).unwrap();
    assert_is(&store, &model);
    drop(store);
    assert_is(&Store::open(dir.path()).unwrap(), &model);
}

#[test]
fn a_second_handle_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &config()).unwrap();
    assert!(matches!(Store::open(dir.path()), Err(StoreError::Locked { .. })));
    assert!(matches!(Store::create(dir.path(), &config()), Err(StoreError::AlreadyExists { .. })));
    drop(store);
    Store::open(dir.path()).unwrap();
}

#[test]
fn directories_that_hold_no_index_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    assert!(matches!(Store::open(&missing), Err(StoreError::NotFound { path }) if path == missing));
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("notes.txt"), "mine").unwrap();
    assert!(matches!(Store::open(&foreign), Err(StoreError::NotAnIndex { .. })));
    assert!(matches!(Store::open(foreign.join("notes.txt")), Err(StoreError::NotAnIndex { .. })));
    // A refused directory is left as it was found.
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
    for name in ["documents", "vectors.f16", "FLUSHED"] {
        let path = foreign.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("precious"), "mine").unwrap();
        let error = Store::create(&foreign, &config()).unwrap_err();
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
    drop(Store::create(dir.path(), &config()).unwrap());
    drop(Store::open(dir.path()).unwrap());
    assert_eq!(fs::read(dir.path().join("model/weights")).unwrap(), b"w");
    assert_eq!(fs::read(dir.path().join("unknown")).unwrap(), b"u");
}

#[test]
fn readers_see_whole_generations_while_a_writer_works() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &config()).unwrap();
    let done = AtomicBool::new(false);
    // Generation g: document "x" has seed g and lies in leaf g % 16 alone.
    let batch = |g: u32| puts(vec![put("x", g, &[g % 16]), put(&format!("y{g:04}"), g, &[15 - g % 15])]);
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
                    assert_eq!((view.live(), view.rows()), (g as usize + 1, 2 * g as usize));
                    let row = view.row_of("x").unwrap().unwrap();
                    assert!(view.postings(LeafId(g % 16)).contains(&row));
                    assert_eq!(view.row_matrix()[row.index() * DIM..][..DIM], embedding(g));
                    assert_eq!(view.document(row).unwrap().title, format!("title {g}"));
                }
            });
        }
        for g in 2..400 {
            assert_eq!(store.commit(batch(g)).unwrap().generation, Generation(g.into()));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(store.verify().unwrap().is_sound());
}

#[test]
fn the_file_grows_while_old_views_read() {
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig { dim: 4096, ..config() };
    let store = Store::create(dir.path(), &config).unwrap();
    let wide =
        |n: u32| Put { embedding: vec![f16::from_f32(n as f32); 4096], ..put(&n.to_string(), n, &[0]) };
    // 8 KiB a row: 400 rows pass two growth steps.
    for n in 0..400 {
        store.commit(puts(vec![wide(n)])).unwrap();
    }
    let view = store.read();
    for n in 0..400 {
        assert!(view.row_matrix()[n * 4096..][..4096].iter().all(|x| x.to_f32() == n as f32));
    }
}
