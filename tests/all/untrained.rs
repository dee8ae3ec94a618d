//! An index without a tree: useful before any training.

use std::fs;
use std::path::Path;

use crate::program::{ehi, text};
use crate::support::{
    DOCUMENTS, Shape, WIDTH, base_model, bundle, config, copy_directory, dataset, document, documents, id,
    in_f32,
};
use ehi::data::Dataset;
use ehi::eval::{EvalOptions, evaluate};
use ehi::learn::LearnOptions;
use ehi::model::{BUNDLE_FORMAT, ENCODER_FILE, INDEXER_FILE, MANIFEST_FILE, ModelError, Role};
use ehi::{Bundle, Document, Filter, Index, Judgment, SearchRequest, Similarity, no_progress};
use serde_json::Value;
use tempfile::TempDir;

const TRAINED: Shape = Shape { height: 2 };

fn untrained() -> Bundle {
    Bundle::from_encoder(base_model()).unwrap()
}

fn filled(count: usize) -> (TempDir, Index) {
    let dir = TempDir::new().unwrap();
    let index = Index::create(dir.path().join("index"), &untrained()).unwrap();
    index.insert_batch(documents(count)).unwrap();
    (dir, index)
}

/// The ids of the best documents by the encoder's own embeddings.
fn best(model: &Bundle, documents: &[Document], question: &str, k: usize) -> Vec<String> {
    let encoder = model.model().encoder().unwrap();
    let query = encoder.embed(&[question], Role::Query).unwrap();
    let texts: Vec<_> = documents.iter().map(Document::embedding_text).collect();
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let rows = encoder.embed(&texts, Role::Document).unwrap();
    let score = |row: &[f32]| row.iter().zip(&query).map(|(x, y)| x * y).sum::<f32>();
    let scored = rows.chunks_exact(encoder.dim()).zip(documents);
    let mut scored: Vec<_> = scored.map(|(row, document)| (score(row), document.id.clone())).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(k).map(|(_, id)| id).collect()
}

#[test]
fn it_is_useful_from_the_first_document_on() {
    let (dir, index) = filled(0);
    assert!(!index.bundle().has_tree());
    assert_eq!(index.search_with("tree leaf", &SearchRequest::dense()).unwrap().hits.len(), 0);
    for count in 1..=12 {
        index.insert(document(count - 1)).unwrap();
        let found = index.search_with("tree leaf", &SearchRequest::dense()).unwrap();
        assert_eq!(found.hits.len(), count.min(10));
        assert_eq!(index.search("tree leaf", 20, 8).unwrap().hits.len(), count);
    }
    // If the first ones are so similar that codes or f16 may change their order, the sets still agree on the
    // very best.
    for question in ["tree leaf level", "gene protein virus", "what how why"] {
        let expected = best(&index.bundle(), &documents(12), question, 1);
        let found = index.search_with(question, &SearchRequest::dense().k(1)).unwrap();
        assert_eq!(found.hits[0].id, expected[0], "{question}");
        assert!((found.stats.visited_fraction - 1.0).abs() < 1e-9);
        assert_eq!(found.stats.leaves_visited, 0);
    }
    assert!(index.verify().unwrap().is_sound());
    let copy = dir.path().join("copy");
    index.snapshot(&copy).unwrap();
    drop(index);
    for path in [copy, dir.path().join("index")] {
        let index = Index::open_or_create(&path, &untrained()).unwrap();
        assert_eq!(index.len(), 12);
        index.compact().unwrap();
        index.rebuild_postings().unwrap();
        assert!(index.verify().unwrap().is_sound());
        drop(index);
        let read_only = Index::open_read_only(&path).unwrap();
        assert_eq!(read_only.search_with("gene", &SearchRequest::dense().k(3)).unwrap().hits.len(), 3);
    }
}

#[test]
fn every_way_to_search_finds_the_same() {
    let (_dir, index) = filled(DOCUMENTS);
    index.flush().unwrap();
    let ids = |hits: &[ehi::Hit]| hits.iter().map(|hit| hit.id.clone()).collect::<Vec<_>>();
    let all = Filter::ne("nothing", 1);
    for question in ["tree leaf level", "gene protein virus"] {
        let exact = ids(&index.search_with(question, &SearchRequest::dense().exact()).unwrap().hits);
        assert_eq!(exact.len(), 10);
        let same = [
            index.search_with(question, &SearchRequest::dense().codes(false)),
            index.search_with(question, &SearchRequest::dense().beam(1).codes(false)),
            index.search_with(question, &SearchRequest::dense().filter(&all).codes(false)),
            index.search_with(question, &SearchRequest::dense().parallel().codes(false)),
            Ok(index.search_many(&[question], &SearchRequest::dense().codes(false)).unwrap().remove(0)),
        ];
        for found in same {
            assert_eq!(ids(&found.unwrap().hits), exact, "{question}");
        }
        // By default codes come first.
        let coded = index.search_with(question, &SearchRequest::dense().k(2)).unwrap();
        assert!(coded.stats.embeddings_read < DOCUMENTS, "{:?}", coded.stats);
        assert_eq!(
            index.search_with(question, &SearchRequest::dense().k(2).exact()).unwrap().stats.embeddings_read,
            DOCUMENTS
        );
        let explained = index.explain(question, &SearchRequest::dense(), true).unwrap();
        assert!(explained.leaves.is_empty() && explained.exact.unwrap().iter().all(|hit| hit.visited));
    }
    let health = index.health().unwrap();
    assert_eq!((health.leaves, health.documents, health.advice.len()), (1, DOCUMENTS, 0));
    assert_eq!(index.leaves(&Default::default()).unwrap().len(), 1);
    let stats = index.stats().unwrap();
    assert_eq!((stats.leaves, stats.branching_factor, stats.height), (1, 1, 1));
}

#[test]
fn every_similarity_and_embeddings_of_the_callers_own() {
    for similarity in [Similarity::Cosine, Similarity::DotProduct, Similarity::Manhattan] {
        let dir = TempDir::new().unwrap();
        let index = Index::builder().similarity(similarity).create(dir.path(), &untrained()).unwrap();
        let vector = |n: usize| (0..WIDTH).map(|i| ((i * 7 + n * 13) % 31) as f32 - 15.0).collect::<Vec<_>>();
        index.insert_vectors((0..50).map(|n| (document(n), vector(n)))).unwrap();
        let found = index.search_with(&vector(7), &SearchRequest::dense().k(3)).unwrap();
        assert_eq!(found.hits.len(), 3);
        if similarity != Similarity::DotProduct {
            assert_eq!(found.hits[0].id, id(7), "{similarity:?}");
        }
    }
}

#[test]
fn a_trained_model_takes_its_place_and_gives_it_back() {
    let (dir, index) = filled(DOCUMENTS);
    let change = index.reencode(&bundle(TRAINED)).unwrap();
    assert_eq!((change.from, change.encoded), (untrained().hash(), DOCUMENTS));
    assert!(index.bundle().has_tree());
    index.insert(document(DOCUMENTS)).unwrap();
    index.rollback().unwrap();
    assert!(!index.bundle().has_tree());
    assert_eq!(
        index.search_with("tree", &SearchRequest::dense().k(DOCUMENTS + 5)).unwrap().hits.len(),
        DOCUMENTS + 1
    );
    index.drop_previous_model().unwrap();
    // Trained from its own encoder, on its own documents.
    let pairs = (0..40).map(|n| Judgment::new(format!("tree leaf {n}"), id(n * 3), 1)).collect();
    let options = LearnOptions { pairs, config: config(TRAINED), accept: true };
    assert_eq!(index.learn(&options).unwrap().change.unwrap().from, untrained().hash());
    assert!(index.bundle().has_tree());
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    assert_eq!(index.len(), DOCUMENTS + 1);
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn it_is_evaluated_against_lists() {
    let dir = TempDir::new().unwrap();
    let index = Index::create(dir.path().join("index"), &untrained()).unwrap();
    let dataset = Dataset::open(dataset()).unwrap();
    let all: Vec<Document> = dataset.corpus().unwrap().map(Result::unwrap).collect();
    index.insert_batch(all).unwrap();
    let options = EvalOptions { baseline: Some(Vec::new()), ..EvalOptions::default() };
    let (report, _) = evaluate(&index, &dataset, "test", &options, &mut no_progress).unwrap();
    assert_eq!((report.leaves, report.points.len()), (1, 1));
    assert_eq!(report.ivf[0].lists, 4 * index.len().isqrt());
}

#[test]
fn the_model_is_that_of_the_encoder_alone() {
    let model = untrained();
    assert_eq!(model.hash(), untrained().hash());
    // From a bundle, the encoder without the tree and its report.
    let stripped = Bundle::from_encoder(bundle(TRAINED).path()).unwrap();
    assert!(!stripped.has_tree());
    assert_ne!(stripped.hash(), bundle(TRAINED).hash());
    assert_eq!(stripped.routing_profiles().unwrap(), None);
    let dir = TempDir::new().unwrap();
    let index = in_f32().create(dir.path().join("index"), &stripped).unwrap();
    let own = index.bundle().path().to_owned();
    assert!(!own.join(INDEXER_FILE).exists() && !own.join("training.json").exists());
    let text = ["a text"];
    let embed = |bundle: &Bundle| bundle.model().encoder().unwrap().embed(&text, Role::Document).unwrap();
    assert_eq!(embed(&index.bundle()), embed(&bundle(TRAINED)));
    // The weights are those of the folder, byte for byte.
    let index = Index::create(dir.path().join("plain"), &model).unwrap();
    let weights = |dir: &Path| fs::read(dir.join(ENCODER_FILE)).unwrap();
    assert!(weights(index.bundle().path()) == weights(base_model()));
    // The copy in the index is a bundle.
    let again = Bundle::open(index.bundle().path()).unwrap();
    assert_eq!(again.hash(), model.hash());
}

#[test]
fn folders_that_are_no_encoders_are_refused() {
    let dir = TempDir::new().unwrap();
    for missing in ["config.json", "tokenizer.json", ENCODER_FILE] {
        let own = dir.path().join(missing);
        copy_directory(base_model(), &own);
        fs::remove_file(own.join(missing)).unwrap();
        let error = Bundle::from_encoder(&own).unwrap_err();
        assert!(
            matches!(&error, ModelError::NotAModel { missing: found, .. } if *found == missing),
            "{error}"
        );
    }
    assert!(Bundle::from_encoder(dir.path().join("absent")).is_err());
    let error = Bundle::open(base_model()).unwrap_err();
    assert!(error.to_string().contains("Bundle::from_encoder"), "{error}");
    // A bundle that lost its list of checksums is invalid.
    let own = dir.path().join("unlisted");
    copy_directory(bundle(TRAINED).path(), &own);
    fs::remove_file(own.join(MANIFEST_FILE)).unwrap();
    let error = Bundle::from_encoder(&own).unwrap_err();
    assert!(matches!(&error, ModelError::NotAModel { missing: MANIFEST_FILE, .. }), "{error}");
    // If the weights are damaged, the folder is not written to, and the index is not started.
    let own = dir.path().join("damaged");
    copy_directory(base_model(), &own);
    let model = Bundle::from_encoder(&own).unwrap();
    fs::write(own.join("tokenizer.json"), b"{}").unwrap();
    let path = dir.path().join("index");
    assert!(Index::create(&path, &model).is_err());
    assert!(!path.exists());
}

#[test]
fn manifests_that_lie_about_the_tree_are_refused() {
    let dir = TempDir::new().unwrap();
    let index = Index::create(dir.path().join("index"), &untrained()).unwrap();
    let forge = |name: &str, change: &dyn Fn(&mut Value)| {
        let own = dir.path().join(name);
        copy_directory(index.bundle().path(), &own);
        let path = own.join(MANIFEST_FILE);
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut manifest);
        fs::write(path, manifest.to_string()).unwrap();
        own
    };
    Bundle::open(forge("same", &|_| {})).unwrap();
    let refused = [
        forge("leaves", &|manifest| manifest["branching_factor"] = 2.into()),
        forge("height", &|manifest| manifest["height"] = 2.into()),
        forge("newer", &|manifest| manifest["format_version"] = (BUNDLE_FORMAT + 1).into()),
    ];
    for own in refused {
        assert!(Bundle::open(&own).is_err(), "{}", own.display());
    }
    let own = forge("added", &|_| {});
    fs::copy(bundle(TRAINED).path().join(INDEXER_FILE), own.join(INDEXER_FILE)).unwrap();
    assert!(matches!(Bundle::open(&own), Err(ModelError::Checksum { .. })));
}

#[test]
fn the_program_makes_one_of_an_encoder() {
    let dir = TempDir::new().unwrap();
    let index = dir.path().join("index");
    let index = text(&index);
    let said = ehi(["create", "--index", index, "--model", text(base_model())]).ok();
    assert!(said.contains("no tree") && said.contains("128 dimensions"), "{said}");
    let corpus = dataset().join("corpus.jsonl");
    ehi(["insert", "--index", index, text(&corpus)]).ok();
    let said = ehi(["search", "--index", index, "--k", "3", "tree leaf"]).ok();
    let cost = format!("without the tree, {DOCUMENTS} of {DOCUMENTS} passages (100.0%)");
    assert!(said.contains(&cost), "{said}");
    assert!(ehi(["search", "--index", index, "--beam", "8", "tree leaf"]).ok().contains("1 of 1 leaves"));
    assert!(ehi(["stats", "--index", index]).ok().contains("tree           none"));
    assert!(ehi(["health", "--index", index]).ok().contains("tree           none"));
    assert!(ehi(["explain", "--index", index, "tree leaf"]).ok().contains("without the tree"));
    let said =
        ehi(["eval", "--index", index, "--data", text(dataset()), "--split", "test", "--baseline", "ivf"]);
    assert!(said.ok().contains("exact search"));
    let missing = dir.path().join("absent");
    let said = ehi(["create", "--index", &format!("{index}-2"), "--model", text(&missing)]);
    assert!(said.code == Some(1) && said.line().contains("does not exist"), "{}", said.err);
    // A trained bundle in its place.
    let said = ehi(["reencode", "--index", index, "--model", text(bundle(TRAINED).path())]).ok();
    assert!(said.contains(&format!("{DOCUMENTS} documents, {DOCUMENTS} of them encoded again")), "{said}");
}
