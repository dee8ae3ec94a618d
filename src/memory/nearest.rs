//! The judged questions nearest to a question.

use std::sync::Arc;

use half::f16;

use crate::codes::{BLOCK_ROWS, CodeMaker, CodeScan, CodedQuery, Rotation, block_bytes};
use crate::ids::Row;
use crate::scan::{Kernel, ScanError, Scanner, Similarity, TopK};

/// Up to this number, every vector is scored.
const FEW: usize = 4_096;
/// Groups whose members are considered, those with the nearest pivots.
const VISITED: usize = 16;
/// Groups whose codes are read before vectors are scored: the best of several groups are better than those of
/// one, and rule out more of the others.
const TOGETHER: usize = 4;
/// As [`CODE_WIDTH`](crate::codes::CODE_WIDTH), but half as many vectors are scored, and of the 20 nearest
/// 0.01 more are missed.
const WIDTH: f32 = 2.0;
/// Vectors scored before their scores are compared with the bounds of others.
const PER_ROUND: usize = 16;

/// Unit vectors in groups: each vector belongs to the nearest of some pivots, which are vectors themselves.
///
/// A search scores the pivots, about `sqrt(n)` of `n` vectors, reads the codes of the members of the nearest
/// groups, about `16 sqrt(n)` of one bit for each dimension, and scores the few that may be among the best.
#[derive(Clone, Debug)]
pub(super) struct NearestVectors {
    dim: usize,
    /// `[n, dim]`
    vectors: Vec<f16>,
    groups: Vec<Group>,
    rotation: Arc<Rotation>,
}

/// A pivot and the vectors that are nearer to it than to other pivots.
#[derive(Clone, Debug)]
struct Group {
    pivot: u32,
    members: Vec<u32>,
    /// Codes of the members relative to the pivot, `[blocks, block_bytes]`.
    blocks: Vec<u8>,
}

impl Group {
    fn new(pivot: u32) -> Self {
        Self { pivot, members: Vec::new(), blocks: Vec::new() }
    }

    /// Adds a vector; `maker` makes codes relative to the pivot.
    fn push(&mut self, maker: &mut CodeMaker, place: u32, vector: &[f16]) {
        let (at, bytes) = (self.members.len() % BLOCK_ROWS, block_bytes(vector.len()));
        if at == 0 {
            self.blocks.resize(self.blocks.len() + bytes, 0);
        }
        let block = self.blocks.len() - bytes;
        maker.encode(vector, at, &mut self.blocks[block..], None);
        self.members.push(place);
    }

    /// Adds the members that may score `least`, each with a bound that its score hardly ever exceeds; `along`
    /// is the cosine of the query and the pivot.
    fn likely(
        &self,
        kernel: Kernel,
        query: &CodedQuery,
        along: f32,
        least: f32,
        likely: &mut Vec<(f32, u32)>,
    ) {
        let (blocks, near) = (&self.blocks, query.near(along));
        let scan = CodeScan { query, blocks, near, width: WIDTH, threshold: least, next: &[] };
        kernel.scan_codes(scan, &mut |found| {
            let members = self.members.iter().skip(found.block * BLOCK_ROWS).zip(found.bounds);
            let reached = members.enumerate().filter(|(place, _)| found.reach >> place & 1 == 1);
            likely.extend(reached.map(|(_, (&member, bound))| (bound, member)));
        });
    }
}

impl NearestVectors {
    pub fn new(dim: usize) -> Self {
        Self { dim, vectors: Vec::new(), groups: Vec::new(), rotation: Arc::new(Rotation::new(dim)) }
    }

    pub fn len(&self) -> usize {
        self.vectors.len() / self.dim.max(1)
    }

    /// Adds vectors, `[n, dim]` f16 of unit norm each, numbered in their order.
    pub fn extend(&mut self, vectors: &[f16]) {
        let first = self.len();
        self.vectors.extend_from_slice(vectors);
        let len = self.len();
        // The number of groups grows with the square root.
        if len > FEW && len >= 4 * self.groups.len() * self.groups.len() {
            let count = (len as f64).sqrt() as usize;
            self.groups = (0..count).map(|group| Group::new((group * len / count) as u32)).collect();
            self.assign(0..len as u32);
        } else if !self.groups.is_empty() {
            self.assign(first as u32..len as u32);
        }
    }

    /// The `k` nearest to a vector `[dim]` of unit norm that are accepted, nearest first, each with its
    /// cosine. Few are asked whether they are accepted: those that would be among the nearest so far.
    ///
    /// # Errors
    /// [`ScanError`] for a query of another width.
    pub fn nearest(
        &self,
        unit: &[f32],
        k: usize,
        accepts: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<(f32, u32)>, ScanError> {
        let scanner = Scanner::new(Similarity::Cosine, unit)?;
        let mut top = TopK::new(k);
        if self.groups.is_empty() {
            self.score(&scanner, 0..self.len() as u32, accepts, &mut top)?;
        } else {
            let mut pivots = TopK::new(VISITED);
            scanner.scan(self.pivots(), &mut pivots)?;
            let (query, mut likely) = (CodedQuery::new(&self.rotation, unit), Vec::new());
            for groups in pivots.into_sorted().chunks(TOGETHER) {
                let least = top.threshold().unwrap_or(f32::NEG_INFINITY);
                for &(along, group) in groups {
                    self.groups[group.index()].likely(scanner.kernel, &query, along, least, &mut likely);
                }
                while !likely.is_empty() {
                    let count = likely.len().min(PER_ROUND);
                    likely.select_nth_unstable_by(count - 1, |a, b| b.0.total_cmp(&a.0));
                    let round = likely.drain(..count).map(|(_, place)| place);
                    self.score(&scanner, round, accepts, &mut top)?;
                    let least = top.threshold().unwrap_or(f32::NEG_INFINITY);
                    likely.retain(|&(bound, _)| bound >= least);
                }
            }
        }
        Ok(top.into_sorted().into_iter().map(|(cosine, row)| (cosine, row.0)).collect())
    }

    /// Scores vectors into `top`.
    fn score(
        &self,
        scanner: &Scanner<'_>,
        places: impl Iterator<Item = u32>,
        accepts: &dyn Fn(u32) -> bool,
        top: &mut TopK,
    ) -> Result<usize, ScanError> {
        scanner.scan_with(places.map(|place| self.row(place)), |score, row| {
            if top.threshold().is_none_or(|least| score >= least) && accepts(row.0) {
                top.push(score, row);
            }
        })
    }

    fn row(&self, place: u32) -> (Row, &[f16]) {
        let start = place as usize * self.dim;
        (Row(place), &self.vectors[start..start + self.dim])
    }

    /// The pivots, numbered as their groups.
    fn pivots(&self) -> impl Iterator<Item = (Row, &[f16])> {
        self.groups.iter().zip(0..).map(|(group, at)| (Row(at), self.row(group.pivot).1))
    }

    /// Adds vectors to the groups of the nearest pivots.
    fn assign(&mut self, places: std::ops::Range<u32>) {
        let mut of_groups: Vec<(usize, u32)> =
            places.map(|place| (self.nearest_pivot(place), place)).collect();
        of_groups.sort_unstable();
        let mut maker = CodeMaker::new(self.dim);
        for own in of_groups.chunk_by(|a, b| a.0 == b.0) {
            let mut group = std::mem::replace(&mut self.groups[own[0].0], Group::new(0));
            maker.beside(self.row(group.pivot).1);
            own.iter().for_each(|&(_, place)| group.push(&mut maker, place, self.row(place).1));
            self.groups[own[0].0] = group;
        }
    }

    /// The number of the nearest pivot's group.
    fn nearest_pivot(&self, place: u32) -> usize {
        let query: Vec<f32> = self.row(place).1.iter().map(|value| value.to_f32()).collect();
        let mut top = TopK::new(1);
        // Of one width by construction.
        let scanned = Scanner::new(Similarity::Cosine, &query)
            .and_then(|scanner| scanner.scan(self.pivots(), &mut top));
        match (scanned, top.into_sorted().first()) {
            (Ok(_), Some(&(_, nearest))) => nearest.index(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Unit vectors around some centres.
    fn units(count: usize, dim: usize) -> Vec<f32> {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(0);
        let mut one = || (0..dim).map(|_| random.random_range(-1.0..1.0)).collect::<Vec<f32>>();
        let centres: Vec<Vec<f32>> = (0..20).map(|_| one()).collect();
        (0..count)
            .flat_map(|n| {
                let own: Vec<f32> = centres[n % 20].iter().zip(one()).map(|(a, b)| a + b / 2.0).collect();
                crate::index::unit(&own)
            })
            .collect()
    }

    #[test]
    fn groups_find_what_a_full_scan_finds() {
        let (dim, all) = (32, units(6_000, 32));
        let stored: Vec<f16> = all.chunks(dim).flat_map(crate::scan::unit_to_store).collect();
        let mut grouped = NearestVectors::new(dim);
        // In pieces, as questions are judged.
        stored.chunks(dim * 700).for_each(|piece| grouped.extend(piece));
        assert!(grouped.groups.len() > 20 && grouped.len() == 6_000);
        assert_eq!(grouped.groups.iter().map(|group| group.members.len()).sum::<usize>(), 6_000);
        let plain = NearestVectors { groups: Vec::new(), ..grouped.clone() };
        let (mut found, all_of): (_, &dyn Fn(u32) -> bool) = (0, &|_| true);
        for query in all.chunks(dim).step_by(40) {
            let (exact, own) =
                (plain.nearest(query, 20, all_of).unwrap(), grouped.nearest(query, 20, all_of).unwrap());
            assert_eq!(exact[0], own[0]);
            found += own.iter().filter(|own| exact.contains(own)).count();
        }
        assert!(found > 100 * 20 * 9 / 10, "{found}");
    }
}
