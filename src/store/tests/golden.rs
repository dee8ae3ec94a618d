//! Every format that was ever released, opened for ever after.

use super::{passages::config_with_passages, *};

/// Where the index of a format version is kept.
fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("store-v{version}"))
}

/// The batches that made each of them: documents with and without metadata, replaced and deleted ones,
/// several leaves, two segments, a file of dead rows.
fn batches() -> Vec<WriteBatch> {
    let one = |n: u32| {
        let mut put = put(&format!("id-{n:02}"), n, &[n % LEAVES, (n + 3) % LEAVES][..1 + n as usize % 2]);
        put.document.metadata =
            n.is_multiple_of(3).then(|| serde_json::json!({ "n": n, "word": "größer", "none": null }));
        put
    };
    vec![
        puts((0..30).map(one).collect()),
        puts(vec![one(31), one(32)]),
        WriteBatch { puts: vec![put("id-04", 700, &[2])], deletes: vec!["id-07".into(), "id-31".into()] },
    ]
}

/// `EHI_WRITE_FIXTURE=1` writes the index of the newest version; for a new version only, an old one stays as
/// it is.
#[test]
fn indexes_of_every_version_open() {
    let newest = fixture(layout::FORMAT_VERSION);
    if std::env::var_os("EHI_WRITE_FIXTURE").is_some() {
        let store = create(&newest);
        for batch in batches() {
            store.commit(batch).unwrap();
            store.flush().unwrap();
        }
    }
    let mut model = Model::new();
    batches().iter().for_each(|batch| apply(&mut model, batch));
    for version in layout::OLDEST_READABLE_VERSION..=layout::FORMAT_VERSION {
        let dir = tempfile::tempdir().unwrap();
        copy_directory(&fixture(version), dir.path());
        assert_is(&Store::open_read_only(dir.path()).unwrap(), &model);
        let store = open(dir.path()).unwrap();
        assert_is(&store, &model);
        let stats = store.stats().unwrap();
        assert_eq!((stats.generation, stats.documents, stats.segments), (Generation(3), 30, 2));
        assert!(stats.dead_rows > 0 && stats.bytes.dead_rows > 0);
        assert!(store.verify().unwrap().is_sound());
        store.commit(puts(vec![put("new", 5, &[5])])).unwrap();
        store.compact(&mut || Ok(())).unwrap();
        assert_eq!(store.read().live(), 31);
    }
}

/// Version 1 was never released: it is refused by its number, and nothing is touched.
#[test]
fn the_version_before_the_first_release_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    copy_directory(&fixture(1), dir.path());
    let before = fs::read(dir.path().join("MANIFEST")).unwrap();
    for refused in [open(dir.path()).err(), Store::open_read_only(dir.path()).err()] {
        match refused {
            Some(StoreError::UnsupportedVersion { found, oldest, .. }) => assert_eq!((found, oldest), (1, 2)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fs::read(dir.path().join("MANIFEST")).unwrap(), before);
    assert!(is_pre_release(&crate::disk::FileSystem, dir.path()));
    assert!(!is_pre_release(&crate::disk::FileSystem, &fixture(2)));
}

/// Embeddings so wide that segments have codes.
const WIDE: usize = 70;
/// The first version whose fixture has some.
const FIRST_WITH_CODES: u32 = 3;

/// Codes of every version are those of their rows, and are made anew where rows are merged.
#[test]
fn codes_of_every_version_are_read() {
    let wide = |n: u32| {
        let embedding =
            (0..WIDE as u32).map(|i| f16::from_f32(((i * 7 + n * 13) % 29) as f32 - 14.5)).collect();
        // One leaf has most of the rows.
        with_embedding(
            put(&format!("d{n:03}"), n, &[if n.is_multiple_of(5) { n % LEAVES } else { 7 }]),
            embedding,
        )
    };
    let rows = 100;
    let fixture = |version| fixture(version).with_extension("codes");
    if std::env::var_os("EHI_WRITE_FIXTURE").is_some() {
        let config = StoreConfig { dim: WIDE as u32, terms: 0, ..config() };
        let store = Store::create(fixture(layout::FORMAT_VERSION), &config, StoreOptions::default()).unwrap();
        store.commit(puts((0..rows).map(wide).collect())).unwrap();
        store.flush().unwrap();
    }
    // Whether all rows have codes, beside means or not, and supplements where they are.
    let coded = |store: &Store, beside: bool| {
        let view = store.read();
        let runs = view.parts();
        let mut codes = runs.iter().map(|run| run.codes().unwrap().unwrap());
        let row = view.supplement(Row(0)).unwrap();
        codes.all(|codes| codes.shifts.len() == if beside { codes.factors.len() } else { 0 })
            && row.is_some() == beside
    };
    for version in FIRST_WITH_CODES..=layout::FORMAT_VERSION {
        let dir = tempfile::tempdir().unwrap();
        copy_directory(&fixture(version), dir.path());
        let store = open(dir.path()).unwrap();
        assert!(coded(&store, version > 3) && store.verify().unwrap().is_sound(), "{version}");
        for n in 0..rows {
            let view = store.read();
            let row = view.row_of(&format!("d{n:03}")).unwrap().unwrap();
            assert_eq!(view.embedding(row).unwrap(), wide(n).rows[0].embedding);
        }
        // What is compact is still given the codes of this version.
        store.compact(&mut || Ok(())).unwrap();
        assert!(coded(&store, true) && store.verify().unwrap().is_sound(), "{version}");
        store.commit(puts(vec![wide(rows)])).unwrap();
        store.compact(&mut || Ok(())).unwrap();
        assert!(coded(&store, true) && store.verify().unwrap().is_sound(), "{version}");
        assert_eq!(store.read().live(), rows as usize + 1);
    }
}

/// The first version in which documents may have passages.
const FIRST_WITH_PASSAGES: u32 = 5;

/// Documents with passages in two segments, some replaced and deleted.
#[test]
fn passages_of_every_version_are_read() {
    let fixture = |version| fixture(version).with_extension("passages");
    let batches = || {
        vec![
            puts((0..20).map(|n| put_passages(&format!("d{n:02}"), 10 * n, 1 + n % 5)).collect()),
            WriteBatch { puts: vec![put_passages("d03", 500, 6)], deletes: vec!["d04".into()] },
        ]
    };
    if std::env::var_os("EHI_WRITE_FIXTURE").is_some() {
        let config = config_with_passages();
        let store = Store::create(fixture(layout::FORMAT_VERSION), &config, StoreOptions::default()).unwrap();
        for batch in batches() {
            store.commit(batch).unwrap();
            store.flush().unwrap();
        }
    }
    let mut model = Model::new();
    batches().iter().for_each(|batch| apply(&mut model, batch));
    for version in FIRST_WITH_PASSAGES..=layout::FORMAT_VERSION {
        let dir = tempfile::tempdir().unwrap();
        copy_directory(&fixture(version), dir.path());
        assert_is(&Store::open_read_only(dir.path()).unwrap(), &model);
        let store = open(dir.path()).unwrap();
        assert_is(&store, &model);
        assert_eq!(store.config().passages, config_with_passages().passages);
        store.compact(&mut || Ok(())).unwrap();
        assert_is(&store, &model);
    }
}
