//! The judged questions nearest to a question.

use half::f16;

use crate::ids::Row;
use crate::scan::{ScanError, Scanner, Similarity, TopK};

/// Up to this number, every vector is scored.
const FEW: usize = 4_096;
/// Groups whose members are scored, those with the nearest pivots.
const VISITED: usize = 16;

/// Unit vectors in groups: each vector belongs to the nearest of some pivots, which are vectors themselves.
///
/// A search scores the pivots and the members of the nearest groups, about `17 sqrt(n)` of `n` vectors.
#[derive(Clone, Debug)]
pub(super) struct NearestVectors {
    dim: usize,
    /// `[n, dim]`
    vectors: Vec<f16>,
    groups: Vec<Group>,
}

/// A pivot and the vectors that are nearer to it than to other pivots.
#[derive(Clone, Debug)]
struct Group {
    pivot: u32,
    members: Vec<u32>,
}

impl NearestVectors {
    pub fn new(dim: usize) -> Self {
        Self { dim, vectors: Vec::new(), groups: Vec::new() }
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
            self.group();
        } else if !self.groups.is_empty() {
            (first..len).for_each(|place| self.assign(place as u32));
        }
    }

    /// The `k` nearest to a vector `[dim]` of unit norm that are accepted, nearest first, each with its
    /// cosine.
    ///
    /// # Errors
    /// [`ScanError`] for a query of another width.
    pub fn nearest(
        &self,
        unit: &[f32],
        k: usize,
        accepts: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<(f32, u32)>, ScanError> {
        let accepted = |place: &u32| accepts(*place);
        let scanner = Scanner::new(Similarity::Cosine, unit)?;
        let mut top = TopK::new(k);
        if self.groups.is_empty() {
            let all = (0..self.len() as u32).filter(accepted);
            scanner.scan(all.map(|place| self.row(place)), &mut top)?;
        } else {
            let mut pivots = TopK::new(VISITED);
            scanner.scan(self.pivots(), &mut pivots)?;
            let visited = pivots.into_sorted().into_iter().map(|(_, group)| &self.groups[group.index()]);
            let members = visited.flat_map(|group| group.members.iter().copied()).filter(accepted);
            scanner.scan(members.map(|place| self.row(place)), &mut top)?;
        }
        Ok(top.into_sorted().into_iter().map(|(cosine, row)| (cosine, row.0)).collect())
    }

    fn row(&self, place: u32) -> (Row, &[f16]) {
        let start = place as usize * self.dim;
        (Row(place), &self.vectors[start..start + self.dim])
    }

    /// The pivots, numbered as their groups.
    fn pivots(&self) -> impl Iterator<Item = (Row, &[f16])> {
        self.groups.iter().zip(0..).map(|(group, at)| (Row(at), self.row(group.pivot).1))
    }

    /// Makes groups anew, with about the square root of the number of vectors as pivots.
    fn group(&mut self) {
        let len = self.len();
        let count = (len as f64).sqrt() as usize;
        let pivot = |group: usize| (group * len / count) as u32;
        self.groups = (0..count).map(|group| Group { pivot: pivot(group), members: Vec::new() }).collect();
        (0..len as u32).for_each(|place| self.assign(place));
    }

    fn assign(&mut self, place: u32) {
        let query: Vec<f32> = self.row(place).1.iter().map(|value| value.to_f32()).collect();
        let mut top = TopK::new(1);
        // Of one width by construction.
        let scanned = Scanner::new(Similarity::Cosine, &query)
            .and_then(|scanner| scanner.scan(self.pivots(), &mut top));
        if let (Ok(_), Some(&(_, nearest))) = (scanned, top.into_sorted().first()) {
            self.groups[nearest.index()].members.push(place);
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
        let plain = NearestVectors { groups: Vec::new(), vectors: grouped.vectors.clone(), dim };
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
