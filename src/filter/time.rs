//! The order of strings, in which times with and without fractions of a second stand as the clock has them.

use std::cmp::Ordering;

/// Bytes of `2024-01-05T10:00:00`.
const SECONDS: usize = 19;
/// How UTC is written.
const UTC: [&str; 2] = ["Z", "+00:00"];
/// Stands for UTC in the order: below the point of a fraction.
const UTC_RANK: &[u8] = b"\0Z";

/// A string in the parts that order it.
struct Parts<'a> {
    /// All of a string that is no time.
    start: &'a [u8],
    /// The point and the digits of a fraction of a second, without the zeros at its end.
    fraction: &'a [u8],
    zone: &'static [u8],
}

/// By bytes in UTF-8, but that of two times the fractions of a second count as numbers: `10:00:00Z` is before
/// `10:00:00.5Z`, where the point is before the letter in bytes, and equals `10:00:00.000Z`.
///
/// A total order of all strings: each stands by the bytes that [`Parts`] has.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    match (is_time(a), is_time(b)) {
        (false, false) => a.cmp(b),
        (a_is_time, b_is_time) => parts(a, a_is_time).bytes().cmp(parts(b, b_is_time).bytes()),
    }
}

impl<'a> Parts<'a> {
    fn bytes(&self) -> impl Iterator<Item = u8> + use<'a> {
        [self.start, self.fraction, self.zone].into_iter().flatten().copied()
    }
}

/// Whether a string begins as `2024-01-05T10:00:00` does.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.get(10) == Some(&b'T')
        && bytes.len() >= SECONDS
        && bytes[..SECONDS].iter().enumerate().all(|(place, byte)| match place {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T',
            13 | 16 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
}

fn parts(text: &str, is_time: bool) -> Parts<'_> {
    let whole = Parts { start: text.as_bytes(), fraction: &[], zone: &[] };
    if !is_time {
        return whole;
    }
    let zoned = UTC.into_iter().find_map(|utc| text.strip_suffix(utc));
    let (start, rest) = zoned.unwrap_or(text).as_bytes().split_at(SECONDS);
    let fraction = match rest {
        [] => rest,
        [b'.', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
            if zeros == digits.len() { &[] } else { &rest[..rest.len() - zeros] }
        }
        // Another zone, or no time after all.
        _ => return whole,
    };
    Parts { start, fraction, zone: if zoned.is_some() { UTC_RANK } else { &[] } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_second_stand_behind_the_whole_one() {
        let rising = [
            "2024-01-05",
            "2024-01-05T10:00:00",
            "2024-01-05T10:00:00Z",
            "2024-01-05T10:00:00.000001Z",
            "2024-01-05T10:00:00.25",
            "2024-01-05T10:00:00.25Z",
            "2024-01-05T10:00:00.5Z",
            "2024-01-05T10:00:01.000Z",
            "2024-01-05T10:00:02.5+02:00",
            "2024-01-06",
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
        ] {
            assert_eq!(compare(a, b), Ordering::Equal, "{a} {b}");
        }
        assert_ne!(compare("2024-01-05T10:00:00.", "2024-01-05T10:00:00"), Ordering::Equal);
    }
}
