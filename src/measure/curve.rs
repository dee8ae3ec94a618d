//! A metric as a function of the cost of a search, interpolated between measured points.

use crate::error::InputError;

/// # Errors
/// [`InputError::OutOfRange`] for a fraction that is not a finite number from 0.
pub(crate) fn check_fraction(found: f64) -> Result<(), InputError> {
    let expected = "a finite number from 0";
    match found.is_finite() && found >= 0.0 {
        true => Ok(()),
        false => Err(InputError::OutOfRange { what: "the fraction", found, expected }),
    }
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
    Some(Bracket::around(points, |point| *point, fraction)?.value(|point| point.value))
}

/// The two measurements on either side of a fraction.
pub(super) struct Bracket<T> {
    left: T,
    right: T,
    /// Share of the way from left to right.
    share: f64,
}

impl<T: Clone> Bracket<T> {
    /// The measurements around `at`, both the same where it was measured exactly; `None` outside the measured
    /// range. Of measurements at the same fraction the one with the largest value counts.
    pub(super) fn around(
        measured: impl IntoIterator<Item = T>,
        point: impl Fn(&T) -> CurvePoint,
        at: f64,
    ) -> Option<Self> {
        let mut points: Vec<(CurvePoint, T)> = measured.into_iter().map(|of| (point(&of), of)).collect();
        points.sort_by(|(a, _), (b, _)| {
            let by_fraction = a.fraction.total_cmp(&b.fraction);
            by_fraction.then_with(|| b.value.total_cmp(&a.value))
        });
        points.dedup_by_key(|(point, _)| point.fraction);
        let place = points.partition_point(|(point, _)| point.fraction < at);
        let (above, right) = points.get(place)?.clone();
        if above.fraction == at {
            return Some(Self { left: right.clone(), right, share: 0.0 });
        }
        let (below, left) = points[place.checked_sub(1)?].clone();
        Some(Self { left, right, share: (at - below.fraction) / (above.fraction - below.fraction) })
    }

    /// Interpolates between the values of the two measurements.
    pub(super) fn value(&self, of: impl Fn(&T) -> f64) -> f64 {
        let left = of(&self.left);
        left + self.share * (of(&self.right) - left)
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
}
