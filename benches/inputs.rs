//! Reading large files: speed, and the kernel's count of memory.
//!
//!     cargo bench --bench inputs -- KIND [MEGABYTES]
//!     cargo bench --features parquet --bench inputs -- file PATH
//!
//! Kinds: `csv`, `tsv`, `jsonl`, `json` (an array), `gzip` (CSV), and `quote` (CSV with an unclosed quote
//! near the start, which must end with an error before memory runs out). 1,000 megabytes by default,
//! generated while reading. Prints one JSON object.

use std::fs;
use std::io::{self, Read};
use std::time::Instant;

use ehi::data::{Format, Input};
use flate2::Compression;
use flate2::read::GzEncoder;
use serde_json::json;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(kind) = arguments.first() else {
        println!("not run: see the head of benches/inputs.rs");
        return;
    };
    let path = arguments.get(1).filter(|_| kind == "file");
    let count = arguments.get(1).filter(|_| path.is_none());
    let megabytes = count.map_or(1_000, |count| count.parse().expect("a number of megabytes"));
    let rows = |kind: &str| Rows::new(kind, megabytes * 1_000_000);
    let (input, stream): (Input, Box<dyn Read + Send>) = match kind.as_str() {
        "tsv" => (Input::new().format(Format::Tsv), Box::new(rows(kind))),
        "gzip" => (Input::new(), Box::new(GzEncoder::new(rows("csv"), Compression::fast()))),
        _ => (Input::new(), Box::new(rows(kind))),
    };
    let started = Instant::now();
    let (mut documents, mut bytes, mut error) = (0u64, 0u64, None);
    let read = match path {
        Some(path) => input.open(path),
        None => input.read(stream, kind.as_str()),
    };
    for document in read.expect("the start is sound") {
        match document {
            Ok(document) => {
                documents += 1;
                bytes += document.heap_bytes() as u64;
            }
            Err(found) => {
                error = Some(found.to_string());
                break;
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let report = json!({
        "kind": kind,
        "megabytes": megabytes,
        "documents": documents,
        "bytes_of_documents": bytes,
        "error": error,
        "seconds": (seconds * 100.0).round() / 100.0,
        "megabytes_per_second": (megabytes as f64 / seconds).round(),
        "peak_mib": peak_kib() / 1024,
    });
    println!("{report}");
}

/// The peak resident memory of this process so far.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

/// Generates rows of about 1 KB until the size is reached.
struct Rows {
    kind: String,
    left: u64,
    number: u64,
    row: Vec<u8>,
    read: usize,
    has_ended: bool,
}

impl Rows {
    fn new(kind: &str, bytes: u64) -> Self {
        let head = match kind {
            "tsv" => "id\ttitle\ttext\tyear\n",
            "jsonl" => "",
            "json" => "[\n",
            _ => "id,title,text,year\n",
        };
        let row = head.as_bytes().to_vec();
        Self { kind: kind.to_owned(), left: bytes, number: 0, row, read: 0, has_ended: false }
    }

    fn next_row(&mut self) {
        let number = self.number;
        self.number += 1;
        let text = format!("leaf {number} of a tree ").repeat(45);
        let row = match self.kind.as_str() {
            "tsv" => format!("{number}\ttitle {number}\t{text}\t2020\n"),
            "jsonl" => format!("{{\"_id\":\"{number}\",\"title\":\"title\",\"text\":\"{text}\"}}\n"),
            "json" => {
                let comma = if number > 0 { "," } else { "" };
                format!("{comma}{{\"_id\":\"{number}\",\"title\":\"title\",\"text\":\"{text}\"}}\n")
            }
            "quote" if number == 1_000 => format!("{number},\"title {number},{text},2020\n"),
            _ if number.is_multiple_of(10) => {
                format!("{number},\"title, \"\"{number}\"\"\",\"{text}\n\",2020\n")
            }
            _ => format!("{number},title {number},{text},2020\n"),
        };
        self.row = row.into_bytes();
        self.read = 0;
        self.left = self.left.saturating_sub(self.row.len() as u64);
    }
}

impl Read for Rows {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.read == self.row.len() {
            if self.left > 0 {
                self.next_row();
            } else if self.kind == "json" && !self.has_ended {
                self.has_ended = true;
                (self.row, self.read) = (b"]".to_vec(), 0);
            } else {
                return Ok(0);
            }
        }
        let rest = &self.row[self.read..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}
