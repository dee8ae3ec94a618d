//! The levels of Python's loggers, copied.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, callsite};

use super::ROOT;

/// The levels of Python's loggers; one of 0 is inherited.
pub struct Levels {
    /// `logging.disable`: up to this nothing is logged.
    disabled: i64,
    root: i64,
    own: HashMap<String, i64>,
}

/// Python's default, before the levels are first read.
pub static LEVELS: RwLock<Option<Levels>> = RwLock::new(None);

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
    pub fn most(&self) -> LevelFilter {
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
pub fn number(metadata: &Metadata<'_>) -> i64 {
    match *metadata.level() {
        Level::TRACE => 5,
        _ if metadata.is_span() => 10,
        Level::DEBUG => 10,
        Level::INFO => 20,
        Level::WARN => 30,
        Level::ERROR => 40,
    }
}

pub fn is_wanted(metadata: &Metadata<'_>) -> bool {
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
