//! Every point at which a power failure can interrupt a run, and the images there.

use std::path::Path;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tempfile::TempDir;

use super::{Kept, Step, image, image::Image};

/// How an image is put together, so that a failure can be reproduced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) after: usize,
    kept: Kept,
    seed: u64,
}

impl Cut {
    pub(crate) fn image(self, steps: &[Step]) -> Image {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed << 32 | self.after as u64);
        image(&steps[..self.after], self.kept, &mut rng)
    }
}

/// The last batch acknowledged as durable by these steps, and the last one attempted.
pub(crate) fn promised(steps: &[Step]) -> (Option<usize>, usize) {
    let last = |of: fn(&Step) -> Option<usize>| steps.iter().rev().find_map(of);
    let acknowledged = last(|step| if let Step::Acknowledged(n) = step { Some(*n) } else { None });
    let tried = last(|step| if let Step::Tried(n) = step { Some(*n) } else { None });
    (acknowledged, tried.unwrap_or(0))
}

/// One in this many cut points is checked, a different one for each of the choices, unless more images are
/// requested.
const QUICK: usize = 5;
/// The same when a single violation is searched for, before trying every point.
const COARSE: usize = 16;

/// About how many images `EHI_POWER_IMAGES` requests, in addition to every point.
pub(crate) fn asked() -> Option<usize> {
    std::env::var("EHI_POWER_IMAGES").ok()?.parse().ok()
}

/// A folder in memory if the system has one: images are written, not synced.
pub(crate) fn in_memory() -> std::io::Result<TempDir> {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() }
}

/// Enough to show a missing sync: no unsynced operation, or some of them.
pub(crate) const WITHOUT_A_SYNC: &[Kept] = &[Kept::None, Kept::Some];

/// The images of several runs.
pub(crate) struct Survey {
    /// What is kept, one image per point for each; of the random choices, one per round.
    pub(crate) choices: &'static [Kept],
    pub(crate) rounds: usize,
    /// One in this many points is checked, a different one for each of the choices.
    pub(crate) stride: usize,
    /// Ends after this many violations.
    pub(crate) enough: usize,
    pub(crate) images: usize,
    pub(crate) violations: Vec<String>,
}

impl Survey {
    /// One round, and all violations.
    pub(crate) fn new(choices: &'static [Kept]) -> Self {
        Self { choices, rounds: 1, stride: 1, enough: usize::MAX, images: 0, violations: Vec::new() }
    }

    /// For `places` points: enough rounds for about this many images, with at least one of each choice, or a
    /// sample of the points if none are [`asked`] for.
    pub(crate) fn of_size(self, images: Option<usize>, places: usize) -> Self {
        let Some(images) = images else { return Self { stride: QUICK, ..self } };
        let random = self.choices.iter().filter(|kept| kept.is_random()).count();
        let once = (self.choices.len() - random) * places;
        Self { rounds: images.saturating_sub(once).div_ceil(random * places).max(1), ..self }
    }

    /// The first of two surveys that finds a violation: of some points, then of all.
    pub(crate) fn find_one(choices: &'static [Kept], survey: impl Fn(Self) -> Self) -> Self {
        let one = |stride| survey(Self { stride, enough: 1, ..Self::new(choices) });
        let coarse = one(COARSE);
        if coarse.violations.is_empty() { one(1) } else { coarse }
    }

    /// Runs `check` at every point of a run.
    pub(crate) fn run(
        &mut self,
        name: &str,
        steps: &[Step],
        check: impl Fn(Cut) -> Result<(), String> + Sync,
    ) {
        let left = self.enough - self.violations.len();
        if left == 0 {
            return;
        }
        let cuts: Vec<Cut> = (0..=steps.len()).flat_map(|after| self.at(after)).collect();
        self.images += cuts.len();
        let found = cuts.par_iter().filter_map(|&cut| {
            let error = check(cut).err()?;
            Some(format!("{} of {} steps of {name:?}, {cut:?}: {error}", cut.after, steps.len()))
        });
        let found: Vec<String> = match self.enough {
            usize::MAX => found.collect(),
            _ => found.take_any(left).collect(),
        };
        self.violations.extend(found);
    }

    fn at(&self, after: usize) -> impl Iterator<Item = Cut> {
        let chosen = self.choices.iter().enumerate();
        let chosen = chosen.filter(move |(place, _)| (after + place).is_multiple_of(self.stride));
        chosen.flat_map(move |(_, &kept)| {
            let rounds = if kept.is_random() { self.rounds } else { 1 };
            (0..rounds as u64).map(move |seed| Cut { after, kept, seed })
        })
    }

    /// Prints the numbers.
    #[track_caller]
    pub(crate) fn assert_none(&self) {
        println!("{} images, {} violations", self.images, self.violations.len());
        let first = self.violations[..self.violations.len().min(5)].join("\n");
        assert!(self.violations.is_empty(), "{} of {}:\n{first}", self.violations.len(), self.images);
    }
}
