//! A process that makes calls to an index and is killed in the last call.

use std::env;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use ehi::{Index, LearnedFusion};
use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
use serde::{Deserialize, Serialize};

use super::acting::act;
use super::operations::{Op, Point};
use super::world::World;

const TASK: &str = "EHI_TEST_JOINTS";

#[derive(Serialize, Deserialize)]
struct Task {
    world: PathBuf,
    index: PathBuf,
    calls: Vec<Op>,
    point: Point,
}

/// What a process reported before its end: for each call that returned, whether it succeeded, and what the
/// index then learned by itself.
pub struct Killed {
    pub returned: Vec<(bool, Option<LearnedFusion>)>,
}

/// Runs `calls` in another process, and kills it in the last one, unless that ends first.
pub fn killed(world: &World, index: &Path, calls: Vec<Op>, point: Point) -> Result<Killed, String> {
    let task = Task { world: world.dir().to_owned(), index: index.to_owned(), calls, point };
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "joints::killing::child", "--nocapture", "--test-threads=1"])
        .env(TASK, serde_json::to_string(&task).unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let returned = said.lines().filter_map(|line| {
        let (done, learned) = line.strip_prefix('@')?.split_once(' ')?;
        Some((done == "done", serde_json::from_str(learned).unwrap()))
    });
    let returned: Vec<_> = returned.collect();
    // SIGKILL and SIGXFSZ.
    let is_killed = matches!(output.status.signal(), Some(9 | 25));
    if is_killed || output.status.success() && returned.len() == task.calls.len() {
        return Ok(Killed { returned });
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("the other process ended by itself ({}): {said}{errors}", output.status))
}

fn say(line: &str) {
    // Bypasses the test harness and its buffers: the parent must see it before the next call.
    let mut out = std::io::stdout().lock();
    // The harness leaves a line unfinished before the first one.
    writeln!(out, "\n{line}").unwrap();
    out.flush().unwrap();
}

fn kill_this() -> ! {
    kill_process(getpid(), Signal::KILL).unwrap();
    loop {
        thread::park();
    }
}

/// Whether a write beyond the limit is an error, as on a full disk, or ends the process. Some programs start
/// others with the signal ignored.
#[allow(unsafe_code, reason = "no safe interface sets a signal's disposition")]
fn survive_the_limit(survives: bool) {
    let disposition = if survives { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, disposition) };
}

/// Not a test: the process to be killed.
#[test]
fn child() {
    let Ok(task) = env::var(TASK) else { return };
    let Task { world, index, calls, point } = serde_json::from_str(&task).unwrap();
    let world = World::open(world);
    let index = Index::open(index).unwrap();
    for (number, op) in calls.iter().enumerate() {
        let is_last = number + 1 == calls.len();
        let mut left = match point {
            Point::Progress(times) if is_last => Some(times),
            _ => None,
        };
        match point {
            Point::FileBytes(most) | Point::Full(most) if is_last => {
                survive_the_limit(matches!(point, Point::Full(_)));
                let none = Rlimit { current: Some(0), maximum: Some(0) };
                setrlimit(Resource::Core, none).unwrap();
                setrlimit(Resource::Fsize, Rlimit { current: Some(most), maximum: Some(most) }).unwrap();
            }
            Point::Micros(micros) if is_last => {
                drop(thread::spawn(move || {
                    thread::sleep(Duration::from_micros(micros));
                    kill_this();
                }));
            }
            _ => {}
        }
        let mut on_progress = |_| {
            match &mut left {
                Some(0) => kill_this(),
                Some(times) => *times -= 1,
                None => {}
            }
            ControlFlow::Continue(())
        };
        let done = if act(&index, op, &world, &mut on_progress).is_ok() { "done" } else { "refused" };
        let learned = index.finish_fit().and_then(|fit| fit.fusion);
        say(&format!("@{done} {}", serde_json::to_string(&learned).unwrap()));
    }
    // Neither flushed nor dropped: like a kill at the very end.
    kill_this();
}
