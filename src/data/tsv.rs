//! Documents and queries in MS MARCO's form, `id <TAB> text` a line.

use super::{DataError, Line, Lines, Query};
use crate::document::Document;

const COLUMNS: &str = "id, text";

pub(super) fn document(lines: &mut Lines) -> Option<Result<Document, DataError>> {
    row(lines).map(|row| row.map(|(id, text)| Document::new(id, "", text)))
}

pub(super) fn query(lines: &mut Lines) -> Option<Result<Query, DataError>> {
    row(lines).map(|row| row.map(|(id, text)| Query { id, text }))
}

fn row(lines: &mut Lines) -> Option<Result<(String, String), DataError>> {
    let name = lines.name().to_owned();
    let line = lines.next_line()?;
    Some(line.and_then(|Line { number: line, text }| {
        let Some((id, text)) = text.split_once('\t') else {
            return Err(DataError::Columns { name, line, got: 1, expected: COLUMNS });
        };
        match id.trim_ascii() {
            "" => Err(DataError::EmptyId { name, line, field: "id" }),
            id => Ok((id.to_owned(), text.trim_ascii().to_owned())),
        }
    }))
}
