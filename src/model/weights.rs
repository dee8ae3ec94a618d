//! Reads safetensors: the header first, with checked names and shapes, then each tensor on demand.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

#[cfg(feature = "train")]
use candle_core::{Device, Tensor};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use super::error::ModelError;
use super::words::WordTable;
use crate::disk::Mapping;

/// A tensor of an encoder: its values row by row, or in training a candle tensor, which may be a variable.
pub(crate) trait Weight: Clone {
    fn new(values: Vec<f32>, shape: &[usize]) -> Result<Self, ModelError>;

    /// The values in main memory, row by row.
    fn values(&self) -> Result<Cow<'_, [f32]>, ModelError>;

    /// The first row of a table of this width.
    fn first_row(&self, width: usize) -> Result<Self, ModelError>;

    /// The table with `row` added to each of its rows.
    fn plus_row(&self, row: &Self) -> Result<Self, ModelError>;
}

impl Weight for Vec<f32> {
    fn new(values: Vec<f32>, _: &[usize]) -> Result<Self, ModelError> {
        Ok(values)
    }

    fn values(&self) -> Result<Cow<'_, [f32]>, ModelError> {
        Ok(self.into())
    }

    fn first_row(&self, width: usize) -> Result<Self, ModelError> {
        Ok(self[..width].to_vec())
    }

    fn plus_row(&self, row: &Self) -> Result<Self, ModelError> {
        Ok(self.iter().zip(row.iter().cycle()).map(|(value, own)| value + own).collect())
    }
}

#[cfg(feature = "train")]
impl Weight for Tensor {
    fn new(values: Vec<f32>, shape: &[usize]) -> Result<Self, ModelError> {
        Ok(Self::from_vec(values, shape, &Device::Cpu)?)
    }

    fn values(&self) -> Result<Cow<'_, [f32]>, ModelError> {
        Ok(Cow::Owned(self.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()?))
    }

    fn first_row(&self, _: usize) -> Result<Self, ModelError> {
        Ok(self.narrow(0, 0, 1)?)
    }

    fn plus_row(&self, row: &Self) -> Result<Self, ModelError> {
        Ok(self.broadcast_add(row)?)
    }
}

/// One weight file, open or in memory.
///
/// Names are looked up with or without the model prefix that some checkpoints carry.
pub(crate) struct Weights {
    path: PathBuf,
    content: Content,
    tensors: HashMap<String, Stored>,
}

enum Content {
    Mapped(File, Mapping),
    Held(Vec<u8>),
}

/// A tensor in the file.
struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    /// Within the file, which is known to have these bytes.
    place: Range<usize>,
}

/// Prefixes under which published checkpoints store an encoder's tensors.
const PREFIXES: [&str; 7] =
    ["bert.", "distilbert.", "roberta.", "mpnet.", "nomic_bert.", "model.", "0.auto_model."];

impl Weights {
    /// Opens a safetensors file and reads its header.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ModelError> {
        let (file, length) = super::files::open(path, super::files::WEIGHTS_BYTES)?;
        if length == 0 {
            return Err(ModelError::safetensors(path, SafeTensorError::HeaderTooSmall));
        }
        let mapping = Mapping::new(&file, length).map_err(|source| ModelError::io("map", path, source))?;
        Self::new(path, Content::Mapped(file, mapping))
    }

    /// Reads the header of a safetensors file in memory; `path` is for messages.
    pub(super) fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, ModelError> {
        Self::new(path, Content::Held(bytes))
    }

    fn new(path: &Path, content: Content) -> Result<Self, ModelError> {
        let error = |source| ModelError::safetensors(path, source);
        let mut weights = Self { path: path.to_owned(), content, tensors: HashMap::new() };
        let all = weights.all();
        // Before it is parsed.
        if all.first_chunk().is_some_and(|size| u64::from_le_bytes(*size) > HEADER_BYTES) {
            return Err(error(SafeTensorError::HeaderTooLarge));
        }
        // This checks offsets and sizes.
        let (size, metadata) = SafeTensors::read_metadata(all).map_err(error)?;
        let tensors = metadata.tensors().into_iter().map(|(name, info)| {
            let bare = PREFIXES.iter().find_map(|p| name.strip_prefix(p)).unwrap_or(&name);
            let (first, end) = info.data_offsets;
            let start = LENGTH_BYTES + size;
            let place = start + first..start + end;
            (bare.to_owned(), Stored { dtype: info.dtype, shape: info.shape.clone(), place })
        });
        weights.tensors = tensors.collect();
        Ok(weights)
    }

    fn all(&self) -> &[u8] {
        match &self.content {
            Content::Mapped(_, mapping) => mapping.bytes(0..mapping.len()).unwrap_or_default(),
            Content::Held(bytes) => bytes,
        }
    }

    /// Shape of the named tensor, if the file has it.
    pub(crate) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|tensor| tensor.shape.clone())
    }

    /// The named tensor in f32, if it has the required shape and finite values.
    pub(crate) fn get<W: Weight>(&self, name: &str, shape: &[usize]) -> Result<W, ModelError> {
        W::new(self.values(name, shape)?, shape)
    }

    /// The values of the named tensor in f32, as [`Self::get`].
    pub(super) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        match FLOATS.contains(&self.find(name, shape)?.dtype) {
            true => self.numbers(name, shape),
            false => Err(self.missing(name)),
        }
    }

    /// The numbers of the named tensor, of any type, in f32.
    pub(crate) fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let stored = self.find(name, shape)?;
        let mut values = Vec::new();
        let room = values.try_reserve_exact(shape.iter().product());
        room.map_err(|_| ModelError::io("read", &self.path, std::io::ErrorKind::OutOfMemory.into()))?;
        widen(stored.dtype, &self.all()[stored.place.clone()], &mut values);
        self.check_finite(name, &values)?;
        match values.len() == shape.iter().product::<usize>() {
            true => Ok(values),
            false => Err(self.missing(name)),
        }
    }

    /// The bytes of the named tensor, if it has this type.
    pub(super) fn bytes(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<&[u8], ModelError> {
        match self.find(name, shape)? {
            stored if stored.dtype == dtype => Ok(&self.all()[stored.place.clone()]),
            _ => Err(self.missing(name)),
        }
    }

    /// The named table, mapped from the file if its rows can be read from there; otherwise in memory.
    pub(crate) fn table(&self, name: &str, [rows, width]: [usize; 2]) -> Result<WordTable, ModelError> {
        let stored = self.find(name, &[rows, width])?;
        let (Content::Mapped(file, _), true) =
            (&self.content, MAPPED.contains(&stored.dtype) && !stored.place.is_empty())
        else {
            return Ok(WordTable::held(self.values(name, &[rows, width])?, [rows, width]));
        };
        let mut values = Vec::new();
        for part in self.all()[stored.place.clone()].chunks(BYTES_PER_CHECK) {
            values.clear();
            widen(stored.dtype, part, &mut values);
            self.check_finite(name, &values)?;
        }
        // A mapping of its own, no page of which has been read.
        let mapping = Mapping::of_part(file, stored.place.start as u64..stored.place.end as u64);
        let mapping = mapping.map_err(|source| ModelError::io("map", &self.path, source))?;
        Ok(WordTable::mapped(mapping, stored.dtype, [rows, width]))
    }

    fn check_finite(&self, name: &str, values: &[f32]) -> Result<(), ModelError> {
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(()),
            false => Err(ModelError::bad_tensor(&self.path, name, "holds a NaN or an infinity")),
        }
    }

    fn missing(&self, name: &str) -> ModelError {
        ModelError::missing_tensor(&self.path, name)
    }

    /// A tensor by its name, if it has this shape.
    fn find(&self, name: &str, shape: &[usize]) -> Result<&Stored, ModelError> {
        // Old checkpoints call a layer norm's weight and bias gamma and beta.
        let old =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        let stored =
            self.tensors.get(name).or_else(|| self.tensors.get(&old)).ok_or_else(|| self.missing(name))?;
        if stored.shape != shape {
            return Err(ModelError::tensor_shape(&self.path, name, &stored.shape, shape));
        }
        Ok(stored)
    }
}

/// Types of the numbers of a network.
const FLOATS: [Dtype; 4] = [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64];
/// Types of the tables that are read from their file; model2vec's integers have no scale.
const MAPPED: [Dtype; 4] = [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I8];
/// Appends numbers to `out` in f32; nothing for a type that is not read.
pub(super) fn widen(dtype: Dtype, data: &[u8], out: &mut Vec<f32>) {
    fn each<const N: usize>(data: &[u8], out: &mut Vec<f32>, number: impl Fn([u8; N]) -> f32) {
        out.extend(data.as_chunks::<N>().0.iter().map(|&own| number(own)));
    }
    match dtype {
        Dtype::F32 => each(data, out, f32::from_le_bytes),
        Dtype::F16 => match bytemuck::try_cast_slice::<u8, f16>(data) {
            Ok(own) => {
                let start = out.len();
                out.resize(start + own.len(), 0.0);
                own.convert_to_f32_slice(&mut out[start..]);
            }
            Err(_) => each(data, out, |own| f16::from_le_bytes(own).to_f32()),
        },
        Dtype::BF16 => each(data, out, |own| bf16::from_le_bytes(own).to_f32()),
        Dtype::F64 => each(data, out, |own| f64::from_le_bytes(own) as f32),
        Dtype::I8 => each(data, out, |own| i8::from_le_bytes(own).into()),
        Dtype::I32 => each(data, out, |own| i32::from_le_bytes(own) as f32),
        Dtype::U32 => each(data, out, |own| u32::from_le_bytes(own) as f32),
        Dtype::I64 => each(data, out, |own| i64::from_le_bytes(own) as f32),
        Dtype::U64 => each(data, out, |own| u64::from_le_bytes(own) as f32),
        _ => {}
    }
}

/// Bytes of the header's length, which precedes it.
const LENGTH_BYTES: usize = 8;
/// Most bytes of a header: a thousand times what an encoder of twelve layers needs.
const HEADER_BYTES: u64 = 16 << 20;
/// Bytes of a table checked at a time; a multiple of every number's size.
const BYTES_PER_CHECK: usize = 1 << 16;
