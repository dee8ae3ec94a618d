//! Runs calls of the library without the interpreter's lock, with progress and Ctrl-C.

use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use ehi::{Progress, Stage, Tick};
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::arguments::wrong_type;
use crate::errors::{CancelledError, StoreError, exception};
use crate::logs;

/// How often a long call checks for signals and reports progress.
const INTERVAL: Duration = Duration::from_millis(50);

/// The process that made the first call; 0 before it.
static AT_WORK: AtomicU32 = AtomicU32::new(0);

/// Whether this process was forked from one that had made a call.
pub fn is_forked() -> bool {
    ![0, std::process::id()].contains(&AT_WORK.load(Ordering::Relaxed))
}

/// Refuses a call in a forked child. The library uses a thread pool, which a fork does not copy: a call that
/// waits for its threads would hang.
fn begin(py: Python<'_>) -> PyResult<()> {
    let own = std::process::id();
    let first = AT_WORK.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_ok() || first == Err(own) {
        return logs::refresh(py);
    }
    let error = StoreError::new_err(
        "this process was forked from one in which ehi was at work, whose threads did not come along; \
         start processes by `spawn`, or fork before the first call",
    );
    error.value(py).setattr("kind", "Forked")?;
    Err(error)
}

/// Runs a short call.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> ehi::Result<T> + Send) -> PyResult<T> {
    begin(py)?;
    let result = py.detach(work);
    logs::hand_over(py)?;
    result.map_err(|error| exception(py, error))
}

static THREADS: OnceLock<usize> = OnceLock::new();

/// Runs a call on parts of its input, at most `each` per thread, and checks for Ctrl-C between them. `work`
/// gets the start of its part; for an empty input it is called once with nothing.
pub fn in_parts<I: Sync, T: Send>(
    py: Python<'_>,
    given: &[I],
    each: usize,
    work: impl Fn(usize, &[I]) -> ehi::Result<Vec<T>> + Sync,
) -> PyResult<Vec<T>> {
    // Asking for their number reads files, which takes as long as a search.
    let threads = if given.len() <= 1 {
        1
    } else {
        *THREADS.get_or_init(|| available_parallelism().map_or(1, usize::from))
    };
    // How long one takes is known after the first: a question may be a word or a page.
    let mut size = threads;
    let mut results = Vec::new();
    let mut begin = 0;
    loop {
        let end = given.len().min(begin + size);
        py.check_signals()?;
        let begun = Instant::now();
        results.extend(run(py, || work(begin, &given[begin..end]))?);
        let times = INTERVAL.as_secs_f64() / begun.elapsed().as_secs_f64().max(1e-6);
        size = ((size as f64 * times) as usize).clamp(threads, each * threads);
        if end == given.len() {
            return Ok(results);
        }
        begin = end;
    }
}

/// What ended a call from within: Ctrl-C, or an exception of the caller's function.
#[derive(Default)]
struct Raised(Option<PyErr>);

impl Raised {
    /// Does what is due now and then, asks `listen` whether to continue, and keeps what is raised.
    fn ask(&mut self, listen: impl FnOnce(Python<'_>) -> PyResult<bool>) -> ControlFlow<()> {
        let asked = Python::attach(|py| {
            py.check_signals()?;
            logs::refresh(py)?;
            logs::hand_over(py)?;
            listen(py)
        });
        match asked {
            Ok(true) => return ControlFlow::Continue(()),
            Ok(false) => {}
            Err(error) => self.0 = Some(error),
        }
        ControlFlow::Break(())
    }

    /// The result of the call: what was raised, also if the call had already finished. `done`: documents that
    /// it has stored or refused, of a call that stores some.
    fn or<T>(self, py: Python<'_>, result: ehi::Result<T>, done: Option<u64>) -> PyResult<T> {
        logs::hand_over(py)?;
        let ended = |done| {
            let text = format!("cancelled after {done} documents of the call; those stay stored");
            CancelledError::new_err(text)
        };
        match (self.0, result) {
            (Some(raised), _) => {
                if let (Some(done), None) = (done, raised.cause(py)) {
                    raised.set_cause(py, Some(ended(done)));
                }
                Err(raised)
            }
            (None, Err(ehi::Error::Cancelled)) if let Some(done) = done => Err(ended(done)),
            (None, result) => result.map_err(|error| exception(py, error)),
        }
    }
}

/// Runs a call that asks several times a second whether to continue, and checks for Ctrl-C then.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut Tick<'_>) -> ehi::Result<T> + Send,
) -> PyResult<T> {
    begin(py)?;
    let mut raised = Raised::default();
    let result = py.detach(|| work(&mut || raised.ask(|_| Ok(true))));
    raised.or(py, result, None)
}

/// The callback of a long call of the library.
pub type OnProgress<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// The receiver of progress: a function, or bars of tqdm.
struct Listener {
    function: Option<Py<PyAny>>,
    are_bars: bool,
}

impl Listener {
    fn new(py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        let are_bars = progress.as_ref().is_some_and(|own| own.bind(py).is(PyBool::new(py, true)));
        let function = match progress {
            Some(_) if are_bars => Some(py.import("ehi._progress")?.getattr("Bars")?.call0()?.unbind()),
            Some(own) if own.bind(py).is_instance_of::<PyBool>() => None,
            Some(own) if !own.bind(py).is_callable() => {
                return Err(wrong_type("progress", "a function, or True for bars of tqdm", own.bind(py)));
            }
            function => function,
        };
        Ok(Self { function, are_bars })
    }

    /// Reports progress; returns whether to continue.
    fn tell(&self, py: Python<'_>, now: Progress) -> PyResult<bool> {
        let Some(function) = &self.function else { return Ok(true) };
        let answer = function.call1(py, (now.stage.name(), now.done, now.total))?;
        Ok(!answer.bind(py).is(PyBool::new(py, false)))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match &self.function {
            Some(bars) if self.are_bars => bars.call_method0(py, "close").map(drop),
            _ => Ok(()),
        }
    }
}

/// Runs a long call. `progress` is called with the stage's name, the amount done, and the total or `None`. An
/// exception from it ends the call and propagates, as does Ctrl-C. A return value of `False` ends the call
/// with `CancelledError`. Passing `True` instead shows tqdm bars. If the call stores documents, the exception
/// or its cause says how many are stored.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut OnProgress<'_>) -> ehi::Result<T> + Send,
) -> PyResult<T> {
    begin(py)?;
    let listener = Listener::new(py, progress)?;
    let (mut raised, mut stored) = (Raised::default(), None);
    let result = py.detach(|| {
        let mut told: Option<Instant> = None;
        let mut on_progress = |now: Progress| {
            if now.stage == Stage::Insert {
                stored = Some(now.done);
            }
            let is_last = now.total == Some(now.done);
            if !is_last && told.is_some_and(|told| told.elapsed() < INTERVAL) {
                return ControlFlow::Continue(());
            }
            told = Some(Instant::now());
            raised.ask(|py| listener.tell(py, now))
        };
        work(&mut on_progress)
    });
    let closed = listener.close(py);
    raised.or(py, result, stored).and_then(|done| closed.map(|()| done))
}
