//! Random operations with reopening, against a map.

use proptest::prelude::*;

use super::{passages::config_with_passages, *};

#[derive(Clone, Debug)]
enum Step {
    Commit {
        puts: Vec<(u8, u16, usize, u32)>,
        deletes: Vec<u8>,
    },
    Flush,
    Compact,
    Reopen,
    /// Opens a copy of the directory, as left by a killed process.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    // Lengths on both sides of a chunk's end in addition to short ones.
    let length = prop_oneof![4 => 0usize..40, 1 => 3540usize..3600, 1 => 7000usize..9000];
    let put = (0u8..12, 0u16..2000, length, 0u32..16);
    let commit = (prop::collection::vec(put, 0..6), prop::collection::vec(0u8..14, 0..4));
    prop_oneof![
        8 => commit.prop_map(|(puts, deletes)| Step::Commit { puts, deletes }),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Kill),
        2 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_store_is_a_map(steps in prop::collection::vec(step(), 1..25), passages in any::<bool>()) {
        let mut dir = tempfile::tempdir().unwrap();
        let config = if passages { config_with_passages() } else { config() };
        let mut store = Store::create(dir.path(), &config, StoreOptions::default()).unwrap();
        let mut model = Model::new();
        for step in steps {
            match step {
                Step::Commit { puts, deletes } => {
                    let puts = puts.into_iter().map(|(id, seed, length, leaf)| {
                        if passages {
                            return put_passages(&format!("id {id}"), seed.into(), 1 + length as u32 % 6);
                        }
                        let mut put = put(&format!("id {id}"), seed.into(), leaf);
                        put.document.text = "ß".repeat(length / 2);
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
                Step::Compact => store.compact(&mut || Ok(())).unwrap(),
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
            assert_is(&store, &model);
        }
    }
}
