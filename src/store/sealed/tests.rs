use std::{fs, sync::Arc};

use proptest::prelude::*;

use super::*;
use crate::{disk::FileSystem, store::StoreError};

const ME: SealedName = SealedName { segment: 3, kind: SealedKind::Documents };

/// A directory with the store id that files have.
fn folder(dir: &Path) -> SealedFolder<'_> {
    std::fs::create_dir_all(dir.join(names::SEGMENTS)).unwrap();
    SealedFolder { backend: &FileSystem, dir, store_id: [7; 16] }
}

fn write(dir: &Path, sections: &[(u32, Vec<u8>)], chunk: usize) -> Seal {
    let mut writer = SealedWriter::create(folder(dir), ME).unwrap();
    for (name, bytes) in sections {
        writer.begin(*name).unwrap();
        bytes.chunks(chunk).for_each(|part| writer.write(part).unwrap());
    }
    writer.finish().unwrap()
}

fn open(dir: &Path, seal: Seal) -> Result<SealedFile> {
    SealedFile::open(folder(dir), ME, seal, false)
}

fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761).wrapping_add(seed << 24) >> 24) as u8).collect()
}

/// The contents of all sections, or the error that stopped reading.
fn read_all(file: &SealedFile, names: impl IntoIterator<Item = u32>) -> Result<Vec<Vec<u8>>> {
    names.into_iter().map(|name| file.bytes(file.section(name).clone()).map(<[u8]>::to_vec)).collect()
}

#[test]
fn sections_come_back_whatever_the_sizes_and_the_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(ME.to_string());
    let page = PAGE_BYTES as usize;
    for (number, lens) in [
        vec![],
        vec![0],
        vec![1, 0, 63, 64, 65],
        vec![page - HEADER_BYTES],
        vec![page - HEADER_BYTES + 1, 5],
        vec![3 * page, 2 << 20],
    ]
    .into_iter()
    .enumerate()
    {
        for chunk in [1 << 30, 1000, 64 << 10] {
            let sections: Vec<(u32, Vec<u8>)> =
                (10..).zip(&lens).map(|(name, &len)| (name, pattern(len, name))).collect();
            let seal = write(dir.path(), &sections, chunk);
            assert_eq!(seal.len, fs::metadata(&path).unwrap().len(), "case {number}");
            let file = open(dir.path(), seal).unwrap();
            for (name, bytes) in &sections {
                let range = file.section(*name).clone();
                assert!(range.start.is_multiple_of(ALIGNMENT as u64));
                assert!(file.bytes(range).unwrap() == bytes, "case {number}, section {name}");
            }
            assert_eq!(*file.section(69), 0..0);
            file.check_all().for_each(|page| page.unwrap());
        }
    }
}

#[test]
fn elements_are_typed_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let numbers: Vec<u32> = (0..1000).collect();
    let seal = write(dir.path(), &[(1, vec![9; 3]), (2, bytemuck::cast_slice(&numbers).to_vec())], 1 << 20);
    let file = open(dir.path(), seal).unwrap();
    assert_eq!(file.elements::<u32>(2, 10..13).unwrap(), [10, 11, 12]);
    assert_eq!(file.elements::<u32>(2, 1000..1000).unwrap(), [] as [u32; 0]);
    for range in [999..1001, usize::MAX / 8..usize::MAX / 8 + 1] {
        let refused = file.elements::<u32>(2, range);
        assert!(matches!(refused, Err(StoreError::Corrupt { detail: Damage::TooShort { .. }, .. })));
    }
}

/// Any change of any byte is noticed at open, or when its page is read.
#[test]
fn every_flipped_byte_and_every_cut_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(ME.to_string());
    let seal = write(dir.path(), &[(1, pattern(70_000, 1)), (2, pattern(10, 2))], 4096);
    let whole = fs::read(&path).unwrap();
    // All bytes except those in the middle of a page, which are sampled.
    let places = (0..whole.len()).filter(|at| *at < 200 || *at > 74_100 || at.is_multiple_of(397));
    for at in places {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let damage = open(dir.path(), seal).and_then(|file| file.check_all().collect::<Result<()>>());
        assert!(matches!(damage, Err(StoreError::Corrupt { .. })), "byte {at}");
    }
    for len in (0..whole.len()).step_by(311).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(matches!(open(dir.path(), seal), Err(StoreError::Corrupt { .. })), "{len} bytes");
    }
    fs::write(&path, [whole.as_slice(), &[0]].concat()).unwrap();
    assert!(matches!(open(dir.path(), seal), Err(StoreError::Corrupt { .. })), "one byte more");
    fs::remove_file(&path).unwrap();
    let missing = open(dir.path(), seal).map(|_| ()).unwrap_err();
    assert!(matches!(missing, StoreError::Corrupt { detail: Damage::Missing { .. }, .. }), "{missing}");
}

/// A whole and sound file in the wrong place is refused.
#[test]
fn another_files_bytes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(ME.to_string());
    let seal = write(dir.path(), &[(1, pattern(100, 1))], 4096);
    let mine = folder(dir.path());
    let theirs = SealedFolder { store_id: [8; 16], ..mine };
    let (segment, kind) = (SealedName { segment: 4, ..ME }, SealedName { kind: SealedKind::Vectors, ..ME });
    for (folder, name) in [(mine, segment), (mine, kind), (theirs, ME)] {
        let bytes = fs::read(&path).unwrap();
        fs::write(dir.path().join(name.to_string()), bytes).unwrap();
        let opened = SealedFile::open(folder, name, seal, false);
        let foreign = matches!(opened, Err(StoreError::Corrupt { detail: Damage::Foreign, .. }));
        assert!(foreign, "{name}");
    }
    // The same segment rewritten with other contents of the same length.
    let again = write(dir.path(), &[(1, pattern(100, 2))], 4096);
    assert_eq!(again.len, seal.len);
    assert!(matches!(open(dir.path(), seal), Err(StoreError::Corrupt { .. })));
    open(dir.path(), again).unwrap();
}

#[test]
fn a_damaged_page_spoils_only_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(ME.to_string());
    let bytes = pattern(5 * PAGE_BYTES as usize, 1);
    let seal = write(dir.path(), &[(1, bytes.clone())], 1 << 20);
    let mut damaged = fs::read(&path).unwrap();
    damaged[2 * PAGE_BYTES as usize + 17] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let file = Arc::new(open(dir.path(), seal).unwrap());
    let section = file.section(1);
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (file, section) = (Arc::clone(&file), section.clone());
            std::thread::spawn(move || {
                for _ in 0..50 {
                    assert!(file.bytes(section.start..2 * PAGE_BYTES).is_ok());
                    assert!(file.bytes(3 * PAGE_BYTES..section.end).is_ok());
                    assert!(file.bytes(2 * PAGE_BYTES - 1..2 * PAGE_BYTES + 1).is_err());
                }
            })
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let error = file.check_all().find_map(Result::err).unwrap();
    let page_2 = Damage::Checksum { what: "page", number: 2 };
    assert!(
        matches!(&error, StoreError::Corrupt { file, detail } if *file == ME.to_string() && *detail == page_2)
    );
}

proptest! {
    /// Reading returns what was written, or an error: never other bytes.
    #[test]
    fn damage_never_changes_an_answer(
        lens in prop::collection::vec(0usize..200_000, 0..4),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(ME.to_string());
        let sections: Vec<(u32, Vec<u8>)> =
            (1..).zip(&lens).map(|(name, &len)| (name, pattern(len, name))).collect();
        let seal = write(dir.path(), &sections, 7777);
        let mut bytes = fs::read(&path).unwrap();
        for (place, bit) in flips {
            let at = place.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        fs::write(&path, &bytes).unwrap();
        let names = sections.iter().map(|(name, _)| *name);
        if let Ok(read) = open(dir.path(), seal).and_then(|file| read_all(&file, names)) {
            for (read, (_, written)) in read.iter().zip(&sections) {
                prop_assert!(read == written);
            }
        }
    }
}
