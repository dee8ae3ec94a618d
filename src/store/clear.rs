//! Removal of a store that nothing names any more.

use std::{io::ErrorKind, path::Path};

use super::{
    Result, StoreError,
    error::Operation,
    files::{list, remove_file},
    layout::names,
    log,
    sealed::SealedName,
};
use crate::disk::Backend;

/// Removes the files of a store from a directory, and directories that are empty afterwards. Files with other
/// names stay.
///
/// # Errors
///
/// Failures of the file system.
pub(crate) fn clear_store(backend: &dyn Backend, dir: &Path) -> Result<()> {
    // First the files that make it a store.
    for name in [names::MANIFEST, names::MANIFEST_NEW, names::MANIFEST_COPY, names::RESERVE] {
        remove_file(backend, &dir.join(name))?;
    }
    clear_folder(backend, &dir.join(names::SEGMENTS), |name| SealedName::parse(name).is_some())?;
    clear_folder(backend, &dir.join(names::LOG), is_log)?;
    remove_file(backend, &dir.join(names::LOCK))
}

/// Removes the files with these names in a folder, and the folder if nothing else is in it.
fn clear_folder(backend: &dyn Backend, folder: &Path, is_own: fn(&str) -> bool) -> Result<()> {
    for name in list(backend, folder)?.iter().filter(|name| is_own(name)) {
        remove_file(backend, &folder.join(name))?;
    }
    match backend.remove_directory(folder) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
            Err(StoreError::io(folder, Operation::Remove)(error))
        }
        _ => Ok(()),
    }
}

/// `G.log`, or a log that a repair was writing.
fn is_log(name: &str) -> bool {
    log::base_of(name.strip_suffix(".new").unwrap_or(name)).is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::disk::FileSystem;

    #[test]
    fn only_files_of_a_store_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = [
            "notes",
            "segments/notes",
            "segments/7.vectors",
            "segments/00000001.dead",
            "log/a.log",
            "log/12.log",
        ];
        let own = [
            "MANIFEST",
            "MANIFEST.copy",
            "LOCK",
            "RESERVE",
            "log/00000012.log",
            "log/00000012.log.new",
            "segments/00000001.vectors",
        ];
        let own = own.into_iter().chain(["segments/00000001.0000000000000002.dead"]);
        for folder in ["segments", "log"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        own.clone().chain(foreign).for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        clear_store(&FileSystem, dir.path()).unwrap();
        for name in foreign {
            assert!(dir.path().join(name).exists(), "{name}");
        }
        for name in own {
            assert!(!dir.path().join(name).exists(), "{name}");
        }
        foreign.into_iter().for_each(|name| fs::remove_file(dir.path().join(name)).unwrap());
        clear_store(&FileSystem, dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
