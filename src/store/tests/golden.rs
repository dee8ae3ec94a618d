//! An index written earlier in this format version: its contents are read back unchanged.

use super::{passages::config_with_passages, *};

/// Embeddings wide enough for segments to have codes.
const WIDE: usize = 70;

/// The path of the stored index.
fn fixture() -> PathBuf {
    let name = format!("store-v{}", layout::FORMAT_VERSION);
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn wide(n: u32) -> Vec<f16> {
    (0..WIDE as u32).map(|i| f16::from_f32(((i * 7 + n * 13) % 29) as f32 - 14.5)).collect()
}

/// A document with passages, with or without metadata; one leaf has enough rows for its own mean.
fn one(n: u32) -> Put {
    let mut put = put_passages(&format!("id-{n:02}"), 10 * n, 1 + n % 5);
    put.document.metadata =
        n.is_multiple_of(3).then(|| serde_json::json!({ "n": n, "word": "größer", "none": null }));
    for (row, place) in put.rows.iter_mut().zip(10 * n..) {
        row.embedding = wide(place);
        if place.is_multiple_of(2) {
            row.leaf = LeafId(7);
        }
    }
    put
}

/// The batches that made the index: replaced and deleted documents, two segments, a file of dead rows.
fn batches() -> Vec<WriteBatch> {
    let replaced = Put { document: Document { id: "id-04".into(), ..one(70).document }, ..one(70) };
    vec![
        puts((0..40).map(one).collect()),
        puts(vec![one(41), one(42)]),
        WriteBatch { puts: vec![replaced], deletes: vec!["id-07".into(), "id-41".into()] },
    ]
}

/// `EHI_WRITE_FIXTURE=1` rewrites the index; only for a new version of the format.
#[test]
fn an_index_of_this_format_opens_and_holds_what_was_written() {
    if std::env::var_os("EHI_WRITE_FIXTURE").is_some() {
        let config = StoreConfig { dim: WIDE as u32, ..config_with_passages() };
        let store = Store::create(fixture(), &config, StoreOptions::default()).unwrap();
        for batch in batches() {
            store.commit(batch).unwrap();
            store.flush().unwrap();
        }
        drop(store);
        // Reserved space, which is never read.
        std::fs::remove_file(fixture().join(layout::names::RESERVE)).unwrap();
    }
    let mut model = Model::new();
    batches().iter().for_each(|batch| apply(&mut model, batch));
    let dir = tempfile::tempdir().unwrap();
    copy_directory(&fixture(), dir.path());
    assert_is(&Store::open_read_only(dir.path()).unwrap(), &model);
    let store = open(dir.path()).unwrap();
    assert_is(&store, &model);
    assert_eq!(store.config().passages, config_with_passages().passages);
    let stats = store.stats().unwrap();
    assert_eq!((stats.generation, stats.documents, stats.segments), (Generation(3), 40, 2));
    assert!(stats.dead_rows > 0 && stats.bytes.dead_rows > 0);
    // Codes and supplements match the rows.
    let view = store.read();
    assert!(view.parts().iter().all(|run| run.put_codes(&mut |_| {}).unwrap()));
    assert!(view.supplement(Row(0)).unwrap().is_some() && store.verify().unwrap().is_sound());
    commit(&store, &mut model, puts(vec![one(43)]));
    store.compact(&mut || Ok(())).unwrap();
    assert_is(&store, &model);
    assert!(store.verify().unwrap().is_sound());
}

#[test]
fn another_version_is_refused_by_its_number_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    copy_directory(&fixture(), dir.path());
    let path = dir.path().join("MANIFEST");
    let mut manifest = fs::read(&path).unwrap();
    manifest[8..12].copy_from_slice(&(layout::FORMAT_VERSION + 1).to_le_bytes());
    let crc = crc32fast::hash(&manifest[..124]);
    manifest[124..128].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, &manifest).unwrap();
    for refused in [open(dir.path()).err(), Store::open_read_only(dir.path()).err()] {
        assert!(matches!(refused, Some(StoreError::UnsupportedVersion { .. })), "{refused:?}");
    }
    assert_eq!(fs::read(path).unwrap(), manifest);
}
