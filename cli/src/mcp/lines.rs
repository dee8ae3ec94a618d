//! Lines of standard input, of a bounded length.

use std::io::{self, BufRead};

use serde_json::Value;

use super::oversized::IdScan;

/// Bytes that are kept for the next line.
const KEPT: usize = 64 << 10;

#[derive(Debug, PartialEq)]
pub enum Line<'a> {
    /// Without the line feed behind it.
    Whole(&'a [u8]),
    /// Its id, as far as it has one.
    Oversized(Option<Value>),
}

/// Reads lines until `pass` says no, or nothing comes any more. No more than `most` bytes of one are held.
pub fn each_line(
    mut input: impl BufRead,
    most: usize,
    mut pass: impl FnMut(Line<'_>) -> bool,
) -> io::Result<()> {
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
            None => pass(Line::Whole(&line)),
        };
        line.clear();
        // Not the memory of the longest one for as long as the session lasts.
        line.shrink_to(KEPT);
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
            assert_eq!(all, ["one", "too long: Some(Number(5))", "two", "too long: Some(Number(5))"]);
            let whole = lines(&input, long.len(), piece);
            assert_eq!(whole, ["one", &long, "two", &long]);
        }
        assert_eq!(lines("", 5, 5), [""; 0]);
        assert_eq!(lines("12345\n123456\n", 5, 2), ["12345", "too long: None"]);
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
