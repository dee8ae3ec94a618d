//! Maps requests to calls.

use std::io::{self, Write};

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::guard::{Access, Guard};
use super::job::JobKind;
use super::page::{self, PageFile};
use super::reply::{Refusal, Reply, json};
use super::site::Site;
use super::{about, document, folders, judge, leaves, search, state, why};

/// Answers a request by its body.
type Api = fn(&Site, &[u8]) -> Result<Reply, Refusal>;

#[derive(Clone, Copy)]
pub enum Route {
    File(&'static PageFile),
    Api(Api),
}

/// The request that begins a session.
const SESSION: &str = "/api/session";

/// Calls without side effects.
const GETS: [(&str, Api); 7] = [
    ("/api/about", about::about),
    ("/api/leaves", |site, _| leaves::leaves(site, false)),
    ("/api/state", state::state),
    ("/api/health", state::health),
    ("/api/folders", folders::folders),
    ("/api/judgments", judge::list),
    ("/api/job", |site, _| Ok(site.job.show())),
];

/// Calls with JSON in their body.
const POSTS: [(&str, Api); 10] = [
    (SESSION, begin),
    ("/api/search", search::search),
    ("/api/why", why::why),
    ("/api/document", document::document),
    ("/api/leaves", |site, _| leaves::leaves(site, true)),
    ("/api/judge", judge::judge),
    ("/api/learn", |site, _| site.job.begin(&site.held, JobKind::Learn)),
    ("/api/decide", |site, body| site.job.decide(&json(body)?)),
    ("/api/cancel", |site, _| Ok(site.job.cancel())),
    ("/api/rollback", |site, _| site.job.begin(&site.held, JobKind::Rollback)),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    token: String,
}

/// The call of a request.
///
/// # Errors
/// Why the request is refused.
pub fn admit(site: &Site, head: &Parts) -> Result<Route, Refusal> {
    let path = head.uri.path();
    let file = page::file(path);
    let access = match (file, path) {
        (Some(_), "/") => Access::Page,
        (Some(_), _) | (None, SESSION) => Access::Open,
        // Unknown paths too, so that strangers do not learn which paths exist.
        (None, _) => Access::Session,
    };
    site.guard.check(&head.method, &head.headers, access)?;
    if head.uri.query().is_some() {
        return Err(Refusal::bad("addresses of this program take no query"));
    }
    let listed =
        |table: &[(&str, Api)]| table.iter().find(|(own, _)| *own == path).map(|(_, call)| Route::Api(*call));
    match (file.map(Route::File).or_else(|| listed(&GETS)), listed(&POSTS)) {
        (Some(route), _) if head.method == Method::GET => Ok(route),
        (_, Some(route)) if head.method == Method::POST => Ok(route),
        (None, None) => Err(Refusal::new(StatusCode::NOT_FOUND, "no_such_path", "there is nothing here")),
        _ => {
            let message = "this path does not take this method";
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "other_method", message))
        }
    }
}

pub fn answer(site: &Site, route: Route, body: &[u8]) -> Result<Reply, Refusal> {
    match route {
        Route::File((_, kind, text)) => Ok(Reply::file(kind, text.as_bytes())),
        Route::Api(api) => api(site, body),
    }
}

/// Exchanges a token for a key, and prints the next token where the program runs.
fn begin(site: &Site, body: &[u8]) -> Result<Reply, Refusal> {
    let Begin { token } = json(body)?;
    let Guard { port, keys } = &site.guard;
    let failed = |error: io::Error| Refusal::failed(format!("no random bytes: {error}"));
    let Some(key) = keys.exchange(&token).map_err(failed)? else {
        let message = "this address was used before, or is not the one that `ehi explore` printed; it prints a \
                       new one whenever one was used";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, "no_token", message));
    };
    let next = keys.issue().map_err(failed)?;
    // The session is valid even if this cannot be printed.
    let _ = writeln!(io::stderr(), "a page is open; for another one: http://127.0.0.1:{port}/#{next}");
    Ok(Reply::json(&json!({ "key": key })))
}
