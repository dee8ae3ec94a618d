//! Random operations with reopening, against a map.

use proptest::prelude::*;

use serde_json::json;

use super::{expiry::CLOCK, passages::config_with_passages, *};

#[derive(Clone, Debug)]
enum Step {
    Commit {
        /// With the milliseconds until each expires.
        puts: Vec<(u8, u16, usize, u32, i64)>,
        deletes: Vec<u8>,
    },
    Flush,
    Compact,
    Reopen,
    /// For so many milliseconds.
    Wait(i64),
    /// Opens a copy of the directory, as left by a killed process.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    // Lengths on both sides of a chunk's end in addition to short ones.
    let length = prop_oneof![4 => 0usize..40, 1 => 3540usize..3600, 1 => 7000usize..9000];
    let put = (0u8..12, 0u16..2000, length, 0u32..16, -20i64..200);
    let commit = (prop::collection::vec(put, 0..6), prop::collection::vec(0u8..14, 0..4));
    prop_oneof![
        8 => commit.prop_map(|(puts, deletes)| Step::Commit { puts, deletes }),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        2 => (0i64..100).prop_map(Step::Wait),
        1 => Just(Step::Kill),
        2 => Just(Step::Reopen),
    ]
}

/// When a document expires, in milliseconds.
fn until(put: &Put) -> Option<i64> {
    let seconds = put.document.metadata.as_ref()?["until"].as_f64()?;
    Some((seconds * 1000.0).floor() as i64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_store_is_a_map(steps in prop::collection::vec(step(), 1..25), passages in any::<bool>(), expires in any::<bool>()) {
        let mut now = 0;
        CLOCK.set(Some(now));
        let mut dir = tempfile::tempdir().unwrap();
        let config = if passages { config_with_passages() } else { config() };
        let config = StoreConfig { expires: expires.then(|| "until".to_owned()), ..config };
        let mut store = Store::create(dir.path(), &config, StoreOptions::default()).unwrap();
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Commit { puts, deletes } => {
                    let puts = puts.into_iter().map(|(id, seed, length, leaf, left)| {
                        let id = format!("id {id}");
                        let mut put = if passages {
                            put_passages(&id, seed.into(), 1 + length as u32 % 6)
                        } else {
                            let mut put = put(&id, seed.into(), leaf);
                            put.document.text = "ß".repeat(length / 2);
                            put
                        };
                        // Every fifth never expires.
                        let until = (left % 5 != 0).then(|| (now + left) as f64 / 1000.0);
                        put.document.metadata = Some(json!({ "until": until }));
                        put
                    });
                    let deletes = deletes.into_iter().map(|id| format!("id {id}")).collect();
                    let batch = WriteBatch { puts: puts.collect(), deletes };
                    let before = model.clone();
                    let done = commit(&store, &mut model, batch);
                    let gone = before.keys().filter(|id| !model.contains_key(*id)).count();
                    let new = model.keys().filter(|id| !before.contains_key(*id)).count();
                    prop_assert_eq!((done.replaced.iter().filter(|r| !**r).count(), done.deleted), (new, gone));
                }
                Step::Flush => store.flush().unwrap(),
                Step::Compact => {
                    store.compact(&mut || Ok(())).unwrap();
                    prop_assert_eq!(store.stats().unwrap().expired, 0);
                }
                Step::Wait(more) => {
                    now += more;
                    CLOCK.set(Some(now));
                }
                Step::Kill => {
                    let image = tempfile::tempdir().unwrap();
                    copy_directory(dir.path(), image.path());
                    drop(store);
                    dir = image;
                    store = open(dir.path()).unwrap();
                    // Every successful commit is there.
                    prop_assert_eq!(compare(&store.read(), &model), Ok(()));
                }
                Step::Reopen => {
                    let generation = store.read().generation();
                    drop(store);
                    store = open(dir.path()).unwrap();
                    prop_assert_eq!(store.read().generation(), generation);
                }
            }
            if expires {
                model.retain(|_, put| until(put).is_none_or(|until| until > now));
            }
            assert_is(&store, &model);
        }
    }
}
