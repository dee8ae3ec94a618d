//! Documents of frames, dictionaries and columns, by the rules of `ehi insert`.

use std::ffi::CString;
use std::io::Cursor;

use ehi::data::{DataError, Format, Input, Records};
use ehi::{Document, InsertSummary};
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyString, PyTuple};
use serde_json::{Map, Value, json};

use crate::arguments::ID_NOT_FLOAT;
use crate::arrow;
use crate::columns::values;
use crate::errors::InputError;
use crate::value::{is_of_data, of_data, plain_values, text, type_name};

/// Rows between checks for Ctrl-C.
const ROWS: usize = 1024;
/// Fields of a document, of which a missing one is told apart from an absent one.
const OWN: [&str; 5] = ["_id", "id", "title", "text", "metadata"];

/// A field of a row.
type Field<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Why a row is not a document.
pub struct Refused {
    row: usize,
    id: Option<String>,
    field: Option<String>,
    error: String,
}

/// The documents of some rows, in their order, and the rows that are not documents.
#[derive(Default)]
pub struct Given {
    pub documents: Vec<Document>,
    refused: Vec<Refused>,
    /// Values that were left out, in sentences.
    notes: Vec<String>,
}

impl Given {
    /// Refuses all rows if one of them is not a document.
    pub fn check(&self) -> PyResult<()> {
        let Some(Refused { row, id, field, error }) = self.refused.first() else { return Ok(()) };
        let id = id.as_ref().map(|id| format!(" (`{id}`)")).unwrap_or_default();
        let field = field.as_ref().map(|field| format!(", `{field}`")).unwrap_or_default();
        Err(InputError::new_err(format!("position {row}{id}{field}: {error}")))
    }

    /// Warns of values that are left out.
    pub fn warn(&self, py: Python<'_>) -> PyResult<()> {
        let category = py.get_type::<PyUserWarning>();
        self.notes.iter().try_for_each(|note| PyErr::warn(py, &category, &CString::new(&**note)?, 1))
    }

    /// Takes the documents.
    pub fn take(&mut self) -> Vec<Document> {
        std::mem::take(&mut self.documents)
    }

    /// For each row, whether it is a document.
    pub fn rows(&self) -> impl Iterator<Item = bool> + '_ {
        let count = self.documents.len() + self.refused.len();
        let mut refused = self.refused.iter().map(|refused| refused.row).peekable();
        (0..count).map(move |row| refused.next_if_eq(&row).is_none())
    }

    /// The outcome of all rows, from the summary of the documents among them.
    pub fn outcome(&self, rows: &[bool], summary: &InsertSummary) -> PyResult<Value> {
        let failed = |error: serde_json::Error| InputError::new_err(error.to_string());
        let mut outcome = serde_json::to_value(summary).map_err(failed)?;
        let mut statuses = outcome["statuses"].take();
        let mut statuses = statuses.as_array_mut().into_iter().flatten().map(Value::take);
        let is_document =
            |is_document: &bool| if *is_document { statuses.next() } else { Some("refused".into()) };
        outcome["statuses"] = rows.iter().filter_map(is_document).collect();
        let places: Vec<usize> = (0..rows.len()).filter(|row| rows[*row]).collect();
        let own = self.refused.iter().map(|own| {
            let entry = json!({ "position": own.row, "id": own.id, "field": own.field, "error": own.error });
            (own.row, entry)
        });
        let of_library = summary.refused.iter().map(|own| {
            let row = places.get(own.position).copied().unwrap_or(own.position);
            let (field, error) = (field_of(&own.error), own.error.to_string());
            (row, json!({ "position": row, "id": own.id, "field": field, "error": error }))
        });
        let mut refused: Vec<(usize, Value)> = own.chain(of_library).collect();
        refused.sort_by_key(|(row, _)| *row);
        outcome["refused"] = refused.into_iter().map(|(_, entry)| entry).collect();
        Ok(outcome)
    }
}

/// The field of a document that an error of the library is about.
fn field_of(error: &ehi::InputError) -> Option<&'static str> {
    use ehi::InputError::{
        BadVector, EmptyDocument, InvalidId, MetadataTooDeep, NotFinite, OutlineMismatch, UnknownText,
    };
    match error {
        EmptyDocument { .. } | UnknownText { .. } => Some("text"),
        InvalidId { .. } => Some("id"),
        MetadataTooDeep { .. } => Some("metadata"),
        OutlineMismatch { .. } => Some("_outline"),
        BadVector | NotFinite { .. } => Some("vectors"),
        _ => None,
    }
}

/// Reads rows one at a time.
struct Reader {
    given: Given,
    records: Records,
    row: usize,
    /// Whether metadata that are not a dictionary are refused; otherwise they are a field of that name.
    are_columns: bool,
    /// Whether documents need no text.
    have_vectors: bool,
    /// Infinite values, and the row of the first.
    infinite: usize,
    first_infinite: usize,
}

impl Reader {
    fn new(columns: Option<&[String]>) -> PyResult<Self> {
        let records =
            Input::new().records(columns).map_err(|error| InputError::new_err(said(&error, OF_ALL)))?;
        Ok(Self {
            given: Given::default(),
            records,
            row: 0,
            are_columns: false,
            have_vectors: false,
            infinite: 0,
            first_infinite: 0,
        })
    }

    fn refuse(&mut self, id: Option<String>, field: Option<String>, error: String) {
        self.given.refused.push(Refused { row: self.row, id, field, error });
    }

    /// Reads the next row.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        fields: impl Iterator<Item = PyResult<Field<'py>>>,
    ) -> PyResult<()> {
        if self.row.is_multiple_of(ROWS) {
            py.check_signals()?;
        }
        let before = self.infinite;
        let (mut record, mut bad) = (Map::new(), None);
        for field in fields {
            let (name, value) = field?;
            let name = match text(&name, || "a name of a field".to_owned()) {
                Ok(name) => name,
                Err(error) => {
                    bad = bad.or(Some((None, error)));
                    continue;
                }
            };
            match self.value(&name, &value) {
                Ok(value) if value.is_null() && !OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) => {}
                Ok(value) => drop(record.insert(name, value)),
                // The others may have the id.
                Err(error) => bad = bad.or(Some((Some(name), error))),
            }
        }
        if self.infinite > before && before == 0 {
            self.first_infinite = self.row;
        }
        if self.have_vectors && record.get("text").is_some_and(Value::is_null) {
            record.insert("text".to_owned(), "".into());
        }
        let id = id(&record);
        if let Some((field, error)) = bad {
            // Such as Ctrl-C, or too little memory.
            if !is_of_data(py, &error) {
                return Err(error);
            }
            self.refuse(id, field, error.value(py).to_string());
        } else if let Some((field, error)) = bad_id(&mut record) {
            self.refuse(id, Some(field), error);
        } else if let Some((field, error)) = missing(&record) {
            self.refuse(id, Some(field.to_owned()), error.to_owned());
        } else {
            match self.records.document(record) {
                Ok(document) => self.given.documents.push(document),
                Err(error) => {
                    self.refuse(id, error.field().map(str::to_owned), said(&error, OF_A_ROW));
                }
            }
        }
        self.row += 1;
        Ok(())
    }

    /// A field's value; members of `metadata` without a value are left out, apart from `None`, JSON's null.
    fn value(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
        let mut found = of_data(value, &mut self.infinite)?;
        if let (true, Value::Object(fields), Ok(members)) =
            (name == "metadata", &mut found, value.cast::<PyDict>())
            && fields.values().any(Value::is_null)
        {
            let is_none =
                |name: &str| members.get_item(name).is_ok_and(|own| own.is_some_and(|own| own.is_none()));
            fields.retain(|name, value| !value.is_null() || is_none(name));
        }
        let is_other = self.are_columns && name == "metadata" && !found.is_object() && !found.is_null();
        if is_other {
            return Err(PyTypeError::new_err(format!(
                "metadata must be a dictionary, not {}",
                type_name(value)
            )));
        }
        Ok(found)
    }

    fn finish(mut self) -> Given {
        if self.infinite > 0 {
            let (count, first) = (self.infinite, self.first_infinite);
            let message =
                format!("infinite values left out: {count}, the first at position {first}; JSON has none");
            self.given.notes.push(message);
        }
        self.given
    }
}

/// The id of a record, if it has one.
fn id(record: &Map<String, Value>) -> Option<String> {
    let named =
        |name: &str| record.iter().find(|(own, value)| own.eq_ignore_ascii_case(name) && !value.is_null());
    match named("_id").or_else(|| named("id"))?.1 {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Why a record has no usable id, where a file's rules do not say what to do in Python. An `id` that repeats
/// the `_id` is left out.
fn bad_id(record: &mut Map<String, Value>) -> Option<(String, String)> {
    let named =
        |name: &str| record.iter().find(|(own, value)| own.eq_ignore_ascii_case(name) && !value.is_null());
    let (underlined, plain) = (named("_id"), named("id"));
    let (name, id) = underlined.or(plain)?;
    if id.is_f64() {
        return Some((name.clone(), format!("`{name}` is {id}; it must be {ID_NOT_FLOAT}")));
    }
    let (Some((_, underlined)), Some((name, plain))) = (underlined, plain) else { return None };
    let as_text = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    if as_text(underlined) == as_text(plain) {
        let name = name.clone();
        record.remove(&name);
    }
    None
}

/// What a record of fields without names of its own lacks.
fn missing(record: &Map<String, Value>) -> Option<(&'static str, &'static str)> {
    let has =
        |name: &str| record.iter().any(|(own, value)| own.eq_ignore_ascii_case(name) && !value.is_null());
    let is_named = |name: &str| record.keys().any(|own| own.eq_ignore_ascii_case(name));
    if !has("_id") && !has("id") {
        return Some(("id", "there is no id; give a string or a whole number"));
    }
    let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
    let has_title = record
        .iter()
        .any(|(own, value)| own.eq_ignore_ascii_case("title") && !value.is_null() && !is_blank(value));
    let is_empty = is_named("text") && !has("text") && !has_title;
    is_empty.then_some(("text", "there is no text; give a string as the text or the title"))
}

/// What to do about a field that is missing in a row, or in all.
const OF_A_ROW: &str = "give it a value, or rename another field";
const OF_ALL: &str = "rename one";

/// An error with what to do in place of the options of the command line.
fn said(error: &DataError, remedy: &str) -> String {
    let text = error.to_string();
    let clauses: Vec<&str> = text.split("; ").filter(|clause| !clause.contains("`--")).collect();
    let said = clauses.join("; ");
    if said.len() < text.len() { format!("{said}; {remedy}") } else { said }
}

/// The documents of a frame, or of an iterable of dictionaries.
pub fn documents(given: &Bound<'_, PyAny>) -> PyResult<Given> {
    let py = given.py();
    if let Some(Rows { columns, rows }) = frame(given)? {
        let mut reader = Reader::new(Some(&columns))?;
        let names: Vec<Bound<'_, PyAny>> =
            columns.iter().map(|name| PyString::new(py, name).into_any()).collect();
        for row in rows.try_iter()? {
            let row = row?;
            let fields = names.iter().cloned().zip(row.try_iter()?);
            reader.read(py, fields.map(|(name, value)| Ok((name, value?))))?;
        }
        return Ok(reader.finish());
    }
    // A column of structs of pyarrow may have rows that are null, of which a table has none.
    let is_column = given.hasattr("to_pylist")? && !given.hasattr("schema")?;
    if given.hasattr("__arrow_c_stream__")? && !is_column {
        return of_arrow(given);
    }
    let mut reader = Reader::new(None)?;
    for item in dictionaries("documents", given)? {
        let item = item?;
        match item.cast::<PyDict>() {
            Ok(fields) => reader.read(py, fields.iter().map(Ok))?,
            Err(_) if item.is_instance_of::<PyString>() && reader.row == 0 => {
                let what = "ids without texts: add(ids, texts), or dictionaries with `id` and `text`";
                return Err(PyTypeError::new_err(what));
            }
            Err(_) => {
                let error = format!("a row must be a dictionary, not {}", type_name(&item));
                reader.refuse(None, None, error);
                reader.row += 1;
            }
        }
    }
    Ok(reader.finish())
}

/// The documents of a table of Arrow, by its stream: a frame of polars, a table of pyarrow and others.
fn of_arrow(given: &Bound<'_, PyAny>) -> PyResult<Given> {
    let py = given.py();
    let bytes = arrow::stream(given)?;
    let failed = |error: DataError| InputError::new_err(said(&error, OF_ALL));
    let input = Input::new().format(Format::Arrow);
    let mut documents = py.detach(|| input.read(Cursor::new(bytes), "")).map_err(failed)?;
    let mut read = Given::default();
    for row in 0.. {
        if row % ROWS == 0 {
            py.check_signals()?;
        }
        match documents.next() {
            None => break,
            Some(Ok(mut document)) => {
                // All rows have all columns: a null is no value.
                if let Some(Value::Object(fields)) = &mut document.metadata {
                    fields.retain(|_, value| !value.is_null());
                }
                read.documents.push(document);
            }
            Some(Err(error)) if error.is_of_one_record() => {
                let field = error.field().map(str::to_owned);
                let id = error.id().map(str::to_owned);
                read.refused.push(Refused { row, id, field, error: said(&error, OF_A_ROW) });
            }
            Some(Err(error)) => return Err(failed(error)),
        }
    }
    read.notes = documents.notes().iter().map(ToString::to_string).collect();
    Ok(read)
}

/// The documents of columns of equal length, of which all but the ids may be missing.
pub fn columns<'py>(
    ids: &Bound<'py, PyAny>,
    texts: Option<&Bound<'py, PyAny>>,
    titles: Option<&Bound<'py, PyAny>>,
    metadata: Option<&Bound<'py, PyAny>>,
    have_vectors: bool,
) -> PyResult<Given> {
    let py = ids.py();
    let mut columns = vec![(PyString::new(py, "id").into_any(), values("ids", ids)?)];
    let count = columns[0].1.len();
    for (field, name, given) in
        [("text", "texts", texts), ("title", "titles", titles), ("metadata", "metadata", metadata)]
    {
        let column = match given {
            Some(given) => values(name, given)?,
            None => vec![py.None().into_bound(py); count],
        };
        if column.len() != count {
            let found = column.len();
            let message = format!("{count} ids and {found} {name}; give a value for each document");
            return Err(InputError::new_err(message));
        }
        columns.push((PyString::new(py, field).into_any(), column));
    }
    let mut reader = Reader { are_columns: true, have_vectors, ..Reader::new(None)? };
    for row in 0..count {
        reader.read(py, columns.iter().map(|(name, column)| Ok((name.clone(), column[row].clone()))))?;
    }
    Ok(reader.finish())
}

/// The rows of a frame of pandas, each with a value for each column.
pub struct Rows<'py> {
    pub columns: Vec<String>,
    pub rows: Bound<'py, PyAny>,
}

/// The rows of a frame of pandas; a named index is a column.
pub fn frame<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Rows<'py>>> {
    if !given.hasattr("itertuples")? {
        return Ok(None);
    }
    let py = given.py();
    let mut names = given.getattr("index")?.getattr("names")?.try_iter()?;
    let has_names = names.try_fold(false, |found, name| PyResult::Ok(found || !name?.is_none()))?;
    let given = if has_names { given.call_method0("reset_index")? } else { given.clone() };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for name in given.getattr("columns")?.try_iter()? {
        let name = text(&name?, || "the name of a column".to_owned())?;
        if columns.contains(&name) {
            return Err(InputError::new_err(format!("two columns are called `{name}`; rename one")));
        }
        columns.push(name);
    }
    for name in &columns {
        let column = given.get_item(name)?;
        // The shortest form of an f32, which pandas gives as the nearest double.
        let is_f32 = column.getattr("dtype")?.str()? == "float32";
        values.push(if is_f32 { column.call_method0("to_numpy")? } else { column });
    }
    let rows = py.import("builtins")?.getattr("zip")?.call1(PyTuple::new(py, values)?)?;
    Ok(Some(Rows { columns, rows }))
}

/// The dictionaries of an iterable, or of a frame that has them as rows.
pub fn dictionaries<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let not_rows = |what: &str| {
        let found = type_name(given);
        PyTypeError::new_err(format!("`{name}` must be a frame or an iterable of rows, not {found}{what}"))
    };
    if given.is_instance_of::<PyString>() {
        return Err(not_rows(""));
    }
    if given.is_instance_of::<PyDict>() {
        return Err(not_rows("; put a single one in a list: [row]"));
    }
    let rows = if given.hasattr("iter_rows")? {
        let named = PyDict::new(given.py());
        named.set_item("named", true)?;
        given.call_method("iter_rows", (), Some(&named))?
    } else if given.hasattr("collect")? {
        return Err(not_rows("; collect() it"));
    } else {
        plain_values(given)?
    };
    match rows.hasattr("__iter__")? || rows.hasattr("__getitem__")? {
        true => rows.try_iter(),
        false => Err(not_rows("")),
    }
}
