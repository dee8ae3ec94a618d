//! Files that may carry `.gz` at the end of their names.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::DataError;

const GZIP_ENDING: &str = ".gz";

/// The path of a dataset, if it is a directory.
pub(super) fn directory(path: impl Into<PathBuf>) -> Result<PathBuf, DataError> {
    let path = path.into();
    if path.is_dir() { Ok(path) } else { Err(DataError::NotADirectory { path }) }
}

/// Refuses a split that the dataset in `dir` has no judgments of.
///
/// Looking the name up in the listing also keeps it inside the directory.
pub(super) fn check_split(dir: &Path, split: &str, known: Vec<String>) -> Result<(), DataError> {
    if known.iter().any(|name| name == split) {
        return Ok(());
    }
    Err(DataError::UnknownSplit { dir: dir.to_owned(), split: split.to_owned(), known })
}

/// Opens `path` or `path` with `.gz`, whichever exists, and gives its name for errors.
pub(super) fn open_either(path: &Path) -> Result<(File, String), DataError> {
    for candidate in [path, &packed(path)] {
        match File::open(candidate) {
            Ok(file) => return Ok((file, candidate.display().to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(DataError::Open { path: candidate.to_owned(), source });
            }
        }
    }
    Err(DataError::MissingFile { path: path.to_owned() })
}

/// Whether `path` or `path` with `.gz` is there.
pub(super) fn either_exists(path: &Path) -> bool {
    path.is_file() || packed(path).is_file()
}

/// The middles of the names `<prefix><middle><suffix>`, with or without `.gz`, sorted.
pub(super) fn middles(dir: &Path, prefix: &str, suffix: &str) -> Result<Vec<String>, DataError> {
    let failed = |source| DataError::Open { path: dir.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let middle = name.to_str().and_then(|name| {
            let plain = name.strip_suffix(GZIP_ENDING).unwrap_or(name);
            plain.strip_prefix(prefix)?.strip_suffix(suffix)
        });
        found.extend(middle.filter(|middle| !middle.is_empty()).map(str::to_owned));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn packed(path: &Path) -> PathBuf {
    let mut packed = path.as_os_str().to_owned();
    packed.push(GZIP_ENDING);
    packed.into()
}
