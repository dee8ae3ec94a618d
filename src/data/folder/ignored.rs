//! Which files of a folder are left out by their names, as ripgrep does by default.

use std::path::Path;

use ignore::{IncrementalIgnore, WalkBuilder};

/// Leaves out hidden entries, and those that `.gitignore`, `.ignore` and git's other lists name.
pub(super) struct Rules(Option<IncrementalIgnore>);

impl Rules {
    /// The rules of a folder; those of hidden files alone where the lists do not count.
    pub fn of(root: &Path, with_lists: bool) -> Self {
        let mut builder = WalkBuilder::new(root);
        builder.standard_filters(with_lists).hidden(true);
        Self(builder.build_matchers().pop())
    }

    /// Whether an entry is left out, by its path from the folder on, and what is wrong with a list that was
    /// read for it. The entries of a folder that is left out are so too.
    pub fn leave_out(&mut self, path: &Path, is_dir: bool) -> (bool, Option<String>) {
        let Some(rules) = &mut self.0 else { return (false, None) };
        let (found, error) = rules.matched_with_errors(path, is_dir);
        (found.is_ignore(), error.map(|error| error.to_string()))
    }
}
