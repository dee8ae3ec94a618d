//! Skips files of a folder by name, like ripgrep by default.

use std::path::Path;

use ignore::{IncrementalIgnore, WalkBuilder};

/// Skips hidden entries, and those in `.gitignore`, `.ignore` and git's other lists.
pub(super) struct Rules(Option<IncrementalIgnore>);

impl Rules {
    /// The rules of a folder; without lists, only those for hidden files.
    pub fn of(root: &Path, with_lists: bool) -> Self {
        let mut builder = WalkBuilder::new(root);
        builder.standard_filters(with_lists).hidden(true);
        Self(builder.build_matchers().pop())
    }

    /// Whether an entry is skipped, by its path relative to the folder, and the problem with a list read for
    /// it. Entries of a skipped folder are skipped too.
    pub fn leave_out(&mut self, path: &Path, is_dir: bool) -> (bool, Option<String>) {
        let Some(rules) = &mut self.0 else { return (false, None) };
        let (found, error) = rules.matched_with_errors(path, is_dir);
        (found.is_ignore(), error.map(|error| error.to_string()))
    }
}
