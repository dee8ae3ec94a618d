//! Inserts through the program that end early: refused, interrupted, out of space, waiting.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Flow, Ran, Terminal, command, text};
use crate::support::{Shape, bundle, corpus_lines, document, documents, id};
use ehi::Index;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(120);

#[track_caller]
fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Feeds an endless stream of documents on a thread, and returns when the first group must have been stored.
///
/// Everything written is read, except what the pipe and the program's buffer hold, a few hundred lines.
fn feed(mut input: ChildStdin) -> thread::JoinHandle<()> {
    let fed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fed);
    let feeding = thread::spawn(move || {
        // Until the program stops reading.
        while input.write_all(corpus_lines(&[document(count.load(Ordering::Relaxed))]).as_bytes()).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    wait_for("documents are not read", || fed.load(Ordering::Relaxed) >= 2_400);
    feeding
}

#[test]
fn an_interrupt_ends_an_insert_in_good_order() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let flow = Flow::new();
        let (child, input) = flow.inserting();
        let feeding = feed(input);
        send(&child, signal);
        let ran = Ran::of(child.wait_with_output().unwrap());
        feeding.join().unwrap();
        assert_eq!(ran.code, Some(status), "{}{}", ran.out, ran.err);
        let stored = Index::open_read_only(flow.path("index")).unwrap().len();
        // Whole groups, the first with 1,000 documents.
        assert!(stored >= 1_000, "{stored}");
        let line = ran.line();
        assert!(line.starts_with(&format!("ehi: interrupted: {stored} of the ")), "{stored}: {line}");
        assert!(line.contains("run the same command again"), "{line}");
        let says = format!("{stored} of the {stored} stored are on disk; the index has {stored} documents\n");
        assert!(
            ran.out.starts_with(&format!("{stored} inserted, ")) && ran.out.ends_with(&says),
            "{}",
            ran.out
        );

        let total = stored + 50;
        let file = flow.path("again.jsonl");
        fs::write(&file, corpus_lines(&documents(total))).unwrap();
        let said = flow.run("insert", &[text(&file)]).ok();
        let says = format!("50 inserted, {stored} replaced; the index has {total} documents\n");
        assert_eq!(said, says);
        assert!(flow.run("verify", &[]).ok().starts_with(&format!("sound: {total} documents")));
    }
}

#[test]
fn a_second_signal_ends_an_insert_at_once() {
    // Two threads that take one signal each at the same moment see one signal between them, so it may take
    // several attempts.
    let ended_at_once = (0..20).any(|_| {
        let flow = Flow::new();
        let (child, input) = flow.inserting();
        let feeding = feed(input);
        // Both are pending before the program continues.
        for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
            send(&child, signal);
        }
        let ran = Ran::of(child.wait_with_output().unwrap());
        feeding.join().unwrap();
        assert!(matches!(ran.code, Some(130 | 143)), "{:?}", ran.code);
        // Stored documents are flushed, or wait in the log.
        let checked = flow.run("verify", &[]);
        assert!(matches!(checked.code, Some(0 | 3)) && checked.out.contains("sound: "), "{}", checked.out);
        (ran.out, ran.err) == (String::new(), String::new())
    });
    assert!(ended_at_once, "a second signal was waited for");
}

/// The bar appears before a group is complete, and an interrupt does not wait for input.
#[test]
fn reading_is_shown_and_can_be_interrupted() {
    let flow = Flow::new();
    let Terminal { end, mut screen } = Terminal::new();
    let mut child = {
        let mut command = command();
        command.args(["insert", "--index", &flow.index(), "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::from(end)).spawn().unwrap()
    };
    let mut input = child.stdin.take().unwrap();
    input.write_all(corpus_lines(&documents(5)).as_bytes()).unwrap();
    let mut shown = Vec::new();
    wait_for("the bar does not show what was read", || {
        let mut more = [0; 4096];
        let read = screen.read(&mut more).unwrap();
        shown.extend_from_slice(&more[..read]);
        String::from_utf8_lossy(&shown).contains("insert")
            && String::from_utf8_lossy(&shown).contains("5 documents read")
    });
    send(&child, Signal::INT);
    // Drawing must not wait for a reader of the screen.
    let reading = thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = screen.read_to_end(&mut rest);
        String::from_utf8(rest).unwrap()
    });
    let ran = Ran::of(child.wait_with_output().unwrap());
    drop(input);
    assert_eq!(ran.code, Some(130));
    assert!(reading.join().unwrap().contains("interrupted: 0 of the 5 documents read are stored"));
    assert!(ran.out.starts_with("0 inserted, 0 replaced, 5 read but not stored; "), "{}", ran.out);
}

#[test]
fn rates_are_plain_numbers_and_a_pipe_sees_the_last_line_alone() {
    let flow = Flow::new();
    let file = flow.path("documents.jsonl");
    fs::write(&file, corpus_lines(&documents(5_000))).unwrap();
    let (code, shown) = crate::program::on_terminal(["insert", "--index", &flow.index(), text(&file)]);
    assert_eq!(code, Some(0), "{shown}");
    // How many are visible at a time depends on the machine.
    assert!(
        shown.contains("documents read, ") && shown.contains(" stored") && shown.contains('['),
        "{shown}"
    );
    for (place, _) in shown.match_indices("/s") {
        let rate = shown[..place].rsplit(|c: char| !(c.is_ascii_digit() || ".,".contains(c))).next().unwrap();
        let decimals = rate.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        assert!(!rate.is_empty() && decimals <= 1, "{rate}/s");
    }
    let ran = flow.run("insert", &[text(&file)]);
    assert_eq!(ran.err, "");
    let says = "0 inserted, 5000 replaced; the index has 5000 documents\n";
    assert_eq!(ran.ok(), says);
}

#[test]
fn a_refused_document_is_named_by_its_line_and_the_others_are_stored() {
    let deep = |levels| (0..levels).fold(json!(1), |value, _| json!([value]));
    let with_id = |id: String| json!({ "_id": id, "text": "leaf" });
    let refused: [(Value, &str); 4] = [
        (json!({ "_id": "blank", "text": "  " }), "neither title nor text"),
        (with_id("x".repeat(513)), "513 bytes; ids have 1 to 512"),
        (json!({ "_id": "deep", "text": "leaf", "metadata": deep(65) }), "more than 64 levels"),
        (json!({ "_id": "large", "title": "leaf", "text": " ".repeat(64 << 20) }), "split it"),
    ];
    for (bad, message) in refused {
        let flow = Flow::new();
        let file = flow.path("documents.jsonl");
        // Documents just within the limits are stored.
        let good =
            [with_id("y".repeat(512)), json!({ "_id": "less deep", "text": "leaf", "metadata": deep(64) })];
        let good: String = good.iter().map(|line| format!("{line}\n")).collect();
        let lines = corpus_lines(&documents(38))
            + &good
            + &format!("\n{bad}\n")
            + &corpus_lines(&documents(43)[38..]);
        fs::write(&file, lines).unwrap();
        let ran = flow.run("insert", &[text(&file)]);
        let says = "45 inserted, 0 replaced, 1 refused; the index has 45 documents\n";
        assert_eq!(ran.out, says, "{message}: {}", ran.err);
        assert_eq!(ran.code, Some(1));
        let lines: Vec<&str> = ran.err.lines().collect();
        let [refused, end] = lines[..] else { panic!("{}", ran.err) };
        assert!(refused.starts_with(&format!("refused: {}:42: ", text(&file))), "{refused}");
        assert!(refused.contains(message), "{refused}");
        assert_eq!(end, "ehi: 1 of 46 documents refused, 45 stored");
    }
}

/// A limit on file size simulates a full disk: the log cannot grow.
#[test]
fn an_insert_that_runs_out_of_space_says_what_is_stored() {
    let flow = Flow::new();
    let file = flow.path("documents.jsonl");
    fs::write(&file, corpus_lines(&documents(2_500))).unwrap();
    let script = r#"trap "" XFSZ; ulimit -f 4000; exec "$@""#;
    let limited = Command::new("sh")
        .env("EHI_CACHE", "")
        .args([
            "-c",
            script,
            "sh",
            env!("CARGO_BIN_EXE_ehi"),
            "insert",
            "--index",
            &flow.index(),
            text(&file),
        ])
        .output()
        .unwrap();
    let ran = Ran::of(limited);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("too large"), "{}", ran.err);
    let numbers: Vec<usize> =
        ran.out.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let [inserted, 0, left_out, durable, stored, ..] = numbers[..] else { panic!("{}", ran.out) };
    assert!(inserted == stored && durable <= stored && left_out > 0, "{}", ran.out);
    assert!(stored >= 256 && numbers.last() == Some(&stored), "{}", ran.out);
    // All counted documents are there.
    flow.run("recover", &[]).ok();
    assert_eq!(Index::open_read_only(flow.path("index")).unwrap().len(), stored);
    assert!(flow.run("verify", &[]).ok().starts_with(&format!("sound: {stored} documents")));
}

/// Directories in place of the files that a flush makes.
#[test]
fn what_a_failed_flush_leaves_in_the_log_is_said_and_brought_back() {
    let flow = Flow::new();
    let obstacles = || {
        let names = ["vectors", "documents"].map(|end| format!("{:08}.{end}", 0)).into_iter();
        names.map(|name| flow.path("index").join("models/1/segments").join(name))
    };
    obstacles().for_each(|obstacle| fs::create_dir(obstacle).unwrap());
    let file = flow.path("documents.jsonl");
    fs::write(&file, corpus_lines(&documents(20))).unwrap();
    let ran = flow.run("insert", &[text(&file)]);
    let says = "20 inserted, 0 replaced; 0 of the 20 stored are on disk, \
                20 documents in memory and the log only; the index has 20 documents\n";
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), says), "{}", ran.err);
    let last = ran.err.lines().last().unwrap();
    assert!(last.starts_with("ehi: the flush failed: 20 documents in memory and the log only"), "{last}");
    assert!(last.contains("brings back what is there"), "{last}");
    assert_eq!(Index::open_read_only(flow.path("index")).unwrap().len(), 0);

    obstacles().for_each(|obstacle| fs::remove_dir(obstacle).unwrap());
    let said = flow.run("recover", &[]).ok();
    assert_eq!(
        said,
        "20 documents in 1 commit brought back from the log and flushed; the index has 20 documents\n"
    );
    assert_eq!(Index::open_read_only(flow.path("index")).unwrap().len(), 20);
    let report = flow.run("recover", &["--json"]).json();
    assert_eq!(report, json!({ "judgments": 0, "commits": 0, "recovered": 0, "documents": 20 }));
}

#[test]
fn every_command_that_writes_waits_as_long_as_it_is_told() {
    let flow = Flow::new();
    flow.insert(20);
    let file = flow.path("documents.jsonl");
    let other = bundle(Shape::of_height(1));
    let (first, second) = (id(1), id(2));
    for rest in [
        vec!["delete", &first],
        vec!["insert", text(&file)],
        vec!["compact"],
        vec!["recover"],
        vec!["repair"],
        vec!["reencode", "--model", text(other.path())],
        vec!["rollback"],
        vec!["drop-previous"],
        vec!["delete", &second],
    ] {
        let held = Index::open(flow.path("index")).unwrap();
        for without in [&[][..], &["--wait", "0"]] {
            let line = flow.run(rest[0], &[&rest[1..], without].concat()).failure();
            assert!(line.contains("is open for writing elsewhere"), "{rest:?}: {line}");
        }
        let mut waiting = command();
        waiting.args([rest[0], "--index", &flow.index(), "--wait", "100.5"]).args(&rest[1..]);
        let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Long enough to find the index in use.
        thread::sleep(Duration::from_millis(400));
        drop(held);
        Ran::of(waiting.wait_with_output().unwrap()).ok();
    }
    for bad in ["-1", "soon", "inf", "1e300"] {
        let ran = flow.run("compact", &[&format!("--wait={bad}")]);
        assert_eq!(ran.code, Some(2), "{bad}");
        assert!(ran.line().contains("a number of seconds from 0"));
    }
    // Reading never waits.
    assert_eq!(flow.run("stats", &["--wait", "1"]).code, Some(2));
}
