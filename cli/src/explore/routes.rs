//! Maps requests to calls.

use std::io::{self, Write};

use ehi::train::TrainConfig;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::guard::{Access, Guard};
use super::job::What;
use super::keys::Keys;
use super::page::{self, PageFile};
use super::reply::{Refusal, Reply};
use super::site::{Call, Site};
use super::{about, document, judge, leaves, search, state, why};
use crate::failure::Failure;
use crate::held::HeldIndex;

/// Serves the page and its requests.
pub struct Server {
    site: Site,
    guard: Guard,
}

type Api = fn(&Site, &Call) -> Result<Reply, Refusal>;

#[derive(Clone, Copy)]
pub enum Route {
    File(&'static PageFile),
    Session,
    Api(Api),
}

/// Calls without side effects.
const GETS: [(&str, Api); 7] = [
    ("/api/about", about::about),
    ("/api/map", leaves::map),
    ("/api/leaves", |site, _| leaves::leaves(site, false)),
    ("/api/state", state::state),
    ("/api/health", state::health),
    ("/api/judgments", judge::list),
    ("/api/job", |site, _| Ok(site.job.show())),
];

/// Calls with JSON in their body.
const POSTS: [(&str, Api); 9] = [
    ("/api/search", search::search),
    ("/api/why", why::why),
    ("/api/document", document::document),
    ("/api/leaves", |site, _| leaves::leaves(site, true)),
    ("/api/judge", judge::judge),
    ("/api/learn", |site, _| site.job.begin(&site.held, What::Learn)),
    ("/api/decide", |site, call| site.job.decide(&call.json()?)),
    ("/api/cancel", |site, _| Ok(site.job.cancel())),
    ("/api/rollback", |site, _| site.job.begin(&site.held, What::Rollback)),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    token: String,
}

impl Server {
    /// Returns the token of the first session too.
    pub fn new(held: HeldIndex, config: TrainConfig, port: u16) -> Result<(Self, String), Failure> {
        let keys = Keys::default();
        let token = keys.issue().map_err(Failure::Listen)?;
        Ok((Self { site: Site::new(held, config), guard: Guard { port, keys } }, token))
    }

    /// The call of a request.
    ///
    /// # Errors
    /// Why the request is refused.
    pub fn admit(&self, head: &Parts) -> Result<Route, Refusal> {
        let path = head.uri.path();
        let file = page::file(path);
        let access = match (file, path) {
            (Some(_), "/") => Access::Page,
            (Some(_), _) | (None, "/api/session") => Access::Open,
            // Unknown paths too, so that strangers do not learn which paths exist.
            (None, _) => Access::Session,
        };
        self.guard.check(&head.method, &head.headers, access)?;
        if head.uri.query().is_some() {
            return Err(Refusal::bad("an address here has no query"));
        }
        let listed = |table: &[(&str, Api)]| {
            table.iter().find(|(own, _)| *own == path).map(|(_, call)| Route::Api(*call))
        };
        let get = file.map(Route::File).or_else(|| listed(&GETS));
        let post = if path == "/api/session" { Some(Route::Session) } else { listed(&POSTS) };
        match (get, post) {
            (Some(route), _) if head.method == Method::GET => Ok(route),
            (_, Some(route)) if head.method == Method::POST => Ok(route),
            (None, None) => Err(Refusal::new(StatusCode::NOT_FOUND, "no_such_path", "there is nothing here")),
            _ => Err(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "other_method",
                "this path is asked for in another way",
            )),
        }
    }

    pub fn answer(&self, route: Route, call: &Call) -> Result<Reply, Refusal> {
        match route {
            Route::File((_, kind, text)) => Ok(Reply::file(kind, text.as_bytes())),
            Route::Session => self.begin(call),
            Route::Api(api) => api(&self.site, call),
        }
    }

    /// Exchanges a token for a key, and prints the next token where the program runs.
    fn begin(&self, call: &Call) -> Result<Reply, Refusal> {
        let Begin { token } = call.json()?;
        let keys = &self.guard.keys;
        let failed = |error: io::Error| Refusal::failed(format!("no random bytes: {error}"));
        let Some(key) = keys.exchange(&token).map_err(failed)? else {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "no_token",
                "this address was used before, or is not the one that `ehi explore` printed; it prints a new \
                 one whenever one was used",
            ));
        };
        let next = keys.issue().map_err(failed)?;
        let port = self.guard.port;
        // The session is valid even if this cannot be printed.
        let _ = writeln!(io::stderr(), "a page is open; for another one: http://127.0.0.1:{port}/#{next}");
        Ok(Reply::json(&json!({ "key": key })))
    }

    /// Stops running work, so that the index can be closed.
    pub fn end(&self) {
        self.site.job.end();
    }
}
