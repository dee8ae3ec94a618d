//! A disk that is really full, where one can be made: a small file system in memory, which takes the right to mount.

use std::process::Command;

use super::*;

const BYTES: usize = 6 << 20;

/// A mounted file system; gone when dropped.
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
            let mut put = put(&format!("d{n}"), n, &[n % LEAVES]);
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
        // Fewer documents need less room, whatever is left of it; the rest is still there.
        let kept: Vec<String> = model.keys().skip(3).cloned().collect();
        let gone = deletes(&kept.iter().map(String::as_str).collect::<Vec<_>>());
        store.commit(gone.clone()).unwrap_or_else(|error| panic!("{durability:?}: {error}; {failures:?}"));
        apply(&mut model, &gone);
        store.compact(&mut || Ok(())).unwrap();
        assert_is(&store, &model);
        store.commit(puts(vec![put("after", 7, &[7])])).unwrap();
        apply(&mut model, &puts(vec![put("after", 7, &[7])]));
        drop(store);
        let store = Store::open(&dir, options).unwrap();
        assert_is(&store, &model);
        assert!(store.verify().unwrap().is_sound());
    }
}
