//! Real processes: a writer killed at any moment, and concurrent readers.
//!
//! The children are this test program, run again with instructions in the environment.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const TASK: &str = "EHI_TEST_CHILD";

/// The activities of a killed writer.
const SCENARIOS: [&str; 10] = [
    "single",
    "batches",
    "replacing",
    "deleting",
    "compacting",
    "every batch",
    "big documents",
    "reopening",
    "snapshots",
    "opening",
];

/// Batches of one run of a writer; it is killed long before the last.
const BATCHES: usize = 400;

fn spawn(task: &str, dir: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "store::tests::processes::child", "--nocapture", "--test-threads=1"])
        .env(TASK, format!("{task}\n{}", dir.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test: the entry point of the other tests' processes.
#[test]
fn child() {
    let Ok(task) = env::var(TASK) else { return };
    let (task, dir) = task.split_once('\n').unwrap();
    let words: Vec<&str> = task.split(':').collect();
    match words[..] {
        ["open"] => {
            say(format_args!("start"));
            let store = open(Path::new(dir)).unwrap();
            say(format_args!("open"));
            drop(store);
        }
        ["write", scenario, seed] => write(scenario, seed.parse().unwrap(), Path::new(dir)),
        ["read", millis] => read(Duration::from_millis(millis.parse().unwrap()), Path::new(dir)),
        _ => panic!("{task}"),
    }
}

fn say(line: std::fmt::Arguments<'_>) {
    // Bypasses the test harness and its buffers: the parent must see it before the next step.
    let mut out = std::io::stdout().lock();
    // The harness leaves a line unfinished before the first one.
    writeln!(out, "\n@{line}").unwrap();
    out.flush().unwrap();
}

/// The batches of one run: the same in the writer and in the test that checks it.
fn batches(scenario: &str, seed: u64) -> impl Iterator<Item = WriteBatch> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let scenario = scenario.to_owned();
    (0..BATCHES).map(move |_| {
        let (most_puts, most_deletes, ids) = match scenario.as_str() {
            "single" => (1, 0, 500),
            "replacing" => (20, 0, 30),
            "deleting" => (8, 12, 60),
            _ => (12, 4, 200),
        };
        let puts = (0..random.random_range(1..=most_puts as u32)).map(|_| {
            let number = random.random_range(0..2000u32);
            let mut put = put(&format!("d{}", random.random_range(0..ids as u32)), number, number % LEAVES);
            if scenario == "big documents" {
                put.document.text = format!("{number} ").repeat(20_000);
            }
            put
        });
        let puts = puts.collect();
        let deletes = (0..random.random_range(0..=most_deletes as u32))
            .map(|_| format!("d{}", random.random_range(0..ids as u32)))
            .collect();
        WriteBatch { puts, deletes }
    })
}

/// Commits and flushes until it is killed; before each step it reports the attempt, and afterwards the
/// durable state: a commit outlives its process from the moment it returns.
fn write(scenario: &str, seed: u64, dir: &Path) {
    let durability = if scenario == "every batch" { Durability::EveryBatch } else { Durability::OnFlush };
    let options = StoreOptions { durability, ..StoreOptions::default() };
    let mut store = Store::open(dir, options).unwrap();
    say(format_args!("open"));
    for (number, batch) in (1..).zip(batches(scenario, seed)) {
        say(format_args!("try {number}"));
        store.commit(batch).unwrap();
        say(format_args!("done {number}"));
        match scenario {
            "every batch" | "opening" => {}
            "compacting" if number % 5 == 0 => store.compact(&mut || Ok(())).unwrap(),
            // Some are only in the log when the end comes.
            _ if number % 3 == 0 => {}
            "reopening" => {
                drop(store);
                store = Store::open(dir, options).unwrap();
            }
            "snapshots" => {
                store.snapshot(&snapshot(dir, seed, number)).unwrap();
                say(format_args!("snapshot {number}"));
            }
            _ => store.flush().unwrap(),
        }
    }
}

/// The path of a writer's snapshots: next to the store, on the same file system.
fn snapshot(store: &Path, seed: u64, number: usize) -> PathBuf {
    store.with_file_name(format!("snapshot-{seed}-{number}"))
}

/// What a killed writer reported.
#[derive(Default)]
struct Said {
    tried: usize,
    done: usize,
    /// Numbers of the batches after which a snapshot was complete.
    snapshots: Vec<usize>,
}

impl Said {
    fn take(&mut self, line: &str) {
        if let Some(number) = line.strip_prefix("@try ") {
            self.tried = number.parse().unwrap();
        } else if let Some(number) = line.strip_prefix("@done ") {
            self.done = number.parse().unwrap();
        } else if let Some(number) = line.strip_prefix("@snapshot ") {
            self.snapshots.push(number.parse().unwrap());
        }
    }
}

/// Kills a writer at a random moment.
fn kill_one(scenario: &str, seed: u64, dir: &Path, random: &mut ChaCha8Rng) -> Said {
    let mut child = spawn(&format!("write:{scenario}:{seed}"), dir);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let until = random.random_range(0..60);
    let wait = Duration::from_micros(random.random_range(0..4000));
    let (mut said, mut seen) = (Said::default(), 0);
    for line in lines.by_ref() {
        let line = line.unwrap();
        said.take(&line);
        seen += usize::from(line.starts_with('@'));
        if seen > until {
            break;
        }
    }
    thread::sleep(wait);
    child.kill().unwrap();
    child.wait().unwrap();
    lines.map_while(std::result::Result::ok).for_each(|line| said.take(&line));
    assert!(seen > 0, "{scenario}: the writer did nothing");
    said
}

/// Kills processes while they open what was left; returns how many had not finished.
fn kill_while_opening(dir: &Path, random: &mut ChaCha8Rng) -> usize {
    let mut cut_off = 0;
    for _ in 0..3 {
        let mut child = spawn("open", dir);
        let mut lines =
            BufReader::new(child.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
        assert!(lines.any(|line| line == "@start"), "the child did nothing");
        thread::sleep(Duration::from_micros(random.random_range(0..2500)));
        child.kill().unwrap();
        child.wait().unwrap();
        cut_off += usize::from(!lines.any(|line| line == "@open"));
    }
    cut_off
}

/// An announced snapshot is whole; an interrupted one is not an index, or whole.
fn check_snapshots(scenario: &str, seed: u64, dir: &Path, said: &Said, states: &[Model]) {
    for (number, state) in states.iter().enumerate().skip(1) {
        let path = snapshot(dir, seed, number);
        match open(&path) {
            Ok(store) => {
                assert_is(&store, state);
                // It is independent.
                store.commit(puts(vec![put("later", 7, 7)])).unwrap();
                store.compact(&mut || Ok(())).unwrap();
            }
            Err(error) => {
                assert!(!said.snapshots.contains(&number), "{scenario}, kill {seed}, {number}: {error}");
            }
        }
        if path.exists() {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

/// `EHI_KILLS` is the number of kills per scenario; the documented long run has 100.
#[test]
fn a_killed_writer_leaves_what_it_promised() {
    let kills: u64 = env::var("EHI_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (mut beyond, mut waiting, mut while_opening) = (0, 0, 0);
    for scenario in SCENARIOS {
        let scratch = tempfile::tempdir().unwrap();
        let dir = &scratch.path().join("store");
        drop(create(dir));
        let mut model = Model::new();
        for seed in 0..kills {
            let said = kill_one(scenario, seed, dir, &mut random);
            let (done, tried) = (said.done, said.tried);
            let mut states = vec![model.clone()];
            for batch in batches(scenario, seed).take(tried) {
                let mut next = states[states.len() - 1].clone();
                apply(&mut next, &batch);
                states.push(next);
            }
            check_snapshots(scenario, seed, dir, &said, &states);
            // Readers and checks come first, and report waiting commits.
            let reader = Store::open_read_only(dir).unwrap();
            let report = reader.verify().unwrap();
            assert!(report.is_sound(), "{scenario}, kill {seed}: {:?}", report.problems);
            waiting += reader.notices().len();
            drop(reader);
            if scenario == "opening" {
                while_opening += kill_while_opening(dir, &mut random);
            }
            let store = open(dir).unwrap_or_else(|error| panic!("{scenario}, kill {seed}: {error}"));
            let view = store.read();
            let left = (done..=tried).rev().find(|&at| compare(&view, &states[at]).is_ok());
            let left = left.unwrap_or_else(|| {
                panic!(
                    "{scenario}, kill {seed}: none of {done} to {tried}: {:?}",
                    compare(&view, &states[done])
                )
            });
            beyond += usize::from(left > done);
            let report = store.verify().unwrap();
            assert!(report.is_sound(), "{scenario}, kill {seed}: {:?}", report.problems);
            model = states.swap_remove(left);
        }
    }
    println!(
        "{} kills, {beyond} of them left more than was promised, {waiting} left commits in the log; {while_opening} \
         more while opening",
        kills * SCENARIOS.len() as u64
    );
    assert!(waiting > 0, "no commit waited in a log");
}

/// Documents that every commit rewrites, all with the number of its generation.
const CONSISTENT: u32 = 24;

fn generation_batch(generation: u64) -> WriteBatch {
    let seed = (generation % 2000) as u32;
    // The leaf changes too, and with it the position among the rows.
    puts((0..CONSISTENT).map(|n| put(&format!("d{n}"), seed, (seed + n) % LEAVES)).collect())
}

/// Checks that a view is one whole generation; returns its number.
fn check_whole(view: &View) -> u64 {
    let generation = view.generation().0;
    let seed = (generation % 2000) as u32;
    let leaves: BTreeSet<LeafId> = (0..CONSISTENT).map(|n| LeafId((seed + n) % LEAVES)).collect();
    let mut scanned = 0;
    for leaf in leaves {
        // As a search reads: by leaf, with the embedding.
        for (row, found) in view.leaf(leaf).unwrap() {
            assert_eq!(found, embedding(seed), "{leaf:?} of generation {generation}");
            assert_eq!(view.document(row).unwrap().title, format!("title {seed}"));
            scanned += 1;
        }
    }
    assert_eq!((scanned, view.live() as u32), (CONSISTENT, CONSISTENT), "generation {generation}");
    generation
}

/// Reads for a while; reports the number of reads and of generations seen.
fn read(time: Duration, dir: &Path) {
    let store = Store::open_read_only(dir).unwrap();
    let (started, mut looks, mut generations, mut last) = (Instant::now(), 0, 0, 0);
    while started.elapsed() < time {
        store.refresh().unwrap();
        let generation = check_whole(&store.read());
        assert!(generation >= last, "generation {generation} after {last}");
        generations += u64::from(generation > last);
        last = generation;
        looks += 1;
    }
    say(format_args!("read {looks} {generations}"));
}

/// `EHI_READ_SECONDS` is the duration; the documented long run takes 10.
#[test]
fn readers_see_whole_generations_while_a_writer_goes_on() {
    let seconds: u64 = env::var("EHI_READ_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let time = Duration::from_secs(seconds);
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    store.commit(generation_batch(1)).unwrap();
    store.flush().unwrap();
    let processes: Vec<Child> =
        (0..4).map(|_| spawn(&format!("read:{}", time.as_millis()), dir.path())).collect();
    let done = AtomicBool::new(false);
    let (begun, committed) = (AtomicU64::new(1), AtomicU64::new(1));
    let looks = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let from = committed.load(Ordering::SeqCst);
                    let view = store.read();
                    let until = begun.load(Ordering::SeqCst);
                    let generation = check_whole(&view);
                    assert!((from..=until).contains(&generation), "{generation}, not of {from} to {until}");
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut reports = Vec::new();
        let writer = scope.spawn(|| {
            let mut generation = 1;
            while !done.load(Ordering::Acquire) {
                generation += 1;
                begun.store(generation, Ordering::SeqCst);
                store.commit(generation_batch(generation)).unwrap();
                committed.store(generation, Ordering::SeqCst);
                match generation % 7 {
                    0 => store.compact(&mut || Ok(())).unwrap(),
                    1 | 4 => store.flush().unwrap(),
                    _ => {}
                }
            }
            generation
        });
        for mut child in processes {
            let mut lines =
                BufReader::new(child.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
            reports.push(lines.find_map(|line| line.strip_prefix("@read ").map(str::to_owned)));
            assert!(child.wait().unwrap().success());
        }
        done.store(true, Ordering::Release);
        let written = writer.join().unwrap();
        println!(
            "{written} generations, {} looks by threads, by processes: {reports:?}",
            looks.load(Ordering::Relaxed)
        );
        assert!(
            reports
                .iter()
                .all(|report| report.as_ref().is_some_and(|r| !r.starts_with('0') && !r.ends_with(" 1")))
        );
    });
}
