//! A search service over HTTP, for several tenants in one index.
//!
//! ```text
//! cargo run --release -p ehi-service -- my-index target/base-model
//! curl -H 'x-tenant: a' -H 'content-type: application/json' localhost:3000/documents \
//!     -d '{"id": "tea", "title": "Tea", "text": "Steep it.", "metadata": {"year": 2024}}'
//! curl -H 'x-tenant: a' 'localhost:3000/search?q=how+long+does+tea+steep&filter=%7B%22year%22:2024%7D'
//! ```
//!
//! The tenant comes in a header, which whatever stands before this service must set after it has checked who
//! asks.

mod service;

use std::process::ExitCode;
use std::sync::Arc;

use ehi::{Bundle, Durability, Index};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [index, model, rest @ ..] = &arguments[..] else {
        eprintln!("usage: ehi-service INDEX MODEL [ADDRESS]");
        return ExitCode::from(2);
    };
    let address = rest.first().map_or("127.0.0.1:3000", String::as_str);
    match serve(index, model, address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ehi-service: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(index: &str, model: &str, address: &str) -> Result<(), Box<dyn std::error::Error>> {
    // An answer to a request to store something promises that it survives a power failure.
    let builder = Index::builder().durability(Durability::EveryBatch);
    let index = builder.open_or_create(index, &Bundle::from_encoder(model)?)?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let ended = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let index = Arc::new(index);
    axum::serve(listener, service::routes(&index)).with_graceful_shutdown(ended).await?;
    index.flush()?;
    Ok(())
}
