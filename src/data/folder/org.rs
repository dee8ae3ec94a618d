//! The text of an Org file.

use super::lightweight::{Inline, Mark, Source, Writer, indent, item_mark};
use super::text::{Break, Page};

pub(super) fn page(file: &str) -> Page {
    let (mut source, mut out) = (Source::of(file), Writer::new(file, mark));
    while let Some(line) = source.next() {
        read(&mut source, &mut out, line);
    }
    out.finish()
}

/// Keywords that are metadata, and its names.
const FIELDS: [(&str, &str); 7] = [
    ("title", "title"),
    ("author", "author"),
    ("date", "date"),
    ("description", "description"),
    ("keywords", "keywords"),
    ("language", "language"),
    ("filetags", "tags"),
];

fn read(source: &mut Source<'_>, out: &mut Writer<'_>, line: &str) {
    let margin = indent(line);
    let text = &line[margin..];
    let number = source.number;
    if let Some((level, title)) = heading(line) {
        return out.heading(level, title, number);
    }
    if text.is_empty() {
        return out.flush(Break::Paragraph);
    }
    if let Some(keyword) = text.strip_prefix("#+") {
        return self::keyword(source, out, keyword);
    }
    if text == "#" || text.starts_with("# ") {
        return out.flush(Break::None);
    }
    if text.starts_with(": ") {
        let is_in = |line: &str| line.trim_start().starts_with(": ") || line.trim_start() == ":";
        let (lines, first) = source.take_block_with_line(is_in);
        let lines: Vec<_> = lines.lines().map(|line| line.trim_start().trim_start_matches(':')).collect();
        return out.listing((&lines.join("\n"), first));
    }
    if let Some(name) = text.strip_prefix(':').and_then(|rest| rest.strip_suffix(':'))
        && !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    {
        out.flush(Break::Paragraph);
        if ["properties", "logbook"].contains(&&*name.to_lowercase()) {
            // Without its end, a drawer of properties ends at the first line that is none.
            let is_log = !name.eq_ignore_ascii_case("properties");
            source.take_block(|line| {
                let is_own = is_log || line.trim().starts_with(':') || line.trim().is_empty();
                heading(line).is_none() && !is_end(line) && is_own
            });
        }
        return;
    }
    if text.starts_with('|') {
        let is_border = text.starts_with("|-");
        return out.row(text.split('|').filter(|_| !is_border), number);
    }
    if text.len() >= 5 && text.bytes().all(|byte| byte == b'-') {
        return out.flush(Break::Paragraph);
    }
    let bullets: &[char] = if margin > 0 { &['-', '+', '*'] } else { &['-', '+'] };
    if let Some((length, is_number)) = item_mark(text, bullets) {
        let item = &text[length..];
        let is_box = ["[ ] ", "[X] ", "[x] ", "[-] "].iter().any(|own| item.starts_with(own));
        let from = margin + length + if is_box && !is_number { 4 } else { 0 };
        return out.item(source, line, from, if is_number { margin } else { from });
    }
    if out.open.as_ref().is_some_and(|open| open.is_item && margin < open.indent.min(margin + 1)) {
        out.flush(Break::Line);
    }
    out.line(source, line, margin);
}

fn is_end(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case(":end:")
}

/// A line that begins with `#+`.
fn keyword(source: &mut Source<'_>, out: &mut Writer<'_>, keyword: &str) {
    out.flush(Break::None);
    let name = keyword.split([' ', ':']).next().unwrap_or_default();
    let value = keyword[name.len()..].trim_start_matches(':').trim();
    let name = name.to_lowercase();
    if let Some(block) = name.strip_prefix("begin_") {
        out.flush(Break::Paragraph);
        let is_listing = matches!(block, "src" | "example");
        if is_listing || matches!(block, "comment" | "export") {
            let end = format!("#+end_{block}");
            let (text, first) = source.take_block(|line| {
                heading(line).is_none() && !line.trim().to_ascii_lowercase().starts_with(&end)
            });
            if is_listing {
                let mut shown = String::new();
                for line in text.lines() {
                    let (before, own) = line.split_at(indent(line));
                    let is_escaped = own.starts_with(",*") || own.starts_with(",#+");
                    shown.extend([before, &own[usize::from(is_escaped)..], "\n"]);
                }
                out.listing((&shown, first));
            }
        }
    } else if name.starts_with("end_") {
        out.flush(Break::Paragraph);
    } else if name == "caption" {
        out.words(value, source.number);
    } else if let Some((_, field)) = FIELDS.iter().find(|(own, _)| *own == name) {
        match *field {
            "tags" => {
                let tags = value.split([':', ' ']).filter(|tag| !tag.is_empty());
                out.fields.entry("tags").or_insert_with(|| tags.collect());
            }
            field => out.field(field, value),
        }
    }
}

/// The level and text of a heading, without its tags.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('*');
    let level = line.len() - text.len();
    let text = text.strip_prefix(' ').filter(|_| level > 0)?.trim();
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_tag = |c: char| c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '%' | ':');
    let has_tags = last.len() > 2 && last.starts_with(':') && last.ends_with(':') && last.chars().all(is_tag);
    Some((level, if has_tags { text[..text.len() - last.len()].trim_end() } else { text }))
}

const PICTURES: [&str; 6] = [".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp"];

fn mark(scan: &mut Inline<'_>, at: usize) -> Option<Mark> {
    let text = scan.text;
    match text.as_bytes()[at] {
        b'[' if text[at..].starts_with("[[") => {
            let end = scan.find("]]", at + 2)?;
            match scan.find("][", at + 2).filter(|middle| *middle < end) {
                Some(middle) => {
                    Some(Mark { from: at, inside: middle + 2..end, end: end + 2, is_verbatim: false })
                }
                None if PICTURES.iter().any(|own| text[at..end].ends_with(own)) => {
                    Some(Mark::nothing(at..end + 2))
                }
                None => Some(Mark::verbatim(at..end + 2, at + 2..end)),
            }
        }
        byte @ (b'*' | b'/' | b'_' | b'+' | b'=' | b'~') => {
            let mark = match byte {
                b'*' => "*",
                b'/' => "/",
                b'_' => "_",
                b'+' => "+",
                b'=' => "=",
                _ => "~",
            };
            let may_begin = |c: char| c.is_whitespace() || "-({'\"[*/_+".contains(c);
            let inside = scan.span(mark, at).filter(|_| scan.before(at).is_none_or(may_begin))?;
            let (end, is_verbatim) = (inside.end + 1, matches!(byte, b'=' | b'~'));
            Some(Mark { from: at, inside, end, is_verbatim })
        }
        b':' if text[at..].starts_with(":: ") && scan.before(at) == Some(' ') => {
            Some(Mark::verbatim(at - 1..at + 2, at..at + 1))
        }
        b'\\' if text[at..].starts_with("\\\\\n") => Some(Mark::nothing(at..at + 2)),
        _ => None,
    }
}
