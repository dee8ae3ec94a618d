//! Segments merged automatically and by request.

use super::*;

/// The latest state is kept whatever has been merged since.
#[test]
fn the_newest_documents_are_known_after_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    for n in 0..40 {
        store.commit(puts(vec![put(&format!("{n}"), n, n * 7 % LEAVES)])).unwrap();
    }
    for _ in 0..2 {
        let view = store.read();
        let ids: Vec<String> = view.newest(5).unwrap().into_iter().map(|row| view.id(row).unwrap()).collect();
        assert_eq!(ids, ["39", "38", "37", "36", "35"]);
        store.compact(&mut || Ok(())).unwrap();
    }
    assert_eq!(store.read().newest(100).unwrap().len(), 40);
}

#[test]
fn compaction_leaves_one_segment_and_no_byte_of_the_dead() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    let mut model = Model::new();
    for n in 0..50u32 {
        let mut secret = put(&format!("secret-{n}"), n, n % LEAVES);
        secret.document.text = format!("needle-{n} in the haystack");
        commit(&store, &mut model, puts(vec![secret, put(&format!("kept-{n}"), 1000 + n, 2 + n % 7)]));
        store.flush().unwrap();
    }
    let gone: Vec<String> = (0..50).map(|n| format!("secret-{n}")).collect();
    commit(&store, &mut model, deletes(&gone));
    let before = store.read();
    store.compact(&mut || Ok(())).unwrap();
    assert_is(&store, &model);
    let stats = store.stats().unwrap();
    assert_eq!((stats.segments, stats.rows, stats.dead_rows), (1, 50, 0));
    // An earlier view still has its contents.
    assert_eq!(before.live(), 50);
    assert!(before.document(before.row_of("kept-7").unwrap().unwrap()).is_ok());
    drop(store);
    let mut files = 0;
    for entry in fs::read_dir(dir.path().join("segments")).unwrap() {
        files += 1;
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        for needle in ["secret", "needle"] {
            assert!(!bytes.windows(needle.len()).any(|window| window == needle.as_bytes()), "{needle}");
        }
    }
    assert_eq!(files, 2);
    // A fresh build of the same documents has the same size.
    let memtable = tempfile::tempdir().unwrap();
    let again = create(memtable.path());
    again.commit(puts(model.values().cloned().collect())).unwrap();
    again.flush().unwrap();
    let sealed = |bytes: StoreBytes| (bytes.vectors + bytes.documents + bytes.dead_rows) as f64;
    let (old, new) = (sealed(stats.bytes), sealed(again.stats().unwrap().bytes));
    assert!(old <= 1.01 * new, "{old} bytes, {new} when built afresh");
}

#[test]
fn a_cancelled_compaction_changes_nothing() {
    let (dir, model) = sample();
    let store = open(dir.path()).unwrap();
    let mut left = 100;
    let cancelled = store.compact(&mut || {
        left -= 1;
        if left == 0 { Err(StoreError::Cancelled) } else { Ok(()) }
    });
    assert!(matches!(cancelled, Err(StoreError::Cancelled)));
    assert_eq!(store.stats().unwrap().segments, 2);
    assert_is(&store, &model);
    store.compact(&mut || Ok(())).unwrap();
    assert_is(&store, &model);
    drop(store);
    assert_is(&open(dir.path()).unwrap(), &model);
}

/// Small flushes do not accumulate segments, and each document is written at most logarithmically often.
#[test]
fn segments_are_merged_as_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    let mut model = Model::new();
    for n in 0..200u32 {
        commit(&store, &mut model, puts(vec![put(&format!("{n}"), n, n % LEAVES)]));
        store.flush().unwrap();
        assert!(store.stats().unwrap().segments <= 9, "after {n}");
    }
    assert_is(&store, &model);
    // Deleting most of a segment causes it to be rewritten.
    let gone: Vec<String> = (0..150).map(|n| n.to_string()).collect();
    store.commit(deletes(&gone)).unwrap();
    store.flush().unwrap();
    assert!(store.stats().unwrap().dead_rows < 20, "{:?}", store.stats());
}
