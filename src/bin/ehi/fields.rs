//! Which fields of a file documents are made of.

use clap::ValueEnum;
use ehi::data::{Format, Input};

#[derive(clap::Args)]
pub struct FieldArgs {
    /// Field or column of the id, a string or an integer; `_id` or `id` if absent
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    id: Option<String>,
    /// Field or column of the title; `title` if absent, where there is one
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    title: Option<String>,
    /// Fields or columns of the text, joined by blank lines; `text` if absent
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = HEADING)]
    text: Vec<String>,
    /// Fields or columns of the metadata, '' for none; if absent all others (of a JSON object with `_id`, and
    /// without --id, --title and --text, only `metadata`)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = HEADING)]
    metadata: Option<Vec<String>>,
    /// Keep the cells of CSV and TSV as text in the metadata, also those that are numbers
    #[arg(long, help_heading = HEADING)]
    cells_as_text: bool,
    /// Kind of the file; by its content if absent
    #[arg(long, value_name = "KIND", help_heading = HEADING)]
    format: Option<FormatName>,
}

const HEADING: &str = "What a file holds";

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    /// A JSON object a line
    Jsonl,
    /// An array of JSON objects
    Json,
    /// Cells between commas, semicolons or tabs, with quotes; the first row has the names
    Csv,
    /// Cells between tabs, without quotes; the first row has the names
    Tsv,
    /// Parquet (this build must have the feature)
    Parquet,
    /// Arrow's IPC format, as a file or a stream (this build must have the feature `parquet`)
    Arrow,
}

impl FieldArgs {
    pub fn input(&self) -> Input {
        let mut input = Input::new().cells_as_text(self.cells_as_text);
        if let Some(format) = self.format {
            input = input.format(match format {
                FormatName::Jsonl => Format::JsonLines,
                FormatName::Json => Format::Json,
                FormatName::Csv => Format::Csv,
                FormatName::Tsv => Format::Tsv,
                FormatName::Parquet => Format::Parquet,
                FormatName::Arrow => Format::Arrow,
            });
        }
        if let Some(id) = &self.id {
            input = input.id(id);
        }
        if let Some(title) = &self.title {
            input = input.title(title);
        }
        if !self.text.is_empty() {
            input = input.text(&self.text);
        }
        if let Some(metadata) = &self.metadata {
            input = input.metadata(metadata.iter().filter(|name| !name.is_empty()));
        }
        input
    }

    /// Whether anything was said that a folder of a dataset has no use for.
    pub fn are_given(&self) -> bool {
        self.format.is_some() || self.input().names_fields()
    }
}
