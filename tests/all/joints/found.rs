//! Sequences that failed once, shortened; and a test that the comparison detects errors.

use std::fs;
use std::path::Path;

use ehi::{Document, Index};

use super::operations::Step::{Do, Kill, Refresh};
use super::operations::{Op, Origin, Point, Sequence, Step, Told, Which};
use super::running::{run, run_and};
use super::world::{World, document, half_life, id, vector};

fn sequence(steps: &[Step]) -> Sequence {
    Sequence { origin: Origin::Tokens, steps: steps.to_vec() }
}

#[track_caller]
fn assert_holds(steps: &[Step]) {
    if let Err(failure) = run(World::shared(), &sequence(steps)) {
        panic!("{failure:?}");
    }
}

const TUNE: Step = Do(Op::Tune { seed: 1, always: true });
const FUSE: Step = Do(Op::Fuse { from: 0, count: 280 });

#[test]
fn a_rollback_brings_back_what_was_measured_for_its_model() {
    let distil = |seed| Do(Op::Distil(seed));
    let rollback = || Do(Op::Rollback);
    assert_holds(&[TUNE, FUSE, rollback(), rollback()]);
    assert_holds(&[distil(1), FUSE, TUNE, distil(0), FUSE, rollback(), distil(2), FUSE, rollback()]);
    // Tuning gives the same tree again, which is the kept one.
    assert_holds(&[TUNE, rollback(), FUSE, TUNE, rollback()]);
    assert_holds(&[Do(Op::Reencode(Which::Tree)), Do(Op::Calibrate), FUSE, rollback(), FUSE, rollback()]);
}

#[test]
fn a_document_without_text_keeps_its_vector() {
    let silent = Do(Op::Vectors { places: vec![19, 13, 4], seed: 72, text: false });
    let learn = Op::Learn { seed: 3, taken: true, query_encoder: true };
    let other = || Do(Op::Reencode(Which::Other));
    assert_holds(&[silent.clone(), Do(learn), other(), TUNE, Do(Op::DropPrevious)]);
    assert_holds(&[other(), silent, Do(Op::Rollback), Do(Op::Delete(vec![19, 13, 4])), Do(Op::Rollback)]);
}

#[test]
fn a_vector_that_was_given_again_goes_with_its_document() {
    let given = Do(Op::Vectors { places: vec![43], seed: 3, text: true });
    assert_holds(&[TUNE, given, Do(Op::Rollback)]);
}

#[test]
fn what_a_killed_call_began_is_removed() {
    let tune = Op::Tune { seed: 1, always: true };
    let learn = Op::Learn { seed: 3, taken: true, query_encoder: false };
    for (last, bytes) in [(tune, 4 << 10), (learn, 12 << 10), (Op::Distil(2), 12 << 10)] {
        let cut_off = |point| Kill { before: Vec::new(), last: last.clone(), point };
        assert_holds(&[cut_off(Point::FileBytes(bytes)), cut_off(Point::Full(bytes)), Do(last.clone())]);
    }
}

#[test]
fn a_handle_that_follows_takes_no_copy_for_a_stale_one() {
    assert_holds(&[Refresh, Do(Op::Reencode(Which::Other)), Refresh, Do(Op::DropPrevious), Refresh]);
}

#[test]
fn a_question_that_is_judged_again_counts_for_near_ones() {
    let judge = |from, count| Do(Op::Judge(Told::answers(from, count)));
    let forget = Do(Op::Forget(Told::answers(0, 1)));
    // Its vector is made only once others have made near questions count.
    assert_holds(&[judge(0, 1), forget, judge(1, 270), judge(0, 1), Do(Op::Flush)]);
}

/// Gives the vector of each judged question to the next one.
fn exchange_vectors(file: &Path) {
    let mut content = fs::read(file).unwrap();
    let (_, records) = content.split_at_mut(16);
    // Of the plain encoder.
    let bytes = 16 + 2 * 32;
    let vectors: Vec<Vec<u8>> = records.chunks(bytes + 4).map(|record| record[16..bytes].to_vec()).collect();
    for (record, vector) in records.chunks_mut(bytes + 4).zip(vectors.iter().skip(1)) {
        record[16..bytes].copy_from_slice(vector);
        let sum = crc32fast::hash(&record[..bytes]).to_le_bytes();
        record[bytes..].copy_from_slice(&sum);
    }
    fs::write(file, content).unwrap();
}

/// A comparison that cannot fail proves nothing.
#[test]
fn what_is_wrong_is_seen() {
    let world = World::shared();
    let steps = sequence(&[Do(Op::Judge(Told::answers(0, 270))), FUSE]);
    let with = |change: fn(&Index) -> ehi::Result<()>| {
        move |path: &Path| change(&Index::open(path).unwrap()).unwrap()
    };
    type Wrong = Box<dyn Fn(&Path)>;
    let wrong: [(&str, Wrong); 10] = [
        ("words weigh", Box::new(|path| fs::remove_file(path.join("models/1/MEASURED")).unwrap())),
        ("nobody's", Box::new(|path| fs::write(path.join("models/1/left"), "by whom").unwrap())),
        ("nobody's", Box::new(|path| fs::create_dir(path.join("models/7")).unwrap())),
        ("are missing", Box::new(with(|index| index.delete(&id(3)).map(drop)))),
        ("not expected", Box::new(with(|index| index.insert(document(3, 1)).map(drop)))),
        (
            "scores",
            Box::new(with(|index| {
                let dim = index.bundle().model().dim();
                index.insert_vectors([(document(3, 0), vector(3, 3, dim))]).map(drop)
            })),
        ),
        ("judgments", Box::new(with(|index| index.record("what?", "d1", 1).map(drop)))),
        ("not expected", Box::new(with(|index| index.insert(Document::new("x", "", "tree")).map(drop)))),
        ("half-life", Box::new(with(|index| index.set_half_life(half_life(30))))),
        ("and of Fresh", Box::new(|path| exchange_vectors(&path.join("models/1/MEMORY")))),
    ];
    for (said, wrong) in wrong {
        let failure = run_and(world, &steps, wrong).expect_err(said);
        assert!(failure.said.contains(said), "{said}: {failure:?}");
    }
}
