//! The reference implementation.

use super::{GROUP, PANEL};

/// Shapes: `rows` `[n, stride]`, `panel` `[stride / GROUP, PANEL, GROUP]`, `products` `[n, PANEL]`.
pub(super) fn products(rows: &[u8], stride: usize, panel: &[i8], products: &mut [[i32; PANEL]]) {
    let (panel, _) = panel.as_chunks::<GROUP>();
    for (row, products) in rows.chunks_exact(stride).zip(products) {
        *products = [0; PANEL];
        let (groups, _) = row.as_chunks::<GROUP>();
        for (group, packed) in groups.iter().zip(panel.chunks_exact(PANEL)) {
            for (product, packed) in products.iter_mut().zip(packed) {
                let terms = group.iter().zip(packed).map(|(&x, &w)| i32::from(x) * i32::from(w));
                *product += terms.sum::<i32>();
            }
        }
    }
}
