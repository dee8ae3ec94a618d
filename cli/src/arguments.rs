//! Parsers of arguments.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{Datelike, NaiveDate, NaiveTime};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ehi::Filter;

/// A parser of values by their names.
pub fn one_of<T: Clone + Send + Sync + 'static, const N: usize>(
    values: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values.each_ref().map(|(name, _)| *name));
    names.try_map(move |given| {
        let named = values.iter().find(|(name, _)| *name == given);
        named.map(|(_, value)| value.clone()).ok_or("an unknown name")
    })
}

/// A number from 1.
pub fn positive(text: &str) -> Result<usize, String> {
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a whole number from 1".to_owned())
}

/// A number; JSON has neither infinity nor NaN.
pub fn finite(text: &str) -> Result<f64, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| "expected a number".to_owned())
}

/// A number from 0, to `most` if there is such a bound.
pub fn fraction(text: &str, most: Option<f64>) -> Result<f64, String> {
    let range = 0.0..=most.unwrap_or(f64::MAX);
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        format!("expected a number from 0{}", most.map_or_else(String::new, |most| format!(" to {most}")))
    })
}

/// A time in some unit, from 0.
pub fn time(text: &str, unit: &str, seconds: f64) -> Result<Duration, String> {
    let number = text.trim().parse::<f64>().ok();
    let time = number.and_then(|number| Duration::try_from_secs_f64(number * seconds).ok());
    time.ok_or_else(|| format!("expected a number of {unit} from 0"))
}

/// A day (`2026-01-31`, from midnight UTC) or seconds since 1970, as seconds since 1970.
pub fn since_1970(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let of_day = |day: NaiveDate| u64::try_from(day.and_time(NaiveTime::MIN).and_utc().timestamp()).ok();
    if text.len() == 8
        && text.bytes().all(|digit| digit.is_ascii_digit())
        && let Ok(day) = NaiveDate::parse_from_str(text, "%Y%m%d")
        && (1970..2100).contains(&day.year())
    {
        return Err(format!("write {day} for that date; digits alone are seconds since 1970"));
    }
    // With all its digits.
    let day = || text.parse::<NaiveDate>().ok().filter(|day| day.to_string() == text);
    let seconds = text.parse().ok().or_else(|| of_day(day()?));
    seconds.ok_or_else(|| "expected a date such as 2026-01-31, or seconds since 1970".to_owned())
}

/// Whether an option has read standard input.
static IS_STDIN_READ: AtomicBool = AtomicBool::new(false);

/// The file at a path; `-` is standard input, once.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path != Path::new("-") {
        return Ok(Box::new(File::open(path)?));
    }
    match IS_STDIN_READ.swap(true, Ordering::Relaxed) {
        false => Ok(Box::new(stdin())),
        true => Err(io::Error::other("another option reads standard input; give one of them a file")),
    }
}

/// Standard input. At a terminal, a note says how to end it.
pub fn stdin() -> io::Stdin {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        eprintln!("note: reads what you type; Ctrl-D ends it");
    }
    stdin
}

/// Reads `{"lang": "en"}` as it stands, `@FILE` from a file and `-` from standard input: a command line
/// cannot hold ten thousand ids.
pub fn filter(argument: &str) -> Result<Filter, String> {
    let path = argument.strip_prefix('@').or((argument == "-").then_some(argument));
    let read = path.map(|path| open(Path::new(path)).and_then(io::read_to_string));
    let json = read.unwrap_or_else(|| Ok(argument.to_owned()));
    let json = json.map_err(|error| format!("it cannot be read: {error}"))?;
    json.trim_start_matches('\u{feff}').parse().map_err(|error: ehi::FilterError| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_time_is_a_date_or_seconds() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("1972-02-29", 68_169_600),
            ("2026-01-31", 1_769_817_600),
            ("2100-03-01", 4_107_542_400),
            (" 1769817600 ", 1_769_817_600),
        ] {
            assert_eq!(since_1970(text), Ok(seconds), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2026-1-31",
            "2026 - 01 - 31",
            "2026-02-29",
            "2100-02-29",
            "2026-13-01",
            "2026-00-10",
            "1969-12-31",
        ] {
            assert!(since_1970(text).unwrap_err().contains("2026-01-31"), "{text}");
        }
        assert!(since_1970("-5").is_err() && since_1970("2026-01-31T00:00:00Z").is_err());
    }

    #[test]
    fn a_date_without_hyphens_is_not_seconds() {
        assert!(since_1970("20240105").unwrap_err().starts_with("write 2024-01-05 for that date"));
        assert_eq!(since_1970("20241399"), Ok(20_241_399));
        assert_eq!(since_1970("020240105"), Ok(20_240_105));
    }

    #[test]
    fn a_filter_stands_in_the_argument_or_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("filter.json");
        let ids: Vec<String> = (0..20_000).map(|id| format!("\"id-{id}\"")).collect();
        fs::write(&file, format!("\u{feff}{{\"$ids\": [{}]}}\n", ids.join(","))).unwrap();
        let read = filter(&format!("@{}", file.display())).unwrap();
        assert!(read.matches("id-19999", None) && !read.matches("id-20000", None));
        assert_eq!(filter("{\"lang\": \"en\"}").unwrap(), Filter::eq("lang", "en"));
        assert!(filter("@no/such/file").unwrap_err().starts_with("it cannot be read: No such file"));
        assert!(filter("{\"lang\"").unwrap_err().contains("JSON"));
    }
}
