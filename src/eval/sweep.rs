//! One pass over a split's queries at every beam, in exact search and in the baseline.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::report::{BeamPoint, EvalReport, IvfPoint, Quality};
use super::{Metric, RelevanceLevel, Run};
use crate::cluster::{KMeansOptions, Panels, spherical_kmeans};
use crate::data::{BeirDataset, Qrels};
use crate::error::{Error, InputError, Result};
use crate::ids::Row;
use crate::index::{Index, Reach, scan_lists};
use crate::model::Role;
use crate::progress::{OnProgress, Progress, Stage};
use crate::scan::{Scanner, Similarity, TopK};
use crate::store::View;
use crate::tree::Load;

/// Documents ranked per query: what the deepest metric reads.
const DEPTH: NonZeroUsize = NonZeroUsize::new(100).unwrap();
/// Seeds over which the k-means baseline is averaged; one alone is noise of a point or two.
const BASELINE_SEEDS: u64 = 4;
/// Lloyd iterations of the baseline at most.
const BASELINE_ITERATIONS: usize = 50;
/// Queries scored between two progress reports.
const QUERIES_PER_ROUND: usize = 64;

/// What to compare the tree with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Baseline {
    /// Nothing but exact search.
    #[default]
    None,
    /// IVF: k-means of the same document embeddings into as many lists as the tree has leaves.
    Ivf,
}

/// Options of [`evaluate`].
#[derive(Clone, Debug, Default)]
pub struct EvalOptions {
    /// Beams to measure; an entry beyond the leaves means all of them. Empty: powers of two and all.
    pub beams: Vec<usize>,
    /// What to compare with.
    pub baseline: Baseline,
}

/// Judged queries with their embeddings.
struct Queries {
    ids: Vec<String>,
    /// `[queries, dim]` f32
    rows: Vec<f32>,
}

/// Evaluates an index on one split of a dataset whose corpus it holds.
///
/// Figures are means over all judged queries of the split. Ties are ranked as trec_eval ranks
/// them, so that the figures agree with it on the returned run.
///
/// Returns the report and the ranking of the largest beam, to a depth of 100.
///
/// # Errors
/// Failures of reading the dataset or the index, and [`Error::Cancelled`].
pub fn evaluate(
    index: &Index,
    dataset: &BeirDataset,
    split: &str,
    options: &EvalOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<(EvalReport, Run)> {
    let qrels = dataset.qrels(split)?;
    let queries = embed_queries(index, dataset, &qrels)?;
    let view = index.view();
    let ids = row_ids(&view)?;
    let sweep = Sweep { index, view: &view, ids: &ids, qrels: &qrels, queries: &queries };
    let leaves = index.bundle().model().indexer().shape().leaves();
    let beams = beams(&options.beams, leaves as usize)?;
    let sizes: Vec<usize> = (0..leaves).map(|leaf| view.postings(crate::LeafId(leaf)).len()).collect();
    let load = Load::of(&sizes);
    let passes =
        beams.len() + 1 + if options.baseline == Baseline::Ivf { BASELINE_SEEDS as usize } else { 0 };
    let mut meter = Meter { on_progress, done: 0, total: passes * queries.ids.len() };
    let exact = sweep.reach(Reach::Exact, &mut meter)?;
    let mut points = Vec::new();
    let mut run = Run::default();
    for beam in beams {
        let measured = sweep.reach(Reach::Beam(beam), &mut meter)?;
        points.push(BeamPoint {
            beam: beam.get(),
            visited_fraction: measured.visited_fraction,
            work_fraction: measured.work_fraction,
            quality: measured.quality,
        });
        run = measured.run;
    }
    let ivf = match options.baseline {
        Baseline::None => Vec::new(),
        Baseline::Ivf => sweep.ivf(&points, leaves as usize, &mut meter)?,
    };
    let report = EvalReport {
        documents: view.live(),
        queries: queries.ids.len(),
        leaves,
        leaves_used: sizes.len() - load.empty,
        expected_documents_per_leaf: load.expected,
        ideal_documents_per_leaf: load.ideal,
        points,
        exact: exact.quality,
        ivf,
    };
    Ok((report, run))
}

fn beams(asked: &[usize], leaves: usize) -> Result<Vec<NonZeroUsize>> {
    let mut beams: Vec<usize> = if asked.is_empty() {
        doubling(leaves).collect()
    } else {
        asked.iter().map(|&beam| beam.min(leaves)).collect()
    };
    beams.sort_unstable();
    beams.dedup();
    beams.into_iter().map(|beam| NonZeroUsize::new(beam).ok_or(Error::Input(InputError::ZeroBeam))).collect()
}

/// 1, 2, 4 and so on, and `most` itself.
pub(crate) fn doubling(most: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1usize), |number| number.checked_mul(2));
    powers.take_while(move |&number| number < most).chain([most])
}

fn embed_queries(index: &Index, dataset: &BeirDataset, qrels: &Qrels) -> Result<Queries> {
    let mut ids = Vec::new();
    let mut texts = Vec::new();
    for query in dataset.queries()? {
        let query = query?;
        if qrels.contains(&query.id) {
            ids.push(query.id);
            texts.push(query.text);
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let rows = index.bundle().model().encoder().embed(&texts, Role::Query)?;
    Ok(Queries { ids, rows })
}

/// Id of each row; empty for rows of deleted documents.
fn row_ids(view: &View<'_>) -> Result<Vec<String>> {
    (0..view.rows() as u32)
        .map(|row| if view.is_live(Row(row)) { Ok(view.id(Row(row))?) } else { Ok(String::new()) })
        .collect()
}

struct Meter<'a, 'b> {
    on_progress: &'a mut OnProgress<'b>,
    done: usize,
    total: usize,
}

impl Meter<'_, '_> {
    fn add(&mut self, queries: usize) -> Result<()> {
        self.done += queries;
        match (self.on_progress)(Progress::new(Stage::Evaluate, self.done, self.total)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }
}

struct Sweep<'a> {
    index: &'a Index,
    view: &'a View<'a>,
    ids: &'a [String],
    qrels: &'a Qrels,
    queries: &'a Queries,
}

/// One setting, measured over all queries.
struct Measured {
    visited_fraction: f64,
    work_fraction: f64,
    quality: Quality,
    run: Run,
}

impl Sweep<'_> {
    fn dim(&self) -> usize {
        self.index.bundle().model().encoder().dim()
    }

    fn reach(&self, reach: Reach, meter: &mut Meter<'_, '_>) -> Result<Measured> {
        let mut measured = Measured {
            visited_fraction: 0.0,
            work_fraction: 0.0,
            quality: Quality::default(),
            run: Run::default(),
        };
        let n = self.queries.ids.len().max(1) as f64;
        let mut visited = 0;
        let rows: Vec<&[f32]> = self.queries.rows.chunks_exact(self.dim()).collect();
        for (ids, rows) in self.queries.ids.chunks(QUERIES_PER_ROUND).zip(rows.chunks(QUERIES_PER_ROUND)) {
            let ranked = rows
                .par_iter()
                .map(|row| self.index.rank(self.view, row, DEPTH, reach))
                .collect::<Result<Vec<_>>>()?;
            for (id, ranked) in ids.iter().zip(ranked) {
                visited += ranked.stats.documents_visited;
                measured.work_fraction += ranked.stats.work_fraction / n;
                for (score, row) in ranked.rows {
                    measured.run.add(id, &self.ids[row.index()], score)?;
                }
            }
            meter.add(ids.len())?;
        }
        // Divided once: a sum of fractions can round to more than 1.
        measured.visited_fraction = visited as f64 / (n * self.view.live().max(1) as f64);
        measured.quality = quality(&measured.run, self.qrels);
        Ok(measured)
    }

    /// The baseline at the visited fractions' own numbers of lists: one point per beam.
    fn ivf(&self, points: &[BeamPoint], lists: usize, meter: &mut Meter<'_, '_>) -> Result<Vec<IvfPoint>> {
        let dim = self.dim();
        let live: Vec<Row> =
            (0..self.view.rows() as u32).map(Row).filter(|&row| self.view.is_live(row)).collect();
        let lists = lists.min(live.len());
        let units = unit_rows(self.view.row_matrix(), &live, dim);
        let mut sums: Vec<IvfPoint> = points
            .iter()
            .map(|point| IvfPoint {
                nprobe: point.beam.min(lists),
                visited_fraction: 0.0,
                work_fraction: 0.0,
                quality: Quality::default(),
            })
            .collect();
        for seed in 0..BASELINE_SEEDS {
            let options = KMeansOptions { clusters: lists, iterations: BASELINE_ITERATIONS, seed };
            let found = spherical_kmeans(&units, dim, &options)?;
            let mut table = vec![Vec::new(); lists];
            for (&row, &list) in live.iter().zip(&found.assignments) {
                table[list as usize].push(row);
            }
            let centroids = Panels::pack(&found.centroids, dim);
            for point in &mut sums {
                self.probe(point, &centroids, &table)?;
            }
            meter.add(self.queries.ids.len())?;
        }
        Ok(sums)
    }

    /// Adds one seed's share to a baseline point.
    fn probe(&self, point: &mut IvfPoint, centroids: &Panels, table: &[Vec<Row>]) -> Result<()> {
        let dim = self.dim();
        let live = self.view.live().max(1) as f64;
        let rows: Vec<&[f32]> = self.queries.rows.chunks_exact(dim).collect();
        let ranked = rows
            .par_iter()
            .map(|query| -> Result<_> {
                let unit = crate::index::unit(query);
                let mut scores = vec![0f32; table.len()];
                centroids.dot_products(&unit, &mut scores);
                let mut order: Vec<usize> = (0..table.len()).collect();
                order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
                let similarity = self.index.similarity();
                let scored: &[f32] = if similarity == Similarity::Cosine { &unit } else { query };
                let scanner = Scanner::new(similarity, scored, self.view.row_matrix())
                    .map_err(|_| InputError::Dimension { found: query.len(), expected: dim })?;
                let mut top = TopK::new(DEPTH.get());
                let probed = order.iter().take(point.nprobe).map(|&list| table[list].as_slice());
                let visited = scan_lists(&scanner, probed, 1, &mut top)?;
                Ok((visited, top.into_sorted()))
            })
            .collect::<Result<Vec<_>>>()?;
        let mut run = Run::default();
        let of_all = live * rows.len().max(1) as f64;
        let mut visited = 0;
        for (id, (visited_here, ranking)) in self.queries.ids.iter().zip(ranked) {
            visited += visited_here;
            for (score, row) in ranking {
                run.add(id, &self.ids[row.index()], score)?;
            }
        }
        let share = 1.0 / BASELINE_SEEDS as f64;
        point.visited_fraction += visited as f64 / of_all * share;
        point.work_fraction += (visited + rows.len() * table.len()) as f64 / of_all * share;
        point.quality.add(&quality(&run, self.qrels), share);
        Ok(())
    }
}

/// Live rows as unit f32.
fn unit_rows(matrix: &[f16], live: &[Row], dim: usize) -> Vec<f32> {
    let mut rows = vec![0f32; live.len() * dim];
    for (out, row) in rows.chunks_exact_mut(dim).zip(live) {
        matrix[row.index() * dim..][..dim].convert_to_f32_slice(out);
        let unit = crate::index::unit(out);
        out.copy_from_slice(&unit);
    }
    rows
}

impl Quality {
    fn add(&mut self, other: &Quality, weight: f64) {
        for (sum, value) in [
            (&mut self.recall_at_10, other.recall_at_10),
            (&mut self.recall_at_20, other.recall_at_20),
            (&mut self.recall_at_50, other.recall_at_50),
            (&mut self.recall_at_100, other.recall_at_100),
            (&mut self.mrr_at_10, other.mrr_at_10),
            (&mut self.ndcg_at_10, other.ndcg_at_10),
        ] {
            *sum += value * weight;
        }
    }
}

fn quality(run: &Run, qrels: &Qrels) -> Quality {
    let k = |k: usize| NonZeroUsize::new(k).unwrap_or(NonZeroUsize::MIN);
    let mean = |metric: Metric| metric.mean(run, qrels, RelevanceLevel::default());
    Quality {
        recall_at_10: mean(Metric::Recall(k(10))),
        recall_at_20: mean(Metric::Recall(k(20))),
        recall_at_50: mean(Metric::Recall(k(50))),
        recall_at_100: mean(Metric::Recall(k(100))),
        mrr_at_10: mean(Metric::Mrr(k(10))),
        ndcg_at_10: mean(Metric::Ndcg(k(10))),
    }
}
