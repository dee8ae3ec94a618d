//! Tables of other libraries, by Arrow's stream in memory.

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_ipc::writer::StreamWriter;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::arguments::wrong_type;
use crate::errors::InputError;

fn unread(error: impl std::fmt::Display) -> PyErr {
    InputError::new_err(format!("the table cannot be read: {error}"))
}

/// The table as a stream of Arrow IPC.
pub fn stream(table: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut writer = None;
    // By pyarrow's own call, what the source of its reader raises arrives as it is, and not as a text.
    if table.hasattr("read_next_batch")? {
        loop {
            match table.call_method0("read_next_batch") {
                Ok(batch) => write(&batch, &mut writer)?,
                Err(end) if end.is_instance_of::<PyStopIteration>(table.py()) => break,
                Err(error) => return Err(error),
            }
        }
    }
    if writer.is_none() {
        write(table, &mut writer)?;
    }
    writer.map_or_else(|| Ok(Vec::new()), |writer| writer.into_inner().map_err(unread))
}

/// Writes the batches of a table.
#[allow(unsafe_code, reason = "the protocol hands over a pointer")]
fn write(table: &Bound<'_, PyAny>, writer: &mut Option<StreamWriter<Vec<u8>>>) -> PyResult<()> {
    let capsule = table.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: by the protocol, a capsule of this name has a stream, which the reader takes out of it.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    // Of a column, too, there is a stream.
    let expected =
        "a table, with a column for each field; one column goes with others, as in add(ids, texts);";
    let reader = reader.map_err(|_| wrong_type("documents", expected, table))?;
    let writer = match writer {
        Some(writer) => writer,
        none => none.insert(StreamWriter::try_new(Vec::new(), &reader.schema()).map_err(unread)?),
    };
    for batch in reader {
        table.py().check_signals()?;
        writer.write(&batch.map_err(unread)?).map_err(unread)?;
    }
    Ok(())
}
