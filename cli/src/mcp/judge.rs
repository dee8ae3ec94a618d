//! The tool `judge`.

use ehi::Judgment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::{notes, question};
use super::tool::Call;
use crate::failure::Failure;
use crate::text::escaped;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// The question as it was asked.
    question: String,
    /// Id of the document.
    id: String,
    /// 1 and more: it answers the question, the better the higher; 0 and less: it does not.
    #[serde(default)]
    #[schemars(with = "i32", extend("default" = 1))]
    grade: Option<i32>,
    /// How much the judgment counts, above 0 and at most 1: less where it is a guess.
    #[serde(default)]
    #[schemars(with = "f64", extend("default" = 1.0))]
    weight: Option<f64>,
    /// Take back the judgment of this question and document; without `grade` and `weight`.
    #[serde(default)]
    forget: bool,
}

#[derive(Default, Serialize, JsonSchema)]
pub struct Answer {
    /// Whether the judgment is new.
    added: bool,
    /// Whether it replaced an earlier judgment of this question and document.
    replaced: bool,
    /// Whether a judgment was taken back.
    forgotten: bool,
    /// Judgments of the index now.
    judgments: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// What the model reads that chooses among the tools.
pub const DESCRIPTION: &str = "Tell the index that a document answers a question, or does not. The next search of \
         that question counts it, for everyone, so give only judgments that you are sure of.";

/// # Errors
/// Wrong arguments and failures of the index, for the model to read.
pub fn call(arguments: Arguments, call: &Call<'_>) -> Result<Answer, Failure> {
    let Arguments { question: asked, id, grade, weight, forget } = arguments;
    let asked = question(&asked)?;
    if forget && (grade.is_some() || weight.is_some()) {
        let message = "`forget` takes a judgment back: leave out `grade` and `weight`, or `forget`";
        return Err(Failure::Usage(message.to_owned()));
    }
    let index = call.index()?;
    let mut answer = Answer::default();
    if forget {
        if index.forget([(asked, id.as_str())])? == 0 {
            return Err(Failure::NotJudged { id: Some(id) });
        }
        answer.forgotten = true;
    } else {
        let judgment = Judgment::new(asked, &id, grade.unwrap_or(1)).with_weight(weight.unwrap_or(1.0));
        let recorded = index.record_all([judgment])?;
        answer.added = recorded.added > 0;
        answer.replaced = recorded.replaced > 0;
        if recorded.without_document > 0 {
            let id = escaped(&id);
            answer.notes.push(format!("no document has the id `{id}`: the judgment counts once one has"));
        }
    }
    index.flush()?;
    answer.notes = notes(&answer.notes);
    answer.judgments = index.judgments()?.len();
    Ok(answer)
}
