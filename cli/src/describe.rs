//! `ehi model`: describes how a model processes a text.

use std::io::{self, Write};
use std::path::PathBuf;

use ehi::model::{DenseModule, Encoder, EncoderDescription, Module, Prompt, PromptSource, ReadText, Role};
use ehi::{Bundle, Index};
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
use crate::models::{self, EncoderArgs};
use crate::printing;
use crate::text::{counted, escaped};

#[derive(clap::Args)]
pub struct Args {
    /// A bundle, an encoder in the sentence-transformers layout, or an index, whose model is meant
    #[cfg_attr(feature = "hub", doc = "(or the name of one to fetch)")]
    model: PathBuf,
    #[command(flatten)]
    encoder: EncoderArgs,
    /// The text to show the tokens of
    #[arg(long, value_name = "TEXT", default_value = "How long does tea steep?")]
    text: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The printed description.
#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    encoder: EncoderDescription,
    /// Leaves of its tree; `None` without one.
    leaves: Option<u32>,
    /// The text as a query and as a document.
    query: ReadText,
    document: ReadText,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let described = match models::open(&args.model, &args.encoder) {
        Ok(bundle) => describe(&bundle, &args.text)?,
        Err(error) => match Index::open_read_only(&args.model) {
            Ok(_) if !args.encoder.settings().is_empty() => {
                let what = "an index has the settings that its model was given";
                return Err(Failure::Usage(format!("{}: {what}", printing::path(&args.model))));
            }
            Ok(index) => describe(&index.bundle(), &args.text)?,
            Err(_) => return Err(error),
        },
    };
    printing::report(out, args.json, &described, |out| write(out, args, &described))
}

fn describe(bundle: &Bundle, text: &str) -> Result<Described, Failure> {
    let encoder = bundle.model().encoder()?;
    let leaves = bundle.has_tree().then(|| bundle.model().indexer().shape().leaves());
    let read = |role| encoder.read_text(text, role);
    Ok(Described {
        encoder: encoder.describe()?,
        leaves,
        query: read(Role::Query)?,
        document: read(Role::Document)?,
    })
}

fn write(out: &mut dyn Write, args: &Args, described: &Described) -> io::Result<()> {
    let Described { encoder, leaves, query, document } = described;
    let EncoderDescription { architecture, layers, hidden_size, vocabulary, max_tokens, .. } = encoder;
    writeln!(
        out,
        "{}: {}, {layers} layers of width {hidden_size}, a vocabulary of {vocabulary} tokens",
        printing::path(&args.model),
        escaped(architecture),
    )?;
    writeln!(out, "before a query:     {}", prompt(&encoder.query_prompt))?;
    writeln!(out, "before a document:  {}", prompt(&encoder.document_prompt))?;
    if encoder.lowercase {
        writeln!(out, "letters:            all in lower case")?;
    }
    writeln!(out, "longest text:       {max_tokens} tokens; the rest of a longer one is cut")?;
    let modes: Vec<String> = encoder.pooling.iter().map(name).collect();
    let without = if encoder.pools_prompt { "" } else { ", without the tokens of the prompt" };
    writeln!(out, "pooling:            {}{without}", modes.join(", then "))?;
    for module in &encoder.modules {
        match module {
            Module::Dense(DenseModule { inputs, outputs, activation: with, .. }) => {
                writeln!(out, "then:               {inputs} to {outputs} dimensions, {}", name(with))?;
            }
            Module::Normalize => writeln!(out, "then:               unit norm")?,
            _ => {}
        }
    }
    if encoder.dim < encoder.width {
        let again = if encoder.is_unit { ", and unit norm again" } else { "" };
        writeln!(
            out,
            "then:               the first {} of {} dimensions{again}",
            encoder.dim, encoder.width
        )?;
    }
    writeln!(out, "embedding:          {} dimensions, compared by {}", encoder.dim, encoder.similarity)?;
    match leaves {
        Some(leaves) => writeln!(out, "tree:               {}", counted(*leaves, "leaf"))?,
        None => writeln!(out, "tree:               none; searches score every document")?,
    }
    write_tokens(out, "as a query", query)?;
    write_tokens(out, "as a document", document)
}

fn write_tokens(out: &mut dyn Write, name: &str, text: &ReadText) -> io::Result<()> {
    let (skipped, pooled) = text.tokens.split_at(text.pooled_from.min(text.tokens.len()));
    let line = |tokens: &[String]| escaped(&tokens.join(" "));
    let left_out = if skipped.is_empty() { String::new() } else { format!("({}) ", line(skipped)) };
    writeln!(
        out,
        "{:<20}{}: {left_out}{}",
        format!("{name}:"),
        counted(text.tokens.len(), "token"),
        line(pooled)
    )
}

/// The prompts that a new index uses, if any.
pub fn write_prompts(out: &mut dyn Write, encoder: &Encoder) -> io::Result<()> {
    for (role, name) in [(Role::Query, "query"), (Role::Document, "document")] {
        let given = encoder.prompt(role);
        if !given.text.is_empty() {
            writeln!(out, "before each {name}: {}", prompt(given))?;
        }
    }
    Ok(())
}

fn prompt(prompt: &Prompt) -> String {
    let source = match prompt.source {
        PromptSource::Folder => " (by config_sentence_transformers.json)",
        PromptSource::Card => " (by the model's card; --query-prompt and --document-prompt say otherwise)",
        PromptSource::Settings => " (as it was given)",
        _ => "",
    };
    match prompt.text.as_str() {
        "" => format!("nothing{source}"),
        text => format!("`{}`{source}", escaped(text)),
    }
}

/// The name of a mode or an activation.
fn name(of: impl Serialize) -> String {
    json!(of).as_str().unwrap_or_default().replace('_', " ")
}
