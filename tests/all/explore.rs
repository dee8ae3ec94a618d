//! `ehi explore` from outside: what is answered, and what is refused. `scripts/check-explore` uses the page
//! itself.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{Flow, command, text};
use crate::support::id;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
/// All that asks for something of the index.
const GETS: [&str; 7] =
    ["/api/about", "/api/map", "/api/leaves", "/api/state", "/api/health", "/api/judgments", "/api/job"];
const POSTS: [&str; 10] = [
    "/api/search",
    "/api/why",
    "/api/document",
    "/api/leaves",
    "/api/judge",
    "/api/forget",
    "/api/learn",
    "/api/decide",
    "/api/cancel",
    "/api/rollback",
];

/// A program that serves a page.
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
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let rest = line.trim().strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{line:?}"));
        let (port, token) = rest.split_once("/#").unwrap();
        Self { port: port.parse().unwrap(), token: token.to_owned(), child }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Bytes as they are, and all that comes back.
    fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // What is refused early need not be read to its end.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head, body: answer.get(end + 4..).unwrap_or_default().to_vec() }
    }

    /// A request with these lines in its head beside those that it must have.
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

    /// As Ctrl-C does.
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

/// What the page does.
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

    /// Asks until the answer is as it is to be.
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

#[test]
fn everything_of_the_index_needs_a_key_and_a_token_gives_one_once() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let host = format!("Host: {}", explorer.host());
    let json = "Content-Type: application/json";
    let keys = ["", "Authorization: Bearer ", "Authorization: Bearer 0", "Authorization: Basic eDp5"];
    let token = format!("Authorization: Bearer {}", explorer.token);
    // Every path without a key, and some with a wrong one: strangers have a hundred requests at once.
    let (few_gets, few_posts) = (&GETS[..2], &POSTS[..2]);
    for (place, key) in keys.into_iter().chain([&*token]).enumerate() {
        let lines: Vec<&str> = [&*host, json, key].into_iter().filter(|line| !line.is_empty()).collect();
        for path in if place == 0 { &GETS } else { few_gets } {
            assert_eq!(explorer.send("GET", path, &lines, "").refused(401), "no_key", "{path}");
        }
        let posts = if place == 0 { &POSTS } else { few_posts };
        for path in posts.iter().chain(&["/api/nothing", "/nothing"]) {
            assert_eq!(explorer.send("POST", path, &lines, "{}").refused(401), "no_key", "{path}");
        }
    }
    for wrong in ["", "0", &explorer.token[1..], &explorer.token.to_uppercase()] {
        let body = json!({ "token": wrong }).to_string();
        assert_eq!(explorer.send("POST", "/api/session", &[&host, json], &body).refused(401), "no_token");
    }
    let session = explorer.begin();
    let again = json!({ "token": explorer.token }).to_string();
    assert_eq!(explorer.send("POST", "/api/session", &[&host, json], &again).refused(401), "no_token");
    assert_eq!(session.get("/api/about").ok()["documents"], 12);
    // The page itself is the same for everybody, and nothing of the index.
    let page = explorer.send("GET", "/", &[&host], "");
    assert_eq!(page.status, 200);
    for answer in [page, session.get("/api/about"), session.get("/nothing")] {
        let head = answer.head.to_lowercase();
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "require-trusted-types-for 'script'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(head.contains(line), "{line} is not in {head}");
        }
        assert!(!head.contains("access-control-allow") && !head.contains("set-cookie"), "{head}");
    }
}

#[test]
fn foreign_hosts_and_foreign_origins_are_refused() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let key = format!("Authorization: Bearer {}", session.key);
    let (host, port) = (format!("Host: {}", explorer.host()), explorer.port);
    for foreign in [
        "Host: attacker.example".to_owned(),
        format!("Host: attacker.example:{port}"),
        format!("Host: 127.0.0.1.attacker.example:{port}"),
        "Host: 127.0.0.1".to_owned(),
        format!("Host: 127.0.0.1:{}", port.wrapping_add(1)),
        format!("Host: 0.0.0.0:{port}"),
        format!("{host}\r\nHost: attacker.example"),
        "X-Host: none".to_owned(),
    ] {
        for path in ["/", "/api/about"] {
            let answer = explorer.send("GET", path, &[&foreign, &key], "");
            assert!(
                answer.status == 400 || answer.refused(403) == "foreign_host",
                "{foreign}: {}",
                answer.head
            );
        }
    }
    let own = format!("Host: localhost:{port}");
    assert_eq!(explorer.send("GET", "/api/about", &[&own, &key], "").status, 200);
    for foreign in [
        "Origin: http://attacker.example".to_owned(),
        "Origin: null".to_owned(),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://127.0.0.1:{}", port.wrapping_add(1)),
        format!("Origin: http://127.0.0.1:{port}.attacker.example"),
        "Sec-Fetch-Site: cross-site".to_owned(),
        "Sec-Fetch-Site: same-site".to_owned(),
        format!("Origin: http://127.0.0.1:{port}\r\nOrigin: http://attacker.example"),
    ] {
        for path in ["/api/search", "/api/session"] {
            assert_eq!(
                session.with("POST", path, &[&foreign], "{}").refused(403),
                "foreign_origin",
                "{foreign}"
            );
        }
        assert_eq!(session.with("GET", "/", &[&foreign], "").refused(403), "foreign_origin");
    }
    let origin = format!("Origin: http://127.0.0.1:{port}");
    let ask = json!({ "question": "tree", "k": 1 }).to_string();
    assert_eq!(
        session.with("POST", "/api/search", &[&origin, "Sec-Fetch-Site: same-origin"], &ask).status,
        200
    );
    // Nothing listens at another address of the machine.
    assert!(TcpStream::connect(("127.0.0.2", port)).is_err());
}

#[test]
fn other_methods_paths_sizes_and_forms_are_refused() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    for path in POSTS.into_iter().filter(|path| !GETS.contains(path)) {
        assert_eq!(session.get(path).refused(405), "other_method", "{path}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        assert_eq!(session.with(method, "/api/about", &[], "").refused(405), "other_method");
    }
    for path in [
        "/nothing",
        "/../Cargo.toml",
        "/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/style.css/../../etc/passwd",
        "/index/CURRENT",
        "/api/../style.css",
        "/./",
        "/STYLE.CSS",
        "/%2e%2e/",
    ] {
        assert_eq!(session.get(path).refused(404), "no_such_path", "{path}");
    }
    for outside in ["../../etc/passwd", "/etc/passwd", "CURRENT", "doc-0001/../doc-0002"] {
        assert_eq!(session.post("/api/document", &json!({ "id": outside })).refused(404), "no_document");
    }
    assert_eq!(session.get("/api/about?x=1").refused(400), "bad_request");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"] {
        let own = [
            format!("Host: {}", explorer.host()),
            format!("Authorization: Bearer {}", session.key),
            format!("Content-Type: {kind}"),
        ];
        let lines: Vec<&str> = own.iter().map(String::as_str).collect();
        assert_eq!(explorer.send("POST", "/api/search", &lines, "{}").refused(415), "not_json");
    }
    for body in
        ["", "{", "[]", "null", r#"{"question": 1, "k": 1}"#, r#"{"question": "x", "k": 1, "other": 1}"#]
    {
        assert_eq!(session.with("POST", "/api/search", &[], body).refused(400), "bad_request", "{body}");
    }
    let long = "x ".repeat(40 << 10);
    assert_eq!(session.search(&long).refused(413), "too_large");
    let line = format!("X-Long: {}", "x".repeat(20 << 10));
    assert_eq!(session.with("GET", "/api/about", &[&line], "").status, 431);
    let many: Vec<String> = (0..100).map(|number| format!("X-{number}: x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(session.with("GET", "/api/about", &many, "").status, 431);
    assert_eq!(session.with("GET", "/api/about", &[], "").status, 200, "it is none the worse for it");
}

#[test]
fn floods_are_refused_and_those_of_strangers_do_not_keep_the_owner_out() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    let (host, json) = (format!("Host: {}", explorer.host()), "Content-Type: application/json");
    let guess = |_| explorer.send("POST", "/api/session", &[&host, json], r#"{"token": "guess"}"#);
    let guesses: Vec<Answer> = (0..400).map(guess).collect();
    let refused: Vec<&Answer> = guesses.iter().filter(|answer| answer.status == 429).collect();
    assert!(refused.len() > 100, "{}", refused.len());
    assert!(
        refused
            .iter()
            .all(|answer| answer.refused(429) == "too_often" && answer.head.contains("retry-after: 1"))
    );
    assert_eq!(session.get("/api/about").status, 200);
    let asked: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..500).map(|_| session.get("/api/job").status).collect::<Vec<u16>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(asked.iter().all(|status| [200, 429].contains(status)));
    assert!(asked.contains(&200) && asked.contains(&429), "{asked:?}");
    // Learning may begin a few times, and then not for a while.
    let began = (0..5).map(|_| {
        thread::sleep(Duration::from_secs(1));
        let answer = session.post("/api/learn", &json!({}));
        session.wait("/api/job", |job| job["phase"] != "running");
        answer.status
    });
    let began: Vec<u16> = began.collect();
    assert_eq!(began[..3], [200, 200, 200], "{began:?}");
    assert!(began[3..].contains(&429), "{began:?}");
}

#[test]
fn by_default_nothing_is_written() {
    let flow = filled(24);
    flow.run("questions", &["--log", "off"]).ok();
    let before = content(&flow.path("index"));
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    assert_eq!(session.get("/api/about").ok()["judge"], false);
    let judged = json!({ "question": "tree", "id": id(0), "grade": 1 });
    assert_eq!(session.post("/api/judge", &judged).refused(403), "read_only");
    let forgotten = json!({ "question": "tree", "id": id(0) });
    assert_eq!(session.post("/api/forget", &forgotten).refused(403), "read_only");
    for path in ["/api/learn", "/api/rollback"] {
        assert_eq!(session.post(path, &json!({})).refused(403), "read_only");
    }
    session.search("tree leaf").ok();
    session.post("/api/why", &json!({ "question": "tree leaf", "k": 5 })).ok();
    session.post("/api/leaves", &json!({})).ok();
    let leaves = session.wait("/api/leaves", |leaves| leaves["phase"] == "done");
    let documents =
        leaves["leaves"].as_array().unwrap().iter().map(|leaf| leaf["documents"].as_u64().unwrap());
    assert_eq!(documents.sum::<u64>(), 24);
    GETS.iter().for_each(|path| assert_eq!(session.get(path).status, 200, "{path}"));
    assert_eq!(content(&flow.path("index")), before);
    assert_eq!(explorer.end(), Some(0));
}

#[test]
fn hits_have_what_the_page_shows_and_options_are_heeded() {
    let flow = Flow::new();
    let hostile = "<script>alert(1)</script> \u{202e}{{tree}} leaf";
    let documents = [
        json!({ "_id": "long", "title": "Tree", "text": format!("{}tree leaf ", "nothing ".repeat(700_000)), "metadata": { "lang": "en" } }),
        json!({ "_id": "word", "text": "tree", "metadata": { "lang": "de", "tags": ["a", "b"] } }),
        json!({ "_id": "hostile", "title": hostile, "text": hostile }),
    ];
    let file = flow.path("own.jsonl");
    fs::write(&file, documents.iter().map(|document| format!("{document}\n")).collect::<String>()).unwrap();
    flow.run("insert", &[text(&file)]).ok();
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let answer = session.search("tree leaf");
    assert!(answer.body.len() < 10_000, "a text of 5 MB is not sent with each key");
    let found = answer.ok();
    let hit = |name: &str| found["hits"].as_array().unwrap().iter().find(|hit| hit["id"] == name).unwrap();
    assert_eq!(hit("word")["excerpt"]["stretches"], json!([{ "text": "tree", "marked": true }]));
    assert_eq!(hit("hostile")["title"], hostile);
    assert_eq!(hit("word")["fields"][1]["filter"], json!({ "tags": { "$eq": "a" } }));
    assert_eq!(found["stats"]["documents_visited"], 3);
    let filtered = json!({ "question": "tree", "k": 5, "filter": hit("word")["fields"][1]["filter"] });
    let filtered = session.post("/api/search", &filtered).ok();
    assert_eq!(filtered["hits"].as_array().unwrap().len(), 1);
    let ask = |more: Value| {
        let mut ask = json!({ "question": "tree", "k": 5 });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        session.post("/api/search", &ask)
    };
    assert_eq!(ask(json!({ "mode": "lexical" })).ok()["ranked_by"]["mode"], "lexical");
    assert_eq!(ask(json!({ "reach": { "leaves": 1 } })).ok()["stats"]["leaves_visited"], 1);
    assert_eq!(ask(json!({ "reach": "exact" })).ok()["stats"]["leaves_visited"], 0);
    assert!(ask(json!({ "encoder": "full" })).ok()["stats"]["encoder"] == "full");
    ask(json!({ "encoder": "fast" })).ok();
    for bad in [
        json!({ "k": 0 }),
        json!({ "k": 201 }),
        json!({ "reach": { "recall": 2.0 } }),
        json!({ "reach": { "leaves": 0 } }),
        json!({ "mode": "lexical", "reach": "exact" }),
        json!({ "encoder": "slow" }),
        json!({ "filter": { "$bad": 1 } }),
        json!({ "question": " " }),
    ] {
        assert_eq!(ask(bad).refused(400), "bad_request");
    }
    // All of the long text, piece by piece.
    let (mut from, mut whole) = (0, String::new());
    loop {
        let piece = session.post("/api/document", &json!({ "id": "long", "from": from })).ok();
        let stretches = piece["stretches"].as_array().unwrap();
        whole.extend(stretches.iter().map(|stretch| stretch["text"].as_str().unwrap()));
        match piece["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(whole, documents[0]["text"].as_str().unwrap());
    assert_eq!(
        session.post("/api/document", &json!({ "id": "long", "from": 1_u64 << 40 })).refused(400),
        "bad_request"
    );
    let why = json!({ "question": "tree", "k": 5, "reach": { "leaves": 1 } });
    let why = session.post("/api/why", &why).ok();
    let visited = why["leaves"][0]["leaf"].as_u64().unwrap();
    assert!(why["hits"].as_array().unwrap().iter().all(|hit| hit["from"] == visited), "{why}");
    for exact in why["exact"].as_array().unwrap() {
        assert_eq!(exact["visited"], exact["leaf"] == visited, "{exact}");
    }
}

#[test]
fn what_another_process_writes_is_shown_and_an_index_that_is_gone_is_missed() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let before = session.get("/api/about").ok();
    flow.insert(24);
    let after = session.wait("/api/about", |about| about["documents"] == 24);
    assert_ne!(before["generation"], after["generation"]);
    flow.run("delete", &[&id(3)]).ok();
    session.wait("/api/about", |about| about["documents"] == 23);
    assert_eq!(session.post("/api/document", &json!({ "id": id(3) })).status, 404);
    fs::rename(flow.path("index"), flow.path("elsewhere")).unwrap();
    let gone = session.wait("/api/about", |about| about["error"] == "gone");
    assert!(gone["message"].as_str().unwrap().contains("cannot be read any more"), "{gone}");
    assert_eq!(session.search("tree").refused(503), "gone");
    fs::rename(flow.path("elsewhere"), flow.path("index")).unwrap();
    session.wait("/api/about", |about| about["documents"] == 23);
    drop(explorer);
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    fs::rename(flow.path("index"), flow.path("elsewhere")).unwrap();
    session.wait("/api/about", |about| about["error"] == "gone");
}

#[test]
fn judgments_are_kept_listed_and_undone_and_questions_logged_when_asked() {
    let flow = filled(12);
    flow.run("questions", &["--log", "on"]).ok();
    let explorer = Explorer::new(&flow.index(), &["--judge"]);
    let session = explorer.begin();
    let line = flow.run("insert", &["-"]).failure();
    assert!(line.contains("open for writing elsewhere"), "{line}");
    let judge = |id: &str, grade: i32| {
        session.post("/api/judge", &json!({ "question": "what is a tree?", "id": id, "grade": grade }))
    };
    assert_eq!(judge(&id(0), 2).ok()["added"], 1);
    assert_eq!(judge(&id(0), 1).ok()["replaced"], 1);
    judge(&id(6), 0).ok();
    judge("absent", 1).ok();
    assert_eq!(judge("", 1).refused(400), "bad_request");
    // Others see them at once.
    let said = flow.run("judgments", &["--json"]).ok();
    assert_eq!(said.lines().count(), 3, "{said}");
    let list = session.get("/api/judgments").ok();
    assert_eq!((&list["all"], &list["questions"]), (&json!(3), &json!(1)));
    let absent = list["judgments"].as_array().unwrap().iter().find(|own| own["id"] == "absent").unwrap();
    assert_eq!(absent["title"], Value::Null);
    let forget = json!({ "question": "what is a tree?", "id": "absent" });
    assert_eq!(session.post("/api/forget", &forget).ok()["forgotten"], 1);
    assert_eq!(session.post("/api/forget", &forget).ok()["forgotten"], 0);
    session.post("/api/search", &json!({ "question": "tre", "k": 1 })).ok();
    session.post("/api/search", &json!({ "question": "tree", "k": 1, "asked": true })).ok();
    let logged = flow.run("questions", &["--json"]).ok();
    assert!(logged.lines().count() == 1 && logged.contains("\"tree\""), "{logged}");
    session.post("/api/learn", &json!({})).ok();
    let job = session.wait("/api/job", |job| job["phase"] != "running");
    assert_eq!((&job["phase"], &job["learned"]["decision"]), (&json!("learned"), &json!("too_few")));
    assert_eq!(session.post("/api/decide", &json!({ "use": true })).refused(409), "nothing_to_decide");
    session.post("/api/rollback", &json!({})).ok();
    let job = session.wait("/api/job", |job| job["phase"] != "running");
    assert!(job["message"].as_str().unwrap().contains("no earlier model"), "{job}");
    assert_eq!(explorer.end(), Some(0));
    assert_eq!(flow.run("judgments", &["--json"]).ok().lines().count(), 2);
}
