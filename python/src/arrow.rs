//! Tables of other libraries, by Arrow's stream in memory.

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_ipc::writer::StreamWriter;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::arguments::wrong_type;
use crate::errors::InputError;

fn unread(error: impl std::fmt::Display) -> PyErr {
    InputError::new_err(format!("the table cannot be read: {error}"))
}

/// The table as a stream of Arrow IPC.
#[allow(unsafe_code, reason = "the protocol hands over a pointer")]
pub fn stream(table: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let capsule = table.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: by the protocol, a capsule of this name has a stream, which the reader takes out of it.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    // Of a column, too, there is a stream.
    let expected =
        "a table, with a column for each field; one column goes with others, as in add(ids, texts),";
    let reader = reader.map_err(|_| wrong_type("documents", expected, table))?;
    let mut writer = StreamWriter::try_new(Vec::new(), &reader.schema()).map_err(unread)?;
    for batch in reader {
        table.py().check_signals()?;
        writer.write(&batch.map_err(unread)?).map_err(unread)?;
    }
    writer.into_inner().map_err(unread)
}
