//! The manifest of an index, from bytes and from settings.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    File(&'a [u8]),
    Config { dim: u32, branching_factor: u32, height: u32, similarity: u8 },
}

fuzz_target!(|input: Input<'_>| match input {
    Input::File(bytes) => ehi::fuzzing::manifest(bytes),
    Input::Config { dim, branching_factor, height, similarity } => {
        ehi::fuzzing::config(dim, branching_factor, height, similarity);
    }
});
