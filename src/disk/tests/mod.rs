//! File systems for tests: one with a failing operation, and one that records all operations.

pub(crate) mod faulty;
pub(crate) mod recorder;
