use std::{fs, sync::Arc};

use half::f16;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{
    disk::{FileSystem, faulty::Faulty},
    ids::LeafId,
    passages::Span,
    store::{
        Operation, StoreError,
        batch::{CheckedBatch, CheckedPut, PutRow},
        error::Damage,
        layout::{STORE_ID_BYTES, log::*},
    },
};

const PLACE: LogPlace = LogPlace { store_id: [3; STORE_ID_BYTES], base: Generation(4) };

/// Maximum number of rows of a document.
const ROWS: u32 = 3;

fn row(place: u32) -> PutRow {
    PutRow {
        embedding: [0.5, -1.0, place as f32].map(f16::from_f32).to_vec(),
        leaf: LeafId(place),
        span: Span { start: 2 * place, end: 3 * place },
    }
}

fn batch(number: u32) -> CheckedBatch {
    let put = |place: u32| {
        let (id, payload) = (format!("id-{number}-{place}"), vec![b'x'; (number * 1000 + place) as usize]);
        let rows = (0..=place % ROWS).map(row).collect();
        CheckedPut::new(id, payload, vec![b'y'; place as usize], rows, None)
    };
    CheckedBatch {
        puts: (0..number).map(|place| Arc::new(put(place))).collect(),
        deletes: (0..3).map(|n| format!("gone-{n}")).collect(),
    }
}

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("log")).unwrap();
    dir
}

/// A log of `count` commits, and the end of each of them.
fn logged(count: u32) -> (TempDir, Vec<u64>) {
    let dir = folder();
    let mut log = Log::create(&FileSystem, dir.path(), &name(PLACE.base), PLACE).unwrap();
    let mut ends = vec![log.bytes()];
    for number in 0..count {
        log.append(&encode(&batch(number), true), Room::Ordinary).unwrap();
        ends.push(log.bytes());
    }
    (dir, ends)
}

/// The commits of a log, those after damage, and the result of the scan.
fn read(dir: &Path, place: LogPlace) -> Result<(Vec<CheckedBatch>, Vec<CheckedBatch>, Scan)> {
    let (mut commits, mut behind) = (Vec::new(), Vec::new());
    let found = scan(&FileSystem, dir, place, &mut |frame, bytes| {
        let into = if frame.is_behind { &mut behind } else { &mut commits };
        into.extend(decode(bytes, true));
        Ok(())
    })?;
    Ok((commits, behind, found))
}

fn batches(count: u32) -> Vec<CheckedBatch> {
    (0..count).map(batch).collect()
}

#[test]
fn commits_come_back_in_order_and_a_log_goes_on() {
    let (dir, ends) = logged(5);
    for count in 5..8 {
        let (commits, behind, found) = read(dir.path(), PLACE).unwrap();
        assert!(commits == batches(count), "{} commits", commits.len());
        assert_eq!((behind.len(), &found.tail), (0, &Tail::Clean));
        assert_eq!(found.generation, Generation(4 + u64::from(count)));
        let mut log = Log::resume(&FileSystem, dir.path(), &found).unwrap();
        log.append(&encode(&batch(count), true), Room::Ordinary).unwrap();
        log.sync(&FileSystem).unwrap();
    }
    assert!(ends.is_sorted() && ends.iter().all(|end| end.is_multiple_of(ALIGNMENT)));
    // Of another index, or of another generation.
    for other in
        [LogPlace { store_id: [4; STORE_ID_BYTES], ..PLACE }, LogPlace { base: Generation(5), ..PLACE }]
    {
        fs::copy(dir.path().join(name(PLACE.base)), dir.path().join(name(Generation(5)))).unwrap();
        assert!(matches!(read(dir.path(), other), Err(StoreError::Corrupt { .. })));
    }
}

#[test]
fn names_are_those_that_are_written() {
    assert_eq!(name(Generation(7)), "log/00000007.log");
    for generation in [0, 7, 99_999_999, 100_000_000, u64::MAX].map(Generation) {
        assert_eq!(base_of(name(generation).strip_prefix("log/").unwrap()), Some(generation));
    }
    for foreign in ["7.log", "00000007.log.1", "+0000007.log", "0000000a.log", ".log", "00000007"] {
        assert_eq!(base_of(foreign), None, "{foreign}");
    }
}

/// What a killed writer leaves of its last frame: its beginning, and zeros.
#[test]
fn a_torn_tail_ends_at_the_last_whole_commit() {
    let (dir, ends) = logged(4);
    let path = dir.path().join(name(PLACE.base));
    let whole = fs::read(&path).unwrap();
    for kept in (ends[3]..ends[4]).step_by(7) {
        let mut torn = whole.clone();
        // The header is written last, so it is missing.
        torn[kept as usize..].fill(0);
        torn[ends[3] as usize..ends[3] as usize + FRAME_BYTES].fill(0);
        fs::write(&path, &torn).unwrap();
        let (commits, behind, found) = read(dir.path(), PLACE).unwrap();
        assert!(commits == batches(3), "{kept}: {} commits", commits.len());
        assert_eq!((behind.len(), found.end), (0, ends[3]));
        let nothing = kept <= ends[3] + FRAME_BYTES as u64;
        assert_eq!(found.tail == Tail::Clean, nothing, "{kept}: {:?}", found.tail);
        // The log continues from there, and nothing of the torn frame is left.
        let mut log = Log::resume(&FileSystem, dir.path(), &found).unwrap();
        log.append(&encode(&batch(1), true), Room::Ordinary).unwrap();
        drop(log);
        let (commits, behind, found) = read(dir.path(), PLACE).unwrap();
        assert_eq!((commits.len(), behind.len(), found.tail), (4, 0, Tail::Clean));
    }
}

#[test]
fn damage_before_a_whole_commit_is_told_from_a_power_failure() {
    let (dir, ends) = logged(6);
    let path = dir.path().join(name(PLACE.base));
    let mut bytes = fs::read(&path).unwrap();
    bytes[ends[2] as usize + 60] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let (commits, behind, found) = read(dir.path(), PLACE).unwrap();
    assert!(commits == batches(2), "{} commits", commits.len());
    assert_eq!(behind.len(), 3);
    let damage = Damage::Gap { offset: ends[2], commits: 3 };
    assert_eq!(found.tail, Tail::Damaged { commits: 3, detail: damage.clone() });
    match found.check() {
        Err(StoreError::Corrupt { file, detail }) => {
            assert_eq!((&*file, detail), ("log/00000004.log", damage))
        }
        other => panic!("{other:?}"),
    }
    // The same bytes after a reboot: unsynced frames may be missing.
    let later = crate::disk::recorder::Recorder::new(dir.path(), crate::disk::recorder::Forget::Nothing);
    let found = scan(&later, dir.path(), PLACE, &mut |_, _| Ok(())).unwrap();
    assert_eq!((found.commits, found.tail), (2, Tail::Lost { commits: 3 }));
    // Not if a later frame says that they had been synced.
    let dir = folder();
    let mut log = Log::create(&FileSystem, dir.path(), &name(PLACE.base), PLACE).unwrap();
    for number in 0..4 {
        log.append(&encode(&batch(number), true), Room::Ordinary).unwrap();
        log.sync(&FileSystem).unwrap();
    }
    let path = dir.path().join(name(PLACE.base));
    let mut bytes = fs::read(&path).unwrap();
    bytes[ends[1] as usize + 50] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let later = crate::disk::recorder::Recorder::new(dir.path(), crate::disk::recorder::Forget::Nothing);
    let found = scan(&later, dir.path(), PLACE, &mut |_, _| Ok(())).unwrap();
    assert!(matches!(found.tail, Tail::Damaged { commits: 2, .. }), "{:?}", found.tail);
}

/// A commit whose write fails was not acknowledged, so it must not reappear.
#[test]
fn a_failed_write_leaves_nothing_behind() {
    let mut written = 0;
    for at in 0..40 {
        let dir = folder();
        let faults = Faulty::new(at, std::io::ErrorKind::StorageFull);
        let Ok(mut log) = Log::create(&faults, dir.path(), &name(PLACE.base), PLACE) else {
            assert!(!dir.path().join(name(PLACE.base)).exists(), "{:?}", faults.failed());
            continue;
        };
        let mut acknowledged = Vec::new();
        for number in 0..4 {
            match log.append(&encode(&batch(number), true), Room::Ordinary) {
                Ok(()) => acknowledged.push(batch(number)),
                Err(StoreError::Io { operation, .. }) => {
                    assert!(matches!(operation, Operation::Write | Operation::Grow), "{operation}");
                    written += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        drop(log);
        let (commits, behind, found) = read(dir.path(), PLACE).unwrap();
        assert_eq!(
            (commits, behind.len(), found.tail),
            (acknowledged, 0, Tail::Clean),
            "{:?}",
            faults.failed()
        );
        if faults.failed().is_none() {
            break;
        }
    }
    assert!(written >= 4, "{written}");
}

/// 200, or as many as `PROPTEST_CASES` asks for; the documented long run has 10,000.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Whatever happens to the bytes: earlier commits are there, and the change is reported.
    #[test]
    fn no_flip_and_no_cut_goes_unnoticed(
        count in 1u32..6,
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        cut in any::<bool>(),
    ) {
        let (dir, ends) = logged(count);
        let path = dir.path().join(name(PLACE.base));
        let mut bytes = fs::read(&path).unwrap();
        let at = if cut { at.index(bytes.len()) } else { at.index(ends[count as usize] as usize + 64) };
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << bit;
        }
        fs::write(&path, &bytes).unwrap();
        let mut before = ends.iter().filter(|end| **end <= at as u64).count().saturating_sub(1) as u32;
        if !cut && at < HEADER_BYTES {
            // Frames name their own place.
            before = count;
        }
        match read(dir.path(), PLACE) {
            Ok((commits, behind, found)) => {
                prop_assert_ne!(&found.tail, &Tail::Clean);
                prop_assert!(commits == batches(before), "{} commits, not {}", commits.len(), before);
                if !cut && (HEADER_BYTES..ends[count as usize] as usize).contains(&at) {
                    prop_assert_eq!(behind.len() as u32 + before + 1, count);
                    // In the last one, only its header may be torn.
                    let header_of_last = at < ends[count as usize - 1] as usize + FRAME_BYTES;
                    let torn = behind.is_empty() && header_of_last;
                    prop_assert_eq!(matches!(found.tail, Tail::Damaged { .. }), !torn, "{:?}", found.tail);
                }
                let in_zeros = before == count && at >= ends[count as usize] as usize + FRAME_BYTES;
                if cut && before > 0 && !in_zeros {
                    prop_assert!(matches!(found.tail, Tail::Damaged { .. }), "{:?}", found.tail);
                }
            }
            Err(StoreError::UnsupportedVersion { .. }) => prop_assert!(false, "a damaged version is damage"),
            Err(error) => prop_assert!(at < HEADER_BYTES, "{}", error),
        }
    }

    /// For documents with one row each, nothing about passages is written.
    #[test]
    fn commits_of_whole_documents_come_back(number in 0u32..4) {
        let mut whole = batch(number);
        for put in &mut whole.puts {
            let put = Arc::get_mut(put).unwrap();
            put.rows.truncate(1);
            put.rows[0].span = Span::default();
        }
        let bytes = encode(&whole, false);
        prop_assert!(bytes.len() < encode(&whole, true).len() || number == 0);
        prop_assert_eq!(decode(&bytes, false), Some(whole));
    }

    #[test]
    fn damaged_commits_are_no_other_commits(number in 0u32..4, at in any::<prop::sample::Index>()) {
        let mut bytes = encode(&batch(number), true);
        prop_assert_eq!(decode(&bytes, true), Some(batch(number)));
        bytes.truncate(at.index(bytes.len()));
        prop_assert_eq!(decode(&bytes, true), None);
    }
}
