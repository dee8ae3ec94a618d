//! The elements of a sequence, and how one is drawn from a seed.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Number of document places: an origin fills the first [`FILLED`] of them.
pub const PLACES: u8 = 54;
/// Documents of an origin.
pub const FILLED: u8 = 48;
/// Number of questions in the pool.
pub const QUESTIONS: u16 = 280;

/// Months in which judgments are made.
pub const MONTHS: u8 = 36;

/// The initial configuration of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Terms are the encoder's tokens.
    Tokens,
    /// Terms are stems.
    Stems,
    /// Without words, unless they are added later.
    Bare,
    /// Documents have several rows.
    Passages,
}

/// Bundles that an index can change to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// The initial encoder, without a tree.
    Plain,
    /// The same encoder with a tree and a query encoder.
    Tree,
    /// Another encoder, with another width.
    Other,
    /// A table of token vectors, which cannot be distilled.
    Table,
}

/// Judgments of questions of the pool that follow each other, one for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub from: u16,
    pub count: u16,
    pub grade: i32,
    /// Places from the document that answers a question to the judged one, which may be missing.
    pub off: u8,
    /// In another spelling.
    pub again: bool,
    /// With a small weight.
    pub is_click: bool,
    pub month: u8,
}

impl Told {
    /// Judgments that say what answers some questions.
    pub fn answers(from: u16, count: u16) -> Self {
        Self { from, count, grade: 1, ..Self::default() }
    }
}

/// A call of an index. Numbers are used as they are, so any part of a sequence can be removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    Insert {
        places: Vec<u8>,
        version: u8,
    },
    /// Documents with embeddings from the caller, with or without texts.
    Vectors {
        places: Vec<u8>,
        seed: u8,
        text: bool,
    },
    /// Of the metadata of a document that may be missing, or with its title and text.
    Update {
        place: u8,
        version: u8,
        text: bool,
    },
    Delete(Vec<u8>),
    Judge(Told),
    Forget(Told),
    /// All that was judged before this month.
    ForgetBefore(u8),
    /// Of judgments, in months; 0 takes it away.
    HalfLife(u8),
    /// Seed 0 removes the query encoder.
    Distil(u64),
    /// With this many questions of the pool, starting with one of them.
    Fuse {
        from: u16,
        count: u16,
    },
    Tune {
        seed: u64,
        always: bool,
    },
    /// `taken`: whether the index changes to the learned model.
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
    /// Adds words, with the encoder's tokens.
    Lexical,
    Rebuild,
    Flush,
}

impl Op {
    /// Whether it changes what is judged.
    pub fn judges(&self) -> bool {
        matches!(self, Self::Judge(_) | Self::Forget(_) | Self::ForgetBefore(_) | Self::HalfLife(_))
    }
}

/// When a process is killed in its last call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Point {
    /// By itself, at this report of progress.
    Progress(u32),
    /// By the system, when it writes a file beyond this length.
    FileBytes(u64),
    /// After this time.
    Micros(u64),
    /// At its end, with no file allowed to grow beyond this length.
    Full(u64),
}

/// A step of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    Do(Op),
    /// The call is cancelled at this report of progress.
    Cancel {
        op: Op,
        at: u32,
    },
    /// Another call writes during the call.
    Meanwhile {
        op: Op,
        at: u32,
        write: Op,
    },
    Reopen,
    /// Repairs an index that does not need it.
    Repair,
    /// Refreshes a read-only handle.
    Refresh,
    Snapshot,
    /// Continues with the last snapshot instead of the index.
    Restore,
    /// Frees all unneeded space, and compares with a fresh index.
    Shrink,
    /// Calls of another process, which is killed in the last one.
    Kill {
        before: Vec<Op>,
        last: Op,
        point: Point,
    },
}

/// An index and its steps.
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
        let mut steps: Vec<Step> = (0..length).map(|_| step(&mut random)).collect();
        // So many that judgments of near questions count.
        if random.random_bool(0.3) {
            steps[0] = Step::Do(Op::Judge(Told::answers(random.random_range(0..QUESTIONS), 200)));
        }
        Self { origin, steps }
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
                write @ (Op::Insert { .. } | Op::Update { .. } | Op::Delete(_)) => write,
                write if write.judges() => write,
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
            // Only stores write longer ones, in steps of 256 KiB.
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

/// A call as cheap as a search.
fn write(random: &mut ChaCha8Rng) -> Op {
    let mut places = |most| -> Vec<u8> {
        let count = random.random_range(1..=most);
        (0..count).map(|_| random.random_range(0..PLACES)).collect()
    };
    let (some, few) = (places(5), places(3));
    let told = told(random);
    match random.random_range(0..31) {
        0..6 => Op::Insert { places: some, version: random.random_range(0..3) },
        6..10 => {
            Op::Vectors { places: few, seed: random.random_range(0..200), text: random.random_bool(0.6) }
        }
        10..15 => Op::Delete(some),
        15..20 => Op::Judge(told),
        20..22 => Op::Forget(told),
        22..23 => Op::ForgetBefore(told.month),
        23..24 => Op::HalfLife(random.random_range(0..3) * 30),
        24..25 => Op::Compact,
        25..26 => Op::Rebuild,
        26..27 => Op::Lexical,
        27..30 => {
            Op::Update { place: few[0], version: random.random_range(0..3), text: random.random_bool(0.3) }
        }
        _ => Op::Flush,
    }
}

fn told(random: &mut ChaCha8Rng) -> Told {
    let answers = random.random_bool(0.7);
    Told {
        from: random.random_range(0..QUESTIONS),
        count: *[3, 30, 120].choose(random).unwrap(),
        grade: if answers { random.random_range(1..4) } else { random.random_range(-1..1) },
        off: if random.random_bool(0.7) { 0 } else { random.random_range(0..PLACES) },
        again: random.random_bool(0.3),
        is_click: random.random_bool(0.3),
        month: random.random_range(0..MONTHS),
    }
}

/// A call that changes how an index serves.
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
