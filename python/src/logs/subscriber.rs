//! Receives the events and spans of the library.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::levels::{LEVELS, Levels, is_wanted};
use super::queue::{locked, queue};
use super::record::{Fields, Waiting};

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
pub struct Queue;

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

    fn record(&self, span: &Id, values: &Record<'_>) {
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
