//! Reading safetensors: header first, checked names and shapes, f32 in memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};

use super::error::ModelError;

/// The tensors of one weight file, converted to f32.
///
/// Names are looked up with or without the model prefix that some checkpoints carry.
pub(crate) struct Weights {
    path: PathBuf,
    tensors: HashMap<String, Tensor>,
}

/// Prefixes under which published checkpoints store an encoder's tensors.
const PREFIXES: [&str; 3] = ["bert.", "distilbert.", "0.auto_model."];

impl Weights {
    /// Reads a safetensors file of f32, f16 or bf16 tensors; integer tensors
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
            let tensor =
                Tensor::from_raw_buffer(view.data(), dtype, view.shape(), device)?.to_dtype(DType::F32)?;
            let bare = PREFIXES.iter().find_map(|p| name.strip_prefix(p)).unwrap_or(&name);
            tensors.insert(bare.to_owned(), tensor);
        }
        Ok(Self { path: path.to_owned(), tensors })
    }

    /// Shape of the named tensor, if the file has it.
    pub(crate) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|tensor| tensor.dims().to_vec())
    }

    /// The named tensor, if it has the shape that the configuration asks for and finite values.
    pub(crate) fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor, ModelError> {
        // Old checkpoints call a layer norm's weight and bias gamma and beta.
        let old =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        let tensor =
            self.tensors.get(name).or_else(|| self.tensors.get(&old)).ok_or_else(|| {
                ModelError::MissingTensor { path: self.path.clone(), name: name.to_owned() }
            })?;
        if tensor.dims() != shape {
            return Err(ModelError::TensorShape {
                path: self.path.clone(),
                name: name.to_owned(),
                found: tensor.dims().to_vec(),
                expected: shape.to_vec(),
            });
        }
        // A NaN or an infinity survives the sum; a sum of finite f32 weights does not overflow f64.
        let sum = tensor.to_dtype(DType::F64)?.sum_all()?.to_scalar::<f64>()?;
        if !sum.is_finite() {
            return Err(ModelError::NonFiniteTensor { path: self.path.clone(), name: name.to_owned() });
        }
        Ok(tensor.clone())
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
