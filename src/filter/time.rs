//! The order of strings, with times in chronological order: with and without fractions of a second, in UTC
//! and with an offset from it (RFC 3339).

use std::cmp::Ordering;

/// The form of the beginning of a time; a digit stands at each 0.
const PATTERN: &[u8; SECONDS] = b"0000-00-00T00:00:00";
/// Bytes of `2024-01-05T10:00:00`.
const SECONDS: usize = 19;
/// Bytes of `+02:00`.
const OFFSET: usize = 6;
/// Represents a zone in the order: below the point of a fraction.
const ZONED: &[u8] = b"\0Z";
const MINUTES_PER_DAY: i64 = 24 * 60;

/// By bytes in UTF-8, except that two times compare as times: `10:00:00Z` is before `10:00:00.5Z`, although
/// in bytes the point is before the letter, and equals `10:00:00.000Z` and `12:00:00+02:00`.
///
/// A total order of all strings, by the bytes of [`key`].
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (key_a, key_b) = (key(a), key(b));
    key_a.as_deref().unwrap_or(a.as_bytes()).cmp(key_b.as_deref().unwrap_or(b.as_bytes()))
}

/// Whether a string begins as `2024-01-05T10:00:00` does.
fn is_time(text: &str) -> bool {
    text.len() >= SECONDS && PATTERN.iter().zip(text.as_bytes()).all(fits)
}

fn fits((wanted, byte): (&u8, &u8)) -> bool {
    if *wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted }
}

/// Whether a time may begin with this text.
pub(super) fn may_begin(text: &str) -> bool {
    PATTERN.iter().zip(text.as_bytes()).all(fits)
}

/// What a time is ordered by: date and time to the second, in UTC if the zone is known, the point and the
/// digits of a fraction without trailing zeros, and whether the zone is known. `None` for other strings.
pub(super) fn key(text: &str) -> Option<Vec<u8>> {
    let (start, rest) = text.as_bytes().split_at_checked(SECONDS).filter(|_| is_time(text))?;
    let zoned = match rest {
        [rest @ .., b'Z'] => Some((rest, 0)),
        _ => rest.split_last_chunk().and_then(|(rest, offset)| Some((rest, minutes(offset)?))),
    };
    let (rest, ahead) = zoned.unwrap_or((rest, 0));
    let fraction = match rest {
        [] => rest,
        [b'.', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
            if zeros == digits.len() { &[] } else { &rest[..rest.len() - zeros] }
        }
        _ => return None,
    };
    let start = if ahead == 0 { start.to_vec() } else { in_utc(start, ahead)? };
    Some([&*start, fraction, if zoned.is_some() { ZONED } else { &[] }].concat())
}

/// How many minutes the clock of an offset such as `+02:00` is ahead.
fn minutes(offset: &[u8; OFFSET]) -> Option<i64> {
    let [sign, h1, h2, b':', m1, m2] = offset else { return None };
    let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
    let ahead = hours * 60 + minutes;
    match (sign, hours < 24 && minutes < 60) {
        (b'+', true) => Some(ahead),
        (b'-', true) => Some(-ahead),
        _ => None,
    }
}

/// Converts `2024-01-05T10:00:00` on a clock that is `ahead` minutes ahead to UTC. `None` for an invalid
/// date, and if the year needs more than four digits.
fn in_utc(time: &[u8], ahead: i64) -> Option<Vec<u8>> {
    let part = |from: usize, to: usize| number(&time[from..to]);
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute) = (part(11, 13)?, part(14, 16)?);
    let days = days_before(year, month, day);
    if !(1..=12).contains(&month) || date(days) != (year, month, day) || hour > 23 || minute > 59 {
        return None;
    }
    let minutes = days * MINUTES_PER_DAY + hour * 60 + minute - ahead;
    let (year, month, day) = date(minutes.div_euclid(MINUTES_PER_DAY));
    let of_day = minutes.rem_euclid(MINUTES_PER_DAY);
    let start = format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}", of_day / 60, of_day % 60);
    (0..10_000).contains(&year).then(|| [start.as_bytes(), &time[16..]].concat())
}

/// Milliseconds since 1970 of a time with its zone, rounded down; `None` for other strings and invalid dates.
pub(crate) fn unix_milliseconds(text: &str) -> Option<i64> {
    let key = key(text)?;
    let (time, fraction) = key.strip_suffix(ZONED)?.split_at_checked(SECONDS)?;
    in_utc(time, 0)?;
    let part = |from: usize, to: usize| number(&time[from..to]);
    let days = days_before(part(0, 4)?, part(5, 7)?, part(8, 10)?) - days_before(1970, 1, 1);
    // 60 in a leap second.
    let second = part(17, 19).filter(|second| *second <= 60)?;
    let seconds = ((days * 24 + part(11, 13)?) * 60 + part(14, 16)?) * 60 + second;
    let digits = fraction.iter().skip(1).chain(b"000").take(3);
    Some(digits.fold(seconds, |value, digit| 10 * value + i64::from(digit - b'0')))
}

/// A time since 1970 in UTC, to the second or the nanosecond.
#[cfg(any(feature = "folders", test))]
pub(crate) fn rfc3339(seconds: i64, nanoseconds: i64) -> String {
    const SECONDS_PER_DAY: i64 = 60 * MINUTES_PER_DAY;
    let (year, month, day) = date(days_before(1970, 1, 1) + seconds.div_euclid(SECONDS_PER_DAY));
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let fraction = if nanoseconds == 0 { String::new() } else { format!(".{nanoseconds:09}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Days from 1 March of the year 0 to a date of the Gregorian calendar (Hinnant, *chrono-Compatible Low-Level
/// Date Algorithms*, `days_from_civil`): with March as the first month, the leap day is a year's last.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month < 3 { year - 1 } else { year };
    let month = (month + 9) % 12;
    365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
}

/// Year, month and day, the inverse of [`days_before`] (`civil_from_days`).
fn date(days: i64) -> (i64, i64, i64) {
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (era * 400 + year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(days_before(0, 3, 1), 0);
        let mut days = days_before(0, 1, 1);
        for year in 0..800 {
            for month in 1..=12 {
                let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
                let length = match month {
                    2 => 28 + i64::from(is_leap),
                    4 | 6 | 9 | 11 => 30,
                    _ => 31,
                };
                for day in 1..=length {
                    assert_eq!((days_before(year, month, day), date(days)), (days, (year, month, day)));
                    days += 1;
                }
            }
        }
    }

    #[test]
    fn times_are_written_in_utc_and_compare_in_their_order() {
        let rising = [
            (-2_203_891_200, 0, "1900-03-01T00:00:00Z"),
            (-1, 999_999_999, "1969-12-31T23:59:59.999999999Z"),
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_795_704_360, 0, "2026-11-26T14:46:00Z"),
            (1_795_704_360, 120_000_000, "2026-11-26T14:46:00.120000000Z"),
            (1_795_704_360, 123_456_789, "2026-11-26T14:46:00.123456789Z"),
            (253_402_300_799, 0, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, nanoseconds, text) in rising {
            assert_eq!(rfc3339(seconds, nanoseconds), text);
        }
        assert!(rising.windows(2).all(|pair| compare(pair[0].2, pair[1].2).is_lt()));
    }

    #[test]
    fn fractions_of_a_second_stand_behind_the_whole_one() {
        let rising = [
            "2024-01-05",
            "2024-01-05T08:00:02.5Z",
            "2024-01-05T10:00:00",
            "2024-01-05T10:00:00Z",
            "2024-01-05T10:00:00.000001Z",
            "2024-01-05T10:00:00.25",
            "2024-01-05T10:00:00.25Z",
            "2024-01-05T10:00:00.5Z",
            "2024-01-05T10:00:01.000Z",
            "2024-01-06",
            "2024-01-05T23:59:59-05:00",
            "x",
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        for (a, b) in [
            ("2024-01-05T10:00:00Z", "2024-01-05T10:00:00.000000000Z"),
            ("2024-01-05T10:00:00.5Z", "2024-01-05T10:00:00.500+00:00"),
            ("2024-01-05T10:00:00", "2024-01-05T10:00:00.0"),
            ("2024-01-05T10:00:00Z", "2024-01-05T11:00:00+01:00"),
            ("2024-01-05T10:00:00Z", "2024-01-05T10:00:00-00:00"),
            ("2024-03-01T03:30:00.25Z", "2024-02-29T22:00:00.250-05:30"),
            ("2023-12-31T22:00:00Z", "2024-01-01T00:00:00+02:00"),
            ("2023-03-01T00:30:60Z", "2023-02-28T23:30:60-01:00"),
        ] {
            assert_eq!(compare(a, b), Ordering::Equal, "{a} {b}");
        }
        assert_ne!(compare("2024-01-05T10:00:00.", "2024-01-05T10:00:00"), Ordering::Equal);
        // Invalid dates, or years beyond four digits: plain strings.
        for text in [
            "2024-02-30T00:00:00+01:00",
            "2024-01-05T24:00:00+01:00",
            "2024-01-05T10:00:00+24:00",
            "0000-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            "2024-01-05T10:00:00+0100",
        ] {
            assert_eq!(key(text), None, "{text}");
        }
    }
}
