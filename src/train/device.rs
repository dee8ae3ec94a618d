//! The training device, and how much of a batch it processes at a time.

use candle_core::Device;

use super::error::TrainError;
use crate::error::Result;

/// Where the tensors of a run live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainDevice {
    /// The CPU.
    #[default]
    Cpu,
    /// The first NVIDIA GPU; needs the `cuda` feature.
    Cuda,
}

/// Opens a device.
///
/// # Errors
/// [`TrainError::NoCuda`] without a usable GPU or without the feature `cuda`.
pub(super) fn open(device: TrainDevice) -> Result<Device> {
    let no_cuda = |reason| TrainError::NoCuda { reason }.into();
    match device {
        TrainDevice::Cpu => Ok(Device::Cpu),
        #[cfg(feature = "cuda")]
        TrainDevice::Cuda => Device::new_cuda(0).map_err(|e| no_cuda(e.to_string())),
        #[cfg(not(feature = "cuda"))]
        TrainDevice::Cuda => Err(no_cuda("this build lacks the `cuda` feature".to_owned())),
    }
}

/// How much of a batch one pass through the layers processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassBudget {
    /// Padded tokens in one part of a batch; each part has its own graph.
    pub part_tokens: usize,
    /// Padded tokens times trainable layers whose graphs a batch keeps; a larger batch recomputes the rest.
    pub graph_tokens: usize,
}

/// f32 values per token kept by the graph of one layer, in units of the encoder's width.
const GRAPH_WIDTHS: usize = 40;

impl PassBudget {
    /// The budget for layers with `width` values per token. On a CPU a part fits the caches, and graphs take
    /// 3 GiB. On a GPU a part fills the device, and graphs take a quarter of the free memory, because a batch
    /// keeps the graphs of its queries and those of its documents.
    pub(super) fn of(device: &Device, width: usize) -> candle_core::Result<Self> {
        let (part_tokens, graph_bytes) = match device {
            #[cfg(feature = "cuda")]
            Device::Cuda(_) => {
                let free = candle_core::cuda_backend::cudarc::driver::result::mem_get_info();
                (32 * 1024, free.map_err(candle_core::Error::wrap)?.0 / 4)
            }
            _ => (1024, 3 << 30),
        };
        Ok(Self { part_tokens, graph_tokens: graph_bytes / (GRAPH_WIDTHS * width * size_of::<f32>()) })
    }
}
