//! Learning from use: a training on the judgments of an index, and a change over to what came of it, if that
//! is better on questions that it did not see.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::config::{TrainConfig, flat_json};
use super::dataset::TrainingSet;
use super::error::{TrainError, out_of_range};
use super::held_out::{self, plain};
use super::learned::{Decision, Learned, Learning, Noted, noted, question_changes};
use super::trainer::{REPORT_FILE, Trainer};
use super::verdict::FEWEST_QUERIES;
use crate::disk::names;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::index::{Index, WithProgress, WithoutText, check_judgment};
use crate::judgment::{Judgment, now};
use crate::model::{Bundle, ModelError, hex};
use crate::progress::{OnProgress, Progress, Stage, no_progress};

/// Pairs that have aged to a smaller share of their weight take no part.
const LEAST_SHARE: f64 = 0.01;
/// Learnings that are remembered, so that none is done twice.
const KNOWN_LEARNINGS: usize = 64;

/// Options of [`Index::learn`].
#[derive(Clone, Debug, Default)]
pub struct LearnOptions {
    /// Judgments beside those that the index holds: clicks, say, with their weights. They are not stored.
    pub pairs: Vec<Judgment>,
    /// The time in which a judgment comes to count half; none ages by default.
    pub half_life: Option<Duration>,
    /// Settings of the training. Its share of questions set aside is
    /// [`LEARN_HELD_OUT`](super::LEARN_HELD_OUT), whatever the default here says; another one is an error.
    pub config: TrainConfig,
}

impl Index {
    /// The last learnings that trained, 64 at most, the newest first.
    ///
    /// # Errors
    /// Failures of reading the judgments.
    pub fn learnings(&self) -> Result<Vec<Learning>> {
        Ok(noted(self.learned_from()?.and_then(|(_, more)| more)))
    }

    /// Trains encoder and tree further on the judgments stored here ([`Self::record`]), measures the result
    /// on judged questions that were set aside, and changes over to it if it is better.
    ///
    /// Better is: exact search's nDCG@10 rises by [`SMALLEST_GAIN`](super::SMALLEST_GAIN) or more, by two
    /// tests at [`SIGNIFICANCE_LEVEL`](super::SIGNIFICANCE_LEVEL), its recall@10 does not fall by so much,
    /// and, in an index so large that searches use the tree, the tree loses nothing against k-means.
    /// Otherwise the index is as before. The training begins from the model in service, so it may be called
    /// again and again; where no judgment is new it does nothing. Searches and writes go on meanwhile, as
    /// with [`Self::reencode`], and [`Self::rollback`] returns. Judgments of documents that are not there are
    /// passed over, and so are those of grade 0 or less, but that they outdo a pair given for the same
    /// question and document.
    ///
    /// Costs a training: on the machine of `docs/experiments.md` some minutes for 5,000 abstracts.
    ///
    /// # Errors
    /// Those of [`Self::record`] for the pairs given; [`TrainError`] for settings out of range;
    /// [`InputError::WithoutText`](crate::InputError::WithoutText) where documents have no text;
    /// [`InputError::ChangeUnderWay`](crate::InputError::ChangeUnderWay); those of [`Trainer::fit`] and
    /// [`Self::reencode`]. The index is then as before.
    pub fn learn(&self, options: &LearnOptions) -> Result<Learned> {
        self.learn_alone(options, &mut by_verdict, &mut no_progress)
    }

    fn learn_alone(
        &self,
        options: &LearnOptions,
        choose: &mut dyn FnMut(&Learned) -> bool,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Learned> {
        self.check_writable()?;
        let config = options.checked_config()?;
        options.pairs.iter().try_for_each(check_judgment)?;
        // Until the change is done: it is made from what serves now.
        let _only = self.alone()?;
        self.clear_begun()?;
        let output = self.path().join(names::TRAINED);
        let mut replaced = None;
        // A training takes its time, and writes into the directory at its end.
        let mut watched = |progress| match self.check_place() {
            Ok(()) => on_progress(progress),
            Err(error) => {
                replaced = Some(error);
                ControlFlow::Break(())
            }
        };
        let learned = self.learn_into(&output, options, config, choose, &mut watched);
        if let Some(error) = replaced {
            return Err(error);
        }
        // What was learned serves, or the index is as before: both are true without the bundle.
        self.discard_begun();
        learned
    }

    fn learn_into(
        &self,
        output: &Path,
        options: &LearnOptions,
        config: TrainConfig,
        choose: &mut dyn FnMut(&Learned) -> bool,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Learned> {
        let documents = self.iter().collect::<Result<Vec<Document>>>()?;
        if config.trains_encoder() {
            WithoutText::of(&documents).refuse()?;
        }
        let judged = Judged::of(self.judgments()?, options, &documents);
        let mut learned = Learned {
            decision: Decision::TooFew,
            sentence: String::new(),
            pairs: judged.pairs.len(),
            without_document: judged.without_document,
            learned: 0,
            held_out: 0,
            ndcg_at_10: None,
            recall_at_10: None,
            better: Vec::new(),
            worse: Vec::new(),
            change: None,
            fusion: None,
        };
        let print = judged.fingerprint(options, &config)?;
        let questions = judged.questions();
        let set = match TrainingSet::of_index(self, documents, judged.pairs) {
            Err(Error::Train(TrainError::NoPairs)) => {
                learned.held_out = questions;
                return Ok(learned.decided());
            }
            set => set?,
        };
        (learned.learned, learned.held_out) = set.queries();
        learned.pairs = set.train.iter().map(|query| query.positives.len()).sum();
        if learned.held_out < FEWEST_QUERIES {
            return Ok(learned.decided());
        }
        let bundle = self.bundle();
        let from = with_encoder(&print, &bundle);
        let (known, more) = self.learned_from()?.unwrap_or_default();
        if known.lines().any(|line| line == from) {
            learned.decision = Decision::NothingNew;
            return Ok(learned.decided());
        }
        let trainer = Trainer::builder().base(bundle.path()).output(output).config(config);
        let fitted = trainer.on_progress(&mut *on_progress).fit(&set)?;
        if let Some(verdict) = &fitted.report.verdict {
            learned.judge(verdict, self.embeddings());
            let questions = set.dev.iter().map(|query| query.text.as_str());
            (learned.better, learned.worse) = question_changes(questions, &verdict.ndcg_of_queries.0);
        }
        learned = learned.decided();
        let is_chosen = learned.chosen(choose);
        // Who is asked may cancel, which is no choice: it can be learned again. Where the index changes over,
        // that has begun: its first group of documents may take long.
        let told = match is_chosen {
            true => Progress::new(Stage::Reencode, 0, self.len()),
            false => Progress::new(Stage::Evaluate, questions, questions),
        };
        told.tell(on_progress, Error::Cancelled)?;
        if is_chosen {
            learned.change = Some(self.change_to_passing(&fitted.bundle, on_progress)?);
            learned.fusion = self.fuse_after(&set, on_progress);
        }
        // From the encoder before too: after a rollback the same judgments must not undo it.
        let mut lines = vec![from, with_encoder(&print, &self.bundle())];
        lines.dedup();
        lines.extend(known.lines().take(KNOWN_LEARNINGS).map(str::to_owned));
        let learned = learned.decided();
        let own = Learning { time: now(), decision: learned.decision, sentence: learned.sentence.clone() };
        let mut learnings = noted(more);
        learnings.insert(0, own);
        learnings.truncate(KNOWN_LEARNINGS);
        let noted = serde_json::to_value(Noted { learnings }).unwrap_or_default();
        if let Err(error) = self.set_learned_from(&lines.join("\n"), noted) {
            let index = self.path().display();
            tracing::warn!(%index, %error, "what was learned from is not noted; the next learning does it again");
        }
        Ok(learned)
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::learn`], with progress and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::learn`], and [`Error::Cancelled`].
    pub fn learn(mut self, options: &LearnOptions) -> Result<Learned> {
        let (index, on_progress) = self.parts();
        index.learn_alone(options, &mut by_verdict, on_progress)
    }

    /// As [`Self::learn`], but `choose` says whether the index changes over to what was learned: somebody who
    /// is asked, say. It is called once where something was trained, with what was measured, and `decision`
    /// and `sentence` as if they were heeded. As long as it takes, no other change of model or training
    /// begins; searches and writes go on.
    ///
    /// # Errors
    /// Those of [`Self::learn`].
    pub fn learn_if(
        mut self,
        options: &LearnOptions,
        mut choose: impl FnMut(&Learned) -> bool,
    ) -> Result<Learned> {
        let (index, on_progress) = self.parts();
        index.learn_alone(options, &mut choose, on_progress)
    }
}

fn by_verdict(learned: &Learned) -> bool {
    learned.decision == Decision::Changed
}

impl LearnOptions {
    fn checked_config(&self) -> Result<TrainConfig> {
        let dev_fraction = held_out::share(self.config.dev_fraction)?;
        let patience = self.config.schedule.early_stopping_patience;
        if patience > 0 {
            // It would choose by the very questions that decide.
            let expected = "0 in a learning".to_owned();
            return Err(out_of_range("schedule.early_stopping_patience", patience, expected));
        }
        if self.half_life.is_some_and(|time| time.is_zero()) {
            return Err(out_of_range("half_life", 0, "a time above 0".to_owned()));
        }
        let config = TrainConfig { dev_fraction, ..self.config.clone() };
        config.check()?;
        Ok(config)
    }

    /// The share that is left of a judgment's weight at a time.
    fn left(&self, judgment: &Judgment, now: u64) -> f64 {
        let age = now.saturating_sub(judgment.time) as f64;
        0.5f64.powf(self.half_life.map_or(0.0, |time| age / time.as_secs_f64()))
    }
}

/// Judgments that can be learned from.
struct Judged {
    /// Question, id of a document that answers it, and weight.
    pairs: Vec<(String, String, f32)>,
    without_document: usize,
    /// Question, id and weight as they were given, in bytes that stand for them.
    digest: Sha256,
}

impl Judged {
    fn of(stored: Vec<Judgment>, options: &LearnOptions, documents: &[Document]) -> Self {
        let now = now();
        let there: HashSet<&str> = documents.iter().map(|document| document.id.as_str()).collect();
        // Of a question in several spellings the first one stands for all.
        let mut spellings: HashMap<String, &str> = HashMap::new();
        let mut judged = Self { pairs: Vec::new(), without_document: 0, digest: Sha256::new() };
        let no = |judgments: &[Judgment]| -> HashSet<(String, String)> {
            let no = judgments.iter().filter(|judgment| judgment.grade <= 0);
            no.map(|no| (plain(&no.question), no.id.clone())).collect()
        };
        let (no_stored, no_given) = (no(&stored), no(&options.pairs));
        let given = options.pairs.iter().map(|judgment| (judgment, true));
        for (judgment, is_given) in stored.iter().map(|judgment| (judgment, false)).chain(given) {
            let Judgment { question, id, grade, weight, .. } = judgment;
            let left = options.left(judgment, now);
            let key = (plain(question), id.clone());
            let is_no = no_stored.contains(&key) || is_given && no_given.contains(&key);
            if *grade <= 0 || left < LEAST_SHARE || is_no {
                continue;
            }
            if !there.contains(id.as_str()) {
                judged.without_document += 1;
                continue;
            }
            let question = *spellings.entry(key.0).or_insert(question);
            for part in [question.as_bytes(), id.as_bytes(), &weight.to_le_bytes()] {
                judged.digest.update((part.len() as u64).to_le_bytes());
                judged.digest.update(part);
            }
            judged.pairs.push((question.to_owned(), id.clone(), (weight * left) as f32));
        }
        judged
    }

    /// Different questions.
    fn questions(&self) -> usize {
        self.pairs.iter().map(|(question, ..)| question).collect::<HashSet<_>>().len()
    }

    /// Stands for what a training would see, but for the documents and for the age of judgments.
    fn fingerprint(&self, options: &LearnOptions, config: &TrainConfig) -> Result<String> {
        let mut digest = self.digest.clone();
        let json =
            flat_json(config).map_err(|source| ModelError::Json { path: REPORT_FILE.into(), source })?;
        digest.update(json);
        digest.update(options.half_life.unwrap_or_default().as_secs().to_le_bytes());
        Ok(hex(&digest.finalize()))
    }
}

/// A fingerprint of judgments together with the encoder that was trained on them.
fn with_encoder(print: &str, bundle: &Bundle) -> String {
    format!("{print} {}", bundle.encoder_digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgments_age_by_their_half_life() {
        let now = 1_000_000_000;
        let day = Duration::from_secs(86_400);
        let aged = |half_life, age: u64| {
            let options = LearnOptions { half_life, ..LearnOptions::default() };
            options.left(&Judgment::new("q", "d", 1).with_weight(0.8).at(now - age), now)
        };
        assert_eq!(aged(None, 1 << 20), 1.0);
        assert_eq!(aged(Some(day), 0), 1.0);
        assert!((aged(Some(day), 86_400) - 0.5).abs() < 1e-12);
        assert!((aged(Some(day), 3 * 86_400) - 0.125).abs() < 1e-12);
    }

    #[test]
    fn what_was_judged_wrong_is_no_pair_and_what_is_gone_is_counted() {
        let documents = [Document::new("a", "", "text"), Document::new("b", "", "text")];
        let judgment = |id, grade| Judgment::new("q", id, grade);
        let stored = vec![judgment("a", 0), judgment("b", 2), judgment("gone", 1)];
        let other = Judgment::new("Q?", "b", 1).with_weight(0.5);
        let pairs = vec![judgment("a", 1), other, Judgment::new("r", "a", 1), Judgment::new("r", "a", 0)];
        let options = LearnOptions { pairs, ..LearnOptions::default() };
        let judged = Judged::of(stored, &options, &documents);
        assert_eq!(judged.questions(), 1);
        let expected = [("q", "b", 1.0), ("q", "b", 0.5)].map(|(q, d, w)| (q.to_owned(), d.to_owned(), w));
        assert_eq!((judged.pairs, judged.without_document), (expected.into(), 1));
    }
}
