//! What the library reports by `tracing`, handed to Python's `logging`.
//!
//! Events and spans come from any thread, with or without the interpreter's lock, which none of them waits
//! for: they are queued, and handed over where a call of the package has the lock anyway. The levels of
//! Python's loggers are copied, so that what no logger wants costs one comparison.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as Recorded};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber, callsite};

use crate::call::is_forked;

/// The logger above all others of the package, as in targets.
const ROOT: &str = "ehi";

/// Most records that wait; later ones are counted.
const MOST: usize = 10_000;

/// The levels of Python's loggers; one of 0 is inherited.
struct Levels {
    /// `logging.disable`: up to this nothing is logged.
    disabled: i64,
    root: i64,
    own: HashMap<String, i64>,
}

/// Python's default, before the levels are first read.
static LEVELS: RwLock<Option<Levels>> = RwLock::new(None);

impl Levels {
    fn read(py: Python<'_>) -> PyResult<Self> {
        let logging = py.import("logging")?;
        let root = logging.getattr("root")?;
        let manager = root.getattr("manager")?;
        let mut own = HashMap::new();
        let loggers = manager.getattr("loggerDict")?.cast_into::<PyDict>()?;
        // A copy: other threads may add loggers.
        for item in loggers.items() {
            let (name, logger): (String, Bound<'_, PyAny>) = item.extract()?;
            let is_ours =
                name.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            // A placeholder has no level.
            if is_ours && let Ok(level) = logger.getattr("level").and_then(|level| level.extract()) {
                own.insert(name, level);
            }
        }
        Ok(Self {
            disabled: manager.getattr("disable")?.extract()?,
            root: root.getattr("level")?.extract()?,
            own,
        })
    }

    /// The least level that the logger of a target logs.
    fn least(&self, target: &str) -> i64 {
        let mut name = target.replace("::", ".");
        let level = loop {
            match self.own.get(&name) {
                Some(level) if *level != 0 => break *level,
                _ => {}
            }
            let Some(end) = name.rfind('.') else { break self.root };
            name.truncate(end);
        };
        level.max(self.disabled + 1)
    }

    /// The most that any logger logs.
    fn most(&self) -> LevelFilter {
        let own = self.own.values().copied().filter(|level| *level != 0);
        let least = own.chain([self.root]).min().unwrap_or(0).max(self.disabled + 1);
        match least {
            ..=5 => LevelFilter::TRACE,
            // A span of any level is a record of DEBUG.
            6..=10 => LevelFilter::DEBUG,
            11..=20 => LevelFilter::INFO,
            21..=30 => LevelFilter::WARN,
            31..=40 => LevelFilter::ERROR,
            _ => LevelFilter::OFF,
        }
    }
}

/// Python's number of a level.
fn number(metadata: &Metadata<'_>) -> i64 {
    match *metadata.level() {
        Level::TRACE => 5,
        _ if metadata.is_span() => 10,
        Level::DEBUG => 10,
        Level::INFO => 20,
        Level::WARN => 30,
        Level::ERROR => 40,
    }
}

fn is_wanted(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let is_ours = target.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let levels = LEVELS.read().unwrap_or_else(PoisonError::into_inner);
    is_ours && levels.as_ref().is_some_and(|levels| number(metadata) >= levels.least(target))
}

/// A level of no record: Python's logger keeps in its cache that it was asked for it, until the level of any
/// logger changes.
const ASKED: i64 = 1;

/// The logger of the package, and its cache.
static LOGGER: PyOnceLock<(Py<PyAny>, Option<Py<PyDict>>)> = PyOnceLock::new();

/// Reads the levels of Python's loggers again if one may have changed.
pub fn refresh(py: Python<'_>) -> PyResult<()> {
    let (logger, cache) = LOGGER.get_or_try_init(py, || {
        let logger = py.import("logging")?.call_method1("getLogger", (ROOT,))?;
        let cache = logger.getattr("_cache").ok().and_then(|cache| cache.cast_into::<PyDict>().ok());
        Ok::<_, PyErr>((logger.unbind(), cache.map(Bound::unbind)))
    })?;
    if let Some(cache) = cache
        && cache.bind(py).contains(ASKED)?
    {
        return Ok(());
    }
    // Before the levels are read, so that a change after that is seen.
    logger.bind(py).call_method1("isEnabledFor", (ASKED,))?;
    let levels = Levels::read(py)?;
    *LEVELS.write().unwrap_or_else(PoisonError::into_inner) = Some(levels);
    callsite::rebuild_interest_cache();
    Ok(())
}

/// Takes what the library reports from now on.
pub fn init(py: Python<'_>) -> PyResult<()> {
    // A second interpreter in the process finds one there.
    let _ = tracing::subscriber::set_global_default(Queue);
    refresh(py)?;
    let at_exit = pyo3::wrap_pyfunction!(hand_over_rest, py)?;
    py.import("atexit")?.call_method1("register", (at_exit,)).map(drop)
}

#[pyfunction]
fn hand_over_rest(py: Python<'_>) -> PyResult<()> {
    hand_over(py)
}

/// A field's value.
enum Content {
    Truth(bool),
    Whole(i64),
    Large(u64),
    Number(f64),
    Text(String),
}

impl fmt::Display for Content {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(value) => value.fmt(out),
            Self::Whole(value) => value.fmt(out),
            Self::Large(value) => value.fmt(out),
            Self::Number(value) => value.fmt(out),
            Self::Text(value) => value.fmt(out),
        }
    }
}

#[derive(Default)]
struct Fields(Vec<(&'static str, Content)>);

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), Content::Truth(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), Content::Whole(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), Content::Large(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.push((field.name(), Content::Number(value)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), Content::Text(value.to_owned())));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), Content::Text(format!("{value:?}"))));
    }
}

/// What waits for the interpreter.
struct Waiting {
    metadata: &'static Metadata<'static>,
    fields: Fields,
    created: SystemTime,
    /// Of a span, in seconds.
    duration: Option<f64>,
}

impl Waiting {
    /// `message: error (name=value, …)`, in the order in which the fields are given.
    fn message(&self) -> String {
        let of = |wanted| self.fields.0.iter().find(|(name, _)| *name == wanted);
        let mut message = match (self.duration, of("message")) {
            (Some(duration), _) => format!("{}: {:.3} ms", self.metadata.name(), duration * 1e3),
            (None, Some((_, text))) => text.to_string(),
            (None, None) => String::new(),
        };
        if let Some((_, error)) = of("error") {
            let _ = write!(message, ": {error}");
        }
        let rest = self.fields.0.iter().filter(|(name, _)| !["message", "error"].contains(name));
        let rest: Vec<String> = rest.map(|(name, value)| format!("{name}={value}")).collect();
        if !rest.is_empty() {
            let _ = write!(message, " ({})", rest.join(", "));
        }
        message.trim_start().to_owned()
    }

    fn hand_over<'py>(&self, logging: &Bound<'py, PyModule>) -> PyResult<()> {
        let (py, metadata) = (logging.py(), self.metadata);
        let name = metadata.target().replace("::", ".");
        let logger = logging.call_method1("getLogger", (&name,))?;
        let level = number(metadata);
        if !logger.call_method1("isEnabledFor", (level,))?.is_truthy()? {
            return Ok(());
        }
        let (file, line) = (metadata.file().unwrap_or_default(), metadata.line());
        let of_record = (name, level, file, line, self.message(), PyTuple::empty(py), py.None());
        let record = logger.call_method1("makeRecord", of_record)?;
        if let Ok(created) = self.created.duration_since(UNIX_EPOCH) {
            record.setattr("created", created.as_secs_f64())?;
            record.setattr("msecs", f64::from(created.subsec_millis()))?;
        }
        let own = self.duration.map(|duration| ("duration", Content::Number(duration)));
        for (name, value) in self
            .fields
            .0
            .iter()
            .map(|(name, value)| (*name, value))
            .chain(own.as_ref().map(|(name, value)| (*name, value)))
        {
            // Names of `logging` itself stay.
            if name == "message" || record.hasattr(name)? {
                continue;
            }
            match value {
                Content::Truth(value) => record.setattr(name, value)?,
                Content::Whole(value) => record.setattr(name, value)?,
                Content::Large(value) => record.setattr(name, value)?,
                Content::Number(value) => record.setattr(name, value)?,
                Content::Text(value) => record.setattr(name, value)?,
            }
        }
        logger.call_method1("handle", (record,)).map(drop)
    }
}

#[derive(Default)]
struct Waitings {
    records: Vec<Waiting>,
    dropped: usize,
}

static WAITING: Mutex<Waitings> = Mutex::new(Waitings { records: Vec::new(), dropped: 0 });
/// Whether there are any.
static ARE_WAITING: AtomicBool = AtomicBool::new(false);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn queue(waiting: Waiting) {
    let mut all = locked(&WAITING);
    if all.records.len() < MOST {
        all.records.push(waiting)
    } else {
        all.dropped += 1
    }
    ARE_WAITING.store(true, Ordering::Release);
}

/// Hands what waits to Python's loggers.
///
/// # Errors
/// What ends a program, such as `KeyboardInterrupt`; other errors of a handler are reported as unraisable.
pub fn hand_over(py: Python<'_>) -> PyResult<()> {
    // A child forked at any moment has its parent's records, and may have its lock.
    if !ARE_WAITING.load(Ordering::Acquire) || is_forked() {
        return Ok(());
    }
    ARE_WAITING.store(false, Ordering::Release);
    let Waitings { records, dropped } = std::mem::take(&mut *locked(&WAITING));
    let logging = py.import("logging")?;
    let handed = |done: PyResult<()>| match done {
        Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
        Err(error) => {
            error.write_unraisable(py, None);
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    records.iter().try_for_each(|waiting| handed(waiting.hand_over(&logging)))?;
    if dropped > 0 {
        let logger = logging.call_method1("getLogger", (ROOT,))?;
        handed(logger.call_method1("warning", ("records left out: %d", dropped)).map(drop))?;
    }
    Ok(())
}

/// A span that is open.
struct Open {
    metadata: &'static Metadata<'static>,
    fields: Fields,
    begun: Instant,
    handles: usize,
}

static OPEN: Mutex<Option<HashMap<u64, Open>>> = Mutex::new(None);

fn with_open<T>(work: impl FnOnce(&mut HashMap<u64, Open>) -> T) -> T {
    work(locked(&OPEN).get_or_insert_default())
}

/// Queues events, and spans as they close.
struct Queue;

impl Subscriber for Queue {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_wanted(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let levels = LEVELS.read().unwrap_or_else(PoisonError::into_inner);
        Some(levels.as_ref().map_or(LevelFilter::OFF, Levels::most))
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        queue(Waiting { metadata, fields, created: SystemTime::now(), duration: None });
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fields = Fields::default();
        span.record(&mut fields);
        let open = Open { metadata: span.metadata(), fields, begun: Instant::now(), handles: 1 };
        with_open(|all| all.insert(id, open));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Recorded<'_>) {
        with_open(|all| {
            if let Some(open) = all.get_mut(&span.into_u64()) {
                values.record(&mut open.fields);
            }
        });
    }

    fn clone_span(&self, span: &Id) -> Id {
        with_open(|all| {
            if let Some(open) = all.get_mut(&span.into_u64()) {
                open.handles += 1;
            }
        });
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let closed = with_open(|all| {
            let open = all.get_mut(&span.into_u64())?;
            open.handles -= 1;
            if open.handles == 0 { all.remove(&span.into_u64()) } else { None }
        });
        let Some(Open { metadata, fields, begun, .. }) = closed else { return false };
        let duration = Some(begun.elapsed().as_secs_f64());
        queue(Waiting { metadata, fields, created: SystemTime::now(), duration });
        true
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
