//! A truly full disk, if one can be made: a small file system in memory, which needs the right to mount.

use std::process::Command;

use super::*;

const BYTES: usize = 6 << 20;
const PAGE: u64 = 4096;

/// A mounted file system; unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={BYTES}"), "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then(|| Self(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn a_full_disk_takes_nothing_away_and_can_be_emptied() {
    for durability in [Durability::OnFlush, Durability::EveryBatch] {
        let Some(disk) = Small::mount() else {
            println!("not run: no file system can be mounted here");
            return;
        };
        let dir = disk.0.path().join("index");
        let options = StoreOptions { durability, ..StoreOptions::default() };
        let store = Store::create(&dir, &config(), options).unwrap();
        let mut model = Model::new();
        let mut failures = Vec::new();
        for n in 0..400u32 {
            let mut put = put(&format!("d{n}"), n, n % LEAVES);
            put.document.text = format!("{n} ").repeat(10_000);
            let batch = puts(vec![put]);
            let before = store.read().generation();
            let done = store.commit(batch.clone()).map(drop).and_then(|()| store.flush());
            if store.read().generation() != before {
                apply(&mut model, &batch);
            }
            if let Err(error) = done {
                failures.push(error.to_string());
                if failures.len() == 5 {
                    break;
                }
            }
            assert_eq!(compare(&store.read(), &model), Ok(()));
        }
        assert_eq!(failures.len(), 5, "{BYTES} bytes were enough");
        assert!(model.len() > 10);
        // Fewer documents need less room, even if little is left; the rest is still there.
        let kept: Vec<String> = model.keys().skip(3).cloned().collect();
        let gone = deletes(&kept.iter().map(String::as_str).collect::<Vec<_>>());
        store.commit(gone.clone()).unwrap_or_else(|error| panic!("{durability:?}: {error}; {failures:?}"));
        apply(&mut model, &gone);
        store.compact(&mut || Ok(())).unwrap();
        assert_is(&store, &model);
        store.commit(puts(vec![put("after", 7, 7)])).unwrap();
        apply(&mut model, &puts(vec![put("after", 7, 7)]));
        drop(store);
        let store = Store::open(&dir, options).unwrap();
        assert_is(&store, &model);
        assert!(store.verify().unwrap().is_sound());
    }
}

impl Small {
    /// Fills the disk except for about `free` bytes; undone by removing the returned file.
    fn fill(&self, free: u64) -> PathBuf {
        let path = self.0.path().join("filler");
        let _ = fs::remove_file(&path);
        let available = self.free().saturating_sub(free) / PAGE * PAGE;
        if available > 0 {
            let file = fs::File::create(&path).unwrap();
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, available).unwrap();
        }
        path
    }

    fn free(&self) -> u64 {
        let found = rustix::fs::statvfs(self.0.path()).unwrap();
        found.f_bavail * found.f_frsize
    }
}

/// What a workload may leave on a full disk: the acknowledged state, and the commit that failed, applied or
/// not.
struct Told {
    acknowledged: Model,
    failures: usize,
    /// Refused commits that only delete.
    refused_deletes: usize,
}

/// A long mixed workload; failures are not retried.
fn work(store: &Store, mut model: Model, seed: u32) -> Told {
    let (mut failures, mut refused_deletes) = (0, 0);
    for n in 0..24u32 {
        let n = seed + n;
        let mut big = put(&format!("d{}", n % 17), n, n % LEAVES);
        big.document.text = format!("{n} ").repeat(4000);
        let batch = match n % 6 {
            5 => deletes(&[format!("d{}", n % 17), format!("d{}", (n + 3) % 17)]),
            4 => puts((0..20).map(|k| put(&format!("s{k}"), n, k % LEAVES)).collect()),
            _ => puts(vec![big]),
        };
        match store.commit(batch.clone()) {
            Ok(_) => apply(&mut model, &batch),
            Err(error) => {
                assert!(error.is_out_of_space(), "{error}");
                failures += 1;
                refused_deletes += usize::from(batch.puts.is_empty());
            }
        }
        let done = match n % 8 {
            2 => store.flush(),
            7 => store.compact(&mut || Ok(())),
            _ => Ok(()),
        };
        if let Err(error) = done {
            assert!(error.is_out_of_space(), "{error}");
            failures += 1;
        }
        assert_eq!(compare(&store.read(), &model), Ok(()), "after commit {n}");
    }
    Told { acknowledged: model, failures, refused_deletes }
}

/// The disk is full from an arbitrary moment on: nothing acknowledged is lost, in this handle, in the next
/// one on the still full disk, and in the one after it with space again, which then works normally.
#[test]
fn a_disk_that_is_full_from_any_moment_on() {
    let Some(disk) = Small::mount() else {
        println!("not run: no file system can be mounted here");
        return;
    };
    let (mut failures, mut refused) = (0, 0);
    for (round, free) in (0..60u64).map(|n| n * 11 * PAGE).enumerate() {
        let durability = [Durability::OnFlush, Durability::EveryBatch][round % 2];
        let options = StoreOptions { durability, ..StoreOptions::default() };
        let dir = disk.0.path().join(format!("index-{round}"));
        let store = Store::create(&dir, &config(), options).unwrap();
        let before = work(&store, Model::new(), 0);
        assert_eq!(before.failures, 0);
        let filler = disk.fill(free);
        let told = work(&store, before.acknowledged, 100);
        failures += told.failures;
        refused += told.refused_deletes;
        // Without closing, like a killed process; the disk has no room for a copy, so the lock is taken over.
        fs::remove_file(dir.join("LOCK")).unwrap();
        let again = Store::open(&dir, options).unwrap_or_else(|error| panic!("{free} bytes free: {error}"));
        assert_eq!(compare(&again.read(), &told.acknowledged), Ok(()), "{free} bytes free");
        drop(store);
        let told = work(&again, told.acknowledged, 200);
        failures += told.failures;
        let _ = fs::remove_file(&filler);
        // With space again, everything works without a restart.
        let told = work(&again, told.acknowledged, 300);
        assert_eq!(told.failures, 0, "{free} bytes free");
        again.compact(&mut || Ok(())).unwrap();
        assert_is(&again, &told.acknowledged);
        drop(again);
        assert_is(&Store::open(&dir, options).unwrap(), &told.acknowledged);
        fs::remove_dir_all(&dir).unwrap();
    }
    println!("{failures} failures, {refused} refused deletes");
    assert!(failures > 100, "the disk was never full");
    assert_eq!(refused, 0, "there is space to record a delete");
}

/// A failed compaction leaves as much space as before.
#[test]
fn a_failed_compaction_gives_its_space_back() {
    let Some(disk) = Small::mount() else {
        println!("not run: no file system can be mounted here");
        return;
    };
    let dir = disk.0.path().join("index");
    let store = Store::create(&dir, &config(), StoreOptions::default()).unwrap();
    let mut model = Model::new();
    for n in 0..40u32 {
        let mut put = put(&format!("d{n}"), n, n % LEAVES);
        put.document.text = format!("{n} ").repeat(10_000);
        commit(&store, &mut model, puts(vec![put]));
    }
    store.flush().unwrap();
    commit(&store, &mut model, deletes(&["d1"]));
    store.flush().unwrap();
    for pages in [0, 1, 5, 20, 100, 200] {
        let filler = disk.fill(pages * PAGE);
        let free = disk.free();
        let failed = store.compact(&mut || Ok(())).unwrap_err();
        assert!(failed.is_out_of_space(), "{failed}");
        assert!(disk.free() >= free, "{} bytes of {free} are free", disk.free());
        let target = disk.0.path().join("copy");
        let _ = store.snapshot(&target);
        assert_is(&store, &model);
        fs::remove_file(filler).unwrap();
        let _ = fs::remove_dir_all(target);
    }
    store.compact(&mut || Ok(())).unwrap();
    assert_is(&store, &model);
}
