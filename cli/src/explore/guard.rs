//! Decides which requests are answered.
//!
//! Another page in the user's browser can send requests to this address, and may make its host name resolve
//! to it (DNS rebinding); programs of other users of the machine can send requests too. A request must
//! therefore name this address as its host, must not come from another origin, and must have the key of a
//! session, which none of these can read.

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method, StatusCode};

use super::keys::Keys;
use super::reply::Refusal;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The access that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The page, which other pages may link to.
    Page,
    /// The page's own files, which are the same for everybody, and the request that begins a session with a
    /// token.
    Open,
    /// The key of a session.
    Session,
}

pub struct Guard {
    pub port: u16,
    pub keys: Keys,
}

impl Guard {
    /// # Errors
    /// Why the request is refused.
    pub fn check(&self, method: &Method, headers: &HeaderMap, access: Access) -> Result<(), Refusal> {
        let host = self.host(headers)?;
        if !(access == Access::Page && is_visit(method, headers)) {
            check_origin(headers, host)?;
        }
        if access == Access::Session && !session(headers).is_some_and(|key| self.keys.knows(key)) {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "no_key",
                "this needs the key of a session: open the address that `ehi explore` printed",
            ));
        }
        // Another origin cannot send JSON without a preflight request.
        if method == Method::POST && headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
            return Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not_json",
                "the content type must be application/json",
            ));
        }
        Ok(())
    }

    /// The host that the request names, which must be this one.
    fn host<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, Refusal> {
        let mut named = headers.get_all(HOST).iter();
        let host = named.next().and_then(|host| host.to_str().ok());
        let port = self.port;
        // Browsers omit port 80.
        let is_own = |host: &str, name| host == format!("{name}:{port}") || port == 80 && host == name;
        let known = |host: &&str| ["127.0.0.1", "localhost"].iter().any(|name| is_own(host, *name));
        match (host.filter(known), named.next()) {
            (Some(host), None) => Ok(host),
            _ => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "foreign_host",
                format!("only requests to 127.0.0.1:{port} and localhost:{port} are answered"),
            )),
        }
    }
}

/// Whether a browser requests a top-level document: the user follows a link. The sender learns nothing from
/// it, and the request carries no data.
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

/// If a browser states the origin of the request, it must be this page.
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

fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}
