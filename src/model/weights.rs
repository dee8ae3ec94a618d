//! Reading safetensors: header first, checked names and shapes, each tensor converted when it is asked for.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};

use super::error::ModelError;

/// One weight file.
///
/// Names are looked up with or without the model prefix that some checkpoints carry.
pub(crate) struct Weights {
    path: PathBuf,
    bytes: Vec<u8>,
    tensors: HashMap<String, Stored>,
    device: Device,
}

/// A tensor in the file.
struct Stored {
    dtype: DType,
    shape: Vec<usize>,
    place: Range<usize>,
}

/// Prefixes under which published checkpoints store an encoder's tensors.
const PREFIXES: [&str; 7] =
    ["bert.", "distilbert.", "roberta.", "mpnet.", "nomic_bert.", "model.", "0.auto_model."];

impl Weights {
    /// Reads a safetensors file of f32, f16, bf16 or f64 tensors; integer tensors
    /// (some checkpoints save their position ids) are left out.
    pub(crate) fn from_file(path: &Path, device: &Device) -> Result<Self, ModelError> {
        let bytes = super::files::read(path, super::files::WEIGHTS_BYTES)?;
        check_header(path, &bytes)?;
        let file = safetensors::SafeTensors::deserialize(&bytes)
            .map_err(|source| ModelError::Safetensors { path: path.to_owned(), source })?;
        let mut tensors = HashMap::new();
        for (name, view) in file.tensors() {
            let dtype = match view.dtype() {
                safetensors::Dtype::F32 => DType::F32,
                safetensors::Dtype::F16 => DType::F16,
                safetensors::Dtype::BF16 => DType::BF16,
                safetensors::Dtype::F64 => DType::F64,
                _ => continue,
            };
            let start = view.data().as_ptr().addr() - bytes.as_ptr().addr();
            let place = start..start + view.data().len();
            let bare = PREFIXES.iter().find_map(|p| name.strip_prefix(p)).unwrap_or(&name);
            tensors.insert(bare.to_owned(), Stored { dtype, shape: view.shape().to_vec(), place });
        }
        Ok(Self { path: path.to_owned(), bytes, tensors, device: device.clone() })
    }

    /// Shape of the named tensor, if the file has it.
    pub(crate) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|tensor| tensor.shape.clone())
    }

    /// The named tensor in f32, if it has the shape that the configuration asks for and finite values.
    pub(crate) fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor, ModelError> {
        Ok(self.get_half(name, shape)?.to_dtype(DType::F32)?)
    }

    /// As [`Self::get`], in f16 where the file is: a table of 250,000 words takes half the memory.
    pub(crate) fn get_half(&self, name: &str, shape: &[usize]) -> Result<Tensor, ModelError> {
        let (dtype, data) = self.find(name, shape)?;
        // Without a copy of what may be a gigabyte.
        let is_finite = match dtype {
            DType::F16 => data.as_chunks::<2>().0.iter().all(|&own| f16::from_le_bytes(own).is_finite()),
            DType::BF16 => data.as_chunks::<2>().0.iter().all(|&own| bf16::from_le_bytes(own).is_finite()),
            DType::F32 => data.as_chunks::<4>().0.iter().all(|&own| f32::from_le_bytes(own).is_finite()),
            // As it is used.
            _ => data.as_chunks::<8>().0.iter().all(|&own| (f64::from_le_bytes(own) as f32).is_finite()),
        };
        if !is_finite {
            return Err(ModelError::NonFiniteTensor { path: self.path.clone(), name: name.to_owned() });
        }
        let tensor = Tensor::from_raw_buffer(data, dtype, shape, &self.device)?;
        Ok(if dtype == DType::F16 { tensor } else { tensor.to_dtype(DType::F32)? })
    }

    /// A tensor's numbers as they are stored.
    fn find(&self, name: &str, shape: &[usize]) -> Result<(DType, &[u8]), ModelError> {
        // Old checkpoints call a layer norm's weight and bias gamma and beta.
        let old =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        let stored =
            self.tensors.get(name).or_else(|| self.tensors.get(&old)).ok_or_else(|| {
                ModelError::MissingTensor { path: self.path.clone(), name: name.to_owned() }
            })?;
        if stored.shape != shape {
            return Err(ModelError::TensorShape {
                path: self.path.clone(),
                name: name.to_owned(),
                found: stored.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        Ok((stored.dtype, &self.bytes[stored.place.clone()]))
    }
}

/// Most bytes of a header: a thousand times what an encoder of twelve layers needs.
const HEADER_BYTES: u64 = 16 << 20;

/// Refuses a header that is longer than the file, or than any sound one, before it is parsed.
pub(super) fn check_header(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Ok(()); // The parser says that it is too short.
    };
    let length = u64::from_le_bytes(*length);
    if length > HEADER_BYTES || length > rest.len() as u64 {
        let source = safetensors::SafeTensorError::HeaderTooLarge;
        return Err(ModelError::Safetensors { path: path.to_owned(), source });
    }
    Ok(())
}
