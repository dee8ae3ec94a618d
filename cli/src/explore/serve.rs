//! Connections, with limits on their number, size and slowness.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use super::job::PANICKED;
use super::reply::{Refusal, Reply};
use super::routes;
use super::site::Site;
use crate::interrupt::Interrupts;

/// Connections at once; further ones wait. A browser opens six.
const MOST_CONNECTIONS: usize = 64;
/// Bytes of the head of a request.
const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// Bytes of its body; a question takes a few hundred.
const MOST_BODY: usize = 64 << 10;
/// Time for a whole head, for a whole body, and for the client to take each piece of an answer.
const SLOWEST: Duration = Duration::from_secs(15);
/// Requests that run at once.
const WORKERS: usize = 8;
/// How often the server looks for a signal.
const POLL: Duration = Duration::from_millis(100);

/// Answers requests until a signal asks to end.
pub fn run(listener: TcpListener, site: &Arc<Site>, interrupts: &Interrupts) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime =
        runtime::Builder::new_current_thread().enable_all().max_blocking_threads(WORKERS).build()?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::spawn(accept(listener, Arc::clone(site)));
        while interrupts.signal().is_none() {
            sleep(POLL).await;
        }
        Ok(())
    });
    // Does not wait for requests in progress: they change only judgments, which are stored atomically.
    runtime.shutdown_background();
    served
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<Site>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, or the client has already gone.
                tracing::debug!(%error, "a connection was not accepted");
                sleep(POLL).await;
                continue;
            }
        };
        // Send short answers immediately.
        let _ = stream.set_nodelay(true);
        // A client that stops reading times out like one that stops sending.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(SLOWEST));
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(Arc::clone(&site), request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(SLOWEST)
                .max_buf_size(MOST_HEAD)
                .max_headers(MOST_HEADERS)
                .serve_connection(TokioIo::new(Box::pin(stream)), answer);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(place);
        });
    }
}

async fn answer(site: Arc<Site>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(reply(site, request).await.unwrap_or_else(Reply::from).0)
}

async fn reply(site: Arc<Site>, request: Request<Incoming>) -> Result<Reply, Refusal> {
    let (head, body) = request.into_parts();
    let route = routes::admit(&site, &head)?;
    let body = read(body).await?;
    // The message of a panic is on standard error.
    spawn_blocking(move || routes::answer(&site, route, &body))
        .await
        .map_err(|_| Refusal::failed(PANICKED))?
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    match timeout(SLOWEST, Limited::new(body, MOST_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("a request has at most {MOST_BODY} bytes"),
        )),
        Ok(Err(_)) => Err(Refusal::bad("the request broke off")),
        Err(_) => Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the request took too long")),
    }
}
