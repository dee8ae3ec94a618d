//! Slow or numerous clients do not lock out the owner of the key for long.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Explorer, PATIENCE, Session, filled, store};
use crate::program::Flow;

/// Maximum number of concurrent connections.
const MOST: usize = 64;
/// Answers of 64 KiB that exceed what the system buffers for a client that stops reading.
const PIECES: usize = 200;
/// Longer than the limit for a whole head or a whole body.
const SLOW: Duration = Duration::from_secs(15);
/// Maximum time of an unobstructed answer.
const SOON: Duration = Duration::from_secs(5);

impl Explorer {
    fn open(&self, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    }
}

fn answered(session: &Session<'_>) -> Duration {
    let started = Instant::now();
    assert_eq!(session.get("/api/about").status, 200);
    started.elapsed()
}

/// Everything received until the other side closes, and how long that took.
fn rest(mut stream: TcpStream, since: Instant) -> (String, Duration) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut rest);
    (String::from_utf8(rest).unwrap(), since.elapsed())
}

#[test]
fn heads_and_bodies_that_do_not_come_and_connections_that_idle_are_closed() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let (host, since) = (explorer.host(), Instant::now());
    let nothing = explorer.open("");
    let half = explorer.open(&format!("GET /api/about HTTP/1.1\r\nHost: {host}\r\n"));
    let body = json!({ "question": "tree", "k": 1 }).to_string();
    let post = format!(
        "POST /api/search HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
        session.key
    );
    let short = explorer.open(&format!("{post}Content-Length: {}\r\n\r\n{}", body.len(), &body[..9]));
    let chunked = explorer.open(&format!("{post}Transfer-Encoding: chunked\r\n\r\n9\r\n{}\r\n", &body[..9]));
    // Answered, then kept open without a further request.
    let idle = explorer.open(&format!("{post}Content-Length: {}\r\n\r\n{body}", body.len()));
    assert!(answered(&session) < SOON, "others are not in its way");
    for stream in [nothing, half] {
        let (rest, took) = rest(stream, since);
        assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest}");
        assert!(took < 2 * SLOW, "{took:?}");
    }
    for stream in [short, chunked] {
        let (rest, took) = rest(stream, since);
        assert!(rest.starts_with("HTTP/1.1 408") && rest.contains("too_slow"), "{rest}");
        assert!(took < 3 * SLOW, "{took:?}");
    }
    let (rest, took) = rest(idle, since);
    assert!(rest.starts_with("HTTP/1.1 200") && took < 2 * SLOW, "{rest} {took:?}");
}

#[test]
fn who_takes_all_connections_has_them_for_so_long_and_no_longer() {
    let flow = filled(12);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let head = format!("GET / HTTP/1.1\r\nHost: {}\r\n", explorer.host());
    let mut slow: Vec<TcpStream> = (1..MOST).map(|_| explorer.open(&head)).collect();
    assert!(answered(&session) < SOON, "one place is left");
    // Connections beyond the limit wait in the system's queue, and so does the owner.
    slow.extend((0..MOST / 2).map(|_| explorer.open(&head)));
    let took = answered(&session);
    assert!(took > SOON && took < 4 * SLOW, "{took:?}");
    drop(slow);
    assert!(answered(&session) < SOON);
}

#[test]
fn who_reads_no_answers_loses_his_connection() {
    let flow = Flow::new();
    store(&flow, &[json!({ "_id": "long", "text": "leaf ".repeat(20_000) })]);
    let explorer = Explorer::new(&flow.index(), &[]);
    let session = explorer.begin();
    let body = json!({ "id": "long" }).to_string();
    let post = format!(
        "POST /api/document HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        explorer.host(),
        session.key,
        body.len()
    );
    let since = Instant::now();
    let deaf = explorer.open(&post.repeat(PIECES));
    assert!(answered(&session) < SOON, "others are not in its way");
    thread::sleep((SLOW + SOON).saturating_sub(since.elapsed()));
    // If its connection were still open, it would now receive all answers.
    let (rest, _) = rest(deaf, since);
    let got = rest.matches("HTTP/1.1 200").count();
    assert!(got > 0 && got < PIECES, "{got} of {PIECES} answers");
}
