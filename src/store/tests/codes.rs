//! Codes of embeddings: derived data, checked as such.

use std::iter;

use super::*;
use crate::disk::FileSystem;
use crate::store::{
    manifest::Manifest,
    sealed::{SealedFolder, SealedWriter},
};

/// Codes are compared with the rows, in addition to their checksums.
#[test]
fn codes_of_other_rows_are_a_problem() {
    const WIDE: usize = 70;
    const ROWS: u32 = 75;
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig { dim: WIDE as u32, ..config() };
    let wide = |n: u32| {
        let embedding =
            (0..WIDE as u32).map(|i| f16::from_f32(((i * 7 + n * 13) % 29) as f32 - 14.5)).collect();
        with_embedding(put(&format!("d{n:02}"), n, n % LEAVES), embedding)
    };
    let store = Store::create(dir.path(), &config, StoreOptions::default()).unwrap();
    store.commit(puts((0..ROWS).map(wide).collect())).unwrap();
    store.compact(&mut || Ok(())).unwrap();
    assert!(store.verify().unwrap().is_sound());
    let mut rows = Vec::new();
    let view = store.read();
    let mut all = Vec::new();
    view.parts().iter().try_for_each(|part| part.push_to(&mut all)).unwrap();
    all.iter().for_each(|(_, row)| rows.extend_from_slice(row));
    let mut runs = Vec::new();
    view.leaf_runs(LeafId(3), &mut runs).unwrap();
    let leaf_rows: usize = runs.iter().map(Run::live).sum();
    assert_eq!(leaf_rows, 5);
    let sizes = view.leaf_sizes().unwrap();
    let ends = sizes.values().scan(0, |end, &rows| {
        *end += rows as u32;
        Some(*end)
    });
    let places: Vec<[u32; 2]> = iter::once(0).chain(ends).take(sizes.len()).map(|first| [first, 0]).collect();
    drop((view, store));

    // The same file with invalid codes, and every checksum correct.
    let mut manifest = Manifest::read(&FileSystem, dir.path()).unwrap();
    let files = &mut manifest.segments[0].files;
    let folder = SealedFolder { backend: &FileSystem, dir: dir.path(), store_id: manifest.store_id };
    let mut file = SealedWriter::create(folder, files.names()[0]).unwrap();
    file.begin(layout::segment::ROWS).unwrap();
    file.write(bytemuck::cast_slice(&rows)).unwrap();
    file.begin(layout::segment::CODES).unwrap();
    file.write(&vec![0; ROWS.div_ceil(16) as usize * crate::codes::block_bytes(WIDE)]).unwrap();
    file.section(layout::segment::CODE_PLACES, &places).unwrap();
    file.begin(layout::segment::MEANS).unwrap();
    file.write(&[0; WIDE * 2]).unwrap();
    file.begin(layout::segment::SUPPLEMENTS).unwrap();
    file.write(&vec![0; ROWS as usize * crate::codes::supplement_bytes(WIDE)]).unwrap();
    files.vectors = file.finish().unwrap();
    manifest.write_provisional(&FileSystem, dir.path()).unwrap();
    Manifest::publish(&FileSystem, dir.path()).unwrap();

    let store = open(dir.path()).unwrap();
    let report = store.verify().unwrap();
    assert_eq!(report.problem_count, 6, "{:?}", report.problems);
    let damage = Damage::Undecodable { what: "the means of codes, from", number: 0 };
    assert_eq!(report.problems[0].damage, damage);
    for (problem, first) in report.problems[1..].iter().zip([0, 16, 32, 48, 64]) {
        assert_eq!(problem.damage, Damage::Undecodable { what: "the codes from row", number: first });
    }
    // Codes are recomputed with each segment.
    store.commit(puts(vec![wide(80)])).unwrap();
    store.compact(&mut || Ok(())).unwrap();
    assert!(store.verify().unwrap().is_sound());
}

/// Merged rows are coded again, relative to the means of their new segment.
#[test]
fn merged_rows_have_codes_of_their_segment() {
    const WIDE: usize = 70;
    let dir = tempfile::tempdir().unwrap();
    let store =
        Store::create(dir.path(), &StoreConfig { dim: WIDE as u32, ..config() }, StoreOptions::default())
            .unwrap();
    let wide = |n: u32| {
        let embedding =
            (0..WIDE as u32).map(|i| f16::from_f32(((i * 11 + n * 17) % 31) as f32 - 15.5)).collect();
        with_embedding(
            put(&format!("d{n:03}"), n, if n.is_multiple_of(3) { n * 7 % LEAVES } else { 5 }),
            embedding,
        )
    };
    for first in [0, 90, 150, 151] {
        store.commit(puts((first..first + 60).map(wide).collect())).unwrap();
        store.flush().unwrap();
        assert!(store.verify().unwrap().is_sound());
    }
    store.commit(deletes(&["d003", "d100"])).unwrap();
    store.compact(&mut || Ok(())).unwrap();
    assert_eq!(store.read().rows(), 60 + 121 - 2);
    assert!(store.verify().unwrap().is_sound());
}
