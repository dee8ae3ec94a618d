//! `ehi create`, `compact`, `snapshot`, `recover` and `stats`.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

use ehi::calibrate::RecallCurve;
use ehi::model::{DistilReport, EncoderPrecision};
use ehi::search::DEFAULT_ALPHA;
use ehi::store::{EncodedBy, Entries, Notice, StoreStats};
use ehi::{
    Analyzer, Error, Index, IndexBuilder, Judgment, Language, LearnedFusion, OnProgress, Passages, Similarity,
};
use serde::Serialize;
use serde_json::json;

use crate::arguments::one_of;
use crate::calibrate::write_curve;
use crate::describe;
use crate::failure::Failure;
use crate::judge::{aging, in_days};
use crate::long::{self, AS_BEFORE};
use crate::models::{self, EncoderArgs};
use crate::opening::{OwnModelArgs, WaitArgs, open_read_only, refuse_file};
use crate::printing;
use crate::text::{counted, escaped};

const SIMILARITIES: [(&str, Similarity); 3] =
    [("cosine", Similarity::Cosine), ("dot", Similarity::DotProduct), ("manhattan", Similarity::Manhattan)];

/// The kind of words of an index, if any.
#[derive(Clone, Copy)]
struct Words(Option<Analyzer>);

fn words(text: &str) -> Result<Words, String> {
    match text.trim().to_lowercase().as_str() {
        "none" => Ok(Words(None)),
        name => analyzer(name).map(|analyzer| Words(Some(analyzer))).map_err(|error| error + ", or none"),
    }
}

fn analyzer(text: &str) -> Result<Analyzer, String> {
    text.parse().map_err(|_| {
        let languages: Vec<_> = Language::ALL.iter().map(|language| language.name()).collect();
        format!("expected tokens, or a language: {}", languages.join(", "))
    })
}

#[derive(clap::Args)]
pub struct CreateArgs {
    /// Directory of the new index; made where it is missing
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// A bundle, or an encoder in the sentence-transformers layout, which needs no training
    #[cfg_attr(feature = "hub", doc = "(or the name of one to fetch)")]
    ///
    /// Without a model, give `--dim`: documents come with their vectors, and texts are searched by words
    /// alone
    #[arg(long, value_name = "MODEL")]
    model: Option<PathBuf>,
    #[command(flatten)]
    encoder: EncoderArgs,
    /// How embeddings are compared; as the encoder's folder says if absent, or else by cosine
    #[arg(long, value_name = "SIMILARITY", value_parser = one_of(SIMILARITIES))]
    similarity: Option<Similarity>,
    /// By which words documents can be found: `tokens` of the encoder, which is the default, words without
    /// their endings in a language (`english`, the default without an encoder), or `none`; `ehi compact
    /// --lexical` adds them later
    #[arg(long, value_name = "WORDS", value_parser = words)]
    lexical: Option<Words>,
    /// Longest passage of a document, and the most that two neighbours share, in tokens of the encoder. Each
    /// passage has an embedding. By default 200/40, or less if the encoder reads less; an overlap not
    /// given is a fifth
    #[arg(long, value_name = "TOKENS[/OVERLAP]")]
    passages: Option<Passages>,
    /// Store one embedding for each document, made from as much of its start as the encoder reads
    #[arg(long, conflicts_with = "passages")]
    whole: bool,
    /// The field of the metadata with the time at which a document expires: an RFC 3339 time such as
    /// 2027-01-31T18:00:00Z, or a number of seconds since 1970. After that time the document is not found
    #[arg(long, value_name = "FIELD")]
    expires: Option<String>,
    /// How texts are encoded: f32, or int8, which is faster and slightly less exact; by default int8 if the
    /// processor has instructions for it
    #[arg(long, value_name = "PRECISION", requires = "model")]
    encoder_precision: Option<EncoderPrecision>,
    #[command(flatten)]
    own: OwnModelArgs,
}

/// Arguments of a command that writes and reports.
#[derive(clap::Args)]
pub struct WriteArgs {
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub wait: WaitArgs,
}

impl WriteArgs {
    /// Runs a call on the index, and prints what it reports; `left` describes the state after a signal.
    pub fn run<T: Serialize>(
        &self,
        out: &mut dyn Write,
        left: &str,
        call: impl FnOnce(&Index, &mut OnProgress<'_>) -> Result<T, Error>,
        text: impl FnOnce(&mut dyn Write, &Index, &T) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        self.report.run(self.wait.open(&self.report.index)?, out, left, call, text)
    }
}

#[derive(clap::Args)]
pub struct CompactArgs {
    #[command(flatten)]
    write: WriteArgs,
    /// Give every document posting lists of its words, for an index that was made without: `tokens` of the
    /// encoder, or words without their endings in a language (`english`); tokens if not named
    #[arg(long, value_name = "WORDS", num_args = 0..=1, value_parser = analyzer)]
    lexical: Option<Option<Analyzer>>,
}

#[derive(clap::Args)]
pub struct ReportArgs {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    pub index: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl ReportArgs {
    /// As [`WriteArgs::run`], on an index that is open.
    pub fn run<T: Serialize>(
        &self,
        index: Index,
        out: &mut dyn Write,
        left: &str,
        call: impl FnOnce(&Index, &mut OnProgress<'_>) -> Result<T, Error>,
        text: impl FnOnce(&mut dyn Write, &Index, &T) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        let done = long::run(left, |on_progress| call(&index, on_progress))?;
        // After a change of model.
        index.finish_fit();
        printing::report(out, self.json, &done, |out| text(out, &index, &done))
    }
}

#[derive(clap::Args)]
pub struct SnapshotArgs {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Directory of the copy; must be missing or empty
    target: PathBuf,
}

pub fn create(args: &CreateArgs, out: &mut dyn Write) -> Result<(), Failure> {
    refuse_file(&args.index)?;
    let bundle = match &args.model {
        Some(model) => models::open(model, &args.encoder)?,
        None => models::for_vectors(&args.encoder)?,
    };
    let builder = Index::builder();
    let builder = args.lexical.iter().fold(builder, |builder, words| builder.analyzer(words.0));
    let builder = args.similarity.iter().fold(builder, |builder, own| builder.similarity(*own));
    let builder = match args.passages {
        Some(of) => builder.passages(of.tokens, of.overlap),
        None if args.whole || args.model.is_none() => builder,
        None => builder.sized_passages(),
    };
    let builder = match &args.expires {
        Some(field) => builder.expires(field),
        None => builder,
    };
    let builder = args.encoder_precision.into_iter().fold(builder, IndexBuilder::encoder_precision);
    let index = builder.own_model(args.own.own_model).create(&args.index, &bundle)?;
    let tree = match bundle.has_tree() {
        true => counted(bundle.model().indexer().shape().leaves(), "leaf"),
        false => "no tree, so searches score every document".to_owned(),
    };
    let dim = counted(bundle.model().dim(), "dimension");
    let passages =
        index.passages().map_or_else(String::new, |passages| format!("; passages of {passages} tokens"));
    let expires = args.expires.as_ref();
    let expires = expires
        .map_or_else(String::new, |field| format!("; documents expire at the time in `{}`", escaped(field)));
    writeln!(out, "created {}: {tree}; {dim}{passages}{expires}", printing::path(&args.index))
        .map_err(Failure::Output)?;
    match bundle.model().encoder() {
        Ok(encoder) => describe::write_prompts(out, encoder),
        Err(_) => {
            writeln!(out, "no encoder: documents come with their vectors, and texts are searched by words")
        }
    }
    .map_err(Failure::Output)
}

pub fn compact(args: &CompactArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let CompactArgs { write: WriteArgs { report: args, wait }, lexical } = args;
    let index = wait.open(&args.index)?;
    let (before, has) = (index.stats()?, index.analyzer());
    long::run(AS_BEFORE, |on_progress| {
        let progress = index.with_progress(on_progress);
        match *lexical {
            Some(given) => progress.make_lexical(given.or(has).unwrap_or_default()),
            None => progress.compact(),
        }
    })?;
    let after = index.stats()?;
    let (from, to) = (before.bytes.total(), after.bytes.total());
    let sizes = |of: &StoreStats| {
        let StoreStats { bytes, segments, dead_rows, dead_judgments, .. } = of;
        json!({
            "bytes": bytes.total(),
            "segments": segments,
            "dead_rows": dead_rows,
            "dead_judgments": dead_judgments,
        })
    };
    let report = json!({ "documents": after.documents, "before": sizes(&before), "after": sizes(&after) });
    printing::report(out, args.json, &report, |out| {
        if lexical.is_some() {
            writeln!(out, "words: {} bytes, was {}", after.bytes.terms, before.bytes.terms)?;
        }
        writeln!(
            out,
            "{} in {}, was {}; {to} bytes, was {from}; {} gone",
            counted(after.documents, "document"),
            counted(after.segments, "segment"),
            before.segments,
            counted(before.dead_rows, "dead row")
        )?;
        match before.dead_judgments.saturating_sub(after.dead_judgments) {
            0 => Ok(()),
            gone => writeln!(out, "{} gone, forgotten or replaced before", counted(gone, "judgment")),
        }
    })
}

pub fn snapshot(args: &SnapshotArgs, out: &mut dyn Write) -> Result<(), Failure> {
    refuse_file(&args.target)?;
    let index = open_read_only(&args.index)?;
    index.snapshot(&args.target)?;
    writeln!(out, "{}: {}", printing::path(&args.target), counted(index.len(), "document"))
        .map_err(Failure::Output)
}

/// Opening for writing reads the log; a flush makes what it held durable.
pub fn recover(args: &WriteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: args, wait } = args;
    let index = wait.open(&args.index)?;
    let notices = index.notices();
    let taken_over = |entries| {
        let found = notices.iter().find_map(|notice| match notice {
            Notice::TakenOver { commits, count, of } if *of == entries => Some((*commits, *count)),
            _ => None,
        });
        found.unwrap_or_default()
    };
    let (commits, recovered) = taken_over(Entries::Documents);
    let (_, judgments) = taken_over(Entries::Judgments);
    index.flush()?;
    let documents = index.len();
    let report =
        json!({ "commits": commits, "recovered": recovered, "judgments": judgments, "documents": documents });
    printing::report(out, args.json, &report, |out| {
        if judgments > 0 {
            let judgments = counted(judgments, "judgment");
            writeln!(out, "{judgments} brought back from their log and flushed")?;
        }
        let documents = counted(documents, "document");
        if commits == 0 {
            return writeln!(out, "nothing waits in the log; the index has {documents}");
        }
        let (recovered, commits) = (counted(recovered, "document"), counted(commits, "commit"));
        writeln!(
            out,
            "{recovered} in {commits} brought back from the log and flushed; the index has {documents}"
        )
    })
}

pub fn stats(args: &ReportArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.index)?;
    let (store, recall, fusion) = (index.stats()?, index.recall_curve(), index.fusion());
    // If they cannot be read, `verify` says why.
    let judgments = index.judgments().and_then(|all| {
        let questions: HashSet<String> = all.iter().map(Judgment::same_question).collect();
        let half_life = index.half_life()?.map(in_days);
        Ok(JudgmentStats { count: all.len(), questions: questions.len(), half_life })
    });
    let (judgments, query_encoder) = (judgments.ok(), index.query_encoder());
    let has_encoder = index.bundle().model().has_encoder();
    let stats = Stats { store, judgments, recall, fusion, query_encoder, has_encoder };
    printing::report(out, args.json, &stats, |out| write_stats(out, &stats))
}

/// The content of an index, and the leaves needed by its searches.
#[derive(Serialize)]
struct Stats {
    #[serde(flatten)]
    store: StoreStats,
    judgments: Option<JudgmentStats>,
    recall: Option<RecallCurve>,
    fusion: Option<LearnedFusion>,
    query_encoder: Option<DistilReport>,
    #[serde(skip)]
    has_encoder: bool,
}

#[derive(Serialize)]
struct JudgmentStats {
    count: usize,
    questions: usize,
    /// In days.
    half_life: Option<f64>,
}

impl JudgmentStats {
    fn line(&self) -> String {
        match self.count {
            0 => "none; `ehi judge` adds them".to_owned(),
            count => format!("{count} of {}; {}", counted(self.questions, "question"), aging(self.half_life)),
        }
    }
}

fn write_stats(out: &mut dyn Write, stats: &Stats) -> std::io::Result<()> {
    let Stats { store: stats, judgments, recall, fusion, query_encoder, has_encoder } = stats;
    writeln!(out, "documents      {} ({} rows, {} dead)", stats.documents, stats.rows, stats.dead_rows)?;
    if let Some(passages) = stats.passages {
        let rows = stats.rows - stats.dead_rows;
        writeln!(out, "passages       {rows} of {passages} tokens, each with its embedding")?;
    }
    if stats.memtable_documents > 0 {
        // The handle is read-only, so it does not show them.
        let waiting = counted(stats.memtable_documents, "document");
        writeln!(out, "waiting        {waiting} in the log, not counted above; see `ehi recover`")?;
    }
    match stats.leaves {
        1 => writeln!(out, "tree           none: searches score every document")?,
        _ => write_leaves(out, stats)?,
    }
    writeln!(out, "dimensions     {}", stats.dim)?;
    if !stats.encoded_by.is_empty() {
        let by: Vec<String> = stats.encoded_by.iter().map(ToString::to_string).collect();
        let mixed = stats.encoded_by.contains(&EncodedBy::F32) && stats.encoded_by.contains(&EncodedBy::Int8);
        let note = if mixed { "; scores of the same text differ by up to about 0.01" } else { "" };
        writeln!(out, "encoded by     {}{note}", by.join(", "))?;
    }
    let words = match (stats.analyzer, fusion) {
        (None, _) => "no posting lists; `ehi compact --lexical` makes them".to_owned(),
        (Some(analyzer), None) if *has_encoder => {
            format!(
                "can be searched ({analyzer}) and count {:.2}; `ehi fuse` learns how much",
                1.0 - DEFAULT_ALPHA
            )
        }
        (Some(analyzer), _) => format!("can be searched ({analyzer})"),
    };
    writeln!(out, "words          {words}")?;
    if !stats.unlisted_fields.is_empty() {
        let fields: Vec<String> = stats.unlisted_fields.iter().map(|field| escaped(field)).collect();
        let fields = fields.join(", ");
        writeln!(out, "filters        slow by {fields}: lists of their values would take too many bytes")?;
    }
    if let Some(field) = &stats.expires {
        let expired = match stats.expired {
            0 => String::new(),
            expired => {
                let expired = counted(expired, "expired document");
                format!("; {expired} on disk (`ehi compact` frees the space)")
            }
        };
        writeln!(out, "expiry         at the time in `{}`{expired}", escaped(field))?;
    }
    let unreadable = || "cannot be read; see `ehi verify`".to_owned();
    let said = judgments.as_ref().map_or_else(unreadable, JudgmentStats::line);
    let dead = match stats.dead_judgments {
        0 => String::new(),
        dead => format!("; forgotten or replaced and in the files until `ehi compact`: {dead}"),
    };
    writeln!(out, "judgments      {said}{dead}")?;
    if let Some(fusion) = fusion {
        writeln!(out, "learned        {}", fusion.sentence())?;
    }
    if let Some(fast) = fusion.as_ref().and_then(|fusion| fusion.fast.as_ref()) {
        writeln!(out, "fast encoder   {}", fast.sentence())?;
    }
    match query_encoder {
        None if !has_encoder => {
            writeln!(out, "encoder        none: documents come with their vectors")?;
        }
        None => writeln!(out, "query encoder  none; `ehi distil` makes one")?,
        Some(report) => {
            let size = report.bytes as f64 / 1e6;
            writeln!(out, "query encoder  {size:.1} MB; {}", report.sentence)?;
        }
    }
    let bytes = stats.bytes;
    writeln!(
        out,
        "bytes          {}: embeddings {}, documents {} and words {} in {}, log {}, model {} \
         ({} of it shared), other models {}, judgments {}, unfinished {}",
        bytes.total(),
        bytes.vectors,
        bytes.documents,
        bytes.terms,
        counted(stats.segments, "segment"),
        bytes.log,
        bytes.model,
        bytes.shared_model,
        bytes.other_models,
        bytes.judgments,
        bytes.begun
    )?;
    writeln!(out, "generation     {}", stats.generation.0)?;
    writeln!(out, "model          {}", stats.model)?;
    match recall {
        Some(curve) => write_curve(out, curve, (stats.rows - stats.dead_rows) as usize),
        None => Ok(()),
    }
}

fn write_leaves(out: &mut dyn Write, stats: &StoreStats) -> std::io::Result<()> {
    let sizes = || stats.leaf_sizes.iter().map(|leaf| leaf.documents);
    let entries: usize = sizes().sum();
    writeln!(
        out,
        "leaves         {} of {} used (branching factor {}, height {})",
        stats.leaves_used, stats.leaves, stats.branching_factor, stats.height,
    )?;
    writeln!(
        out,
        "leaf sizes     {} to {}, {:.1} expected (even load: {:.1})",
        // A leaf without documents is not in the list.
        if (stats.leaves_used as u64) < stats.leaves { 0 } else { sizes().min().unwrap_or(0) },
        sizes().max().unwrap_or(0),
        stats.expected_documents_per_leaf,
        entries as f64 / stats.leaves as f64,
    )
}
