//! The columns of an Arrow file or stream, in the batches as written.

use std::fs::File;
use std::io::{BufReader, Read, Seek};

use arrow_array::RecordBatchReader;
use arrow_ipc::reader::{FileReader, StreamReader};

use super::{Batches, Opened, plain};

/// Opens a file.
pub(super) fn open(mut file: File) -> Result<Opened, String> {
    let mut magic = [0; 6];
    file.rewind().map_err(text)?;
    let is_stream = !(file.read(&mut magic).is_ok() && magic == *b"ARROW1");
    let schema = read(&file, is_stream, None)?.schema();
    let batches = move |used: &[usize]| -> Result<Batches, String> {
        let batches = read(&file, is_stream, Some(used.to_vec()))?;
        Ok(Box::new(batches.map(|batch| batch.map_err(text))))
    };
    Ok(Opened { schema, rows: None, batches: Box::new(batches) })
}

/// Reads the file from its start.
fn read(
    file: &File,
    is_stream: bool,
    used: Option<Vec<usize>>,
) -> Result<Box<dyn RecordBatchReader + Send>, String> {
    let mut file = file.try_clone().map_err(text)?;
    file.rewind().map_err(text)?;
    let file = BufReader::new(file);
    Ok(match is_stream {
        true => Box::new(StreamReader::try_new(file, used).map_err(text)?),
        false => Box::new(FileReader::try_new(file, used).map_err(text)?),
    })
}

fn text(error: impl std::fmt::Display) -> String {
    plain(&error.to_string())
}
