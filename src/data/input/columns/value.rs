//! A value of a column as JSON.

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    ArrowTemporalType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use serde_json::{Map, Number, Value};

/// The most levels of lists and structs within one another, beyond what metadata may have.
const MOST_LEVELS: usize = 100;

/// The value in a row; dates, times and decimals as text, what is no number (NaN) as null.
pub(super) fn of(column: &dyn Array, row: usize) -> Result<Value, String> {
    value(column, row, 0)
}

fn value(column: &dyn Array, row: usize, level: usize) -> Result<Value, String> {
    if level > MOST_LEVELS {
        return Err("nested too deeply".to_owned());
    }
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    let float = |number: f64| Number::from_f64(number).map_or(Value::Null, Value::Number);
    Ok(match column.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(column.as_boolean().value(row)),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float16 => float(column.as_primitive::<Float16Type>().value(row).into()),
        DataType::Float32 => {
            // As it is written, not as its next double is.
            let number = column.as_primitive::<Float32Type>().value(row);
            float(number.to_string().parse().unwrap_or(f64::NAN))
        }
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).into(),
        DataType::Utf8View => column.as_string_view().value(row).into(),
        DataType::List(_) => list(&column.as_list::<i32>().value(row), level)?,
        DataType::LargeList(_) => list(&column.as_list::<i64>().value(row), level)?,
        DataType::FixedSizeList(..) => list(&column.as_fixed_size_list().value(row), level)?,
        DataType::Struct(fields) => {
            let mut object = Map::new();
            for (field, column) in fields.iter().zip(column.as_struct().columns()) {
                object.insert(field.name().clone(), value(column.as_ref(), row, level + 1)?);
            }
            Value::Object(object)
        }
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let key = value(dictionary.keys(), row, level + 1)?;
            let key = key.as_u64().and_then(|key| usize::try_from(key).ok());
            let values = dictionary.values();
            match key.filter(|key| *key < values.len()) {
                Some(key) => value(values.as_ref(), key, level + 1)?,
                None => return Err("a dictionary with a key that is not in it".to_owned()),
            }
        }
        DataType::Timestamp(unit, zone) => {
            let time = match unit {
                TimeUnit::Second => time::<TimestampSecondType>(column, row),
                TimeUnit::Millisecond => time::<TimestampMillisecondType>(column, row),
                TimeUnit::Microsecond => time::<TimestampMicrosecondType>(column, row),
                TimeUnit::Nanosecond => time::<TimestampNanosecondType>(column, row),
            };
            // Those of a zone are stored in UTC.
            let zone = if zone.is_some() { "Z" } else { "" };
            Value::String(time.ok_or("a time beyond the calendar")? + zone)
        }
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            let options = FormatOptions::new().with_display_error(false);
            let formatter = ArrayFormatter::try_new(column, &options).map_err(|error| error.to_string())?;
            let text = formatter.value(row).try_to_string();
            Value::String(text.map_err(|error| format!("no text: {error}"))?)
        }
        other => {
            return Err(format!("of the type {other}, which is not read; name the columns of the metadata"));
        }
    })
}

fn time<T: ArrowTemporalType>(column: &dyn Array, row: usize) -> Option<String>
where
    i64: From<T::Native>,
{
    let time = as_datetime::<T>(column.as_primitive::<T>().value(row).into())?;
    // As ISO 8601 has it.
    Some(format!("{time:?}"))
}

fn list(items: &ArrayRef, level: usize) -> Result<Value, String> {
    (0..items.len()).map(|item| value(items.as_ref(), item, level + 1)).collect()
}
