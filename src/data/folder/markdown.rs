//! The text of a Markdown file.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::html;
use super::text::{Break, Page, PageText};

/// The title and text of a file. Front matter is not read, but for its title.
pub(super) fn page(markdown: &str) -> Page {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
        | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut page = PageText::new();
    let (mut front, mut markup) = (String::new(), String::new());
    let (mut in_front, mut in_code) = (false, false);
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Start(tag) => match tag {
                Tag::MetadataBlock(_) => in_front = true,
                Tag::Heading { level, .. } => page.begin_heading(level as u8),
                Tag::CodeBlock(_) => {
                    page.stop(Break::Paragraph);
                    in_code = true;
                }
                Tag::Item | Tag::TableRow | Tag::TableHead => page.stop(Break::Line),
                Tag::TableCell => page.stop(Break::Space),
                Tag::Paragraph | Tag::BlockQuote(_) | Tag::List(_) | Tag::Table(_) => {
                    page.stop(Break::Paragraph);
                }
                Tag::FootnoteDefinition(_) => page.stop(Break::Paragraph),
                _ => {}
            },
            Event::End(tag) => match tag {
                TagEnd::MetadataBlock(_) => in_front = false,
                TagEnd::Heading(_) => page.end_heading(),
                TagEnd::CodeBlock => {
                    page.stop(Break::Paragraph);
                    in_code = false;
                }
                TagEnd::HtmlBlock => {
                    page.stop(Break::Paragraph);
                    html::read(&std::mem::take(&mut markup), &mut page, &mut None);
                    page.stop(Break::Paragraph);
                }
                TagEnd::Item | TagEnd::TableRow => page.stop(Break::Line),
                TagEnd::Paragraph | TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Table => {
                    page.stop(Break::Paragraph);
                }
                _ => {}
            },
            Event::Text(text) if in_front => front.push_str(&text),
            Event::Text(text) if in_code => page.push_verbatim(&text),
            Event::Text(text) | Event::Code(text) => page.push(&text),
            Event::Html(text) => markup.push_str(&text),
            Event::InlineHtml(tag) => html::read(&tag, &mut page, &mut None),
            Event::SoftBreak => page.stop(Break::Space),
            Event::HardBreak => page.stop(Break::Line),
            Event::Rule => page.stop(Break::Paragraph),
            _ => {}
        }
    }
    page.finish(title_of(&front))
}

/// The title that front matter gives, in YAML or TOML, on one line.
fn title_of(front: &str) -> Option<String> {
    let value = |line: &str| {
        let rest = line.strip_prefix("title")?.trim_start().strip_prefix([':', '='])?.trim();
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
        let bare = quote.and_then(|quote| rest.strip_prefix(quote)?.strip_suffix(quote));
        Some(bare.unwrap_or(rest).to_owned())
    };
    front.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_title_and_text() {
        for (markdown, title, text) in [
            ("# Tea\n\nSteep *it* for\n`three` [minutes](x.md).\n", "Tea", "Steep it for three minutes."),
            ("Intro\n\n## Part\n\na\n\nTea\n===\n\nb", "Tea", "Intro\n\nPart\n\na\n\nb"),
            ("---\ntitle: \"Front\"\ntags: [a]\n---\n\n## Part\n\na", "Front", "Part\n\na"),
            ("+++\ntitle = 'Front'\n+++\na", "Front", "a"),
            ("---\nlayout: x\n---\n\n## Part\n\na", "Part", "a"),
            ("- a\n- b\n  - c\n\n1. d\n2. e", "", "a\nb\n\nc\n\nd\ne"),
            ("a\n\n```rust\nfn x() {\n    y\n}\n```\n\nb", "", "a\n\nfn x() {\n    y\n}\n\n\nb"),
            ("| a | b |\n|---|---|\n| 1 | 2 |\n", "", "a b\n1 2"),
            (
                "<div>\n<p>a &amp; b</p>\n<script>no</script>\n</div>\n\nc <b>d</b><br>e",
                "",
                "a & b\n\nc d\ne",
            ),
            ("<!-- no -->\n\na ![a cup](x.png)", "", "a a cup"),
            ("a  \nb\\\nc\n\n---\n\nd", "", "a\nb\nc\n\nd"),
            ("a[^1]\n\n[^1]: note", "", "a\n\nnote"),
            ("#", "", ""),
            ("", "", ""),
        ] {
            let expected = Page { title: title.to_owned(), text: text.to_owned() };
            assert_eq!(page(markdown), expected, "{markdown}");
        }
    }
}
