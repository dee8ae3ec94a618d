//! Words as earlier versions found them: read as they are, said, and made anew.

use super::*;
use crate::SearchRequest;
use crate::index::active_model::ActiveModel;
use crate::lexical::{Analyzer, Kind, Language};
use crate::store::WriteBatch;

fn found(index: &Index, question: &str) -> (Vec<String>, bool) {
    let result = index.search_with(question, &SearchRequest::lexical()).unwrap();
    let said = result.notes.iter().any(|note| note.contains("`ehi compact --lexical`"));
    let mut ids: Vec<String> = result.into_iter().map(|hit| hit.id).collect();
    ids.sort();
    (ids, said)
}

/// Puts of documents, prepared for the lists that the index has now.
fn prepared(serving: &ActiveModel, documents: Vec<Document>) -> WriteBatch {
    WriteBatch { puts: serving.ingest().prepare(documents).unwrap().puts, deletes: Vec::new() }
}

#[test]
fn words_of_an_earlier_version_are_read_said_and_made_anew() {
    let bundles = Bundles::new();
    for analyzer in [Analyzer::Tokens, Analyzer::Stems(Language::English)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let builder = IndexBuilder::default().analyzer(analyzer).durability(Durability::OnFlush);
        let index = Index::create_on(unsynced(), &path, &bundles.a, &builder).unwrap();
        let earlier = Kind { analyzer, is_earlier: true };
        index.serving().store.make_lexical(earlier.code(), &mut || Ok(())).unwrap();
        index.insert(Document::new("a", "", "tree leaf \u{6a5f}\u{5668} \u{fb01}le")).unwrap();
        index.flush().unwrap();
        index.insert(Document::new("b", "", "tree \u{63a8}\u{8ad6}\u{6cd5} near")).unwrap();
        let as_before = |index: &Index| {
            assert!(index.stats().unwrap().earlier_words && index.analyzer() == Some(analyzer));
            assert_eq!(found(index, "tree"), (vec!["a".into(), "b".into()], true));
            assert_eq!(found(index, "tree +near"), (vec!["b".into()], true));
            assert_eq!(found(index, "tree \"tree leaf\""), (vec!["a".into()], true));
            // What the lists miss is missed, and said; signs hold for what they find.
            assert_eq!(found(index, "\u{8ad6}"), (vec![], true));
            assert_eq!(found(index, "tree +\u{8ad6}"), (vec!["b".into()], true));
            assert_eq!(found(index, "tree -\u{6a5f}"), (vec!["b".into()], true));
            assert!(index.verify().unwrap().is_sound());
        };
        as_before(&index);
        drop(index);
        let index = Index::open_on(unsynced(), &path, &builder).unwrap();
        as_before(&index);
        index.compact().unwrap();
        as_before(&index);
        // One whose terms were found before the lists are made anew, and that comes after.
        let late = prepared(&index.serving(), vec![Document::new("c", "", "tree \u{8ad6}")]);
        index.make_lexical(analyzer).unwrap();
        index.serving().store.commit(late).unwrap();
        let anew = |index: &Index| {
            assert!(!index.stats().unwrap().earlier_words);
            assert_eq!(found(index, "\u{8ad6}"), (vec!["b".into(), "c".into()], false));
            assert_eq!(found(index, "+\u{6a5f}\u{5668}"), (vec!["a".into()], false));
            assert_eq!(found(index, "+file"), (vec!["a".into()], false));
            assert!(index.verify().unwrap().is_sound());
        };
        anew(&index);
        index.flush().unwrap();
        anew(&index);
        // A model that was kept with lists of an earlier version gets these too.
        index.reencode(&bundles.b).unwrap();
        anew(&index);
        drop(index);
        let index = Index::open_on(unsynced(), &path, &builder).unwrap();
        index.rollback().unwrap();
        anew(&index);
    }
}

#[test]
fn a_model_that_was_kept_with_earlier_words_gets_those_of_the_index() {
    let bundles = Bundles::new();
    let dir = tempfile::tempdir().unwrap();
    let index = create(unsynced(), &dir.path().join("index"), &bundles.a).unwrap();
    index.insert(Document::new("b", "", "tree \u{63a8}\u{8ad6}\u{6cd5} near")).unwrap();
    let earlier = Kind { analyzer: Analyzer::Tokens, is_earlier: true };
    index.serving().store.make_lexical(earlier.code(), &mut || Ok(())).unwrap();
    index.reencode(&bundles.b).unwrap();
    assert_eq!(found(&index, "\u{8ad6}"), (vec!["b".into()], false));
    index.rollback().unwrap();
    assert_eq!(found(&index, "\u{8ad6}"), (vec!["b".into()], false));
    assert!(index.verify().unwrap().is_sound());
}
