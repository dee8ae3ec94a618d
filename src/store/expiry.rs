//! When documents expire: by a field of their metadata that the index is told of when it is created.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::filter::{each_whole_at, unix_milliseconds};
use crate::input::InputError;

/// Milliseconds since 1970 in UTC.
pub(super) type Time = i64;

/// Of what never expires.
pub(super) const NEVER: Time = Time::MAX;

/// Seconds of the end of the year 9999. A later one is probably a number of milliseconds.
const LAST_SECOND: f64 = 253_402_300_800.0;

#[cfg(test)]
thread_local! {
    /// What the clock shows in a test.
    pub(super) static CLOCK: std::cell::Cell<Option<Time>> = const { std::cell::Cell::new(None) };
}

/// The time of the clock.
pub(super) fn now() -> Time {
    #[cfg(test)]
    if let Some(now) = CLOCK.get() {
        return now;
    }
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_millis() as Time,
        Err(before) => -(before.duration().as_millis() as Time),
    }
}

/// When a document expires: at a time with its zone (RFC 3339) or a number of seconds since 1970. `None` for
/// a missing field and for null: never.
///
/// # Errors
/// [`InputError::BadExpiry`] for other values, and for a path to several.
pub(super) fn of(
    id: &str,
    metadata: Option<&Value>,
    field: &str,
) -> std::result::Result<Option<Time>, InputError> {
    let (mut found, mut is_bad) = (None, None);
    each_whole_at(metadata, field, |value| {
        let Some(value) = value.filter(|value| !value.is_null()) else { return false };
        let time = match value {
            Value::String(text) => unix_milliseconds(text),
            Value::Number(number) => {
                let seconds = number.as_f64().filter(|seconds| seconds.abs() < LAST_SECOND);
                seconds.map(|seconds| (seconds * 1000.0).floor() as Time)
            }
            _ => None,
        };
        let is_first = found.is_none();
        found = time.filter(|_| is_first);
        let is_late = value.as_f64().is_some_and(|seconds| seconds >= LAST_SECOND);
        let said = || if is_first { value.to_string() } else { "several values".to_owned() };
        is_bad = found.is_none().then(|| (said(), is_late));
        is_bad.is_some()
    });
    match is_bad {
        Some((found, is_late)) => {
            Err(InputError::BadExpiry { id: id.to_owned(), field: field.to_owned(), found, is_late })
        }
        None => Ok(found),
    }
}

/// Whether a document is past its time.
pub(super) fn has_passed(metadata: Option<&Value>, field: &str) -> bool {
    of("", metadata, field).is_ok_and(|time| time.is_some_and(|time| time <= now()))
}

/// As [`of`], of stored metadata, which was checked when it was stored.
pub(super) fn of_stored(metadata: &[u8], field: &str) -> Option<Time> {
    let metadata: Value = serde_json::from_slice(metadata).ok()?;
    of("", Some(&metadata), field).ok()?
}

/// Times of expiry, ascending, and the representative row of each document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expiries {
    pub(super) times: Vec<Time>,
    pub(super) rows: Vec<u32>,
}

impl FromIterator<(Time, u32)> for Expiries {
    fn from_iter<I: IntoIterator<Item = (Time, u32)>>(found: I) -> Self {
        let mut found: Vec<(Time, u32)> = found.into_iter().collect();
        found.sort_unstable();
        let (times, rows) = found.into_iter().unzip();
        Self { times, rows }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_and_seconds_expire_and_other_values_are_refused() {
        let of = |value: Value| of("a", Some(&json!({ "at": { "end": value } })), "at.end");
        for (value, time) in [
            (json!("1970-01-01T00:00:01Z"), 1_000),
            (json!("1970-01-01T02:00:01.5+02:00"), 1_500),
            (json!("2026-11-28T12:00:00.1239Z"), 1_795_867_200_123),
            (json!("1969-12-31T23:59:59.999Z"), -1),
            (json!(0), 0),
            (json!(1.2345), 1_234),
            (json!(-0.0005), -1),
            (json!(1_795_867_200), 1_795_867_200_000),
        ] {
            assert_eq!(of(value.clone()), Ok(Some(time)), "{value}");
        }
        assert_eq!(of(Value::Null), Ok(None));
        assert_eq!(super::of("a", None, "at"), Ok(None));
        assert_eq!(super::of("a", Some(&json!({ "at": 5 })), "at.end"), Ok(None));
        for value in [
            json!("2026-11-28"),
            json!("2026-11-28T12:00:00"),
            json!("2026-02-30T12:00:00Z"),
            json!("2026-01-01T24:00:00Z"),
            json!("2026-01-01T10:00:61Z"),
            json!("soon"),
            json!(1_795_867_200_000_u64),
            json!(true),
            json!([1]),
            json!({ "end": 1 }),
        ] {
            let Err(InputError::BadExpiry { found, .. }) = of(value.clone()) else { panic!("{value}") };
            assert_eq!(found, value.to_string());
        }
        let several = json!({ "at": [{ "end": 1 }, { "end": 2 }] });
        let refused = super::of("a", Some(&several), "at.end");
        assert!(matches!(refused, Err(InputError::BadExpiry { found, .. }) if found == "several values"));
    }
}
