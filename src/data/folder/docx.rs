//! The text of Word's documents (DOCX).

use std::collections::HashMap;

use super::archive::{self, Archive, Node, Tag, read};
use super::text::{Break, Page, PageText, Unreadable};

/// The part that says where the others are, and where the text usually is.
const RELATIONS: &str = "_rels/.rels";
const USUAL: &str = "word/document.xml";

/// The text with its headings, tables, lists and notes; without headers, footers, comments and text that was
/// deleted.
pub(super) fn page(file: &[u8]) -> Result<Page, Unreadable> {
    let mut archive = Archive::open(file, "DOCX")?;
    let main = main_part(&mut archive)?;
    let folder = main.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let levels = match archive.find(&format!("{folder}/styles.xml"))? {
        Some(styles) => levels(&styles)?,
        None => HashMap::new(),
    };
    let mut body = Body { levels, ..Body::default() };
    body.read(&archive.part(&main)?)?;
    for notes in ["footnotes", "endnotes"] {
        if let Some(notes) = archive.find(&format!("{folder}/{notes}.xml"))? {
            body.read(&notes)?;
        }
    }
    let title = archive.title("docProps/core.xml")?;
    Ok(archive::page(body.page, title))
}

/// The name of the part with the text.
fn main_part(archive: &mut Archive<'_>) -> Result<String, Unreadable> {
    let mut main = None;
    if let Some(relations) = archive.find(RELATIONS)? {
        read(&relations, |node| {
            if let Node::Start(tag) = node
                && main.is_none()
                && tag.value("Type").is_some_and(|kind| kind.ends_with("/officeDocument"))
            {
                main = tag.value("Target");
            }
        })?;
    }
    Ok(main.map_or(USUAL.to_owned(), |main| main.trim_start_matches('/').to_owned()))
}

/// The levels of the styles that are headings, by the ids of the styles. Their names are in English in every
/// language, and their ids are not.
fn levels(styles: &str) -> Result<HashMap<String, u8>, Unreadable> {
    let (mut levels, mut style) = (HashMap::new(), String::new());
    read(styles, |node| {
        let Node::Start(tag) = node else { return };
        let level = match tag.name() {
            "style" => {
                style = tag.value("styleId").unwrap_or_default();
                None
            }
            "name" => tag.value("val").and_then(|name| level(&name)),
            "outlineLvl" => outline_level(&tag),
            _ => None,
        };
        if let Some(level) = level {
            levels.entry(style.clone()).or_insert(level);
        }
    })?;
    Ok(levels)
}

/// The level of a style by its name or its id.
fn level(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    match name.strip_prefix("heading") {
        Some(level) => {
            level.trim().parse().ok().filter(|level| (1..=9).contains(level)).map(|l: u8| l.min(6))
        }
        None => (name == "title").then_some(1),
    }
}

/// Levels are counted from 0 there, and 9 is that of text.
fn outline_level(tag: &Tag<'_>) -> Option<u8> {
    let level: u8 = tag.value("val")?.parse().ok()?;
    (level < 9).then(|| (level + 1).min(6))
}

#[derive(Default)]
struct Body {
    page: PageText,
    levels: HashMap<String, u8>,
    /// Numbers of open cells of tables, and of open elements whose text is not read.
    cells: usize,
    unread: usize,
    /// Whether an element that holds text is open.
    is_text: bool,
    /// Whether the paragraph has text, and whether it is an item of a list, as the one with text before it.
    is_begun: bool,
    is_item: bool,
    was_item: bool,
}

/// Whether the content of an element is that of another one, or has been moved away.
fn is_unread(name: &str) -> bool {
    matches!(name, "Fallback" | "moveFrom")
}

impl Body {
    fn read(&mut self, xml: &str) -> Result<(), Unreadable> {
        self.page.stop(Break::Paragraph);
        read(xml, |node| match node {
            Node::Start(tag) if is_unread(tag.name()) => self.unread += 1,
            Node::End(name) if is_unread(name) => self.unread -= 1,
            _ if self.unread > 0 => {}
            Node::Start(tag) => self.start(&tag),
            Node::End(name) => self.end(name),
            Node::Text(text) if self.is_text => {
                self.begin();
                self.page.push(text);
            }
            Node::Text(_) => {}
        })
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag.name() {
            "t" => self.is_text = true,
            "p" => (self.is_begun, self.is_item) = (false, false),
            "pStyle" if self.cells == 0 => {
                let style = tag.value("val").unwrap_or_default();
                if let Some(level) = self.levels.get(&style).copied().or_else(|| level(&style)) {
                    self.page.begin_heading(level);
                }
            }
            "outlineLvl" if self.cells == 0 => {
                if let Some(level) = outline_level(tag) {
                    self.page.begin_heading(level);
                }
            }
            "numPr" => self.is_item = true,
            "tab" => self.page.stop(Break::Space),
            "br" | "cr" => self.page.stop(Break::Line),
            "noBreakHyphen" => {
                self.begin();
                self.page.push("-");
            }
            "tbl" => self.table(),
            "tr" => self.page.stop(Break::Line),
            "tc" => {
                self.page.stop(Break::Cell);
                self.cells += 1;
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.is_text = false,
            "p" => {
                self.page.end_heading();
                // A paragraph may go on behind one within it.
                (self.is_begun, self.is_item) = (false, false);
            }
            "tbl" => self.table(),
            "tr" => self.page.stop(Break::Line),
            "tc" => self.cells = self.cells.saturating_sub(1),
            _ => {}
        }
    }

    /// Separates the first text of a paragraph from what is before it. The cells of a row are on one line,
    /// and the items of a list on the next lines.
    fn begin(&mut self) {
        if self.is_begun {
            return;
        }
        self.page.stop(match (self.cells, self.is_item && self.was_item) {
            (0, false) => Break::Paragraph,
            (0, true) => Break::Line,
            _ => Break::Space,
        });
        (self.is_begun, self.was_item) = (true, self.is_item);
    }

    fn table(&mut self) {
        self.page.stop(Break::Paragraph);
        self.was_item = false;
    }
}

#[cfg(test)]
mod tests {
    use crate::data::folder::archive::tests::zipped;

    use super::*;

    const STYLES: &str = "<w:styles><w:style w:styleId=\"berschrift2\"><w:name w:val=\"heading 2\"/></w:style>\
        <w:style w:styleId=\"Own\"><w:name w:val=\"Own\"/><w:pPr><w:outlineLvl w:val=\"2\"/></w:pPr></w:style></w:styles>";

    fn paragraph(style: &str, text: &str) -> String {
        let properties = match style {
            "" => String::new(),
            "item" => "<w:pPr><w:numPr/></w:pPr>".to_owned(),
            style => format!("<w:pPr><w:pStyle w:val=\"{style}\"/></w:pPr>"),
        };
        format!("<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>")
    }

    #[test]
    fn a_document_is_its_headings_lists_tables_and_notes() {
        let row = |a: &str, b: &str| {
            let cell = |text: &str| format!("<w:tc>{}</w:tc>", paragraph("Heading1", text));
            format!("<w:tr>{}{}</w:tr>", cell(a), cell(b))
        };
        let body = [
            paragraph("Title", "Tea &amp; more"),
            paragraph("", "Ste</w:t></w:r><w:r><w:t xml:space=\"preserve\">ep </w:t></w:r><w:r><w:t>it."),
            paragraph("berschrift2", "Tools"),
            paragraph("item", "a pot"),
            paragraph("item", "a cup"),
            paragraph("", "One</w:t><w:delText>no</w:delText><w:br/><w:t>two"),
            format!("<w:tbl>{}{}</w:tbl>", row("1", "2"), row("3", "4")),
            paragraph("Own", "Deep"),
            "<w:p><w:r><mc:AlternateContent><mc:Choice><w:t>box</w:t></mc:Choice><mc:Fallback><w:t>box</w:t>\
             </mc:Fallback></mc:AlternateContent></w:r></w:p>"
                .to_owned(),
        ];
        let relations = "<Relationships><Relationship Type=\"http://x/officeDocument\" Target=\"/word/d2.xml\"/></Relationships>";
        let main =
            format!("<?xml version=\"1.0\"?><w:document><w:body>{}</w:body></w:document>", body.concat());
        let notes =
            format!("<w:footnotes><w:footnote>{}</w:footnote></w:footnotes>", paragraph("", "A note."));
        let parts = [
            (RELATIONS, relations),
            ("word/d2.xml", &main),
            ("word/styles.xml", STYLES),
            ("word/footnotes.xml", &notes),
        ];
        let read = page(&zipped(parts)).unwrap();
        assert_eq!(read.title, "Tea & more");
        let text = "Steep it.\n\nTools\n\na pot\na cup\n\nOne\ntwo\n\n1\t2\n3\t4\n\nDeep\n\nbox\n\nA note.";
        assert_eq!(read.text, text);
        let at = |part: &str| read.outline.headings(text, text.find(part).unwrap());
        assert_eq!((at("cup"), at("box")), (vec!["Tools"], vec!["Tools", "Deep"]));
        assert_eq!(read.outline.parts().len(), 8, "{:?}", read.outline);
        assert!(read.outline.parts().iter().all(|part| part.line == 0));
        // A title of the properties, which is that of the text or is not.
        for (title, expected, kept) in [("Tea &amp;  more", "Tea & more", false), ("Other", "Other", true)] {
            let core = format!("<cp:coreProperties><dc:title>{title}</dc:title></cp:coreProperties>");
            let with_core = parts.iter().copied().chain([("docProps/core.xml", &*core)]);
            let read = page(&zipped(with_core)).unwrap();
            assert_eq!((&*read.title, read.text.starts_with("Tea & more")), (expected, kept));
        }
    }
}
