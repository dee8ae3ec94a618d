//! IVF, the baseline: lists by k-means of the index's own embeddings.

use std::borrow::Cow;
use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::sweep::Sweep;
use crate::error::{InputError, Result};
use crate::ids::Row;
use crate::index::unit;
use crate::measure::{IVF_SEEDS, Outcome, Partition, ProgressCounter, QueryFigures, Setting, doubling};
use crate::scan::{Scanner, Similarity, TopK};
use crate::search::best_of;
use crate::store::View;

/// Bytes of f32 rows that centroids are computed from: all rows if they fit, otherwise a random sample with
/// at least one row per list. Rows are then assigned to the centroids block by block.
///
/// 175,000 rows of 384 values: for 4,096 lists more than 39 per list, the fewest for which Faiss does not
/// warn.
const SAMPLE_BYTES: usize = 256 << 20;

/// Numbers of lists, each with the numbers of lists to probe, ascending.
pub(super) type Probes = Vec<(usize, Vec<usize>)>;

/// Each of the tree's beams gives a number of probed lists: the same share of all.
pub(super) fn plan(lists: &[usize], leaves: usize, beams: &[usize], live: usize) -> Result<Probes> {
    if lists.contains(&0) {
        return Err(InputError::zero("the number of lists").into());
    }
    let mut asked = match (lists, leaves) {
        ([], 1) => vec![4 * live.isqrt()],
        ([], leaves) => vec![leaves],
        (lists, _) => lists.to_vec(),
    };
    asked.sort_unstable();
    asked.dedup();
    asked.retain(|&lists| {
        let divides = lists < live;
        if !divides {
            tracing::warn!(
                "IVF with {lists} lists is not measured: it needs more documents than lists, and there are {live}"
            );
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
    Ok(probes.collect())
}

/// Ranks all queries with each seed's lists; figures are means over the seeds.
pub(super) fn measure(
    probes: &Probes,
    sweep: &Sweep<'_>,
    meter: &mut ProgressCounter<'_, '_>,
) -> Result<Vec<QueryFigures>> {
    let (view, dim) = (sweep.view, sweep.dim());
    let rows = (0..view.rows() as u32).map(Row);
    let live: Vec<Row> = rows.filter(|&row| view.is_live(row)).collect();
    let mut measured = Vec::new();
    for (lists, probes) in probes {
        let settings = probes.iter().map(|&nprobe| Setting::Ivf { lists: *lists, nprobe });
        let mut figures: Vec<QueryFigures> =
            settings.map(|setting| QueryFigures::new(setting, sweep.view.live_rows())).collect();
        for seed in 0..IVF_SEEDS {
            let shape = (live.len(), dim);
            let rows = |places: Range<usize>| unit_rows(view, &live[places], dim);
            let sample = sample(shape, *lists, seed);
            let partition = Partition::k_means(shape, rows, *lists, seed, sample.as_deref())?;
            let search = |query| search(sweep, &partition, &live, query, probes);
            meter.measure(sweep.queries.asked, search, |query, outcomes| {
                let own = figures.iter_mut().zip(outcomes);
                own.for_each(|(own, outcome)| own.add(query, &outcome, 1.0 / IVF_SEEDS as f64));
                Ok(())
            })?;
        }
        measured.extend(figures);
    }
    Ok(measured)
}

/// Positions of the documents that centroids are computed from; `None` for all.
fn sample((count, dim): (usize, usize), lists: usize, seed: u64) -> Option<Vec<usize>> {
    let sample = (SAMPLE_BYTES / (dim * size_of::<f32>())).clamp(lists, count);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (sample < count).then(|| {
        let mut places = rand::seq::index::sample(&mut rng, count, sample).into_vec();
        places.sort_unstable();
        places
    })
}

/// Results of a query at each number of probed lists of live rows.
fn search(
    sweep: &Sweep<'_>,
    partition: &Partition<'_>,
    live: &[Row],
    query: usize,
    probes: &[usize],
) -> Result<Vec<Outcome>> {
    let (row, similarity) = (sweep.query(query), sweep.serving.similarity);
    let unit = unit(row);
    let wrong_width = || InputError::Dimension { found: row.len(), expected: sweep.dim() };
    let scored = if similarity == Similarity::Cosine { &unit } else { row };
    let scanner = Scanner::new(similarity, scored).map_err(|_| wrong_width())?;
    let score = |places: &[Row], top: &mut TopK| -> Result<()> {
        let row = |place: &Row| Ok((live[place.index()], sweep.view.embedding(live[place.index()])?));
        let rows = places.iter().map(row).collect::<Result<Vec<_>>>()?;
        scanner.scan(rows, top).map_err(|_| wrong_width())?;
        Ok(())
    };
    let best = best_of(sweep.view, sweep.searched(query, sweep.depth));
    let found = partition.search(&unit, probes, best, score)?;
    found.into_iter().map(|mut found| sweep.outcome(query, &mut found)).collect()
}

/// Rows as unit f32.
fn unit_rows(view: &View, of: &[Row], dim: usize) -> Result<Cow<'static, [f32]>> {
    let mut rows = vec![0f32; of.len() * dim];
    for (out, &row) in rows.chunks_exact_mut(dim).zip(of) {
        view.embedding(row)?.convert_to_f32_slice(out);
        let unit = unit(out);
        out.copy_from_slice(&unit);
    }
    Ok(Cow::Owned(rows))
}
