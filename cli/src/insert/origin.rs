//! The inputs that a path can name: standard input, a file, a dataset, or a folder of texts.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ehi::data::{DataError, DataErrorKind, Dataset, Documents, Folder, Input, PreCommand};

use crate::arguments;
use crate::failure::Failure;
use crate::fields::FieldArgs;
use crate::printing;

/// The path that means standard input.
const STDIN: &str = "-";
pub const HEADING: &str = "Folders of text files";

/// Starts reading, which may wait for the first bytes.
pub type Opener = Box<dyn FnOnce() -> Result<Documents, DataError> + Send>;

#[derive(clap::Args, Default)]
pub struct FolderArgs {
    /// Also read files that .gitignore, .ignore or git's other ignore lists exclude
    #[arg(long, help_heading = HEADING)]
    no_ignore: bool,
    /// Also read source code
    #[arg(long, help_heading = HEADING)]
    code: bool,
    /// What the folder is called in its documents' metadata, by which --sync knows them; its absolute path if
    /// absent
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    source: Option<String>,
    /// Read files with a suffix by running a command with the file's path as its last argument: what it
    /// prints is the text; may be repeated
    #[arg(long, value_name = "SUFFIX=COMMAND", help_heading = HEADING)]
    pre: Vec<PreCommand>,
}

/// A path on the command line. The ids of text files begin with its name and a slash, if it has a name.
#[derive(Clone)]
pub struct Named {
    name: Option<String>,
    pub path: PathBuf,
}

impl Named {
    /// `NAME=PATH`, or a path, which may have the character `=` too.
    pub fn of(given: OsString) -> Self {
        let whole = Path::new(&given);
        let parts = given.to_str().and_then(|given| given.split_once('='));
        match parts.filter(|(name, path)| !name.is_empty() && !whole.exists() && Path::new(path).exists()) {
            Some((name, path)) => Self { name: Some(name.to_owned()), path: path.into() },
            None => Self { name: None, path: given.into() },
        }
    }
}

/// The input named by a path.
pub enum Origin {
    Stdin,
    File,
    Dataset,
    Folder(Folder),
}

impl Origin {
    pub fn of(named: &Named, folders: &FolderArgs, fields: &FieldArgs) -> Result<Self, Failure> {
        let path = &*named.path;
        if path == Path::new(STDIN) {
            return Ok(Self::Stdin);
        }
        let is_given = fields.are_given();
        let folder = if path.is_dir() {
            if Dataset::is_at(path) {
                return Ok(Self::Dataset);
            }
            Folder::open(path)?
        } else if !is_given && (folders.prints(path) || Folder::reads(path) && is_plain_text(path)) {
            Folder::of_file(path)?
        } else {
            // Plain text has no recognisable content, but JSON does.
            return Ok(Self::File);
        };
        let name = named.name.as_ref();
        Ok(Self::Folder(name.iter().fold(folders.of(folder), |own, name| own.prefixed(format!("{name}/")))))
    }

    /// Refuses options that do not apply.
    pub fn check(
        &self,
        named: &Named,
        folders: &FolderArgs,
        fields: &FieldArgs,
        is_sync: bool,
    ) -> Result<(), Failure> {
        let path = &*named.path;
        let is_text = matches!(self, Self::Folder(_));
        let is_folder = path.is_dir();
        let name = printing::path(path);
        let wrong = |what: &str| Err(Failure::Usage(format!("{name}: {what}")));
        if is_sync && path != Path::new(STDIN) {
            path.metadata().map_err(Failure::file("open", path))?;
        }
        if is_sync && matches!(self, Self::Dataset) {
            return wrong("only folders of text files are synchronised; this one holds a dataset");
        }
        if is_sync && !(is_text && is_folder) {
            return wrong("only folders of text files are synchronised");
        }
        if folders.source.is_some() && !is_text {
            return wrong("`--source` is for text files");
        }
        if let Some(name) = named.name.as_ref().filter(|_| !is_text) {
            return wrong(&format!("a name (`{name}=`) is for text files"));
        }
        if !folders.pre.is_empty() && !(is_text && (is_folder || folders.prints(path))) {
            return wrong("`--pre` is for folders, and for files with its suffix");
        }
        if folders.no_ignore && !(is_text && is_folder) {
            return wrong("`--no-ignore` is for folders of text files");
        }
        if folders.code && !(is_text && is_folder) {
            return wrong("`--code` is for folders; a single file of source code is read without it");
        }
        if fields.are_given() && is_folder {
            return wrong("a folder has no use for `--format` and the names of fields");
        }
        Ok(())
    }

    pub fn opener(self, path: &Path, name: String, input: Input) -> Result<Opener, Failure> {
        Ok(match self {
            Self::Stdin => Box::new(move || input.read(arguments::stdin(), name)),
            Self::File => {
                let path = path.to_owned();
                Box::new(move || input.open(path))
            }
            Self::Dataset => {
                let dataset = Dataset::open(path)?;
                Box::new(move || dataset.corpus())
            }
            Self::Folder(folder) => Box::new(move || Ok(folder.documents())),
        })
    }
}

/// All documents that a path names.
pub fn documents(path: &Path, fields: &FieldArgs) -> Result<Documents, Failure> {
    let (named, folders) = (Named { name: None, path: path.to_owned() }, FolderArgs::default());
    let origin = Origin::of(&named, &folders, fields)?;
    origin.check(&named, &folders, fields, false)?;
    Ok(origin.opener(path, name(path), fields.input(None, false))?()?)
}

impl FolderArgs {
    /// Refuses one name for several folders, because the sync of each would remove the documents of the
    /// others, and two commands for a suffix.
    pub fn check(&self, inputs: usize, is_sync: bool) -> Result<(), Failure> {
        if is_sync && self.source.is_some() && inputs > 1 {
            let what = "`--source` takes one folder here: the documents of another one would be removed";
            return Err(Failure::Usage(what.to_owned()));
        }
        let suffix = |place: usize| self.pre[place].suffix();
        if let Some(twice) = (1..self.pre.len())
            .find(|&place| (0..place).any(|before| suffix(before).eq_ignore_ascii_case(suffix(place))))
        {
            let what = format!("`--pre` names the suffix `{}` twice; name one command for it", suffix(twice));
            return Err(Failure::Usage(what));
        }
        Ok(())
    }

    /// Whether the source is named.
    pub fn is_named(&self) -> bool {
        self.source.is_some()
    }

    /// Whether a command reads a file.
    fn prints(&self, path: &Path) -> bool {
        self.pre.iter().any(|command| command.reads(path))
    }

    fn of(&self, folder: Folder) -> Folder {
        let folder = if self.no_ignore { folder.with_ignored() } else { folder };
        let folder = if self.code { folder.with_code() } else { folder };
        let folder = self.pre.iter().cloned().fold(folder, Folder::pre);
        self.source.iter().fold(folder, |folder, source| folder.named(source))
    }
}

/// The failure of an input. That of a file of an unknown kind says how a command could read it.
pub fn failure(path: &Path, error: DataError) -> Failure {
    const TABLES: [&str; 6] = ["csv", "tsv", "json", "jsonl", "parquet", "arrow"];
    let suffix = path.extension().and_then(OsStr::to_str).filter(|suffix| !TABLES.contains(suffix));
    // The braces of other files are not those of JSON.
    let is_unknown = match error.kind() {
        DataErrorKind::Format => path.is_file(),
        DataErrorKind::Json => error.line() == Some(1) && path.is_file(),
        _ => false,
    };
    match suffix.filter(|_| is_unknown) {
        Some(suffix) => Failure::Usage(format!(
            "{}; or `--pre {suffix}=COMMAND` reads it by a command that prints the text of a file",
            Failure::from(error).line()
        )),
        None => error.into(),
    }
}

/// The name of a path in errors.
pub fn name(path: &Path) -> String {
    if path == Path::new(STDIN) { "<stdin>".to_owned() } else { printing::path(path) }
}

/// Whether a regular file is read as plain text: its content is neither JSON lines, except in a notebook, nor
/// compressed. If it is unreadable, a later read reports the error.
fn is_plain_text(path: &Path) -> bool {
    // Bytes read here from a pipe would be lost.
    if !path.is_file() {
        return !path.exists();
    }
    let mut head = [0; 64];
    let read = File::open(path).and_then(|mut file| file.read(&mut head)).unwrap_or_default();
    let head = &head[..read];
    let text = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head).trim_ascii_start();
    let object = text.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""));
    let is_notebook = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"));
    (!object || is_notebook) && !head.starts_with(b"\x1f\x8b") && !head.starts_with(b"\x28\xb5\x2f\xfd")
}
