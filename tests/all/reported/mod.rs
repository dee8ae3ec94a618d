//! Tests based on public bug reports, including those of other tools: one file per kind, and each test names
//! its thread.

#[cfg(feature = "mcp")]
mod agents;
#[cfg(feature = "parquet")]
mod columns;
mod evaluation;
mod files;
mod filters;
mod folders;
mod html;
mod markdown;
mod nulls;
mod remedies;
mod tables;
mod upkeep;
mod words;
