//! Fetching a base model by name, from our own server that answers like the hub.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{base_model, dataset};
use ehi::Bundle;

const NAME: &str = "sentence-transformers/small-model";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Serves the fixture's files under the name above, and counts the answers with a body.
fn serve() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that disconnects is not an error here.
            if answer(&stream.unwrap()).unwrap_or(false) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (endpoint, served)
}

fn answer(mut stream: &TcpStream) -> std::io::Result<bool> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut range = (0, None);
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let line = line.to_ascii_lowercase();
        if let Some((from, to)) = line.strip_prefix("range: bytes=").and_then(|r| r.split_once('-')) {
            range = (from.parse().unwrap(), to.parse::<usize>().ok());
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let file = path.strip_prefix(&format!("/{NAME}/resolve/main/"));
    let Some(bytes) = file.and_then(|file| fs::read(base_model().join(file)).ok()) else {
        write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        return Ok(false);
    };
    let (start, end) = (range.0, range.1.unwrap_or(bytes.len() - 1));
    let part = &bytes[start..=end];
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{end}/{}\r\n\
         ETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        part.len(),
        bytes.len(),
        path.replace('/', "-"),
    )?;
    stream.write_all(part)?;
    Ok(part.len() == bytes.len())
}

/// Trains from a base of this name; returns standard error of a failure.
fn train(base: &str, out: &Path, home: &Path, endpoint: &str, offline: bool) -> Result<(), String> {
    let config = home.join("config.json");
    fs::write(
        &config,
        r#"{"tree.branching_factor": 4, "schedule": {"epochs": 0, "indexer_epochs": 1}, "encoder.trainable_layers": 0,
            "dev_fraction": 0.2}"#,
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ehi"));
    command.args(["train", "--base", base]).arg("--data").arg(dataset()).arg("--out").arg(out);
    command.arg("--config").arg(config);
    command.env("HF_HOME", home).env("HF_ENDPOINT", endpoint).env_remove("HF_HUB_CACHE");
    command.env("HF_HUB_OFFLINE", if offline { "1" } else { "0" });
    let ran = command.output().unwrap();
    if ran.status.success() { Ok(()) } else { Err(String::from_utf8(ran.stderr).unwrap()) }
}

#[test]
fn a_model_is_fetched_by_name_once_and_then_found_offline() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let (endpoint, served) = serve();

    let missing = train(NAME, &dir.path().join("none"), &home, &endpoint, true).unwrap_err();
    assert!(missing.contains(NAME) && missing.contains("HF_HUB_OFFLINE"), "{missing}");
    assert_eq!(served.load(Ordering::SeqCst), 0, "offline means no request");

    let unknown = train("someone/else", &dir.path().join("none"), &home, &endpoint, false).unwrap_err();
    assert!(unknown.contains("someone/else") && unknown.contains("config.json"), "{unknown}");

    // With a slash at its end, as people write it.
    let fetched = dir.path().join("fetched");
    train(NAME, &fetched, &home, &format!("{endpoint}/"), false).unwrap();
    let files = served.load(Ordering::SeqCst);
    assert!(files >= 5, "{files} files were served");

    let (again, offline) = (dir.path().join("again"), dir.path().join("offline"));
    // Without its owner.
    let (_, name) = NAME.split_once('/').unwrap();
    train(name, &again, &home, &endpoint, false).unwrap();
    assert_eq!(served.load(Ordering::SeqCst), files, "what the cache holds is not fetched again");
    train(NAME, &offline, &home, "http://127.0.0.1:1", true).unwrap();

    let local = dir.path().join("local");
    train(base_model().to_str().unwrap(), &local, &home, &endpoint, false).unwrap();
    let weights = |bundle: &Path| {
        Bundle::open(bundle).unwrap();
        ["model.safetensors", "indexer.safetensors"].map(|file| fs::read(bundle.join(file)).unwrap())
    };
    for bundle in [&fetched, &again, &offline] {
        assert!(weights(bundle) == weights(&local), "{}", bundle.display());
    }
}
