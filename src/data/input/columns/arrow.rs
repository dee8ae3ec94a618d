//! The columns of an Arrow file or stream, as batches of rows as they were written.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::{Batches, plain};

/// A file with what it says of its columns.
pub(super) struct Opened {
    file: File,
    is_stream: bool,
    schema: SchemaRef,
}

impl Opened {
    pub fn new(mut file: File) -> Result<Self, String> {
        let mut magic = [0; 6];
        let is_stream = !(file.read(&mut magic).is_ok() && magic == *b"ARROW1");
        let schema = match is_stream {
            false => FileReader::try_new(again(&file)?, None).map(|file| file.schema()),
            true => StreamReader::try_new(again(&file)?, None).map(|stream| stream.schema()),
        };
        Ok(Self { file, is_stream, schema: schema.map_err(text)? })
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The batches of the columns at these places. One reading at a time.
    pub fn batches(&self, used: &[usize]) -> Result<Batches, String> {
        let used = Some(used.to_vec());
        Ok(match self.is_stream {
            false => {
                let file = FileReader::try_new(again(&self.file)?, used).map_err(text)?;
                Box::new(file.map(|batch| batch.map_err(text)))
            }
            true => {
                let stream = StreamReader::try_new(again(&self.file)?, used).map_err(text)?;
                Box::new(stream.map(|batch| batch.map_err(text)))
            }
        })
    }
}

/// The file from its start.
fn again(file: &File) -> Result<BufReader<File>, String> {
    let mut file = file.try_clone().map_err(|error| error.to_string())?;
    file.seek(SeekFrom::Start(0)).map_err(|error| error.to_string())?;
    Ok(BufReader::new(file))
}

fn text(error: ArrowError) -> String {
    plain(&error.to_string())
}
