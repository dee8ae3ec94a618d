//! Repair: readable data is kept, derived data is rebuilt, and the caller decides what cannot be known.

use std::ops::Range;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::disk::faulty::Faulty;
use crate::store::layout::sealed::*;

/// The offset of the bits in a file of dead rows.
const BITMAP_AT: usize = 4096;

/// Documents of several pages in two segments, one with dead rows.
fn index() -> (tempfile::TempDir, Model) {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let store = create(dir.path());
    let long = |n: u32| {
        let mut put = put(&format!("id{n:03}"), n, n % LEAVES);
        put.document.text = format!("{n} ").repeat(1500);
        put
    };
    for batch in [
        puts((0..90).map(long).collect()),
        puts((90..110).map(long).collect()),
        // One replaced, two deleted.
        WriteBatch { puts: vec![put("id003", 500, 1)], deletes: vec!["id004".into(), "id005".into()] },
    ] {
        commit(&store, &mut model, batch);
        store.flush().unwrap();
    }
    assert!(store.stats().unwrap().dead_rows >= 3);
    (dir, model)
}

pub(super) fn compute(documents: Vec<Document>, _: Vec<Option<Vec<half::f16>>>) -> Result<Vec<Put>> {
    let put = |document: Document| {
        let seed = document.title.trim_start_matches("title ").parse().unwrap();
        Put::whole(document, embedding(seed), LeafId(seed % LEAVES))
    };
    Ok(documents.into_iter().map(put).collect())
}

/// Repairs with a model that knows every document that ever existed.
fn repair(dir: &Path, undecided: Undecided) -> Result<RepairReport> {
    Repair::begin_on(StoreOptions::default().backend(), dir, StoreOptions::default())?.run(
        undecided,
        Anew {
            compute: &mut compute,
            encodes: true,
            elsewhere: &mut |_, _| None,
            lexer: Some(&terms::WordLexer),
        },
        &mut || Ok(()),
    )
}

/// Checks that the store opens, is sound, takes a commit, and has these documents with their embeddings.
fn assert_holds(dir: &Path, model: &Model) {
    let store = open(dir).unwrap();
    let view = store.read();
    assert_eq!(view.live(), model.len());
    for (id, put) in model {
        let row = view.row_of(id).unwrap().unwrap_or_else(|| panic!("{id} is gone"));
        assert_eq!(view.document(row).unwrap(), put.document);
        assert_eq!(view.embedding(row).unwrap(), put.rows[0].embedding);
    }
    let report = store.verify().unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    store.commit(puts(vec![put("after", 9, 9)])).unwrap();
    store.compact(&mut || Ok(())).unwrap();
    store.commit(deletes(&["after"])).unwrap();
}

pub(super) fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("segments")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == ending)).collect();
    files.sort();
    files
}

/// Changes three bytes: more than their checksum could put right.
fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    change(path, |bytes| {
        let place = at(bytes.len());
        bytes[place..].iter_mut().take(3).for_each(|byte| *byte ^= 16);
    });
}

fn change(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    // Not in place: the file may be shared with its copy in `damaged`.
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_index_is_left_as_it_is() {
    let (dir, model) = index();
    let before: Vec<_> = files(dir.path(), "vectors").into_iter().chain(files(dir.path(), "dead")).collect();
    let report = repair(dir.path(), Undecided::Refuse).unwrap();
    assert!(report.was_sound() && report.set_aside.is_empty(), "{report:?}");
    assert_eq!(report.documents as usize, model.len());
    let after: Vec<_> = files(dir.path(), "vectors").into_iter().chain(files(dir.path(), "dead")).collect();
    assert_eq!(before, after);
    assert_holds(dir.path(), &model);
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(repair(empty.path(), Undecided::Refuse), Err(StoreError::NotAnIndex { .. })));
    let store = open(dir.path()).unwrap();
    assert!(matches!(repair(dir.path(), Undecided::Refuse), Err(StoreError::Locked { .. })));
    drop(store);
}

#[test]
fn a_damaged_manifest_is_that_of_its_copy() {
    for damage in 0..4 {
        let (dir, model) = index();
        let manifest = dir.path().join("MANIFEST");
        match damage {
            0 => flip(&manifest, |_| 40),
            1 => flip(&manifest, |len| len - 1),
            2 => fs::write(&manifest, "").unwrap(),
            _ => fs::remove_file(&manifest).unwrap(),
        }
        assert!(matches!(open(dir.path()), Err(StoreError::Corrupt { .. })));
        let report = repair(dir.path(), Undecided::Refuse).unwrap();
        assert!(report.manifest_restored && report.damaged_segments == 0, "{report:?}");
        assert_eq!(report.set_aside.len(), usize::from(damage != 3));
        assert!(report.set_aside.iter().all(|path| path.exists()));
        assert_holds(dir.path(), &model);
    }
    // A snapshot has one from the start.
    let (dir, model) = index();
    let copy = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().snapshot(copy.path()).unwrap();
    flip(&copy.path().join("MANIFEST"), |_| 40);
    assert!(repair(copy.path(), Undecided::Refuse).unwrap().manifest_restored);
    assert_holds(copy.path(), &model);
    let (dir, _) = index();
    for name in ["MANIFEST", "MANIFEST.copy"] {
        flip(&dir.path().join(name), |_| 40);
    }
    assert!(matches!(repair(dir.path(), Undecided::Refuse), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_manifest_of_another_store_is_not_followed() {
    let empty = tempfile::tempdir().unwrap();
    drop(create(empty.path()));
    let (other, _) = index();
    for foreign in [&empty, &other] {
        let (dir, model) = index();
        fs::copy(foreign.path().join("MANIFEST"), dir.path().join("MANIFEST")).unwrap();
        match open(dir.path()) {
            Err(StoreError::Corrupt { file, detail: Damage::Foreign }) => assert_eq!(file, "MANIFEST"),
            other => panic!("{other:?}"),
        }
        let report = repair(dir.path(), Undecided::Refuse).unwrap();
        assert!(report.manifest_restored && report.damaged_segments == 0, "{report:?}");
        assert_holds(dir.path(), &model);
        // In place of the copy, it is only replaced.
        fs::copy(foreign.path().join("MANIFEST"), dir.path().join("MANIFEST.copy")).unwrap();
        assert!(repair(dir.path(), Undecided::Refuse).unwrap().was_sound());
        assert_holds(dir.path(), &model);
    }
}

#[test]
fn damage_of_the_words_of_a_small_segment_loses_nothing() {
    use crate::store::layout::segment::{LENGTHS, POSTINGS, TERM_ENDS, TERM_ROWS, TERMS, TOTAL_LENGTH};
    for name in [TERMS, TERM_ROWS, TERM_ENDS, POSTINGS, LENGTHS, TOTAL_LENGTH] {
        let dir = tempfile::tempdir().unwrap();
        let mut model = Model::new();
        let store = create(dir.path());
        commit(&store, &mut model, puts((0..40).map(|n| put(&format!("id{n:03}"), n, n % LEAVES)).collect()));
        store.flush().unwrap();
        commit(&store, &mut model, deletes(&["id007"]));
        drop(store);
        let path = &files(dir.path(), "documents")[0];
        let bytes = fs::read(path).unwrap();
        let end = bytes.len() - TAIL_BYTES;
        let sections: Vec<Section> = (1..=MOST_SECTIONS as usize)
            .map(|place| bytemuck::pod_read_unaligned(&bytes[end - place * SECTION_BYTES..][..SECTION_BYTES]))
            .collect();
        let of_name = |own: &&Section| own.name == name;
        let Section { offset, len, .. } = *sections.iter().find(of_name).unwrap();
        flip(path, |_| (offset + len / 2) as usize);
        let report = repair(dir.path(), Undecided::Refuse).unwrap();
        assert_eq!((report.damaged_segments, report.lost, report.recomputed), (1, 0, 0), "{name}");
        assert_holds(dir.path(), &model);
    }
}

#[test]
fn embeddings_are_computed_anew_from_the_texts() {
    let (dir, model) = index();
    let vectors = files(dir.path(), "vectors");
    flip(&vectors[0], |_| 5000);
    let report = repair(dir.path(), Undecided::Refuse).unwrap();
    assert_eq!((report.damaged_segments, report.lost), (1, 0));
    assert!(report.recomputed > 0 && report.recomputed <= report.recovered, "{report:?}");
    assert_holds(dir.path(), &model);

    let (dir, model) = index();
    for path in files(dir.path(), "vectors") {
        fs::remove_file(path).unwrap();
    }
    let report = repair(dir.path(), Undecided::Refuse).unwrap();
    assert_eq!((report.lost, report.recomputed as usize), (0, model.len()));
    // The copy of the manifest is that of the repaired one, not of the damaged one.
    fs::write(dir.path().join("MANIFEST"), "").unwrap();
    let report = repair(dir.path(), Undecided::Refuse).unwrap();
    assert_eq!((report.lost, report.documents as usize), (0, model.len()));
    assert_holds(dir.path(), &model);
}

#[test]
fn only_the_documents_of_a_damaged_page_are_lost() {
    let (dir, mut model) = index();
    let documents = files(dir.path(), "documents");
    // Texts come first.
    flip(&documents[0], |_| 100_000);
    let report = repair(dir.path(), Undecided::Refuse).unwrap();
    assert!(report.lost > 0 && report.lost < 40, "{report:?}");
    assert_eq!(report.lost_ids.len() as u64, report.lost);
    assert!(report.set_aside.iter().any(|path| path.ends_with(documents[0].file_name().unwrap())));
    for id in &report.lost_ids {
        assert!(model.remove(id).is_some());
    }
    assert_eq!(report.documents as usize, model.len());
    assert_holds(dir.path(), &model);

    let (dir, model) = index();
    let gone = files(dir.path(), "documents").remove(0);
    fs::remove_file(gone).unwrap();
    let report = repair(dir.path(), Undecided::Refuse).unwrap();
    assert!(report.lost > 0 && report.lost_ids.is_empty());
    assert_eq!((report.documents + report.lost) as usize, model.len());
    let store = open(dir.path()).unwrap();
    assert_eq!(store.read().live() as u64, report.documents);
    assert!(store.verify().unwrap().is_sound());
}

#[test]
fn a_flipped_bit_loses_nothing() {
    for ending in ["documents", "vectors", "dead"] {
        let (dir, _) = index();
        let pages = fs::metadata(&files(dir.path(), ending)[0]).unwrap().len().div_ceil(1 << 16) as usize;
        for page in 0..pages {
            let (dir, model) = index();
            change(&files(dir.path(), ending)[0], |bytes| {
                let within = bytes.len().min((page + 1) << 16) - (page << 16);
                bytes[(page << 16) + within / 2] ^= 1;
            });
            let report = repair(dir.path(), Undecided::Refuse).unwrap();
            assert_eq!((report.damaged_segments, report.lost), (1, 0), "{ending}, {page}: {report:?}");
            assert_eq!(report.recomputed, 0, "{ending}, {page}: {report:?}");
            assert_holds(dir.path(), &model);
        }
    }
}

#[test]
fn a_flipped_byte_among_ids_and_ends_loses_nothing() {
    for after in [0, 5, 700, 1500, 2000] {
        let (dir, model) = index();
        change(&files(dir.path(), "documents")[0], |bytes| {
            // Two ids in a row.
            let is_of_ids = |own: &[u8]| own.starts_with(b"id") && own.ends_with(b"id");
            let ids = bytes.windows(7).position(is_of_ids).unwrap();
            bytes[ids + after] ^= 0xff;
        });
        let report = repair(dir.path(), Undecided::Refuse).unwrap();
        assert_eq!((report.lost, report.mended_bytes), (0, 1), "{after}: {report:?}");
        assert_holds(dir.path(), &model);
    }
}

#[test]
fn a_damaged_header_or_end_loses_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for ending in ["documents", "dead", "vectors"] {
        for place in
            ["the header", "the checksums of pages", "the tail", "header, checksums and tail", "behind"]
        {
            let (dir, model) = index();
            let path = &files(dir.path(), ending)[0];
            let mut bytes = fs::read(path).unwrap();
            let len = bytes.len();
            let tail = len - TAIL_BYTES;
            let body = bytemuck::pod_read_unaligned::<Tail>(&bytes[tail..]).body_bytes as usize;
            let checksums = body + 4 * body.div_ceil(PAGE_BYTES as usize);
            let [header, checksums, tail] = [0..HEADER_BYTES, body..checksums, tail..len];
            let parts: &[Range<usize>] = match place {
                "the header" => &[header],
                "the checksums of pages" => &[checksums],
                "the tail" => &[tail],
                "behind" => &[],
                _ => &[header, checksums, tail],
            };
            for part in parts.iter().cloned() {
                random.fill(&mut bytes[part]);
            }
            bytes.extend_from_slice(if place == "behind" { b"more" } else { b"" });
            fs::write(path, bytes).unwrap();
            assert!(matches!(open(dir.path()), Err(StoreError::Corrupt { .. })), "{place} of {ending}");
            let report = repair(dir.path(), Undecided::Refuse).unwrap();
            let counts = (report.damaged_segments, report.lost, report.recomputed, report.undecided);
            assert_eq!(counts, (1, 0, 0, 0), "{place} of {ending}");
            assert_holds(dir.path(), &model);
        }
    }
}

#[test]
fn a_repair_that_fails_anywhere_can_be_done_again() {
    let (origin, model) = index();
    flip(&files(origin.path(), "vectors")[0], |_| 5000);
    flip(&files(origin.path(), "documents")[1], |_| 100);
    flip(&origin.path().join("MANIFEST"), |_| 40);
    let mut failures = Vec::new();
    loop {
        let dir = tempfile::tempdir().unwrap();
        copy_directory(origin.path(), dir.path());
        let faults = Faulty::new(failures.len(), std::io::ErrorKind::StorageFull);
        let begun = Repair::begin_on(Arc::new(faults.clone()), dir.path(), StoreOptions::default());
        let repaired = begun.and_then(|repair| {
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
        let Some(failed) = faults.failed() else {
            repaired.unwrap();
            assert_holds(dir.path(), &model);
            break;
        };
        failures.push(failed);
        if let Err(error) = &repaired {
            assert!(matches!(error, StoreError::Io { .. }), "{failed}: {error}");
        }
        let report = repair(dir.path(), Undecided::Refuse).unwrap();
        assert_eq!(report.lost, 0, "{failed}, operation {}", failures.len());
        assert_holds(dir.path(), &model);
    }
    for kind in ["open", "read", "link", "write", "sync", "rename"] {
        assert!(failures.contains(&kind), "no {kind} in {failures:?}");
    }
}

#[test]
fn what_may_have_been_deleted_is_asked_for() {
    let before = |dir: &Path| fs::read(dir.join("MANIFEST")).unwrap();
    for undecided in [Undecided::Keep, Undecided::Drop] {
        let (dir, model) = index();
        flip(&files(dir.path(), "dead")[0], |_| BITMAP_AT);
        let manifest = before(dir.path());
        match repair(dir.path(), Undecided::Refuse) {
            Err(StoreError::Undecided { deleted: 2, documents }) => assert!(documents > 50),
            other => panic!("{other:?}"),
        }
        assert_eq!(before(dir.path()), manifest, "nothing has changed");
        let report = repair(dir.path(), undecided).unwrap();
        assert!(report.undecided > 50, "{report:?}");
        let store = open(dir.path()).unwrap();
        let view = store.read();
        let kept = undecided == Undecided::Keep;
        for id in ["id004", "id005"] {
            assert_eq!(view.contains(id).unwrap(), kept);
        }
        // The replaced one is known to be replaced.
        let row = view.row_of("id003").unwrap().unwrap();
        assert_eq!(view.document(row).unwrap(), model["id003"].document);
        assert_eq!(
            view.live(),
            if kept { model.len() + 2 } else { model.len() - report.undecided as usize + 2 }
        );
        assert!(store.verify().unwrap().is_sound());
    }
    // All dead rows were replaced: proven, so there is nothing to ask.
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let store = create(dir.path());
    let several = (0..40).map(|n| put(&format!("id{n:03}"), n, n % LEAVES)).collect();
    for batch in [puts(several), puts(vec![put("id003", 500, 1), put("id004", 501, 1)])] {
        commit(&store, &mut model, batch);
        store.flush().unwrap();
    }
    drop(store);
    flip(&files(dir.path(), "dead")[0], |_| BITMAP_AT);
    let report = repair(dir.path(), Undecided::Refuse).unwrap();
    assert_eq!((report.undecided, report.lost), (0, 0));
    assert_holds(dir.path(), &model);
}

#[test]
fn whatever_is_damaged_what_is_left_is_right() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut lost = 0;
    for round in 0..40 {
        let (dir, model) = index();
        let all: Vec<PathBuf> =
            ["vectors", "documents", "dead"].iter().flat_map(|ending| files(dir.path(), ending)).collect();
        for _ in 0..random.random_range(1..4) {
            let at = random.random::<u32>() as usize;
            flip(&all[random.random_range(0..all.len())], |len| at % len);
        }
        let report = match repair(dir.path(), Undecided::Refuse) {
            Err(StoreError::Undecided { .. }) => repair(dir.path(), Undecided::Drop).unwrap(),
            report => report.unwrap(),
        };
        lost += report.lost;
        let store = open(dir.path()).unwrap();
        let view = store.read();
        assert_eq!(view.live() as u64, report.documents, "round {round}");
        for document in view.documents_from(None, usize::MAX).unwrap() {
            let put = &model[&document.id];
            assert_eq!(document, put.document);
            let row = view.row_of(&document.id).unwrap().unwrap();
            assert_eq!(view.embedding(row).unwrap(), put.rows[0].embedding);
        }
        if report.undecided == 0 {
            assert_eq!(view.live() as u64 + report.lost, model.len() as u64, "round {round}: {report:?}");
        }
        assert!(store.verify().unwrap().is_sound());
    }
    assert!(lost > 0, "no damage did any harm");
}
