//! Documents from a folder of files: Markdown, HTML, plain text, other markup, notebooks, source code, office
//! files and e-mail.

mod archive;
mod asciidoc;
mod code;
mod docx;
mod elements;
mod email;
mod epub;
mod front;
mod html;
mod kind;
mod lightweight;
mod markdown;
mod mdx;
mod notebook;
mod odt;
mod org;
#[cfg(feature = "pdf")]
mod pdf;
mod printed;
mod rst;
mod subtitles;
mod text;
mod walk;
mod yaml;

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::error::{DataError, DataErrorKind};
use super::input::foreign;
use super::lines::BYTE_ORDER_MARK;
use super::streams::Documents;
use crate::disk::open_regular;
use crate::document::Document;
use crate::filter::rfc3339;
use crate::outline::{Outline, lines_in};
use kind::Kind;
pub use printed::PreCommand;
pub use text::MAX_FILE_BYTES;
use text::{Page, Unreadable};
use walk::{FolderDocuments, Rules};

const SOURCE: &str = "source";
const PREFIX: &str = "prefix";
/// Prefix for a page's field whose name clashes with a reserved one.
const OWN: &str = "page_";

/// Reads bytes as each kind of file.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn fuzz_markup(bytes: &[u8]) {
    for (_, read) in kind::READERS {
        let Ok(page) = read(bytes) else { continue };
        assert!(page.text.len() as u64 <= MAX_FILE_BYTES && page.outline.fits(&page.text));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for markup in Markup::ALL {
        let Ok(page) = markup.page(text) else { continue };
        assert!(page.outline.fits(&page.text));
        assert!(page.text.len() <= 6 * text.len() + 16);
    }
}

/// A folder whose files are documents: Markdown (`.md`, `.markdown`, `.mdx`), HTML (`.html`, `.htm`), text
/// (`.txt`, `.text`), reStructuredText (`.rst`), AsciiDoc (`.adoc`, `.asciidoc`), Org (`.org`), Jupyter
/// notebooks (`.ipynb`), subtitles (`.srt`, `.vtt`), `.docx`, `.odt`, `.epub` and `.eml`, with the feature
/// `pdf` also `.pdf`, in upper or lower case, including subfolders; [`Self::with_code`] adds source code.
///
/// A file's id is its path relative to the folder, with `/` between its parts ([`Self::prefixed`] adds a
/// prefix). The title is the first of: the title in Markdown's front matter, Org's `#+TITLE` or the
/// properties of an office file or a message, the first heading of level 1, the `<title>` of HTML, the first
/// heading, the file's name without its extension; that of source code is the file's path. A `null` title in
/// the front matter means no title. The text is the content without markup and without the heading used as
/// title. The metadata has `source` (the name of the folder), `prefix` (the prefix of the id, if any), the
/// fields of [`FileVersion`], the other fields of the front matter, and a `title` that is not that of the
/// document. A field whose name is reserved gets the prefix `page_`.
///
/// Hidden files and folders, whose names begin with a dot, those in `.gitignore`, `.ignore` and git's other
/// lists (like ripgrep by default; [`Self::with_ignored`] includes them), and symbolic links are skipped,
/// except the folder itself, which may be a link. So are files without text. A file that is not UTF-8 text,
/// larger than [`MAX_FILE_BYTES`] or not readable, or whose path is not UTF-8, is an error; the others are
/// still read.
///
/// # Examples
///
/// ```no_run
/// for document in ehi::data::Folder::open("notes")?.documents() {
///     let document = document?;
///     println!("{}: {}", document.id, document.title);
/// }
/// # Ok::<(), ehi::data::DataError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Folder {
    root: PathBuf,
    source: String,
    prefix: String,
    with_ignored: bool,
    with_code: bool,
    commands: Vec<PreCommand>,
}

/// The names of the fields of [`FileVersion`] in the metadata of a document.
const VERSION_FIELDS: [&str; 4] = ["modified", "bytes", "changed", "inode"];

/// The state of the file that a document was read from, by which `--sync` detects changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Modification time in UTC (RFC 3339), which programs can set.
    pub modified: String,
    /// Its size.
    pub bytes: u64,
    /// Time of the last change of content, name or permissions, in UTC, which programs cannot set.
    pub changed: String,
    /// Its inode number, which is kept when the file is moved.
    pub inode: u64,
}

impl FileVersion {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: rfc3339(metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
            changed: rfc3339(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }
}

/// The format of a file.
#[derive(Clone, Copy)]
enum Markup {
    Markdown,
    Mdx,
    Html,
    Plain,
    Rst,
    Org,
    AsciiDoc,
    Notebook,
    Subtitles,
    Code,
}

impl Markup {
    #[cfg(any(feature = "fuzzing", test))]
    const ALL: [Self; 10] = [
        Self::Markdown,
        Self::Mdx,
        Self::Html,
        Self::Plain,
        Self::Rst,
        Self::Org,
        Self::AsciiDoc,
        Self::Notebook,
        Self::Subtitles,
        Self::Code,
    ];

    /// From the extension of a name.
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "mdx" => Some(Self::Mdx),
            "html" | "htm" => Some(Self::Html),
            "txt" | "text" => Some(Self::Plain),
            "rst" => Some(Self::Rst),
            "org" => Some(Self::Org),
            "adoc" | "asciidoc" => Some(Self::AsciiDoc),
            "ipynb" => Some(Self::Notebook),
            "srt" | "vtt" => Some(Self::Subtitles),
            extension => code::is_code(extension).then_some(Self::Code),
        }
    }

    /// # Errors
    /// A notebook that is not one.
    fn page(self, text: &str) -> Result<Page, Unreadable> {
        // Lines may end as on old Macs.
        if text.contains('\r') && !text.contains('\n') && !matches!(self, Self::Html | Self::Notebook) {
            return self.page(&text.replace('\r', "\n"));
        }
        Ok(match self {
            Self::Markdown => markdown::page(text),
            Self::Mdx => markdown::page(&mdx::markdown(text)),
            Self::Html => html::page(text),
            Self::Rst => rst::page(text),
            Self::Org => org::page(text),
            Self::AsciiDoc => asciidoc::page(text),
            Self::Notebook => notebook::page(text)?,
            Self::Subtitles => subtitles::page(text),
            Self::Code => code::page(text),
            Self::Plain => {
                let (before, own) = (&text[..text.len() - text.trim_start().len()], text.trim());
                let outline = Outline::of_paragraphs(own, 1 + lines_in(before));
                Page { text: own.to_owned(), outline, ..Page::default() }
            }
        })
    }
}

impl Folder {
    /// Opens a folder; its name as a source is its absolute path.
    ///
    /// # Errors
    /// [`DataErrorKind::Missing`] if the path is not a folder, [`DataErrorKind::Open`], and
    /// [`DataErrorKind::Encoding`] for an absolute path that is not UTF-8.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, DataError> {
        let root = super::dataset::directory(dir)?;
        let source = absolute(&root)?;
        Ok(Self::at(root, source))
    }

    /// A single file, read as in its folder.
    ///
    /// # Errors
    /// [`DataErrorKind::Open`], [`DataErrorKind::Encoding`].
    pub fn of_file(path: impl Into<PathBuf>) -> Result<Self, DataError> {
        let root = path.into();
        let folder = root.parent().filter(|parent| !parent.as_os_str().is_empty());
        // Checked before its folder, so that the error names the file.
        fs::metadata(&root).map_err(|source| DataError::open(&root, source))?;
        let source = absolute(folder.unwrap_or(Path::new(".")))?;
        Ok(Self { with_code: true, ..Self::at(root, source) })
    }

    fn at(root: PathBuf, source: String) -> Self {
        let (with_ignored, with_code) = (false, false);
        Self { root, source, prefix: String::new(), with_ignored, with_code, commands: Vec::new() }
    }

    /// Whether a file with this name is read, by its extension.
    pub fn reads(path: impl AsRef<Path>) -> bool {
        Kind::of(path.as_ref()).is_some()
    }

    /// Reads files with a suffix by running a command, also where they would be read without it; a later
    /// command for the same suffix replaces it.
    ///
    /// The command runs without a shell, in the working directory, with the path of the file as its last
    /// argument, and without input. What it prints is the file's text, in UTF-8 and without markup. It is an
    /// error of the file if the command fails, takes more than a minute, after which it is ended together
    /// with all it started, or prints more than [`MAX_FILE_BYTES`].
    ///
    /// A file that is unchanged for [`Self::changed_documents`] is not read again because of another command.
    pub fn pre(mut self, command: PreCommand) -> Self {
        self.commands.retain(|own| !own.suffix().eq_ignore_ascii_case(command.suffix()));
        self.commands.push(command);
        self
    }

    /// Sets a prefix for each id.
    pub fn prefixed(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Also reads the files in `.gitignore`, `.ignore` and git's other lists.
    pub fn with_ignored(mut self) -> Self {
        self.with_ignored = true;
        self
    }

    /// Also reads source code: the files that end as those of a programming language.
    pub fn with_code(mut self) -> Self {
        self.with_code = true;
        self
    }

    /// Sets the name of the source, which then does not change if the folder moves.
    pub fn named(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// The name of the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The documents of all files, in the order of their paths, folder by folder.
    pub fn documents(self) -> Documents {
        self.changed_documents(|_, _| false, |_| false)
    }

    /// Like [`Self::documents`], without the files whose id and state `is_unchanged` accepts, which are only
    /// listed, and without the documents that `is_stored` accepts, which count as unchanged.
    pub fn changed_documents(
        self,
        is_unchanged: impl FnMut(&str, FileVersion) -> bool + Send + 'static,
        is_stored: impl FnMut(&Document) -> bool + Send + 'static,
    ) -> Documents {
        FolderDocuments::of(self, is_unchanged, is_stored)
    }

    /// The state of the file that a stored document was read from; `None` for another source or another
    /// prefix. A state in another form is one that no file has.
    pub fn version_of(&self, document: &Document) -> Option<FileVersion> {
        let metadata = document.metadata.as_ref()?;
        let prefix = metadata.get(PREFIX).and_then(Value::as_str).unwrap_or_default();
        if metadata.get(SOURCE)?.as_str()? != self.source || prefix != self.prefix {
            return None;
        }
        let is_of_file = VERSION_FIELDS.iter().all(|field| metadata.get(field).is_some());
        is_of_file.then(|| FileVersion::deserialize(metadata).unwrap_or_default())
    }

    /// A hash of the content of a document, without its id and the state of its file.
    pub fn content_hash(document: &Document) -> [u8; 16] {
        let mut metadata = document.metadata.clone().unwrap_or_default();
        if let Value::Object(fields) = &mut metadata {
            fields.retain(|name, _| !VERSION_FIELDS.contains(&&**name));
        }
        let outline = serde_json::to_string(&document.outline).unwrap_or_default();
        let mut hasher = Sha256::new();
        for part in [&document.title, &document.text, &metadata.to_string(), &outline] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut half = [0; 16];
        half.copy_from_slice(&hasher.finalize()[..16]);
        half
    }

    /// The file of an id.
    pub fn file(&self, id: &str) -> PathBuf {
        let own = id.strip_prefix(&self.prefix).unwrap_or(id);
        if self.root.is_dir() { self.root.join(own) } else { self.root.clone() }
    }

    /// The ids of the files that exist now; `None` if the folder cannot be listed as a whole.
    pub fn ids(&self) -> Option<BTreeSet<String>> {
        let mut documents = self.clone().changed_documents(|_, _| true, |_| true);
        documents.by_ref().for_each(drop);
        documents.folder().filter(|report| report.is_whole).map(|report| report.present.clone())
    }

    /// The folder itself and the folders in it, without those that are not read.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        walk::folders(self)
    }

    /// The ids whose files exist but are ignored, those whose files are source code that is not read, and
    /// those of other kinds that are not read.
    pub fn left_out<'a>(&self, ids: impl IntoIterator<Item = &'a String>) -> [Vec<&'a String>; 3] {
        let mut rules = self.rules();
        let [mut ignored, mut code, mut others] = [const { Vec::new() }; 3];
        for id in ids {
            let Some(path) = id.strip_prefix(&self.prefix).map(Path::new) else { continue };
            if !self.root.join(path).is_file() {
            } else if rules.leave_out(path, false).0 {
                ignored.push(id);
            } else if !self.with_code && matches!(Markup::of(path), Some(Markup::Code)) {
                code.push(id);
            } else if self.kind(path).is_none() {
                others.push(id);
            }
        }
        [ignored, code, others]
    }

    fn rules(&self) -> Rules {
        Rules::of(&self.root, !self.with_ignored)
    }

    /// Combines a page's own fields with the reserved ones.
    fn metadata(&self, own: Map<String, Value>, version: FileVersion) -> Value {
        let mut metadata = match serde_json::to_value(version) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        metadata.insert(SOURCE.to_owned(), self.source.clone().into());
        if !self.prefix.is_empty() {
            metadata.insert(PREFIX.to_owned(), self.prefix.clone().into());
        }
        for (mut name, value) in own {
            let is_ours = |name: &str| [SOURCE, PREFIX].contains(&name) || VERSION_FIELDS.contains(&name);
            while is_ours(&name) || metadata.contains_key(&name) {
                name.insert_str(0, OWN);
            }
            metadata.insert(name, value);
        }
        Value::Object(metadata)
    }
}

fn absolute(dir: &Path) -> Result<String, DataError> {
    let absolute = fs::canonicalize(dir).map_err(|source| DataError::open(dir, source))?;
    // Two names that are not UTF-8 could be displayed identically.
    absolute.into_os_string().into_string().map_err(|path| bad_name(Path::new(&path)))
}

fn bad_name(path: &Path) -> DataError {
    let message = "the name is not UTF-8, so it cannot be an id; rename it";
    DataError::of_path(path, DataErrorKind::Encoding, message)
}

/// Opens a regular file, which may have been replaced by something else since it was listed. Only a file that
/// was named itself may be a link.
fn regular(path: &Path, may_be_link: bool) -> Result<File, DataError> {
    let opened = open_regular(File::options().read(true), may_be_link, path);
    opened.map_err(|source| DataError::open(path, source))
}

/// Reads a file of at most [`MAX_FILE_BYTES`].
fn bytes_of(path: &Path, file: File, bytes: u64) -> Result<Vec<u8>, DataError> {
    let limit = MAX_FILE_BYTES;
    let too_large = |bytes| {
        let message = format!("{bytes} bytes, at most {limit} are read; split it");
        Err(DataError::of_path(path, DataErrorKind::TooLarge, message))
    };
    if bytes > limit {
        return too_large(bytes);
    }
    let mut text = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default() + 1);
    let read = file.take(limit + 1).read_to_end(&mut text);
    read.map_err(|source| DataError::open(path, source))?;
    // It may have grown since its size was read.
    if text.len() as u64 > limit {
        return too_large(text.len() as u64);
    }
    Ok(text)
}

/// The content of a file as text.
fn text_of(path: &Path, markup: Markup, text: Vec<u8>) -> Result<String, DataError> {
    let failed = |kind, message: String| Err(DataError::of_path(path, kind, message));
    if let Markup::Html = markup
        && let Some(charset) = html::unread_charset(&text)
    {
        let message = format!("its charset is `{charset}`, and text must be UTF-8; convert it to UTF-8");
        return failed(DataErrorKind::Encoding, message);
    }
    if let Some((what, remedy)) = foreign(&text) {
        return failed(DataErrorKind::Format, format!("this is {what}, which is not read here; {remedy}"));
    }
    match String::from_utf8(text) {
        Ok(text) => Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            failed(DataErrorKind::Encoding, format!("not UTF-8 from byte {valid}; convert the file"))
        }
    }
}

#[cfg(test)]
mod tests;
