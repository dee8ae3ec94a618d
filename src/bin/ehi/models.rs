//! The models that commands take: folders, and with the `hub` feature names.

use std::path::{Path, PathBuf};

use ehi::Bundle;
use ehi::model::MANIFEST_FILE;

use crate::failure::Failure;

/// The folder of a model; one that is named is fetched.
pub fn directory(given: &Path) -> Result<PathBuf, Failure> {
    if given.is_dir() {
        return Ok(given.to_owned());
    }
    #[cfg(feature = "hub")]
    if let Some(name) = hub_name(given) {
        let path = given.to_owned();
        return ehi::model::fetch(name).map_err(|source| Failure::NotFetched { path, source });
    }
    Err(Failure::NoModel { path: given.to_owned() })
}

/// A bundle, or a model without a tree from an encoder's folder.
pub fn open(given: &Path) -> Result<Bundle, Failure> {
    let dir = directory(given)?;
    let open = if dir.join(MANIFEST_FILE).exists() { Bundle::open } else { Bundle::from_encoder };
    Ok(open(dir)?)
}

/// `owner/name` or `name`, as hubs have them, rather than a path.
#[cfg(feature = "hub")]
fn hub_name(given: &Path) -> Option<&str> {
    let name = given.to_str()?;
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    (name.split('/').count() <= 2 && name.split('/').all(is_part)).then_some(name)
}

#[cfg(all(test, feature = "hub"))]
mod tests {
    use super::*;

    #[test]
    fn paths_are_no_names() {
        for name in ["bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2"] {
            assert_eq!(hub_name(Path::new(name)), Some(name));
        }
        for path in ["", ".", "./model", "/model", "a/b/c", "a/", "../model", "~/model", "a b"] {
            assert_eq!(hub_name(Path::new(path)), None, "{path}");
        }
    }
}
