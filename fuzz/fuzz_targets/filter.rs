//! Filters from JSON: no panic, an accepted filter is written as it was read, and a negation is the opposite.
//!
//! The metadata follows the first byte that cannot occur in JSON.
#![no_main]

use ehi::Filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|byte| *byte == 0xff).unwrap_or(bytes.len());
    let (filter, metadata) = bytes.split_at(at);
    let Ok(filter) = String::from_utf8_lossy(filter).parse::<Filter>() else { return };
    assert_eq!(filter.to_string().parse::<Filter>().as_ref(), Ok(&filter));
    let metadata = metadata.split_first().and_then(|(_, json)| serde_json::from_slice(json).ok());
    let opposite = !filter.clone();
    for id in ["", "a", "id-1"] {
        assert_ne!(filter.matches(id, metadata.as_ref()), opposite.matches(id, metadata.as_ref()));
    }
});
