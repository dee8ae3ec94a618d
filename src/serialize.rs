//! Serialisation of results beyond derived implementations.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serializer;

/// A duration in milliseconds, as a number with a fraction.
pub(crate) fn milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e3)
}

/// The `Display` form of a value.
pub(crate) fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Paths as strings. Bytes that are not UTF-8 are replaced; serde would refuse the whole value.
pub(crate) fn lossy_paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
