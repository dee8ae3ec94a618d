//! The text of an HTML page, and of the HTML in Markdown.

use std::collections::HashMap;

use html5gum::{DefaultEmitter, EndTag, StartTag, State, Token, Tokenizer, naive_next_state};

use super::elements::{self, heading, is_element, is_foreign};
use super::text::{Break, Lines, Page, PageText};

/// The title and text of a page; for broken markup, the text a browser might show.
pub(super) fn page(html: &str) -> Page {
    let mut page = PageText::new();
    let mut reader = Reader::new(html, &mut page);
    reader.lines = Some(Lines::of(html));
    reader.read();
    let title = reader.title.take();
    page.finish(title)
}

/// Adds the text of a page that is part of a file to another one, without its title; its lines are not those
/// of the file.
pub(super) fn chapter(html: &str, page: &mut PageText) {
    let mut reader = Reader::new(html, page);
    reader.lines = Some(Lines::of(""));
    reader.read();
    page.end_heading();
    page.at_line(0);
}

/// Adds the text of a piece of HTML in Markdown to a page. Tags with names unknown to HTML remain text.
pub(super) fn read(html: &str, page: &mut PageText) {
    Reader::new(html, page).read();
}

/// Start of a CDATA section.
const CDATA: &str = "<![CDATA[";

struct Reader<'a> {
    html: &'a str,
    /// Offset in `html` of the tokenizer's positions.
    base: usize,
    page: &'a mut PageText,
    /// Of a page, and not of HTML in Markdown.
    lines: Option<Lines>,
    /// Whether it is XHTML, by its first lines.
    is_xhtml: bool,
    /// The page's own title, the first element of that name.
    title: Option<String>,
    in_title: bool,
    /// The element being skipped, and its nesting depth.
    unread: Option<(Vec<u8>, usize)>,
    /// Numbers of open elements with significant white space, and of open pictures and formulas.
    verbatim: usize,
    foreign: usize,
    /// Start of an element's last end tag.
    ends: HashMap<Vec<u8>, Option<usize>>,
}

impl<'a> Reader<'a> {
    fn new(html: &'a str, page: &'a mut PageText) -> Self {
        Self {
            html,
            base: 0,
            page,
            lines: None,
            is_xhtml: html.trim_start().starts_with("<?xml"),
            title: None,
            in_title: false,
            unread: None,
            verbatim: 0,
            foreign: 0,
            ends: HashMap::new(),
        }
    }

    fn is_page(&self) -> bool {
        self.lines.is_some()
    }

    /// Tells the page on which line it is read.
    fn at(&mut self, place: usize) {
        if let Some(lines) = &self.lines {
            self.page.at_line(lines.at(self.base + place));
        }
    }

    fn read(&mut self) {
        // Tokenizing stops at each section of CDATA that is text, and starts again after it.
        while let Some(section) = self.read_tokens() {
            let text = self.html.get(section..).and_then(|rest| rest.strip_prefix(CDATA)).unwrap_or_default();
            let (text, rest) = text.split_once("]]>").unwrap_or((text, ""));
            if self.unread.is_none() {
                self.text(text);
            }
            self.base = self.html.len() - rest.len();
        }
    }

    /// Reads tokens up to a CDATA section that is text, and returns its start.
    fn read_tokens(&mut self) -> Option<usize> {
        let html = &self.html[self.base..];
        let mut tokens = Tokenizer::new_with_emitter(html, DefaultEmitter::<usize>::new_with_span());
        while let Some(Ok(token)) = tokens.next() {
            if let Token::StartTag(tag) = &token {
                self.at(tag.span.start);
            }
            match token {
                Token::Comment(comment) if self.is_text_section(self.base + comment.span.start) => {
                    return Some(self.base + comment.span.start);
                }
                Token::StartTag(tag) => {
                    if let Some(state) = self.start(&tag) {
                        tokens.set_state(state);
                    }
                }
                Token::EndTag(tag) => self.end(&tag),
                Token::String(text) if self.unread.is_none() => {
                    self.text_at(text.span.start, &String::from_utf8_lossy(&text));
                }
                // A comment in HTML, but text in Markdown.
                Token::Comment(comment) if !self.is_page() && self.unread.is_none() => {
                    let tag = html.get(comment.span.start..).unwrap_or_default();
                    if tag.starts_with("</") {
                        self.page.push(&format!("</{}>", String::from_utf8_lossy(&comment)));
                    }
                }
                Token::String(_) | Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
            }
        }
        None
    }

    /// Whether a section of CDATA begins at a place whose content is text: in XHTML, in pictures and
    /// formulas, and in Markdown. Elsewhere browsers read it as a comment.
    fn is_text_section(&self, place: usize) -> bool {
        (self.is_xhtml || self.foreign > 0 || !self.is_page())
            && self.html.get(place..).is_some_and(|rest| rest.starts_with(CDATA))
    }

    /// Takes a start tag; returns the tokenizer's state for an element whose content is not markup.
    fn start(&mut self, tag: &StartTag<usize>) -> Option<State> {
        let name = &tag.name.0[..];
        if let Some((unread, depth)) = &mut self.unread {
            *depth += usize::from(*unread == name && !tag.self_closing);
            return None;
        }
        if self.is_text(name) {
            self.verbatim_tag(tag.span.start, tag.span.end, name);
            return None;
        }
        self.is_xhtml |= name == b"html" && tag.attributes.contains_key(&b"xmlns"[..]);
        // In XHTML an element may be empty, and an element without an end tag hides nothing.
        let has_content = !tag.self_closing && self.ends_behind(name, self.base + tag.span.end);
        let is_title = name == b"title" && self.is_page() && self.foreign == 0;
        if is_title && self.title.is_none() && has_content {
            self.in_title = true;
            self.title = Some(String::new());
        } else if self.is_unread(name) || is_title {
            self.stop(name);
            self.unread = has_content.then(|| (name.to_vec(), 1));
        } else {
            self.read_start(tag);
        }
        let state = if has_content && self.foreign == 0 { naive_next_state(name) } else { None };
        // It has no end tag.
        state.filter(|_| name != b"plaintext")
    }

    fn read_start(&mut self, tag: &StartTag<usize>) {
        let name = &tag.name.0[..];
        if let Some(level) = heading(name) {
            self.page.begin_heading(level);
        }
        self.stop(name);
        if !tag.self_closing {
            self.verbatim += usize::from(name == b"pre");
            self.foreign += usize::from(is_foreign(name));
        }
        let attribute = |name: &[u8]| tag.attributes.get(name).map(|value| String::from_utf8_lossy(value));
        let shown = elements::shown(name, attribute);
        // Some programs repeat the label of an option as its content.
        let content = self.html.get(self.base + tag.span.end..).unwrap_or_default();
        let content = content.split('<').next().unwrap_or_default().trim();
        if let Some(shown) = shown.filter(|shown| name != b"option" || shown.trim() != content) {
            self.page.push(&shown);
            self.page.stop(Break::Space);
        }
    }

    fn end(&mut self, tag: &EndTag<usize>) {
        let name = &tag.name.0[..];
        if let Some((unread, depth)) = &mut self.unread {
            if *unread == name {
                *depth -= 1;
                self.unread = self.unread.take().filter(|(_, depth)| *depth > 0);
            }
            return;
        }
        if self.is_text(name) {
            return self.verbatim_tag(tag.span.start, tag.span.end, name);
        }
        if name == b"title" && self.in_title {
            self.in_title = false;
            return;
        }
        if heading(name).is_some() {
            self.page.end_heading();
        }
        self.stop(name);
        self.verbatim = self.verbatim.saturating_sub(usize::from(name == b"pre"));
        self.foreign = self.foreign.saturating_sub(usize::from(is_foreign(name)));
    }

    /// Separates the next piece by the break that an element makes.
    fn stop(&mut self, name: &[u8]) {
        // Parts of a picture or a formula are separated by a space.
        self.page.stop(if self.foreign > 0 { Break::Space } else { elements::around(name) });
    }

    /// Takes the text at a place, line by line.
    fn text_at(&mut self, place: usize, text: &str) {
        let Some(lines) = &self.lines else { return self.text(text) };
        // The first line end of a listing is not text.
        let source = self.html.get(self.base + place..).unwrap_or_default().trim_start_matches('\r');
        let dropped = source.starts_with('\n') && !text.starts_with(['\n', '\r']);
        let first = lines.at(self.base + place) + u32::from(dropped);
        for (number, line) in (first..).zip(text.split_inclusive('\n')) {
            self.page.at_line(number);
            self.text(line);
        }
    }

    fn text(&mut self, text: &str) {
        match &mut self.title {
            Some(title) if self.in_title => title.push_str(text),
            _ if self.verbatim > 0 => self.page.push_verbatim(text),
            _ => self.page.push(text),
        }
    }

    /// Whether a name in angle brackets is text rather than a tag.
    fn is_text(&self, name: &[u8]) -> bool {
        !self.is_page() && self.foreign == 0 && !is_element(name)
    }

    /// Takes a tag as text.
    fn verbatim_tag(&mut self, start: usize, end: usize, name: &[u8]) {
        match self.html[self.base..].get(start..end).filter(|tag| tag.starts_with('<') && tag.ends_with('>'))
        {
            Some(tag) => self.page.push(tag),
            None => self.page.push(&format!("<{}>", String::from_utf8_lossy(name))),
        }
    }

    fn is_unread(&self, name: &[u8]) -> bool {
        elements::is_unread(name, self.foreign > 0)
    }

    /// Whether an end tag of that name follows a place.
    fn ends_behind(&mut self, name: &[u8], place: usize) -> bool {
        if !self.is_unread(name) && naive_next_state(name).is_none() {
            return true;
        }
        let html = self.html.as_bytes();
        let last = self.ends.entry(name.to_vec()).or_insert_with(|| last_end(html, name));
        last.is_some_and(|last| last >= place)
    }
}

/// Start of the last end tag of a name.
fn last_end(html: &[u8], name: &[u8]) -> Option<usize> {
    let is_end = |tag: &[u8]| {
        let own = tag.strip_prefix(b"</").and_then(|tag| tag.split_at_checked(name.len()));
        own.is_some_and(|(own, after)| {
            own.eq_ignore_ascii_case(name) && after.first().is_none_or(|next| !next.is_ascii_alphanumeric())
        })
    };
    (0..html.len()).rev().filter(|&at| html[at] == b'<').find(|&at| is_end(&html[at..]))
}

/// Bytes that browsers search for a declared charset.
const CHARSET_BYTES: usize = 1024;

/// The declared charset of a page, if it is in use and not UTF-8.
pub(super) fn unread_charset(page: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&page[..page.len().min(CHARSET_BYTES)]).to_ascii_lowercase();
    let declared = declared(&head).filter(|name| !matches!(*name, "utf-8" | "utf8"))?;
    // For other charsets, valid UTF-8 outweighs the declaration.
    let is_unread = is_seven_bit(declared) || std::str::from_utf8(page).is_err();
    is_unread.then(|| declared.to_owned())
}

/// The declaration in a lowercased head: `<meta charset="…">`, `charset=…` within a content, or the
/// declaration of XML.
fn declared(head: &str) -> Option<&str> {
    let after = |key| head.split(key).skip(1);
    after("charset").chain(after("encoding")).find_map(|rest| {
        let name = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.:".contains(c));
        Some(&name[..end.unwrap_or(name.len())]).filter(|name| !name.is_empty())
    })
}

/// Whether a charset uses only ASCII bytes, so that its text is accidentally valid UTF-8.
fn is_seven_bit(charset: &str) -> bool {
    let starts = ["iso-2022-", "csiso2022", "hz-gb", "utf-7", "unicode-1-1-utf-7"];
    starts.iter().any(|start| charset.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_title_and_what_is_read() {
        for (html, title, text) in [
            (
                "<!DOCTYPE html><html><head><title>Tea &amp; more</title><style>p{}</style><script>if (a<b) {}</script>\
                 </head><body><p>Steep  it\nfor <b>three</b>&nbsp;minutes.<p>Then<br>drink.</body></html>",
                "Tea & more",
                "Steep it for three minutes.\n\nThen\ndrink.",
            ),
            ("<title>Site</title><h2>Intro</h2>a<h1>The <i>Tea</i></h1><p>b", "The Tea", "Intro\n\na\n\nb"),
            ("<h2>Tea</h2>b", "Tea", "b"),
            ("<title> </title><h2></h2><h3>Tea</h3>b", "Tea", "b"),
            ("<ul><li>a<li>b</ul><table><tr><td>1<td>2<tr><th>3</table>", "", "a\nb\n\n1\t2\n3"),
            ("a<pre>x\n  y</pre>b", "", "a\n\nx\n  y\n\nb"),
            (
                "a<svg><title>no</title><path/><text>one</text><text>two</text></svg>b<svg/>c",
                "",
                "a one two b c",
            ),
            ("a<template><template>no</template>no</template>b<!-- no -->c", "", "abc"),
            ("<img alt=\"a cup\" src=x>of tea", "", "a cup of tea"),
            (
                "<input type=hidden value=no><input type=submit value=Send><input placeholder=Name>",
                "",
                "Send Name",
            ),
            ("1 < 2 &lt; 3 &unknown; <", "", "1 < 2 < 3 &unknown; <"),
            ("<h1>Unclosed <p>heading", "Unclosed \n\nheading", ""),
            ("<title/><script src=x /><h1>Chapter</h1>The osprey.", "Chapter", "The osprey."),
            ("<title>T</title><style/><textarea/><b>a</b><iframe/> c", "T", "a c"),
            ("a<script>b", "", "ab"),
            ("a<object>b", "", "a b"),
            ("<textarea><b>a</b></textarea>", "", "<b>a</b>"),
            ("<my-part>a</my-part><username> b", "", "a b"),
            ("", "", ""),
        ] {
            let title = title.replace(" \n\n", "\n\n");
            let page = page(html);
            assert_eq!((page.title, page.text), (title, text.to_owned()), "{html}");
        }
        let both = page("<title>Site</title><h1>Tea</h1>a");
        assert_eq!((&*both.title, &both.metadata["title"]), ("Tea", &"Site".into()));
        assert!(page("<title>Tea</title><h1>Tea</h1>a").metadata.is_empty());
    }

    #[test]
    fn tags_of_other_names_are_text_in_markdown() {
        for (html, text) in [
            ("<username> is <b>you</b></username>", "<username> is you</username>"),
            ("ä<Widget a=\"1\">\r\nb</Widget>", "ä<Widget a=\"1\"> b</Widget>"),
            ("<svg><path d=x></path><g>a</g></svg>", "a"),
            ("<title>a</title>", "a"),
            ("<object> is text", "is text"),
        ] {
            let mut page = PageText::new();
            read(html, &mut page);
            assert_eq!(page.finish(None).text, text, "{html}");
        }
    }

    #[test]
    fn a_charset_is_named_where_the_page_is_written_in_it() {
        for (page, charset) in [
            (&b"<meta charset=\"iso-8859-1\"><p>caf\xe9"[..], Some("iso-8859-1")),
            (b"<META http-equiv=x content='text/html; charset = Shift_JIS'>\x93", Some("shift_jis")),
            (b"<?xml version=\"1.0\" encoding='windows-1252'?>\x93", Some("windows-1252")),
            (b"<meta charset=iso-2022-jp>\x1b$B", Some("iso-2022-jp")),
            (b"<meta charset=\"iso-8859-1\"><p>caf\xc3\xa9", None),
            (b"<meta charset=\"utf-8\"><p>caf\xe9", None),
            (b"<p>charset, encoding</p>\xe9", None),
        ] {
            assert_eq!(unread_charset(page).as_deref(), charset, "{}", String::from_utf8_lossy(page));
        }
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let html = "<h2>Top</h2>\n<p>one\ntwo &amp;\nthree</p>\n<pre>\nfour\n\nfive</pre>\n<p>six";
        let Page { text, outline, .. } = page(html);
        let line = |part: &str| outline.line(&text, text.find(part).unwrap());
        let lines = ["one", "two", "three", "four", "five", "six"].map(line);
        assert_eq!(lines, [2, 3, 4, 6, 8, 9].map(Some), "{outline:?}");
    }
}
