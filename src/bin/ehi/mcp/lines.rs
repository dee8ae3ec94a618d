//! The protocol's lines on standard input and output. Each has a thread of its own, so that no call waits for
//! a client that does not read, and a request is bounded before it is parsed.

use std::io::{self, BufRead, Write};
use std::thread::{self, JoinHandle};

use rmcp::model::ErrorCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::limits::REQUEST;
use super::oversized::IdScan;

/// Bytes between a thread and the protocol.
const BETWEEN: usize = 64 << 10;

/// Where the protocol reads and writes.
pub type Transport = (DuplexStream, DuplexStream);

/// The thread that writes.
pub struct Output(JoinHandle<()>);

impl Output {
    /// Waits until all that was to be said is written.
    pub fn finish(self) {
        if self.0.join().is_err() {
            tracing::error!("the thread that writes to standard output failed");
        }
    }
}

/// Starts both threads. The end of standard input ends what is read; a client that is gone stops the session.
pub fn open(runtime: &Handle, stop: &CancellationToken) -> (Transport, Output) {
    let (mut requests, read) = tokio::io::duplex(BETWEEN);
    let (written, mut answers) = tokio::io::duplex(BETWEEN);
    let handle = runtime.clone();
    thread::spawn(move || {
        let pass = |line: Line<'_>| match line {
            Line::Whole(line) => handle.block_on(requests.write_all(line)).is_ok(),
            Line::Oversized(id) => refuse(id).is_ok(),
        };
        if let Err(error) = each_line(io::stdin().lock(), REQUEST, pass) {
            tracing::warn!(%error, "standard input cannot be read; this is taken for its end");
        }
    });
    let (handle, stop) = (runtime.clone(), stop.clone());
    let writer = thread::spawn(move || {
        let mut said = Vec::with_capacity(BETWEEN);
        while let Ok(1..) = handle.block_on(answers.read_buf(&mut said)) {
            // Whole lines, since what is too long is refused by the other thread.
            let Some(end) = said.iter().rposition(|&byte| byte == b'\n') else { continue };
            if say(&said[..=end]).is_err() {
                stop.cancel();
                return;
            }
            said.drain(..=end);
        }
    });
    ((read, written), Output(writer))
}

fn say(lines: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(lines)?;
    out.flush()
}

/// Answers a request that is too long. A notification has no answer.
fn refuse(id: Option<Value>) -> io::Result<()> {
    tracing::warn!("a message of more than {REQUEST} bytes was dropped");
    let Some(id) = id else { return Ok(()) };
    let message =
        format!("the request has more than {REQUEST} bytes; give fewer or shorter documents at a time");
    let error = json!({ "code": ErrorCode::INVALID_REQUEST.0, "message": message });
    let mut line = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
    line.push('\n');
    say(line.as_bytes())
}

#[derive(Debug, PartialEq)]
enum Line<'a> {
    /// With the line feed behind it.
    Whole(&'a [u8]),
    /// Its id, as far as it has one.
    Oversized(Option<Value>),
}

/// Reads lines until `pass` says no, or nothing comes any more. No more than `most` bytes of one are held.
fn each_line(mut input: impl BufRead, most: usize, mut pass: impl FnMut(Line<'_>) -> bool) -> io::Result<()> {
    let mut line = Vec::new();
    let mut scan = None::<IdScan>;
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let ends = piece.is_empty();
        let found = piece.iter().position(|&byte| byte == b'\n');
        let piece = &piece[..found.unwrap_or(piece.len())];
        match &mut scan {
            Some(scan) => scan.read(piece),
            None if line.len() + piece.len() > most => {
                let started = scan.insert(IdScan::default());
                started.read(&line);
                started.read(piece);
                line = Vec::new();
            }
            None => line.extend_from_slice(piece),
        }
        let read = piece.len() + usize::from(found.is_some());
        input.consume(read);
        if found.is_none() && !ends {
            continue;
        }
        let goes_on = match scan.take() {
            Some(scan) => pass(Line::Oversized(scan.id())),
            None if line.is_empty() => true,
            None => {
                // The last one may be without.
                line.push(b'\n');
                pass(Line::Whole(&line))
            }
        };
        line.clear();
        if ends || !goes_on {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn lines(input: &str, most: usize, piece: usize) -> Vec<String> {
        let mut found = Vec::new();
        let pass = |line: Line<'_>| {
            found.push(match line {
                Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                Line::Oversized(id) => format!("too long: {id:?}"),
            });
            true
        };
        each_line(BufReader::with_capacity(piece, input.as_bytes()), most, pass).unwrap();
        found
    }

    #[test]
    fn lines_are_whole_or_refused() {
        let long = format!(r#"{{"id":5,"x":"{}"}}"#, "y".repeat(40));
        let input = format!("one\n\n{long}\ntwo\n{long}");
        for piece in [1, 7, 4096] {
            let all = lines(&input, 20, piece);
            assert_eq!(all, ["one\n", "too long: Some(Number(5))", "two\n", "too long: Some(Number(5))"]);
            let whole = lines(&input, long.len(), piece);
            assert_eq!(
                whole,
                ["one\n".to_owned(), format!("{long}\n"), "two\n".to_owned(), format!("{long}\n")]
            );
        }
        assert_eq!(lines("", 5, 5), [""; 0]);
        assert_eq!(lines("12345\n123456\n", 5, 2), ["12345\n", "too long: None"]);
    }

    #[test]
    fn reading_ends_where_nobody_listens() {
        let mut count = 0;
        let pass = |_: Line<'_>| {
            count += 1;
            false
        };
        each_line("one\ntwo\n".as_bytes(), 10, pass).unwrap();
        assert_eq!(count, 1);
    }
}
