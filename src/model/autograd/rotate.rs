//! Rotary positions as one operation.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, D, Layout, Result, Shape, Tensor};

use super::slice;
use crate::model::rotation::Rotation;

/// The heads of each token turned by its place.
///
/// # Shapes
/// `x` and the output `[texts, tokens, heads * width]`; the rotation has `tokens` places.
pub(crate) fn rotate(x: &Tensor, rotation: &Arc<Rotation>) -> Result<Tensor> {
    x.contiguous()?.apply_op1(Rotate { rotation: rotation.clone(), way: 1.0 })
}

struct Rotate {
    rotation: Arc<Rotation>,
    way: f32,
}

impl CustomOp1 for Rotate {
    fn name(&self) -> &'static str {
        "rotate"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut y = slice(storage, layout)?.to_vec();
        let (texts, tokens, m) = layout.shape().dims3()?;
        self.rotation.turn(&mut y, m, m, &vec![tokens; texts], self.way);
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        debug_assert_eq!(gradient.dim(D::Minus1)?, x.dim(D::Minus1)?);
        // A rotation's transpose turns back.
        let back = Self { rotation: self.rotation.clone(), way: -self.way };
        Ok(Some(gradient.contiguous()?.apply_op1_no_bwd(&back)?))
    }
}
