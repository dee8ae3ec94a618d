//! The values of a column as JSON.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, downcast_integer_array};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use serde_json::{Map, Number, Value};

use crate::data::MAX_LINE_BYTES;
use crate::data::note::Seen;

/// Most nested lists and structs, more than metadata may have.
const MOST_LEVELS: usize = 100;
/// Most values of a row in a column, like a JSON record.
const MOST_VALUES: usize = 1 << 20;

/// Options for reading the values of a column, and counts of inexact ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    /// Whether decimals are text with all digits.
    pub decimals_as_text: bool,
    /// Decimals that a number cannot hold, found before decimals became text.
    pub inexact: Seen,
    /// Infinite numbers, which became null.
    pub infinite: Seen,
    /// Values and bytes of text in this row so far.
    values: usize,
    bytes: usize,
    row: u64,
}

/// Why a value is not read.
#[derive(Debug)]
pub(super) enum Unread {
    /// For its type, or because the column is damaged.
    Column(String),
    /// For itself, while others of the column are read.
    Row(String),
}

impl Values {
    pub fn new(decimals_as_text: bool) -> Self {
        Self { decimals_as_text, ..Self::default() }
    }

    /// The value at a position of an array, in row number `row`: dates and times as text, decimals as numbers
    /// if f64 or 64-bit integers hold them, NaN and infinities as null.
    pub fn of(&mut self, column: &dyn Array, place: usize, row: u64) -> Result<Value, Unread> {
        (self.values, self.bytes, self.row) = (0, 0, row);
        self.value(column, place, 0)
    }

    fn value(&mut self, column: &dyn Array, row: usize, level: usize) -> Result<Value, Unread> {
        if level > MOST_LEVELS {
            return Err(Unread::Column("nested too deeply".to_owned()));
        }
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(Unread::Row(format!("too large: more than {MOST_VALUES} values in a row")));
        }
        if column.is_null(row) {
            return Ok(Value::Null);
        }
        if column.data_type().is_integer() {
            return Ok(downcast_integer_array!(column => column.value(row).into(), _ => Value::Null));
        }
        Ok(match column.data_type() {
            DataType::Null => Value::Null,
            DataType::Boolean => Value::Bool(column.as_boolean().value(row)),
            DataType::Float16 => self.float(column.as_primitive::<Float16Type>().value(row).into()),
            DataType::Float32 => {
                // The shortest form of the f32, not of the nearest double.
                let number = column.as_primitive::<Float32Type>().value(row);
                self.float(number.to_string().parse().unwrap_or(f64::NAN))
            }
            DataType::Float64 => self.float(column.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8 => self.text(column.as_string::<i32>().value(row))?,
            DataType::LargeUtf8 => self.text(column.as_string::<i64>().value(row))?,
            DataType::Utf8View => self.text(column.as_string_view().value(row))?,
            DataType::List(_) => self.list(&column.as_list::<i32>().value(row), level)?,
            DataType::LargeList(_) => self.list(&column.as_list::<i64>().value(row), level)?,
            DataType::FixedSizeList(..) => self.list(&column.as_fixed_size_list().value(row), level)?,
            DataType::Struct(fields) => {
                let mut object = Map::new();
                for (field, column) in fields.iter().zip(column.as_struct().columns()) {
                    let value = self.value(column.as_ref(), row, level + 1)?;
                    if object.insert(field.name().clone(), value).is_some() {
                        let twice = format!("a struct with two fields called `{}`", field.name());
                        return Err(Unread::Column(twice));
                    }
                }
                Value::Object(object)
            }
            DataType::Dictionary(..) => {
                let dictionary = column.as_any_dictionary();
                let key = self.value(dictionary.keys(), row, level + 1)?;
                let key = key.as_u64().and_then(|key| usize::try_from(key).ok());
                let values = dictionary.values();
                match key.filter(|key| *key < values.len()) {
                    Some(key) => self.value(values.as_ref(), key, level + 1)?,
                    None => {
                        let damage = "a dictionary with a key that is not in it";
                        return Err(Unread::Column(damage.to_owned()));
                    }
                }
            }
            DataType::Timestamp(unit, zone) => {
                // Times with a zone are stored in UTC.
                let one = column.slice(row, 1);
                let one = cast(&one, &DataType::Timestamp(*unit, None)).map_err(of_column)?;
                let zone = if zone.is_some() { "Z" } else { "" };
                Value::String(with_digits(written(&one, 0)?, *unit) + zone)
            }
            DataType::Time32(unit) | DataType::Time64(unit) => {
                Value::String(with_digits(written(column, row)?, *unit))
            }
            DataType::Date64 => {
                // A day in milliseconds; some programs put a time into it.
                let date = written(column, row)?;
                Value::String(date.strip_suffix("T00:00:00").unwrap_or(&date).to_owned())
            }
            DataType::Date32 => Value::String(written(column, row)?),
            DataType::Duration(_) => match written(column, row)? {
                // So it is written when its milliseconds have more than 64 bits.
                text if text == "<invalid>" => {
                    return Err(Unread::Row("a duration of more than 292 million years".to_owned()));
                }
                text => Value::String(text),
            },
            kind if kind.is_decimal() => {
                let decimal = written(column, row)?;
                if self.decimals_as_text {
                    return Ok(Value::String(decimal));
                }
                let value = crate::data::decimal(&decimal);
                if value.is_string() {
                    self.inexact.see(1, self.row);
                }
                value
            }
            other => {
                return Err(Unread::Column(format!(
                    "of the type {other}, which is not read; name the columns to read with `--metadata`"
                )));
            }
        })
    }

    fn float(&mut self, number: f64) -> Value {
        if number.is_infinite() {
            self.infinite.see(1, self.row);
        }
        Number::from_f64(number).map_or(Value::Null, Value::Number)
    }

    fn text(&mut self, text: &str) -> Result<Value, Unread> {
        self.bytes += text.len();
        match self.bytes <= MAX_LINE_BYTES {
            true => Ok(text.into()),
            false => Err(Unread::Row(format!("too large: more than {MAX_LINE_BYTES} bytes in a row"))),
        }
    }

    fn list(&mut self, items: &ArrayRef, level: usize) -> Result<Value, Unread> {
        (0..items.len()).map(|item| self.value(items.as_ref(), item, level + 1)).collect()
    }
}

/// A value as the library writes it.
fn written(column: &dyn Array, row: usize) -> Result<String, Unread> {
    let options = FormatOptions::new().with_display_error(false);
    let formatter = ArrayFormatter::try_new(column, &options).map_err(of_column)?;
    // Such as a date far from our time.
    let failed = |error: ArrowError| Unread::Row(format!("not convertible to text: {error}"));
    formatter.value(row).try_to_string().map_err(failed)
}

fn of_column(error: impl std::fmt::Display) -> Unread {
    Unread::Column(error.to_string())
}

/// A time with the sub-second digits of its unit, so that the texts of a column sort chronologically.
fn with_digits(time: String, unit: TimeUnit) -> String {
    let digits = match unit {
        TimeUnit::Second => return time,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((&time, ""));
    format!("{whole}.{fraction:0<digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::input::cells::{exact, without_zeros};

    #[test]
    fn decimals_are_numbers_where_no_digit_is_lost() {
        for (decimal, written) in [
            ("9.99", "9.99"),
            ("10.00", "10"),
            ("-0.50", "-0.5"),
            ("0.000001234", "1.234e-6"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808.00", "-9223372036854775808"),
        ] {
            assert_eq!(
                exact(without_zeros(decimal)).map(|number| number.to_string()).as_deref(),
                Some(written)
            );
        }
        for decimal in ["0.12345678901234567890", "12345678901234567.89", "18446744073709551617"] {
            assert_eq!(exact(without_zeros(decimal)), None, "{decimal}");
        }
    }

    #[test]
    fn dates_have_no_time_unless_one_was_written() {
        let days = arrow_array::Date64Array::from(vec![1_704_412_800_000, 1_704_412_800_000 + 3_600_000]);
        let text = |row| Values::default().of(&days, row, 1).unwrap();
        assert_eq!((text(0), text(1)), ("2024-01-05".into(), "2024-01-05T01:00:00".into()));
    }

    #[test]
    fn a_duration_is_written_or_refused() {
        let seconds = arrow_array::DurationSecondArray::from(vec![90, i64::MAX]);
        let value = |row| Values::default().of(&seconds, row, 1);
        assert_eq!(value(0).unwrap(), "PT90S");
        assert!(matches!(value(1), Err(Unread::Row(reason)) if reason.contains("292 million years")));
    }

    #[test]
    fn times_have_the_digits_of_their_unit() {
        let text = |time: &str, unit| with_digits(time.to_owned(), unit);
        assert_eq!(text("2024-01-05T10:00:00", TimeUnit::Second), "2024-01-05T10:00:00");
        assert_eq!(text("2024-01-05T10:00:00", TimeUnit::Millisecond), "2024-01-05T10:00:00.000");
        assert_eq!(text("10:00:00.500", TimeUnit::Microsecond), "10:00:00.500000");
        assert_eq!(text("10:00:00.000000001", TimeUnit::Nanosecond), "10:00:00.000000001");
    }
}
