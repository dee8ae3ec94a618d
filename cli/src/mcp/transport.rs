//! The protocol on standard input and output, with a bound on unread answers.

use std::future::Future;
use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::{StdioReader, StdioWriter, stdio_pipes};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Unsent messages at which reading of requests pauses.
const UNSENT: usize = 256;

pub struct Stdio {
    wire: AsyncRwTransport<RoleServer, StdioReader, StdioWriter>,
    unsent: Arc<Semaphore>,
    /// Cancelled when the client is gone.
    stop: CancellationToken,
}

impl Stdio {
    /// Must be called in a runtime that drives input and output.
    pub fn open(stop: CancellationToken) -> Self {
        let (input, output) = stdio_pipes();
        let wire = AsyncRwTransport::new_server(input, output);
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
