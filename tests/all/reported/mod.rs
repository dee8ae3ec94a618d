//! Tests after public bug reports, of other tools too: one file a kind, and each test names its thread.

#[cfg(feature = "mcp")]
mod agents;
mod files;
mod folders;
mod html;
mod markdown;
