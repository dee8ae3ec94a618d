//! Standard output with terminal control characters from data escaped, and with marked words.

use std::io::{self, IsTerminal, Stdout, Write};

use crate::text::{MARK, UNMARK, acts};

/// Standard output with characters that act escaped, except line feeds and tabs. Marked words are bold on a
/// terminal.
///
/// A last resort behind [`escaped`], which makes line feeds of data visible too. Text comes in whole
/// characters, since each write is of a `str`.
pub struct Plain<W> {
    out: W,
    is_bold: bool,
}

impl Plain<Stdout> {
    /// Marked words are bold if this is a terminal and `NO_COLOR` is not set.
    pub fn stdout() -> Self {
        let out = io::stdout();
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { is_bold: is_wanted && out.is_terminal(), out }
    }
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            write_with(
                &mut self.out,
                chunk.valid(),
                |c| acts(c) && !matches!(c, '\n' | '\t'),
                |c| match c {
                    MARK | UNMARK if !self.is_bold => String::new(),
                    MARK => "\u{1b}[1m".to_owned(),
                    UNMARK => "\u{1b}[m".to_owned(),
                    _ => c.escape_unicode().to_string(),
                },
            )?;
            if !chunk.invalid().is_empty() {
                write!(self.out, "{}", char::REPLACEMENT_CHARACTER)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a text with the chosen characters replaced.
pub fn write_with<W: ?Sized + Write>(
    out: &mut W,
    text: &str,
    chosen: impl Fn(char) -> bool,
    written: impl Fn(char) -> String,
) -> io::Result<()> {
    let mut rest = text;
    while let Some((place, character)) = rest.char_indices().find(|(_, c)| chosen(*c)) {
        out.write_all(&rest.as_bytes()[..place])?;
        out.write_all(written(character).as_bytes())?;
        rest = &rest[place + character.len_utf8()..];
    }
    out.write_all(rest.as_bytes())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::text::escaped;

    pub const HOSTILE: &str =
        "a\u{1b}[31m\u{7}\u{9b}1m\u{7f}\u{85}\u{2028}\u{202e}\u{2066}\u{2069}\u{fdd0}é\u{1F600}\"\\\n\t";

    #[test]
    fn text_keeps_its_lines_and_nothing_else_that_acts() {
        let mut out = Plain { out: Vec::new(), is_bold: false };
        writeln!(out, "first {HOSTILE} last").unwrap();
        out.write_all(b"\xff").unwrap();
        let text = String::from_utf8(out.out).unwrap();
        assert!(!text.chars().any(|c| acts(c) && !matches!(c, '\n' | '\t')), "{text:?}");
        assert_eq!(text.matches('\n').count(), 2);
        assert!(
            text.starts_with("first a\\u{1b}[31m\\u{7}\\u{9b}1m") && text.ends_with('\u{fffd}'),
            "{text:?}"
        );
        assert!(escaped(HOSTILE).ends_with("\\u{a}\\u{9}"));
        assert_eq!(escaped("\u{fdd0}a\u{fdd1}"), "\\u{fdd0}a\\u{fdd1}");
        let marked = |is_bold| {
            let mut out = Plain { out: Vec::new(), is_bold };
            write!(out, "a {MARK}b{UNMARK}").unwrap();
            String::from_utf8(out.out).unwrap()
        };
        assert_eq!((marked(false), marked(true)), ("a b".into(), "a \u{1b}[1mb\u{1b}[m".into()));
    }
}
