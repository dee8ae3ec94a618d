//! All tests of the crate's public interface, in one binary: it is linked once, and models for the tests are
//! trained once.

mod program;
mod support;

mod architectures;
mod architectures_train;
mod bad_input;
mod bundles;
mod calibrate;
mod change;
mod cli;
mod cli_insert;
#[cfg(feature = "parquet")]
mod columns;
mod conservation;
mod dataset;
mod docs;
mod durability;
mod embedding_cache;
mod encoded;
mod encoder_folders;
mod evaluation;
mod expiry;
#[cfg(feature = "explore")]
mod explore;
mod filter;
mod folders;
mod growth;
mod held_out;
#[cfg(feature = "hub")]
mod hub;
mod index;
mod inputs;
mod inspect;
mod joints;
mod json;
mod layouts;
mod learn;
mod lexical;
mod matching;
#[cfg(feature = "mcp")]
mod mcp;
mod measured;
mod memory;
mod metrics;
mod options;
mod pages;
mod parity;
mod passages;
mod processes;
mod query_encoder;
mod reported;
mod rerankers;
mod search;
mod shards;
mod spans;
mod static_encoders;
mod strangers;
mod terminal;
mod textless;
mod train;
mod train_rerankers;
mod tune;
mod unfinished;
mod untrained;
mod update;
mod vectors;
mod watch;
