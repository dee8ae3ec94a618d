//! A metric against what a search costs, read between the measured points.

use thiserror::Error;

/// Points that do not make a curve.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CurveError {
    /// A fraction is less than 0, infinite or not a number.
    #[error("the fraction {got} is not a finite number from 0")]
    Fraction {
        /// The fraction as given.
        got: f64,
    },
    /// A value is infinite or not a number.
    #[error("the value {got} at the fraction {fraction} is not finite")]
    Value {
        /// Where the value was measured.
        fraction: f64,
        /// The value as given.
        got: f64,
    },
}

/// What was measured at one setting, say one beam size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// What it cost, over the cost of scoring every live document: the visited fraction, or
    /// the work fraction, which can exceed 1.
    pub fraction: f64,
    /// The metric there.
    pub value: f64,
}

/// Measured points in the order of the fraction, each fraction once.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<CurvePoint>,
}

impl Curve {
    /// Sorts the points. Of points with the same fraction, the one with the largest value
    /// stays: it cost no more than the others.
    ///
    /// # Errors
    ///
    /// [`CurveError`] for a fraction that is not a finite number from 0 and for a value that is not finite.
    pub fn new(points: impl IntoIterator<Item = CurvePoint>) -> Result<Self, CurveError> {
        let points: Vec<CurvePoint> = points.into_iter().collect();
        for point in &points {
            check_fraction(point.fraction)?;
            if !point.value.is_finite() {
                return Err(CurveError::Value { fraction: point.fraction, got: point.value });
            }
        }
        Ok(Self { points: in_order(points, |point| *point) })
    }

    /// The points in order.
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// The metric at a fraction, on straight lines between the measured points.
    ///
    /// `None` below the first point and above the last one, where nothing was measured.
    ///
    /// # Errors
    ///
    /// [`CurveError::Fraction`] when `fraction` is not a finite number from 0.
    pub fn at(&self, fraction: f64) -> Result<Option<f64>, CurveError> {
        check_fraction(fraction)?;
        let bracket = Bracket::around(&self.points, |point| point.fraction, fraction);
        Ok(bracket.map(|bracket| bracket.value(|place| self.points[place].value)))
    }
}

/// What was measured in the order of the fraction, each fraction once: of several with the same one, that
/// with the largest value.
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
    /// Of the way from left to right.
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

    /// What lies on the straight line between the values of the two points.
    pub(super) fn value(&self, of: impl Fn(usize) -> f64) -> f64 {
        let left = of(self.left);
        left + self.share * (of(self.right) - left)
    }
}

fn check_fraction(got: f64) -> Result<(), CurveError> {
    if got.is_finite() && got >= 0.0 { Ok(()) } else { Err(CurveError::Fraction { got }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Result<Curve, CurveError> {
        Curve::new(points.iter().map(|&(fraction, value)| CurvePoint { fraction, value }))
    }

    #[test]
    fn values_between_points_lie_on_the_line() {
        // Not in order, and one fraction measured twice.
        let curve = curve(&[(0.5, 0.9), (0.25, 0.5), (1.0, 0.8), (0.25, 0.6)]).unwrap();
        assert_eq!(curve.points().len(), 3);
        for (visited, expected) in [(0.25, 0.6), (0.375, 0.75), (0.5, 0.9), (0.75, 0.85), (1.0, 0.8)] {
            let got = curve.at(visited).unwrap().unwrap();
            assert!((got - expected).abs() < 1e-12, "{got} at {visited}");
        }
    }

    #[test]
    fn nothing_is_said_outside_the_measured_points() {
        let short = curve(&[(0.1, 0.5), (0.2, 0.7)]).unwrap();
        assert_eq!((short.at(0.1), short.at(0.2)), (Ok(Some(0.5)), Ok(Some(0.7))));
        assert_eq!((short.at(0.0), short.at(0.099_999)), (Ok(None), Ok(None)));
        assert_eq!(short.at(0.200_001), Ok(None));
        assert_eq!(curve(&[]).unwrap().at(0.0), Ok(None));
        let from_zero = curve(&[(0.0, 0.2), (1.0, 0.4)]).unwrap();
        assert_eq!(from_zero.at(0.0), Ok(Some(0.2)));
        assert!((from_zero.at(0.5).unwrap().unwrap() - 0.3).abs() < 1e-12);
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

    #[test]
    fn points_out_of_range_are_refused() {
        for bad in [-0.1, f64::INFINITY, f64::NAN] {
            assert!(matches!(curve(&[(bad, 0.5)]), Err(CurveError::Fraction { .. })));
            let good = curve(&[(0.5, 0.5)]).unwrap();
            assert!(matches!(good.at(bad), Err(CurveError::Fraction { .. })));
        }
        for bad in [f64::INFINITY, f64::NAN] {
            let error = curve(&[(0.5, bad)]).unwrap_err();
            assert!(matches!(error, CurveError::Value { .. }), "{error}");
        }
    }
}
