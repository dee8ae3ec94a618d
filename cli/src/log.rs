//! Warnings on standard error, one line each.

use std::fmt;
use std::io::{self, Write};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::bars;
use crate::text::escaped;

/// Default filter without `RUST_LOG`. The protocol's crate warns about each invalid request, which the answer
/// already reports to the client.
const DEFAULT_FILTER: &str = "warn,rmcp=error";

pub fn start() {
    let asked = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let parsed = EnvFilter::builder().parse(if asked.is_empty() { DEFAULT_FILTER } else { &asked });
    let (filter, refused) = match parsed {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(DEFAULT_FILTER), Some(error)),
    };
    // `message: error (name value)`, in the order in which the fields are given.
    let fields = debug_fn(|out, field, value| match field.name() {
        "message" => write!(out, "{value:?}"),
        "error" => write!(out, ": {value:?}"),
        name => write!(out, " ({name} {value:?})"),
    });
    let log = tracing_subscriber::fmt().with_env_filter(filter).fmt_fields(fields);
    log.event_format(Line).with_writer(|| BesideBar).init();
    if let Some(error) = refused {
        tracing::warn!(%error, "{} is not a filter, so warnings are shown", EnvFilter::DEFAULT_ENV);
    }
}

/// `ehi: warning: message`.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        let level = match *event.metadata().level() {
            Level::WARN => "warning".to_owned(),
            level => level.as_str().to_lowercase(),
        };
        writeln!(line, "ehi: {level}: {}", escaped(&fields))
    }
}

/// Standard error, with the progress bar hidden while a line is written.
struct BesideBar;

impl Write for BesideBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // If standard error is closed, the line is dropped.
        let _ = bars::beside(|| io::stderr().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
