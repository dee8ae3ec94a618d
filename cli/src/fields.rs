//! Options that name the fields of documents.

use std::convert::Infallible;
use std::str::FromStr;

use ehi::data::{Format, Input};

use crate::arguments::one_of;

#[derive(clap::Args, Default)]
pub struct FieldArgs {
    /// Field or column of the id, a string or an integer; `_id` or `id` if absent
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    id: Option<String>,
    /// Field or column of the title; `title` if absent, where there is one
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    title: Option<String>,
    /// Make each id of the document's title and text (a hash), for documents without ids
    #[arg(long, conflicts_with = "id", help_heading = HEADING)]
    hash_ids: bool,
    /// Fields or columns of the text, between commas (`\,` for one in a name), joined by blank lines; `text`
    /// if absent, and '' for none where documents come with vectors
    #[arg(long, value_name = "NAMES", help_heading = HEADING)]
    text: Option<Names>,
    /// Fields or columns of the metadata, likewise, '' for none; all others if absent
    #[arg(long, value_name = "NAMES", help_heading = HEADING)]
    metadata: Option<Names>,
    /// Keep the cells of CSV and TSV as text in the metadata; without it a column is numbers where all its
    /// cells are
    #[arg(long, help_heading = HEADING)]
    cells_as_text: bool,
    /// What separates the cells of CSV: a character, or `tab`; by the first rows if absent
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter, help_heading = HEADING)]
    delimiter: Option<char>,
    /// Kind of the file; by its content if absent. `json` is an array of objects, `jsonl` an object a line;
    /// `csv` cells with quotes, between commas, semicolons, tabs or bars, `tsv` cells without quotes between
    /// tabs, both after a row of names; `parquet` and `arrow` (IPC) are for builds with the feature `parquet`
    #[arg(long, value_name = "KIND", help_heading = HEADING,
        value_parser = one_of(Format::ALL.map(|format| (format.name(), format))))]
    format: Option<Format>,
}

pub const HEADING: &str = "What a file holds";

/// Names of fields.
#[derive(Clone)]
struct Names(Vec<String>);

impl FromStr for Names {
    type Err = Infallible;

    /// Comma-separated names; an escaped comma belongs to the name.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (mut names, mut name) = (Vec::new(), String::new());
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.next_if_eq(&',').is_some() => name.push(','),
                ',' => names.push(std::mem::take(&mut name)),
                other => name.push(other),
            }
        }
        names.push(name);
        Ok(Self(names))
    }
}

/// A character, or the name of one that is hard to type.
fn delimiter(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (text, characters.next(), characters.next()) {
        ("tab" | "\\t", ..) => Ok('\t'),
        (_, Some(character), None) => Ok(character),
        _ => Err("one character is needed, or `tab`".to_owned()),
    }
}

impl FieldArgs {
    /// What an own option or a default name says that a field is, other than metadata.
    pub fn role_of(&self, field: &str) -> Option<&'static str> {
        let is = |given: &Option<String>, usual: &[&str]| match given {
            Some(name) => name == field,
            None => usual.contains(&field),
        };
        let is_text = match &self.text {
            Some(Names(names)) => names.iter().any(|name| name == field),
            None => field == "text",
        };
        match () {
            () if is(&self.id, &["_id", "id"]) => Some("id"),
            () if is(&self.title, &["title"]) => Some("title"),
            () if is_text => Some("text"),
            () => None,
        }
    }

    /// `vector`: a field of vectors to read as metadata; `has_vectors`: documents come with vectors, and need
    /// no text.
    pub fn input(&self, vector: Option<&str>, has_vectors: bool) -> Input {
        let input = Input::new().cells_as_text(self.cells_as_text);
        let input = if has_vectors { input.optional_text() } else { input };
        let input = self.format.iter().fold(input, |input, format| input.format(*format));
        let input = self.delimiter.iter().fold(input, |input, delimiter| input.delimiter(*delimiter));
        let input = self.id.iter().fold(input, |input, id| input.id(id));
        let input = self.title.iter().fold(input, |input, title| input.title(title));
        let input = if self.hash_ids { input.hashed_ids() } else { input };
        let input = self.text.iter().fold(input, |input, Names(text)| input.text(text));
        self.metadata.iter().fold(input, |input, Names(metadata)| {
            let names = metadata.iter().map(String::as_str).filter(|name| !name.is_empty());
            input.metadata(names.chain(vector))
        })
    }

    /// Whether all fields but these are left out.
    pub fn limits_metadata(&self) -> bool {
        self.metadata.is_some()
    }

    /// Whether options were given that do not apply to a dataset's folder.
    pub fn are_given(&self) -> bool {
        self.format.is_some() || self.input(None, false).names_fields()
    }
}
