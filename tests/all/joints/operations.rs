//! What a sequence is made of, and how one is drawn from a seed.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Places that documents have: an origin fills the first [`FILLED`] of them.
pub const PLACES: u8 = 54;
/// Documents of an origin.
pub const FILLED: u8 = 48;
/// Questions of the pool.
pub const QUESTIONS: u16 = 280;

/// What an index is made as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Words are the encoder's tokens.
    Tokens,
    /// Words are stems.
    Stems,
    /// It has no words, unless it gets them later.
    Bare,
    /// A document has several rows.
    Passages,
}

/// Bundles that an index is changed over to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// The encoder that indexes begin with, without a tree.
    Plain,
    /// The same encoder with a tree and a query encoder.
    Tree,
    /// Another encoder, of another width.
    Other,
    /// A table of token vectors, which cannot be distilled.
    Table,
}

/// One call of an index. Numbers are taken as they are, so a sequence may lose any part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    Insert {
        places: Vec<u8>,
        version: u8,
    },
    /// Documents with embeddings of the caller, with texts or without.
    Vectors {
        places: Vec<u8>,
        seed: u8,
        text: bool,
    },
    Delete(Vec<u8>),
    Judge {
        from: u16,
        count: u16,
        grade: i32,
    },
    Forget {
        from: u16,
        count: u16,
    },
    /// Seed 0 takes the query encoder away.
    Distil(u64),
    /// With so many questions of the pool from one on.
    Fuse {
        from: u16,
        count: u16,
    },
    Tune {
        seed: u64,
        always: bool,
    },
    /// `taken`: whether the index changes over to what is learned.
    Learn {
        seed: u64,
        taken: bool,
        query_encoder: bool,
    },
    Reencode(Which),
    Rollback,
    DropPrevious,
    Calibrate,
    Compact,
    /// Gives the index words, those of the encoder.
    Lexical,
    Rebuild,
    Flush,
}

/// When a process is killed in its last call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Point {
    /// By itself, when it is told of progress for this time.
    Progress(u32),
    /// By the system, when a file is written beyond this length.
    FileBytes(u64),
    /// After so much time.
    Micros(u64),
    /// At its end, in which no file could be written beyond this length.
    Full(u64),
}

/// What happens to an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    Do(Op),
    /// The call is told to stop when it tells of progress for this time.
    Cancel {
        op: Op,
        at: u32,
    },
    /// While the call goes on another one writes.
    Meanwhile {
        op: Op,
        at: u32,
        write: Op,
    },
    Reopen,
    /// Of an index that needs none.
    Repair,
    /// A read-only handle follows.
    Refresh,
    Snapshot,
    /// Goes on with the last snapshot in place of the index.
    Restore,
    /// Gives all space back that is not needed, and compares with a fresh index.
    Shrink,
    /// Calls of another process, which is killed in the last of them.
    Kill {
        before: Vec<Op>,
        last: Op,
        point: Point,
    },
}

/// An index and what happens to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    pub origin: Origin,
    pub steps: Vec<Step>,
}

impl Sequence {
    pub fn of(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let origin =
            *[Origin::Tokens, Origin::Tokens, Origin::Stems, Origin::Passages].choose(&mut random).unwrap();
        let length = random.random_range(8..=20);
        Self { origin, steps: (0..length).map(|_| step(&mut random)).collect() }
    }

    /// The same up to a step.
    pub fn up_to(mut self, step: usize) -> Self {
        self.steps.truncate(step + 1);
        self
    }
}

fn step(random: &mut ChaCha8Rng) -> Step {
    match random.random_range(0..100) {
        0..64 => Step::Do(op(random)),
        64..68 => Step::Meanwhile {
            op: change(random),
            at: random.random_range(0..20),
            write: match write(random) {
                write @ (Op::Insert { .. } | Op::Delete(_) | Op::Judge { .. } | Op::Forget { .. }) => write,
                _ => Op::Insert { places: vec![FILLED, FILLED + 1], version: 1 },
            },
        },
        68..72 => Step::Cancel { op: change(random), at: random.random_range(0..40) },
        72..75 => Step::Reopen,
        75..76 => Step::Repair,
        76..80 => Step::Refresh,
        80..84 => Step::Snapshot,
        84..86 => Step::Restore,
        86..89 => Step::Shrink,
        _ => {
            let before = (0..random.random_range(0..3)).map(|_| write(random)).collect();
            let last = if random.random_bool(0.8) { change(random) } else { write(random) };
            // Longer ones are written by stores alone, which make 256 KiB at a time.
            let bytes = *[1 << 10, 4 << 10, 12 << 10, 32 << 10, 48 << 10, 300 << 10].choose(random).unwrap();
            let point = match random.random_range(0..10) {
                0..3 => Point::Progress(random.random_range(0..40)),
                3..6 => Point::FileBytes(bytes),
                6..8 => Point::Full(bytes),
                _ => Point::Micros(random.random_range(0..200_000)),
            };
            Step::Kill { before, last, point }
        }
    }
}

fn op(random: &mut ChaCha8Rng) -> Op {
    if random.random_bool(0.4) { write(random) } else { change(random) }
}

/// What is as cheap as a search.
fn write(random: &mut ChaCha8Rng) -> Op {
    let mut places = |most| -> Vec<u8> {
        let count = random.random_range(1..=most);
        (0..count).map(|_| random.random_range(0..PLACES)).collect()
    };
    let (some, few) = (places(5), places(3));
    let from = random.random_range(0..QUESTIONS);
    let count = random.random_range(1..30);
    match random.random_range(0..22) {
        0..6 => Op::Insert { places: some, version: random.random_range(0..3) },
        6..10 => {
            Op::Vectors { places: few, seed: random.random_range(0..200), text: random.random_bool(0.6) }
        }
        10..15 => Op::Delete(some),
        15..17 => Op::Judge { from, count, grade: random.random_range(-1..3) },
        17..18 => Op::Forget { from, count },
        18..19 => Op::Compact,
        19..20 => Op::Rebuild,
        20..21 => Op::Lexical,
        _ => Op::Flush,
    }
}

/// What changes how an index serves.
fn change(random: &mut ChaCha8Rng) -> Op {
    let seed = random.random_range(1..6);
    match random.random_range(0..32) {
        0..4 => Op::Distil(seed),
        4..6 => Op::Distil(0),
        6..12 => {
            Op::Fuse { from: random.random_range(0..QUESTIONS), count: random.random_range(30..QUESTIONS) }
        }
        12..16 => Op::Tune { seed, always: random.random_bool(0.9) },
        16..18 => Op::Learn { seed, taken: random.random_bool(0.8), query_encoder: random.random_bool(0.5) },
        18..22 => {
            Op::Reencode(*[Which::Plain, Which::Tree, Which::Other, Which::Table].choose(random).unwrap())
        }
        22..28 => Op::Rollback,
        28..30 => Op::DropPrevious,
        _ => Op::Calibrate,
    }
}
