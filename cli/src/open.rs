//! Opens files and addresses in the user's programs.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use ehi::Hit;
use ehi::data::Folder;
use ehi::search::QuestionWords;

use crate::failure::Failure;
use crate::hits;
use crate::printing;
use crate::text::escaped;

/// Programs that open an address or a file in the program for it.
const OPENERS: [&str; 2] = ["xdg-open", "open"];
/// Editors that take `--goto FILE:LINE`.
const GOTO_EDITORS: [&str; 5] = ["code", "code-insiders", "codium", "cursor", "windsurf"];
/// Editors that take `FILE:LINE`; all others take `+LINE FILE`.
const COLON_EDITORS: [&str; 3] = ["hx", "subl", "zed"];

/// Endings of files that open on the desktop, which may run others, such as source code.
const ON_DESKTOP: [&str; 7] = ["html", "htm", "pdf", "docx", "odt", "epub", "eml"];

/// Opens an address in the browser; `false` if there is no program that does.
#[cfg(feature = "explore")]
pub fn address(address: &str) -> bool {
    OPENERS.iter().any(|opener| silent(opener, address.as_ref()).spawn().is_ok())
}

/// Starts the program that the desktop has for a file; `false` if there is none.
fn on_desktop(file: &Path) -> bool {
    OPENERS
        .iter()
        .any(|opener| silent(opener, file.as_os_str()).status().is_ok_and(|status| status.success()))
}

fn silent(opener: &str, what: &OsStr) -> Command {
    let mut command = Command::new(opener);
    command.arg(what).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Opens the file of a hit: in the editor, at the line of its snippet, or one of [`ON_DESKTOP`] on the
/// desktop.
pub fn hit(hit: &Hit, words: &QuestionWords) -> Result<(), Failure> {
    let Some(file) = hits::file(hit) else {
        return Err(Failure::Usage(format!(
            "`{}` is not from a file of a known folder; `ehi get` prints it",
            escaped(&hit.id)
        )));
    };
    let about = file.symlink_metadata().map_err(Failure::file("open", &file))?;
    // A document can claim to be from any file.
    if !about.is_file() || !Folder::reads(&file) {
        let what = "is not a file of a kind that `ehi` reads; open it yourself";
        return Err(Failure::Usage(format!("{} {what}", printing::path(&file))));
    }
    if !file.extension().is_some_and(|own| ON_DESKTOP.iter().any(|ending| own.eq_ignore_ascii_case(ending))) {
        let line = hit.snippet(words, hits::SHOWN).line.unwrap_or(1);
        let mut editors = ["VISUAL", "EDITOR"].iter().filter_map(|name| env::var(name).ok());
        let editor = editors.find(|own| !own.trim().is_empty());
        let none = || Failure::Usage(format!("EDITOR names no editor for {}:{line}", printing::path(&file)));
        return edit(&editor.ok_or_else(none)?, &file, line);
    }
    if on_desktop(&file) {
        eprintln!("note: opened {}", printing::path(&file));
        return Ok(());
    }
    Err(Failure::Usage(format!("the desktop has no program that opens {}", printing::path(&file))))
}

/// Waits for the editor, which may be in this terminal.
fn edit(editor: &str, file: &Path, line: u32) -> Result<(), Failure> {
    let program = editor.split_whitespace().next().unwrap_or_default().trim_matches(['"', '\'']);
    // As other programs do, so that it may have arguments and quotes.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(program);
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_goto = GOTO_EDITORS.contains(&name);
    if is_goto || COLON_EDITORS.contains(&name) {
        command.args(is_goto.then_some("--goto"));
        let mut place = file.as_os_str().to_owned();
        place.push(format!(":{line}"));
        command.arg(place);
    } else {
        command.arg(format!("+{line}")).arg(file);
    }
    let status = command.status().map_err(Failure::file("run", Path::new("sh")))?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::Usage(format!("the editor `{}` failed: {status}", escaped(editor)))),
    }
}
