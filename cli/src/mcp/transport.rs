//! The protocol on standard input and output, with a bound on unread answers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, DEFAULT_MAX_LINE_LENGTH};
use rmcp::transport::io::{StdioReader, StdioWriter, stdio_pipes};
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Unsent messages at which reading of requests pauses.
const UNSENT: usize = 256;

pub struct Stdio {
    wire: AsyncRwTransport<RoleServer, CheckedLines, StdioWriter>,
    unsent: Arc<Semaphore>,
    /// Cancelled when the client is gone.
    stop: CancellationToken,
}

impl Stdio {
    /// Must be called in a runtime that drives input and output.
    pub fn open(stop: CancellationToken) -> Self {
        let (input, output) = stdio_pipes();
        let wire = AsyncRwTransport::new_server(CheckedLines { input, line: Vec::new() }, output);
        Self { wire, unsent: Arc::new(Semaphore::new(UNSENT)), stop }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let sending = self.wire.send(item);
        let (unsent, stop) = (Arc::clone(&self.unsent), self.stop.clone());
        async move {
            let _place = unsent.acquire().await;
            sending.await.inspect_err(|_| stop.cancel())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        drop(self.unsent.acquire().await);
        self.wire.receive().await
    }

    /// Does nothing: closing the output would block on a client that stopped reading.
    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard input, with a warning for each line that is not JSON: the protocol's crate ignores such a line
/// without an answer.
struct CheckedLines {
    input: StdioReader,
    /// The line so far, up to one byte more than is read.
    line: Vec<u8>,
}

impl AsyncRead for CheckedLines {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.input).poll_read(context, buffer))?;
        for part in buffer.filled()[before..].split_inclusive(|&byte| byte == b'\n') {
            let room = (DEFAULT_MAX_LINE_LENGTH + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                check(&self.line);
                self.line.clear();
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Warns of a line that is not JSON. The protocol's crate reports one that is too long.
fn check(line: &[u8]) {
    let text = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    if text.is_empty() || line.len() > DEFAULT_MAX_LINE_LENGTH {
        return;
    }
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(text) {
        tracing::warn!(%error, "a line that is not JSON was ignored");
    }
}
