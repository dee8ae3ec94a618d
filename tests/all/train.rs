//! The trainer on a tiny corpus, with the small DistilBERT of the fixtures.

use std::ops::ControlFlow;

use crate::support;
use ehi::data::Dataset;
use ehi::train::{
    CHECKPOINT_FILE, Decay, Fitted, Init, IntraLeaf, Method, Negatives, Precision, REPORT_FILE,
    Recommendation, Siamese, TrainConfig, TrainError, TrainEvent, TrainReport, Trainer, TrainingSet,
};
use ehi::{Bundle, Document, Error, Index, Judgment, Progress, Stage};
use tempfile::TempDir;

fn config() -> TrainConfig {
    let mut config = TrainConfig::default();
    config.tree.branching_factor = Some(4);
    config.schedule.epochs = 2;
    config.schedule.batch_size = 8;
    config.encoder.max_document_tokens = 24;
    config.encoder.max_query_tokens = 16;
    config.schedule.indexer_epochs = 2;
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
    let Fitted { report, bundle, .. } = trainer(config).output(&out).fit(&set).unwrap();
    Run { report, bundle, _dir: dir }
}

fn trainer<'a>(config: TrainConfig) -> Trainer<'a> {
    Trainer::builder().base(support::base_model()).config(config)
}

fn training_set(config: &TrainConfig) -> TrainingSet {
    TrainingSet::read(&Dataset::open(support::dataset()).unwrap(), config.dev_fraction).unwrap()
}

#[test]
fn every_tensor_moves_and_the_losses_fall() {
    let mut config = config();
    config.schedule.epochs = 3;
    let run = train(config);
    let epochs = &run.report.epochs;
    assert_eq!(epochs.len(), 3);
    // The loss terms conflict on such a small corpus; these two have most to learn.
    assert!(epochs[2].losses.siamese < epochs[0].losses.siamese, "{epochs:?}");
    assert!(epochs[2].losses.distillation < epochs[0].losses.distillation, "{epochs:?}");
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
    for (height, init, negatives, intra_leaf, layers, routing_dim, transform) in [
        (2, Init::KMeans, Negatives::Index, IntraLeaf::Product, 2, 0, true),
        (3, Init::Random, Negatives::IndexSiamese, IntraLeaf::Triplet, 0, 5, false),
        (1, Init::Random, Negatives::Exact, IntraLeaf::Triplet, 1, 0, false),
        (1, Init::KMeans, Negatives::ExactSiamese, IntraLeaf::Triplet, 1, 6, true),
    ] {
        let mut config = config();
        config.tree.branching_factor = Some(2);
        config.tree.height = height;
        config.tree.init = init;
        config.mining.negatives = negatives;
        config.losses.intra_leaf = intra_leaf;
        config.encoder.trainable_layers = layers;
        config.tree.routing_dim = Some(routing_dim);
        config.tree.transform = transform;
        config.losses.siamese = if height == 1 { Siamese::Contrastive } else { Siamese::Triplet };
        config.encoder.precision = if height == 2 { Precision::Tf32 } else { Precision::F32 };
        config.schedule.refresh_interval = 1;
        config.schedule.decay = Decay::Cosine;
        config.distillation.temperature = 0.1;
        config.distillation.texts = 100;
        let run = train(config);
        let per_level = if transform { 2 } else { 1 };
        let projection = usize::from(routing_dim > 0);
        assert_eq!(run.report.moved.len(), 16 * layers + per_level * height as usize + projection);
        let indexer = run.bundle.model().indexer();
        assert_eq!((indexer.shape().branching_factor(), indexer.shape().height()), (2, height));
        let dim = run.bundle.model().dim();
        assert_eq!(indexer.routing_dim(), if routing_dim > 0 { routing_dim } else { dim });
    }
}

/// The word, position and norm tables move too, and the bundle holds them.
#[test]
fn the_whole_encoder_trains() {
    let mut config = config();
    config.encoder.trainable_layers = 2;
    config.encoder.train_embeddings = true;
    config.schedule.epochs = 1;
    let run = train(config);
    assert_eq!(run.report.moved.len(), 4 + 16 * 2 + 2);
    let word = run.report.moved.iter().find(|m| m.name == "encoder.embeddings.word").unwrap();
    assert!(word.relative_change > 0.0);
}

#[test]
fn the_number_of_leaves_follows_the_corpus() {
    let mut config = config();
    config.tree.branching_factor = None;
    assert_eq!(config.shape(5183).unwrap().leaves(), 518);
    config.tree.height = 2;
    assert_eq!(config.shape(5183).unwrap().leaves(), 22 * 22);
    config.schedule.epochs = 0;
    config.tree.height = 1;
    let run = train(config);
    assert_eq!(run.report.config.tree.branching_factor, Some(run.report.documents as u32 / 10));
    assert!(run.report.epochs.is_empty());
}

/// A run that is stopped anywhere and resumed has the same bits as one without interruption.
#[test]
fn resuming_equals_a_straight_run() {
    let mut config = config();
    config.mining.negatives = Negatives::Index;
    config.schedule.epochs = 3;
    config.schedule.refresh_interval = 2;
    (config.encoder.max_document_tokens, config.encoder.max_query_tokens) = (12, 8);
    // The tree proper starts in the second phase.
    config.tree.coarse_leaves = Some(2);
    let mut total = 0;
    let set = training_set(&config);
    let dir = tempfile::tempdir().unwrap();
    let count = |event: &TrainEvent| total += u64::from(matches!(event, TrainEvent::Step { .. }));
    let straight =
        trainer(config.clone()).output(dir.path().join("bundle")).on_event(count).fit(&set).unwrap();
    // In the middle of an epoch, at the end of one followed by a refresh, and in the phase of the tree alone.
    for (stage, at) in [(Stage::Train, 2), (Stage::Train, total / 3 * 2), (Stage::TrainIndexer, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let (out, checkpoints) = (dir.path().join("bundle"), dir.path().join("checkpoints"));
        let stop = |p: Progress| match p.stage == stage && p.done >= at {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let run = || trainer(config.clone()).output(&out).checkpoints(&checkpoints, 2);
        assert!(matches!(run().on_progress(stop).fit(&set), Err(Error::Cancelled)), "{stage:?} {at}");
        assert!(checkpoints.join(CHECKPOINT_FILE).is_file());
        let mut resumed = false;
        let fitted = run()
            .resume(true)
            .on_event(|event| resumed |= matches!(event, TrainEvent::Resumed { .. }))
            .fit(&set)
            .unwrap();
        assert!(resumed);
        assert_eq!(fitted.bundle.hash(), straight.bundle.hash(), "{stage:?} {at}");
        let losses = |r: &TrainReport| r.epochs.iter().map(|e| e.losses.loss.to_bits()).collect::<Vec<_>>();
        assert_eq!(losses(&fitted.report), losses(&straight.report));
    }
}

#[test]
fn a_checkpoint_of_another_run_or_a_damaged_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = dir.path().join("checkpoints");
    let set = training_set(&config());
    let run = |config: TrainConfig| {
        trainer(config).output(dir.path().join("bundle")).checkpoints(&checkpoints, 1).resume(true)
    };
    let stop = |p: Progress| match p.stage == Stage::Train {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    assert!(matches!(run(config()).on_progress(stop).fit(&set), Err(Error::Cancelled)));
    let mut other = config();
    other.losses.margin = 0.2;
    let error = run(other).fit(&set).err().unwrap();
    assert!(matches!(error, Error::Train(TrainError::OtherRun { what: "options", .. })), "{error}");
    let path = checkpoints.join(CHECKPOINT_FILE);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&flipped[..], &whole[..whole.len() / 2], b"", b"no checkpoint"] {
        std::fs::write(&path, damaged).unwrap();
        let error = run(config()).fit(&set).err().unwrap();
        assert!(matches!(error, Error::Train(TrainError::Checkpoint { .. })), "{error}");
    }
    // The remains of an interrupted write of the next one are harmless.
    std::fs::write(&path, &whole).unwrap();
    std::fs::write(path.with_extension("safetensors.partial"), b"torn").unwrap();
    run(config()).fit(&set).unwrap();
}

/// A base whose weights are finite but overflow: the loss is NaN from the first step on.
#[test]
fn a_loss_that_is_no_number_names_the_step_and_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    std::fs::create_dir_all(base.join("1_Pooling")).unwrap();
    for name in
        ["config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json", "model.safetensors"]
    {
        std::fs::copy(support::base_model().join(name), base.join(name)).unwrap();
    }
    let path = base.join("model.safetensors");
    let device = candle_core::Device::Cpu;
    let mut tensors = candle_core::safetensors::load(&path, &device).unwrap();
    let name =
        tensors.keys().find(|name| name.ends_with("layer.1.output_layer_norm.weight")).unwrap().clone();
    let huge = candle_core::Tensor::full(3e38f32, tensors[&name].shape(), &device).unwrap();
    tensors.insert(name, huge);
    candle_core::safetensors::save(&tensors, &path).unwrap();

    let mut config = config();
    // k-means would refuse such rows before the first step.
    config.tree.init = Init::Random;
    let set = training_set(&config);
    let out = dir.path().join("bundle");
    let error = trainer(config).base(&base).output(&out).fit(&set).err().unwrap();
    assert!(error.to_string().contains("at step 0, in the batch of the queries"), "{error}");
    let Error::Train(TrainError::NonFiniteLoss { step, batch, .. }) = error else { panic!("{error}") };
    assert_eq!(step, 0);
    assert!(!batch.is_empty() && batch.len() <= 8, "{batch:?}");
    assert!(!out.exists());
}

#[test]
fn pairs_over_stored_documents_train() {
    let bundle = support::bundle(support::Shape::of_height(1));
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path().join("index"), &bundle).unwrap();
    let documents = support::documents(support::DOCUMENTS);
    index.insert_batch(documents.clone()).unwrap();
    let judgments = |documents: &[Document]| -> Vec<Judgment> {
        documents.iter().map(|d| Judgment::new(&d.title, &d.id, 1)).collect()
    };
    let stored = index.iter().map(Result::unwrap);
    let set = TrainingSet::from_judgments(stored, &judgments(&documents), 0.2).unwrap();
    let (train, dev) = set.queries();
    assert!(train > dev && dev > 0);
    let mut config = config();
    (config.schedule.epochs, config.encoder.trainable_layers) = (0, 0);
    let fitted = trainer(config).output(dir.path().join("bundle")).fit(&set).unwrap();
    assert_ne!(fitted.bundle.hash(), bundle.hash());

    let error =
        |judgments: &[Judgment]| TrainingSet::from_judgments(documents.clone(), judgments, 0.0).unwrap_err();
    let unknown = error(&[Judgment::new("a", "no such", 1)]);
    assert!(matches!(unknown, Error::Train(TrainError::Unknown { kind: "document", .. })), "{unknown}");
    let empty = error(&[Judgment::new(" ", &documents[0].id, 1)]);
    assert!(matches!(empty, Error::Train(TrainError::EmptyQuery { .. })), "{empty}");
    assert!(matches!(error(&[]), Error::Train(TrainError::NoPairs)));
    let twice = [documents[0].clone(), documents[0].clone()];
    let twice = TrainingSet::from_judgments(twice, &judgments(&documents), 0.0).unwrap_err();
    assert!(matches!(twice, Error::Train(TrainError::Duplicate { .. })), "{twice}");
    let alone =
        TrainingSet::from_judgments(documents[..1].to_vec(), &judgments(&documents[..1]), 0.0).unwrap();
    let error = trainer(support::config(support::Shape::of_height(1)))
        .output(dir.path().join("alone"))
        .fit(&alone)
        .err()
        .unwrap();
    assert!(matches!(error, Error::Train(TrainError::TooFewDocuments { documents: 1, .. })), "{error}");
}

/// A bundle can be the base model of further training.
#[test]
fn a_bundle_is_a_base() {
    let first = train(config());
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.schedule.epochs = 1;
    let set = training_set(&config);
    let again = trainer(config).base(first.bundle.path()).output(dir.path().join("second"));
    let second = again.fit(&set).unwrap().bundle;
    assert_ne!(first.bundle.hash(), second.hash());
}

#[test]
fn cancelling_at_any_stage_leaves_no_bundle() {
    for stage in [Stage::FrozenLayers, Stage::Refresh, Stage::Initialise, Stage::Train, Stage::TrainIndexer] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("bundle");
        let mut config = config();
        config.tree.branching_factor = Some(2);
        config.tree.height = 2;
        let set = training_set(&config);
        let stop =
            |p: Progress| if p.stage == stage { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let result = trainer(config).output(&out).on_progress(stop).fit(&set);
        assert!(matches!(result, Err(Error::Cancelled)), "{stage:?}");
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
        let error = trainer(config).output(&out).fit(&set).err().unwrap();
        assert!(!out.exists());
        error
    };
    let too_many = attempt(&|c| c.tree.branching_factor = Some(100_000));
    assert!(matches!(too_many, Error::Train(TrainError::TooFewDocuments { .. })), "{too_many}");
    let layers = attempt(&|c| c.encoder.trainable_layers = 3);
    assert!(
        matches!(layers, Error::Train(TrainError::Config { field: "encoder.trainable_layers", .. })),
        "{layers}"
    );
    let epochs = attempt(&|c| (c.schedule.epochs, c.schedule.indexer_epochs) = (0, 0));
    assert!(matches!(epochs, Error::Train(TrainError::Config { field: "schedule.epochs", .. })), "{epochs}");
    let margin = attempt(&|c| c.losses.margin = f64::NAN);
    assert!(matches!(margin, Error::Train(TrainError::Config { field: "losses.margin", .. })), "{margin}");
}

/// The report of a run must be in the bundle, readable, and consistent with its own figures.
#[test]
fn a_run_ends_with_a_verdict_and_a_page() {
    let mut config = config();
    config.schedule.refresh_interval = 1;
    config.dev_fraction = 0.2;
    let run = train(config);
    let report = &run.report;
    let verdict = &report.verdict;
    assert_eq!((verdict.documents, verdict.queries, verdict.leaves), (120, report.dev_queries, 4));
    // Fewer dev queries than a decision needs.
    assert_eq!(verdict.recommendation, Recommendation::CannotSay, "{}", verdict.sentence);
    let method = |method| verdict.methods.iter().find(|own| own.method == method).unwrap();
    let last = |of| method(of).at.last().unwrap().figures.unwrap();
    assert_eq!(last(Method::BaseExact).recall_at_100, report.before.exact.recall_at_100);
    assert_eq!(last(Method::TrainedExact).recall_at_10, report.after.exact.recall_at_10);
    // All lists and all leaves are exact search.
    assert_eq!(last(Method::TrainedIvf).recall_at_100, last(Method::TrainedExact).recall_at_100);
    let tree = method(Method::TrainedTree);
    for (point, own) in tree.measured.iter().zip(&report.after.points) {
        assert_eq!((point.setting, point.visited_fraction), (own.setting, own.visited_fraction));
        assert_eq!(point.figures.recall_at_100, own.figures.recall_at_100);
        assert!(point.figures.work_fraction > point.visited_fraction);
    }
    // Before the first epoch, before the second, before the tree is trained alone, and at the end.
    assert_eq!(report.loads.iter().map(|load| load.epoch).collect::<Vec<_>>(), [0, 1, 2, 4]);
    assert_eq!(report.loads[3].empty_leaves, report.after.load.empty_leaves);

    let json = std::fs::read_to_string(run.bundle.path().join(REPORT_FILE)).unwrap();
    let read: TrainReport = serde_json::from_str(&json).unwrap();
    assert_eq!(read.verdict, *verdict);
}
