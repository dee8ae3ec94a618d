//! Sizes, health and history of the index.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ehi::LearnedFusion;
use ehi::health::Health;
use ehi::learn::Learning;
use ehi::model::{DistilReport, ModelHash};
use ehi::store::StoreStats;
use ehi::train::REPORT_FILE;
use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::{Map, Value};

use super::reply::{Refusal, Reply};
use super::site::Site;

/// A larger report is not shown.
const MOST_REPORT: u64 = 16 << 20;
/// Parts of a report that are long and not shown.
const LONG: [&str; 3] = ["indexer_epochs", "leaf_sizes", "moved"];

#[derive(Serialize)]
struct IndexState {
    path: String,
    #[serde(flatten)]
    store: StoreStats,
    fusion: Option<LearnedFusion>,
    query_encoder: Option<DistilReport>,
    /// The model that a rollback returns to.
    previous_model: Option<ModelHash>,
    judgments: usize,
    notices: Vec<String>,
    /// The newest first.
    learnings: Vec<Learning>,
    /// Report of the training of the model in service, if there is one.
    report: Option<Value>,
}

#[derive(Serialize)]
struct Report {
    health: Health,
    words: Vec<String>,
    remedies: Vec<String>,
}

pub fn state(site: &Site, _: &[u8]) -> Result<Reply, Refusal> {
    let index = site.held.index()?;
    Ok(Reply::json(&IndexState {
        path: index.path().display().to_string(),
        store: index.stats()?,
        fusion: index.fusion(),
        query_encoder: index.query_encoder(),
        previous_model: index.previous_model()?,
        judgments: index.judgments()?.len(),
        notices: index.notices().iter().map(ToString::to_string).collect(),
        learnings: index.learnings()?,
        report: report(&index.bundle().path().join(REPORT_FILE)),
    }))
}

pub fn health(site: &Site, _: &[u8]) -> Result<Reply, Refusal> {
    let health = site.held.index()?.health()?;
    let words = health.advice.iter().map(ToString::to_string).collect();
    let remedies = health.remedies.iter().map(ToString::to_string).collect();
    Ok(Reply::json(&Report { health, words, remedies }))
}

/// The parts of a training report that are shown; `None` if it cannot be read.
fn report(path: &Path) -> Option<Value> {
    // Does not follow links or block on a FIFO.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let file = file.metadata().is_ok_and(|about| about.is_file()).then_some(file)?;
    let mut text = String::new();
    file.take(MOST_REPORT).read_to_string(&mut text).ok()?;
    let mut report: Map<String, Value> = serde_json::from_str(&text).ok()?;
    report.retain(|name, _| !LONG.contains(&name.as_str()));
    Some(Value::Object(report))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn a_report_is_read_from_a_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name| folder.path().join(name);
        std::fs::write(at("file"), r#"{ "version": "1", "moved": [] }"#).unwrap();
        assert_eq!(report(&at("file")), Some(serde_json::json!({ "version": "1" })));
        symlink(at("file"), at("link")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for name in ["link", "fifo", "absent", "."] {
            assert_eq!(report(&at(name)), None, "{name}");
        }
    }
}
