//! Markdown: everything a reader sees in a file is in its document.

use serde_json::json;

use super::files::{document, documents};

/// pulldown-cmark#1000: a block between two rules is front matter only at the very start of a file.
#[test]
fn a_block_in_the_midst_of_a_file_is_text() {
    for (name, content, title, words) in [
        (
            "minutes.md",
            "# Minutes\n\nPresent: three people.\n\n---\nThe zeppelin budget was approved.\n---\n\nNext meeting in May.\n",
            "Minutes",
            "The zeppelin budget was approved.",
        ),
        (
            "slides.md",
            "---\nmarp: true\n---\n\n# Deck\n\nWelcome.\n\n---\n## Photosynthesis\n\nChlorophyll absorbs light.\n\n---\n\n## \
             Respiration\n\nMitochondria burn sugar.\n",
            "Deck",
            "Photosynthesis\n\nChlorophyll absorbs light.\n\nRespiration",
        ),
        (
            "changelog.md",
            "# Log\n\n---\ntitle: not a title of the page\nThe turbine exploded on Friday.\n---\nAfter it.\n",
            "Log",
            "title: not a title of the page The turbine exploded on Friday.",
        ),
        (
            "toml.md",
            "# Sums\n\n+++\nThe pelican counted twice.\n+++\n\nEnd.\n",
            "Sums",
            "The pelican counted twice.",
        ),
        (
            "quote.md",
            "# Q\n\n> ---\n> The walrus is in a quote.\n> ---\n\nEnd.\n",
            "Q",
            "The walrus is in a quote.",
        ),
    ] {
        let found = document(name, content);
        assert_eq!(found.title, title, "{name}");
        assert!(found.text.contains(words), "{name}: {}", found.text);
    }
}

/// dotnet-inspect#1647 and pandoc#8091: front matter is interpreted as a YAML parser does.
#[test]
fn front_matter_is_yaml() {
    for (content, title, text) in [
        (
            "---\ntitle: >-\n  Replacing the water pump\n  of a diesel engine\ndate: 2024-01-05\n---\nDrain the coolant first.\n",
            "Replacing the water pump of a diesel engine",
            "Drain the coolant first.",
        ),
        (
            "---\ntitle: |\n  Growing tomatoes indoors\n---\nUse a lamp.\n",
            "Growing tomatoes indoors",
            "Use a lamp.",
        ),
        ("---\ntitle: 'The sailor''s knot'\n---\nTie it twice.\n", "The sailor's knot", "Tie it twice."),
        ("---\r\ntitle: Windows note\r\n---\r\nBody of it.\r\n", "Windows note", "Body of it."),
        ("---\ntitle: \"A \\\"quoted\\\" \\u00fcber\"\n---\nText.", "A \"quoted\" über", "Text."),
        ("\u{feff}---\ntitle: Marked\n---\nText.", "Marked", "Text."),
        // Explicitly without a title, so the file name does not become one either.
        ("---\ntitle: null\n---\nA text with no title.\n", "", "A text with no title."),
        // A template that was never filled in.
        ("---\ntitle:\n---\nA text.\n", "name", "A text."),
    ] {
        let found = document("name.md", content);
        assert_eq!((&*found.title, &*found.text), (title, text), "{content}");
    }
    let found =
        document("a.md", "---\ndate: 2024-01-05\naliases: [Pump, Engine]\nnested: {a: 1}\n---\nText.");
    let metadata = found.metadata.unwrap();
    assert_eq!(metadata["date"], "2024-01-05");
    assert_eq!((&metadata["aliases"], &metadata["nested"]), (&json!(["Pump", "Engine"]), &json!({ "a": 1 })));
}

/// khoj#142 and mcpvault#30: the name of an untitled file is searchable.
#[test]
fn the_name_of_a_file_without_a_title_is_its_title() {
    let files = [
        ("Quarterly Roadmap Phoenix.md", "We ship in June. Hire two people.\n"),
        ("Yard.md", "- mow weekly\n- water at dawn\n"),
        ("sub/v1.2 notes.txt", "text"),
        ("titled.md", "# Kept\n\ntext"),
    ];
    let titles: Vec<String> = documents(&files).into_iter().map(|document| document.title).collect();
    assert_eq!(titles, ["Quarterly Roadmap Phoenix", "Yard", "v1.2 notes", "Kept"]);
    let paper = document(
        "paper.md",
        "---\ntitle: Kinematics of hummingbird wings\n---\n\n# Introduction\n\nBirds fly.\n\n# Results\n\nThey hover.\n",
    );
    assert_eq!(paper.title, "Kinematics of hummingbird wings");
    assert_eq!(paper.text, "Introduction\n\nBirds fly.\n\nResults\n\nThey hover.");
}

/// datatracker#11655: names in angle brackets that are not HTML elements stay text.
#[test]
fn unknown_names_in_angle_brackets_are_text() {
    for (content, text) in [
        (
            "The function returns Promise<void> or Map<String, Widget> and takes a <package-name> argument.\n",
            "The function returns Promise<void> or Map<String, Widget> and takes a <package-name> argument.",
        ),
        (
            "See draft <draft-ietf-foo-bar> for 2 < 3 and 3 > 1.\n",
            "See draft <draft-ietf-foo-bar> for 2 < 3 and 3 > 1.",
        ),
        ("Write to <jane.doe AT example DOT com>.\n", "Write to <jane.doe AT example DOT com>."),
        (
            "Read <https://example.org/manual> and mail <joe@example.org>.\n",
            "Read https://example.org/manual and mail joe@example.org.",
        ),
        (
            "<username> is replaced by your login name, and the walrus sleeps.\n\nMore text.\n",
            "<username> is replaced by your login name, and the walrus sleeps.\n\nMore text.",
        ),
        ("<file-name>\n\nis yours.\n", "<file-name>\n\nis yours."),
        (
            "<details>\n<summary>Pelican</summary>\n\nThe **hidden** answer is penguin.\n\n</details>\n",
            "Pelican\n\nThe hidden answer is penguin.",
        ),
    ] {
        assert_eq!(document("a.md", content).text, text);
    }
}

/// basic-memory#1451: a file that begins with a letterhead between two rules is an ordinary file.
#[test]
fn a_letterhead_is_text() {
    let letter = "---\n**OSTRICH LEGAL PLLC**\nCarmen Ostrich, Esq.\n---\n\nDear all.\n";
    let found = document("a.md", letter);
    for words in ["OSTRICH LEGAL PLLC", "Carmen Ostrich, Esq.", "Dear all."] {
        assert!(found.text.contains(words), "{}", found.text);
    }
    // If it is not a YAML error, it is Markdown.
    let found = document("a.md", "---\nThe zeppelin budget\n---\n\nwas approved.\n");
    assert_eq!((&*found.title, &*found.text), ("The zeppelin budget", "was approved."));
}

/// vault-cortex#485: words after the first dashes are neither front matter nor an error.
#[test]
fn a_first_line_with_more_than_dashes_is_text() {
    let found = document(
        "a.md",
        "--- start-multi-column: ExampleRegion1\n```column-settings\nn: 2\n```\n---\nAfter.\n",
    );
    assert!(found.text.starts_with("--- start-multi-column: ExampleRegion1"), "{}", found.text);
    assert!(found.text.ends_with("After."), "{}", found.text);
}

/// obsidiantools#3: a note with only front matter is a note.
#[test]
fn a_note_of_front_matter_alone_is_there() {
    let found = document("Fit.md", "---\naliases: [Product-Market fit]\n---\n\n\n");
    assert_eq!((&*found.title, &*found.text), ("Fit", ""));
    assert_eq!(found.metadata.unwrap()["aliases"], json!(["Product-Market fit"]));
}

/// pandoc#2945, js-yaml#674 and mcpvault#75: numbers with leading or trailing zeros, and times, stay as
/// written.
#[test]
fn no_digit_of_front_matter_is_lost() {
    let found =
        document("a.md", "---\nzip: 02134\nversion: 12.10\nstart: 10:00\nyear: 2024\nyes: no\n---\nText.");
    let metadata = found.metadata.unwrap();
    for (name, value) in [
        ("zip", json!("02134")),
        ("version", json!("12.10")),
        ("start", json!("10:00")),
        ("year", json!(2024)),
    ] {
        assert_eq!(metadata[name], value);
    }
    assert_eq!(metadata["yes"], "no");
}

/// pulldown-cmark#520 and redcarpet#555: cells beyond the last column of the head are kept.
#[test]
fn cells_behind_the_last_column_are_there() {
    let found = document("a.md", "| 1 | 2 |\n|---|---|\n| test | asdf | `1234` | *pelican* |\n| a |\n");
    assert_eq!(found.text, "1\t2\ntest\tasdf\t`1234`\t*pelican*\na");
}

/// obsidian-copy-as-html#39 and Hyper-Extract#87: a wikilink reads as its label, or else as its note's name.
#[test]
fn wikilinks_read_as_they_are_shown() {
    for (content, text) in [
        ("See [[Flintstone, Fredrick|Fred]].", "See Fred."),
        ("See [[Flintstone, Fredrick]].", "See Flintstone, Fredrick."),
        ("| who |\n|---|\n| [[Fredrick\\|Fred]] |\n", "who\nFred"),
        ("> [!quote] Of [[Fredrick|Fred]]\n> Yabba.", "Of Fred\n\nYabba."),
    ] {
        assert_eq!(document("a.md", content).text, text, "{content}");
    }
    let found = document("a.md", "See [[Array 0|Array[0]]].");
    assert!(found.text.contains("Array[0]"), "{}", found.text);
}
