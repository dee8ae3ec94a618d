use super::*;
use crate::store::layout::FORMAT_VERSION;

/// The encoded manifest with another head.
fn with_head(change: impl FnOnce(&mut ManifestHead)) -> Result<Manifest> {
    let mut bytes = manifest().encode();
    let (head, _) = bytes.split_at_mut(HEAD_BYTES);
    let mut changed: ManifestHead = bytemuck::pod_read_unaligned(head);
    change(&mut changed);
    let fields = &bytemuck::bytes_of(&changed)[..HEAD_BYTES - 4];
    changed.crc = crc32fast::hash(fields);
    head.copy_from_slice(bytemuck::bytes_of(&changed));
    Manifest::decode(&bytes)
}

fn manifest() -> Manifest {
    let config = StoreConfig {
        expires: Some("until".into()),
        dim: 384,
        branching_factor: 40,
        height: 2,
        similarity: 1,
        model_hash: ModelHash([7; 32]),
        passages: Some(Passages::new(200, 40).unwrap()),
        terms: 1,
    };
    let files = |number| SegmentFiles {
        number,
        rows: 100,
        vectors: Seal { len: 9000, crc: 1 },
        documents: Seal { len: 8000, crc: 2 },
    };
    let tombstones = TombstoneFile { generation: Generation(5), count: 7, seal: Seal { len: 4200, crc: 3 } };
    Manifest {
        generation: Generation(6),
        next_segment: 12,
        segments: vec![
            SegmentEntry { files: files(11), tombstones: None },
            SegmentEntry { files: files(3), tombstones: Some(tombstones) },
        ],
        ..Manifest::empty(&config)
    }
}

#[test]
fn round_trip_at_the_documented_offsets() {
    let manifest = manifest();
    let bytes = manifest.encode();
    assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
    // The constants of docs/format.md, written out once.
    assert_eq!(bytes.len(), 128 + 2 * 64 + 5);
    assert_eq!(bytes[256..], *b"until");
    assert_eq!(bytes[..8], *b"\x89ehi\r\n\x1a\n");
    assert_eq!(bytes[8..12], 1u32.to_le_bytes());
    assert_eq!(bytes[12..16], 384u32.to_le_bytes());
    assert_eq!(bytes[16..20], [1, 1, 1, 0]);
    assert_eq!(bytes[20..24], 40u32.to_le_bytes());
    assert_eq!(bytes[24..28], 2u32.to_le_bytes());
    assert_eq!(bytes[28..32], [0; 4]);
    assert_eq!(bytes[32..64], [7; 32]);
    assert_eq!(bytes[64..80], manifest.store_id);
    assert_eq!(bytes[80..88], 6u64.to_le_bytes());
    assert_eq!(bytes[88..96], 12u64.to_le_bytes());
    assert_eq!(bytes[96..104], [2, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(bytes[104..108], crc32fast::hash(&bytes[128..]).to_le_bytes());
    assert_eq!(bytes[108..112], 200u32.to_le_bytes());
    assert_eq!(bytes[112..116], 40u32.to_le_bytes());
    assert_eq!(bytes[116..124], [0; 8]);
    assert_eq!(bytes[124..128], crc32fast::hash(&bytes[..124]).to_le_bytes());
    assert_eq!(bytes[192..200], 3u64.to_le_bytes());
    assert_eq!(bytes[200..208], [100, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(bytes[208..216], 9000u64.to_le_bytes());
    assert_eq!(bytes[216..224], [1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes[224..232], 8000u64.to_le_bytes());
    assert_eq!(bytes[232..240], 5u64.to_le_bytes());
    assert_eq!(bytes[240..248], 4200u64.to_le_bytes());
    assert_eq!(bytes[248..256], [3, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let bytes = manifest().encode();
    let refused = |bytes: &[u8]| matches!(Manifest::decode(bytes), Err(StoreError::Corrupt { file, .. }) if file == names::MANIFEST);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(refused(&flipped), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(refused(&bytes[..len]), "{len} bytes");
    }
    assert!(refused(&[bytes.as_slice(), &[0]].concat()));
}

#[test]
fn impossible_segments_are_refused() {
    let change = |change: fn(&mut Manifest)| {
        let mut manifest = manifest();
        change(&mut manifest);
        Manifest::decode(&manifest.encode()).is_err()
    };
    assert!(change(|m| m.next_segment = 11), "a number not yet given out");
    assert!(change(|m| m.segments[1].files.number = 11), "a number twice");
    assert!(change(|m| m.segments[1].files.rows = 6), "more dead rows than rows");
    assert!(change(|m| m.segments[0].files.rows = u32::MAX), "more rows than a row number has");
}

#[test]
fn other_versions_are_refused_by_number() {
    for version in [0, FORMAT_VERSION + 1, u32::MAX] {
        let Err(StoreError::UnsupportedVersion { found, .. }) = with_head(|head| head.version = version)
        else {
            panic!("version {version} was not refused");
        };
        assert_eq!(found, version);
    }
}

/// Passages have a valid length.
#[test]
fn impossible_passages_are_refused() {
    assert!(with_head(|head| head.passage_tokens = 100).is_ok());
    for refused in [
        with_head(|head| head.passage_tokens = 0),
        with_head(|head| head.passage_tokens = 7),
        with_head(|head| head.passage_tokens = 10_000),
        with_head(|head| head.overlap = 101),
    ] {
        let field = |error| match error {
            Err(StoreError::Corrupt { detail: Damage::Field { field, .. }, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(refused), "tokens of a passage");
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let change = |change: fn(&mut StoreConfig)| {
        let mut config = manifest().config;
        change(&mut config);
        match config.check() {
            Err(StoreError::InvalidConfig { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(change(|c| c.dim = 0), "dim");
    assert_eq!(change(|c| c.branching_factor = 0), "branching_factor");
    assert_eq!(change(|c| (c.branching_factor, c.height) = (1, 2)), "height");
    assert_eq!(change(|c| c.height = 0), "height");
    assert_eq!(change(|c| c.height = 32), "number of leaves");
    assert_eq!(
        change(|c| c.expires = Some(String::new())),
        "the length of the field by which documents expire"
    );
    assert_eq!(
        change(|c| c.expires = Some("x".repeat(513))),
        "the length of the field by which documents expire"
    );
}
