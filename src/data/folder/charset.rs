//! The charset that a page of HTML declares.

/// Bytes that browsers search for it.
const MOST_BYTES: usize = 1024;

/// The declared charset of a page, if it is in use and not UTF-8.
pub(super) fn unread(page: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&page[..page.len().min(MOST_BYTES)]).to_ascii_lowercase();
    let declared = declared(&head).filter(|name| !matches!(*name, "utf-8" | "utf8"))?;
    // For other charsets, valid UTF-8 outweighs the declaration.
    let is_unread = is_seven_bit(declared) || std::str::from_utf8(page).is_err();
    is_unread.then(|| declared.to_owned())
}

/// The declaration in a lowercased head: `<meta charset="…">`, `charset=…` within a content, or the
/// declaration of XML.
fn declared(head: &str) -> Option<&str> {
    let after = |key| head.split(key).skip(1);
    after("charset").chain(after("encoding")).find_map(|rest| {
        let name = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.:".contains(c));
        Some(&name[..end.unwrap_or(name.len())]).filter(|name| !name.is_empty())
    })
}

/// Whether a charset uses only ASCII bytes, so that its text is accidentally valid UTF-8.
fn is_seven_bit(charset: &str) -> bool {
    let starts = ["iso-2022-", "csiso2022", "hz-gb", "utf-7", "unicode-1-1-utf-7"];
    starts.iter().any(|start| charset.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charset_is_named_where_the_page_is_written_in_it() {
        for (page, charset) in [
            (&b"<meta charset=\"iso-8859-1\"><p>caf\xe9"[..], Some("iso-8859-1")),
            (b"<META http-equiv=x content='text/html; charset = Shift_JIS'>\x93", Some("shift_jis")),
            (b"<?xml version=\"1.0\" encoding='windows-1252'?>\x93", Some("windows-1252")),
            (b"<meta charset=iso-2022-jp>\x1b$B", Some("iso-2022-jp")),
            (b"<meta charset=\"iso-8859-1\"><p>caf\xc3\xa9", None),
            (b"<meta charset=\"utf-8\"><p>caf\xe9", None),
            (b"<p>charset, encoding</p>\xe9", None),
        ] {
            assert_eq!(unread(page).as_deref(), charset, "{}", String::from_utf8_lossy(page));
        }
    }
}
