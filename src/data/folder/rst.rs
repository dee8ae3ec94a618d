//! The text of a reStructuredText file.

use super::lightweight::{Inline, Mark, Source, Writer, indent, item_mark};
use super::text::{Break, Page, is_in};

pub(super) fn page(file: &str) -> Page {
    let (source, out) = (Source::of(file), Writer::new(file, mark));
    let mut reader =
        Reader { source, out, styles: Vec::new(), literal: None, table: Table::None, is_top: true };
    while let Some(line) = reader.source.next() {
        reader.line(line);
    }
    reader.flush(Break::Paragraph);
    reader.out.finish()
}

/// Directives that readers do not see, with what is in them.
const UNSEEN: &str = "image toctree include literalinclude index highlight contents meta raw role default-role \
    default-domain module currentmodule tabularcolumns sectnum graphviz plot bibliography program highlightlang \
    target-notes replace unicode";
/// Directives whose argument only says how or when readers see what is in them.
const SETTINGS: &str = "figure only container class ifconfig code-block code sourcecode parsed-literal prompt \
    doctest testcode testoutput testsetup ipython console list-table tab-set grid";
/// Directives whose content is a listing.
const LISTINGS: &str = "code-block code sourcecode parsed-literal math prompt doctest testcode testoutput \
    testsetup ipython console productionlist csv-table mermaid";
/// Directives that name a kind of note.
const NOTES: &str = "note warning tip hint important caution danger error attention todo seealso";
/// Directives whose argument is text with marks.
const TITLED: &str = "rubric topic sidebar admonition centered table list-table csv-table";

#[derive(PartialEq)]
enum Table {
    None,
    Simple,
    Grid,
}

struct Reader<'a> {
    source: Source<'a>,
    out: Writer<'a>,
    /// The character of each level's line, and whether there is one above the heading too.
    styles: Vec<(u8, bool)>,
    /// The indentation of a paragraph that announces a listing.
    literal: Option<usize>,
    table: Table,
    /// Whether nothing but headings and fields came before.
    is_top: bool,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) {
        let margin = indent(line);
        let text = &line[margin..];
        if text.is_empty() {
            if self.table == Table::Grid {
                self.table = Table::None;
            }
            self.flush(if self.table == Table::Simple { Break::Line } else { Break::Paragraph });
            return;
        }
        if let Some(base) = self.literal.take()
            && margin > base
        {
            let is_in = |line: &str| line.is_empty() || indent(line) > base;
            let listing = self.source.take_block_with_line(is_in);
            return self.out.listing(listing);
        }
        if (text == ".." || text.starts_with(".. ")) && self.table == Table::None {
            self.flush(Break::Paragraph);
            return self.explicit(line, margin);
        }
        let is_first = self.out.open.is_none();
        if self.table == Table::None && is_first && margin == 0 && self.heading(text) {
            return;
        }
        if self.border(text) {
            return;
        }
        if is_first
            && self.is_top
            && margin == 0
            && let Some((name, value)) = field(text)
        {
            let rest = self.block(margin).0;
            return self.out.field(&name.to_lowercase(), &format!("{value} {rest}"));
        }
        self.is_top = false;
        if is_first && text.starts_with(">>> ") {
            let listing = self.source.take_block_with_line(|line| !line.is_empty());
            return self.out.listing(listing);
        }
        self.text(line, margin);
    }

    /// Text of a paragraph, an item, a row or a line.
    fn text(&mut self, line: &'a str, margin: usize) {
        let text = &line[margin..];
        let number = self.source.number;
        match self.table {
            Table::Grid => return self.out.row(text.split('|'), number),
            Table::Simple => return self.out.row(text.split("  "), number),
            Table::None => {}
        }
        let open = self.out.open.as_ref().map(|open| (open.indent, open.is_item));
        if open.is_none_or(|(_, is_item)| is_item)
            && let Some((length, is_number)) = item_mark(text, BULLETS)
        {
            self.flush(Break::Line);
            let from = margin + length;
            return self.out.item(&self.source, line, from, if is_number { margin } else { from });
        }
        if let Some(rest) = text.strip_prefix("| ").or(text.strip_prefix('|').filter(|rest| rest.is_empty()))
        {
            self.flush(Break::Line);
            self.out.line(&self.source, line, line.len() - rest.len());
            return self.out.flush(Break::Line);
        }
        if field(text).is_some() {
            self.flush(Break::Line);
            self.out.item(&self.source, line, margin + 1, margin + 1);
            return;
        }
        match open {
            // A term and its definition, or the end of an item.
            Some((own, is_item)) if margin > own && !is_item || margin < own => self.flush(Break::Line),
            _ => {}
        }
        self.out.line(&self.source, line, margin);
    }

    /// Ends a paragraph, which may announce a listing.
    fn flush(&mut self, by: Break) {
        let text = self.out.paragraph();
        if let Some(open) = &mut self.out.open
            && let Some(before) = text.strip_suffix("::")
        {
            self.literal = Some(open.indent);
            let is_apart = before.is_empty() || before.ends_with(char::is_whitespace);
            open.end -= if is_apart { 2 } else { 1 };
        }
        self.out.flush(by);
    }

    /// The lines that are indented more than a margin.
    fn block(&mut self, margin: usize) -> (&'a str, u32) {
        self.source.take_block(|line| line.is_empty() || indent(line) > margin)
    }

    /// A heading with a line below it, or around it.
    fn heading(&mut self, text: &str) -> bool {
        let (next, after) =
            (self.source.peek(0).unwrap_or_default(), self.source.peek(1).unwrap_or_default());
        let fits = |line: &str, title: &str| line.len() >= title.chars().count().min(4);
        let (style, title) = match (rule(text), rule(next)) {
            (Some(own), None) if rule(after) == Some(own) && !next.is_empty() && fits(after, next.trim()) => {
                self.source.next();
                ((own, true), next.trim())
            }
            (None, Some(below)) if fits(next, text) => ((below, false), text),
            _ => return false,
        };
        let number = self.source.number;
        self.source.next();
        let level = self.styles.iter().position(|known| *known == style).unwrap_or_else(|| {
            self.styles.push(style);
            self.styles.len() - 1
        });
        self.out.heading(level + 1, title, number);
        true
    }

    /// A line of a table, or between parts of a text.
    fn border(&mut self, text: &str) -> bool {
        let is_end = self.source.peek(0).is_none_or(str::is_empty);
        let is_of = |marks: &[char]| text.chars().all(|c| marks.contains(&c));
        if text.starts_with("+-") && is_of(&['+', '-', '=', ' ']) || text.starts_with("+=") {
            self.table = Table::Grid;
        } else if text.starts_with("==") && text.contains(' ') && is_of(&['=', ' ']) {
            let is_open = self.table == Table::Simple;
            self.table = if is_open && is_end { Table::None } else { Table::Simple };
        } else if self.table == Table::Grid && is_of(&['|', '+', '-', '=', ' '])
            || self.table == Table::Simple && text.starts_with("--") && is_of(&['-', ' '])
            || self.table == Table::None && text.len() >= 4 && rule(text).is_some()
        {
        } else {
            return false;
        }
        self.flush(if self.table == Table::None { Break::Paragraph } else { Break::Line });
        true
    }

    /// A directive, a footnote, a target or a comment.
    fn explicit(&mut self, line: &'a str, margin: usize) {
        let rest = line[margin + 2..].trim_start();
        let from = line.len() - rest.len();
        let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
        if rest.starts_with('[') && rest.contains(']') {
            self.out.item(&self.source, line, margin + 3, from);
        } else if let Some((name, argument)) = rest.split_once("::").filter(|(name, _)| is_name(name))
            && !rest.starts_with(['_', '|'])
        {
            let name = name.rsplit(':').next().unwrap_or_default().to_lowercase();
            self.directive(&name, argument.trim(), line, margin);
        } else if !rest.is_empty() || self.source.peek(0).is_some_and(|next| !next.is_empty()) {
            self.block(margin);
        }
    }

    fn directive(&mut self, name: &str, argument: &str, line: &'a str, margin: usize) {
        let number = self.source.number;
        if is_in(UNSEEN, name) {
            let (block, _) = self.block(margin);
            let options = block.lines().map(str::trim).take_while(|line| !line.is_empty());
            let alt = options.filter_map(|line| line.strip_prefix(":alt:")).next();
            return self.out.words(alt.unwrap_or_default(), number);
        }
        self.is_top = false;
        if is_in(NOTES, name) {
            let first = name[..1].to_uppercase();
            self.out.words(
                &match name {
                    "seealso" => "See also".to_owned(),
                    _ => format!("{first}{}", &name[1..]),
                },
                number,
            );
        }
        let change = match name {
            "versionadded" => "Added in",
            "versionchanged" => "Changed in",
            "deprecated" => "Deprecated since",
            "versionremoved" => "Removed in",
            _ => "",
        };
        self.out.page.at_line(number);
        self.out.page.push(change);
        self.out.page.stop(Break::Space);
        let is_text = is_in(NOTES, name) || is_in(TITLED, name) || !change.is_empty();
        if !argument.is_empty() && is_text {
            self.out.line(&self.source, line, line.len() - argument.len());
            self.out.open.iter_mut().for_each(|open| (open.indent, open.is_item) = (margin + 1, true));
        } else if !argument.is_empty() && !is_in(SETTINGS, name) {
            self.out.words(argument, number);
        }
        let is_option = |line: &str| indent(line) > margin && field(line.trim_start()).is_some();
        self.source.take_block(is_option);
        if is_in(LISTINGS, name) {
            let listing = self.block(margin);
            self.out.listing(listing);
        }
    }
}

const BULLETS: &[char] = &['-', '*', '+', '\u{2022}'];

/// The character of a line of equal marks.
fn rule(line: &str) -> Option<u8> {
    let first = *line.as_bytes().first().filter(|byte| byte.is_ascii_punctuation())?;
    Some(first).filter(|_| line.len() >= 2 && line.bytes().all(|byte| byte == first))
}

/// The name and value of a field, `:name: value`; a role has no space after its second colon.
fn field(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.strip_prefix(':')?.split_once(':')?;
    let is_field = !name.is_empty() && !name.starts_with(' ') && (value.is_empty() || value.starts_with(' '));
    Some((name, value.trim())).filter(|_| is_field)
}

fn mark(scan: &mut Inline<'_>, at: usize) -> Option<Mark> {
    let text = scan.text;
    match text.as_bytes()[at] {
        b'\\' => match scan.after(at + 1)? {
            c if c.is_whitespace() => Some(Mark::nothing(at..at + 1 + c.len_utf8())),
            c => Some(Mark::verbatim(at..at + 1 + c.len_utf8(), at + 1..at + 1 + c.len_utf8())),
        },
        b'`' if text[at..].starts_with("``") => {
            let end = scan.find("``", at + 2)?;
            Some(Mark::verbatim(at..end + 2, at + 2..end))
        }
        b'`' => interpreted(scan, at),
        b'*' => {
            let mark = if text[at..].starts_with("**") { "**" } else { "*" };
            let inside = scan.span(mark, at)?;
            Some(Mark::verbatim(at..inside.end + mark.len(), inside))
        }
        b'|' => {
            let inside = scan.span("|", at).filter(|inside| inside.len() < 100)?;
            let end = inside.end + 1;
            let links = text[end..].bytes().take(2).take_while(|byte| *byte == b'_').count();
            Some(Mark::verbatim(at..end + links, inside))
        }
        b'_' => {
            let end = at + 1 + usize::from(text[at..].starts_with("__"));
            let is_link = scan.before(at).is_some_and(|c| c.is_alphanumeric() || c == ']')
                && !scan.after(end).is_some_and(|c| c.is_alphanumeric() || c == '_');
            let is_target =
                text[at + 1..].starts_with('`') && !scan.before(at).is_some_and(char::is_alphanumeric);
            (is_link || is_target).then(|| Mark::nothing(at..if is_link { end } else { at + 1 }))
        }
        _ => None,
    }
}

/// Text between single backquotes: a link, or text with a role.
fn interpreted(scan: &mut Inline<'_>, at: usize) -> Option<Mark> {
    let text = scan.text;
    let mut inside = scan.span("`", at)?;
    let mut end = inside.end + 1;
    end += text[end..].bytes().take(2).take_while(|byte| *byte == b'_').count();
    let head = &text.as_bytes()[at.saturating_sub(50)..at];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b":-_+.".contains(byte);
    let role = head.iter().rev().take_while(|byte| is_name(byte)).count();
    let role = &text[at - role..at];
    let role = if role.ends_with(':') { role.find(':').map_or(0, |start| role.len() - start) } else { 0 };
    let own = &text[inside.clone()];
    if let Some(target) = own.strip_suffix('>').and_then(|own| own.rfind('<')) {
        let shown = own[..target].trim_end().len();
        inside = match shown {
            0 => inside.start + target + 1..inside.end - 1,
            shown => inside.start..inside.start + shown,
        };
    } else if role > 1 && own.starts_with('~') {
        inside.start += own.rfind('.').map_or(1, |dot| dot + 1);
    } else if role > 1 && own.starts_with('!') {
        inside.start += 1;
    }
    Some(Mark::verbatim(at - role..end, inside))
}
