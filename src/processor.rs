//! Which vector instructions of this processor the library uses.

use crate::product::bytes::ByteKernel;
use crate::scan::Kernel;
use serde::Serialize;
use std::fmt;

/// The vector instructions that the library uses on this processor.
///
/// They are found when the program runs, so that one build is fast on every processor. Slow searches or a
/// slow encoder on a new machine may be due to the ones that it lacks.
///
/// ```
/// println!("{}", ehi::Instructions::detect());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Instructions {
    /// Those that score stored embeddings and their codes.
    pub search: &'static str,
    /// Those of an encoder in f32.
    pub encoder: &'static str,
    /// Those of an encoder in int8.
    pub encoder_int8: &'static str,
}

impl Instructions {
    /// Those of this processor.
    pub fn detect() -> Self {
        Self {
            search: Kernel::detect().instructions(),
            encoder: crate::product::instructions(),
            encoder_int8: ByteKernel::best().instructions(),
        }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { search, encoder, encoder_int8 } = self;
        write!(f, "{search} (search), {encoder} (encoder), {encoder_int8} (int8 encoder)")
    }
}
