//! Connections: how many, how large and how slow a request may be.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
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
use super::reply::Refusal;
use super::routes::{Call, Site};
use crate::interrupt::Interrupts;

/// Connections at once; further ones wait. A browser opens six.
const MOST_CONNECTIONS: usize = 64;
/// Bytes of the head of a request.
const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// Bytes of its body: a question is a few hundred.
const MOST_BODY: usize = 64 << 10;
/// Time for a whole head, for a whole body, and for each piece of an answer to be taken.
const SLOWEST: Duration = Duration::from_secs(15);
/// Requests that are worked on at once.
const WORKERS: usize = 8;
/// How often it is looked whether a signal asked to end.
const POLL: Duration = Duration::from_millis(100);

/// Answers requests until a signal asks to end.
pub fn run(listener: TcpListener, site: &Arc<Site>, interrupts: &Interrupts) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime =
        runtime::Builder::new_current_thread().enable_all().max_blocking_threads(WORKERS).build()?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut ended = pin!(async {
            while interrupts.signal().is_none() {
                sleep(POLL).await;
            }
        });
        let mut accepting = pin!(accept(&listener, site));
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => accepting.as_mut().poll(context),
        })
        .await
    });
    // What is being worked on is not waited for: it changes nothing, but for judgments, which are whole or
    // not.
    runtime.shutdown_background();
    served
}

async fn accept(listener: &tokio::net::TcpListener, site: &Arc<Site>) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, or a client that has gone again.
                tracing::debug!(%error, "a connection was not accepted");
                sleep(POLL).await;
                continue;
            }
        };
        // An answer is sent at once, however short.
        let _ = stream.set_nodelay(true);
        // Who does not read his answers has his connection for no longer than who does not send.
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(SLOWEST));
        let site = Arc::clone(site);
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
    let (head, body) = request.into_parts();
    let reply = match site.admit(&head) {
        Err(refusal) => refusal.into(),
        Ok(route) => match read(body).await {
            Err(refusal) => refusal.into(),
            Ok(body) => match spawn_blocking(move || site.answer(&Call { route, body })).await {
                Ok(reply) => reply,
                // A panic, whose message is on standard error.
                Err(_) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", PANICKED).into(),
            },
        },
    };
    Ok(reply.into_response())
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
