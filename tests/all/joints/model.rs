//! What an index must contain and answer after a sequence of calls.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ehi::calibrate::RecallCurve;
use ehi::model::{DistilReport, Role};
use ehi::search::DEFAULT_ALPHA;
use ehi::{Bundle, Document, Fused, Judgment, LearnedFusion, QueryEncoder};
use serde_json::{Value, json};

use super::acting::Outcome;
use super::operations::{Op, Origin};
use super::world::{Coder, World, document, half_life, id, judgments, silent, time, unit, vector};

/// A document with its embedding, if that differs from the encoder's.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub document: Document,
    pub given: Option<Vec<f32>>,
    /// An interrupted call may have encoded it.
    pub unsure: bool,
}

impl Row {
    fn new(document: Document, given: Option<Vec<f32>>) -> Self {
        Self { document, given, unsure: false }
    }

    fn has_text(&self) -> bool {
        !self.document.title.is_empty() || !self.document.text.is_empty()
    }
}

/// A model of an index with its rows and measurements.
#[derive(Clone)]
pub struct Slot {
    pub bundle: Arc<Bundle>,
    pub coder: Arc<Coder>,
    pub rows: BTreeMap<String, Row>,
    pub curve: Option<RecallCurve>,
    pub fast: Option<DistilReport>,
    /// The file of the query encoder.
    file: Option<String>,
    /// What was learned about words, and the file of the query encoder that its `fast` part belongs to.
    learned: Option<(LearnedFusion, Option<String>)>,
}

/// By which factor a collection may grow or shrink before a curve does not apply any more.
const MOST_CHANGE: usize = 2;

impl Slot {
    /// `[dim]`, of unit norm.
    pub fn embedding(&self, row: &Row) -> Arc<Vec<f32>> {
        match &row.given {
            Some(given) => Arc::new(unit(given)),
            None => self.coder.embed(&row.document.embedding_text(), Role::Document),
        }
    }

    /// What is known about words; for the query encoder only if it was learned for the current one.
    pub fn fusion(&self) -> Option<LearnedFusion> {
        let (mut fusion, file) = self.learned.clone()?;
        if file != self.file {
            fusion.fast = None;
        }
        Some(fusion)
    }

    /// Takes over what was learned about words and judgments.
    pub fn learn(&mut self, fusion: LearnedFusion) {
        self.learned = Some((fusion, self.file.clone()));
    }

    /// The weight of embeddings in a hybrid search, and whether words help.
    pub fn weight(&self, encoder: QueryEncoder) -> (f64, bool) {
        let Some(full) = self.fusion() else { return (DEFAULT_ALPHA, true) };
        let own = match encoder {
            QueryEncoder::Fast => full.fast.as_deref().unwrap_or(&full),
            _ => &full,
        };
        (own.alpha, own.words_help)
    }

    /// The curve that searches use.
    pub fn curve_in_use(&self) -> Option<RecallCurve> {
        let curve = self.curve.clone()?;
        let (then, now) = (curve.documents, self.rows.len());
        (now <= then * MOST_CHANGE && now * MOST_CHANGE >= then).then_some(curve)
    }

    fn put(&mut self, document: Document, given: Option<Vec<f32>>) {
        self.rows.insert(document.id.clone(), Row::new(document, given));
    }
}

/// Whether a call must succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Done,
    Refused,
    /// It may have too few documents, or nothing to do.
    Either,
}

/// An index.
#[derive(Clone)]
pub struct Model {
    pub origin: Origin,
    /// Whether it has words.
    pub lexical: bool,
    pub serving: Slot,
    pub kept: Option<Slot>,
    /// By question and document.
    pub judgments: BTreeMap<(String, String), Judgment>,
    pub half_life: Option<Duration>,
    /// The question judged last.
    pub last: Option<String>,
}

impl Model {
    /// An origin.
    pub fn new(origin: Origin, bundle: Arc<Bundle>, documents: impl Iterator<Item = Document>) -> Self {
        let coder = Arc::new(Coder::new(Arc::clone(&bundle)));
        let rows = BTreeMap::new();
        let (curve, fast, file, learned) = (None, None, None, None);
        let mut serving = Slot { bundle, coder, rows, curve, fast, file, learned };
        documents.for_each(|document| serving.put(document, None));
        let (lexical, judgments, half_life) = (origin != Origin::Bare, BTreeMap::new(), None);
        Self { origin, lexical, serving, kept: None, judgments, half_life, last: None }
    }

    /// A copy of it.
    pub fn snapshot(&self) -> Self {
        Self { kept: None, ..self.clone() }
    }

    /// Whether documents must be encoded for another model but cannot be.
    fn lacks_texts(&self, bundle: &Bundle, rows: Option<&BTreeMap<String, Row>>) -> bool {
        let has = |row: &Row| {
            let there = rows.and_then(|rows| rows.get(&row.document.id));
            there.is_some_and(|there| there.document == row.document)
        };
        !bundle.has_encoder_of(&self.serving.bundle)
            && self.serving.rows.values().any(|row| !row.has_text() && !has(row))
    }

    fn returning(&self) -> Expected {
        match &self.kept {
            Some(kept) if !self.lacks_texts(&kept.bundle, Some(&kept.rows)) => Expected::Done,
            _ => Expected::Refused,
        }
    }

    pub fn expected(&self, op: &Op, world: &World) -> Expected {
        let is_table =
            self.serving.coder.bundle.model().encoder().unwrap().describe().is_ok_and(|own| own.layers == 0);
        match *op {
            Op::Rollback => self.returning(),
            Op::Reencode(which) => {
                let bundle = world.bundle(which);
                if bundle.hash() == self.serving.bundle.hash() {
                    return Expected::Refused;
                }
                if self.kept.as_ref().is_some_and(|kept| kept.bundle.hash() == bundle.hash()) {
                    return self.returning();
                }
                if self.lacks_texts(&bundle, None) { Expected::Refused } else { Expected::Done }
            }
            Op::Fuse { .. } if !self.lexical => Expected::Refused,
            // It has another analyzer.
            Op::Lexical if self.origin == Origin::Stems => Expected::Refused,
            Op::Calibrate if self.serving.bundle.has_tree() && self.serving.rows.len() > 1 => Expected::Done,
            Op::Calibrate => Expected::Refused,
            Op::Distil(0) => Expected::Done,
            Op::Distil(_) if is_table => Expected::Refused,
            Op::Distil(_) | Op::Tune { .. } | Op::Learn { .. } => Expected::Either,
            _ => Expected::Done,
        }
    }

    /// Applies a call with the result `outcome`, after which `now` is in service.
    pub fn apply(
        &mut self,
        op: &Op,
        outcome: Outcome,
        now: &Arc<Bundle>,
        world: &World,
    ) -> Result<(), String> {
        let dim = self.serving.coder.dim();
        match *op {
            Op::Insert { ref places, version } => {
                places.iter().for_each(|&place| self.serving.put(document(place, version), None));
            }
            Op::Vectors { ref places, seed, text } => {
                for &place in places {
                    let document = if text { document(place, seed % 3) } else { silent(place) };
                    self.serving.put(document, Some(vector(place, seed, dim)));
                }
            }
            Op::Update { place, version, text } => {
                let Some(row) = self.serving.rows.get_mut(&id(place)) else { return Ok(()) };
                row.document.metadata = Some(json!({ "version": version, "updated": [version] }));
                let Document { title, text: own, .. } = document(place, version);
                if text && (&title, &own) != (&row.document.title, &row.document.text) {
                    (row.document.title, row.document.text) = (title, own);
                    *row = Row::new(row.document.clone(), None);
                }
            }
            Op::Delete(ref places) => {
                places.iter().for_each(|&place| drop(self.serving.rows.remove(&id(place))));
            }
            Op::Judge(told) => {
                for judgment in judgments(told) {
                    self.last = Some(judgment.question.clone());
                    self.judgments.insert((judgment.question.clone(), judgment.id.clone()), judgment);
                }
            }
            Op::Forget(told) => {
                for judgment in judgments(told) {
                    self.judgments.remove(&(judgment.question, judgment.id));
                }
            }
            Op::ForgetBefore(month) => self.judgments.retain(|_, judgment| judgment.time >= time(month)),
            Op::HalfLife(months) => self.half_life = half_life(months),
            Op::Distil(seed) => {
                self.serving.fast = outcome.fast.filter(|_| seed > 0);
                self.serving.file = query_file(now).filter(|_| seed > 0);
            }
            Op::Calibrate => self.serving.curve = outcome.curve,
            Op::Tune { .. } if outcome.changed => {
                if !now.has_encoder_of(&self.serving.bundle) {
                    return Err("a tree of its own came with another encoder".to_owned());
                }
                let mut target = self.successor(now);
                // Belongs to the encoder, not to the tree.
                target.fast = self.serving.fast.clone().map(untreed);
                target.file.clone_from(&self.serving.file);
                let target = self.kept_or(now, target);
                self.change_to(target);
            }
            Op::Learn { query_encoder, .. } if outcome.changed => {
                if now.has_encoder_of(&self.serving.bundle) {
                    return Err("a learning left the encoder as it was".to_owned());
                }
                if self.lacks_texts(now, None) {
                    return Err("a learning encoded documents without texts".to_owned());
                }
                let mut target = self.successor(now);
                target.fast = now.query_encoder();
                if target.fast.is_some() && !query_encoder {
                    return Err("a query encoder that nobody asked for".to_owned());
                }
                let mut target = self.kept_or(now, target);
                if let Some(fusion) = outcome.fusion {
                    target.learn(fusion);
                }
                self.change_to(target);
            }
            Op::Fuse { .. } | Op::Learn { .. } => {
                // After another process, nothing else shows whether it had enough questions.
                if let Some(fusion) = outcome.fusion.filter(|own| Some(own) != self.serving.fusion().as_ref())
                {
                    self.serving.learn(fusion);
                }
            }
            Op::Reencode(which) if !self.is_kept(now) => {
                let bundle = world.bundle(which);
                let mut target = self.successor(&Arc::new(bundle));
                target.bundle = Arc::clone(now);
                self.change_to(target);
            }
            Op::Rollback | Op::Reencode(_) => {
                let kept = self.kept.take().ok_or("a return to nothing")?;
                self.change_to(kept);
            }
            Op::DropPrevious => self.kept = None,
            Op::Lexical => self.lexical = true,
            Op::Tune { .. } | Op::Compact | Op::Rebuild | Op::Flush => {}
        }
        if let Some(change) = outcome.change
            && change.documents != self.serving.rows.len()
        {
            return Err(format!("{change:?}, of {} documents", self.serving.rows.len()));
        }
        Ok(())
    }

    /// The index learned by itself.
    pub fn fitted(&mut self, fit: Option<Fused>) {
        fit.and_then(|fit| fit.fusion).into_iter().for_each(|fusion| self.serving.learn(fusion));
    }

    /// A return to the kept model was interrupted: missing documents may have been added to it.
    pub fn return_cut_off(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        for (id, row) in &mut kept.rows {
            let is_same = self.serving.rows.get(id).is_some_and(|own| own.document == row.document);
            row.unsure |= !is_same && row.given.is_some();
        }
    }

    /// A repeated training gives exactly the kept model, which is then returned to.
    fn kept_or(&mut self, now: &Bundle, new: Slot) -> Slot {
        let is_kept = self.is_kept(now);
        self.kept.take().filter(|_| is_kept).unwrap_or(new)
    }

    fn is_kept(&self, bundle: &Bundle) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.bundle.hash() == bundle.hash())
    }

    /// A new, empty model. What was learned about words applies to every model of the encoder.
    fn successor(&self, bundle: &Arc<Bundle>) -> Slot {
        let same = bundle.has_encoder_of(&self.serving.bundle);
        let coder = match same {
            true => Arc::clone(&self.serving.coder),
            false => Arc::new(Coder::new(Arc::clone(bundle))),
        };
        let learned = self.serving.learned.clone().filter(|_| same);
        let (rows, fast, file) = (BTreeMap::new(), bundle.query_encoder(), query_file(bundle));
        Slot { bundle: Arc::clone(bundle), coder, rows, curve: None, fast, file, learned }
    }

    /// With the same encoder, embeddings move with their documents. With another one, stored documents stay,
    /// and missing ones are encoded.
    fn change_to(&mut self, mut target: Slot) {
        if target.bundle.has_encoder_of(&self.serving.bundle) {
            target.rows.clone_from(&self.serving.rows);
        } else {
            let mut stored = std::mem::take(&mut target.rows);
            for (id, row) in &self.serving.rows {
                let own = stored.remove(id).filter(|own| own.document == row.document);
                let encoded = || Row::new(row.document.clone(), None);
                target.rows.insert(id.clone(), own.unwrap_or_else(encoded));
            }
        }
        self.kept = Some(std::mem::replace(&mut self.serving, target));
    }
}

/// The name of a bundle's query encoder file, which contains its checksum.
fn query_file(bundle: &Bundle) -> Option<String> {
    let manifest: Value = serde_json::from_slice(&fs::read(bundle.path().join("ehi.json")).ok()?).unwrap();
    manifest["query_encoder"]["file"].as_str().map(str::to_owned)
}

/// The same query encoder regardless of the tree.
fn untreed(mut report: DistilReport) -> DistilReport {
    report.tree = None;
    report
}
