//! The table of words: a vector for each token of the vocabulary.
//!
//! It is the largest part of many models, but a text reads only some rows. It therefore stays in its
//! memory-mapped file as f32, f16, bf16 or bytes, and the system caches the pages in use. It is a tensor only
//! if it is trained.

use std::sync::Arc;

#[cfg(feature = "train")]
use candle_core::{DType, Device, Tensor};
use safetensors::Dtype;

use super::error::ModelError;
#[cfg(feature = "train")]
use super::weights::Weight;
use super::weights::widen;
use crate::disk::Mapping;

/// The vectors of tokens, `[tokens, m]`. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct WordTable {
    rows: usize,
    pub(super) width: usize,
    values: Values,
    /// For each token, its row and the row's factor; `None` if each token has its own row.
    tokens: Option<Arc<[Token]>>,
}

/// A token's row in a table shared by several tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token {
    pub row: u32,
    pub weight: f32,
}

#[derive(Clone, Debug)]
enum Values {
    /// In main memory.
    Held(Arc<Vec<f32>>),
    /// Mapped from a file.
    Mapped(Mapping, Dtype),
    /// f32 or f16, contiguous, on any device.
    #[cfg(feature = "train")]
    Trained(Tensor),
}

impl WordTable {
    /// Shapes: `values` `[rows, width]`.
    pub(super) fn held(values: Vec<f32>, [rows, width]: [usize; 2]) -> Self {
        Self { rows, width, values: Values::Held(values.into()), tokens: None }
    }

    /// A table in main or device memory; f16 or f32, to which other types are converted.
    #[cfg(feature = "train")]
    pub(crate) fn trained(table: &Tensor) -> candle_core::Result<Self> {
        let (rows, width) = table.dims2()?;
        let table = match table.dtype() {
            DType::F32 | DType::F16 => table.clone(),
            _ => table.to_dtype(DType::F32)?,
        };
        Ok(Self { rows, width, values: Values::Trained(table.contiguous()?), tokens: None })
    }

    /// Shapes: `mapping` `[rows, width]` of numbers of this type.
    pub(super) fn mapped(mapping: Mapping, dtype: Dtype, [rows, width]: [usize; 2]) -> Self {
        Self { rows, width, values: Values::Mapped(mapping, dtype), tokens: None }
    }

    /// The same table for these tokens.
    ///
    /// # Errors
    /// [`ModelError::OutsideTable`].
    pub(super) fn shared(self, tokens: Vec<Token>) -> Result<Self, ModelError> {
        if let Some(token) = tokens.iter().find(|token| token.row as usize >= self.rows) {
            let found = token.row as usize;
            return Err(ModelError::OutsideTable { what: "a token's row", found, rows: self.rows });
        }
        Ok(Self { tokens: Some(tokens.into()), ..self })
    }

    /// A tensor with a row for each token, f32 or f16; converted if necessary.
    #[cfg(feature = "train")]
    pub(crate) fn tensor(&self) -> candle_core::Result<Tensor> {
        if let Some(tokens) = &self.tokens {
            let all: Vec<u32> = (0..tokens.len() as u32).collect();
            let rows = self.rows(all.iter()).map_err(candle_core::Error::wrap)?;
            return Tensor::from_vec(rows, (tokens.len(), self.width), &Device::Cpu);
        }
        match &self.values {
            Values::Trained(table) => Ok(table.clone()),
            Values::Held(values) => Tensor::from_slice(values, (self.rows, self.width), &Device::Cpu),
            Values::Mapped(mapping, Dtype::F16) => {
                let shape = [self.rows, self.width];
                Tensor::from_raw_buffer(whole(mapping), DType::F16, &shape, &Device::Cpu)
            }
            Values::Mapped(mapping, dtype) => {
                let mut values = Vec::with_capacity(self.rows * self.width);
                widen(*dtype, whole(mapping), &mut values);
                Tensor::from_vec(values, (self.rows, self.width), &Device::Cpu)
            }
        }
    }

    /// The same table for reading rows on the CPU, not for training.
    pub(crate) fn to_read(&self) -> Result<Self, ModelError> {
        #[cfg(feature = "train")]
        if let Values::Trained(table) = &self.values {
            let values = table.to_dtype(DType::F32)?.values()?.into_owned();
            return Ok(Self { values: Values::Held(values.into()), ..self.clone() });
        }
        Ok(self.clone())
    }

    /// The concatenated rows of some words, `[ids, width]` f32.
    ///
    /// # Errors
    /// [`ModelError::OutsideTable`].
    pub(crate) fn rows<'a>(&self, ids: impl Iterator<Item = &'a u32>) -> Result<Vec<f32>, ModelError> {
        match &self.values {
            Values::Held(values) => self.select(bytemuck::cast_slice(values), Dtype::F32, ids),
            Values::Mapped(mapping, dtype) => self.select(whole(mapping), *dtype, ids),
            #[cfg(feature = "train")]
            Values::Trained(_) => self.to_read()?.rows(ids),
        }
    }

    fn select<'a>(
        &self,
        table: &[u8],
        dtype: Dtype,
        ids: impl Iterator<Item = &'a u32>,
    ) -> Result<Vec<f32>, ModelError> {
        let width = self.width * dtype.bitsize() / 8;
        let mut out = Vec::with_capacity(ids.size_hint().0 * self.width);
        for &id in ids {
            let found = id as usize;
            let outside = |rows| ModelError::OutsideTable { what: "an id", found, rows };
            let (place, weight) = match &self.tokens {
                None => (found, 1.0),
                Some(tokens) => {
                    let token = tokens.get(found).ok_or_else(|| outside(tokens.len()))?;
                    (token.row as usize, token.weight)
                }
            };
            let row = table.get(place * width..).and_then(|rest| rest.get(..width));
            let start = out.len();
            widen(dtype, row.ok_or_else(|| outside(self.rows))?, &mut out);
            if weight != 1.0 {
                out[start..].iter_mut().for_each(|value| *value *= weight);
            }
        }
        Ok(out)
    }
}

fn whole(mapping: &Mapping) -> &[u8] {
    mapping.bytes(0..mapping.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use half::{bf16, f16};

    use super::*;

    #[test]
    fn every_kind_of_number_gives_the_same_rows_mapped_and_held() {
        const WIDTH: usize = 3;
        let values: Vec<i8> = (0..5 * WIDTH as i8).map(|i| i * 7 % 11 - 5).collect();
        let of = |dtype: Dtype| -> Vec<u8> {
            let each = |&value: &i8| match dtype {
                Dtype::F32 => f32::from(value).to_le_bytes().to_vec(),
                Dtype::F16 => f16::from_f32(value.into()).to_le_bytes().to_vec(),
                Dtype::BF16 => bf16::from_f32(value.into()).to_le_bytes().to_vec(),
                _ => value.to_le_bytes().to_vec(),
            };
            values.iter().flat_map(each).collect()
        };
        let ids = [4u32, 0, 4, 2];
        let row = |id: u32| values[id as usize * WIDTH..][..WIDTH].iter().map(|&value| f32::from(value));
        let want: Vec<f32> = ids.into_iter().flat_map(row).collect();
        for (dtype, start) in
            [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I8].into_iter().flat_map(|own| [(own, 8), (own, 9)])
        {
            let bytes = of(dtype);
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&bytes, start).unwrap();
            let mapping = Mapping::of_part(&file, start..start + bytes.len() as u64).unwrap();
            let mapped = WordTable::mapped(mapping, dtype, [5, WIDTH]);
            let mut wide = Vec::new();
            widen(dtype, &bytes, &mut wide);
            #[cfg(feature = "train")]
            let trained = Tensor::from_slice(&wide, (5, WIDTH), &Device::Cpu);
            let tables = [
                mapped,
                WordTable::held(wide, [5, WIDTH]),
                #[cfg(feature = "train")]
                WordTable::trained(&trained.unwrap()).unwrap(),
            ];
            for table in tables.into_iter().flat_map(|own| [own.to_read().unwrap(), own]) {
                assert_eq!(table.rows(ids.iter()).unwrap(), want, "{dtype:?} {start}");
                assert_eq!(table.rows([].iter()).unwrap(), [0f32; 0]);
                let error = table.rows([1, 5].iter()).unwrap_err();
                assert!(matches!(error, ModelError::OutsideTable { found: 5, rows: 5, .. }), "{error}");
                #[cfg(feature = "train")]
                assert_eq!(table.tensor().unwrap().dims(), [5, WIDTH]);
                let tokens = [(4, 1.0), (1, -2.0)].map(|(row, weight)| Token { row, weight });
                let shared = table.clone().shared(tokens.to_vec()).unwrap();
                let scaled: Vec<f32> = row(4).chain(row(1).map(|x| -2.0 * x)).collect();
                assert_eq!(shared.rows([0, 1].iter()).unwrap(), scaled);
                assert!(
                    shared.rows([2].iter()).is_err()
                        && table.shared(vec![Token { row: 5, weight: 1.0 }]).is_err()
                );
            }
        }
    }
}
