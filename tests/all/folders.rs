//! Folders of text files through the program: what becomes a document, and `--sync`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::program::{Flow, Ran, command, text};
use crate::support::{corpus_lines, documents};
use ehi::data::{DataErrorKind, Folder};
use ehi::{Document, Index, SearchRequest};
use serde_json::json;

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Changes a file so that its modification time shows it, whatever the resolution of the file system's clock.
fn change(folder: &Path, name: &str, content: &str) {
    write(folder, name, content);
    let later = SystemTime::now() + Duration::from_secs(60);
    let file = File::options().write(true).open(folder.join(name)).unwrap();
    file.set_times(FileTimes::new().set_modified(later)).unwrap();
}

fn named(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

fn notes(flow: &Flow) -> std::path::PathBuf {
    let folder = flow.path("notes");
    write(&folder, "tea.md", "# Tea\n\nSteep *it*.\n");
    write(&folder, "sub/page.HTML", "<title>Trees</title><p>have &amp; leaves<script>no</script>");
    write(&folder, "sub/plain.txt", "\u{feff} plain text\n");
    folder
}

fn stored(flow: &Flow) -> Vec<Document> {
    let index = Index::open_read_only(flow.path("index")).unwrap();
    index.iter().map(Result::unwrap).collect()
}

#[test]
fn files_of_a_folder_are_documents() {
    let flow = Flow::new();
    let folder = notes(&flow);
    for (name, content) in [
        ("sub/deeper/UPPER.Markdown", "no heading"),
        ("data.csv", "id,text\n"),
        ("image.png", "\x01"),
        ("without ending", "x"),
        ("empty.md", ""),
        ("only markup.html", "<p></p>"),
        (".hidden.md", "x"),
        (".git/config.txt", "x"),
        (".git/more.txt", "x"),
    ] {
        write(&folder, name, content);
    }
    symlink(folder.join("tea.md"), folder.join("link.md")).unwrap();
    symlink(&folder, folder.join("sub/loop")).unwrap();
    symlink("/absent", folder.join("broken.md")).unwrap();
    let said = flow.run("insert", &[text(&folder)]).ok();
    let not_read = "2 hidden entries, 3 links, 3 files of other kinds and 2 files without text";
    assert_eq!(said, format!("4 inserted, 0 replaced; not read: {not_read}; the index has 4 documents\n"));
    let found = stored(&flow);
    let texts: Vec<_> = found.iter().map(|d| (d.id.as_str(), d.title.as_str(), d.text.as_str())).collect();
    assert_eq!(
        texts,
        [
            ("sub/deeper/UPPER.Markdown", "UPPER", "no heading"),
            ("sub/page.HTML", "Trees", "have & leaves"),
            ("sub/plain.txt", "plain", "plain text"),
            ("tea.md", "Tea", "Steep it."),
        ]
    );
    let file = fs::metadata(folder.join("tea.md")).unwrap();
    let time = |seconds, nanoseconds: i64| {
        let time = chrono::DateTime::from_timestamp(seconds, nanoseconds.try_into().unwrap()).unwrap();
        let fraction = if nanoseconds == 0 { String::new() } else { format!(".{nanoseconds:09}") };
        format!("{}{fraction}Z", time.format("%Y-%m-%dT%H:%M:%S"))
    };
    let modified = time(file.mtime(), file.mtime_nsec());
    let changed = time(file.ctime(), file.ctime_nsec());
    let source = fs::canonicalize(&folder).unwrap();
    assert_eq!(
        found[3].metadata,
        Some(json!({
            "source": text(&source), "modified": modified, "bytes": 19, "changed": changed, "inode": file.ino()
        }))
    );
    // The folder may be a link, and files may be given one by one.
    symlink(&folder, flow.path("link")).unwrap();
    let said = flow.run("insert", &[text(&flow.path("link"))]).ok();
    assert!(said.starts_with("0 inserted, 4 replaced; not read: "), "{said}");
    let said = flow.run("insert", &["--source", "s", &named("n", &folder.join("tea.md"))]).ok();
    assert_eq!(said, "1 inserted, 0 replaced; the index has 5 documents\n");
    let index = Index::open_read_only(flow.path("index")).unwrap();
    let metadata = index.get("n/tea.md").unwrap().unwrap().metadata.unwrap();
    assert_eq!(metadata["source"], "s");
    // Lines of JSON are recognised in a text file, too.
    let lines = flow.path("lines.txt");
    fs::write(&lines, corpus_lines(&documents(3))).unwrap();
    assert!(flow.run("insert", &[text(&lines)]).ok().starts_with("3 inserted"));
}

#[test]
fn passages_are_found_under_their_headings_and_on_their_lines() {
    let flow = Flow::with(&["--passages", "24/8"]);
    let folder = flow.path("notes");
    let leaves = |count: usize| "leaf ".repeat(count);
    let guide = format!(
        "---\nyear: 2024\n---\n# Guide\n\n{}\n\n## Operate\n\n{}\n\n### Change\n\n{}\nthe root tree\n",
        leaves(12),
        leaves(12),
        leaves(12)
    );
    write(&folder, "sub/guide.md", guide);
    flow.run("insert", &[text(&folder)]).ok();
    let found = |flow: &Flow| {
        let index = Index::open_read_only(flow.path("index")).unwrap();
        let hits = index.search_with("leaf", &SearchRequest::default().passages(9)).unwrap();
        let mut passages = hits.hits[0].passages.clone();
        passages.sort_by_key(|passage| passage.start);
        let text = hits.hits[0].document.text.clone();
        let first = |start: usize| text[start..].lines().next().unwrap().trim().to_owned();
        passages.into_iter().map(|own| (own.line, own.headings, first(own.start))).collect::<Vec<_>>()
    };
    let headings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let expected = vec![
        (Some(6), headings(&[]), leaves(12).trim().to_owned()),
        (Some(8), headings(&["Operate"]), "Operate".to_owned()),
        (Some(12), headings(&["Operate", "Change"]), "Change".to_owned()),
    ];
    assert_eq!(found(&flow), expected);

    // As an editor reads it.
    let said = flow.run("search", &["--k", "1", "leaf"]).ok();
    let path = folder.canonicalize().unwrap().join("sub/guide.md");
    let lines: Vec<String> = [(6, ""), (8, "  Operate"), (12, "  Operate \u{203a} Change")]
        .map(|(line, under)| format!("     {}:{line}{under}\n", path.display()))
        .to_vec();
    assert!(lines.iter().any(|line| said.contains(line)), "{said}");

    // An export and an index with another model's passages know them, too.
    let other = Flow::with(&["--passages", "24/8"]);
    let exported = flow.path("export.jsonl");
    fs::write(&exported, flow.run("export", &[]).ok()).unwrap();
    other.run("insert", &[text(&exported)]).ok();
    assert_eq!((found(&other), stored(&other)), (expected, stored(&flow)));
    let line = |outline: &str| format!("{{\"_id\": \"a\", \"text\": \"leaf\", \"_outline\": {outline}}}\n");
    fs::write(&exported, line("[[999]]")).unwrap();
    let refused = other.run("insert", &[text(&exported)]);
    assert!(refused.code == Some(1) && refused.err.contains("outline"), "{}", refused.err);
    // Fields of the same name, and a line beyond all lines.
    for outline in ["[[0,1,7]]", "[[5],[5]]", "[[0,4294967295]]"] {
        fs::write(&exported, line(outline)).unwrap();
        other.run("insert", &[text(&exported)]).ok();
        other.run("search", &["leaf"]).ok();
    }
}

#[test]
fn a_folder_that_is_synced_twice_encodes_nothing() {
    let flow = Flow::new();
    flow.insert(5);
    let folder = notes(&flow);
    let sync = || flow.run("insert", &["--sync", text(&folder)]);
    let generation = || Index::open_read_only(flow.path("index")).unwrap().stats().unwrap().generation;
    assert_eq!(sync().ok(), "3 inserted, 0 replaced; the index has 8 documents\n");
    let before = generation();
    let said = sync().ok();
    assert_eq!(said, "0 inserted, 0 replaced, 3 unchanged; the index has 8 documents\n");
    assert_eq!(generation(), before, "something was written");

    change(&folder, "tea.md", "# Tea\n\nDrink it.\n");
    fs::rename(folder.join("sub/plain.txt"), folder.join("moved.txt")).unwrap();
    write(&folder, "new.md", "new");
    // A file that lost its text has no document.
    change(&folder, "sub/page.HTML", "<p>");
    let said = sync().ok();
    assert_eq!(
        said,
        "2 inserted, 1 replaced, 2 removed; not read: 1 file without text; the index has 8 documents\n"
    );
    let ids: Vec<String> = stored(&flow).into_iter().map(|d| d.id).collect();
    assert_eq!(ids[5..], ["moved.txt", "new.md", "tea.md"]);
    assert_eq!(stored(&flow)[7].text, "Drink it.");

    // The same size, and an earlier time: a different state.
    write(&folder, "new.md", "old");
    let file = File::options().write(true).open(folder.join("new.md")).unwrap();
    file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)).unwrap();
    let said = sync().ok();
    assert!(said.starts_with("0 inserted, 1 replaced, 2 unchanged; "), "{said}");
    assert!(sync().ok().starts_with("0 inserted, 0 replaced, 3 unchanged; "));
    // Without --sync everything is read again.
    let said = flow.run("insert", &[text(&folder)]).ok();
    assert!(said.starts_with("0 inserted, 3 replaced; "), "{said}");
}

#[test]
fn folders_do_not_touch_each_others_documents() {
    let flow = Flow::new();
    let folder = notes(&flow);
    let other = flow.path("other");
    write(&other, "tea.md", "other tea");
    write(&other, "alone.md", "alone");
    flow.run("insert", &["--sync", text(&folder)]).ok();
    let ran = flow.run("insert", &["--sync", text(&other)]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.out, "1 inserted, 0 replaced, 1 refused; the index has 4 documents\n");
    let source = fs::canonicalize(&folder).unwrap();
    let expected = format!(
        "refused: {}: the index has the document `tea.md` from {}; to update that document, give \
         `--source` that path; to keep both, name the folder: `NAME=FOLDER`\nehi: 1 of 2 documents refused, 1 stored\n",
        text(&other.join("tea.md")),
        text(&source)
    );
    assert_eq!(ran.err, expected);
    let said = flow.run("insert", &["--sync", &named("other", &other)]).ok();
    // A file whose id lacks the prefix keeps its document.
    assert_eq!(said, "2 inserted, 0 replaced; the index has 6 documents\n");
    assert!(flow.run("insert", &["--sync", text(&folder)]).ok().contains("3 unchanged; "));
    // A moved folder continues under its old name.
    let moved = flow.path("moved");
    fs::rename(&folder, &moved).unwrap();
    assert_eq!(flow.run("insert", &["--sync", text(&moved)]).code, Some(1));
    let said = flow.run("insert", &["--sync", "--source", text(&source), text(&moved)]).ok();
    assert!(said.starts_with("0 inserted, 0 replaced, 3 unchanged; "), "{said}");
}

/// The command stands for somebody else, who changes files while the folder is read.
#[test]
fn files_that_become_something_else_before_they_are_read_are_refused() {
    let flow = Flow::new();
    let folder = flow.path("notes");
    let [secret, script] = ["secret.txt", "script"].map(|name| flow.path(name));
    fs::write(&secret, "A secret.").unwrap();
    for name in ["a.cmd", "y.md", "z.md"] {
        write(&folder, name, "Steep it.");
    }
    let turn = format!(
        "cd {} && rm y.md z.md && mkfifo y.md && ln -s {} z.md && cat \"$1\"",
        folder.display(),
        secret.display()
    );
    fs::write(&script, format!("#!/bin/sh\n{turn}\n")).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let ran = flow.run("insert", &["--pre", &format!("cmd={}", script.display()), text(&folder)]);
    assert_eq!((ran.code, ran.err.matches("refused: ").count()), (Some(1), 2), "{}", ran.err);
    assert_eq!(stored(&flow).len(), 1);
}

/// In an editor that prints its arguments.
#[test]
fn a_hit_is_opened_at_its_line() {
    let flow = Flow::new();
    let folder = flow.path("notes");
    write(&folder, "tea.md", "# Tea\n\nA leaf.\n\n## Water\n\nSteep the zebra.\n");
    flow.run("insert", &[text(&folder)]).ok();
    flow.run("judge", &["zebra", "tea.md"]).ok();
    let file = fs::canonicalize(folder.join("tea.md")).unwrap();
    let open = |editor: &str, rest: &[&str]| {
        let mut command = command();
        command.args(["search", "--index", &flow.index(), "--open"]).args(rest);
        Ran::of(command.env("EDITOR", editor).env_remove("VISUAL").output().unwrap())
    };
    assert_eq!(open("echo -n", &["1", "zebra"]).ok(), format!("+7 {}", file.display()));
    let code = flow.path("code");
    symlink("/bin/echo", &code).unwrap();
    assert_eq!(open(text(&code), &["1", "zebra"]).ok(), format!("--goto {}:7\n", file.display()));
    assert!(open("false", &["1", "zebra"]).failure().contains("the editor `false` failed: "));
    assert!(open("echo", &["9", "zebra"]).failure().contains("hit 9 is not among the 1 hit found"));
    assert_eq!(open("echo", &["0", "zebra"]).code, Some(2));
    assert_eq!(open("echo '' \"a b\"", &["1", "zebra"]).ok(), format!(" a b +7 {}\n", file.display()));
    fs::remove_file(&file).unwrap();
    assert!(open("echo", &["1", "zebra"]).failure().contains("cannot open "));
    // The desktop could run a script, and has nothing better for a file that has no text but a title.
    write(&folder, "okapi.md", "# Okapi\n");
    write(&folder, "run.sh", "true");
    flow.run("insert", &[text(&folder.join("okapi.md"))]).ok();
    let source = fs::canonicalize(&folder).unwrap();
    let line = json!({ "_id": "run.sh", "text": "giraffe", "metadata": { "source": source } });
    let lines = flow.path("lines.jsonl");
    fs::write(&lines, line.to_string()).unwrap();
    flow.run("insert", &[text(&lines)]).ok();
    for (question, name) in [("okapi", "okapi.md"), ("giraffe", "run.sh")] {
        let said = open("echo", &["1", "--mode", "lexical", question]).ok();
        let file = source.join(name).display().to_string();
        assert_eq!(said, format!("+1 {file}\n"));
        let said = flow.run("search", &["--mode", "lexical", question]).ok();
        assert!(said.lines().any(|line| line.trim() == file), "{said}");
        assert!(
            open(" ", &["1", "--mode", "lexical", question]).failure().contains("EDITOR names no editor")
        );
    }
    // A document can claim anything.
    for (id, source, expected) in [
        ("etc/passwd", "/", "not a file of a kind that `ehi` reads"),
        ("../tea.md", "/etc", "is not from a file"),
        ("/etc/passwd", "/etc", "is not from a file"),
    ] {
        let line =
            json!({ "_id": id, "text": "zebra", "metadata": { "source": source }, "_outline": [[0, 1, 0]] });
        fs::write(&lines, line.to_string()).unwrap();
        flow.run("insert", &[text(&lines)]).ok();
        let filter = json!({ "source": source }).to_string();
        let line = open("echo", &["1", "--filter", &filter, "zebra"]).failure();
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named_and_their_documents_stay() {
    let flow = Flow::new();
    let folder = notes(&flow);
    let sync = || flow.run("insert", &["--sync", text(&folder)]);
    sync().ok();
    write(&folder, "tea.md", b"caf\xe9");
    File::create(folder.join("large.txt")).unwrap().set_len((64 << 20) + 1).unwrap();
    fs::write(folder.join(OsStr::from_bytes(b"b\xff.md")), "text").unwrap();
    write(&folder, &format!("{}/{}.md", "x".repeat(250), "y".repeat(250)), "long");
    write(&folder, &format!("{}/{}/z.md", "x".repeat(250), "y".repeat(250)), "long");
    write(&folder, &format!("{}/{}/{}.md", "x".repeat(250), "y".repeat(250), "z".repeat(9)), "too long");
    let ran = sync();
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let says = "2 inserted, 0 replaced, 2 unchanged, 4 refused; the index has 5 documents\n";
    assert_eq!(ran.out, says, "{}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    let at = |name: &str| format!("refused: {}", text(&folder.join(name)));
    let expected = [
        format!(
            "refused: {}/b\u{fffd}.md: the name is not UTF-8, so it cannot be an id; rename it",
            text(&folder)
        ),
        format!("{}: 67108865 bytes, at most 67108864 are read; split it", at("large.txt")),
        format!("{}: not UTF-8 from byte 3; convert the file", at("tea.md")),
        format!("refused: {}: {}/{}/zzzzzzzzz.md: ", text(&folder), "x".repeat(250), "y".repeat(250)),
        "ehi: 4 of 6 documents refused, 2 stored".to_owned(),
    ];
    assert_eq!(lines.len(), expected.len(), "{}", ran.err);
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(&expected), "{line}\n{expected}");
    }
    let tea = Index::open_read_only(flow.path("index")).unwrap().get("tea.md").unwrap().unwrap();
    assert_eq!(tea.text, "Steep it.");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_stored() {
    let flow = Flow::new();
    let folder = notes(&flow);
    let table = flow.path("table.csv");
    fs::write(&table, "id,text\n1,x\n").unwrap();
    let (folder, table) = (text(&folder), text(&table));
    let dataset = text(crate::support::dataset());
    let nothing = flow.path("nothing");
    write(&nothing, "a.bin", "x");
    let synced = flow.run("insert", &["--sync", folder]).ok();
    assert!(synced.starts_with("3 inserted"));
    for (rest, expected) in [
        (vec!["--sync", folder, table], "table.csv: only folders of text files are"),
        (vec!["--sync", "no-such-folder"], "cannot open no-such-folder: No such file or directory"),
        (vec!["--sync", dataset], "only folders of text files are"),
        (vec!["--sync", "-"], "-: only folders of text files are"),
        (vec!["--source", "s", table], "`--source` is for text files"),
        (vec![&format!("s={dataset}")], "a name (`s=`) is for text files"),
        (vec!["--id", "x", folder], "notes: a folder has no use for `--format` and the names of fields"),
        (vec!["--format", "csv", dataset], "a folder has no use for"),
        (
            vec![text(&nothing)],
            "nothing: no dataset and no file that is read here, also in its folders (found: a.bin); give files of other kinds by their names",
        ),
        (vec!["--sync", text(&nothing)], "(found: a.bin)"),
    ] {
        let line = flow.run("insert", &rest).failure();
        assert!(line.contains(expected), "{line}");
    }
    // An unmounted disk is an empty folder.
    fs::remove_dir_all(folder).unwrap();
    fs::create_dir(folder).unwrap();
    let line = flow.run("insert", &["--sync", folder]).failure();
    assert!(line.contains("(found: none)"), "{line}");
    assert_eq!(stored(&flow).len(), 3);
    let absent = flow.path("absent.md");
    assert!(flow.run("insert", &[text(&absent)]).failure().contains("absent.md: cannot be opened"));
    let error = Folder::open(flow.path("absent")).unwrap_err();
    assert_eq!(error.kind(), DataErrorKind::Missing, "{error}");
}

#[test]
fn a_sync_that_was_killed_is_made_good_by_the_next() {
    let flow = Flow::new();
    let folder = flow.path("many");
    let name = |number: usize| format!("{}/{number:04}.txt", number % 7);
    for number in 0..2_600 {
        write(&folder, &name(number), format!("leaf {number}"));
    }
    let mut expected: BTreeSet<(String, String)> =
        (0..2_600).map(|number| (name(number), format!("leaf {number}"))).collect();
    let killed = |delay| {
        let mut child = command()
            .args(["insert", "--index", &flow.index(), "--sync", text(&folder)])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(delay);
        // It may have ended already.
        let _ = child.kill();
        child.wait().unwrap();
    };
    let found = || -> BTreeSet<(String, String)> {
        stored(&flow).into_iter().map(|document| (document.id, document.text)).collect()
    };
    for round in 0..2 {
        for delay in [100, 300, 600, 900] {
            killed(Duration::from_millis(delay));
            flow.run("recover", &[]).ok();
            let found = found();
            assert!(round == 1 || found.is_subset(&expected));
            // It cannot have ended this soon.
            assert!(delay > 100 || found != expected);
        }
        let said = flow.run("insert", &["--sync", text(&folder)]).ok();
        assert_eq!(found(), expected, "{said}");
        let said = flow.run("insert", &["--sync", text(&folder)]).ok();
        let says = format!("0 inserted, 0 replaced, {} unchanged; ", expected.len());
        assert!(said.starts_with(&says), "{said}");
        assert!(flow.run("verify", &[]).ok().starts_with("sound: "));
        if round == 1 {
            break;
        }
        // Also with files removed and others added.
        for number in (0..2_600).step_by(2) {
            fs::remove_file(folder.join(name(number))).unwrap();
            let moved = format!("new/{number:04}.txt");
            write(&folder, &moved, format!("leaf {number}"));
            expected.remove(&(name(number), format!("leaf {number}")));
            expected.insert((moved, format!("leaf {number}")));
        }
    }
}

/// What no sync or insert may remove: documents of other folders, and all of them at once.
#[test]
fn documents_are_not_lost_to_names_and_emptied_files() {
    let flow = Flow::new();
    let [one, two] = ["one", "two"].map(|name| flow.path(name));
    write(&one, "README.md", "the first");
    write(&two, "README.md", "the second");
    // Also without --sync.
    let ran = flow.run("insert", &[text(&one), text(&two)]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.out, "1 inserted, 0 replaced, 1 refused; the index has 1 document\n");
    assert!(ran.err.contains("the index has the document `README.md` from "), "{}", ran.err);
    assert_eq!(stored(&flow)[0].text, "the first");
    let ran = flow.run("insert", &[text(&two.join("README.md"))]);
    assert_eq!((ran.code, stored(&flow)[0].text.as_str()), (Some(1), "the first"));
    // Each prefix has its own documents, and a source name belongs to one folder.
    for name in ["a", "b"] {
        flow.run("insert", &["--sync", &named(name, &one)]).ok();
    }
    let ids: Vec<String> = stored(&flow).into_iter().map(|document| document.id).collect();
    assert_eq!(ids, ["README.md", "a/README.md", "b/README.md"]);
    let said = flow.run("insert", &["--sync", text(&one)]).ok();
    assert_eq!(said, "0 inserted, 0 replaced, 1 unchanged; the index has 3 documents\n");
    let ran = flow.run("insert", &["--sync", "--source", "s", text(&one), text(&two)]);
    assert!(ran.line().contains("`--source` takes one folder"), "{}", ran.err);
    // If all files exist but are empty, that is as likely a mistake as a folder without files.
    write(&one, "README.md", "");
    let ran = flow.run("insert", &["--sync", text(&one)]);
    assert!(ran.line().contains("1 without text"), "{}", ran.err);
    assert_eq!(stored(&flow).len(), 3);
    // Two names that are not UTF-8 are two folders.
    for name in [b"n\xff", b"n\xfe"] {
        let folder = flow.path("index").parent().unwrap().join(OsStr::from_bytes(name));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("x.md"), "x").unwrap();
        let ran = command()
            .args(["insert", "--index", text(&flow.path("index")), "--sync"])
            .arg(&folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && said.contains("is not UTF-8"), "{said}");
    }
    assert_eq!(stored(&flow).len(), 3);
}

/// A file that is not text is reported as what it is, and a pipe is not read to examine it.
#[test]
fn files_of_other_content_are_named() {
    let flow = Flow::new();
    let folder = flow.path("folder");
    write(&folder, "a.md", "text");
    write(&folder, "b.txt", b"\xff\xfet\0e\0");
    write(&folder, "c.txt", b"\x1f\x8b\x08\x00\xff");
    // Bytes that are valid UTF-8, in files that are not text.
    write(&folder, "d.txt", "H\0e\0l\0l\0o\0");
    write(&folder, "e.md", "\0H\0e\0l\0l\0o");
    write(&folder, "f.txt", "H\0\0\0e\0\0\0");
    write(&folder, "g.txt", "%PDF-1.4 hello");
    write(&folder, "h.html", "PK\u{3}\u{4}zip");
    write(&folder, "i.txt", "some\0bytes");
    write(&folder, "j.txt", "\u{1b}$BEl5~\u{1b}(B");
    write(&folder, "k.html", "<meta charset=\"iso-2022-jp\">\u{1b}$BEl5~\u{1b}(B");
    write(&folder, "l.html", b"<meta charset=latin1><p>caf\xe9");
    let ran = flow.run("insert", &[text(&folder)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.starts_with("1 inserted, 0 replaced, 11 refused; "), "{}", ran.out);
    for what in [
        "b.txt: this is text in UTF-16, which is not read here",
        "c.txt: this is compressed with gzip",
        "d.txt: this is text in UTF-16",
        "e.md: this is text in UTF-16",
        "f.txt: this is text in UTF-32",
        "g.txt: this is a PDF document",
        "h.html: this is a ZIP archive",
        "i.txt: this is a binary file",
        "j.txt: this is text in ISO-2022",
        "k.html: its charset is `iso-2022-jp`",
        "l.html: its charset is `latin1`",
    ] {
        assert!(ran.err.contains(what), "{what}: {}", ran.err);
    }
    // A folder reached through links is not one of them.
    let (link, chain) = (flow.path("link"), flow.path("chain"));
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    std::os::unix::fs::symlink(&link, &chain).unwrap();
    let ran = flow.run("insert", &[text(&chain)]);
    assert!(ran.out.starts_with("0 inserted, 1 replaced, 11 refused; the index"), "{}", ran.out);
    let others = flow.path("others");
    (0..8).for_each(|n| write(&others, &format!("{n}.bin"), "x"));
    let line = flow.run("insert", &[text(&others)]).failure();
    assert!(line.contains("(found: 0.bin, 1.bin, 2.bin, 3.bin, 4.bin and 3 more)"), "{line}");
    let lines = flow.path("lines.txt");
    fs::write(&lines, "  { \"_id\": \"1\", \"text\": \"one\", \"lang\": \"en\" }\n").unwrap();
    assert!(flow.run("insert", &[text(&lines)]).ok().starts_with("1 inserted"));
    let pipe = flow.path("pipe.txt");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, "{\"_id\": \"2\", \"text\": \"two\"}\n").unwrap()
    });
    assert!(flow.run("insert", &[text(&pipe)]).ok().starts_with("1 inserted"));
    writer.join().unwrap();
    // For a folder that contains a dataset, the program says that it is read as one.
    write(&folder, "corpus.jsonl", "{\"_id\": \"3\", \"text\": \"three\"}\n");
    let ran = flow.run("insert", &[text(&folder)]);
    assert!(ran.err.contains("is read as a dataset"), "{}", ran.err);
    let ran = flow.run("insert", &["--sync", text(&folder)]);
    assert!(ran.line().contains("this one holds a dataset"), "{}", ran.err);
}

/// Size and time of a file may stay the same while its content changes; and the reverse.
#[test]
fn a_change_is_seen_by_inode_and_change_time_or_by_content() {
    let flow = Flow::new();
    let folder = notes(&flow);
    let sync = |by: &str| flow.run("insert", &[by, text(&folder)]).ok();
    sync("--sync");
    // Written in place, with its time restored.
    let keep_time = |name: &str, content: &str| {
        let modified = fs::metadata(folder.join(name)).unwrap().modified().unwrap();
        write(&folder, name, content);
        let file = File::options().write(true).open(folder.join(name)).unwrap();
        file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    };
    keep_time("tea.md", "# Tea\n\nStore *it*.\n");
    assert!(sync("--sync").starts_with("0 inserted, 1 replaced, 2 unchanged; "));
    // Two files with the same size and time swap names.
    write(&folder, "a.txt", "heron");
    write(&folder, "b.txt", "stork");
    let now = SystemTime::now();
    for name in ["a.txt", "b.txt"] {
        let file = File::options().write(true).open(folder.join(name)).unwrap();
        file.set_times(FileTimes::new().set_modified(now)).unwrap();
    }
    sync("--sync");
    for (from, to) in [("a.txt", "c"), ("b.txt", "a.txt"), ("c", "b.txt")] {
        fs::rename(folder.join(from), folder.join(to)).unwrap();
    }
    assert!(sync("--sync").starts_with("0 inserted, 2 replaced, 3 unchanged; "));
    let texts: Vec<String> = stored(&flow).into_iter().map(|document| document.text).collect();
    assert_eq!(texts[..2], ["stork", "heron"]);
    // A copied or touched file is read, and not stored again.
    fs::copy(folder.join("a.txt"), folder.join("copy")).unwrap();
    fs::rename(folder.join("copy"), folder.join("a.txt")).unwrap();
    let said = sync("--sync");
    assert!(said.starts_with("0 inserted, 0 replaced, 5 unchanged; "), "{said}");
    assert!(sync("--sync=hash").starts_with("0 inserted, 0 replaced, 5 unchanged; "));
    keep_time("b.txt", "crane");
    assert!(sync("--sync=hash").starts_with("0 inserted, 1 replaced, 4 unchanged; "));
    let line = flow.run("insert", &["--sync=time", text(&folder)]);
    assert_eq!(line.code, Some(2), "{}", line.err);
}

/// Times are text that filters compare as times.
#[test]
fn files_are_found_by_their_times() {
    let flow = Flow::new();
    let folder = notes(&flow);
    let file = File::options().write(true).open(folder.join("tea.md")).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_795_704_360, 120_000_000);
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    let file = File::options().write(true).open(folder.join("sub/plain.txt")).unwrap();
    file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)).unwrap();
    flow.run("insert", &[text(&folder)]).ok();
    let modified = |id: &str| flow.run("get", &[id]).json()["metadata"]["modified"].clone();
    assert_eq!(modified("tea.md"), "2026-11-26T14:46:00.120000000Z");
    assert_eq!(modified("sub/plain.txt"), "1970-01-01T00:00:00Z");
    let found = |filter: &str| flow.run("ids", &["--filter", filter]).ok();
    for filter in [
        r#"{"modified": {"$gte": "2026-11-26", "$lt": "2026-11-27"}}"#,
        r#"{"modified": {"$gt": "2026-11-26T14:46:00Z", "$lt": "2026-11-26T14:46:00.2Z"}}"#,
        r#"{"modified": "2026-11-26T15:46:00.12+01:00"}"#,
    ] {
        assert!(found(filter).contains("tea.md"), "{filter}");
    }
    assert_eq!(found(r#"{"modified": {"$lt": "1970-01-02"}}"#), "sub/plain.txt\n");
}

/// A state of the files that is not known is like a changed one: contents are compared.
#[test]
fn documents_with_their_times_in_another_form_are_not_stored_again() {
    let flow = Flow::new();
    let folder = notes(&flow);
    flow.run("insert", &["--sync", text(&folder)]).ok();
    let mut documents = stored(&flow);
    for document in &mut documents {
        let metadata = document.metadata.as_mut().unwrap();
        (metadata["modified"], metadata["changed"]) = (json!(1_795_704_360.12), json!(1_795_704_360.5));
    }
    Index::open(flow.path("index")).unwrap().insert_batch(documents).unwrap();
    let said = flow.run("insert", &["--sync", text(&folder)]).ok();
    assert_eq!(said, "0 inserted, 0 replaced, 3 unchanged; the index has 3 documents\n");
    fs::remove_file(folder.join("tea.md")).unwrap();
    let said = flow.run("insert", &["--sync", text(&folder)]).ok();
    assert!(said.starts_with("0 inserted, 0 replaced, 2 unchanged, 1 removed"), "{said}");
}

/// Front matter can be filtered, and one of our names in it loses neither value.
#[test]
fn front_matter_is_metadata_beside_ours() {
    let flow = Flow::new();
    let folder = flow.path("vault");
    write(&folder, "soup.md", "---\ntags: [recipe, soup]\ndate: 2024-01-05\nrating: 4\n---\nBoil it.\n");
    write(&folder, "web.md", "---\nsource: https://example.org\nmodified: today\nbytes: 1\n---\nA page.\n");
    write(&folder, "page.html", "<title>Site</title><h1>Tea</h1><p>Steep it.");
    flow.run("insert", &[&named("v", &folder)]).ok();
    let found = |filter: &str| flow.run("ids", &["--filter", filter]).ok();
    assert_eq!(found("{\"tags\": \"recipe\"}"), "v/soup.md\n");
    assert_eq!(found("{\"date\": {\"$gte\": \"2024-01-01\"}, \"rating\": {\"$gt\": 3}}"), "v/soup.md\n");
    assert_eq!(found("{\"page_source\": \"https://example.org\"}"), "v/web.md\n");
    assert_eq!(found("{\"page_modified\": \"today\", \"page_bytes\": 1}"), "v/web.md\n");
    assert_eq!(found("{\"title\": \"Site\"}"), "v/page.html\n");
    assert!(flow.run("insert", &["--sync", &named("v", &folder)]).ok().contains("3 unchanged"));
}

/// The summary as JSON contains everything in its line.
#[test]
fn the_summary_is_json_too() {
    let flow = Flow::new();
    let folder = notes(&flow);
    for (name, content) in [
        (".hidden.md", "x"),
        (".ignore", "skipped.md\nbuild/\n"),
        ("skipped.md", "x"),
        ("build/one.md", "x"),
        ("build/two.md", "x"),
        ("other.bin", "x"),
        ("main.rs", "fn main() {}"),
        ("empty.md", ""),
        ("broken.md", "---\na: b: c\n---\ntext"),
    ] {
        write(&folder, name, content);
    }
    symlink(folder.join("tea.md"), folder.join("link.md")).unwrap();
    let ran = flow.run("insert", &["--json", text(&folder)]);
    let expected = format!("{}: the front matter is read as text", text(&folder.join("broken.md")));
    assert!(ran.err.starts_with(&format!("note: {expected}")), "{}", ran.err);
    let summary = ran.json();
    let table = flow.path("table.csv");
    fs::write(&table, "id,text,code\n1,x,7\n2,y,A7\n").unwrap();
    let of_table = Flow::new().run("insert", &["--json", text(&table)]).json();
    assert_eq!(of_table["text_columns"], json!(["code"]));
    crate::json::check("insert", &[summary.clone(), of_table]);
    let left_out =
        json!({ "hidden": 2, "ignored": 2, "links": 1, "code": 1, "others": 1, "empty": 1, "values": 0 });
    assert_eq!(summary["not_read"], left_out);
    assert_eq!(
        (&summary["inserted"], &summary["documents"], &summary["waiting"]),
        (&4.into(), &4.into(), &0.into())
    );
    assert!(summary["notes"][0].as_str().unwrap().starts_with(&expected));
    let said = flow.run("insert", &[text(&folder)]).ok();
    let not_read = "not read: 2 hidden entries, 2 ignored entries, 1 link, 1 file of source code (see `--code`), 1 file of other kinds and 1 file without text";
    assert!(said.contains(not_read), "{said}");
    let said = flow.run("insert", &["--no-ignore", text(&folder)]).ok();
    assert!(said.starts_with("3 inserted, 4 replaced; not read: 2 hidden entries, 1 link"), "{said}");
}

/// Markup, notebooks and subtitles are read by themselves, and source code if it is asked for.
#[test]
fn other_kinds_of_text_are_documents_and_code_with_an_option() {
    let flow = Flow::with(&["--passages", "24/8"]);
    let folder = flow.path("repo");
    let cell = r##"{"cells": [{"cell_type": "markdown", "source": ["# Note\n", "book"]}]}"##;
    for (name, content) in [
        ("a.rst", "Tea\n===\n\n*hot*\n"),
        ("b.org", "* Tea\n/hot/\n"),
        ("c.adoc", "= Tea\n\n_hot_\n"),
        ("d.mdx", "import x from 'x'\n\n# Tea\n\n<X>\n*hot*\n</X>\n"),
        ("e.ipynb", cell),
        ("f.srt", "1\n00:00:01,000 --> 00:00:02,000\nhot\n"),
        ("g.ipynb", "{}"),
        ("src/h.rs", "/// Tea.\nfn steep() {\n    hot();\n}\n"),
    ] {
        write(&folder, name, content);
    }
    let sync = |options: &[&str]| flow.run("insert", &[&["--sync"], options, &[text(&folder)]].concat());
    let ran = sync(&[]);
    assert!(
        ran.err.contains("g.ipynb: this is not a notebook of Jupyter's format 4: missing field `cells`"),
        "{}",
        ran.err
    );
    assert!(
        ran.out.contains("; not read: 1 file of source code (see `--code`); the index has 6"),
        "{}",
        ran.out
    );
    fs::remove_file(folder.join("g.ipynb")).unwrap();
    assert!(sync(&["--code"]).ok().starts_with("1 inserted, 0 replaced, 6 unchanged;"));
    let found = stored(&flow);
    let texts: Vec<_> = found.iter().map(|d| (d.title.as_str(), d.text.as_str())).collect();
    let tea = ("Tea", "hot");
    let code = ("src/h.rs", "/// Tea.\nfn steep() {\n    hot();\n}");
    assert_eq!(texts, [tea, tea, tea, tea, ("Note", "book"), ("f", "hot"), code]);
    // Code that is no longer asked for is removed with a notice.
    let ran = sync(&[]);
    let said = "note: 1 document removed whose file exists but is source code, such as src/h.rs; `--code` reads it\n";
    assert_eq!((&*ran.err, ran.code), (said, Some(0)));
    assert!(ran.out.starts_with("0 inserted, 0 replaced, 6 unchanged, 1 removed;"), "{}", ran.out);
    // Single files are read as what they are.
    for name in ["e.ipynb", "src/h.rs"] {
        let said = flow.run("insert", &[&named("one", &folder.join(name))]).ok();
        assert!(said.starts_with("1 inserted, 0 replaced"), "{said}");
    }
    let line = flow.run("insert", &["--code", text(&folder.join("src/h.rs"))]).failure();
    assert!(line.contains("`--code` is for folders"), "{line}");
    let line = flow.run("insert", &[text(&folder.join("src"))]).failure();
    assert!(line.contains("(found: 1 of source code, which `--code` reads)"), "{line}");
}

/// A file newly named in an ignore file is removed with a notice, and returns later.
#[test]
fn a_sync_says_what_it_removes_as_ignored() {
    let flow = Flow::new();
    let folder = notes(&flow);
    write(&folder, "drafts/one.md", "one");
    let sync = |options: &[&str]| flow.run("insert", &[&["--sync"], options, &[text(&folder)]].concat());
    assert!(sync(&[]).ok().starts_with("4 inserted"));
    write(&folder, ".ignore", "drafts\n");
    let ran = sync(&[]);
    let said = "note: 1 document removed whose file exists but is excluded by .gitignore or .ignore, such as \
                drafts/one.md; `--no-ignore` reads it\n";
    assert_eq!((&*ran.err, ran.code), (said, Some(0)));
    assert!(
        ran.out.starts_with(
            "0 inserted, 0 replaced, 3 unchanged, 1 removed; not read: 1 hidden entry and 1 ignored entry;"
        ),
        "{}",
        ran.out
    );
    assert!(
        sync(&["--no-ignore"])
            .ok()
            .starts_with("1 inserted, 0 replaced, 3 unchanged; not read: 1 hidden entry;")
    );
    // A deleted file is not reported again.
    fs::remove_file(folder.join("tea.md")).unwrap();
    let ran = sync(&["--no-ignore"]);
    assert_eq!((&*ran.err, ran.code), ("", Some(0)));
    // All of them at once is a mistake.
    write(&folder, ".ignore", "*\n");
    let line = sync(&[]).failure();
    assert!(line.contains("2 that .gitignore or .ignore names, which `--no-ignore` reads"), "{line}");
    // Git's lists only apply in a repository.
    let other = flow.path("other");
    write(&other, "node_modules/x/README.md", "x");
    write(&other, "own.md", "own");
    write(&other, ".gitignore", "node_modules/\n");
    assert!(flow.run("insert", &[text(&other)]).ok().starts_with("2 inserted"));
    fs::create_dir(other.join(".git")).unwrap();
    assert!(
        flow.run("insert", &[text(&other)])
            .ok()
            .contains("1 replaced; not read: 2 hidden entries and 1 ignored entry;")
    );
    let line = flow.run("insert", &["--no-ignore", text(&other.join("own.md"))]).failure();
    assert!(line.contains("`--no-ignore` is for folders"), "{line}");
}

#[test]
fn a_file_of_an_unknown_kind_says_that_a_command_may_read_it() {
    let flow = Flow::new();
    let pre = "; or `--pre rtf=COMMAND` reads it by a command that prints the text of a file";
    for (name, content, is_said) in [
        ("a.rtf", &b"{\\rtf1 leaf}"[..], true),
        ("b.rtf", b"\\rtf1 leaf", true),
        ("c.rtf", b"PK\x03\x04", true),
        ("d.csv", b"leaf", false),
        ("e", b"leaf", false),
    ] {
        write(&flow.path("files"), name, content);
        let line = flow.run("insert", &[text(&flow.path("files").join(name))]).failure();
        assert_eq!(line.ends_with(pre), is_said, "{line}");
    }
}

/// Commands read files of other kinds, and those of known kinds too; a failure is that of its file.
#[test]
fn commands_print_the_text_of_files() {
    let flow = Flow::new();
    let folder = notes(&flow);
    write(&folder, "-v heron's.RTF", "one heron");
    write(&folder, "sub/bad.rtf", "broken");
    let script = flow.path("print.sh");
    fs::write(&script, "grep -q heron \"$1\" || { echo 'not a bird' >&2; exit 4; }; rev \"$1\"\n").unwrap();
    let pre = format!("rtf=/bin/sh {}", text(&script));
    let insert = |rest: &[&str]| flow.run("insert", &[&["--pre", &pre], rest].concat());
    let ran = insert(&["--sync", text(&folder)]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.starts_with("4 inserted, 0 replaced, 1 refused; the index has 4"), "{}", ran.out);
    let refused = format!(
        "refused: {}: `/bin/sh {}` failed with exit status 4: not a bird\n",
        text(&folder.join("sub/bad.rtf")),
        text(&script)
    );
    assert!(ran.err.starts_with(&refused), "{}", ran.err);
    let heron = &stored(&flow)[0];
    assert_eq!((&*heron.id, &*heron.title, &*heron.text), ("-v heron's.RTF", "-v heron's", "noreh eno"));
    assert_eq!(heron.outline.line(&heron.text, 0), None);
    // Unchanged files are not read again; a failed one is tried again.
    let out = insert(&["--sync", text(&folder)]).out;
    assert!(out.starts_with("0 inserted, 0 replaced, 4 unchanged, 1 refused; "), "{out}");
    // Another command is noticed by content.
    fs::write(&script, "cat \"$1\"\n").unwrap();
    let out = insert(&["--sync", text(&folder)]).ok();
    assert!(out.starts_with("1 inserted, 0 replaced, 4 unchanged; "), "{out}");
    let out = insert(&["--sync=hash", text(&folder)]).ok();
    assert!(out.starts_with("0 inserted, 1 replaced, 4 unchanged; "), "{out}");
    // A single file, and a kind that is known.
    let out =
        flow.run("insert", &["--pre", "rtf=cat", "--pre", ".md=rev", text(&folder.join("tea.md"))]).ok();
    assert!(out.starts_with("0 inserted, 1 replaced; "), "{out}");
    assert_eq!(stored(&flow)[4].text, "aeT #\n\n.*ti* peetS");
    let out = flow.run("insert", &["--sync", text(&folder)]).ok();
    assert!(out.contains("2 removed; not read: 2 files of other kinds; "), "{out}");
    for (rest, expected) in [
        (vec!["--pre", "rtf=cat", "--pre", "RTF=rev", text(&folder)], "`--pre` names the suffix `RTF` twice"),
        (vec!["--pre", "rtf=cat", "-"], "-: `--pre` is for folders, and for files with its suffix"),
    ] {
        let line = flow.run("insert", &rest).failure();
        assert!(line.contains(expected), "{line}");
    }
    assert!(flow.run("insert", &["--pre", "rtf", text(&folder)]).err.contains("is not SUFFIX=COMMAND"));
}
