use std::fs;
use std::path::PathBuf;

use half::f16;
use tempfile::{TempDir, tempdir};

use super::*;

const DIM: usize = 64;

fn key(number: u32) -> Key {
    let mut key = [7; 16];
    key[..4].copy_from_slice(&number.to_be_bytes());
    Key(key)
}

fn row(number: u32) -> Vec<f16> {
    (0..DIM).map(|place| f16::from_f32((number % 1000) as f32 + place as f32 / 64.0)).collect()
}

fn put(cache: &EmbeddingCache, numbers: std::ops::Range<u32>) {
    let rows: Vec<(Key, Vec<f16>)> = numbers.map(|number| (key(number), row(number))).collect();
    cache.put(rows.iter().map(|(key, row)| (key, &row[..])));
}

fn get(cache: &EmbeddingCache, number: u32) -> Option<Vec<f16>> {
    cache.get(&[key(number)], DIM).pop().flatten()
}

/// How many of the first rows are there; each has the right values.
fn count(cache: &EmbeddingCache, numbers: u32) -> u32 {
    let found = |number| get(cache, number).inspect(|found| assert_eq!(*found, row(number))).is_some();
    (0..numbers).map(|number| u32::from(found(number))).sum()
}

fn cache() -> (TempDir, EmbeddingCache) {
    let dir = tempdir().unwrap();
    let cache = EmbeddingCache::new(dir.path().join("cache"));
    (dir, cache)
}

/// Every file of a cache.
fn files(cache: &EmbeddingCache) -> Vec<PathBuf> {
    let databases = fs::read_dir(cache.dir()).unwrap().map(|entry| entry.unwrap().path());
    let databases = databases.filter(|path| path.is_dir());
    let entries = databases.flat_map(|database| fs::read_dir(database).unwrap());
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect()
}

#[test]
fn rows_come_back_to_their_keys_alone() {
    let (_dir, cache) = cache();
    assert_eq!(get(&cache, 1), None);
    put(&cache, 0..100);
    cache.close();
    assert_eq!(count(&cache, 200), 100);
    assert_eq!(cache.get(&[key(1)], DIM - 1), [None]);
    let stats = cache.stats();
    assert_eq!((stats.found, stats.missed, stats.problem), (100, 102, None));
    assert!(stats.bytes > 100 * 2 * DIM as u64);
}

#[test]
fn caches_of_one_folder_are_one() {
    let (_dir, cache) = cache();
    let other = EmbeddingCache::new(cache.dir());
    put(&cache, 0..1);
    assert_eq!(get(&other, 0), Some(row(0)));
    assert_eq!(cache.stats(), other.stats());
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    const ROWS: u32 = 100_000;
    let (_dir, cache) = cache();
    let cache = cache.most_bytes(8 << 20);
    for begin in (0..ROWS).step_by(1000) {
        put(&cache, begin..begin + 1000);
        assert_eq!(get(&cache, 0), Some(row(0)), "used often, and gone after {begin}");
        assert!(cache.stats().bytes < 10 << 20, "{:?}", cache.stats());
    }
    cache.close();
    assert_eq!((get(&cache, 1), get(&cache, ROWS - 1)), (None, Some(row(ROWS - 1))));
    let on_disk: u64 = files(&cache).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(on_disk < 10 << 20, "{on_disk}");
}

#[test]
fn damaged_files_cost_rows_and_never_give_wrong_ones() {
    const ROWS: u32 = 2000;
    for at in 0..24 {
        let (_dir, cache) = cache();
        put(&cache, 0..ROWS);
        cache.close();
        for path in files(&cache) {
            let mut content = fs::read(&path).unwrap();
            let place = content.len() * at / 24;
            match at % 3 {
                0 => content.truncate(place),
                1 => content.iter_mut().skip(place).take(4096).for_each(|byte| *byte = 0xff),
                _ => content.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1),
            }
            fs::write(path, content).unwrap();
        }
        count(&cache, ROWS);
        // Whatever happened, it can be used again.
        cache.close();
        put(&cache, 0..ROWS);
        cache.close();
        put(&cache, 0..ROWS);
        assert_eq!((count(&cache, ROWS), cache.stats().problem), (ROWS, None), "at {at}");
    }
}

#[test]
fn another_user_of_the_folder_is_a_problem_until_it_has_left() {
    let (_dir, cache) = cache();
    put(&cache, 0..10);
    cache.close();
    let other = fs::File::open(cache.dir().join("ehi-embeddings.lock")).unwrap();
    other.lock().unwrap();
    assert_eq!(get(&cache, 0), None);
    assert_eq!(cache.stats().problem.as_deref(), Some("another process uses this folder"));
    drop(other);
    put(&cache, 10..20);
    assert_eq!(get(&cache, 10), None, "nothing is tried again");
    cache.close();
    assert_eq!(count(&cache, 20), 10);
}

#[test]
fn a_file_in_place_of_the_folder_is_a_problem_and_stays() {
    let (_dir, cache) = cache();
    fs::write(cache.dir(), "notes").unwrap();
    put(&cache, 0..1);
    assert!(cache.stats().problem.unwrap().starts_with("the folder cannot be made"));
    assert_eq!(fs::read(cache.dir()).unwrap(), b"notes");
}

#[test]
fn files_of_others_stay() {
    let (_dir, cache) = cache();
    let cache = cache.most_bytes(0);
    fs::create_dir_all(cache.dir().join("embeddings-1")).unwrap();
    fs::write(cache.dir().join("ehi-embeddings-x"), "notes").unwrap();
    (0..5).for_each(|begin| put(&cache, begin * 5000..(begin + 1) * 5000));
    assert_eq!(cache.stats().problem, None);
    assert!(cache.dir().join("embeddings-1").is_dir() && cache.dir().join("ehi-embeddings-x").is_file());
    let names = fs::read_dir(cache.dir()).unwrap();
    assert_eq!(names.count(), 5, "two others, two databases and a lock");
}
