//! Files written, read back, and with one thing wrong at a time.

use std::io::Cursor;
use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<TrecRun, DataError> {
    TrecRun::read(Cursor::new(text.to_owned().into_bytes()), "in")
}

fn written(run: &TrecRun) -> String {
    let mut bytes = Vec::new();
    run.write(&mut bytes, "ehi").unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn rows_are_written_in_the_order_of_trec_eval() {
    let mut run = TrecRun::default();
    for (id, score) in [("b", 0.5), ("a", 0.5), ("B", 0.5), ("z", -0.0), ("y", 0.0), ("é", 0.1)] {
        run.add("q2", id, score).unwrap();
    }
    run.add("q10", "a", 1e-30).unwrap();
    let expected = "q10 Q0 a 1 0.000000000000000000000000000001 ehi\n\
                    q2 Q0 b 1 0.5 ehi\nq2 Q0 a 2 0.5 ehi\nq2 Q0 B 3 0.5 ehi\n\
                    q2 Q0 é 4 0.1 ehi\nq2 Q0 z 5 -0 ehi\nq2 Q0 y 6 0 ehi\n";
    assert_eq!(written(&run), expected);
    assert_eq!(read(expected).unwrap(), run);
    assert_eq!((run.len(), run.is_empty()), (2, false));
    assert_eq!(run.get("q10").unwrap()[0].as_ref(), "a");
}

#[test]
fn ranks_and_tags_of_other_engines_are_ignored() {
    let run = read("q\tQ0\td1\t9\t1e-1\tx\r\n\nq ITER d2   1 +2.5  y\n").unwrap();
    let order: Vec<(&str, f32)> = run.get("q").unwrap().iter().map(|r| (r.id.as_str(), r.score)).collect();
    assert_eq!(order, [("d2", 2.5), ("d1", 0.1)]);
}

#[test]
fn rows_of_the_wrong_form_are_typed_errors() {
    use DataErrorKind::{Conflict, Field, Row};
    let cases = [
        (
            "q Q0 d 1 0.5 t\nq Q0 d 1 0.5\n",
            Row,
            2,
            "5 columns instead of query, Q0, document, rank, score, tag",
        ),
        ("q Q0 d 1 high t\n", Field, 1, "the score `high` is not a finite number"),
        ("q Q0 d 1 NaN t\n", Field, 1, "`NaN`"),
        ("q Q0 d 1 1e99 t\n", Field, 1, "`1e99`"),
        (
            "q Q0 d 1 1 t\np Q0 d 1 1 t\nq Q0 d 2 0.5 t\n",
            Conflict,
            3,
            "document `d` appears twice for query `q`",
        ),
        ("q Q0 d 1 high", Row, 1, ""),
    ];
    for (text, kind, line, says) in cases {
        let error = read(text).unwrap_err();
        assert_eq!((error.kind(), error.line()), (kind, Some(line)), "{text:?}: {error}");
        assert!(error.to_string().contains(says), "{text:?}: {error}");
    }
    let error = TrecRun::read(&b"q Q0 \xff 1 1 t"[..], "in").unwrap_err();
    assert_eq!(error.to_string(), "in:1: not UTF-8 from byte 5 of the line; convert the file");
}

#[test]
fn judgments_round_trip() {
    let mut qrels = Qrels::default();
    for (query, id, grade) in [("q2", "b", 2), ("q2", "a", 0), ("q1", "c", -1)] {
        qrels.insert(query, id, grade);
    }
    let mut bytes = Vec::new();
    write_qrels(&mut bytes, &qrels).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), "q1 0 c -1\nq2 0 a 0\nq2 0 b 2\n");
    assert_eq!(Qrels::read_trec(Cursor::new(bytes), "in").unwrap(), qrels);

    let error = Qrels::read_trec(&b"q 0 d 1\nq 0 d 2\n"[..], "in").unwrap_err();
    assert_eq!((error.kind(), error.line()), (DataErrorKind::Conflict, Some(2)), "{error}");
    let error = Qrels::read_trec(&b"q 0 d 1.0\n"[..], "in").unwrap_err();
    assert!(error.to_string().contains("the score `1.0` is not a 32-bit integer"), "{error}");
    let error = Qrels::read_trec(&b"query-id corpus-id score\n"[..], "in").unwrap_err();
    assert!(error.to_string().contains("3 columns instead of query-id, 0, corpus-id, score"), "{error}");
}

/// Reading once accepted these as parts of an id that writing then refused.
#[test]
fn what_is_read_can_be_written() {
    // `trec_eval` splits at a vertical tab.
    let run = read("q\u{0b}Q0 d\u{0b}\u{0b}1 0.5 t\n").unwrap();
    assert_eq!(run.get("q").unwrap()[0].id, "d");
    assert_eq!(read(&written(&run)).unwrap(), run);
    for row in ["q Q0 d\0 1 0.5 t\n", "q\0 Q0 d 1 0.5 t\n", "q Q0 \u{feff}d 1 0.5 t\n"] {
        let error = read(row).unwrap_err();
        assert_eq!((error.kind(), error.line()), (DataErrorKind::Field, Some(1)), "{row:?}: {error}");
        assert!(
            error.to_string().contains("a NUL or a byte order mark") && !error.to_string().contains('\0')
        );
    }
}

#[test]
fn what_a_file_cannot_hold_is_refused() {
    for bad in ["", "two words", "tab\there", "line\nfeed", "vertical\u{0b}tab", "nul\0", "\u{feff}mark"] {
        let mut by_id = TrecRun::default();
        by_id.add("q", bad, 1.0).unwrap();
        let mut by_query = TrecRun::default();
        by_query.add(bad, "d", 1.0).unwrap();
        let mut qrels = Qrels::default();
        qrels.insert("q", bad, 1);
        let results = [
            by_id.write(io::sink(), "tag"),
            by_query.write(io::sink(), "tag"),
            TrecRun::default().write(io::sink(), bad),
            write_qrels(io::sink(), &qrels),
        ];
        for result in results {
            assert!(result.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput), "{bad:?}");
        }
    }
    let mut run = TrecRun::default();
    for score in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(run.add("q", "d", score).is_err_and(|error| error.kind() == DataErrorKind::Field));
    }
    assert!(run.is_empty());
    run.add("q", "d", 1.0).unwrap();
    let mut full: &mut [u8] = &mut [0; 4];
    assert!(run.write(&mut full, "tag").is_err());
}

fn finite_score() -> impl Strategy<Value = f32> {
    let bits = any::<u32>().prop_map(f32::from_bits);
    prop_oneof![bits, (0i8..4).prop_map(f32::from)]
        .prop_filter("scores are finite", |score| score.is_finite())
}

proptest! {
    #[test]
    fn runs_round_trip_to_the_bit(
        results in prop::collection::btree_map((0u8..4, 0u16..300), finite_score(), 0..60),
    ) {
        let mut run = TrecRun::default();
        for ((query, id), score) in &results {
            run.add(format!("q{query}"), format!("d{id}"), *score).unwrap();
        }
        let text = written(&run);
        let back = read(&text).unwrap();
        prop_assert_eq!(written(&back), text.clone());
        for (query, expected) in run.iter() {
            let got = back.get(query).unwrap();
            prop_assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(expected) {
                prop_assert_eq!(&got.id, &expected.id);
                prop_assert_eq!(got.score.to_bits(), expected.score.to_bits());
            }
            for pair in expected.windows(2) {
                let (better, worse) = (&pair[0], &pair[1]);
                prop_assert!((better.score, &better.id) > (worse.score, &worse.id));
            }
        }
        // `trec_eval` reads a score as a double and keeps it as a float.
        for line in text.lines() {
            let score = line.split(' ').nth(4).unwrap();
            let as_c: f64 = score.parse().unwrap();
            prop_assert_eq!((as_c as f32).to_bits(), score.parse::<f32>().unwrap().to_bits());
        }
    }

    #[test]
    fn any_text_ends_without_a_panic(text in any::<String>()) {
        let _ = read(&text);
        let _ = Qrels::read_trec(Cursor::new(text.into_bytes()), "in");
    }
}

#[test]
fn the_mean_is_over_judged_queries() {
    let (metric, level) = (Metric::Recall(NonZeroUsize::MIN), RelevanceLevel::default());
    let mut qrels = Qrels::default();
    let mut run = TrecRun::default();
    assert_eq!(metric.mean(&run, &qrels, level), 0.0);
    qrels.insert("found", "a", 1);
    qrels.insert("absent", "a", 1);
    run.add("found", "a", 0.5).unwrap();
    run.add("not judged", "a", 0.5).unwrap();
    assert_eq!(metric.mean(&run, &qrels, level), 0.5);
}
