//! The few pieces of HTML that the page is built from; every text goes through [`escaped`].

use std::fmt::Write;

/// A text as it may stand in an element or between quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in HTML, not even as references.
            c if c.is_control() && !c.is_whitespace() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Cells of a row as texts.
pub(super) type Cells = Vec<String>;

/// A table whose first column names the row and whose other cells are figures.
pub(super) fn table(caption: &str, head: &[String], rows: &[Cells]) -> String {
    let mut out = format!("<div class=\"wide\"><table><caption>{}</caption>\n<thead><tr>", escaped(caption));
    for cell in head {
        push(&mut out, format_args!("<th scope=\"col\">{}</th>", escaped(cell)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            match column {
                0 => push(&mut out, format_args!("<th scope=\"row\">{}</th>", escaped(cell))),
                _ => push(&mut out, format_args!("<td>{}</td>", escaped(cell))),
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// A bulleted list.
pub(super) fn list(texts: &[String]) -> String {
    let items: String = texts.iter().map(|text| format!("<li>{}</li>\n", escaped(text))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// Appends formatted text.
pub(super) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escaped("<b a=\"1\">'&\u{1}\n</b>"),
            "&lt;b a=&quot;1&quot;&gt;&#39;&amp;\u{fffd}\n&lt;/b&gt;"
        );
        let table = table("<c>", &["<h>".to_owned()], &[vec!["<r>".to_owned(), "<d>".to_owned()]]);
        for hidden in ["<c>", "<h>", "<r>", "<d>"] {
            assert!(!table.contains(hidden), "{table}");
        }
        assert!(list(&["<i>".to_owned()]).contains("<li>&lt;i&gt;</li>"));
    }
}
