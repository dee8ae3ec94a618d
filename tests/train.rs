//! The trainer on a tiny corpus, with the small DistilBERT of the fixtures.
#![cfg(feature = "train")]

mod support;

use std::ops::ControlFlow;

use ehi::data::BeirDataset;
use ehi::train::{
    Init, IntraLeaf, Method, Negatives, PAGE_FILE, REPORT_FILE, Recommendation, TrainConfig, TrainError,
    TrainReport, Trainer, TrainingSet,
};
use ehi::{Bundle, Error, Progress, Stage};
use tempfile::TempDir;

fn config() -> TrainConfig {
    let mut config = TrainConfig::default();
    config.branching_factor = 4;
    config.epochs = 2;
    config.batch_size = 8;
    config.max_document_tokens = 24;
    config.max_query_tokens = 16;
    config.pseudo_queries_per_step = 8;
    config.pseudo_pairs_per_pair = 0.5;
    config
}

struct Run {
    report: TrainReport,
    bundle: Bundle,
    _dir: TempDir,
}

fn train(config: TrainConfig) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("bundle");
    let set = training_set(&config);
    let report = Trainer::new(support::base_model(), config).fit_quietly(&set, &out).unwrap();
    Run { report, bundle: Bundle::open(&out).unwrap(), _dir: dir }
}

fn training_set(config: &TrainConfig) -> TrainingSet {
    TrainingSet::from_beir(&BeirDataset::open(support::dataset()).unwrap(), config.dev_fraction).unwrap()
}

#[test]
fn every_tensor_moves_and_the_losses_fall() {
    let mut config = config();
    config.epochs = 3;
    let run = train(config);
    let epochs = &run.report.epochs;
    assert_eq!(epochs.len(), 3);
    // The terms pull against each other on so small a corpus; these two have most to learn.
    assert!(epochs[2].siamese < epochs[0].siamese, "{epochs:?}");
    assert!(epochs[2].distillation < epochs[0].distillation, "{epochs:?}");
    // 16 tensors of the last layer, two of the only level.
    assert_eq!(run.report.moved.len(), 18);
    assert!(run.report.moved.iter().all(|m| m.relative_change > 0.0 && m.relative_change.is_finite()));
    assert!(run.report.moved.iter().any(|m| m.name == "encoder.layer.1.query.weight"));
    assert!(run.report.before.points.last().unwrap().visited_fraction > 0.999);
}

#[test]
fn a_run_depends_on_its_seed_alone() {
    let first = train(config()).bundle.hash();
    assert_eq!(first, train(config()).bundle.hash());
    let mut other = config();
    other.seed = 1;
    assert_ne!(first, train(other).bundle.hash());
}

#[test]
fn every_choice_trains() {
    for (height, init, negatives, intra_leaf, layers) in [
        (2, Init::KMeans, Negatives::Index, IntraLeaf::Product, 2),
        (3, Init::Random, Negatives::IndexSiamese, IntraLeaf::Triplet, 0),
        (1, Init::Random, Negatives::Index, IntraLeaf::Triplet, 1),
    ] {
        let mut config = config();
        config.branching_factor = 2;
        config.height = height;
        config.init = init;
        config.negatives = negatives;
        config.intra_leaf = intra_leaf;
        config.trainable_layers = layers;
        config.leaves_per_document = 2;
        config.refresh_interval = 1;
        let run = train(config);
        assert_eq!(run.report.moved.len(), 16 * layers + 2 * height as usize);
        let shape = run.bundle.model().indexer().shape();
        assert_eq!((shape.branching_factor(), shape.height()), (2, height));
        assert_eq!(run.bundle.leaves_per_document(), 2);
    }
}

/// A bundle is a base model for more training.
#[test]
fn a_bundle_is_a_base() {
    let first = train(config());
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.epochs = 1;
    let set = training_set(&config);
    Trainer::new(first.bundle.path(), config).fit_quietly(&set, &dir.path().join("second")).unwrap();
    let second = Bundle::open(dir.path().join("second")).unwrap();
    assert_ne!(first.bundle.hash(), second.hash());
}

#[test]
fn cancelling_at_any_stage_leaves_no_bundle() {
    for stage in [Stage::Trunk, Stage::Refresh, Stage::Initialise, Stage::Train] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("bundle");
        let mut config = config();
        config.branching_factor = 2;
        config.height = 2;
        let set = training_set(&config);
        let mut stop =
            |p: Progress| if p.stage == stage { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let result = Trainer::new(support::base_model(), config).fit(&set, &out, &mut stop, &mut |_| ());
        assert!(matches!(result, Err(Error::Cancelled)), "{stage:?}: {result:?}");
        assert!(!out.exists());
    }
}

#[test]
fn impossible_runs_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("bundle");
    let attempt = |change: &dyn Fn(&mut TrainConfig)| {
        let mut config = config();
        let set = training_set(&config);
        change(&mut config);
        let error = Trainer::new(support::base_model(), config).fit_quietly(&set, &out).unwrap_err();
        assert!(!out.exists());
        error
    };
    let too_many = attempt(&|c| c.branching_factor = 100_000);
    assert!(matches!(too_many, Error::Train(TrainError::TooFewDocuments { .. })), "{too_many}");
    let layers = attempt(&|c| c.trainable_layers = 3);
    assert!(matches!(layers, Error::Train(TrainError::Config { field: "trainable_layers", .. })), "{layers}");
    let epochs = attempt(&|c| c.epochs = 0);
    assert!(matches!(epochs, Error::Train(TrainError::Config { field: "epochs", .. })), "{epochs}");
    let margin = attempt(&|c| c.margin = f64::NAN);
    assert!(matches!(margin, Error::Train(TrainError::Config { field: "margin", .. })), "{margin}");
}

/// What a run says of itself must be in the bundle, readable, and agree with its own figures.
#[test]
fn a_run_ends_with_a_verdict_and_a_page() {
    let mut config = config();
    config.refresh_interval = 1;
    config.dev_fraction = 0.2;
    let run = train(config);
    let report = &run.report;
    let verdict = report.verdict.as_ref().unwrap();
    assert_eq!((verdict.documents, verdict.queries, verdict.leaves), (120, report.dev_queries, 4));
    // Fewer dev queries than a decision needs.
    assert_eq!(verdict.recommendation, Recommendation::CannotSay, "{}", verdict.sentence);
    let last = |method| verdict.method(method).unwrap().at.last().unwrap().figures.unwrap();
    assert_eq!(last(Method::BaseExact).recall_at_100, report.before.exact_recall_at_100);
    assert_eq!(last(Method::TrainedExact).recall_at_10, report.after.exact_recall_at_10);
    // All lists and all leaves are exact search.
    assert_eq!(last(Method::TrainedIvf).recall_at_100, last(Method::TrainedExact).recall_at_100);
    let tree = verdict.method(Method::TrainedTree).unwrap();
    for (point, figures) in tree.measured.iter().zip(&report.after.points) {
        assert_eq!((point.setting, point.visited_fraction), (figures.beam, figures.visited_fraction));
        assert_eq!(point.figures.recall_at_100, figures.recall_at_100);
        assert!(point.figures.work_fraction > point.visited_fraction);
    }
    // Before the first epoch, before the second, and at the end.
    assert_eq!(report.loads.iter().map(|load| load.epoch).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(report.loads[2].empty_leaves, report.after.empty_leaves);
    assert_eq!(report.leaf_sizes.documents.iter().sum::<usize>(), 120);
    assert_eq!(report.leaf_sizes.queries.iter().sum::<usize>(), report.train_queries + report.dev_queries);

    let json = std::fs::read_to_string(run.bundle.path().join(REPORT_FILE)).unwrap();
    let read: TrainReport = serde_json::from_str(&json).unwrap();
    assert_eq!(read.verdict.as_ref(), Some(verdict));
    let page = std::fs::read_to_string(run.bundle.path().join(PAGE_FILE)).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for outside in ["<script", "<link", "<img", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("Not drawn"));
    assert!(page.contains("Leaf 3"));
}

/// A title that looks like markup must not become markup in the page.
#[test]
fn the_page_escapes_what_users_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let beir = dir.path().join("beir");
    std::fs::create_dir_all(beir.join("qrels")).unwrap();
    let source = support::dataset();
    for name in ["queries.jsonl", "qrels/train.tsv"] {
        std::fs::copy(source.join(name), beir.join(name)).unwrap();
    }
    let mut documents = support::documents(support::DOCUMENTS);
    for document in &mut documents {
        document.title = "<script>alert('&')</script>".to_owned();
    }
    std::fs::write(beir.join("corpus.jsonl"), support::corpus_lines(&documents)).unwrap();
    let set = TrainingSet::from_beir(&BeirDataset::open(&beir).unwrap(), 0.0).unwrap();
    let mut config = config();
    config.epochs = 1;
    config.dev_fraction = 0.0;
    let out = dir.path().join("bundle");
    let report = Trainer::new(support::base_model(), config).fit_quietly(&set, &out).unwrap();
    assert_eq!(report.verdict.unwrap().recommendation, Recommendation::CannotSay);
    let page = std::fs::read_to_string(out.join(PAGE_FILE)).unwrap();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(&#39;&amp;&#39;)"));
}
