//! The interplay of commands: random sequences of all calls that change what is served, compared with a model
//! that knows the right answer of every search after each of them.
//!
//! | File | What it has |
//! |---|---|
//! | `operations.rs` | what a sequence is made of, and how one is drawn from a seed |
//! | `world.rs` | encoders of some kilobytes, documents and questions |
//! | `acting.rs` | the calls of an index |
//! | `model.rs` | what an index must be after them |
//! | `comparison.rs`, `names.rs` | whether it is, and whether every file has an owner |
//! | `answers.rs` | whether it answers as a fresh index with the same judgments does |
//! | `running.rs`, `killing.rs` | runs a sequence, and processes that are killed in the midst of a call |
//! | `found.rs` | sequences that failed once, and what the comparison must see |
//! | `shrinking.rs` | a shorter sequence that fails as well |

mod acting;
mod answers;
mod comparison;
mod found;
mod killing;
mod model;
mod names;
mod operations;
mod running;
mod shrinking;
mod world;

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use operations::{Sequence, Step};
use running::run;
use shrinking::shrunk;
use world::World;

/// Sequences per test run.
const SEQUENCES: u64 = 50;
/// Sequences run concurrently.
const WORKERS: usize = 2;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|number| number.parse().ok())
}

/// `EHI_JOINTS` is the number of sequences, starting with the seed `EHI_JOINTS_SEED`; the documented long run
/// has 10,000.
#[test]
fn after_every_sequence_of_calls_an_index_answers_as_it_must() {
    let first = number("EHI_JOINTS_SEED").unwrap_or(0);
    let end = first + number("EHI_JOINTS").unwrap_or(SEQUENCES);
    let world = World::shared();
    let (next, with_near) = (AtomicU64::new(first), AtomicU64::new(0));
    let failed: Vec<(u64, running::Failure)> = thread::scope(|scope| {
        let work = || {
            let mut failed = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return failed;
                }
                match run(world, &Sequence::of(seed)) {
                    Ok(near) => {
                        with_near.fetch_add(u64::from(near), Ordering::Relaxed);
                    }
                    Err(failure) => {
                        println!("seed {seed}, step {}: {}", failure.step, failure.said);
                        failed.push((seed, failure));
                    }
                }
            }
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let with_near = with_near.into_inner();
    println!("judgments of near questions counted in {with_near} sequences");
    let Some((seed, failure)) = failed.iter().min_by_key(|(_, failure)| failure.step) else {
        assert!(with_near >= (end - first) / 10, "near questions counted in {with_near} sequences only");
        return;
    };
    let fewer = shrunk(Sequence::of(*seed).up_to(failure.step), |sequence| run(world, sequence).is_err());
    let said = run(world, &fewer).map_or_else(|failure| failure.said, |_| "not again".to_owned());
    let steps: Vec<String> = fewer.steps.iter().map(|step: &Step| format!("{step:?}")).collect();
    panic!(
        "{} of {} sequences failed; seed {seed} ({:?}) in short:\n{}\n{said}",
        failed.len(),
        end - first,
        fewer.origin,
        steps.join("\n")
    );
}
