//! Requests to the routes, without a socket.

use axum::body::Body;
use axum::http::Request;
use ehi::Bundle;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

struct Service {
    routes: Router,
    _dir: tempfile::TempDir,
}

impl Service {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/static/model2vec-0.10/plain");
        let index = Index::create(dir.path().join("index"), &Bundle::from_encoder(model).unwrap()).unwrap();
        Self { routes: routes(&Arc::new(index)), _dir: dir }
    }

    async fn ask(&self, tenant: &str, method: &str, uri: &str, body: &str) -> (u16, Value) {
        let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
        let request = request.header("x-tenant", tenant).body(Body::from(body.to_owned())).unwrap();
        let response = self.routes.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn ids(&self, tenant: &str, uri: &str) -> Vec<String> {
        let (status, found) = self.ask(tenant, "GET", uri, "").await;
        assert_eq!(status, 200, "{found}");
        let hits = found["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    }
}

const TEA: &str = r#"{"id": "tea", "text": "the cat sat", "metadata": {"year": 2024, "tenant": "b"}}"#;

#[tokio::test]
async fn a_tenant_finds_and_deletes_only_its_own_documents() {
    let service = Service::new();
    assert_eq!(service.ask("a", "POST", "/documents", TEA).await.0, 201);
    assert_eq!(service.ask("b", "POST", "/documents", &TEA.replace("2024", "1999")).await.0, 201);
    assert_eq!(service.ids("a", "/search?q=cat").await, ["tea"]);
    assert_eq!(service.ids("a", "/search?q=cat&filter=%7B%22year%22%3A1999%7D").await, [""; 0]);
    assert_eq!(service.ids("b", "/search?q=cat&filter=%7B%22year%22%3A1999%7D").await, ["tea"]);
    assert_eq!(service.ask("b", "DELETE", "/documents/tea", "").await.0, 204);
    assert_eq!(service.ask("b", "DELETE", "/documents/tea", "").await.0, 404);
    assert_eq!(service.ids("a", "/search?q=cat").await, ["tea"]);
    assert_eq!(service.ids("b", "/search?q=cat").await, [""; 0]);
}

#[tokio::test]
async fn a_bad_request_says_why() {
    let service = Service::new();
    for (tenant, method, uri, body, said) in [
        ("", "GET", "/search?q=cat", "", "x-tenant"),
        ("a/b", "GET", "/search?q=cat", "", "x-tenant"),
        ("a", "GET", "/search?q=cat&k=0", "", "k"),
        ("a", "GET", "/search?q=cat&unknown=0", "", "unknown"),
        ("a", "POST", "/documents", "{", "JSON"),
        ("a", "POST", "/documents", r#"{"id": "", "text": "cat"}"#, "no id"),
        ("a", "GET", "/search?q=cat&filter=%7B", "", "filter"),
        ("a", "POST", "/documents", r#"{"id": "x", "text": "cat", "metadata": 7}"#, "metadata"),
    ] {
        let (status, answer) = service.ask(tenant, method, uri, body).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(status == 400 && error.contains(said), "{uri} {body}: {status} {answer}");
    }
}

#[tokio::test]
async fn a_second_name_of_a_tenant_is_refused() {
    let service = Service::new();
    let request = Request::builder().uri("/search?q=cat").header("x-tenant", "b").header("x-tenant", "a");
    let response = service.routes.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}
