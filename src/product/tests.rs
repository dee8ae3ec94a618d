use super::*;
use crate::prefetch::CACHE_LINE_BYTES;
use proptest::prelude::*;
use pulp::{Arch, WithSimd};

/// Runs `test` with every instruction set of this machine.
pub(crate) fn on_every_instruction_set<T: WithSimd<Output = ()> + Clone>(test: T) {
    Arch::Scalar.dispatch(test.clone());
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new() {
        pulp::Simd::vectorize(v3, test.clone());
    }
    Arch::new().dispatch(test);
}

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

/// One block compared with sums in f64; rows and panel end at their last value.
#[derive(Clone, Copy, Debug)]
struct Case {
    count: usize,
    dim: usize,
    columns: usize,
    stride: usize,
    panel_stride: usize,
}

impl WithSimd for Case {
    type Output = ();

    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { count, dim, columns, stride, panel_stride } = self;
        let rows = values((count - 1) * stride + dim);
        let panel = values((dim - 1) * panel_stride + columns.next_multiple_of(PAD));
        let bias: [f32; PANEL] = std::array::from_fn(|i| i as f32);
        let mut products = [[f32::NAN; PANEL]; BLOCK_ROWS];
        simd.vectorize(Block {
            rows: &rows,
            stride,
            count,
            dim,
            panel: &panel,
            panel_stride,
            columns,
            next: &[],
            bias: &bias,
            products: &mut products,
        });
        for (row, products) in products.iter().enumerate().take(count) {
            for (column, product) in products.iter().enumerate().take(columns) {
                let terms = (0..dim)
                    .map(|i| f64::from(rows[row * stride + i]) * f64::from(panel[i * panel_stride + column]));
                let magnitude = terms.clone().map(f64::abs).sum::<f64>() + column as f64;
                let error = (f64::from(*product) - terms.sum::<f64>() - column as f64).abs();
                assert!(error <= (dim + 1) as f64 * f64::from(f32::EPSILON) * magnitude, "{self:?}: {error}");
            }
        }
        assert!(products[count..].iter().flatten().all(|product| product.is_nan()), "{self:?}");
    }
}

proptest! {
    #[test]
    fn a_block_holds_the_products_of_its_rows(
        count in 1..=BLOCK_ROWS,
        dim in 1usize..70,
        columns in 1..=PANEL,
        apart in 0usize..5,
        padding in 0usize..3,
    ) {
        let panel_stride = columns.next_multiple_of(PAD) + padding;
        on_every_instruction_set(Case { count, dim, columns, stride: dim + apart, panel_stride });
    }
}

#[test]
fn panels_hold_their_rows_and_zeros() {
    for (n, dim) in [(1, 1), (47, 5), (48, 5), (49, 3), (100, 7)] {
        let rows = values(n * dim);
        let panels = Panels::pack(&rows, dim);
        assert_eq!((panels.rows, panels.dim), (n, dim));
        let mut seen = 0;
        for panel in panels.panels() {
            assert_eq!(panel.first, seen);
            assert_eq!(panel.values.as_ptr().align_offset(CACHE_LINE_BYTES), 0);
            for (i, values) in panel.values.chunks_exact(PANEL).enumerate() {
                for (row, &value) in (panel.first..).zip(values) {
                    assert_eq!(value, rows.get(row * dim + i).copied().unwrap_or(0.0));
                }
            }
            seen += panel.rows;
        }
        assert_eq!(seen, n);
    }
}

#[test]
fn sets_packed_together_are_those_packed_alone() {
    let (first, second) = (values(50 * 3), values(100 * 7));
    let [a, b] = Panels::pack_together([(&first, 3), (&second, 7)]);
    for (together, alone) in [(a, Panels::pack(&first, 3)), (b, Panels::pack(&second, 7))] {
        assert_eq!((together.rows, together.dim), (alone.rows, alone.dim));
        assert_eq!(together.panels().count(), alone.panels().count());
        for (together, alone) in together.panels().zip(alone.panels()) {
            assert_eq!(together.first, alone.first);
            assert_eq!(together.values, alone.values);
            assert_eq!(together.values.as_ptr().align_offset(CACHE_LINE_BYTES), 0);
        }
    }
}

#[test]
fn a_pass_brings_the_next_panel_near_and_then_what_comes_after() {
    let rows = values(100 * 4);
    let panels = Panels::pack(&rows, 4);
    let panels: Vec<Panel<'_>> = panels.panels().collect();
    let after = [1.0; 10];
    for blocks in [1, 2, 3, 7] {
        for (panel, next) in panels.iter().zip([panels[1].values, panels[2].values, &after]) {
            let parts: Vec<&[f32]> = panel.next(&after, blocks).take(blocks).collect();
            assert_eq!(parts.concat(), next);
        }
    }
    assert!(panels[2].next(&[], 2).take(2).all(<[f32]>::is_empty));
}

#[test]
#[should_panic(expected = "a panel is cut off")]
fn a_panel_that_ends_early_is_not_read() {
    Arch::new().dispatch(Block {
        rows: &[1.0; 4],
        stride: 4,
        count: 1,
        dim: 4,
        panel: &[1.0; 4 * PANEL - PAD],
        panel_stride: PANEL,
        columns: PANEL,
        next: &[],
        bias: NO_BIAS,
        products: &mut NO_PRODUCTS.clone(),
    });
}
