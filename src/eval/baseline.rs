//! IVF, the baseline: lists by k-means of the index's own embeddings.

use half::slice::HalfFloatSliceExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::judge::Ranking;
use super::per_query::{PerQuery, QueryFigures, Setting, mean};
use super::report::IvfPoint;
use super::sweep::{ProgressCounter, QUERIES_PER_ROUND, Sweep, doubling};
use crate::cluster::{IVF_ITERATIONS, KMeansOptions, Panels, spherical_kmeans};
use crate::error::{InputError, Result};
use crate::ids::Row;
use crate::scan::{Scanner, Similarity, TopK};
use crate::store::View;

/// Seeds over which the baseline is averaged; one alone is noise of a point or two.
const SEEDS: u64 = 4;
/// Rows that are assigned to centroids at once, so that they are in f32 only then.
const BLOCK_ROWS: usize = 16_384;
/// Bytes of f32 rows that centroids are found from, unless asked otherwise.
///
/// 175,000 rows of 384 values: for 4,096 lists more than 39 a list, the fewest that Faiss finds
/// centroids from without a warning.
pub const DEFAULT_SAMPLE_BYTES: usize = 256 << 20;

/// Options of the baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IvfOptions {
    /// Numbers of lists to divide the documents into; as many as the tree has leaves where it is
    /// empty. A number that is not below that of the documents is left out, with a warning.
    pub lists: Vec<usize>,
    /// Bytes of f32 rows that centroids are found from: all rows where they fit, or else a random
    /// sample, with at least one row a list. Rows are then assigned to the centroids block by
    /// block. [`DEFAULT_SAMPLE_BYTES`] by default.
    pub sample_bytes: usize,
}

impl Default for IvfOptions {
    fn default() -> Self {
        Self { lists: Vec::new(), sample_bytes: DEFAULT_SAMPLE_BYTES }
    }
}

/// What the baseline measures.
pub(super) struct Plan {
    sample_bytes: usize,
    /// Numbers of lists, each with the numbers of lists to probe, ascending.
    probes: Vec<(usize, Vec<usize>)>,
}

/// Documents by list, with the centroids.
struct Lists {
    centroids: Panels,
    table: Vec<Vec<Row>>,
}

impl Plan {
    /// The tree's beams decide how many lists are probed: the same share of all.
    pub fn new(options: &IvfOptions, leaves: usize, beams: &[usize], live: usize) -> Result<Self> {
        if options.lists.contains(&0) {
            return Err(InputError::ZeroLists.into());
        }
        let asked = if options.lists.is_empty() { &[leaves][..] } else { &options.lists };
        let mut asked = asked.to_vec();
        asked.sort_unstable();
        asked.dedup();
        asked.retain(|&lists| {
            let divides = lists < live;
            if !divides {
                tracing::warn!(lists, documents = live, "left out: a list for each document divides nothing");
            }
            divides
        });
        let probes = asked.into_iter().map(|lists| {
            let scaled = |&beam: &usize| (beam.min(leaves) * lists).div_ceil(leaves);
            let mut probes: Vec<usize> =
                if beams.is_empty() { doubling(lists).collect() } else { beams.iter().map(scaled).collect() };
            probes.sort_unstable();
            probes.dedup();
            (lists, probes)
        });
        Ok(Self { sample_bytes: options.sample_bytes, probes: probes.collect() })
    }

    /// How often all queries are ranked.
    pub fn passes(&self) -> usize {
        self.probes.len() * SEEDS as usize
    }

    /// Ranks all queries with each seed's lists; figures are means over the seeds.
    pub fn measure(
        &self,
        sweep: &Sweep<'_>,
        meter: &mut ProgressCounter<'_, '_>,
    ) -> Result<Vec<QueryFigures>> {
        let rows = 0..sweep.view.rows() as u32;
        let live: Vec<Row> = rows.map(Row).filter(|&row| sweep.view.is_live(row)).collect();
        let mut measured = Vec::new();
        for (lists, probes) in &self.probes {
            let setting = |&nprobe: &usize| QueryFigures {
                setting: Setting::Ivf { lists: *lists, nprobe },
                visited_fraction: Vec::new(),
                work_fraction: Vec::new(),
                values: Vec::new(),
            };
            let mut figures: Vec<QueryFigures> = probes.iter().map(setting).collect();
            for seed in 0..SEEDS {
                let lists = self.divide(sweep, &live, *lists, seed)?;
                lists.rank(sweep, probes, &mut figures, meter)?;
            }
            measured.extend(figures);
        }
        Ok(measured)
    }

    fn divide(&self, sweep: &Sweep<'_>, live: &[Row], lists: usize, seed: u64) -> Result<Lists> {
        let dim = sweep.dim();
        let view = sweep.view;
        let options = KMeansOptions { clusters: lists, iterations: IVF_ITERATIONS, seed };
        let sample = (self.sample_bytes / (dim * size_of::<f32>())).clamp(lists, live.len());
        let mut table = vec![Vec::new(); lists];
        let mut assign = |rows: &[Row], assignments: &[u32]| {
            rows.iter().zip(assignments).for_each(|(&row, &list)| table[list as usize].push(row));
        };
        let centroids = if sample == live.len() {
            let found = spherical_kmeans(&unit_rows(view, live, dim)?, dim, &options)?;
            assign(live, &found.assignments);
            Panels::pack(&found.centroids, dim)
        } else {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut places = rand::seq::index::sample(&mut rng, live.len(), sample).into_vec();
            places.sort_unstable();
            let rows: Vec<Row> = places.into_iter().map(|place| live[place]).collect();
            let found = spherical_kmeans(&unit_rows(view, &rows, dim)?, dim, &options)?;
            let centroids = Panels::pack(&found.centroids, dim);
            for block in live.chunks(BLOCK_ROWS) {
                assign(block, &centroids.nearest(&unit_rows(view, block, dim)?).assignments);
            }
            centroids
        };
        Ok(Lists { centroids, table })
    }
}

impl Lists {
    /// Adds one seed's share to the figures, one for each number of probed lists.
    fn rank(
        &self,
        sweep: &Sweep<'_>,
        probes: &[usize],
        figures: &mut [QueryFigures],
        meter: &mut ProgressCounter<'_, '_>,
    ) -> Result<()> {
        let live = sweep.view.live().max(1) as f64;
        let rows: Vec<&[f32]> = sweep.questions.rows.chunks_exact(sweep.dim()).collect();
        for (round, rows) in rows.chunks(QUERIES_PER_ROUND).enumerate() {
            let ranked =
                rows.par_iter().map(|row| self.probe(sweep, row, probes)).collect::<Result<Vec<_>>>()?;
            for (query, ranked) in (round * QUERIES_PER_ROUND..).zip(ranked) {
                for (figures, (visited, ranking)) in figures.iter_mut().zip(ranked) {
                    let work = visited + self.table.len();
                    add(&mut figures.visited_fraction, query, [visited as f64 / live]);
                    add(&mut figures.work_fraction, query, [work as f64 / live]);
                    add(&mut figures.values, query, sweep.judge.values(query, &ranking));
                }
            }
            meter.add(rows.len())?;
        }
        Ok(())
    }

    /// Documents visited and the ranking at each number of probed lists, in one pass.
    fn probe(&self, sweep: &Sweep<'_>, query: &[f32], probes: &[usize]) -> Result<Vec<(usize, Ranking)>> {
        let unit = crate::index::unit(query);
        let mut scores = vec![0f32; self.table.len()];
        self.centroids.dot_products(&unit, &mut scores);
        let mut order: Vec<usize> = (0..self.table.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        let similarity = sweep.serving.similarity;
        let scored: &[f32] = if similarity == Similarity::Cosine { &unit } else { query };
        let wrong_width = || InputError::Dimension { found: query.len(), expected: sweep.dim() };
        let scanner = Scanner::new(similarity, scored).map_err(|_| wrong_width())?;
        let mut top = TopK::new(sweep.depth);
        let (mut visited, mut probed) = (0, 0);
        let mut found = Vec::with_capacity(probes.len());
        for &nprobe in probes {
            for &list in &order[probed..nprobe] {
                let row = |&row: &Row| Ok((row, sweep.view.embedding(row)?));
                let rows = self.table[list].iter().map(row).collect::<Result<Vec<_>>>()?;
                visited += scanner.scan(rows, &mut top).map_err(|_| wrong_width())?;
            }
            probed = nprobe;
            let mut ranking = top.clone().into_sorted();
            sweep.judge.order(&mut ranking)?;
            found.push((visited, ranking));
        }
        Ok(found)
    }
}

/// Adds a seed's share to a query's values, which the first seed makes.
fn add(sums: &mut Vec<f64>, query: usize, values: impl IntoIterator<Item = f64>) {
    let shares: Vec<f64> = values.into_iter().map(|value| value / SEEDS as f64).collect();
    let first = query * shares.len();
    if sums.len() <= first {
        sums.extend(shares);
    } else {
        sums[first..].iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
    }
}

/// The means of one setting of the baseline; `None` for other settings.
pub(super) fn point(figures: &QueryFigures, per_query: &PerQuery) -> Option<IvfPoint> {
    let Setting::Ivf { lists, nprobe } = figures.setting else { return None };
    Some(IvfPoint {
        lists,
        nprobe,
        visited_fraction: mean(&figures.visited_fraction).min(1.0),
        work_fraction: mean(&figures.work_fraction),
        quality: per_query.quality(figures),
    })
}

/// Rows as unit f32.
fn unit_rows(view: &View, of: &[Row], dim: usize) -> Result<Vec<f32>> {
    let mut rows = vec![0f32; of.len() * dim];
    for (out, row) in rows.chunks_exact_mut(dim).zip(of) {
        view.embedding(*row)?.convert_to_f32_slice(out);
        let unit = crate::index::unit(out);
        out.copy_from_slice(&unit);
    }
    Ok(rows)
}
