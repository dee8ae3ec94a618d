//! The protocol on standard input and output. Each has a thread of its own, so that no call waits for a
//! client that does not read, and a request is bounded before it is parsed.

use std::collections::HashSet;
use std::fs::File;
use std::future::{Future, ready};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, JsonRpcMessage, NumberOrString};
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;

use super::limits::REQUEST;
use super::lines::{Line, each_line};
use super::message::{self, Message, Refusal};
use super::unsent::Unsent;
use crate::failure::Failure;

/// How long a client that sends more may take none of the answers that wait.
const STALL: Duration = Duration::from_secs(30);
/// How long the last answers wait for the client at the end of a session.
const LAST: Duration = Duration::from_secs(5);

/// Ids of requests that are not answered.
#[derive(Default)]
struct Open(Mutex<HashSet<NumberOrString>>);

impl Open {
    /// False where there is one already.
    fn begin(&self, id: &NumberOrString) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone())
    }

    fn end(&self, id: &NumberOrString) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// Where the protocol reads and writes.
pub struct Wire {
    requests: Receiver<Message>,
    unsent: Arc<Unsent>,
    open: Arc<Open>,
}

impl Transport<RoleServer> for Wire {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match &item {
            JsonRpcMessage::Response(response) => self.open.end(&response.id),
            JsonRpcMessage::Error(error) => error.id.iter().for_each(|id| self.open.end(id)),
            _ => {}
        }
        let line = serde_json::to_vec(&item).map(|mut line| {
            line.push(b'\n');
            self.unsent.push(line);
        });
        ready(line.map_err(io::Error::from))
    }

    async fn receive(&mut self) -> Option<Message> {
        self.requests.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread that writes.
pub struct Output(Arc<Unsent>);

impl Output {
    /// Waits until all that was to be said is written, and not long for a client that does not read.
    pub fn finish(self) {
        if !self.0.finish(LAST) {
            tracing::warn!("the client did not read the last answers");
        }
    }
}

/// Starts both threads. The end of standard input ends what is read; a client that is gone stops the session.
///
/// # Errors
/// Standard output that is closed.
pub fn open(stop: &CancellationToken) -> Result<(Wire, Output), Failure> {
    // Not by the lock of standard output: the end of the program takes that, and would wait for a client that
    // does not read.
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(Failure::Output)?);
    let (passed, requests) = channel(1);
    let unsent = Arc::new(Unsent::default());
    let open = Arc::new(Open::default());
    let mut input = Input { passed, unsent: Arc::clone(&unsent), open: Arc::clone(&open), has_begun: false };
    thread::spawn(move || {
        if let Err(error) = each_line(io::stdin().lock(), REQUEST, |line| input.take(line)) {
            tracing::warn!(%error, "standard input cannot be read; this is taken for its end");
        }
    });
    let (lines, stop) = (Arc::clone(&unsent), stop.clone());
    thread::spawn(move || {
        if !lines.write_each(|line| out.write_all(line).is_ok()) {
            stop.cancel();
        }
    });
    Ok((Wire { requests, unsent: Arc::clone(&unsent), open }, Output(unsent)))
}

/// What becomes of the lines that are read.
struct Input {
    passed: Sender<Message>,
    unsent: Arc<Unsent>,
    open: Arc<Open>,
    /// Whether there was a request; before it nothing else means anything.
    has_begun: bool,
}

impl Input {
    /// False where no further line is to be read.
    fn take(&mut self, line: Line<'_>) -> bool {
        if !self.unsent.wait_for_room(STALL) {
            tracing::warn!("the client does not read; this is taken for the end of the session");
            return false;
        }
        let read = match line {
            Line::Whole(line) => message::read(line),
            Line::Oversized(id) => {
                tracing::warn!("a message of more than {REQUEST} bytes was dropped");
                // A notification has no answer.
                if id.is_none() { Ok(None) } else { Err(Refusal::oversized(id)) }
            }
        };
        match read.and_then(|message| self.check(message)) {
            Ok(None) => true,
            Ok(Some(message)) => self.passed.blocking_send(message).is_ok(),
            Err(refusal) => {
                self.unsent.push(refusal.line());
                true
            }
        }
    }

    fn check(&mut self, message: Option<Message>) -> Result<Option<Message>, Refusal> {
        match &message {
            Some(JsonRpcMessage::Request(request)) => {
                if !self.open.begin(&request.id) {
                    return Err(Refusal::repeated(&request.id));
                }
                self.has_begun = true;
            }
            Some(_) if !self.has_begun => {
                tracing::warn!("a message before the first request was dropped");
                return Ok(None);
            }
            // It may be answered no more.
            Some(JsonRpcMessage::Notification(own)) => {
                if let ClientNotification::CancelledNotification(cancelled) = &own.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.end(id);
                }
            }
            _ => {}
        }
        Ok(message)
    }
}
