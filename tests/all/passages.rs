//! Long documents: what is cut of them.

use std::fs;

use ehi::{Analyzer, Document, Index, Language};

use crate::program::{Flow, text};
use crate::support::{Shape, bundle, corpus_lines, documents};

/// Tokens of title and text that the fixture's encoder reads: 48 but for two special ones.
const READ: usize = 46;

fn of_words(id: &str, title: &str, words: usize) -> Document {
    Document::new(id, title, vec!["leaf"; words].join(" "))
}

#[test]
fn an_insert_says_which_texts_were_cut() {
    for analyzer in [Some(Analyzer::Tokens), Some(Analyzer::Stems(Language::English)), None] {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = Index::builder().lexical(analyzer.is_some());
        if let Some(analyzer) = analyzer {
            builder = builder.analyzer(analyzer);
        }
        let index = builder.create(dir.path().join("index"), &bundle(Shape::of_height(1))).unwrap();
        let whole = [of_words("a", "", READ), of_words("b", "leaf word", READ - 2), of_words("c", "x", 0)];
        let summary = index.insert_batch(whole).unwrap();
        assert_eq!(summary.cut, Default::default(), "{analyzer:?}");
        // A word that the vocabulary does not have is a token too.
        let unknown = Document::new("f", "", "\u{4e00} ".repeat(READ + 4));
        let cut = [of_words("d", "", READ + 1), of_words("e", "leaf word", 300), unknown];
        let summary = index.insert_batch(cut).unwrap().cut;
        assert_eq!((summary.documents, summary.longest), (3, 302), "{analyzer:?}");
        assert_eq!(summary.tokens, 47 + 302 + 50);
        assert_eq!(summary.tokens_cut, 1 + 302 - 46 + 4);
        // Two groups are counted together.
        let many = (0..300).map(|n| of_words(&format!("n{n}"), "", READ + 1));
        assert_eq!(index.insert_batch(many).unwrap().cut.documents, 300);
    }
}

#[test]
fn the_program_says_what_was_cut() {
    let flow = Flow::new();
    let file = flow.path("long.jsonl");
    let mut all = documents(3);
    fs::write(&file, corpus_lines(&all)).unwrap();
    assert_eq!(flow.run("insert", &[text(&file)]).ok().lines().count(), 1);
    all.extend([of_words("d", "", 92), of_words("e", "", 92)]);
    fs::write(&file, corpus_lines(&all)).unwrap();
    let said = flow.run("insert", &[text(&file)]).ok();
    let last = said.lines().last().unwrap();
    let says = "2 texts were cut at the 48 tokens that the model reads: 50 % of their tokens are not in \
                their embeddings, and the longest has 92";
    assert_eq!(last, says);
}
