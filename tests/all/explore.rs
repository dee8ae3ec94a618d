//! `ehi explore` from outside: what is answered, and what is refused. `scripts/check-explore` tests the page
//! itself.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{Flow, command, text};

mod refusals;
mod slow;
mod uses;
mod views;

/// Longer than any operation here.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
/// All read requests about the index.
const GETS: [&str; 7] =
    ["/api/about", "/api/leaves", "/api/state", "/api/health", "/api/folders", "/api/judgments", "/api/job"];
const POSTS: [&str; 9] = [
    "/api/search",
    "/api/why",
    "/api/document",
    "/api/leaves",
    "/api/judge",
    "/api/learn",
    "/api/decide",
    "/api/cancel",
    "/api/rollback",
];

/// A program serving a page.
struct Explorer {
    child: Child,
    port: u16,
    token: String,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    #[track_caller]
    fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The kind of a refusal.
    #[track_caller]
    fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        let answer = self.json();
        assert!(!answer["message"].as_str().unwrap().is_empty());
        answer["error"].as_str().unwrap().to_owned()
    }
}

impl Explorer {
    fn new(index: &str, options: &[&str]) -> Self {
        let mut child = command()
            .args(["explore", "--index", index, "--no-open"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        errors.read_line(&mut line).unwrap();
        assert!(line.starts_with("note: the page of ") && line.ends_with(":\n"), "{line:?}");
        // Read on, so that it never blocks.
        thread::spawn(move || io::copy(&mut errors, &mut io::sink()));
        line.clear();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let rest = line.trim().strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{line:?}"));
        let (port, token) = rest.split_once("/#").unwrap();
        Self { port: port.parse().unwrap(), token: token.to_owned(), child }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sends raw bytes; returns the whole answer.
    fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A request refused early need not be read to its end.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head, body: answer.get(end + 4..).unwrap_or_default().to_vec() }
    }

    /// Sends a request with these header lines in addition to the required ones.
    fn send(&self, method: &str, path: &str, lines: &[&str], body: &str) -> Answer {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        for line in lines {
            request += &format!("{line}\r\n");
        }
        self.raw(format!("{request}\r\n{body}").as_bytes())
    }

    fn begin(&self) -> Session<'_> {
        let host = format!("Host: {}", self.host());
        let body = json!({ "token": self.token }).to_string();
        let begun = self.send("POST", "/api/session", &[&host, "Content-Type: application/json"], &body).ok();
        Session { explorer: self, key: begun["key"].as_str().unwrap().to_owned() }
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Explorer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Acts like the page.
struct Session<'a> {
    explorer: &'a Explorer,
    key: String,
}

impl Session<'_> {
    fn with(&self, method: &str, path: &str, more: &[&str], body: &str) -> Answer {
        let own = [
            format!("Host: {}", self.explorer.host()),
            format!("Authorization: Bearer {}", self.key),
            "Content-Type: application/json".to_owned(),
        ];
        let lines: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.explorer.send(method, path, &lines, body)
    }

    fn get(&self, path: &str) -> Answer {
        self.with("GET", path, &[], "")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.with("POST", path, &[], &body.to_string())
    }

    fn search(&self, question: &str) -> Answer {
        self.post("/api/search", &json!({ "question": question, "k": 5 }))
    }

    /// Repeats a request until the answer is as expected.
    #[track_caller]
    fn wait(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let answer = self.get(path).json();
            if is(&answer) {
                return answer;
            }
            assert!(started.elapsed() < PATIENCE, "{answer}");
            thread::sleep(POLL);
        }
    }
}

fn filled(count: usize) -> Flow {
    let flow = Flow::new();
    flow.insert(count);
    flow
}

/// Inserts documents in the program's input format.
fn store(flow: &Flow, documents: &[Value]) {
    let file = flow.path("own.jsonl");
    fs::write(&file, documents.iter().map(|document| format!("{document}\n")).collect::<String>()).unwrap();
    flow.run("insert", &[text(&file)]).ok();
}

/// Every file of a folder with its content.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in walkdir(dir) {
        files.push((text(&entry).to_owned(), fs::read(&entry).unwrap()));
    }
    files.sort();
    files
}

fn walkdir(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walkdir(&path) } else { vec![path] }).collect()
}
