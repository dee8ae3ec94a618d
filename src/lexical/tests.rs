//! Lists compared with their postings, and searches compared with scoring every row.

use super::cursor::Cursor;
use super::*;
use crate::scan::TopK;
use proptest::prelude::*;
use proptest::sample::Index;

fn posting((row, count): (u32, u32)) -> Posting {
    Posting { row, count }
}

/// Postings with ascending rows at most `gap` apart.
fn postings(most: usize, gap: u32) -> impl Strategy<Value = Vec<Posting>> {
    let count = prop_oneof![6 => 1u32..5, 2 => 1u32..400, 1 => 1u32..1_000_000];
    let lists = |count| prop::collection::vec((1..=gap, count), 0..most);
    prop_oneof![lists(count.boxed()), lists((1u32..4).boxed())].prop_map(|steps| {
        let mut next = 0u64;
        let rows = steps.into_iter().map(|(step, count)| {
            next += u64::from(step);
            (next - 1, count)
        });
        let rows = rows.take_while(|(row, _)| *row < u64::from(END));
        rows.map(|(row, count)| posting((row as u32, count))).collect()
    })
}

fn any_postings() -> impl Strategy<Value = Vec<Posting>> {
    prop_oneof![postings(700, 1), postings(700, 3), postings(700, 100), postings(700, u32::MAX / 500)]
}

fn bytes(postings: &[Posting], length: impl Fn(u32) -> u32) -> Vec<u8> {
    let mut out = Vec::new();
    encode(postings, length, &mut out);
    out
}

fn decoded(bytes: &[u8], n: usize) -> Result<Vec<Posting>, Undecodable> {
    let mut out = Vec::new();
    EncodedList::new(bytes, n)?.decode_all(&mut out)?;
    Ok(out)
}

#[test]
fn the_last_row_and_the_highest_count_are_kept() {
    for n in [1, 127, 128, 129, 256] {
        let mut list: Vec<_> = (0..n).map(|row| posting((row, 1))).collect();
        *list.last_mut().unwrap() = posting((u32::MAX - 1, u32::MAX));
        assert_eq!(decoded(&bytes(&list, |_| 7), n as usize).unwrap(), list);
    }
    assert_eq!(decoded(&[], 0), Ok(Vec::new()));
    assert_eq!(decoded(&[0], 0), Err(Undecodable));
    assert_eq!(decoded(&[], usize::MAX), Err(Undecodable));
    // A repeated row 0, an invalid row, a count of 0, a number that is too long.
    for wrong in
        [&[0, 1, 0, 1][..], &[0xff, 0xff, 0xff, 0xff, 0xf, 1], &[0, 0], &[0x80, 0x80, 0x80, 0x80, 0x10, 1]]
    {
        assert_eq!(decoded(wrong, wrong.len() / 4 + usize::from(wrong.len() < 4)), Err(Undecodable));
    }
}

/// Lists on disk must stay readable.
#[test]
fn the_bytes_never_change() {
    assert_eq!(bytes(&[(3, 1), (200, 300)].map(posting), |_| 9), [3, 1, 0xc5, 1, 0xac, 2]);
    let list: Vec<_> = (0..129).map(|row| posting((row * 2, 1 + row % 2))).collect();
    let all = bytes(&list, |row| 10 + row % 7);
    assert_eq!(all[..16], [254, 0, 0, 0, 48, 0, 0, 0, 2, 1, 2, 10, 0, 0, 0, 0]);
    assert_eq!((all[16..].len(), &all[64..]), (50, &[2, 1][..]));
}

proptest! {
    #[test]
    fn lists_come_back(list in any_postings()) {
        let encoded = bytes(&list, |row| row % 300);
        prop_assert_eq!(decoded(&encoded, list.len()), Ok(list));
    }

    #[test]
    fn cursors_go_where_they_are_told(
        list in any_postings(),
        targets in prop::collection::vec(any::<(Index, bool, u8)>(), 0..50),
    ) {
        // A part has fewer rows than this.
        let list: Vec<_> = list.into_iter().filter(|posting| posting.row < 100_000).collect();
        let (lengths, norms) = (vec![5; 100_000], Norms::new(Bm25::default(), 5.0));
        let encoded = bytes(&list, |_| 5);
        for list_of in [List::Plain(&list), List::Encoded(EncodedList::new(&encoded, list.len()).unwrap())] {
            let mut cursor = Cursor::open(list_of, 1.0, &lengths, &norms).unwrap();
            let mut place = 0;
            for (index, step, beside) in &targets {
                if *step {
                    if place < list.len() {
                        cursor.advance().unwrap();
                        place += 1;
                    }
                } else if !list.is_empty() {
                    let row = index.get(&list).row + u32::from(*beside) % 3;
                    let last = cursor.block_last_row(row.max(cursor.row().min(99_999)));
                    match beside / 3 % 3 {
                        0 => cursor.seek(row).unwrap(),
                        skipped => {
                            let mut taken = 0;
                            let count = |rows: &[u32], _: &[f32]| taken += rows.len();
                            cursor.take_until(row, |_| skipped == 1, count).unwrap();
                            let all = list.partition_point(|posting| posting.row < row).saturating_sub(place);
                            prop_assert_eq!(taken, if skipped == 1 { 0 } else { all });
                        }
                    }
                    place = place.max(list.partition_point(|posting| posting.row < row));
                    prop_assert!(last >= cursor.row() || last == END || cursor.row() == END || last >= row);
                }
                let here = list.get(place);
                prop_assert_eq!(cursor.row(), here.map_or(END, |posting| posting.row));
                prop_assert!(here.is_none_or(|posting| posting.count == cursor.count()));
            }
        }
    }

    #[test]
    fn damage_never_panics(
        list in prop_oneof![postings(300, 2), postings(300, 5000)],
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<Index>()),
        n in prop::option::of(0usize..1000),
        k in 1usize..20,
    ) {
        let mut encoded = bytes(&list, |row| row % 60);
        for (place, byte) in damage {
            if !encoded.is_empty() {
                let place = place.index(encoded.len());
                encoded[place] ^= byte;
            }
        }
        if let Some(cut) = cut {
            encoded.truncate(cut.index(encoded.len() + 1));
        }
        let n = n.unwrap_or(list.len());
        if let Ok(found) = decoded(&encoded, n) {
            prop_assert!(found.len() == n && found.is_sorted_by(|a, b| a.row < b.row));
        }
        let Ok(damaged) = EncodedList::new(&encoded, n) else { return Ok(()) };
        let lengths: Vec<u32> = (0..2_000_000).map(|row| row % 60).collect();
        let norms = Norms::new(Bm25::default(), 30.0);
        for required in [false, true] {
            let term = |list, required| QueryTerm { list, weight: 1.0, required };
            let terms = [term(List::Encoded(damaged), required), term(List::Plain(&list), false)];
            let mut top = TopK::new(k);
            let _ = search::<Undecodable>(&terms, &lengths, &norms, 0, &mut |_, _| Ok(true), &mut top);
            let _ = score_rows(&terms, &lengths, &norms, &[0, 5, 700, 90_000], &mut Vec::new());
        }
    }

    #[test]
    fn bounds_are_bounds(
        list in any_postings(),
        k1 in prop_oneof![Just(0.0f32), 0f32..4.0, 0f32..1e6],
        b in prop_oneof![Just(0.0f32), Just(1.0f32), 0f32..1.0],
        average in prop_oneof![Just(0.0f32), 0.01f32..1000.0],
        weight in 0f32..20.0,
        seed in any::<u32>(),
        from in 0u32..50_000,
        width in 1u32..50_000,
    ) {
        let list: Vec<_> = list.into_iter().filter(|posting| posting.row < 60_000).collect();
        let length = |row: u32| (row.wrapping_mul(seed | 1) >> 16) % (1 << (seed % 17));
        let lengths: Vec<u32> = (0..60_000).map(length).collect();
        let encoded = bytes(&list, |row| lengths[row as usize]);
        let norms = Norms::new(Bm25 { k1, b }, average);
        for list_of in [List::Plain(&list), List::Encoded(EncodedList::new(&encoded, list.len()).unwrap())] {
            let mut cursor = Cursor::open(list_of, weight, &lengths, &norms).unwrap();
            let most = cursor.max_bound();
            let within = cursor.clone().bound_within(from, from + width).unwrap();
            let mut closest = cursor.clone();
            for posting in &list {
                let score = norms.score(weight, posting.count, lengths[posting.row as usize]);
                prop_assert!(score.is_finite() && score <= weight && score <= most);
                prop_assert!(cursor.block_last_row(posting.row) >= posting.row);
                prop_assert!(score <= cursor.block_bound());
                let start = posting.row.saturating_sub(width % 512);
                prop_assert!(score <= closest.bound_within(start, posting.row + 1).unwrap());
                prop_assert!(!(from..from + width).contains(&posting.row) || score <= within);
            }
        }
    }
}

#[test]
fn scores_by_hand() {
    // N 5, df 2: ln(1 + 3.5 / 2.5) = ln 2.4.
    assert!((Bm25::idf(5, 2) - 0.875_468_7).abs() < 1e-6);
    assert!((Bm25::idf(0, 0) - 2f32.ln()).abs() < 1e-6);
    assert!(Bm25::idf(5, 9) > 0.0);
    // tf 3, len 8, average 4: 3 / (3 + 1.2 (0.25 + 0.75 * 2)) = 3 / 5.1.
    let norms = Norms::new(Bm25::default(), 4.0);
    assert!((norms.score(0.875_468_7, 3, 8) - 0.514_981_6).abs() < 1e-6);
    // tf 1, len 10,000: 1 / (1 + 1.2 (0.25 + 0.75 * 2500)), beyond the table.
    assert!((norms.score(1.0, 1, 10_000) - 1.0 / 2251.3).abs() < 1e-9);
    // Without an average, as long as the average.
    for average in [0.0, -1.0, f32::NAN] {
        assert!((Norms::new(Bm25::default(), average).score(1.0, 1, 9) - 1.0 / 2.2).abs() < 1e-6);
    }
    assert_eq!(Norms::new(Bm25 { k1: 0.0, b: 1.0 }, 4.0).score(2.0, 7, 8), 2.0);
}

/// The value of a row, by definition.
fn value(terms: &[(Vec<Posting>, f32, bool)], row: u32, length: u32, norms: &Norms) -> (Option<f32>, bool) {
    let (mut score, mut holds, mut matches) = (0f32, false, true);
    for (list, weight, required) in terms {
        let posting = list.binary_search_by_key(&row, |posting| posting.row).ok().map(|place| list[place]);
        matches &= posting.is_some() || !required;
        if let Some(posting) = posting {
            score += norms.score(*weight, posting.count, length);
            holds = true;
        }
    }
    (matches.then_some(score), holds)
}

/// Number of collections tried.
const CASES: u32 = 400;

#[derive(Clone, Debug)]
struct Case {
    /// Base, lengths, and the postings of each term.
    parts: Vec<(Vec<u32>, Vec<Vec<Posting>>)>,
    terms: Vec<(f32, bool)>,
    parameters: Bm25,
    average: f32,
    k: usize,
    backwards: bool,
    refuse: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let required = |times: u32| prop_oneof![12 => Just(false), times => Just(true)];
    let weight = prop_oneof![8 => 0.01f32..9.0, 2 => Just(1.0f32), 1 => Just(0.0f32)];
    let list = prop_oneof![
        4 => postings(4000, 2), 4 => postings(2000, 5), 4 => postings(800, 20), 2 => postings(100, 200),
        1 => Just(Vec::new())
    ];
    let terms = prop_oneof![
        prop::collection::vec((weight.clone(), required(1)), 0..9),
        prop::collection::vec((weight.clone(), required(12)), 0..5),
        prop::collection::vec((weight.clone(), Just(true)), 1..3),
        prop::collection::vec((weight, Just(false)), 1..9),
    ];
    terms
        .prop_flat_map(move |terms| {
            let n = terms.len();
            let lists = prop::collection::vec(list.clone(), n);
            let part = (10usize..12_000, prop_oneof![0u32..4, 0u32..2000], any::<u32>(), lists);
            let k =
                prop_oneof![4 => 1usize..15, 2 => 15usize..300, 1 => Just(0usize), 1 => Just(100_000usize)];
            let any_bm25 = (0f32..3.0, 0f32..=1.0).prop_map(|(k1, b)| Bm25 { k1, b });
            (
                Just(terms),
                prop::collection::vec(part, 1..4),
                prop_oneof![3 => Just(Bm25::default()), 1 => any_bm25],
                prop_oneof![3 => 1f32..500.0, 1 => Just(0.0f32)],
                k,
                any::<bool>(),
                0u32..5,
            )
        })
        .prop_map(|(terms, parts, parameters, average, k, backwards, refuse)| {
            let parts = parts.into_iter().map(|(rows, spread, seed, lists)| {
                // Whole blocks differ, so that some can be skipped.
                let region = |row: u32| 1 + (row / 300 + seed % 16) % 5;
                let hash = |row: u32| row.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 12;
                let length = |row: u32| region(row) * (1 + hash(row) % (1 + spread));
                let lengths: Vec<u32> = (0..rows as u32).map(length).collect();
                let fits = |mut list: Vec<Posting>| {
                    list.retain(|posting| (posting.row as usize) < rows);
                    list
                };
                (lengths, lists.into_iter().map(fits).collect())
            });
            Case { parts: parts.collect(), terms, parameters, average, k, backwards, refuse }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn the_best_are_those_of_scoring_every_row(case in case()) {
        let norms = Norms::new(case.parameters, case.average);
        let mut bases: Vec<u32> = case.parts.iter().scan(7, |next, part| {
            let base = *next;
            *next += part.0.len() as u32;
            Some(base)
        }).collect();
        let mut parts: Vec<_> = case.parts.iter().collect();
        if case.backwards {
            parts.reverse();
            bases.reverse();
        }
        let refused = |row: u32| case.refuse > 0 && row.is_multiple_of(case.refuse + 1);
        let mut best = TopK::new(case.k);
        let mut expected = Vec::new();
        for (place, ((lengths, lists), base)) in parts.into_iter().zip(bases).enumerate() {
            let encoded: Vec<_> = lists.iter().map(|list| bytes(list, |row| lengths[row as usize])).collect();
            let listed = lists.iter().zip(&encoded).zip(&case.terms);
            let terms: Vec<_> = listed.map(|((list, bytes), &(weight, required))| {
                let list = match place {
                    1 => List::Plain(list),
                    _ => List::Encoded(EncodedList::new(bytes, list.len()).unwrap()),
                };
                QueryTerm { list, weight, required }
            }).collect();
            let mut asked = None;
            let mut accept = |row: u32, _: f32| {
                assert!(asked < Some(row), "once for each row");
                asked = Some(row);
                Ok::<_, Undecodable>(!refused(row))
            };
            let stats = search(&terms, lengths, &norms, base, &mut accept, &mut best).unwrap();
            prop_assert!(stats.postings <= lists.iter().map(|list| list.len()).sum());

            let plain = lists.iter().zip(&case.terms);
            let plain: Vec<_> =
                plain.map(|(list, &(weight, required))| (list.clone(), weight, required)).collect();
            let mut given = Vec::new();
            let rows: Vec<u32> = (0..lengths.len() as u32 + 2).filter(|row| row % 3 != 1).collect();
            score_rows(&terms, lengths, &norms, &rows, &mut given).unwrap();
            let mut given = rows.iter().zip(given);
            for (row, &length) in (0..).zip(lengths) {
                let (score, holds) = value(&plain, row, length, &norms);
                if row % 3 != 1 {
                    prop_assert_eq!(given.next().unwrap().1.map(f32::to_bits), score.map(f32::to_bits));
                }
                if let (Some(score), true, false) = (score, holds, refused(row)) {
                    expected.push((score, base + row));
                }
            }
            prop_assert!(given.all(|(_, score)| score.is_none()));
        }
        expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        expected.truncate(case.k);
        let expected: Vec<_> = expected.into_iter().map(|(score, row)| (score.to_bits(), row)).collect();
        let best = best.into_sorted().into_iter().map(|(score, row)| (score.to_bits(), row.0));
        prop_assert_eq!(best.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn what_is_not_asked_for_is_not_found() {
    let list = [posting((0, 1)), posting((2, 3))];
    let norms = Norms::new(Bm25::default(), 3.0);
    let found = |terms: &[QueryTerm], k| {
        let mut best = TopK::new(k);
        search::<Undecodable>(terms, &[3, 3, 3], &norms, 0, &mut |_, _| Ok(true), &mut best).unwrap();
        best.into_sorted().into_iter().map(|(_, row)| row.0).collect::<Vec<_>>()
    };
    let term = |list, required| QueryTerm { list: List::Plain(list), weight: 1.0, required };
    assert!(found(&[], 5).is_empty());
    assert!(found(&[term(&[], false)], 5).is_empty());
    assert!(found(&[term(&list, false), term(&[], true)], 5).is_empty());
    assert!(found(&[term(&list, false)], 0).is_empty());
    assert_eq!(found(&[term(&list, true)], 5000), [2, 0]);
    // NaN weights count as 0, and rows still match.
    assert_eq!(found(&[QueryTerm { weight: f32::NAN, ..term(&list, false) }], 5), [0, 2]);

    let mut best = TopK::new(5);
    #[derive(Debug, PartialEq)]
    enum Failure {
        Accept,
        List,
    }
    impl From<Undecodable> for Failure {
        fn from(_: Undecodable) -> Self {
            Self::List
        }
    }
    let mut failing = |_, _| Err(Failure::Accept);
    let terms = [term(&list, false)];
    assert_eq!(search(&terms, &[3; 3], &norms, 0, &mut failing, &mut best), Err(Failure::Accept));
    // A row outside the part.
    let short = search(&terms, &[3; 2], &norms, 0, &mut |_, _| Ok(true), &mut best);
    assert_eq!(short, Err(Failure::List));
}

proptest! {
    /// As the fuzz target, with bytes similar to a list's.
    #[test]
    fn the_fuzz_target_holds(
        list in any_postings(),
        n in prop::option::of(0u16..700),
        flips in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<Index>()),
    ) {
        let mut all = n.unwrap_or(list.len() as u16).to_le_bytes().to_vec();
        all.extend(bytes(&list, |row| row % 90 + 1));
        for (place, byte) in flips {
            let place = place.index(all.len());
            all[place] ^= byte;
        }
        if let Some(cut) = cut {
            all.truncate(cut.index(all.len() + 1));
        }
        super::fuzzing::fuzz_postings(&all);
    }

    #[test]
    fn any_bytes_are_no_harm(all in prop::collection::vec(any::<u8>(), 0..600)) {
        super::fuzzing::fuzz_postings(&all);
    }
}
