//! A filter as an argument: its JSON, or the place to read it from.

use std::fs;
use std::io;

use ehi::Filter;

/// Standard input, as an argument.
const STDIN: &str = "-";

/// Reads `{"lang": "en"}` as it stands, `@FILE` from a file and `-` from standard input: a command line
/// cannot hold ten thousand ids.
pub fn filter(argument: &str) -> Result<Filter, String> {
    let read = match (argument, argument.strip_prefix('@')) {
        (STDIN, _) => io::read_to_string(io::stdin()),
        (_, Some(path)) => fs::read_to_string(path),
        (json, None) => Ok(json.to_owned()),
    };
    let json = read.map_err(|error| format!("it cannot be read: {error}"))?;
    json.trim_start_matches('\u{feff}').parse().map_err(|error: ehi::FilterError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

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
