//! Tests whether a difference between two systems on the same queries is significant.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};
use thiserror::Error;

/// Resamples of [`paired_bootstrap`]: p-values down to 0.0001, and at 0.05 a standard error of 0.002.
pub const BOOTSTRAP_RESAMPLES: usize = 10_000;
/// Resamples drawn from one random stream; fixed, so that threads do not change the result.
const RESAMPLES_PER_STREAM: usize = 500;
/// Tolerance for sums of the same values in another order.
const ROUNDING: f64 = 1e-12;

/// Values that cannot be tested.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SignificanceError {
    /// The two systems have different numbers of values.
    #[error("{left} and {right} values are no pairs; give both systems' values for the same queries")]
    Lengths {
        /// Values of the first system.
        left: usize,
        /// Values of the second system.
        right: usize,
    },
    /// Fewer than two queries.
    #[error("a test needs at least 2 queries, not {queries}")]
    TooFew {
        /// Queries given.
        queries: usize,
    },
    /// A value is infinite or not a number.
    #[error("the value of query {query} is not finite")]
    Value {
        /// Position of the query, from 0.
        query: usize,
    },
}

/// The two-sided p-value of the paired bootstrap test on the mean difference, in (0, 1].
///
/// Differences are drawn with replacement [`BOOTSTRAP_RESAMPLES`] times and centred on 0; p is the
/// share of resamples whose mean is at least as far from 0 as the one observed, with 1 added to
/// both counts so that it is never 0 (Efron and Tibshirani 1993, section 16.4; Davison and Hinkley 1997,
/// section 4.2). The same seed gives the same value on any number of threads.
///
/// `left` and `right` are per-query values of two systems, the same query at the same place.
///
/// # Errors
/// Every variant of [`SignificanceError`].
///
/// # Examples
/// ```
/// let tree = [0.9, 0.4, 0.7, 1.0, 0.3];
/// let lists = [0.5, 0.5, 0.4, 0.8, 0.3];
/// let p = ehi::eval::paired_bootstrap(&tree, &lists, 0)?;
/// assert!(p > 0.05 && p < 0.2);
/// # Ok::<(), ehi::eval::SignificanceError>(())
/// ```
pub fn paired_bootstrap(left: &[f64], right: &[f64], seed: u64) -> Result<f64, SignificanceError> {
    let differences = differences(left, right)?;
    let n = differences.len();
    let mean = mean(&differences);
    let extreme: usize = (0..BOOTSTRAP_RESAMPLES.div_ceil(RESAMPLES_PER_STREAM))
        .into_par_iter()
        .map(|stream| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(stream as u64);
            let resamples = RESAMPLES_PER_STREAM.min(BOOTSTRAP_RESAMPLES - stream * RESAMPLES_PER_STREAM);
            (0..resamples)
                .filter(|_| {
                    let sum: f64 = (0..n).map(|_| differences[rng.random_range(0..n)]).sum();
                    (sum / n as f64 - mean).abs() >= mean.abs() - ROUNDING
                })
                .count()
        })
        .sum();
    Ok((extreme + 1) as f64 / (BOOTSTRAP_RESAMPLES + 1) as f64)
}

/// The two-sided p-value of the paired t-test, in [0, 1].
///
/// It is 1 if all differences are 0, and 0 if they are all the same and not 0.
///
/// # Errors
/// Every variant of [`SignificanceError`].
pub fn paired_t_test(left: &[f64], right: &[f64]) -> Result<f64, SignificanceError> {
    let differences = differences(left, right)?;
    let mean = mean(&differences);
    if mean == 0.0 {
        return Ok(1.0);
    }
    let n = differences.len() as f64;
    let t = mean / (variance(&differences) / n).sqrt();
    match StudentsT::new(0.0, 1.0, n - 1.0) {
        Ok(distribution) if t.is_finite() => Ok(2.0 * distribution.cdf(-t.abs())),
        // No variance at all.
        _ => Ok(0.0),
    }
}

/// Significance of a difference between two systems on the same queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PairedTests {
    /// Of [`paired_bootstrap`].
    pub bootstrap_p: f64,
    /// Of [`paired_t_test`].
    pub t_test_p: f64,
    /// Sample standard deviation of the differences.
    pub deviation: f64,
}

impl PairedTests {
    /// Runs both tests.
    ///
    /// # Errors
    /// Every variant of [`SignificanceError`].
    pub(crate) fn new(left: &[f64], right: &[f64], seed: u64) -> Result<Self, SignificanceError> {
        Ok(Self {
            bootstrap_p: paired_bootstrap(left, right, seed)?,
            t_test_p: paired_t_test(left, right)?,
            deviation: variance(&differences(left, right)?).sqrt(),
        })
    }

    /// The lower end of the 95% confidence interval of the mean difference, by the t-distribution.
    pub(crate) fn at_least(&self, left: &[f64], right: &[f64]) -> f64 {
        let n = left.len() as f64;
        let mean = left.iter().zip(right).map(|(l, r)| l - r).sum::<f64>() / n;
        let quantile = StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975));
        if self.deviation == 0.0 { mean } else { mean - quantile * self.deviation / n.sqrt() }
    }

    /// The larger p-value of the two tests.
    pub(crate) fn larger_p(&self) -> f64 {
        self.bootstrap_p.max(self.t_test_p)
    }
}

fn differences(left: &[f64], right: &[f64]) -> Result<Vec<f64>, SignificanceError> {
    if left.len() != right.len() {
        return Err(SignificanceError::Lengths { left: left.len(), right: right.len() });
    }
    if left.len() < 2 {
        return Err(SignificanceError::TooFew { queries: left.len() });
    }
    let differences: Vec<f64> = left.iter().zip(right).map(|(l, r)| l - r).collect();
    match differences.iter().position(|d| !d.is_finite()) {
        Some(query) => Err(SignificanceError::Value { query }),
        None => Ok(differences),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The variance of a sample of at least two values.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: [f64; 10] = [0.5, 1.0, 0.75, 0.2, 1.0, 0.6667, 0.0, 0.9, 0.4, 1.0];
    const RIGHT: [f64; 10] = [0.25, 1.0, 0.5, 0.3, 0.5, 0.3333, 0.0, 0.8, 0.6, 0.75];
    const FEW_LEFT: [f64; 5] = [0.9, 0.4, 0.7, 1.0, 0.3];
    const FEW_RIGHT: [f64; 5] = [0.5, 0.5, 0.4, 0.8, 0.3];

    /// `scipy.stats.ttest_rel` of scipy 1.17.1.
    #[test]
    fn the_t_test_agrees_with_scipy() {
        for (left, right, p) in [
            (&LEFT[..], &RIGHT[..], 0.072_735_610_653_82),
            (&FEW_LEFT[..], &FEW_RIGHT[..], 0.159_552_852_698_394),
            (&[1.0, 2.0][..], &[0.5, 0.25][..], 0.322_828_934_431_09),
        ] {
            let got = paired_t_test(left, right).unwrap();
            assert!((got - p).abs() < 1e-9, "{got} and {p}");
            assert_eq!(got, paired_t_test(right, left).unwrap());
        }
    }

    /// All 5^5 resamples of five differences, counted with numpy; for ten, 5 million random ones.
    #[test]
    fn the_bootstrap_agrees_with_complete_and_with_longer_resampling() {
        for (left, right, p) in
            [(&FEW_LEFT[..], &FEW_RIGHT[..], 0.06976), (&LEFT[..], &RIGHT[..], 0.032_770_6)]
        {
            // Four standard errors of a share of 10,000, and the added count.
            let most = 4.0 * (p * (1.0 - p) / BOOTSTRAP_RESAMPLES as f64).sqrt() + 1e-4;
            for seed in 0..5 {
                let got = paired_bootstrap(left, right, seed).unwrap();
                assert!((got - p).abs() < most, "{got} and {p}, seed {seed}");
            }
        }
        assert_eq!(paired_bootstrap(&LEFT, &RIGHT, 3), paired_bootstrap(&LEFT, &RIGHT, 3));
        assert_ne!(paired_bootstrap(&LEFT, &RIGHT, 3), paired_bootstrap(&LEFT, &RIGHT, 4));
    }

    #[test]
    fn both_tests_are_of_the_same_differences() {
        let tests = PairedTests::new(&LEFT, &RIGHT, 3).unwrap();
        assert_eq!(Ok(tests.bootstrap_p), paired_bootstrap(&LEFT, &RIGHT, 3));
        assert_eq!(Ok(tests.t_test_p), paired_t_test(&LEFT, &RIGHT));
        assert_eq!(tests.larger_p(), tests.t_test_p);
        // Differences of 1, 0 and 2.
        let tests = PairedTests::new(&[1.0, 1.0, 3.0], &[0.0, 1.0, 1.0], 0).unwrap();
        assert_eq!(tests.deviation, 1.0);
        // scipy.stats.t.ppf(0.975, 2) is 4.302653.
        let at_least = tests.at_least(&[1.0, 1.0, 3.0], &[0.0, 1.0, 1.0]);
        assert!((at_least - (1.0 - 4.302_653 / 3f64.sqrt())).abs() < 1e-5, "{at_least}");
    }

    #[test]
    fn equal_and_constant_differences_have_an_answer() {
        assert_eq!(paired_bootstrap(&LEFT, &LEFT, 0), Ok(1.0));
        assert_eq!(paired_t_test(&LEFT, &LEFT), Ok(1.0));
        let least = 1.0 / (BOOTSTRAP_RESAMPLES + 1) as f64;
        assert_eq!(paired_bootstrap(&[1.0; 4], &[0.5; 4], 0), Ok(least));
        assert_eq!(paired_t_test(&[1.0; 4], &[0.5; 4]), Ok(0.0));
    }

    #[test]
    fn values_that_are_no_pairs_are_refused() {
        let lengths = SignificanceError::Lengths { left: 1, right: 2 };
        assert_eq!(paired_t_test(&[0.0], &[0.0, 1.0]), Err(lengths.clone()));
        assert_eq!(paired_bootstrap(&[0.0], &[0.0, 1.0], 0), Err(lengths));
        assert_eq!(paired_t_test(&[1.0], &[0.0]), Err(SignificanceError::TooFew { queries: 1 }));
        assert_eq!(paired_bootstrap(&[], &[], 0), Err(SignificanceError::TooFew { queries: 0 }));
        let nan = [0.0, f64::NAN];
        assert_eq!(paired_t_test(&nan, &[0.0; 2]), Err(SignificanceError::Value { query: 1 }));
    }
}
