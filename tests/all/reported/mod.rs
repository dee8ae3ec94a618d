//! Tests after public bug reports, of other tools too: one file a kind, and each test names its thread.

#[cfg(feature = "parquet")]
mod columns;
mod nulls;
mod tables;
