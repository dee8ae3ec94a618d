//! Multi-head attention over a padded batch as one operation.
//!
//! Heads are strided views of the projected rows, so nothing is split, transposed or padded; the
//! attention weights are worked out again in the backward pass, which costs less than keeping
//! them and their many views in the graph.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Storage, Tensor};

use super::slice;
use crate::model::kernels;

/// `softmax(Q K^T / sqrt(width)) V` for each text and head, over the text's own tokens.
///
/// # Shapes
/// `query`, `key`, `value` and the output `[texts, tokens, heads * width]`; rows behind a text's
/// length come out 0.
pub(crate) fn attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    lengths: &[usize],
    heads: usize,
) -> Result<Tensor> {
    let op = Attention { lengths: lengths.to_vec(), heads };
    query.contiguous()?.apply_op3(&key.contiguous()?, &value.contiguous()?, op)
}

struct Attention {
    lengths: Vec<usize>,
    heads: usize,
}

/// The rows of one text in a `[texts, tokens, heads * width]` tensor, as views by head.
struct Heads {
    /// `[heads, length, width]`
    rows: Layout,
    /// `[heads, width, length]`
    transposed: Layout,
}

/// Sizes of one text's attention.
#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    length: usize,
    width: usize,
}

impl Attention {
    /// Sizes, and where in the contiguous batch each text begins.
    fn texts(&self, shape: &Shape) -> Result<Vec<(Sizes, usize)>> {
        let (_, tokens, m) = shape.dims3()?;
        let sizes = |&length: &usize| Sizes { heads: self.heads, length, width: m / self.heads };
        Ok(self.lengths.iter().map(sizes).enumerate().map(|(text, own)| (own, text * tokens * m)).collect())
    }
}

impl Sizes {
    fn views(self, layout: &Layout, start: usize) -> Heads {
        let Self { heads, length, width } = self;
        let (m, offset) = (heads * width, layout.start_offset() + start);
        Heads {
            rows: Layout::new(Shape::from((heads, length, width)), vec![width, m, 1], offset),
            transposed: Layout::new(Shape::from((heads, width, length)), vec![width, 1, m], offset),
        }
    }

    fn scale(self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// Attention weights `[heads, length, length]`.
    fn weights(self, query: &CpuStorage, q: &Heads, key: &CpuStorage, k: &Heads) -> Result<CpuStorage> {
        let Self { heads, length, width } = self;
        let mut scores = query.matmul(key, (heads, length, length, width), &q.rows, &k.transposed)?;
        kernels::scaled_softmax(values_mut(&mut scores)?, length, self.scale());
        Ok(scores)
    }

    /// `weights` as `[heads, length, length]`, and transposed.
    fn square(self) -> (Layout, Layout) {
        let Self { heads, length, .. } = self;
        let rows = Layout::contiguous((heads, length, length));
        let transposed =
            Layout::new(Shape::from((heads, length, length)), vec![length * length, 1, length], 0);
        (rows, transposed)
    }

    /// Writes `[heads, length, width]` to the text's rows of `out`.
    fn put(self, part: &CpuStorage, out: &mut [f32]) -> Result<()> {
        let Self { heads, length, width } = self;
        let part = part.as_slice::<f32>()?;
        for (head, rows) in part.chunks_exact((length * width).max(1)).enumerate() {
            for (row, values) in rows.chunks_exact(width).enumerate() {
                out[row * heads * width + head * width..][..width].copy_from_slice(values);
            }
        }
        Ok(())
    }
}

fn values_mut(storage: &mut CpuStorage) -> Result<&mut [f32]> {
    match storage {
        CpuStorage::F32(values) => Ok(values),
        _ => candle_core::bail!("attention needs f32"),
    }
}

fn on_cpu(storage: &Storage) -> Result<&CpuStorage> {
    match storage {
        Storage::Cpu(storage) => Ok(storage),
        _ => candle_core::bail!("fused attention runs on the CPU"),
    }
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        query: &CpuStorage,
        lq: &Layout,
        key: &CpuStorage,
        lk: &Layout,
        value: &CpuStorage,
        lv: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for (storage, layout) in [(query, lq), (key, lk), (value, lv)] {
            slice(storage, layout)?;
        }
        let mut out = vec![0f32; lq.shape().elem_count()];
        for (sizes, start) in self.texts(lq.shape())? {
            let [q, k, v] = [lq, lk, lv].map(|layout| sizes.views(layout, start));
            let Sizes { heads, length, width } = sizes;
            let weights = sizes.weights(query, &q, key, &k)?;
            let (square, _) = sizes.square();
            let context = weights.matmul(value, (heads, length, width, length), &square, &v.rows)?;
            sizes.put(&context, &mut out[start..])?;
        }
        Ok((CpuStorage::F32(out), lq.shape().clone()))
    }

    fn bwd(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradient = gradient.contiguous()?;
        let guards = [query, key, value, &gradient].map(|tensor| tensor.storage_and_layout());
        let [(query_s, lq), (key_s, lk), (value_s, lv), (gradient_s, lg)] = &guards;
        let [q_s, k_s, v_s, g_s] = [on_cpu(query_s)?, on_cpu(key_s)?, on_cpu(value_s)?, on_cpu(gradient_s)?];
        let mut out: [Vec<f32>; 3] = std::array::from_fn(|_| vec![0f32; query.elem_count()]);
        for (sizes, start) in self.texts(query.shape())? {
            let [q, k, v, g] = [lq, lk, lv, lg].map(|layout| sizes.views(layout, start));
            let Sizes { heads, length, width } = sizes;
            let (square, transposed) = sizes.square();
            let (wide, narrow) = ((heads, length, length, width), (heads, length, width, length));
            let weights = sizes.weights(q_s, &q, k_s, &k)?;
            let dv = weights.matmul(g_s, narrow, &transposed, &g.rows)?;
            let mut scores = g_s.matmul(v_s, wide, &g.rows, &v.transposed)?;
            let own = weights.as_slice::<f32>()?;
            kernels::softmax_gradient(values_mut(&mut scores)?, own, length, sizes.scale());
            let dq = scores.matmul(k_s, narrow, &square, &k.rows)?;
            let dk = scores.matmul(q_s, narrow, &transposed, &q.rows)?;
            for (part, out) in [dq, dk, dv].iter().zip(&mut out) {
                sizes.put(part, &mut out[start..])?;
            }
        }
        let [dq, dk, dv] = out.map(|values| Tensor::from_vec(values, query.shape(), query.device()));
        Ok((Some(dq?), Some(dk?), Some(dv?)))
    }
}
