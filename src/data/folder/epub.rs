//! The text of electronic books (EPUB).

use std::collections::HashMap;

use super::archive::{self, Archive, Node, read};
use super::html;
use super::text::{Break, Page, PageText, Unreadable};
use crate::data::error::DataErrorKind;

const CONTAINER: &str = "META-INF/container.xml";

/// The chapters of a book in their order, without its table of contents and what is outside that order.
pub(super) fn page(file: &[u8]) -> Result<Page, Unreadable> {
    let mut archive = Archive::open(file, "EPUB")?;
    let mut package = None;
    read(&archive.part(CONTAINER)?, |node| {
        if let Node::Start(tag) = node
            && tag.name() == "rootfile"
        {
            package = package.take().or_else(|| tag.value("full-path"));
        }
    })?;
    let package = package.unwrap_or_default();
    let contents = archive.part(&package)?;
    let mut page = PageText::new();
    let chapters = chapters(&contents)?;
    let mut missing = Vec::new();
    for chapter in &chapters {
        let path = path(&package, chapter);
        match archive.find(&path)? {
            Some(chapter) => html::chapter(&chapter, &mut page),
            None => missing.push(path),
        }
        page.stop(Break::Paragraph);
    }
    if missing.len() == chapters.len() {
        let message = match missing.first() {
            None => "this book has no text: its package lists no chapters (`spine`)".to_owned(),
            Some(first) => format!("this book has no text: none of its chapters is in it, as `{first}`"),
        };
        return Err(Unreadable(DataErrorKind::Format, message));
    }
    let (count, all) = (missing.len(), chapters.len());
    let note =
        missing.first().map(|first| format!("{count} of its {all} chapters are missing, as `{first}`"));
    Ok(Page { note, ..archive::page(page, archive::title(&contents)?) })
}

/// The paths of the chapters from the package.
fn chapters(contents: &str) -> Result<Vec<String>, Unreadable> {
    let (mut paths, mut chapters) = (HashMap::new(), Vec::new());
    read(contents, |node| {
        let Node::Start(tag) = node else { return };
        match tag.name() {
            "item" => {
                let kind = tag.value("media-type").unwrap_or_default();
                let is_nav =
                    tag.value("properties").is_some_and(|list| list.split(' ').any(|own| own == "nav"));
                if let (Some(id), Some(path)) = (tag.value("id"), tag.value("href"))
                    && kind.contains("html")
                    && !is_nav
                {
                    paths.insert(id, path);
                }
            }
            "itemref" if tag.value("linear").is_none_or(|linear| linear != "no") => {
                chapters.extend(tag.value("idref"));
            }
            _ => {}
        }
    })?;
    // A chapter is in a book once.
    Ok(chapters.into_iter().filter_map(|id| paths.remove(&id)).collect())
}

/// A path in the archive, from that of the package.
fn path(package: &str, chapter: &str) -> String {
    let mut parts: Vec<&str> = package.split('/').collect();
    parts.pop();
    let chapter = unescaped(chapter.split('#').next().unwrap_or_default());
    for part in chapter.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// A path of a link, with `%20` for a space.
fn unescaped(path: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%');
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::folder::archive::tests::zipped;

    const PACKAGE: &str = "<package><metadata><dc:title>Birds</dc:title></metadata><manifest>\
        <item id=\"a\" href=\"text/one%201.xhtml\" media-type=\"application/xhtml+xml\"/>\
        <item id=\"b\" href=\"../two.xhtml#x\" media-type=\"application/xhtml+xml\"/>\
        <item id=\"n\" href=\"nav.xhtml\" media-type=\"application/xhtml+xml\" properties=\"nav\"/>\
        <item id=\"i\" href=\"i.png\" media-type=\"image/png\"/></manifest><spine><itemref idref=\"n\"/>\
        <itemref idref=\"b\"/><itemref idref=\"a\"/><itemref idref=\"b\"/><itemref idref=\"i\" linear=\"no\"/>\
        </spine></package>";
    const POINTS: &str =
        "<container><rootfiles><rootfile full-path=\"OEBPS/a.opf\"/></rootfiles></container>";

    #[test]
    fn a_book_is_its_chapters_in_order() {
        let chapter = |heading: &str, text: &str| {
            format!(
                "<?xml version=\"1.0\"?><html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title/></head><body>\
                 <h1>{heading}</h1><p>{text}<script src=\"x\"/></p></body></html>"
            )
        };
        let (one, two) = (chapter("One", "The\nheron."), chapter("Two", "The &amp; stork."));
        let parts = [
            (CONTAINER, POINTS),
            ("OEBPS/a.opf", PACKAGE),
            ("OEBPS/text/one 1.xhtml", &one),
            ("two.xhtml", &two),
        ];
        let read = page(&zipped(parts)).unwrap();
        let text = "Two\n\nThe & stork.\n\nOne\n\nThe heron.";
        assert_eq!((&*read.title, &*read.text), ("Birds", text));
        assert_eq!(read.outline.headings(text, text.len() - 1), ["One"]);
        assert_eq!(serde_json::to_string(&read.outline).unwrap(), "[[0,0,1],[5],[19,0,1],[24]]");
        let read = page(&zipped(parts.into_iter().take(3))).unwrap();
        assert_eq!(read.text, "One\n\nThe heron.");
        assert_eq!(read.note.unwrap(), "1 of its 2 chapters are missing, as `two.xhtml`");
        let message = page(&zipped(parts.into_iter().take(2))).unwrap_err().1;
        assert_eq!(message, "this book has no text: none of its chapters is in it, as `two.xhtml`");
        let bare = PACKAGE.split("<spine>").next().unwrap();
        for package in [format!("{bare}</package>"), format!("{bare}<spine></spine></package>")] {
            let parts = [(CONTAINER, POINTS), ("OEBPS/a.opf", &*package), ("two.xhtml", &two)];
            let Unreadable(kind, message) = page(&zipped(parts)).unwrap_err();
            assert_eq!(kind, DataErrorKind::Format);
            assert_eq!(message, "this book has no text: its package lists no chapters (`spine`)");
        }
    }
}
