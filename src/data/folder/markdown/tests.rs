use serde_json::json;

use super::*;
use crate::data::folder::Markup;
use crate::outline::{Outline, Part};

#[test]
fn a_file_is_its_title_and_text() {
    for (markdown, title, text) in [
        ("# Tea\n\nSteep *it* for\n`three` [minutes](x.md).\n", "Tea", "Steep it for three minutes."),
        ("Intro\n\n## Part\n\na\n\nTea\n===\n\nb", "Tea", "Intro\n\nPart\n\na\n\nb"),
        ("- a\n- b\n  - c\n\n1. d\n2. e", "", "a\nb\n\nc\n\n1. d\n2. e"),
        ("a\n\n```rust\nfn x() {\n    y\n}\n```\n\nb", "", "a\n\nfn x() {\n    y\n}\n\n\nb"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", "", "a\tb\n1\t2"),
        ("| a |\n|---|\n| 1 | 2 | `3` |\n\n4", "", "a\n1\t2\t`3`\n\n4"),
        ("<div>\n<p>a &amp; b</p>\n<script>no</script>\n</div>\n\nc <b>d</b><br>e", "", "a & b\n\nc d\ne"),
        ("<!-- no -->\n\na ![a cup](x.png)", "", "a a cup"),
        ("a  \nb\\\nc\n\n---\n\nd", "", "a\nb\nc\n\nd"),
        ("a[^1]\n\n[^1]: note", "", "a\n\nnote"),
        ("---\n\n# A\n\n---\n\nb: c\n\n---\n", "A", "b: c"),
        ("a\n\n+++\nb\n+++\n\n---\ntitle: c\n---\n", "title: c", "a\n\n+++ b +++"),
        ("3. a\n\n   b\n\n1. c\n   - d\n4. # E\n5.\n\nf", "E", "3. a\n\nb\n\n4. c\n\nd\n\n5.\n\n6. f"),
        ("#", "", ""),
        ("# For the<br />era\n\n## Two<br>lines\nb", "For the era", "Two lines\n\nb"),
        ("", "", ""),
    ] {
        let expected = Page { title: title.to_owned(), text: text.to_owned(), ..Page::default() };
        let Page { outline, .. } = page(markdown);
        assert!(outline.fits(text), "{markdown}");
        assert_eq!(Page { outline: Outline::default(), ..page(markdown) }, expected, "{markdown}");
    }
}

#[test]
fn headings_blocks_and_lines_are_where_they_are_in_the_file() {
    let markdown = "---\ntitle: Guide\n---\n\nIt is\nabout tea.\n\n## Steep\n\n- green\n- black\n\n\
                    ```sh\nboil\n\npour\n```\n\n### Long\n> [!tip]\n> Ten minutes.\n";
    let Page { text, outline, .. } = page(markdown);
    let parts = outline.parts().iter().map(|part| {
        let rest = &text[part.start as usize..];
        (part.line, part.level, rest.split(['\n', ' ']).next().unwrap())
    });
    let expected = [
        (5, 0, "It"),
        (6, Part::LINE, "about"),
        (8, 2, "Steep"),
        (10, 0, "green"),
        (14, 0, "boil"),
        (19, 3, "Long"),
        (20, 0, "Tip"),
        (21, 0, "Ten"),
    ];
    let line = |part: &str| outline.line(&text, text.find(part).unwrap());
    assert_eq!((line("black"), line("pour")), (Some(11), Some(16)));
    assert_eq!(parts.collect::<Vec<_>>(), expected, "{text}");
    // A heading that is the title is not in the text.
    let Page { text, outline, .. } = page("Intro\n\n## Part\n\na\n\nTea\n===\n\nb\nc");
    assert_eq!(text, "Intro\n\nPart\n\na\n\nb c");
    let parts: Vec<_> = outline.parts().iter().map(|part| (part.start, part.line, part.level)).collect();
    assert_eq!(parts, [(0, 1, 0), (7, 3, 2), (13, 5, 0), (16, 10, 0), (18, 11, Part::LINE)]);
}

#[test]
fn what_is_not_quite_front_matter_is_named() {
    let late = page("\n  \n---\ndate: 2024-03-02\n---\n\na");
    assert!(late.note.is_some_and(|note| note.ends_with("because it does not begin on the first line")));
    assert!(page("\n---\n\na\n\n---\n").note.is_none());
    // Line endings of classic Mac OS.
    let old = "---\rtitle: Tea\ryear: 1\r---\r\ra\r\rb\r";
    let old = crate::data::folder::Markup::Markdown.page(old).unwrap();
    assert_eq!((&*old.title, &*old.text, &old.metadata["year"]), ("Tea", "a\n\nb", &json!(1)));
}

#[test]
fn front_matter_is_metadata() {
    for (markdown, title, text, metadata) in [
        (
            "---\ntitle: \"Front\"\ntags: [a]\n---\n\n## Part\n\na",
            "Front",
            "Part\n\na",
            json!({ "tags": ["a"] }),
        ),
        ("+++\ntitle = 'Front'\n+++\na", "Front", "a", json!({})),
        ("---\nlayout: x\n---\n\n## Part\n\na", "Part", "a", json!({ "layout": "x" })),
        ("---\ntitle: A b\n---\n# C\n\nd", "A b", "C\n\nd", json!({})),
        ("---\ntitle: 2024\n---\na", "2024", "a", json!({})),
        ("---\ntags: 'recipe, #soup,'\n---\na", "", "a", json!({ "tags": ["recipe", "soup"] })),
        ("---\ntags: [\"#a\", b]\n---\na", "", "a", json!({ "tags": ["a", "b"] })),
        ("---\ntags: a b\n---\na", "", "a", json!({ "tags": "a b" })),
        ("---\ntitle: [A]\n---\n# B\n", "B", "", json!({ "title": ["A"] })),
        ("---\ntitle: \"\"\n---\n# B\n", "B", "", json!({})),
    ] {
        let found = page(markdown);
        assert_eq!((found.title, found.text), (title.to_owned(), text.to_owned()), "{markdown}");
        assert_eq!(Value::Object(found.metadata), metadata, "{markdown}");
    }
    let found = page("---\ntitle: Tea: a guide\nby: *me\n---\n# Body\n\na");
    assert_eq!((&*found.title, &*found.text), ("Body", "title: Tea: a guide\nby: *me\n\na"));
    let mistake =
        "line 2: mapping values are not allowed in this context; put a value with a colon in quotes";
    assert!(found.note.unwrap().ends_with(&format!("because it cannot be parsed: {mistake}")));
}

#[test]
fn what_obsidian_writes_reads_as_it_is_shown() {
    for (markdown, text) in [
        (
            "See [[Note|the words]], [[Other note]] and [[Part#Head]].",
            "See the words, Other note and Part#Head.",
        ),
        ("if [[ -f x | -g y ]]; then", "if [[ -f x | -g y ]]; then"),
        (
            "a ![[photo of a heron.png|100x200]] b ![[chart.png|The chart]]",
            "a photo of a heron.png b chart.png The chart",
        ),
        ("![[Whole note]]", "Whole note"),
        ("> [!note]\n> a", "Note\n\na"),
        ("> [!WARNING]\n> a", "Warning\n\na"),
        ("> [!tip]- Of *use*\n> a", "Of use\n\na"),
        ("> [!a|b] c\n> > [!d-e]\n> > f", "c\n\nD-e\n\nf"),
        ("> [!](x) a", "! a"),
        ("Write <name> to Promise<Widget>.", "Write <name> to Promise<Widget>."),
    ] {
        assert_eq!(page(markdown).text, text, "{markdown}");
    }
}

#[test]
fn marks_within_one_another_take_time_in_proportion() {
    for piece in [
        ">",
        "> ",
        "- ",
        "1. ",
        "> - ",
        "* > ",
        "[",
        "![",
        "![[a|",
        "**a ",
        "<b>",
        "[^a]: ",
        "|a",
        "> [!tip] ",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        for text in [format!("{text}words"), format!("{text}\n\n\nwords\n> a\n").repeat(2)] {
            for markup in [Markup::Markdown, Markup::Mdx] {
                let started = std::time::Instant::now();
                assert!(markup.page(&text).unwrap().text.contains("words"), "{piece}");
                assert!(started.elapsed().as_secs() < 10, "{piece}");
            }
        }
    }
}
