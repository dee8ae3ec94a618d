//! File systems for tests: one of which an operation fails, and one that remembers what was done to it.

pub(crate) mod faulty;
pub(crate) mod recorder;
