//! Small files of each format, with what a reader sees.

use super::Markup;

/// The title, the text, and the line and level of each heading of the outline with its text.
#[track_caller]
fn check(markup: Markup, file: &str, title: &str, text: &str, headings: &[(u32, u8, &str)]) {
    let page = markup.page(file).unwrap();
    assert_eq!((page.title.as_str(), page.text.as_str()), (title, text));
    assert!(page.outline.fits(&page.text));
    let parts = page.outline.parts().iter().filter(|part| part.is_heading());
    let line = |start: u32| page.text[start as usize..].lines().next().unwrap();
    let found: Vec<_> = parts.map(|part| (part.line, part.level, line(part.start))).collect();
    assert_eq!(found, headings);
}

/// The lines of the file on which blocks and other lines begin, by their words.
#[track_caller]
fn lines(markup: Markup, file: &str, words: &[(&str, u32)]) {
    let page = markup.page(file).unwrap();
    for &(word, line) in words {
        let at = page.text.find(word).unwrap_or_else(|| panic!("{word} in {}", page.text));
        assert_eq!(page.outline.line(&page.text, at), Some(line), "{word}");
    }
}

const RST: &str = "\
.. _tea:

===
Tea
===

:Author: Ada
:Status: draft

Steep *it* with ``hot  water``, as :ref:`said <how>` in `the book <https://x.org>`_
and :class:`~kitchen.Pot`, see Pot_. Then::

    pot = 1

      # kept *as it is*

Kinds
-----

- green
  tea
- black \\* tea

1. fill
2. pour

.. note:: Do not
   boil.

   Twice.

.. code-block:: python
   :linenos:

   def steep():
       pass

.. image:: pot.png
   :alt: a pot

.. a comment
   of two lines

.. function:: pour(cup, *more)

   Pours.

=====  =====
Kind   Time
=====  =====
green  2 min
=====  =====

Sub
~~~

term
    its *meaning*

Ends
----
";

#[test]
fn restructured_text_is_shown_without_its_marks() {
    let text = "Steep it with hot water, as said in the book and Pot, see Pot. Then:\n\n\
        pot = 1\n\n  # kept *as it is*\n\nKinds\n\ngreen tea\nblack * tea\n\n1. fill\n2. pour\n\n\
        Note\n\nDo not boil.\n\nTwice.\n\ndef steep():\n    pass\n\na pot\n\npour(cup, *more)\n\nPours.\n\n\
        Kind\tTime\ngreen\t2 min\n\nSub\n\nterm\nits meaning\n\nEnds";
    let headings = [(17, 2, "Kinds"), (54, 3, "Sub"), (60, 2, "Ends")];
    check(Markup::Rst, RST, "Tea", text, &headings);
    lines(Markup::Rst, RST, &[("said", 10), ("Pot,", 11), ("# kept", 15), ("black", 22), ("2. pour", 25)]);
    lines(Markup::Rst, RST, &[("Twice", 30), ("pass", 36), ("green\t2", 51), ("its", 58)]);
    let metadata = Markup::Rst.page(RST).unwrap().metadata;
    assert_eq!(serde_json::Value::Object(metadata), serde_json::json!({"author": "Ada", "status": "draft"}));
}

const ORG: &str = "\
#+TITLE: Tea
#+FILETAGS: :drink:hot:
# a comment
Steep /it/ with =hot *water*=, as [[https://x.org][said *here*]].

* Kinds :a:b:
:PROPERTIES:
:ID: 7
:END:
- green
  tea
- [ ] black
** More
| Kind | Time |
|------+------|
| oats | a/b/c |
#+BEGIN_SRC sh
  steep *it*

  ,* pour
#+END_SRC
#+CAPTION: A pot
[[file:pot.png]]
: as it is
#+BEGIN_QUOTE
Words.
#+END_QUOTE
";

#[test]
fn org_is_shown_without_its_marks() {
    let text = "Steep it with hot *water*, as said here.\n\nKinds\n\ngreen tea\nblack\n\nMore\n\nKind\tTime\noats\ta/b/c\n\n\
        steep *it*\n\n* pour\n\nA pot\n\nas it is\n\nWords.";
    check(Markup::Org, ORG, "Tea", text, &[(6, 1, "Kinds"), (13, 2, "More")]);
    lines(
        Markup::Org,
        ORG,
        &[("Steep", 4), ("tea", 11), ("black", 12), ("oats", 16), ("* pour", 20), ("Words", 26)],
    );
    let tags = Markup::Org.page(ORG).unwrap().metadata;
    assert_eq!(serde_json::Value::Object(tags), serde_json::json!({"tags": ["drink", "hot"]}));
}

const ASCIIDOC: &str = "\
= Tea
Ada <ada@x.org>
:toc:
:keywords: leaf

Steep *it* with `hot +water+`, as https://x.org[said _here_] and <<how,there>>.
See linkgit:git-add[1] or xref:pot.adoc[] or xref:a/b.adoc#lid[] or xref:a/cup.adoc[] or api:x.Tea[format=short,as=a].

== Kinds [[kinds]]

* green
** dark
-b::
--brown::
  Not `black`.

[source,ruby]
----
puts *1* # <1>

done
----
<1> prints

[NOTE]
====
Do not boil.
====

// unseen
.A title
|===
|Kind |Time

|green a|2 *min*
|===

  literal *text*

Sub-kinds
~~~~~~~~~
image::pot.png[a pot,100]

////
unseen
////
Last {url-x}[link^].
";

#[test]
fn asciidoc_is_shown_without_its_marks() {
    let text = "Steep it with hot +water+, as said here and there. See git-add or pot.adoc or lid or \
        cup.adoc or x.Tea.\n\nKinds\n\n\
        green\ndark\n-b\n--brown\nNot black.\n\nputs *1* # <1>\n\ndone\n\n<1> prints\n\nNote\n\nDo not boil.\n\n\
        A title\n\nKind\tTime\ngreen\t2 min\n\nliteral *text*\n\nSub-kinds\n\na pot\n\nLast link.";
    check(Markup::AsciiDoc, ASCIIDOC, "Tea", text, &[(9, 2, "Kinds"), (40, 3, "Sub-kinds")]);
    let words = [
        ("See", 7),
        ("dark", 12),
        ("Not", 15),
        ("done", 21),
        ("<1> prints", 23),
        ("green\t2", 35),
        ("Last", 47),
    ];
    lines(Markup::AsciiDoc, ASCIIDOC, &words);
    let metadata = Markup::AsciiDoc.page(ASCIIDOC).unwrap().metadata;
    let expected = serde_json::json!({"author": "Ada <ada@x.org>", "keywords": "leaf"});
    assert_eq!(serde_json::Value::Object(metadata), expected);
    let old = "Tea\n===\n\nKinds\n-----\n\nSub\n~~~\nx\n";
    check(Markup::AsciiDoc, old, "Tea", "Kinds\n\nSub\n\nx", &[(4, 2, "Kinds"), (7, 3, "Sub")]);
}

const MDX: &str = "\
---
title: Tea
---
import Pot from './pot'
import { Cup } from './cup'

export const kind = {
  name: 'green',
}

# Steep

<Tabs items={['a > b']}
  other=\"x\">
<Tab title=\"Hot water\">
Do `<Pot>` *it*. {/* unseen */} <Icon name=\"x\" /> Promise<void>
</Tab>
</Tabs>

```js
import <Kept />
```
";

#[test]
fn mdx_is_read_as_markdown_without_components() {
    let text = "Steep\n\nHot water\nDo <Pot> it. Promise<void>\n\nimport <Kept />";
    check(Markup::Mdx, MDX, "Tea", &text.replace("water\n", "water "), &[(11, 1, "Steep")]);
    lines(Markup::Mdx, MDX, &[("Do", 16), ("import", 21)]);
}

const NOTEBOOK: &str = r###"{
 "cells": [
  {
   "cell_type": "markdown",
   "metadata": {},
   "source": [
    "# Tea\n",
    "\n",
    "## Hot\n",
    "Steep *it*."
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 1,
   "outputs": [
    {"output_type": "stream", "name": "stdout", "text": ["2 cups\n"]},
    {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}},
    {"output_type": "execute_result", "data": {"text/html": "<b>3</b>", "text/plain": "\u001b[0;31m3\u001b[0m cups"}},
    {"output_type": "error", "ename": "Spill", "evalue": "too much", "traceback": ["\u001b[0;31mSpill"]}
   ],
   "source": [
    "pour(\n",
    "    2)"
   ]
  }
 ],
 "nbformat": 4
}"###;

#[test]
fn notebooks_have_texts_listings_and_outputs() {
    let text = "Hot\n\nSteep it.\n\npour(\n    2)\n\n2 cups\n\n3 cups\n\nSpill: too much";
    check(Markup::Notebook, NOTEBOOK, "Tea", text, &[(9, 2, "Hot")]);
    lines(Markup::Notebook, NOTEBOOK, &[("Steep", 10), ("pour", 23), ("2)", 24)]);
    let compact = r##"{"cells":[{"cell_type":"markdown","source":"# Tea\n\nx\ny"}]}"##;
    let page = Markup::Notebook.page(compact).unwrap();
    assert_eq!((page.title.as_str(), page.text.as_str(), page.outline.line("x y", 0)), ("Tea", "x y", None));
    let long = format!(
        r#"{{"cells":[{{"cell_type":"code","source":"","outputs":[{{"text":"{}"}}]}}]}}"#,
        "ab\\n".repeat(900)
    );
    assert_eq!(Markup::Notebook.page(&long).unwrap().text.len(), 998);
    for bad in ["", "[]", "{}", "{\"cells\": 1}", &"[".repeat(1_000)] {
        assert!(Markup::Notebook.page(bad).is_err(), "{bad}");
    }
    let null = "{\"cells\": [\n{\"cell_type\": \"markdown\", \"source\": null}]}";
    let message = Markup::Notebook.page(null).unwrap_err().1;
    assert_eq!(message, "the `source` in line 2 is neither a text nor a list of lines");
}

#[test]
fn subtitles_are_paragraphs_without_times() {
    let srt = "1\n00:00:01,000 --> 00:00:02,000\n<i>Tea &amp;</i>\nwater\n\n2\n00:00:02,500 --> 00:00:04,000\n\
        {\\an8}are hot: 1 < 2.\n\n3\n00:01:00,000 --> 00:01:02,000\nLater.\n";
    let text = "Tea & water are hot: 1 < 2.\n\nLater.";
    check(Markup::Subtitles, srt, "", text, &[]);
    lines(Markup::Subtitles, srt, &[("Tea", 3), ("water", 4), ("are", 8), ("Later", 12)]);
    let vtt = "WEBVTT\n\nNOTE unseen\n\n00:01.000 --> 00:02.000 align:start\n<v Ada>Tea?\n\n00:02.000 --> 00:03.000\n\
        <v Ada>Tea?\n<00:02.500><c>Hot.</c>\n\n00:03.000 --> 00:04.000\n<v.loud Bob>No.\n";
    check(Markup::Subtitles, vtt, "", "Ada: Tea? Hot.\n\nBob: No.", &[]);
}

const CODE: &str = "\
use std::fmt;

/// Steeps tea.
///
/// Twice.
#[derive(Debug)]
pub struct Pot<'a> {
    leaves: &'a str,
}
impl<'a> Pot<'a> {
    // Fills it.
    pub async fn fill(&self) -> bool {
        let full = self.pour(1);

        if full {
            return true;
        }
    }

    fn pour(&self, cups: u8) {}
}
";

#[test]
fn code_has_its_declarations_as_headings() {
    let headings = [
        (7, 1, "pub struct Pot<'a> {"),
        (10, 1, "impl<'a> Pot<'a> {"),
        (12, 2, "pub async fn fill(&self) -> bool {"),
        (20, 2, "fn pour(&self, cups: u8) {}"),
    ];
    check(Markup::Code, CODE, "", CODE.trim(), &headings);
    lines(Markup::Code, CODE, &[("use", 1), ("#[derive", 6), ("if full", 15)]);
    let above = |page: super::Page| {
        let parts = page.outline.parts().iter().filter(|part| part.level == crate::outline::Part::ABOVE);
        parts.map(|part| part.line).collect::<Vec<_>>()
    };
    assert_eq!(above(Markup::Code.page(CODE).unwrap()), [3, 11]);
    let declared = |file: &str| {
        let page = Markup::Code.page(file).unwrap();
        let parts = page.outline.parts().iter().filter(|part| part.is_heading());
        parts.map(|part| (part.line, part.level)).collect::<Vec<_>>()
    };
    let python = "\"\"\"Tea.\n\nclass of leaves (all)\n\"\"\"\n\n@cached\nclass Tea(Leaf):\n    def steep(self, *,\n              hot):\n        if hot: pass\n";
    assert_eq!(declared(python), [(7, 1), (8, 2)]);
    let c = "#include <a.h>\n/*\n * Adds (all).\n */\nstatic int\tadd(int a,\n\tint b)\n{\n\tif (a) {\n\t\treturn f(b);\n\t}\n}\n";
    assert_eq!(declared(c), [(5, 1)]);
    let java = "public class Tea {\n  private int cups = f(2);\n  public void pour(Cup cup) throws X {\n    for (;;) {\n    }\n  }\n}\n";
    assert_eq!(declared(java), [(1, 1), (3, 2)]);
    let script = "export default class Tea {\n  pour(cup) {\n    cup.fill(() => {\n    });\n  }\n}\nconst steep = async (x) => {\n};\nfill(() => {\n});\n";
    assert_eq!(declared(script), [(1, 1), (2, 2), (7, 1)]);
    assert_eq!(declared("CREATE TABLE tea (\n  id int\n);\nselect f(x) from tea;\n"), [(1, 1)]);
    assert_eq!(
        declared("module Tea\n  class Pot < Cup\n    def pour\n    end\n  end\nend\n"),
        [(1, 1), (2, 2), (3, 3)]
    );
    assert_eq!(
        declared("func (p *Pot) Pour(n int) error {\n\treturn nil\n}\ntype Pot struct {\n}\n"),
        [(1, 1), (4, 1)]
    );
}

#[test]
fn broken_files_are_read_in_time_and_their_outlines_fit() {
    let pieces = [
        "=",
        "*",
        "`",
        "_",
        "|",
        ":",
        "[",
        "<",
        "{",
        "#",
        "-",
        "(",
        "\\",
        "\n",
        "a\n=\n",
        "*a ",
        "`a ",
        " *a _b `c",
        "[[a",
        "[[a][b",
        "<<a",
        "a:b[",
        ":a:`",
        "#+begin_src\n",
        ":PROPERTIES:\n",
        "----\n",
        "|===\n|a",
        "<A {",
        "{/*",
        "-->\n",
        "<a",
        "/*\n",
        "// a\nfn a() {}\n",
        ".. a::\n",
        "== ==\n",
        "+-\n",
        "x::\n y\n",
        "1. a\n",
        "\u{a0}\n",
        "\u{e9}*",
        "{url}[",
    ];
    for piece in pieces {
        // Each is read in time only if no text is searched again for every mark.
        let text = piece.repeat((200 << 10) / piece.len());
        for markup in
            Markup::ALL.into_iter().filter(|markup| !matches!(markup, Markup::Markdown | Markup::Html))
        {
            let Ok(page) = markup.page(&text) else { continue };
            assert!(page.outline.fits(&page.text), "{piece:?}");
            assert!(page.text.len() <= 6 * text.len() + 16, "{piece:?}");
        }
    }
}

#[test]
fn org_with_letters_of_other_lengths_in_lower_case_and_drawers_without_an_end() {
    for keyword in ["#+\u{212a}: x", "#+\u{130}\u{130}\u{130} \u{20ac}"] {
        assert_eq!(Markup::Org.page(&format!("{keyword}\n\nA text.")).unwrap().text, "A text.");
    }
    let text = Markup::Org.page("* H\n:PROPERTIES:\n:ID: 1\n\nA text.\n\n* H2\nok").unwrap().text;
    assert!(text.contains("A text.") && !text.contains("ID"), "{text}");
}

#[test]
fn a_line_of_signs_takes_time_in_proportion() {
    let line = format!("1\n00:00:01,000 --> 00:00:02,000\n{}", "<".repeat(1 << 20));
    assert!(Markup::Subtitles.page(&line).unwrap().text.len() > 1_000_000);
}

#[test]
fn prose_of_mdx_that_begins_with_import_is_text() {
    let text = Markup::Mdx.page("import x from 'y'\n\nimport duties are high.\n").unwrap().text;
    assert_eq!(text, "import duties are high.");
}

#[test]
fn a_single_file_without_text_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.md");
    std::fs::write(&path, " \n").unwrap();
    let mut documents = super::Folder::of_file(&path).unwrap().documents();
    let message = documents.next().unwrap().unwrap_err().to_string();
    assert!(message.ends_with("empty.md: the file has no text, so there is nothing to store"), "{message}");
}
