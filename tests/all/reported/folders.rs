//! Folders: which files are read, and which are read again.

use std::fs::{self, File, FileTimes};

use crate::program::{Flow, text};

/// vitepress-plugin-simple-search#5 and yoyo#105: files that a project's own ignore lists exclude are left
/// out, and counted.
#[test]
fn what_gitignore_names_is_left_out_and_counted() {
    let flow = Flow::new();
    let project = flow.path("project");
    for (name, content) in [
        (".git/info/exclude", "private.md\n"),
        (".gitignore", "node_modules/\n*.draft.md\n!kept.draft.md\n"),
        ("node_modules/left-pad/README.md", "pad"),
        ("docs/node_modules/x/README.md", "x"),
        ("docs/.gitignore", "/generated\n"),
        ("docs/generated/api.html", "<p>api"),
        ("docs/guide.md", "# Guide\n\nRead it."),
        ("a.draft.md", "a"),
        ("kept.draft.md", "kept"),
        ("private.md", "private"),
    ] {
        let path = project.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let said = flow.run("insert", &[text(&project)]).ok();
    assert_eq!(
        said,
        "2 inserted, 0 replaced; not read: 3 hidden entries and 5 ignored entries; the index has 2 documents\n"
    );
    assert_eq!(flow.run("ids", &[]).ok(), "docs/guide.md\nkept.draft.md\n");
    // The lists above it also apply to a folder inside the repository.
    let said = flow.run("insert", &[&format!("d={}/docs", text(&project))]).ok();
    assert!(
        said.starts_with("1 inserted, 0 replaced; not read: 1 hidden entry and 2 ignored entries;"),
        "{said}"
    );
}

/// restic#2179 and restic#5711: changed content with the same size and time is noticed. restic#2495: a copy
/// with all new inodes and change times is not stored again.
#[test]
fn a_change_is_seen_and_a_copy_is_none() {
    let flow = Flow::new();
    let (folder, copy) = (flow.path("notes"), flow.path("copy"));
    fs::create_dir(&folder).unwrap();
    let (one, two) = (folder.join("one.txt"), folder.join("two.txt"));
    fs::write(&one, "test").unwrap();
    fs::write(&two, "rest").unwrap();
    let sync = |folder| flow.run("insert", &["--sync", "--source", "notes", text(folder)]).ok();
    sync(&folder);
    let modified = fs::metadata(&one).unwrap().modified().unwrap();
    fs::write(&one, "asdf").unwrap();
    let times = FileTimes::new().set_modified(modified);
    File::options().write(true).open(&one).unwrap().set_times(times).unwrap();
    let said = sync(&folder);
    assert!(said.starts_with("0 inserted, 1 replaced, 1 unchanged;"), "{said}");
    crate::support::copy_directory(&folder, &copy);
    let said = sync(&copy);
    assert!(said.starts_with("0 inserted, 0 replaced, 2 unchanged;"), "{said}");
}

/// thoth#37: a note that was valid and now has a mistake in its front matter stays in the index.
#[test]
fn a_mistake_in_front_matter_does_not_remove_a_note() {
    let flow = Flow::new();
    let folder = flow.path("vault");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.md"), "---\ntitle: Heron\n---\nIt waits.").unwrap();
    let sync = || flow.run("insert", &["--sync", text(&folder)]);
    sync().ok();
    fs::write(folder.join("a.md"), "---\ntitle: Heron: a bird\n---\nIt dives.").unwrap();
    let ran = sync();
    assert!(
        ran.err.contains("a.md: the front matter is read as text, because it cannot be parsed: line 2"),
        "{}",
        ran.err
    );
    assert!(ran.ok().starts_with("0 inserted, 1 replaced;"));
    let found = flow.run("search", &["--mode", "lexical", "--json", "+dives +bird"]).json();
    assert_eq!(found["hits"][0]["id"], "a.md");
}
