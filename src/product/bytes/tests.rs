use super::*;
use proptest::prelude::*;

fn products(kernel: ByteKernel, x: &[f32], panels: &BytePanels) -> Vec<f64> {
    let mut rows = ByteRows::default();
    rows.quantise(x, panels.dim);
    let mut out = vec![0.0; rows.count() * panels.rows];
    for panel in panels.panels() {
        for first in (0..rows.count()).step_by(BLOCK_ROWS) {
            let count = BLOCK_ROWS.min(rows.count() - first);
            let mut sums = [[-1; PANEL]; BLOCK_ROWS];
            kernel.products(&rows, first, count, &panel, &mut sums);
            for (row, sums) in (first..).zip(&sums).take(count) {
                let (scale, offset) = (f64::from(rows.scales[row]), f64::from(rows.offsets[row]));
                for column in 0..panel.rows {
                    let sum = scale * f64::from(sums[column]) + offset * f64::from(panel.sums[column]);
                    out[row * panels.rows + panel.first + column] = f64::from(panel.scales[column]) * sum;
                }
            }
        }
    }
    out
}

proptest! {
    /// Each value is off by at most half a step, on either side.
    #[test]
    fn products_stay_within_the_error_bound_and_kernels_agree(
        dim in 1usize..70,
        x in prop::collection::vec(-3.0f32..5.0, 1..1000),
        packed in prop::collection::vec(-1.0f32..1.0, 1..6000),
    ) {
        let x = &x[..x.len() / dim * dim];
        let packed = &packed[..packed.len() / dim * dim];
        let panels = BytePanels::pack(packed, dim);
        let found: Vec<_> = ByteKernel::available().map(|kernel| products(kernel, x, &panels)).collect();
        prop_assert!(found.iter().all(|other| *other == found[0]));
        let rows = packed.len() / dim;
        for (i, x) in x.chunks_exact(dim).enumerate() {
            let range = |x: &[f32]| x.iter().fold((f32::MAX, f32::MIN), |(a, b), &x| (a.min(x), b.max(x)));
            let (least, most) = range(x);
            let step = f64::from(most - least) / 255.0 / 2.0;
            for (j, w) in packed.chunks_exact(dim).enumerate() {
                let exact: f64 = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum();
                let (a, b) = range(w);
                let own_step = f64::from(b.max(-a)) / 127.0 / 2.0;
                let bound: f64 =
                    x.iter().zip(w).map(|(&x, &w)| {
                        step * (f64::from(w.abs()) + own_step) + own_step * f64::from(x.abs())
                    }).sum();
                let got = found[0][i * rows + j];
                prop_assert!((got - exact).abs() <= 1.001 * bound + 1e-4, "{got} is not {exact} by {bound}");
            }
        }
    }
}

#[test]
fn extremes_do_not_overflow() {
    for kernel in ByteKernel::available() {
        let dim = 4096;
        // 255 and -127 everywhere except in one place, which sets the range.
        let mut x = vec![1.0; dim];
        x[0] = 0.0;
        let panels = BytePanels::pack(&vec![-1.0; dim], dim);
        let found = products(kernel, &x, &panels);
        assert!((found[0] + (dim - 1) as f64).abs() < 1e-2, "{kernel:?}: {}", found[0]);
    }
}

#[test]
fn rows_of_one_value_and_of_none() {
    let panels = BytePanels::pack(&[0.5, -0.5, 0.25, 0.0, 0.0, 0.0], 3);
    for (x, want) in [([2.0, 2.0, 2.0], 0.5), ([0.0; 3], 0.0), ([-1.0; 3], -0.25)] {
        let found = products(ByteKernel::best(), &x, &panels);
        assert!((found[0] - want).abs() < 0.01 && found[1] == 0.0, "{x:?}: {found:?}");
    }
}

#[test]
fn what_is_not_finite_is_seen() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let panels = BytePanels::pack(&[1.0; 40], 20);
        let mut x = [1.0; 20];
        x[17] = bad;
        assert!(products(ByteKernel::best(), &x, &panels).iter().all(|product| product.is_nan()), "{bad}");
        let mut packed = [1.0; 40];
        packed[39] = bad;
        let found = products(ByteKernel::best(), &[1.0; 20], &BytePanels::pack(&packed, 20));
        assert!(!found[0].is_nan() && found[1].is_nan(), "{bad}");
    }
}

#[test]
fn sets_packed_together_are_those_packed_alone() {
    let values = |n: usize| (0..n).map(|i| (i * 37 % 19) as f32 - 9.0).collect::<Vec<f32>>();
    let (first, second) = (values(50 * 3), values(100 * 7));
    let [a, b] = BytePanels::pack_together([(&first, 3), (&second, 7)]);
    for (together, alone) in [(a, BytePanels::pack(&first, 3)), (b, BytePanels::pack(&second, 7))] {
        assert_eq!((together.rows, together.dim), (alone.rows, alone.dim));
        assert_eq!(together.panels().count(), alone.panels().count());
        for (together, alone) in together.panels().zip(alone.panels()) {
            assert_eq!(
                (together.values, together.scales, together.sums),
                (alone.values, alone.scales, alone.sums)
            );
        }
    }
}
