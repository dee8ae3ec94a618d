//! A metric as a function of the cost of a search, interpolated between measured points.

use thiserror::Error;

/// A fraction of the cost of scoring every document that is less than 0, infinite or not a number.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("the fraction {got} is not a finite number from 0")]
pub struct BadFraction {
    /// The fraction as given.
    pub got: f64,
}

/// # Errors
/// [`BadFraction`] for a fraction that is not a finite number from 0.
pub(crate) fn check_fraction(got: f64) -> Result<(), BadFraction> {
    if got.is_finite() && got >= 0.0 { Ok(()) } else { Err(BadFraction { got }) }
}

/// A measurement at one setting, such as a beam size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CurvePoint {
    /// Cost relative to scoring every live document: the visited fraction, or the work fraction, which can
    /// exceed 1.
    pub fraction: f64,
    /// The metric there.
    pub value: f64,
}

/// The value at a fraction, on straight lines between the measured points; `None` below the first point and
/// above the last one, where nothing was measured.
pub(crate) fn value_at(points: Vec<CurvePoint>, fraction: f64) -> Option<f64> {
    let points = in_order(points, |point| *point);
    let bracket = Bracket::around(&points, |point| point.fraction, fraction)?;
    Some(bracket.value(|place| points[place].value))
}

/// Measurements in order of the fraction, each fraction once; of equal fractions the one with the largest
/// value is kept.
pub(super) fn in_order<T>(measured: Vec<T>, point: impl Fn(&T) -> CurvePoint) -> Vec<T> {
    let mut points: Vec<(CurvePoint, T)> = measured.into_iter().map(|of| (point(&of), of)).collect();
    points.sort_by(|(a, _), (b, _)| {
        let by_fraction = a.fraction.total_cmp(&b.fraction);
        by_fraction.then_with(|| b.value.total_cmp(&a.value))
    });
    points.dedup_by_key(|(point, _)| point.fraction);
    points.into_iter().map(|(_, of)| of).collect()
}

/// The two measured points on either side of a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bracket {
    left: usize,
    right: usize,
    /// Share of the way from left to right.
    share: f64,
}

impl Bracket {
    /// The points around `at`, among points in ascending order of `fraction`; both are the same point
    /// where it was measured exactly. `None` outside the measured range.
    pub(super) fn around<P>(points: &[P], fraction: impl Fn(&P) -> f64, at: f64) -> Option<Self> {
        let right = points.partition_point(|point| fraction(point) < at);
        let above = fraction(points.get(right)?);
        if above == at {
            return Some(Self { left: right, right, share: 0.0 });
        }
        let left = right.checked_sub(1)?;
        let below = fraction(&points[left]);
        Some(Self { left, right, share: (at - below) / (above - below) })
    }

    /// Interpolates between the values of the two points.
    pub(super) fn value(&self, of: impl Fn(usize) -> f64) -> f64 {
        let left = of(self.left);
        left + self.share * (of(self.right) - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[(f64, f64)], fraction: f64) -> Option<f64> {
        let points = points.iter().map(|&(fraction, value)| CurvePoint { fraction, value });
        value_at(points.collect(), fraction)
    }

    #[test]
    fn values_between_points_lie_on_the_line() {
        // Not in order, and one fraction measured twice.
        let points = [(0.5, 0.9), (0.25, 0.5), (1.0, 0.8), (0.25, 0.6)];
        for (visited, expected) in [(0.25, 0.6), (0.375, 0.75), (0.5, 0.9), (0.75, 0.85), (1.0, 0.8)] {
            let got = at(&points, visited).unwrap();
            assert!((got - expected).abs() < 1e-12, "{got} at {visited}");
        }
    }

    #[test]
    fn nothing_is_said_outside_the_measured_points() {
        let short = [(0.1, 0.5), (0.2, 0.7)];
        assert_eq!((at(&short, 0.1), at(&short, 0.2)), (Some(0.5), Some(0.7)));
        for outside in [0.0, 0.099_999, 0.200_001, -0.1, f64::INFINITY, f64::NAN] {
            assert_eq!(at(&short, outside), None);
        }
        assert_eq!(at(&[], 0.0), None);
    }

    #[test]
    fn fractions_out_of_range_are_refused() {
        for bad in [-0.1, f64::INFINITY, f64::NAN] {
            assert!(check_fraction(bad).is_err());
        }
        assert_eq!(check_fraction(1.5), Ok(()));
    }

    #[test]
    fn a_bracket_holds_the_fraction_or_is_none() {
        let fractions = [0.1, 0.2, 0.2, 0.6];
        let around = |at: f64| Bracket::around(&fractions, |&f| f, at);
        assert_eq!((around(0.05), around(0.7)), (None, None));
        assert_eq!(around(0.1), Some(Bracket { left: 0, right: 0, share: 0.0 }));
        assert_eq!(around(0.2), Some(Bracket { left: 1, right: 1, share: 0.0 }));
        let between = around(0.3).unwrap();
        assert_eq!((between.left, between.right), (2, 3));
        assert!((between.value(|place| [0.0, 0.0, 1.0, 3.0][place]) - 1.5).abs() < 1e-12);
        assert_eq!(Bracket::around(&[], |&f: &f64| f, 0.5), None);
    }
}
