//! The routes, each of which is one call of `ehi` on a thread for blocking work.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use ehi::{Document, Error, Filter, Index, SearchRequest};
use serde::Deserialize;
use serde_json::{Value, json};

/// The field of the metadata that says whose a document is.
const TENANT: &str = "tenant";

pub fn routes(index: &Arc<Index>) -> Router {
    Router::new()
        .route("/documents", post(insert))
        .route("/documents/{*id}", delete(remove))
        .route("/search", get(search))
        .with_state(Arc::clone(index))
}

/// Who asks.
struct Tenant(String);

impl<S: Sync> axum::extract::FromRequestParts<S> for Tenant {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        named(&parts.headers).ok_or_else(|| Failure::bad("the header x-tenant must be there once"))
    }
}

fn named(headers: &HeaderMap) -> Option<Tenant> {
    // One alone: with two, a client could have added its own to that of the proxy.
    let mut given = headers.get_all("x-tenant").iter();
    let name = given.next().filter(|_| given.next().is_none())?.to_str().ok()?;
    // It begins the ids of its documents, and ends at the slash.
    (!name.is_empty() && !name.contains('/')).then(|| Tenant(name.to_owned()))
}

impl Tenant {
    /// Ids are unique in an index, and two tenants may use the same.
    fn id(&self, own: &str) -> String {
        format!("{}/{own}", self.0)
    }

    fn filter(&self) -> Filter {
        Filter::eq(TENANT, self.0.as_str())
    }
}

async fn insert(
    State(index): State<Arc<Index>>,
    tenant: Tenant,
    document: Result<Json<Document>, JsonRejection>,
) -> Result<StatusCode, Failure> {
    let Json(mut document) = document?;
    if document.id.is_empty() {
        return Err(Failure::bad("the document has no id"));
    }
    document.id = tenant.id(&document.id);
    let metadata = document.metadata.get_or_insert_with(|| json!({}));
    let fields = metadata.as_object_mut().ok_or_else(|| Failure::bad("metadata is not an object"))?;
    // Whatever the tenant says: the documents of others stay theirs.
    fields.insert(TENANT.to_owned(), Value::from(tenant.0));
    blocking(move || index.insert(document)).await?;
    Ok(StatusCode::CREATED)
}

async fn remove(
    State(index): State<Arc<Index>>,
    tenant: Tenant,
    Path(id): Path<String>,
) -> Result<StatusCode, Failure> {
    let found = blocking(move || index.scoped(tenant.filter()).delete(&tenant.id(&id))).await?;
    Ok(if found { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    q: String,
    #[serde(default = "ten")]
    k: usize,
    /// JSON, as `ehi search --filter` takes it. Its `$ids` are those of the index, `tenant/id`.
    filter: Option<String>,
}

fn ten() -> usize {
    10
}

async fn search(
    State(index): State<Arc<Index>>,
    tenant: Tenant,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Value>, Failure> {
    let Query(asked) = asked?;
    let mut request = SearchRequest::default().k(asked.k);
    if let Some(filter) = &asked.filter {
        let filter: Filter = filter.parse().map_err(Error::Filter)?;
        request = request.filter(&filter);
    }
    let prefix = tenant.id("");
    let result =
        blocking(move || index.scoped(tenant.filter()).search_with(asked.q.as_str(), &request)).await?;
    let own = |id: &str| id.strip_prefix(&prefix).unwrap_or(id).to_owned();
    let hits = result.hits.iter().map(|hit| {
        json!({ "id": own(&hit.id), "score": hit.score, "title": hit.document.title, "text": hit.document.text })
    });
    Ok(Json(json!({ "hits": hits.collect::<Vec<_>>(), "notes": result.notes })))
}

/// Calls of an index block their thread; the runtime has other threads for that.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> ehi::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => Ok(result?),
        Err(panicked) => Err(Failure::internal(&panicked)),
    }
}

struct Failure {
    status: StatusCode,
    said: String,
}

impl Failure {
    fn bad(said: &str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, said: said.to_owned() }
    }

    /// The operator is told more than the client: messages name paths.
    fn internal(error: &dyn std::fmt::Display) -> Self {
        eprintln!("ehi-service: {error}");
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, said: "internal error".to_owned() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Input(_) | Error::Filter(_) => Self::bad(&error.to_string()),
            _ => Self::internal(&error),
        }
    }
}

impl From<JsonRejection> for Failure {
    fn from(rejected: JsonRejection) -> Self {
        Self { status: rejected.status(), said: rejected.body_text() }
    }
}

impl From<QueryRejection> for Failure {
    fn from(rejected: QueryRejection) -> Self {
        Self { status: rejected.status(), said: rejected.body_text() }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.said }))).into_response()
    }
}

#[cfg(test)]
mod tests;
