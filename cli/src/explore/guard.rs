//! Which requests are heard at all.
//!
//! Another page in the user's browser can send requests to this address, and its name may be made to lead
//! here (DNS rebinding); programs of other users of the machine can, too. So a request must name this very
//! address as its host, must not come from another origin, and must have the key of a session, which neither
//! of them can read.

use std::time::Duration;

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method, StatusCode};

use super::keys::Keys;
use super::rate::Rate;
use super::reply::Refusal;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Requests with a key: more than a person types, and fewer than keep the machine busy.
const ASKED: (Duration, u32) = (Duration::from_millis(10), 400);
/// Requests for the page's own files, of which there are some 20.
const OPENED: (Duration, u32) = (Duration::from_millis(10), 400);
/// Requests without a right key, on which guesses of keys and tokens count. They do not use up what the
/// owner of the key may do.
const STRANGERS: (Duration, u32) = (Duration::from_millis(100), 100);

/// What a request must have to be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The page, to which a link on another page may lead.
    Page,
    /// The page's own files, which are the same for everybody.
    Open,
    /// A token: the request that begins a session.
    Token,
    /// The key of a session.
    Session,
}

pub struct Guard {
    port: u16,
    hosts: Vec<String>,
    asked: Rate,
    opened: Rate,
    strangers: Rate,
}

impl Guard {
    pub fn new(port: u16) -> Self {
        let names = ["127.0.0.1", "localhost"];
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            // Of which a browser says nothing.
            hosts.extend(names.map(str::to_owned));
        }
        Self {
            port,
            hosts,
            asked: Rate::new(ASKED.0, ASKED.1),
            opened: Rate::new(OPENED.0, OPENED.1),
            strangers: Rate::new(STRANGERS.0, STRANGERS.1),
        }
    }

    /// # Errors
    /// Why the request is not heard.
    pub fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
        access: Access,
        keys: &Keys,
    ) -> Result<(), Refusal> {
        let host = self.host(headers)?;
        if !(access == Access::Page && is_visit(method, headers)) {
            check_origin(headers, host)?;
        }
        if access == Access::Session && session(headers).is_some_and(|key| keys.knows(key)) {
            self.asked.take().map_err(too_often)?;
            return check_content(method, headers);
        }
        if matches!(access, Access::Page | Access::Open) {
            self.opened.take().map_err(too_often)?;
        }
        if access == Access::Session {
            self.stranger()?;
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "no_key",
                "this needs the key of a session: open the address that `ehi explore` printed",
            ));
        }
        check_content(method, headers)
    }

    /// Counts a request without a right key or token. One that has it is not kept out by others that guess.
    ///
    /// # Errors
    /// There were too many.
    pub fn stranger(&self) -> Result<(), Refusal> {
        self.strangers.take().map_err(too_often)
    }

    /// The host that the request names, which must be this one.
    fn host<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, Refusal> {
        let mut named = headers.get_all(HOST).iter();
        let host = named.next().and_then(|host| host.to_str().ok());
        let known = |host: &&str| self.hosts.iter().any(|known| known == host);
        match (host.filter(known), named.next()) {
            (Some(host), None) => Ok(host),
            _ => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "foreign_host",
                format!("requests are answered for 127.0.0.1:{0} and localhost:{0} alone", self.port),
            )),
        }
    }
}

/// Whether a browser asks for a document to show in a tab of its own: the user follows a link. What sent it
/// learns nothing from that, and the request carries nothing.
fn is_visit(method: &Method, headers: &HeaderMap) -> bool {
    let only = |name: &HeaderName, value: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().is_some_and(|own| own.as_bytes() == value.as_bytes()) && values.next().is_none()
    };
    method == Method::GET
        && !headers.contains_key(ORIGIN)
        && only(&SEC_FETCH_MODE, "navigate")
        && only(&SEC_FETCH_DEST, "document")
}

/// Where a browser says what sent the request, it must be this page.
fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), Refusal> {
    let own = |origin: &str| origin.strip_prefix("http://") == Some(host);
    let is_own = headers.get_all(ORIGIN).iter().all(|origin| origin.to_str().is_ok_and(own));
    // `none`: the user typed the address.
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    let is_same = sites.all(|site| [b"same-origin".as_slice(), b"none"].contains(&site.as_bytes()));
    if is_own && is_same {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::FORBIDDEN, "foreign_origin", "requests of other pages are not answered"))
}

/// A page elsewhere cannot send JSON without asking first.
fn check_content(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if method == Method::POST && kind != Some("application/json") {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the content type must be application/json",
        ));
    }
    Ok(())
}

fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// A refusal of what comes too often.
pub fn too_often(after: Duration) -> Refusal {
    Refusal {
        retry_after: Some(after.as_secs().saturating_add(1)),
        ..Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_often", "too many requests; try again in a moment")
    }
}
