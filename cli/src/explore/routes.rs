//! Which request is which call.

use std::io::{self, Write};
use std::sync::Arc;

use ehi::train::TrainConfig;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::about::Examples;
use super::guard::{Access, Guard};
use super::job::Job;
use super::keys::Keys;
use super::leaves::Shelf;
use super::page::{self, PageFile};
use super::reply::{Refusal, Reply};
use super::{about, document, job, judge, leaves, search, state, why};
use crate::failure::Failure;
use crate::held::HeldIndex;

/// The page and all that it asks for.
pub struct Site {
    pub held: Arc<HeldIndex>,
    pub shelf: Arc<Shelf>,
    pub job: Arc<Job>,
    pub examples: Examples,
    keys: Keys,
    guard: Guard,
    port: u16,
}

/// A call that was admitted.
pub struct Call {
    pub route: Route,
    pub body: Bytes,
}

type Api = fn(&Site, &Call) -> Result<Reply, Refusal>;

#[derive(Clone, Copy)]
pub enum Route {
    File(&'static PageFile),
    Session,
    Api(Api),
}

/// Calls that change nothing, neither in the index nor here.
const GETS: [(&str, Api); 7] = [
    ("/api/about", about::about),
    ("/api/map", leaves::map),
    ("/api/leaves", leaves::read),
    ("/api/state", state::state),
    ("/api/health", state::health),
    ("/api/judgments", judge::list),
    ("/api/job", job::show),
];

/// Those with JSON in their body.
const POSTS: [(&str, Api); 10] = [
    ("/api/search", search::search),
    ("/api/why", why::why),
    ("/api/document", document::document),
    ("/api/leaves", leaves::begin),
    ("/api/judge", judge::judge),
    ("/api/forget", judge::forget),
    ("/api/learn", job::learn),
    ("/api/decide", job::decide),
    ("/api/cancel", job::cancel),
    ("/api/rollback", job::rollback),
];

impl Call {
    /// The body.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| Refusal::bad(format!("the request: {error}")))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Begin {
    token: String,
}

#[derive(Serialize)]
struct Begun {
    key: String,
}

impl Site {
    /// With the token of its first session.
    pub fn new(held: HeldIndex, config: TrainConfig, port: u16) -> Result<(Self, String), Failure> {
        let keys = Keys::default();
        let token = keys.issue().map_err(Failure::Listen)?;
        let held = Arc::new(held);
        let job = Arc::new(Job::new(config));
        let (shelf, examples) = (Arc::default(), Examples::default());
        let site = Self { held, shelf, job, examples, keys, guard: Guard::new(port), port };
        Ok((site, token))
    }

    /// The call of a request, if it is to be heard.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, head: &Parts) -> Result<Route, Refusal> {
        let path = head.uri.path();
        let file = page::file(path);
        let access = match (file, path) {
            (Some(_), "/") => Access::Page,
            (Some(_), _) => Access::Open,
            (None, "/api/session") => Access::Token,
            // What is not there, too: a stranger learns nothing of what is.
            (None, _) => Access::Session,
        };
        self.guard.check(&head.method, &head.headers, access, &self.keys)?;
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

    pub fn answer(&self, call: &Call) -> Reply {
        let answered = match call.route {
            Route::File((_, kind, text)) => return Reply::file(kind, text.as_bytes()),
            Route::Session => self.begin(call),
            Route::Api(api) => api(self, call),
        };
        answered.unwrap_or_else(Reply::from)
    }

    /// Exchanges a token for a key; the next token is printed where the program runs.
    fn begin(&self, call: &Call) -> Result<Reply, Refusal> {
        let Begin { token } = call.json()?;
        let failed = |error: io::Error| {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", format!("no random bytes: {error}"))
        };
        let Some(key) = self.keys.exchange(&token).map_err(failed)? else {
            self.guard.stranger()?;
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "no_token",
                "this address was used before, or is not the one that `ehi explore` printed; it prints a new \
                 one whenever one was used",
            ));
        };
        let next = self.keys.issue().map_err(failed)?;
        // The page is open whether this can be said or not.
        let _ =
            writeln!(io::stderr(), "a page is open; for another one: http://127.0.0.1:{}/#{next}", self.port);
        Ok(Reply::json(&Begun { key }))
    }

    /// Ends what is under way, so that the index can be closed.
    pub fn end(&self) {
        self.job.end();
    }
}
