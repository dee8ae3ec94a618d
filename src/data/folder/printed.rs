//! The text of files that a command of the user prints.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::text::Page;
use super::{MAX_FILE_BYTES, Markup};
use crate::data::error::{DataError, DataErrorKind};
use crate::data::input::foreign;
use crate::data::lines::BYTE_ORDER_MARK;

/// The longest that a command may run for a file.
const LONGEST: Duration = Duration::from_secs(60);
/// How often an ended command is waited for.
const POLL: Duration = Duration::from_millis(5);
/// Bytes of a command's messages that are kept, and characters of the first line that are shown.
const MOST_SAID: u64 = 4 << 10;
const MOST_SHOWN: usize = 200;

/// A command that prints the text of files with a suffix; see [`Folder::pre`](super::Folder::pre).
///
/// As a text it is `SUFFIX=COMMAND`, with spaces between the command's words.
///
/// # Examples
///
/// ```
/// let command: ehi::data::PreCommand = "rtf=unrtf --text".parse()?;
/// assert!(command.reads("letter.RTF"));
/// # Ok::<(), ehi::data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreCommand {
    suffix: String,
    words: Vec<String>,
}

impl FromStr for PreCommand {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        let (suffix, command) = text.split_once('=').unwrap_or_default();
        let suffix = suffix.strip_prefix('.').unwrap_or(suffix);
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if suffix.is_empty() || suffix.contains(['.', '/']) || words.is_empty() {
            let message = format!(
                "`{text}` is not SUFFIX=COMMAND, such as `rtf=unrtf --text`; a suffix is what follows the last dot \
                 of a name"
            );
            return Err(DataError::new(DataErrorKind::Option, message));
        }
        Ok(Self { suffix: suffix.to_owned(), words })
    }
}

impl PreCommand {
    /// The suffix of the files that it reads, without a dot.
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// Whether it reads a file with this name: suffixes match in upper and lower case.
    pub fn reads(&self, path: impl AsRef<Path>) -> bool {
        path.as_ref().extension().is_some_and(|own| own.eq_ignore_ascii_case(&*self.suffix))
    }

    /// What it prints for a file, as plain text.
    pub(super) fn page(&self, path: &Path) -> Result<Page, DataError> {
        let text = self.text(path, LONGEST)?;
        // Only a notebook can be wrong.
        let page = Markup::Plain.page(&text).unwrap_or_default();
        Ok(Page { outline: page.outline.without_lines(), ..page })
    }

    fn text(&self, path: &Path, longest: Duration) -> Result<String, DataError> {
        let fails =
            |kind, what: &str| DataError::of_path(path, kind, format!("`{}` {what}", self.words.join(" ")));
        let failed = |what: &str| fails(DataErrorKind::Command, what);
        let mut child = self.start(path).map_err(|source| failed("cannot be run").with(source))?;
        let until = Instant::now() + longest;
        let printed = collected(child.stdout.take(), MAX_FILE_BYTES + 1);
        let said = collected(child.stderr.take(), MOST_SAID);
        // It is waited for once its output has ended, as it may fail after that.
        let text = printed.recv_timeout(longest).ok();
        let is_too_large = text.as_ref().is_some_and(|text| text.len() as u64 > MAX_FILE_BYTES);
        let ended = match text {
            Some(text) if !is_too_large => wait(&mut child, until).map(|status| (text, status)),
            _ => None,
        };
        let Some((text, status)) = ended else {
            end(&mut child);
            return Err(match is_too_large {
                true => fails(
                    DataErrorKind::TooLarge,
                    &format!("printed more than {MAX_FILE_BYTES} bytes; split the file"),
                ),
                false => failed(&format!("took more than {} seconds and was ended", longest.as_secs_f32())),
            });
        };
        if !status.success() {
            let said = said.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let line: String =
                said.trim().lines().next().unwrap_or_default().chars().take(MOST_SHOWN).collect();
            let between = if line.is_empty() { "" } else { ": " };
            let status = status.to_string().replacen(": ", " ", 1);
            return Err(failed(&format!("failed with {status}{between}{line}")));
        }
        if text.trim_ascii().is_empty() {
            return Err(failed("printed nothing; its text must go to standard output"));
        }
        let what = foreign(&text).map(|(what, _)| what);
        match String::from_utf8(text) {
            Ok(text) if what.is_none() => {
                Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text))
            }
            _ => {
                let what = what.unwrap_or("text that is not UTF-8");
                Err(fails(DataErrorKind::Encoding, &format!("printed {what}; it must print text in UTF-8")))
            }
        }
    }

    fn start(&self, path: &Path) -> io::Result<Child> {
        // It would be taken for an option.
        let is_option = path.as_os_str().as_encoded_bytes().starts_with(b"-");
        let path = if is_option { Path::new(".").join(path) } else { path.to_owned() };
        let (program, words) = self.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        // A group of its own, which is ended with everything that it started.
        Command::new(program)
            .args(words)
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }
}

/// The first bytes of a stream, once there are so many or it has ended. The rest is read and dropped, so that
/// the command does not wait for it.
fn collected(stream: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    let (send, received) = channel();
    thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut first = Vec::new();
        let read = stream.by_ref().take(most).read_to_end(&mut first);
        // Nobody may wait for it any more.
        if read.is_ok() && send.send(first).is_ok() {
            let _ = io::copy(&mut stream, &mut io::sink());
        }
    });
    received
}

/// How a command ended; `None` if it runs on at that time.
fn wait(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => thread::sleep(POLL),
            _ => return None,
        }
    }
}

/// Ends a command that runs, and what it started.
fn end(child: &mut Child) {
    // It may have ended in the meantime.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A command that runs a script of the shell, with the file as `$0`.
    fn script(text: &str) -> PreCommand {
        let words = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
        PreCommand { suffix: "x".to_owned(), words }
    }

    #[test]
    fn commands_are_a_suffix_and_words() {
        let command: PreCommand = ".RTF=unrtf  --text".parse().unwrap();
        assert_eq!(
            command,
            PreCommand { suffix: "RTF".into(), words: vec!["unrtf".into(), "--text".into()] }
        );
        assert!(command.reads("a/b.rtf") && !command.reads("rtf") && !command.reads("b.rtf.gz"));
        for wrong in ["", "rtf", "rtf=", "=unrtf", ".=unrtf", "tar.gz=x", "rtf= "] {
            let error = wrong.parse::<PreCommand>().unwrap_err();
            assert_eq!(error.kind(), DataErrorKind::Option, "{wrong}");
        }
    }

    #[test]
    fn what_is_printed_is_plain_text_without_lines() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a b.x");
        fs::write(&file, "one\n\ntwo").unwrap();
        let command: PreCommand = "x=cat".parse().unwrap();
        let page = command.page(&file).unwrap();
        assert_eq!(page.text, "one\n\ntwo");
        assert_eq!(serde_json::to_string(&page.outline).unwrap(), "[[0],[5]]");
        // A shell would take this path apart, and a program would read it as an option.
        let said = script("echo \"$0\"").text(Path::new("-n $(x).x"), LONGEST).unwrap();
        assert_eq!(said, "./-n $(x).x\n");
    }

    #[test]
    fn failures_name_command_status_and_first_message() {
        let path = Path::new("f.x");
        for (text, kind, message) in [
            (
                "echo text; echo 'no font' >&2; echo more >&2; exit 3",
                DataErrorKind::Command,
                "failed with exit status 3: no font",
            ),
            ("kill -9 $$", DataErrorKind::Command, "failed with signal 9 (SIGKILL)"),
            ("printf 'a\\000b'", DataErrorKind::Encoding, "printed a binary file, with zero bytes; it must"),
            ("printf 'caf\\351'", DataErrorKind::Encoding, "printed text that is not UTF-8; it must"),
            ("cat /dev/zero", DataErrorKind::TooLarge, "printed more than 67108864 bytes"),
        ] {
            let error = script(text).text(path, LONGEST).unwrap_err();
            let said = error.to_string();
            assert!(
                error.kind() == kind && said.starts_with("f.x: `/bin/sh -c ") && said.contains(message),
                "{said}"
            );
            assert!(error.is_of_one_file());
        }
        let absent: PreCommand = "x=/absent/program".parse().unwrap();
        let said = absent.text(path, LONGEST).unwrap_err().to_string();
        assert_eq!(said, "f.x: `/absent/program` cannot be run");
        // Many messages do not make it wait.
        assert_eq!(script("head -c 300000 /dev/zero >&2; echo ok").text(path, LONGEST).unwrap(), "ok\n");
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid.x");
        for text in ["sleep 300 & echo $! > \"$0\"; wait", "sleep 300 & echo $! > \"$0\"; exec >&-; wait"] {
            let error = script(text).text(&pid, Duration::from_millis(500)).unwrap_err();
            assert!(error.to_string().contains("took more than 0.5 seconds"), "{error}");
            let sleeper = Pid::from_raw(fs::read_to_string(&pid).unwrap().trim().parse().unwrap()).unwrap();
            let is_gone = || rustix::process::test_kill_process(sleeper).is_err() || is_zombie(sleeper);
            assert!((0..200).any(|_| {
                thread::sleep(POLL);
                is_gone()
            }));
        }
    }

    /// Whether it has ended, and no process has asked how.
    fn is_zombie(pid: Pid) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        status.contains(") Z ")
    }
}
