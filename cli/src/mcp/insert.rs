//! The tool `insert`.

use ehi::{CutTexts, Document};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::limits::{ANSWER, BATCH, REST, failure, fit, start, within};
use super::tool::Call;
use crate::failure::Failure;
use crate::text::counted;

/// Documents stored together. Progress and cancellation are handled between groups.
const GROUP: usize = 32;
/// Refused documents that an answer names.
const NAMED: usize = 100;
/// Bytes of their ids: a refused id may be longer than a stored one.
const ID: usize = 512;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// Documents to store. One with the id of a stored one replaces it.
    #[schemars(length(min = 1, max = BATCH))]
    documents: Vec<New>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Document")]
#[serde(deny_unknown_fields)]
pub struct New {
    /// Your own id, unique in the index, of 512 bytes at most.
    id: String,
    /// Searched together with the text.
    #[serde(default)]
    title: String,
    /// The body.
    text: String,
    /// Further fields, which `filter` can ask for.
    #[serde(default)]
    #[schemars(with = "Map<String, Value>")]
    metadata: Option<Map<String, Value>>,
}

impl From<New> for Document {
    fn from(New { id, title, text, metadata }: New) -> Self {
        Self { metadata: metadata.map(Value::Object), ..Self::new(id, title, text) }
    }
}

#[derive(Default, Serialize, JsonSchema)]
pub struct Answer {
    /// Stored under new ids.
    inserted: usize,
    /// Stored in place of one with the same id.
    replaced: usize,
    /// Not stored: a later document of the call has the same id.
    superseded: usize,
    /// Not stored: past its time; one with the same id is deleted.
    expired: usize,
    /// Not stored: invalid.
    refused: usize,
    /// The first refused documents, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<Refusal>,
    /// Documents of the index now.
    documents: usize,
    /// Notes on the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Refusal {
    /// Its place in the call, from 0.
    position: usize,
    id: String,
    reason: String,
}

/// What the model reads that chooses among the tools.
pub const DESCRIPTION: &str = "Store documents, so that `search` finds them; one with the id of a stored \
         document replaces it. On disk when this answers. A call takes up to 1,000 documents and 8 MiB.";

/// # Errors
/// Wrong arguments and failures of the index, for the model to read.
pub fn call(arguments: Arguments, call: &Call<'_>) -> Result<Answer, Failure> {
    let total = within("the number of documents", arguments.documents.len(), 1..=BATCH)?;
    let index = call.index()?;
    let mut answer = Answer::default();
    let mut cut = CutTexts::default();
    let mut rest = arguments.documents.into_iter().map(Document::from).enumerate().peekable();
    let mut store = || {
        while rest.peek().is_some() {
            let (places, group): (Vec<usize>, Vec<Document>) = rest.by_ref().take(GROUP).unzip();
            let summary = index.insert_batch(group)?;
            answer.inserted += summary.inserted;
            answer.replaced += summary.replaced;
            answer.superseded += summary.superseded;
            answer.expired += summary.expired;
            cut.join(summary.cut);
            for refused in summary.refused {
                answer.refuse(places[refused.position], refused.id, refused.error.to_string());
            }
            let done = places.last().map_or(total, |last| last + 1);
            if call.watch.tell(done, total).is_break() && rest.peek().is_some() {
                return Err(Failure::Usage("cancelled".to_owned()));
            }
        }
        Ok(())
    };
    let result = store();
    let flushed = index.flush();
    let stored = answer.inserted + answer.replaced;
    result.map_err(|failure| {
        Failure::Usage(format!("{}; {stored} of the {total} documents are stored", failure.line()))
    })?;
    flushed?;
    answer.refusals = fit(answer.refusals, ANSWER - REST).0;
    answer.documents = index.len();
    if cut.documents > 0 {
        let read = index.bundle().model().encoder()?.max_tokens();
        answer.notes.push(format!(
            "{} longer than the {read} tokens that the model reads: the text after them counts for words alone",
            counted(cut.documents, "text")
        ));
    }
    if index.needs_calibration() {
        answer.notes.push("searches score every document until `ehi calibrate` is run".to_owned());
    }
    Ok(answer)
}

impl Answer {
    fn refuse(&mut self, position: usize, id: String, reason: String) {
        self.refused += 1;
        if self.refusals.len() < NAMED {
            let (id, reason) = (start(&id, ID).0.to_owned(), failure(&reason));
            self.refusals.push(Refusal { position, id, reason });
        }
    }
}
