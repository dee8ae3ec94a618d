//! What `ehi --version` prints.

use std::sync::OnceLock;

use ehi::Instructions;

/// The version, the commit, the features and the processor's instructions, a line each.
pub(crate) fn long() -> &'static str {
    // clap takes a static text.
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(text)
}

fn text() -> String {
    let features: Vec<&str> = FEATURES.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!(
        "{}\ncommit: {}\nfeatures: {features}\nvector instructions: {}",
        env!("CARGO_PKG_VERSION"),
        env!("EHI_COMMIT"),
        Instructions::detect(),
    )
}

/// The features of the program, and whether this build has them.
const FEATURES: [(&str, bool); 6] = [
    ("cuda", cfg!(feature = "cuda")),
    ("explore", cfg!(feature = "explore")),
    ("hub", cfg!(feature = "hub")),
    ("mcp", cfg!(feature = "mcp")),
    ("parquet", cfg!(feature = "parquet")),
    ("pdf", cfg!(feature = "pdf")),
];
