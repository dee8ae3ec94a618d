//! Documents with a row for each of their passages.

use super::{repair::files, *};

pub(super) fn config_with_passages() -> StoreConfig {
    StoreConfig { passages: Some(Passages::new(64, 8).unwrap()), ..config() }
}

fn create_with_passages(dir: &Path) -> Store {
    Store::create(dir, &config_with_passages(), StoreOptions::default()).unwrap()
}

/// Recomputes what [`put_passages`] makes of a document.
fn compute(documents: Vec<Document>, _: Vec<Option<Vec<half::f16>>>) -> Result<Vec<Put>> {
    let put = |document: Document| {
        let seed = document.title.trim_start_matches("title ").parse().unwrap();
        put_passages(&document.id, seed, document.text.matches('.').count() as u32)
    };
    Ok(documents.into_iter().map(put).collect())
}

/// 120 documents with one to nine passages in two segments, some replaced and deleted.
fn sample_with_passages() -> (tempfile::TempDir, Model) {
    let dir = tempfile::tempdir().unwrap();
    let store = create_with_passages(dir.path());
    let mut model = Model::new();
    let one = |n: u32| put_passages(&format!("d{n:03}"), 10 * n, 1 + n % 9);
    for batch in [
        puts((0..90).map(one).collect()),
        puts((90..120).map(one).collect()),
        // With more passages and with fewer.
        WriteBatch {
            puts: vec![put_passages("d003", 1500, 9), put_passages("d008", 1600, 1)],
            deletes: vec!["d017".into(), "d099".into()],
        },
    ] {
        commit(&store, &mut model, batch);
        assert_is(&store, &model);
        store.flush().unwrap();
        assert_is(&store, &model);
    }
    let stats = store.stats().unwrap();
    assert_eq!((stats.documents, stats.passages), (118, config_with_passages().passages));
    // All passages of four documents: replaced or deleted ones with 4, 9 and 9 passages, and one with one.
    assert_eq!(stats.dead_rows, 4 + 9 + 9 + 1);
    assert_eq!(stats.rows - stats.dead_rows, store.read().live_rows() as u64);
    drop(store);
    (dir, model)
}

#[test]
fn documents_with_passages_are_stored_replaced_and_deleted_whole() {
    let (dir, mut model) = sample_with_passages();
    assert_is(&Store::open_read_only(dir.path()).unwrap(), &model);
    let store = open(dir.path()).unwrap();
    assert_is(&store, &model);
    // In memory, replaced there, and taken over from the log.
    commit(&store, &mut model, puts(vec![put_passages("new", 700, 5), put_passages("d000", 800, 2)]));
    commit(&store, &mut model, puts(vec![put_passages("new", 710, 3)]));
    commit(&store, &mut model, deletes(&["d001"]));
    assert_is(&store, &model);
    let killed = tempfile::tempdir().unwrap();
    copy_directory(dir.path(), killed.path());
    assert_is(&open(killed.path()).unwrap(), &model);
    store.compact(&mut || Ok(())).unwrap();
    assert_is(&store, &model);
    let stats = store.stats().unwrap();
    assert_eq!((stats.rows, stats.dead_rows), (store.read().live_rows() as u64, 0));
    let copy = tempfile::tempdir().unwrap();
    store.snapshot(copy.path()).unwrap();
    assert_is(&open(copy.path()).unwrap(), &model);
    // Recomputed leaves: those of a row follow from its embedding.
    let leaf = |row: &[f16]| LeafId(row[0].to_f32() as u32 % LEAVES);
    store.rebuild_postings(&|rows| rows.chunks_exact(DIM).map(leaf).collect(), &mut || Ok(())).unwrap();
    for put in model.values_mut() {
        put.rows.iter_mut().for_each(|row| row.leaf = leaf(&row.embedding));
    }
    assert_is(&store, &model);
}

#[test]
fn rows_that_an_index_has_no_place_for_are_refused() {
    let (whole, apart) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = create(whole.path());
    let refused = |store: &Store, put: Put| match store.commit(puts(vec![put])) {
        Err(StoreError::BadRows { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let several = "it has several rows, and the index has no passages";
    assert_eq!(refused(&whole, put_passages("a", 1, 2)), several);
    assert_eq!(refused(&whole, put_passages("a", 1, 1)), "the index has no passages");
    let apart = create_with_passages(apart.path());
    let mut none = put("a", 1, 1);
    none.rows.clear();
    assert_eq!(refused(&apart, none), "it has no row");
    let mut turned = put_passages("a", 1, 3);
    turned.rows.swap(0, 2);
    assert_eq!(refused(&apart, turned), "its passages are not in their order");
    let mut beyond = put_passages("a", 1, 3);
    beyond.rows[2].span.end += 1;
    assert_eq!(refused(&apart, beyond), "a passage is no part of the text");
    assert_eq!((whole.read().live(), apart.read().live()), (0, 0));
}

/// Changes a number in a section of a segment's documents, with all checksums corrected, as a bug would.
fn forge(dir: &Path, model: &Model, change: impl Fn(&mut Put)) -> VerifyReport {
    let mut forged = model.clone();
    forged.values_mut().for_each(change);
    let other = dir.join("forged");
    let store = Store::create(&other, &config_with_passages(), StoreOptions::default()).unwrap();
    // Bypasses the input checks.
    let checked = |put: &Put| {
        let puts = unchecked(put.clone());
        puts.into_iter().next().unwrap()
    };
    let all = batch::CheckedBatch { puts: forged.values().map(checked).collect(), deletes: Vec::new() };
    let after = store.state().apply(store.config(), &all).unwrap().0;
    store.publish(after);
    store.flush().unwrap();
    store.verify().unwrap()
}

#[test]
fn passages_that_are_no_parts_of_their_text_are_a_problem() {
    let (dir, model) = sample_with_passages();
    let sound = forge(&dir.path().join("a"), &model, |_| {});
    assert!(sound.is_sound(), "{sound:?}");
    let beyond = |put: &mut Put| {
        if put.document.id == "d005" {
            put.rows[1].span.end = 1 << 20;
        }
    };
    let report = forge(&dir.path().join("b"), &model, beyond);
    assert_eq!(report.problem_count, 1, "{report:?}");
    let Damage::Undecodable { what, .. } = report.problems[0].damage else { panic!("{report:?}") };
    assert_eq!(what, "the passages of row");
}

/// Whichever page is damaged: every readable document is there with all of its passages, recomputed if
/// unreadable, and nothing else.
#[test]
fn damaged_segments_are_repaired_with_their_passages() {
    let (origin, model) = sample_with_passages();
    for ending in ["vectors", "documents"] {
        let count = files(origin.path(), ending).len();
        for (file, at) in (0..count).flat_map(|file| (0..12).map(move |at| (file, at))) {
            let dir = tempfile::tempdir().unwrap();
            copy_directory(origin.path(), dir.path());
            let path = &files(dir.path(), ending)[file];
            let mut bytes = fs::read(path).unwrap();
            let place = bytes.len() * at / 12 + 7;
            bytes[place] ^= 8;
            fs::write(path, bytes).unwrap();
            let repair =
                Repair::begin_on(StoreOptions::default().backend(), dir.path(), StoreOptions::default());
            let anew = Anew {
                compute: &mut compute,
                encodes: true,
                elsewhere: &mut |_, _| None,
                lexer: Some(&terms::WordLexer),
            };
            let report = repair.unwrap().run(Undecided::Refuse, anew, &mut || Ok(())).unwrap();
            let store = open(dir.path()).unwrap();
            let view = store.read();
            let (mut walk, mut found) = (view.walk(None).unwrap(), BTreeSet::new());
            while let Some((id, _)) = walk.next().unwrap() {
                found.insert(id);
            }
            let mut model = model.clone();
            model.retain(|id, _| found.contains(id));
            assert_is(&store, &model);
            assert_eq!(report.documents, model.len() as u64, "{ending} {at}");
            if ending == "vectors" {
                assert_eq!((report.lost, found.len()), (0, 118), "{at}");
            }
        }
    }
}

/// A damaged page of rows only affects the rows on it.
#[test]
fn rows_of_undamaged_pages_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = create_with_passages(dir.path());
    let mut model = Model::new();
    let many = (0..1500).map(|n| put_passages(&format!("d{n:04}"), n, 1 + n % 5)).collect();
    commit(&store, &mut model, puts(many));
    drop(store);
    let path = &files(dir.path(), "vectors")[0];
    let mut bytes = fs::read(path).unwrap();
    bytes[5000..5003].iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(path, bytes).unwrap();
    let repair = Repair::begin_on(StoreOptions::default().backend(), dir.path(), StoreOptions::default());
    let anew = Anew {
        compute: &mut compute,
        encodes: true,
        elsewhere: &mut |_, _| None,
        lexer: Some(&terms::WordLexer),
    };
    let report = repair.unwrap().run(Undecided::Refuse, anew, &mut || Ok(())).unwrap();
    let (recovered, recomputed) = (report.recovered, report.recomputed);
    assert!((recovered, report.lost) == (1500, 0) && recomputed > 0 && recomputed < 1500, "{report:?}");
    assert_is(&open(dir.path()).unwrap(), &model);
}

/// A put without any check.
fn unchecked(put: Put) -> Vec<Arc<batch::CheckedPut>> {
    let payload::Encoded { payload, metadata } = payload::encode(&put.document).unwrap();
    vec![Arc::new(batch::CheckedPut::new(put.document.id, payload, metadata, put.rows, None))]
}
