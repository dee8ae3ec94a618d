//! Giving, listing and withdrawing judgments.

use std::sync::Arc;

use ehi::{Index, Judgment};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::question::check_length;
use super::reply::{Refusal, Reply, json};
use super::site::Site;
use crate::held::HeldIndex;

/// Most judgments listed, newest first.
const MOST_LISTED: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judge {
    question: String,
    id: String,
    /// `None` withdraws the judgment.
    grade: Option<i32>,
}

#[derive(Serialize)]
struct List {
    all: usize,
    /// Distinct questions with an answer.
    questions: usize,
    judgments: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    judgment: Judgment,
    /// Title of the document; `None` if it is not in the index.
    title: Option<String>,
}

/// The index to write to.
///
/// # Errors
/// The program was started read-only.
pub fn writable(held: &HeldIndex) -> Result<Arc<Index>, Refusal> {
    if held.writes() {
        return Ok(held.index()?);
    }
    let message = "the index is open for reading: start `ehi explore` with `--judge` to teach it";
    Err(Refusal::new(StatusCode::FORBIDDEN, "read_only", message))
}

pub fn judge(site: &Site, body: &[u8]) -> Result<Reply, Refusal> {
    let Judge { question, id, grade } = json(body)?;
    check_length(&question)?;
    let index = writable(&site.held)?;
    let changed = match grade {
        Some(grade) => json!(index.record_all([Judgment::new(question, id, grade)])?),
        None => json!({ "forgotten": index.forget([(question.as_str(), id.as_str())])? }),
    };
    // Flushed for other processes and against power failures.
    index.flush()?;
    Ok(Reply::json(&changed))
}

pub fn list(site: &Site, _: &[u8]) -> Result<Reply, Refusal> {
    let index = site.held.index()?;
    let mut judgments = index.judgments()?;
    let all = judgments.len();
    let mut answered: Vec<&str> =
        judgments.iter().filter(|judgment| judgment.grade > 0).map(|judgment| &*judgment.question).collect();
    // They are sorted by question.
    answered.dedup();
    let questions = answered.len();
    judgments.sort_by_key(|judgment| std::cmp::Reverse(judgment.time));
    judgments.truncate(MOST_LISTED);
    let documents = index.get_many(judgments.iter().map(|judgment| &judgment.id))?;
    let titles = documents.into_iter().map(|document| document.map(|document| document.title));
    let judgments = judgments.into_iter().zip(titles).map(|(judgment, title)| Listed { judgment, title });
    Ok(Reply::json(&List { all, questions, judgments: judgments.collect() }))
}
