//! A dev split for datasets without one.

use super::Qrels;
use super::error::{DataError, DataErrorKind};

/// FNV-1a, 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The share of training queries to set aside, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct DevFraction(f64);

impl DevFraction {
    /// Checks the range.
    ///
    /// # Errors
    ///
    /// [`DataErrorKind::Option`] when `fraction` is not in `0.0..=1.0`.
    pub fn new(fraction: f64) -> Result<Self, DataError> {
        if (0.0..=1.0).contains(&fraction) {
            Ok(Self(fraction))
        } else {
            let message = format!("the dev fraction {fraction} is not between 0 and 1");
            Err(DataError::new(DataErrorKind::Option, message))
        }
    }

    /// The number of 64-bit hashes, counted from 0, that belong to the share.
    fn hashes(self) -> u128 {
        // Exact: the product only changes the exponent, and is at most 2^64.
        (self.0 * 2f64.powi(64)) as u128
    }
}

/// Splits off a share of the training queries, with all their judgments: those that stay, and those set
/// aside.
///
/// Each query is decided independently by [`is_dev`], so the result depends neither on the order of the rows
/// nor on the other queries, and the share is met only approximately: for `n` queries it varies by about
/// `sqrt(n * fraction * (1 - fraction))` queries.
pub fn carve_dev(train: Qrels, seed: u64, fraction: DevFraction) -> (Qrels, Qrels) {
    train.partition(|query| !is_dev(query, seed, fraction))
}

/// Whether a training query belongs to the dev split.
///
/// The rule is part of the interface and stays the same on every platform and in every
/// release: the bytes of `seed` (8, little-endian) and of the id are hashed with 64-bit
/// FNV-1a, the hash is mixed with the finaliser of MurmurHash3, and the query is dev when
/// the result is less than `fraction * 2^64`. With a larger fraction and the same seed, the
/// dev queries of the smaller one remain dev.
pub fn is_dev(query: &str, seed: u64, fraction: DevFraction) -> bool {
    u128::from(hash(query, seed)) < fraction.hashes()
}

fn hash(query: &str, seed: u64) -> u64 {
    let seed = seed.to_le_bytes();
    let bytes = seed.iter().chain(query.as_bytes());
    mix(bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)))
}

/// The finaliser of MurmurHash3: FNV alone leaves the high bits of short ids too alike.
fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(value: f64) -> DevFraction {
        DevFraction::new(value).unwrap()
    }

    /// A published rule must not drift. The values come from a separate implementation.
    #[test]
    fn hashes_are_those_recorded() {
        for (query, seed, expected) in RECORDED {
            assert_eq!(hash(query, seed), expected, "{query:?}, seed {seed}");
        }
    }

    const RECORDED: [(&str, u64, u64); 6] = [
        ("", 0, 0x7bd3_144f_29c0_cc9e),
        ("0", 0, 0xadcf_7ef0_41fa_aba0),
        ("0", 1, 0x4893_90fe_5995_7042),
        ("1395", 0, 0xdb4b_dc0b_0304_919b),
        ("PLAIN-1008", 42, 0xaf43_e429_55d3_277a),
        ("größe", u64::MAX, 0x926b_6f36_34f1_4b00),
    ];

    #[test]
    fn the_share_is_met_and_grows_by_inclusion() {
        let ids: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        for seed in [0, 1, u64::MAX] {
            for share in [0.05, 0.1, 0.5] {
                let dev = ids.iter().filter(|id| is_dev(id, seed, fraction(share)));
                let got = dev.count() as f64 / ids.len() as f64;
                // Five standard deviations of the binomial at the widest share.
                assert!((got - share).abs() < 0.018, "seed {seed}: {got} for {share}");
            }
            for id in &ids {
                if is_dev(id, seed, fraction(0.1)) {
                    assert!(is_dev(id, seed, fraction(0.3)));
                }
                assert!(!is_dev(id, seed, fraction(0.0)));
                assert!(is_dev(id, seed, fraction(1.0)));
            }
        }
        let with = |seed| ids.iter().filter(move |id| is_dev(id, seed, fraction(0.1)));
        assert!(with(0).ne(with(1)), "the seed must matter");
    }

    #[test]
    fn carving_keeps_every_judgment_and_ignores_order() {
        let rows: Vec<(String, String, i32)> =
            (0..500).map(|n| (format!("q{}", n % 90), format!("d{n}"), n % 3)).collect();
        let build = |rows: &mut dyn Iterator<Item = &(String, String, i32)>| {
            let mut qrels = Qrels::default();
            for (query, document, grade) in rows {
                qrels.insert(query, document, *grade);
            }
            qrels
        };
        let forward = carve_dev(build(&mut rows.iter()), 7, fraction(0.2));
        let backward = carve_dev(build(&mut rows.iter().rev()), 7, fraction(0.2));
        assert_eq!(forward, backward);
        let (train, dev) = forward;
        assert_eq!(train.len() + dev.len(), 90);
        assert_eq!(train.iter().chain(dev.iter()).map(|(_, judged)| judged.len()).sum::<usize>(), 500);
        assert!(!dev.is_empty());
        for (query, _) in dev.iter() {
            assert!(train.get(query).is_none());
            assert!(is_dev(query, 7, fraction(0.2)));
        }
    }

    #[test]
    fn fractions_outside_the_range_are_refused() {
        for bad in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            let error = DevFraction::new(bad).unwrap_err();
            assert!(error.kind() == DataErrorKind::Option, "{bad}");
        }
        assert_eq!(fraction(1.0).hashes(), 1 << 64);
    }
}
