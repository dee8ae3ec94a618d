//! Tests whether a difference between two systems on the same queries is significant.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Both p-values of a comparison, multiplied by the number of comparisons (Bonferroni's correction), must be
/// below it.
pub const SIGNIFICANCE_LEVEL: f64 = 0.05;
/// Resamples of [`paired_bootstrap`]: p-values down to 0.0001, and at 0.05 a standard error of 0.002.
const BOOTSTRAP_RESAMPLES: usize = 10_000;
/// Resamples drawn from one random stream; fixed, so that threads do not change the result.
const RESAMPLES_PER_STREAM: usize = 500;
/// Tolerance for sums of the same values in another order.
const ROUNDING: f64 = 1e-12;

/// "p < 0.001" or "p = 0.012"
pub(crate) fn p_in_words(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

/// The two-sided p-value of the paired bootstrap test on the mean difference, in (0, 1].
///
/// Differences are drawn with replacement [`BOOTSTRAP_RESAMPLES`] times and centred on 0; p is the
/// share of resamples whose mean is at least as far from 0 as the one observed, with 1 added to
/// both counts so that it is never 0 (Efron and Tibshirani 1993, section 16.4; Davison and Hinkley 1997,
/// section 4.2). The same seed gives the same value on any number of threads.
fn paired_bootstrap(differences: &[f64], seed: u64) -> f64 {
    let n = differences.len();
    let mean = mean(differences);
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
    (extreme + 1) as f64 / (BOOTSTRAP_RESAMPLES + 1) as f64
}

/// The two-sided p-value of the paired t-test, in [0, 1].
///
/// It is 1 if all differences are 0, and 0 if they are all the same and not 0.
fn paired_t_test(differences: &[f64]) -> f64 {
    let mean = mean(differences);
    if mean == 0.0 {
        return 1.0;
    }
    let n = differences.len() as f64;
    let t = mean / (variance(differences) / n).sqrt();
    match StudentsT::new(0.0, 1.0, n - 1.0) {
        Ok(distribution) if t.is_finite() => 2.0 * distribution.cdf(-t.abs()),
        // No variance at all.
        _ => 0.0,
    }
}

/// Significance of a difference between two systems on the same queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PairedTests {
    /// Mean difference.
    pub mean: f64,
    /// Of [`paired_bootstrap`].
    pub bootstrap_p: f64,
    /// Of [`paired_t_test`].
    pub t_test_p: f64,
    /// Sample standard deviation of the differences.
    pub deviation: f64,
    queries: usize,
}

impl PairedTests {
    /// Runs both tests on values of two systems, the same query at the same place; `None` with fewer than two
    /// queries.
    pub(crate) fn new(left: &[f64], right: &[f64], seed: u64) -> Option<Self> {
        let differences: Vec<f64> = left.iter().zip(right).map(|(l, r)| l - r).collect();
        (differences.len() > 1).then(|| Self {
            mean: mean(&differences),
            bootstrap_p: paired_bootstrap(&differences, seed),
            t_test_p: paired_t_test(&differences),
            deviation: variance(&differences).sqrt(),
            queries: differences.len(),
        })
    }

    /// The lower end of the 95% confidence interval of the mean difference, by the t-distribution.
    pub(crate) fn at_least(&self) -> f64 {
        let n = self.queries as f64;
        let quantile = StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975));
        if self.deviation == 0.0 { self.mean } else { self.mean - quantile * self.deviation / n.sqrt() }
    }

    /// The larger p-value of the two tests.
    pub(crate) fn larger_p(&self) -> f64 {
        self.bootstrap_p.max(self.t_test_p)
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

    fn tests(left: &[f64], right: &[f64], seed: u64) -> PairedTests {
        PairedTests::new(left, right, seed).unwrap()
    }

    /// `scipy.stats.ttest_rel` of scipy 1.17.1.
    #[test]
    fn the_t_test_agrees_with_scipy() {
        for (left, right, p) in [
            (&LEFT[..], &RIGHT[..], 0.072_735_610_653_82),
            (&FEW_LEFT[..], &FEW_RIGHT[..], 0.159_552_852_698_394),
            (&[1.0, 2.0][..], &[0.5, 0.25][..], 0.322_828_934_431_09),
        ] {
            let got = tests(left, right, 0).t_test_p;
            assert!((got - p).abs() < 1e-9, "{got} and {p}");
            assert_eq!(got, tests(right, left, 0).t_test_p);
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
                let got = tests(left, right, seed).bootstrap_p;
                assert!((got - p).abs() < most, "{got} and {p}, seed {seed}");
            }
        }
        assert_eq!(tests(&LEFT, &RIGHT, 3), tests(&LEFT, &RIGHT, 3));
        assert_ne!(tests(&LEFT, &RIGHT, 3).bootstrap_p, tests(&LEFT, &RIGHT, 4).bootstrap_p);
    }

    #[test]
    fn both_tests_are_of_the_same_differences() {
        let of = tests(&LEFT, &RIGHT, 3);
        assert_eq!(of.larger_p(), of.t_test_p);
        // Differences of 1, 0 and 2.
        let of = tests(&[1.0, 1.0, 3.0], &[0.0, 1.0, 1.0], 0);
        assert_eq!((of.mean, of.deviation), (1.0, 1.0));
        // scipy.stats.t.ppf(0.975, 2) is 4.302653.
        assert!((of.at_least() - (1.0 - 4.302_653 / 3f64.sqrt())).abs() < 1e-5, "{of:?}");
    }

    #[test]
    fn equal_and_constant_differences_have_an_answer() {
        let of = tests(&LEFT, &LEFT, 0);
        assert_eq!((of.bootstrap_p, of.t_test_p), (1.0, 1.0));
        let of = tests(&[1.0; 4], &[0.5; 4], 0);
        assert_eq!((of.bootstrap_p, of.t_test_p), (1.0 / (BOOTSTRAP_RESAMPLES + 1) as f64, 0.0));
        assert_eq!(PairedTests::new(&[1.0], &[0.0], 0), None);
    }
}
