//! Finds a shorter sequence that still fails.

use super::operations::{Sequence, Step};

/// Removes everything not needed for `fails`, until nothing more can be removed. Costs a run per step, twice
/// or slightly more.
pub fn shrunk(sequence: Sequence, fails: impl Fn(&Sequence) -> bool) -> Sequence {
    let Sequence { origin, mut steps } = sequence;
    let fails = |steps: &[Step]| fails(&Sequence { origin, steps: steps.to_vec() });
    loop {
        let before = steps.clone();
        for place in (0..steps.len()).rev() {
            let mut fewer = steps.clone();
            fewer.remove(place);
            if fails(&fewer) {
                steps = fewer;
            } else if let Step::Kill { before, last, point } = &steps[place]
                && !before.is_empty()
            {
                let mut fewer = steps.clone();
                fewer[place] = Step::Kill { before: Vec::new(), last: last.clone(), point: *point };
                if fails(&fewer) {
                    steps = fewer;
                }
            }
        }
        if steps == before {
            return Sequence { origin, steps };
        }
    }
}
