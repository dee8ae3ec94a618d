//! How results are serialised where a derived form does not do.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A duration in milliseconds, as a number with a fraction.
pub(crate) fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e3)
}

/// What a value displays as.
pub(crate) fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Paths as strings. What is no UTF-8 in them is replaced; serde would refuse the whole value.
pub(crate) struct LossyPaths<'a>(pub &'a [PathBuf]);

impl Serialize for LossyPaths<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|path| path.to_string_lossy()))
    }
}
