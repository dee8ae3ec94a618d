//! The text of an AsciiDoc file.

use std::mem;

use super::html;
use super::lightweight::{Inline, Mark, Source, Writer, indent, item_mark};
use super::text::{Break, Page};

pub(super) fn page(file: &str) -> Page {
    let (source, out) = (Source::of(file), Writer::new(file, mark));
    let mut reader = Reader {
        source,
        out,
        is_listing: false,
        is_table: false,
        is_apart: true,
        is_after_term: false,
        is_top: true,
    };
    while let Some(line) = reader.source.next() {
        reader.line(line);
    }
    reader.out.finish()
}

/// Attributes of the head of a file that are metadata, and its names.
const FIELDS: [(&str, &str); 6] = [
    ("author", "author"),
    ("date", "date"),
    ("revdate", "date"),
    ("description", "description"),
    ("keywords", "keywords"),
    ("lang", "language"),
];
/// Kinds of notes, and the words that readers see.
const NOTES: [(&str, &str); 5] = [
    ("NOTE", "Note"),
    ("TIP", "Tip"),
    ("IMPORTANT", "Important"),
    ("WARNING", "Warning"),
    ("CAUTION", "Caution"),
];

struct Reader<'a> {
    source: Source<'a>,
    out: Writer<'a>,
    /// Whether the next paragraph is a listing.
    is_listing: bool,
    is_table: bool,
    /// Whether a line with white space before it begins a listing: after a blank line, but not one after a
    /// term.
    is_apart: bool,
    is_after_term: bool,
    /// Whether nothing of the text came before.
    is_top: bool,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) {
        let number = self.source.number;
        let is_first = self.out.open.is_none();
        if line.is_empty() {
            self.is_listing = false;
            self.is_apart = true;
            return self.out.flush(if self.is_table { Break::Line } else { Break::Paragraph });
        }
        if line.starts_with("//") && !line.starts_with("///") {
            return self.out.flush(Break::None);
        }
        if let Some((name, value)) = attribute(line) {
            self.out.flush(Break::None);
            if let Some((_, field)) = FIELDS.iter().find(|(own, _)| *own == name).filter(|_| self.is_top) {
                self.out.field(field, value);
            }
            return;
        }
        let is_top = self.is_top;
        if is_first
            && !self.is_table
            && !self.is_listing
            && let Some((level, title, is_two)) = self.heading(line)
        {
            if is_two {
                self.source.next();
            }
            self.out.heading(level, title, number);
            self.is_apart = true;
            if level == 1 && is_top {
                self.head();
            }
            return;
        }
        if self.block(line) {
            return;
        }
        self.is_top = false;
        let is_after_term = mem::take(&mut self.is_after_term);
        let is_apart = mem::take(&mut self.is_apart) && !is_after_term && !self.is_table;
        if is_first
            && (self.is_listing || is_apart && indent(line) > 0)
            && mark_of(line.trim_start()).is_none()
        {
            self.is_apart = true;
            self.is_listing = false;
            let listing = self.source.take_block_with_line(|line| !line.is_empty() && line != "+");
            return self.out.listing(listing);
        }
        self.text(line);
    }

    /// Text of a paragraph, an item, a row or a line.
    fn text(&mut self, line: &'a str) {
        let margin = indent(line);
        let text = &line[margin..];
        let number = self.source.number;
        if self.is_table && (line.starts_with('|') || is_cell(line.split('|').next().unwrap_or_default())) {
            return self.out.row(line.split('|').map(cell), number);
        }
        if line == "+" {
            return self.out.flush(Break::Paragraph);
        }
        if let Some((length, is_number)) = mark_of(text) {
            let from = margin + length;
            return self.out.item(&self.source, line, from, if is_number { margin } else { from });
        }
        let is_term = |text: &str| text.ends_with("::") || text.ends_with(";;");
        if is_term(line) || text.contains(":: ") && self.out.open.is_none() {
            self.out.flush(Break::Line);
            self.out.item(&self.source, line, margin, margin);
            if is_term(line) {
                self.out.open.iter_mut().for_each(|open| open.end -= 2);
                self.out.flush(Break::Line);
                self.is_after_term = true;
            }
            return;
        }
        self.out.line(&self.source, line, margin);
    }

    /// The level and text of a heading, and whether the next line belongs to it.
    fn heading(&self, line: &'a str) -> Option<(usize, &'a str, bool)> {
        let text = line.trim_start_matches(['=', '#']);
        let mark = &line[..line.len() - text.len()];
        let is_mark = (1..=6).contains(&mark.len()) && mark.bytes().all(|byte| byte == mark.as_bytes()[0]);
        if is_mark && text.starts_with(' ') && !text.trim().is_empty() {
            let text = text.trim();
            return Some((mark.len(), text.strip_suffix(mark).map_or(text, str::trim_end), false));
        }
        let below = self.source.peek(0)?;
        let level = "=-~^+".find(below.chars().next()?)? + 1;
        let is_line = below.len() > 2 && below.bytes().all(|byte| byte == below.as_bytes()[0]);
        let fits = below.len().abs_diff(line.chars().count()) <= 1;
        let is_title = line.starts_with(|c: char| c.is_alphanumeric() || "`'\"({$<_*:".contains(c));
        (is_line && fits && is_title).then_some((level, line, true))
    }

    /// The lines of author, revision and attributes after a title.
    fn head(&mut self) {
        for name in ["author", "revision"] {
            while self.source.peek(0).is_some_and(|line| line.starts_with(':') || line.starts_with("//")) {
                self.source.next().into_iter().for_each(|line| self.line(line));
            }
            let is_text = |line: &str| line.starts_with(char::is_alphanumeric) && !line.contains("::");
            if self.source.peek(0).is_some_and(is_text) {
                self.source.next().into_iter().for_each(|line| self.out.field(name, line));
            }
        }
    }

    /// The marks around a block, and lines that readers do not see.
    fn block(&mut self, line: &'a str) -> bool {
        let fence = line.split(|c: char| c.is_alphanumeric()).next().unwrap_or_default();
        let first = line.as_bytes()[0];
        let is_same = line.len() >= 4 && line.bytes().all(|byte| byte == first);
        if fence.starts_with("```") || is_same && b"-./+".contains(&first) {
            self.out.flush(Break::Paragraph);
            let end = if first == b'`' { fence.trim_end() } else { line };
            let block = self.source.take_block(|line| line != end);
            self.source.next();
            self.is_listing = false;
            match first {
                b'/' => {}
                b'+' => {
                    self.out.page.at_line(block.1);
                    html::read(block.0, &mut self.out.page);
                    self.out.flush(Break::Paragraph);
                }
                _ => self.out.listing(block),
            }
        } else if is_same && b"=*_".contains(&first) || matches!(line, "--" | "'''" | "---" | "***" | "<<<") {
            self.is_listing = false;
            self.out.flush(Break::Paragraph);
        } else if matches!(line, "|===" | "!===" | ",===" | ":===") {
            self.is_table ^= true;
            self.out.flush(Break::Paragraph);
        } else if line.starts_with('[')
            && line.ends_with(']')
            && (self.out.open.is_none() || line.starts_with("[source") || line.starts_with("[,"))
        {
            self.out.flush(Break::None);
            let inside = line[1..line.len() - 1].trim_start_matches('%');
            let style = inside.split([',', '.', '#', '%']).next().unwrap_or_default();
            self.is_listing |= matches!(style, "source" | "listing" | "literal" | "verse" | "synopsis");
            if let Some((_, words)) = NOTES.iter().find(|(own, _)| *own == style) {
                self.out.words(words, self.source.number);
            }
        } else if let Some(title) = line
            .strip_prefix('.')
            .filter(|title| !title.starts_with(['.', ' ']) && self.out.open.is_none() && !title.is_empty())
        {
            self.out.line(&self.source, line, line.len() - title.len());
            self.out.flush(Break::Paragraph);
        } else if let Some((name, rest)) = line.split_once("::")
            && let Some((target, text)) = rest.strip_suffix(']').and_then(|rest| rest.split_once('['))
            && !target.contains(' ')
            && !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        {
            let is_unseen = matches!(name, "include" | "ifeval" | "endif" | "video" | "audio" | "toc");
            let shown = if name == "image" { text.split(',').next().unwrap_or_default() } else { text };
            self.out.flush(if name.starts_with("if") || name == "endif" {
                Break::None
            } else {
                Break::Paragraph
            });
            self.out.page.at_line(self.source.number);
            self.out.page.push(if is_unseen || text.starts_with(':') { "" } else { shown.trim_matches('"') });
            self.out.flush(Break::Space);
        } else {
            return false;
        }
        true
    }
}

/// The mark of an item.
fn mark_of(text: &str) -> Option<(usize, bool)> {
    let mark = text.split(' ').next().unwrap_or_default();
    let is_nested = (2..=5).contains(&mark.len())
        && (mark.bytes().all(|byte| byte == b'*') || mark.bytes().all(|byte| byte == b'.'));
    let is_item = is_nested && text.len() > mark.len();
    is_item.then_some((mark.len() + 1, false)).or_else(|| item_mark(text, &['*', '-', '.']))
}

/// The name and value of an attribute of the document.
fn attribute(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix(':')?.split_once(':')?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '!');
    let is_attribute = !name.is_empty() && name.chars().all(is_name);
    Some((name, value.trim())).filter(|_| is_attribute && (value.is_empty() || value.starts_with(' ')))
}

/// Whether a text before a cell says how the cell is laid out.
fn is_cell(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 9
        && text.chars().all(|c| c.is_ascii_digit() || "+.*<^>adehlmsv".contains(c))
}

/// A cell of a table, without what says how the next one is laid out.
fn cell(text: &str) -> &str {
    let last = text.rsplit(' ').next().unwrap_or_default();
    if is_cell(last)
        && (last.len() == 1 || last.contains(['+', '.', '*', '<', '^', '>']))
        && last.len() < text.len()
    {
        &text[..text.len() - last.len()]
    } else if is_cell(text) && text.contains(['+', '.', '*', '<', '^', '>', 'a']) {
        ""
    } else {
        text
    }
}

fn mark(scan: &mut Inline<'_>, at: usize) -> Option<Mark> {
    let text = scan.text;
    match text.as_bytes()[at] {
        b'\\' if scan.after(at + 1).is_some_and(|c| "*_`#[{<'+:~^".contains(c)) => {
            Some(Mark::verbatim(at..at + 2, at + 1..at + 2))
        }
        b'+' if text[at..].starts_with("+++") => {
            let end = scan.find("+++", at + 3)?;
            Some(Mark::verbatim(at..end + 3, at + 3..end))
        }
        b'+' if scan.before(at) == Some(' ') && scan.after(at + 1).is_none_or(|c| c == '\n') => {
            Some(Mark::nothing(at..at + 1))
        }
        byte @ (b'`' | b'*' | b'_' | b'#' | b'+') => span(scan, at, byte),
        byte @ (b'^' | b'~') => {
            let inside = at + 1..scan.find(if byte == b'^' { "^" } else { "~" }, at + 1)?;
            let is_short = inside.len() < 40 && !inside.is_empty();
            let is_word = is_short && !text[inside.clone()].contains(char::is_whitespace);
            is_word.then(|| Mark::verbatim(at..inside.end + 1, inside))
        }
        b'<' if text[at..].starts_with("<<") => {
            let end = scan.find(">>", at + 2).filter(|end| end - at < 300)?;
            scan.after(at + 2).filter(|c| c.is_alphanumeric() || matches!(c, '_' | '#'))?;
            let start = text[at + 2..end].find(',').map_or(at + 2, |comma| at + 3 + comma);
            Some(Mark::verbatim(at..end + 2, start..end))
        }
        b'[' if text[at..].starts_with("[[") => {
            let end = scan.find("]]", at + 2).filter(|end| end - at < 300)?;
            let is_anchor = end > at + 2 && !text[at..end].contains(' ');
            is_anchor.then(|| Mark::nothing(at..end + 2))
        }
        b'(' if text[at..].starts_with("((") => {
            let is_unseen = text[at..].starts_with("(((");
            let end = scan.find(if is_unseen { ")))" } else { "))" }, at + 2).filter(|end| end - at < 300)?;
            match is_unseen {
                true => Some(Mark::nothing(at..end + 3)),
                false => Some(Mark::verbatim(at..end + 2, at + 2..end)),
            }
        }
        // An address in an attribute, with a text.
        b'{' => {
            let open = scan.find("[", at).filter(|open| open - at < 400)?;
            let close = scan.find("]", open)?;
            let is_address = text[at..open].contains('}') && !text[at..open].contains(char::is_whitespace);
            is_address.then(|| {
                Mark::verbatim(at..close + 1, open + 1..close - usize::from(text[..close].ends_with('^')))
            })
        }
        b':' => named(scan, at),
        _ => None,
    }
}

/// Text between marks of emphasis.
fn span(scan: &mut Inline<'_>, at: usize, byte: u8) -> Option<Mark> {
    let text = scan.text;
    let (one, two) = match byte {
        b'`' => ("`", "``"),
        b'*' => ("*", "**"),
        b'_' => ("_", "__"),
        b'#' => ("#", "##"),
        _ => ("+", "++"),
    };
    let (mark, mut inside) = match text[at..].starts_with(two) {
        true => (two, at + 2..scan.find(two, at + 3)?),
        false => (one, scan.span(one, at)?),
    };
    let end = inside.end + mark.len();
    let is_verbatim = matches!(byte, b'`' | b'+');
    if byte == b'`'
        && inside.len() > 2
        && text[inside.clone()].starts_with('+')
        && text[..inside.end].ends_with('+')
    {
        inside = inside.start + 1..inside.end - 1;
    }
    // A role before the mark.
    let head = &text.as_bytes()[at.saturating_sub(60)..at];
    let role = head.iter().rev().position(|byte| *byte == b'[').filter(|_| head.ends_with(b"]"));
    Some(Mark { from: role.map_or(at, |length| at - length - 1), inside, end, is_verbatim })
}

/// Whether a part between commas is a named attribute or empty, and not a text.
fn is_named(part: &str) -> bool {
    let name = part.split_once('=').map_or(part, |(name, _)| name).trim();
    (part.contains('=') || name.is_empty())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A macro (`name:target[text]`), an address with a text, or the end of a term.
fn named(scan: &mut Inline<'_>, at: usize) -> Option<Mark> {
    let text = scan.text;
    if text[at..].starts_with(":: ") || text[at..].starts_with("::\n") {
        return Some(Mark::verbatim(at..at + 2, at..at + 1));
    }
    let head = &text.as_bytes()[at.saturating_sub(16)..at];
    let name = head.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let from = at - name;
    let name = &text[from..at];
    let open = scan.find("[", at + 1).filter(|open| !name.is_empty() && open - at < 400)?;
    if text[at + 1..open].contains(char::is_whitespace) || text[at + 1..open].starts_with(':') {
        return None;
    }
    let close = scan.find("]", open + 1)?;
    let words = &text[open + 1..close];
    let inside = match name {
        "anchor" | "indexterm" | "bibanchor" => close..close,
        "image" | "icon" => open + 1..open + 1 + words.find(',').unwrap_or(words.len()),
        "linkgit" => at + 1..open,
        "http" | "https" | "ftp" | "irc" if words.split(',').all(is_named) => from..open,
        "xref" if words.split(',').all(is_named) => {
            let target = &text[at + 1..open];
            open - target.rsplit(['#', '/']).next().unwrap_or_default().len()..open
        }
        _ if words.split(',').all(is_named) => at + 1..open,
        _ => open + 1..close - usize::from(words.ends_with('^')),
    };
    Some(Mark { from, inside, end: close + 1, is_verbatim: false })
}
