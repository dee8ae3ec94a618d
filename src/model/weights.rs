//! Reads safetensors: the header first, with checked names and shapes, then each tensor on demand.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use safetensors::tensor::Metadata;
use safetensors::{Dtype, SafeTensorError};

use super::error::ModelError;
use super::words::WordTable;
use crate::disk::Mapping;

/// One weight file, open or in memory.
///
/// Names are looked up with or without the model prefix that some checkpoints carry.
pub(crate) struct Weights {
    path: PathBuf,
    content: Content,
    tensors: HashMap<String, Stored>,
}

enum Content {
    File(File),
    Bytes(Vec<u8>),
}

/// A tensor in the file.
struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    place: Range<u64>,
}

/// Prefixes under which published checkpoints store an encoder's tensors.
const PREFIXES: [&str; 7] =
    ["bert.", "distilbert.", "roberta.", "mpnet.", "nomic_bert.", "model.", "0.auto_model."];

impl Weights {
    /// Opens a safetensors file and reads its header.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ModelError> {
        let (file, length) = super::files::open(path, super::files::WEIGHTS_BYTES)?;
        Self::new(path, Content::File(file), length)
    }

    /// Reads the header of a safetensors file in memory; `path` is for messages.
    pub(super) fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, ModelError> {
        let length = bytes.len() as u64;
        Self::new(path, Content::Bytes(bytes), length)
    }

    fn new(path: &Path, content: Content, length: u64) -> Result<Self, ModelError> {
        let error = |source| ModelError::safetensors(path, source);
        let mut weights = Self { path: path.to_owned(), content, tensors: HashMap::new() };
        let mut size = [0; LENGTH_BYTES as usize];
        if length < LENGTH_BYTES {
            return Err(error(SafeTensorError::HeaderTooSmall));
        }
        weights.read_into(&mut size, 0)?;
        let size = u64::from_le_bytes(size);
        // Before it is parsed.
        if size > HEADER_BYTES || size > length - LENGTH_BYTES {
            return Err(error(SafeTensorError::HeaderTooLarge));
        }
        let header = weights.read(&(LENGTH_BYTES..LENGTH_BYTES + size))?;
        let header = std::str::from_utf8(&header).map_err(|e| error(SafeTensorError::InvalidHeader(e)))?;
        // This checks offsets and sizes.
        let metadata: Metadata = serde_json::from_str(header)
            .map_err(|e| error(SafeTensorError::InvalidHeaderDeserialization(e)))?;
        let start = LENGTH_BYTES + size;
        if start + metadata.data_len() as u64 != length {
            return Err(error(SafeTensorError::MetadataIncompleteBuffer));
        }
        let tensors = metadata.tensors().into_iter().map(|(name, info)| {
            let bare = PREFIXES.iter().find_map(|p| name.strip_prefix(p)).unwrap_or(&name);
            let (first, end) = info.data_offsets;
            let place = start + first as u64..start + end as u64;
            (bare.to_owned(), Stored { dtype: info.dtype, shape: info.shape.clone(), place })
        });
        weights.tensors = tensors.collect();
        Ok(weights)
    }

    /// Shape of the named tensor, if the file has it.
    pub(crate) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|tensor| tensor.shape.clone())
    }

    /// The named tensor in f32, if it has the required shape and finite values.
    pub(crate) fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor, ModelError> {
        Ok(Tensor::from_vec(self.values(name, shape)?, shape, &Device::Cpu)?)
    }

    /// The values of the named tensor in f32, as [`Self::get`].
    pub(super) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        self.values_of(name, shape, &FLOATS)
    }

    /// Per-token numbers of a table, of any type, in f32.
    pub(crate) fn numbers(&self, name: &str, count: usize) -> Result<Vec<f32>, ModelError> {
        self.values_of(name, &[count], &NUMBERS)
    }

    fn values_of(&self, name: &str, shape: &[usize], dtypes: &[Dtype]) -> Result<Vec<f32>, ModelError> {
        let stored = self.find(name, shape)?;
        if !dtypes.contains(&stored.dtype) {
            return Err(self.missing(name));
        }
        let mut values = Vec::new();
        let room = values.try_reserve_exact(shape.iter().product());
        room.map_err(|_| self.io(std::io::ErrorKind::OutOfMemory.into()))?;
        widen(stored.dtype, &self.read(&stored.place)?, &mut values);
        self.check_finite(name, &values)?;
        Ok(values)
    }

    /// The bytes of the named tensor, if it has this type.
    pub(super) fn bytes(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<Vec<u8>, ModelError> {
        match self.find(name, shape)? {
            stored if stored.dtype == dtype => self.read(&stored.place),
            _ => Err(self.missing(name)),
        }
    }

    /// The named table, mapped from the file if its rows can be read from there; otherwise in memory.
    pub(crate) fn table(&self, name: &str, [rows, width]: [usize; 2]) -> Result<WordTable, ModelError> {
        let stored = self.find(name, &[rows, width])?;
        let Content::File(file) = &self.content else {
            return Ok(WordTable::held(&self.get(name, &[rows, width])?)?);
        };
        if !MAPPED.contains(&stored.dtype) || stored.place.is_empty() {
            return Ok(WordTable::held(&self.get(name, &[rows, width])?)?);
        }
        // In parts, to bound memory.
        let (mut part, mut values) = (Vec::new(), Vec::new());
        for start in stored.place.clone().step_by(BYTES_PER_CHECK) {
            part.resize((stored.place.end - start).min(BYTES_PER_CHECK as u64) as usize, 0);
            self.read_into(&mut part, start)?;
            values.clear();
            widen(stored.dtype, &part, &mut values);
            self.check_finite(name, &values)?;
        }
        let mapping = Mapping::of_part(file, stored.place.clone());
        let mapping = mapping.map_err(|source| ModelError::io("map", &self.path, source))?;
        Ok(WordTable::mapped(mapping, stored.dtype, [rows, width]))
    }

    fn check_finite(&self, name: &str, values: &[f32]) -> Result<(), ModelError> {
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(()),
            false => Err(ModelError::bad_tensor(&self.path, name, "holds a NaN or an infinity")),
        }
    }

    fn read(&self, place: &Range<u64>) -> Result<Vec<u8>, ModelError> {
        let length = (place.end - place.start) as usize;
        let mut data = Vec::new();
        data.try_reserve_exact(length).map_err(|_| self.io(std::io::ErrorKind::OutOfMemory.into()))?;
        data.resize(length, 0);
        self.read_into(&mut data, place.start)?;
        Ok(data)
    }

    fn read_into(&self, data: &mut [u8], start: u64) -> Result<(), ModelError> {
        match &self.content {
            Content::File(file) => file.read_exact_at(data, start).map_err(|source| self.io(source)),
            Content::Bytes(bytes) => {
                data.copy_from_slice(&bytes[start as usize..][..data.len()]);
                Ok(())
            }
        }
    }

    fn io(&self, source: std::io::Error) -> ModelError {
        ModelError::io("read", &self.path, source)
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
/// Types of the numbers of a table's tokens.
const NUMBERS: [Dtype; 8] =
    [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64, Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64];

/// Appends numbers to `out` in f32.
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
const LENGTH_BYTES: u64 = 8;
/// Most bytes of a header: a thousand times what an encoder of twelve layers needs.
const HEADER_BYTES: u64 = 16 << 20;
/// Bytes of a table checked at a time; a multiple of every number's size.
const BYTES_PER_CHECK: usize = 1 << 16;
