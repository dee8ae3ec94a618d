//! The text of a Jupyter notebook.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::markdown;
use super::text::{Break, Page, PageText, Unreadable};
use crate::data::error::DataErrorKind;
use crate::outline::lines_in;

/// Most bytes of an output.
const LONGEST_OUTPUT: usize = 1_000;

#[derive(Deserialize)]
struct Notebook<'a> {
    #[serde(borrow)]
    cells: Vec<Cell<'a>>,
}

#[derive(Deserialize)]
struct Cell<'a> {
    cell_type: String,
    #[serde(borrow)]
    source: &'a RawValue,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    text: Option<Text>,
    data: Option<Data>,
    /// The name and message of an error.
    ename: Option<String>,
    evalue: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "text/plain")]
    plain: Option<Text>,
    #[serde(rename = "image/png")]
    png: Option<serde::de::IgnoredAny>,
    #[serde(rename = "image/svg+xml")]
    svg: Option<serde::de::IgnoredAny>,
}

/// A text, or its lines.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of lines")]
enum Text {
    Whole(String),
    Lines(Vec<String>),
}

impl Text {
    fn whole(self) -> String {
        match self {
            Self::Whole(text) => text,
            Self::Lines(lines) => lines.concat(),
        }
    }
}

fn unreadable(error: serde_json::Error) -> Unreadable {
    let message = format!("this is not a notebook of Jupyter's format 4: {error}; open and save it there");
    Unreadable(DataErrorKind::Format, message)
}

/// The title and text of a notebook.
///
/// # Errors
/// What is wrong with its JSON.
pub(super) fn page(file: &str) -> Result<Page, Unreadable> {
    let notebook: Notebook<'_> = serde_json::from_str(file).map_err(unreadable)?;
    let mut page = PageText::new();
    let (mut line, mut seen) = (1, 0);
    for Cell { cell_type, source, outputs } in notebook.cells {
        let start = source.get().as_ptr() as usize - file.as_ptr() as usize;
        line += lines_in(&file[seen..start]);
        seen = start;
        let text: Text = serde_json::from_str(source.get()).map_err(|_| {
            let message = format!("the `source` in line {line} is neither a text nor a list of lines");
            Unreadable(DataErrorKind::Format, message)
        })?;
        // Notebooks are written with one line of JSON for each line of a cell.
        let is_by_line =
            matches!(&text, Text::Lines(own) if lines_in(source.get()) as usize == own.len() + 1);
        let (first, text) = (is_by_line.then_some(line + 1), text.whole());
        page.stop(Break::Paragraph);
        if cell_type == "markdown" {
            page = markdown::body(&text, first, page);
            page.stop(Break::Paragraph);
            continue;
        }
        let blank = text.len() - text.trim_start_matches('\n').len();
        listing(&mut page, &text, first.map_or(0, |first| first + blank as u32));
        for output in outputs {
            let data = output.data.filter(|data| data.png.is_none() && data.svg.is_none());
            let error = output.ename.map(|name| format!("{name}: {}", output.evalue.unwrap_or_default()));
            let text = output.text.or_else(|| data?.plain).map(Text::whole).or(error).unwrap_or_default();
            listing(&mut page, start_of(&without_escapes(&text)), 0);
        }
    }
    Ok(page.finish(None))
}

fn listing(page: &mut PageText, text: &str, line: u32) {
    page.at_line(line);
    page.push_verbatim(text.trim_matches('\n').trim_end());
    page.stop(Break::Paragraph);
}

/// A text without the codes that colour it in a terminal: `ESC [`, parameters, and a letter.
fn without_escapes(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.trim_start_matches(|c| (' '..='?').contains(&c)).get(1..).unwrap_or_default());
    }
    plain
}

/// The start of an output, in whole lines if possible.
fn start_of(text: &str) -> &str {
    let end = crate::characters::floor(text, text.len().min(LONGEST_OUTPUT));
    match text[..end].rfind('\n') {
        Some(line) if end < text.len() => &text[..line],
        _ => &text[..end],
    }
}
