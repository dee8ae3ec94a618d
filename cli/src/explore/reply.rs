//! What is answered: JSON or a file of the page, with the headers that every answer has.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode, header};
use serde::Serialize;

use crate::failure::Failure;
use crate::held::Gone;

/// Scripts and styles of the page's own files alone, nothing from elsewhere, and no text ever read as markup
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

/// An answer.
pub struct Reply {
    status: StatusCode,
    kind: &'static str,
    body: Bytes,
    /// Seconds after which to ask again.
    retry_after: Option<u64>,
}

/// Why a request is refused: its status, a word for programs, a sentence for people.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub kind: &'static str,
    pub message: String,
    pub retry_after: Option<u64>,
}

#[derive(Serialize)]
struct Refused<'a> {
    error: &'a str,
    message: &'a str,
}

impl Refusal {
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), retry_after: None }
    }

    /// What the caller gave is at fault.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }
}

/// Errors of the library, as the program words them.
impl From<ehi::Error> for Refusal {
    fn from(error: ehi::Error) -> Self {
        let (status, kind) = match &error {
            ehi::Error::Input(_) | ehi::Error::Filter(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, kind, Failure::from(error).line())
    }
}

impl From<Gone> for Refusal {
    fn from(gone: Gone) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "gone", gone.0)
    }
}

impl Reply {
    pub fn json(value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::file("application/json", body),
            Err(error) => Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "failed",
                format!("the answer cannot be written: {error}"),
            )
            .into(),
        }
    }

    pub fn file(kind: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, kind, body: body.into(), retry_after: None }
    }

    pub fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        let Refusal { status, kind, message, retry_after } = refusal;
        let body = serde_json::to_vec(&Refused { error: kind, message: &message }).unwrap_or_default();
        Self { status, kind: "application/json", body: body.into(), retry_after }
    }
}
