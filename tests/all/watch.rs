//! `ehi watch`: an index that follows its folders.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::mem;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use ehi::Index;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Flow, Ran, command, text};

/// The longest time for what is awaited.
const LONG: Duration = Duration::from_secs(90);

struct Watching {
    child: Child,
    /// Lines of standard output.
    said: Receiver<String>,
    /// Lines of standard error.
    noted: Receiver<String>,
}

impl Watching {
    fn begin(flow: &Flow, rest: &[&str]) -> Self {
        let mut command = command();
        command.args(["watch", "--index", &flow.index()]).args(rest);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = |from: Box<dyn std::io::Read + Send>| {
            let (send, lines) = channel();
            thread::spawn(move || {
                for line in BufReader::new(from).lines() {
                    send.send(line.unwrap()).unwrap();
                }
            });
            lines
        };
        let said = lines(Box::new(child.stdout.take().unwrap()));
        let noted = lines(Box::new(child.stderr.take().unwrap()));
        let watching = Self { child, said, noted };
        watching.notes("watching ");
        watching
    }

    /// Waits for a line on standard error.
    #[track_caller]
    fn notes(&self, part: &str) -> String {
        let mut before = String::new();
        loop {
            let line = self.noted.recv_timeout(LONG);
            let line = line.unwrap_or_else(|_| panic!("no line with {part:?} after {before:?}"));
            if line.contains(part) {
                return line;
            }
            before += &line;
        }
    }

    /// Ends it as Ctrl-C does.
    fn end(self) -> Ran {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut ran = Ran::of(self.child.wait_with_output().unwrap());
        ran.out = self.said.iter().map(|line| line + "\n").collect();
        ran.err = self.noted.iter().map(|line| line + "\n").collect();
        ran
    }
}

fn stored(flow: &Flow) -> BTreeMap<String, String> {
    let index = Index::open_read_only(flow.path("index")).unwrap();
    let documents = index.iter().map(Result::unwrap);
    documents.map(|document| (document.id, document.text)).collect()
}

#[track_caller]
fn wait_until(flow: &Flow, expected: &BTreeMap<String, String>) {
    let started = Instant::now();
    while stored(flow) != *expected {
        assert!(started.elapsed() < LONG, "{:?} and not {expected:?}", stored(flow));
        thread::sleep(Duration::from_millis(100));
    }
}

/// Changes of the files of two folders, with what the index must have in the end.
struct Folders {
    rng: ChaCha8Rng,
    roots: [(&'static str, PathBuf); 2],
    files: BTreeMap<String, String>,
    /// Contents written.
    written: usize,
}

impl Folders {
    fn path(&self, id: &str) -> PathBuf {
        let (name, file) = id.split_once('/').unwrap();
        let (_, root) = self.roots.iter().find(|(own, _)| *own == name).unwrap();
        root.join(file)
    }

    fn some(&mut self) -> Option<String> {
        let place = self.rng.random_range(0..self.files.len().max(1));
        self.files.keys().nth(place).cloned()
    }

    fn new_id(&mut self) -> String {
        let (root, folder) = (self.rng.random_range(0..2), self.rng.random_range(0..4));
        let number = self.rng.random_range(0..10_000);
        format!("{}/{folder}/deep/{number}.txt", self.roots[root].0)
    }

    fn content(&mut self) -> String {
        self.written += 1;
        format!("leaf {} of a tree", self.written)
    }

    fn write(&mut self, id: String) {
        let (path, content) = (self.path(&id), self.content());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &content).unwrap();
        self.files.insert(id, content);
    }

    fn change(&mut self) {
        let id = match self.some() {
            Some(id) => id,
            None => self.new_id(),
        };
        let path = self.path(&id);
        match self.rng.random_range(0..10) {
            0..3 => {
                let id = self.new_id();
                self.write(id);
            }
            3..5 => self.write(id),
            // As editors save: a new file takes the place of the old one, which is moved away.
            5..7 => {
                let (content, backup) = (self.content(), path.with_extension("txt~"));
                fs::rename(&path, &backup).unwrap();
                fs::write(path.with_extension("part"), &content).unwrap();
                fs::rename(path.with_extension("part"), &path).unwrap();
                fs::remove_file(backup).unwrap();
                self.files.insert(id, content);
            }
            7 => {
                fs::remove_file(path).unwrap();
                self.files.remove(&id);
            }
            8 => {
                let to = self.new_id();
                let target = self.path(&to);
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                fs::rename(path, target).unwrap();
                let content = self.files.remove(&id).unwrap();
                self.files.insert(to, content);
                self.written += 1;
            }
            // A folder is moved, with all that is in it.
            _ => {
                let (from, to) = (self.rng.random_range(0..4), self.rng.random_range(4..100));
                let (name, root) = self.roots[self.rng.random_range(0..2)].clone();
                if fs::rename(root.join(from.to_string()), root.join(to.to_string())).is_ok() {
                    let (before, after) = (format!("{name}/{from}/"), format!("{name}/{to}/"));
                    let (moved, rest): (BTreeMap<_, _>, _) =
                        mem::take(&mut self.files).into_iter().partition(|(id, _)| id.starts_with(&before));
                    self.files = rest;
                    self.written += moved.len();
                    let moved = moved.into_iter().map(|(id, text)| (id.replace(&before, &after), text));
                    self.files.extend(moved);
                }
            }
        }
    }
}

#[test]
fn changes_of_two_folders_are_followed_and_nothing_is_encoded_twice() {
    let flow = Flow::new();
    let roots = ["one", "two"].map(|name| (name, flow.path(name)));
    roots.iter().for_each(|(_, root)| fs::create_dir(root).unwrap());
    let rng = ChaCha8Rng::seed_from_u64(43);
    let mut folders = Folders { rng, roots, files: BTreeMap::new(), written: 0 };
    for number in 0..30 {
        folders.write(format!("one/{}/deep/{number}.txt", number % 4));
        folders.write(format!("two/{}/deep/{number}.txt", number % 4));
    }
    let named = |name: &str| format!("{name}={}", flow.path(name).display());
    let watching = Watching::begin(&flow, &["--json", &named("one"), &named("two")]);
    wait_until(&flow, &folders.files);
    for change in 0..300 {
        folders.change();
        // Bursts and pauses.
        thread::sleep(Duration::from_millis(if change % 100 == 99 { 700 } else { 8 }));
    }
    wait_until(&flow, &folders.files);
    let ran = watching.end();
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let rounds: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stored: u64 = rounds
        .iter()
        .flat_map(|round| [&round["inserted"], &round["replaced"]])
        .filter_map(Value::as_u64)
        .sum();
    assert!(stored <= folders.written as u64, "{stored} of {}", folders.written);
    let [one, two] = ["one", "two"].map(named);
    let said = flow.run("insert", &["--sync", &one, &two]).ok();
    let unchanged = format!("0 inserted, 0 replaced, {} unchanged; ", folders.files.len());
    assert!(said.starts_with(&unchanged), "{said}");
    assert!(flow.run("verify", &[]).ok().starts_with("sound: "));
}

/// A folder that cannot be followed for a while costs a warning, and no document.
#[test]
fn a_folder_that_is_gone_for_a_while_keeps_its_documents() {
    let flow = Flow::new();
    let (folder, other) = (flow.path("notes"), flow.path("other"));
    for folder in [&folder, &other] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("tea.md"), format!("# Tea\n\n{}", folder.file_name().unwrap().display()))
            .unwrap();
    }
    fs::write(folder.join("bad.md"), b"\xff\xfe\xff").unwrap();
    // A file of the first folder has the id.
    let watching = Watching::begin(&flow, &[text(&folder), text(&other)]);
    let away = flow.path("away");
    fs::rename(&folder, &away).unwrap();
    watching.notes("warning: ");
    assert_eq!(stored(&flow).len(), 1);
    fs::rename(&away, &folder).unwrap();
    fs::write(folder.join("new.md"), "A new one.").unwrap();
    // The other folder's file takes the id once it is free, and is not deleted with the first folder's.
    fs::remove_file(folder.join("tea.md")).unwrap();
    let texts = |texts: &[(&str, &str)]| {
        texts.iter().map(|&(id, text)| (id.to_owned(), text.to_owned())).collect::<BTreeMap<_, _>>()
    };
    wait_until(&flow, &texts(&[("new.md", "A new one."), ("tea.md", "other")]));
    fs::write(folder.join("tea.md"), "# Tea\n\nToo late.").unwrap();
    fs::remove_file(folder.join("new.md")).unwrap();
    wait_until(&flow, &texts(&[("tea.md", "other")]));
    fs::remove_file(folder.join("tea.md")).unwrap();
    fs::write(folder.join("last.md"), "The last.").unwrap();
    wait_until(&flow, &texts(&[("last.md", "The last."), ("tea.md", "other")]));
    let ran = watching.end();
    assert_eq!(ran.code, Some(0));
    // Each refused file was said once.
    assert_eq!(ran.err.matches("refused: ").count(), 1, "{}", ran.err);
}

/// Reading takes time, in which files are removed that were listed before.
#[test]
fn a_file_that_is_removed_while_others_are_read_loses_its_document() {
    let flow = Flow::new();
    let folder = flow.path("notes");
    fs::create_dir(&folder).unwrap();
    for name in ["a.md", "b.md"] {
        fs::write(folder.join(name), "Steep it.").unwrap();
    }
    let script = flow.path("script");
    fs::write(&script, format!("#!/bin/sh\nrm {}\ncat \"$1\"\n", text(&folder.join("a.md")))).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let watching = Watching::begin(&flow, &["--pre", &format!("cmd={}", script.display()), text(&folder)]);
    assert_eq!(stored(&flow).len(), 2);
    fs::remove_file(folder.join("b.md")).unwrap();
    fs::write(folder.join("c.cmd"), "A command reads it.").unwrap();
    wait_until(&flow, &BTreeMap::from([("c.cmd".to_owned(), "A command reads it.".to_owned())]));
    assert_eq!(watching.end().code, Some(0));
}

#[test]
fn a_file_that_is_emptied_for_a_while_gets_its_document_back() {
    let flow = Flow::new();
    let folder = flow.path("notes");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.md"), "Steep it.").unwrap();
    fs::write(folder.join("b.md"), "Steep it.").unwrap();
    let watching = Watching::begin(&flow, &[text(&folder)]);
    let [one, both] = [1, 2].map(|count| {
        ["b.md", "a.md"][..count].iter().map(|name| ((*name).to_owned(), "Steep it.".to_owned())).collect()
    });
    fs::write(folder.join("a.md"), "").unwrap();
    wait_until(&flow, &one);
    fs::write(folder.join("a.md"), "Steep it.").unwrap();
    wait_until(&flow, &both);
    assert_eq!(watching.end().code, Some(0));
}

/// The round that finds the folder without text fails, and must not be the last to look at the empty file.
#[test]
fn a_file_emptied_in_a_failed_round_loses_its_document_in_the_next() {
    let flow = Flow::new();
    let folder = flow.path("notes");
    fs::create_dir(&folder).unwrap();
    for name in ["a.md", "b.md"] {
        fs::write(folder.join(name), "Steep it.").unwrap();
    }
    let watching = Watching::begin(&flow, &[text(&folder)]);
    fs::remove_file(folder.join("a.md")).unwrap();
    fs::write(folder.join("b.md"), "").unwrap();
    watching.notes("warning: ");
    assert!(stored(&flow).contains_key("b.md"));
    fs::write(folder.join("c.md"), "Steep it.").unwrap();
    wait_until(&flow, &BTreeMap::from([("c.md".to_owned(), "Steep it.".to_owned())]));
    assert_eq!(watching.end().code, Some(0));
}

/// The system does not report what happens above a folder.
#[test]
fn another_folder_in_the_place_of_one_is_followed_and_behind_a_link_it_is_not() {
    let flow = Flow::new();
    let [above, other, link] = ["above", "other", "link"].map(|name| flow.path(name));
    for (folder, name) in [(&above, "old.md"), (&other, "new.md")] {
        fs::create_dir_all(folder.join("notes")).unwrap();
        fs::write(folder.join("notes").join(name), "Steep it.").unwrap();
    }
    symlink(&other, &link).unwrap();
    let notes = above.join("notes");
    let linked = format!("link={}", link.join("notes").display());
    let watching = Watching::begin(&flow, &[text(&notes), &linked]);
    fs::rename(&above, flow.path("away")).unwrap();
    fs::create_dir_all(&notes).unwrap();
    fs::write(notes.join("later.md"), "Steep it.").unwrap();
    let expected = ["later.md", "link/new.md"].map(|id| (id.to_owned(), "Steep it.".to_owned()));
    wait_until(&flow, &BTreeMap::from(expected.clone()));
    fs::remove_file(&link).unwrap();
    symlink(&above, &link).unwrap();
    assert!(watching.notes("warning: ").contains("leads to"));
    assert_eq!(stored(&flow), BTreeMap::from(expected));
    assert_eq!(watching.end().code, Some(0));
}

#[test]
fn only_folders_of_text_files_are_watched() {
    let flow = Flow::new();
    let folder = flow.path("notes");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("tea.md");
    fs::write(&file, "Steep it.").unwrap();
    let dataset = crate::support::dataset();
    for (path, expected) in [
        (&*file, "only folders of text files are"),
        (dataset, "holds a dataset"),
        (Path::new("-"), "only folders of text files are"),
    ] {
        let line = flow.run("watch", &[text(path)]).failure();
        assert!(line.contains(expected), "{line}");
    }
    // Where the system reports nothing.
    let watching = Watching::begin(&flow, &["--poll", "0.2", text(&folder)]);
    fs::write(&file, "Steep it well.").unwrap();
    wait_until(&flow, &BTreeMap::from([("tea.md".to_owned(), "Steep it well.".to_owned())]));
    assert_eq!(watching.end().code, Some(0));
}
