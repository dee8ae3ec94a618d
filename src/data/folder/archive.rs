//! The parts of documents that are ZIP archives of XML.

use std::io::{Cursor, Read};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;
use zip::result::ZipError;

use super::text::{MAX_FILE_BYTES, Page, PageText, Unreadable, one_line};
use crate::data::error::DataErrorKind;
use crate::data::input::foreign;

/// Most entries of an archive, and most elements around an element.
const MOST_ENTRIES: usize = 65_536;
const DEEPEST: usize = 1_000;
/// What reading a part costs of the bytes that may be unpacked, however small it is.
const LEAST_COST: u64 = 1 << 10;

/// The first bytes of an entry in the list of an archive's entries, and of older office files.
const LISTED: &[u8] = b"PK\x01\x02";
const OLD: &[u8] = b"\xd0\xcf\x11\xe0";

/// An archive, of which at most [`MAX_FILE_BYTES`] are unpacked.
pub(super) struct Archive<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    what: &'static str,
    left: u64,
}

fn damaged(message: impl Into<String>) -> Unreadable {
    Unreadable(DataErrorKind::Damaged, message.into())
}

fn format(message: impl Into<String>) -> Unreadable {
    Unreadable(DataErrorKind::Format, message.into())
}

impl<'a> Archive<'a> {
    /// Opens a file of some format, named `what` in errors.
    pub fn open(file: &'a [u8], what: &'static str) -> Result<Self, Unreadable> {
        if file.is_empty() {
            return Err(format(format!("this is not {what}: it is empty")));
        }
        if file.starts_with(OLD) {
            let message = "this is an older office document, or one with a password";
            return Err(format(format!("{message}; save it as {what} without a password")));
        }
        if !file.starts_with(b"PK") {
            let found = foreign(file).map_or("another kind of file", |(found, _)| found);
            return Err(format(format!("this is not {what}, but {found}")));
        }
        // An archive of that many is not listed in memory.
        if file.windows(LISTED.len()).filter(|at| *at == LISTED).count() > MOST_ENTRIES {
            let message = format!("an archive of more than {MOST_ENTRIES} entries is not read");
            return Err(Unreadable(DataErrorKind::TooLarge, message));
        }
        let archive = ZipArchive::new(Cursor::new(file))
            .map_err(|error| damaged(format!("it is cut off or damaged: {error}")))?;
        Ok(Self { archive, what, left: MAX_FILE_BYTES })
    }

    /// A part as text; `None` if there is none with the name.
    pub fn find(&mut self, name: &str) -> Result<Option<String>, Unreadable> {
        let left = self.left;
        let entry = match self.archive.by_name(name) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(ZipError::UnsupportedArchive(why)) => return Err(format(format!("`{name}` in it: {why}"))),
            Err(error) => return Err(damaged(format!("`{name}` in it: {error}"))),
        };
        let mut bytes = Vec::new();
        let read = entry.take(left + 1).read_to_end(&mut bytes);
        let read = read.map_err(|error| damaged(format!("`{name}` in it cannot be unpacked: {error}")))?;
        let cost = (read as u64).max(LEAST_COST);
        self.left = left.checked_sub(cost).ok_or_else(|| {
            let message = format!("its parts unpack to more than {MAX_FILE_BYTES} bytes");
            let message = format!("{message}, where each counts as {LEAST_COST} or more; split it");
            Unreadable(DataErrorKind::TooLarge, message)
        })?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))),
            Err(_) => Err(Unreadable(
                DataErrorKind::Encoding,
                format!(
                    "`{name}` in it is not text in UTF-8: it may be protected, or its program wrote UTF-16"
                ),
            )),
        }
    }

    /// A part that the format needs.
    pub fn part(&mut self, name: &str) -> Result<String, Unreadable> {
        let what = self.what;
        self.find(name)?
            .ok_or_else(|| format(format!("this is not {what}: it is an archive without `{name}`")))
    }

    /// The title in a part of properties, the text of the first element `title`.
    pub fn title(&mut self, name: &str) -> Result<Option<String>, Unreadable> {
        let Some(properties) = self.find(name)? else { return Ok(None) };
        title(&properties)
    }
}

/// The text of the first element `title`, on one line.
pub(super) fn title(properties: &str) -> Result<Option<String>, Unreadable> {
    let (mut title, mut is_open) = (String::new(), false);
    read(properties, |node| match node {
        Node::Start(tag) => is_open |= title.is_empty() && tag.name() == "title",
        Node::End("title") => is_open = false,
        Node::Text(text) if is_open => title.push_str(text),
        _ => {}
    })?;
    Ok(Some(one_line(&title)).filter(|title| !title.is_empty()))
}

/// The page of a text with the title of the file's properties, or its first heading.
pub(super) fn page(text: PageText, title: Option<String>) -> Page {
    let page = match title {
        Some(title) if text.first_heading().as_ref() != Some(&title) => text.titled(title),
        _ => text.finish(None),
    };
    Page { outline: page.outline.without_lines(), ..page }
}

/// A start tag.
pub(super) struct Tag<'a>(&'a BytesStart<'a>);

impl Tag<'_> {
    /// Its name without a prefix.
    pub fn name(&self) -> &str {
        std::str::from_utf8(self.0.local_name().into_inner()).unwrap_or_default()
    }

    /// The value of an attribute by its name without a prefix.
    pub fn value(&self, name: &str) -> Option<String> {
        let mut attributes = self.0.attributes();
        let attributes = attributes.with_checks(false).flatten();
        let own = attributes.into_iter().find(|own| own.key.local_name().as_ref() == name.as_bytes())?;
        Some(own.normalized_value(XmlVersion::Implicit1_0).ok()?.into_owned())
    }
}

/// A piece of XML. An element without content has an end, too.
pub(super) enum Node<'a> {
    Start(Tag<'a>),
    /// With the name without a prefix.
    End(&'a str),
    Text(&'a str),
}

/// Reads XML piece by piece. No entity is read but those of XML itself.
pub(super) fn read(xml: &str, mut take: impl FnMut(Node<'_>)) -> Result<(), Unreadable> {
    let wrong = |error: &dyn std::fmt::Display| damaged(format!("its XML is damaged: {error}"));
    let mut reader = Reader::from_str(xml);
    let mut depth = 0;
    loop {
        match reader.read_event().map_err(|error| wrong(&error))? {
            Event::Start(tag) => {
                depth += 1;
                if depth > DEEPEST {
                    return Err(wrong(&format!("more than {DEEPEST} elements within one another")));
                }
                take(Node::Start(Tag(&tag)));
            }
            Event::Empty(tag) => {
                take(Node::Start(Tag(&tag)));
                take(Node::End(Tag(&tag).name()));
            }
            Event::End(tag) => {
                depth -= 1;
                take(Node::End(std::str::from_utf8(tag.local_name().into_inner()).unwrap_or_default()));
            }
            Event::Text(text) => take(Node::Text(&String::from_utf8_lossy(&text))),
            Event::CData(text) => take(Node::Text(&String::from_utf8_lossy(&text))),
            Event::GeneralRef(name) => {
                if let Some(sign) = name.resolve_char_ref().map_err(|error| wrong(&error))? {
                    take(Node::Text(sign.encode_utf8(&mut [0; 4])));
                } else {
                    let name = String::from_utf8_lossy(&name);
                    match quick_xml::escape::resolve_predefined_entity(&name) {
                        Some(text) => take(Node::Text(text)),
                        None => take(Node::Text(&format!("&{name};"))),
                    }
                }
            }
            Event::Eof if depth > 0 => return Err(wrong(&"it ends within an element")),
            Event::Eof => return Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
