//! The spans of long calls: their names and fields, which contain no user text.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use crate::support::{DOCUMENTS, Shape, base_model, bundle, config, dataset, documents};
use ehi::data::Dataset;
use ehi::train::{Trainer, TrainingSet};
use ehi::{Document, Filter, Index, SearchRequest};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

const FLAT: Shape = Shape { height: 1 };

type Fields = BTreeMap<&'static str, String>;

/// A span with its name and fields.
type Span = (Id, &'static str, Fields);

/// Spans in the order of their start.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

struct Recorder<'a>(&'a mut Fields);

impl Visit for Recorder<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        // Other crates have spans too.
        if attributes.metadata().target().starts_with("ehi") {
            let mut fields = Fields::new();
            attributes.record(&mut Recorder(&mut fields));
            self.0.lock().unwrap().push((id.clone(), attributes.metadata().name(), fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        // Ids are reused.
        if let Some((_, _, fields)) = spans.iter_mut().rev().find(|(own, ..)| own == id) {
            values.record(&mut Recorder(fields));
        }
    }
}

/// The spans started by a call on this thread.
fn spans_of(call: impl FnOnce()) -> Vec<(&'static str, Fields)> {
    let spans = Spans::default();
    // With only one subscriber, a span that another thread starts first is disabled for good.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(spans.clone()), call);
    let found = std::mem::take(&mut *spans.0.lock().unwrap());
    found.into_iter().map(|(_, name, fields)| (name, fields)).collect()
}

fn fields(expected: &[(&'static str, &str)]) -> Fields {
    expected.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

#[test]
fn searches_and_writes_have_spans_with_numbers() {
    const SECRET: &str = "xylophone";
    let dir = tempfile::tempdir().unwrap();
    let index = Index::create(dir.path(), &bundle(FLAT)).unwrap();
    let filter = Filter::eq("secret", SECRET);
    let spans = spans_of(|| {
        index.insert_batch(documents(20)).unwrap();
        index.insert(Document::new(SECRET, SECRET, SECRET)).unwrap();
        let dim = index.bundle().model().dim();
        index.insert_vectors([(Document::new("vector", "", SECRET), vec![1.0; dim])]).unwrap();
        index.flush().unwrap();
        // There is nothing to flush.
        index.flush().unwrap();
        index.search(SECRET, 3, 2).unwrap();
        index.explain(SECRET, &SearchRequest::dense().k(4).exact().filter(&filter), false).unwrap();
        index.search_many(&[SECRET, "tree"], &SearchRequest::dense().k(5).beam(1)).unwrap();
        index.delete(SECRET).unwrap();
        index.compact().unwrap();
    });
    let search = |queries, k, beam: Option<&str>, filtered| {
        let mut all = fields(&[("queries", queries), ("k", k), ("filtered", filtered)]);
        all.extend(fields(&[("generation", "3"), ("documents", "22")]));
        all.extend(beam.map(|beam| ("beam", beam.to_owned())));
        ("search", all)
    };
    let expected = [
        ("insert", fields(&[("documents", "20"), ("generation", "1")])),
        ("insert", fields(&[("documents", "1"), ("generation", "2")])),
        ("insert", fields(&[("documents", "1"), ("generation", "3")])),
        ("flush", fields(&[("documents", "22"), ("generation", "3")])),
        search("1", "3", Some("2"), "false"),
        search("1", "4", None, "true"),
        search("2", "5", Some("1"), "false"),
        (
            "compaction",
            fields(&[("call", "\"compact\""), ("documents", "21"), ("generation", "4"), ("parts", "1")]),
        ),
    ];
    assert_eq!(spans, expected);
    assert!(!format!("{spans:?}").contains(SECRET));
}

#[test]
fn the_phases_of_a_training_have_spans() {
    let dir = tempfile::tempdir().unwrap();
    let (config, dataset) = (config(FLAT), Dataset::open(dataset()).unwrap());
    let set = TrainingSet::read(&dataset, config.dev_fraction).unwrap();
    let trainer = Trainer::builder().base(base_model()).output(dir.path().join("bundle")).config(config);
    let spans = spans_of(|| drop(trainer.fit(&set).unwrap()));
    let mut names: Vec<&str> = spans.iter().map(|(name, _)| *name).collect();
    names.dedup();
    let phases = ["train", "train_frozen", "train_joint", "train_refresh", "train_indexer", "train_verdict"];
    assert_eq!(names, phases);
    assert_eq!(spans[0].1, fields(&[("documents", &DOCUMENTS.to_string())]));
}
