//! How a file is read, by the ending of its name.

use std::path::Path;

use super::text::{Page, Unreadable};
use super::{Folder, Markup, bytes_of, regular, text_of};
use super::{docx, email, epub, odt};
use crate::data::error::DataError;

/// Reads the bytes of a file that is not text.
type Read = fn(&[u8]) -> Result<Page, Unreadable>;

/// How a file is read.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// As text.
    Text(Markup),
    /// From its bytes.
    Bytes(Read),
    /// By the folder's command in this place.
    Printed(usize),
}

/// The readers of bytes by the endings of names.
pub(super) const READERS: &[(&str, Read)] = &[
    ("eml", email::page),
    ("docx", docx::page),
    ("odt", odt::page),
    ("epub", epub::page),
    #[cfg(feature = "pdf")]
    ("pdf", super::pdf::page),
];

impl Kind {
    /// From the extension of a name.
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?;
        let reader = READERS.iter().find(|(own, _)| ending.eq_ignore_ascii_case(own));
        reader.map(|(_, read)| Self::Bytes(*read)).or_else(|| Markup::of(path).map(Self::Text))
    }
}

impl Folder {
    /// How a file is read; `None` if it is of another kind.
    pub(super) fn kind(&self, path: &Path) -> Option<Kind> {
        let command = self.commands.iter().position(|command| command.reads(path));
        command.map(Kind::Printed).or_else(|| Kind::of(path))
    }

    /// Reads a file of some bytes.
    pub(super) fn page(&self, path: &Path, kind: Kind, bytes: u64) -> Result<Page, DataError> {
        let failed = |Unreadable(kind, message)| DataError::of_path(path, kind, message);
        let file = regular(path, path == self.root)?;
        match kind {
            Kind::Text(markup) => {
                markup.page(&text_of(path, markup, bytes_of(path, file, bytes)?)?).map_err(failed)
            }
            Kind::Bytes(read) => read(&bytes_of(path, file, bytes)?).map_err(failed),
            Kind::Printed(place) => self.commands[place].page(path),
        }
    }
}
