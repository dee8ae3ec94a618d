//! Runs the `ehi` program on a separate index.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::Once;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Shape, bundle, corpus_lines, documents};

pub const SHAPE: Shape = Shape { height: 2 };

/// The result of running the binary.
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output of a success.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// The one line of a failure.
    #[track_caller]
    pub fn failure(self) -> String {
        assert_eq!(self.code, Some(1), "{}{}", self.out, self.err);
        self.line()
    }

    #[track_caller]
    pub fn line(&self) -> String {
        let line = self.err.strip_suffix('\n').unwrap_or(&self.err);
        assert!(line.starts_with("ehi: ") && !line.contains('\n'), "{}", self.err);
        line.to_owned()
    }
}

pub fn ehi<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    Ran::of(command().args(arguments).output().unwrap())
}

pub fn command() -> Command {
    static DEFAULT: Once = Once::new();
    // The program inherits which signals are ignored: SIGINT in the background of a script, SIGHUP under
    // nohup.
    #[allow(unsafe_code, reason = "no safe interface sets a signal's disposition")]
    DEFAULT.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGTERM] {
            // SAFETY: no handler is installed.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_ehi"));
    command.env_remove("RUST_LOG").env_remove("RUST_BACKTRACE").env("EHI_CACHE", "");
    command
}

/// A folder with an index made by the binary.
pub struct Flow {
    pub dir: TempDir,
}

impl Flow {
    /// An insert from standard input.
    pub fn inserting(&self) -> (Child, ChildStdin) {
        let mut child = command()
            .args(["insert", "--index", &self.index(), "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        (child, input)
    }

    pub fn new() -> Self {
        Self::with(&[])
    }

    /// An index created with these options.
    pub fn with(options: &[&str]) -> Self {
        let flow = Self { dir: tempfile::tempdir().unwrap() };
        let (index, model) = (flow.index(), bundle(SHAPE));
        let create = ["create", "--index", &index, "--model", text(model.path())];
        let said = ehi(create.iter().chain(options)).ok();
        assert!(said.contains("16 leaves") && said.contains("128 dimensions"), "{said}");
        flow
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn index(&self) -> String {
        text(&self.path("index")).to_owned()
    }

    /// A command on the index.
    pub fn run(&self, command: &str, rest: &[&str]) -> Ran {
        let index = self.index();
        ehi([command, "--index", &index].iter().chain(rest))
    }

    pub fn insert(&self, count: usize) {
        let file = self.path("documents.jsonl");
        fs::write(&file, corpus_lines(&documents(count))).unwrap();
        self.run("insert", &[text(&file)]).ok();
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A pseudo-terminal: the program's end, and ours.
pub struct Terminal {
    pub end: File,
    pub screen: File,
}

impl Terminal {
    pub fn new() -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap();
        let end = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        tcsetwinsize(&end, Winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        Self { end, screen: screen.into() }
    }

    pub fn stdio(&self) -> Stdio {
        self.end.try_clone().unwrap().into()
    }

    /// The rest of the output; the program's ends must be closed.
    pub fn rest(self) -> String {
        let Self { end, mut screen } = self;
        drop(end);
        let mut shown = Vec::new();
        // A terminal without a program ends with an error.
        let _ = screen.read_to_end(&mut shown);
        String::from_utf8(shown).unwrap().replace("\r\n", "\n")
    }
}

/// The output of a run on a terminal, both streams together, and its exit status.
pub fn on_terminal<S: AsRef<std::ffi::OsStr>>(
    arguments: impl IntoIterator<Item = S>,
) -> (Option<i32>, String) {
    let terminal = Terminal::new();
    let mut child = {
        let mut command = command();
        command.args(arguments).stdin(terminal.stdio()).stdout(terminal.stdio()).stderr(terminal.stdio());
        command.spawn().unwrap()
    };
    let shown = terminal.rest();
    (child.wait().unwrap().code(), shown)
}
