//! An index in processes that change: another working directory, a fork.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use crate::support::{self, Shape, bundle, document, documents, filled};
use ehi::store::StoreError;
use ehi::{Bundle, CacheStats, EmbeddingCache, Error, Index, SearchRequest};

const TASK: &str = "EHI_TEST_PROCESS";
const SHAPE: Shape = Shape { height: 1 };
const OTHER: Shape = Shape { height: 2 };

/// Runs a test of this file in a separate process, which receives the places that it works with.
fn run(test: &str, places: &[&Path]) -> Output {
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("processes::{test}"), "--nocapture", "--test-threads=1"])
        .env(TASK, places.join("\n"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    output
}

fn places() -> Option<Vec<String>> {
    Some(env::var(TASK).ok()?.lines().map(str::to_owned).collect())
}

/// Not a test: the process of the next one.
#[test]
fn moves_about() {
    let Some(places) = places() else { return };
    let [home, old, new] = [0, 1, 2].map(|at| Path::new(&places[at]));
    let elsewhere = home.join("elsewhere");
    env::set_current_dir(home).unwrap();
    let index = Index::create("index", &Bundle::open(old).unwrap()).unwrap();
    assert_eq!(index.path(), home.join("index").canonicalize().unwrap());
    env::set_current_dir(&elsewhere).unwrap();
    index.insert_batch(documents(10)).unwrap();
    index.flush().unwrap();
    index.reencode(&Bundle::open(new).unwrap()).unwrap();
    index.compact().unwrap();
    index.drop_previous_model().unwrap();
    // Relative to the current working directory.
    index.snapshot("copy").unwrap();
    assert!(index.verify().unwrap().is_sound());
    drop(index);
    env::set_current_dir(home).unwrap();
    let (index, reader) = (Index::open("index").unwrap(), Index::open_read_only("./index").unwrap());
    env::set_current_dir(&elsewhere).unwrap();
    index.insert(document(10)).unwrap();
    index.flush().unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.len(), 11);
    assert!(index.rollback().is_err());
    assert_eq!(reader.previous_model().unwrap(), None);
}

#[test]
fn another_working_directory_does_not_matter() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("elsewhere")).unwrap();
    let (old, new) = (bundle(SHAPE), bundle(OTHER));
    run("moves_about", &[home.path(), old.path(), new.path()]);
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(home.path()), ["elsewhere", "index"]);
    assert_eq!(names(&home.path().join("elsewhere")), ["copy"]);
    assert_eq!(Index::open(home.path().join("index")).unwrap().len(), 11);
    assert_eq!(Index::open(home.path().join("elsewhere/copy")).unwrap().len(), 10);
}

/// The checks in a forked child; its exit status says which failed first.
#[allow(unsafe_code, reason = "there is no fork in the standard library")]
fn in_a_child(checks: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `checks` and leaves by `_exit`, without running the parent's destructors.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(checks)).unwrap_or(-1);
        // SAFETY: only ends this process.
        unsafe { libc::_exit(failed) }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

/// Not a test: the process of the next one, which forks.
#[test]
fn forks() {
    let Some(places) = places() else { return };
    let [path, other] = [0, 1].map(|at| Path::new(&places[at]));
    let other = Bundle::open(other).unwrap();
    let cache = EmbeddingCache::new(path.join("../cache"));
    let index = Index::builder().embedding_cache(cache.clone()).open(path).unwrap();
    let stored = index.len();
    // Only in memory and in the journal: a flush by the child would make it durable.
    index.insert(document(stored)).unwrap();
    let vector = vec![0.5; index.bundle().model().dim()];
    let before = fs::read(path.join("models/1/MANIFEST")).unwrap();
    let (mut index, mut cache) = (Some(index), Some(cache));
    let failed = in_a_child(|| {
        let Some(index) = index.take() else { return 1 };
        fn forked<T>(result: Result<T, Error>) -> bool {
            matches!(result, Err(Error::Store(StoreError::Forked)))
        }
        let refused = [
            forked(index.insert(document(99))),
            forked(index.insert_vectors([(document(99), vector.clone())])),
            forked(index.delete(&support::id(1))),
            forked(index.flush()),
            forked(index.compact()),
            forked(index.rebuild_postings()),
            forked(index.search("tree leaf", 3, 3)),
            forked(index.search_with(&vector, &SearchRequest::dense().k(3).beam(3))),
            forked(index.search_many(&["tree"], &SearchRequest::dense().k(3).beam(3))),
            forked(index.search_many([&vector], &SearchRequest::dense().k(3).beam(3))),
            forked(index.reencode(&other)),
            forked(index.rollback()),
            forked(index.drop_previous_model()),
            forked(index.snapshot(path.join("../copy"))),
        ];
        if let Some(at) = refused.iter().position(|refused| !refused) {
            return 10 + at as i32;
        }
        drop(index);
        // Its threads are those of the parent.
        let Some(cache) = cache.take() else { return 3 };
        cache.close();
        if cache.stats() != CacheStats::default() {
            return 4;
        }
        drop(cache);
        match Index::open(path) {
            Err(Error::Store(StoreError::Locked { .. })) => 0,
            _ => 2,
        }
    });
    assert_eq!(failed, 0, "the check of this number failed in the child");
    assert_eq!(fs::read(path.join("models/1/MANIFEST")).unwrap(), before, "the child flushed");
    // The parent holds the lock and continues.
    let refused = Index::open(path).err();
    assert!(matches!(refused, Some(Error::Store(StoreError::Locked { .. }))), "{refused:?}");
    let index = index.unwrap();
    assert_eq!(index.len(), stored + 1);
    assert_eq!(index.insert(document(stored)).unwrap().cached, 1);
    index.insert(document(stored + 1)).unwrap();
    index.flush().unwrap();
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_forked_child_neither_writes_nor_unlocks() {
    let (dir, index) = filled(SHAPE, 20);
    drop(index);
    let path = dir.path().join("index");
    run("forks", &[&path, bundle(OTHER).path()]);
    assert_eq!(Index::open(&path).unwrap().len(), 22);
    assert!(!dir.path().join("copy").exists());
}
