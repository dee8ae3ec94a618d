//! Answers: JSON or a file of the page, with common headers.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::failure::Failure;

/// Only scripts and styles from the page's own files, nothing from elsewhere, and no text parsed as markup
/// (`require-trusted-types-for`).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src \
                      'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The JSON of a request.
///
/// # Errors
/// The problem with the body.
pub fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::bad(format!("the request: {error}")))
}

/// An answer.
pub struct Reply(pub Response<Full<Bytes>>);

/// Why a request is refused: its status, a code for programs, a sentence for people.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into() }
    }

    /// An internal error.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    }

    /// A bad request.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }
}

impl<E: Into<Failure>> From<E> for Refusal {
    fn from(error: E) -> Self {
        let failure = error.into();
        let message = failure.line();
        match failure {
            Failure::Gone(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "gone", message),
            Failure::Ehi(ehi::Error::Input(_) | ehi::Error::Filter(_)) => Self::bad(message),
            _ => Self::failed(message),
        }
    }
}

impl Reply {
    pub fn json(value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::file("application/json", body),
            Err(error) => Refusal::failed(format!("the answer cannot be written: {error}")).into(),
        }
    }

    pub fn file(kind: &'static str, body: impl Into<Bytes>) -> Self {
        let mut response = Response::new(Full::new(body.into()));
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        Self(response)
    }
}

impl From<Refusal> for Reply {
    fn from(Refusal { status, kind, message }: Refusal) -> Self {
        let mut reply = Self::json(&json!({ "error": kind, "message": message }));
        *reply.0.status_mut() = status;
        reply
    }
}
