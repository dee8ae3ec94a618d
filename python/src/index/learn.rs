//! Judgments, and models that learn from them.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock};

use ehi::learn::LearnOptions;
use ehi::train::TrainConfig;
use pyo3::prelude::*;

use super::Index;
use crate::arguments::{self, wrong_type};
use crate::call::{is_forked, run, watched};
use crate::columns;
use crate::errors::InputError;
use crate::model;
use crate::options::{self, Whole, distillation, judgments, seconds, time_of, whole};
use crate::training::config;
use crate::value::{plain, quoted};

const SECONDS_OF_A_DAY: f64 = 86_400.0;

#[pymethods]
impl Index {
    /// Stores judgments: tuples or lists of question, document id and grade, a whole number that defaults to
    /// 1; 0 or less means that the document does not answer. Or dictionaries, as `judgments` returns them:
    /// `question`, `id` and, if they are given, `grade`, `weight` and `time`, in seconds since 1970. Or a
    /// frame with these columns. Returns the outcome as a dictionary.
    ///
    /// >>> asked = "is there caffeine in tea?"
    /// >>> index.judge([(asked, "tea"), (asked, "tyre", 0)])["added"]
    /// 2
    fn judge(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let judgments = judgments(pairs)?;
        self.report(py, |index| index.record_all(judgments))
    }

    /// The stored judgments, as dictionaries.
    ///
    /// >>> index.judge([("is there caffeine in tea?", "tea")])["added"], len(index.judgments())
    /// (1, 1)
    fn judgments(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.judgments())
    }

    /// What each judgment of `judgments` counts for now, as dictionaries in the same order: `has_document`,
    /// `stale`, `contradicted` and `left`, what is left of its weight.
    ///
    /// >>> index.judge([("is there caffeine in tea?", "tea")])["added"]
    /// 1
    /// >>> index.standings()[0]["left"]
    /// 1.0
    fn standings(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.standings(&index.judgments()?))
    }

    /// The judgments of a question, a dictionary or `None` for each id; others are not read.
    ///
    /// >>> index.judge([("is there caffeine in tea?", "tea")])["added"]
    /// 1
    /// >>> [own and own["grade"] for own in index.judgments_of("is there caffeine in tea?", ["tea", "tyre"])]
    /// [1, None]
    fn judgments_of(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::question)] question: &str,
        ids: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let (found, is_one) = columns::ids("ids", ids)?;
        if is_one {
            return Err(wrong_type("ids", "a list of ids", ids));
        }
        self.report(py, |index| index.judgments_of(question, found))
    }

    /// Removes judgments: those of `pairs` of question and id, all of `question`, or all made before a time
    /// in seconds since 1970. Returns their number. Their bytes stay in the files until `compact`.
    ///
    /// >>> asked = "is there caffeine in tea?"
    /// >>> index.judge([(asked, "tea"), (asked, "tyre", 0)])["added"]
    /// 2
    /// >>> index.forget([(asked, "tea")]), index.forget(question=asked), index.forget(before=1.7e9)
    /// (1, 1, 0)
    #[pyo3(signature = (pairs = None, *, question = None, before = None))]
    fn forget(
        &self,
        py: Python<'_>,
        pairs: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::question)] question: Option<String>,
        #[pyo3(from_py_with = arguments::before)] before: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        match (pairs, question, before) {
            (Some(pairs), None, None) => {
                let pairs = options::pairs(pairs)?;
                self.report(py, |index| {
                    index.forget(pairs.iter().map(|(question, id)| (question.as_str(), id.as_str())))
                })
            }
            (None, Some(question), None) => {
                self.report(py, |index| index.forget_where(|own| own.question == question))
            }
            (None, None, Some(before)) => {
                self.report(py, |index| index.forget_where(|own| (own.time as f64) < before))
            }
            _ => Err(InputError::new_err("give one of `pairs`, `question` and `before`")),
        }
    }

    /// Days after which a judgment counts half, in searches and in `learn`; `None`: judgments do not age.
    ///
    /// >>> index.half_life = 90
    /// >>> index.half_life
    /// 90.0
    #[getter]
    fn half_life(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let index = self.inner()?;
        let half_life = run(py, || index.half_life())?;
        Ok(half_life.map(|time| time.as_secs_f64() / SECONDS_OF_A_DAY))
    }

    #[setter]
    fn set_half_life(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::half_life)] days: Option<f64>,
    ) -> PyResult<()> {
        let index = self.inner()?;
        let half_life = days.map(|days| time_of("half_life", "days", days, SECONDS_OF_A_DAY)).transpose()?;
        run(py, || index.set_half_life(half_life))
    }

    /// Sets whether questions are logged in the index, for tuning and calibration.
    ///
    /// >>> index.log_questions(True)
    #[pyo3(signature = (on))]
    fn log_questions(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::on)] on: bool,
    ) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.log_questions(on))
    }

    /// The logged questions, as dictionaries.
    ///
    /// >>> index.log_questions(True)
    /// >>> hits = index.search("is there caffeine in tea?")
    /// >>> [each["question"] for each in index.logged_questions()]
    /// ['is there caffeine in tea?']
    fn logged_questions(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.logged_questions())
    }

    /// The newest logged or judged questions, each once, newest first, at most `most`.
    ///
    /// >>> index.judge([("is there caffeine in tea?", "tea")])["added"], index.asked()
    /// (1, ['is there caffeine in tea?'])
    #[pyo3(signature = (most = 100))]
    fn asked(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::most)] most: Whole,
    ) -> PyResult<Py<PyAny>> {
        let most = whole("most", most)?;
        self.report(py, |index| index.asked(most))
    }

    /// The last 64 calls of `learn` that trained a model, or fewer, newest first, as dictionaries.
    ///
    /// >>> index.learnings()
    /// []
    fn learnings(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.learnings())
    }

    /// The leaves of each leaf's documents before the last change of model, as a dictionary; `None` without a
    /// previous model.
    ///
    /// >>> index.leaf_changes() is None
    /// True
    fn leaf_changes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.leaf_changes())
    }

    /// The number of judgments that `learn` would train on, and the smallest gain that its held-out questions
    /// could show, as a dictionary.
    ///
    /// >>> index.learnable([("is there caffeine in tea?", "tea")])["held_out"]
    /// 0
    #[pyo3(signature = (pairs = None))]
    fn learnable(&self, py: Python<'_>, pairs: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let options = learning(pairs, None, false)?;
        self.report(py, |index| index.learnable(&options))
    }

    /// Trains on the judgments, and changes to the new model only if held-out questions show that it improves
    /// searches; returns the decision as a dictionary. With `accept` the index changes to the new model in
    /// any case. `choose`, a function that takes the dictionary and returns whether to change, decides
    /// instead.
    ///
    /// >>> index.learn([("is there caffeine in tea?", "tea")])["decision"]
    /// 'too_few'
    #[pyo3(signature = (pairs = None, *, config = None, accept = false, choose = None, progress = None))]
    fn learn(
        &self,
        py: Python<'_>,
        pairs: Option<&Bound<'_, PyAny>>,
        config: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::accept)] accept: bool,
        choose: Option<Py<PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        if let Some(choose) = &choose
            && !choose.bind(py).is_callable()
        {
            return Err(wrong_type("choose", "a function", choose.bind(py)));
        }
        let options = learning(pairs, config, accept)?;
        let index = self.inner()?;
        let raised = Mutex::new(None);
        let learned = watched(py, progress, |told| {
            let Some(choose) = &choose else { return index.with_progress(told).learn(&options) };
            index.with_progress(told).learn_if(&options, |learned| {
                let asked = |py: Python<'_>| choose.call1(py, (plain(py, learned)?,))?.extract(py);
                let chosen: PyResult<bool> = Python::attach(asked);
                chosen.unwrap_or_else(|error| {
                    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    false
                })
            })
        })?;
        match raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(raised) => Err(raised),
            None => plain(py, &learned),
        }
    }

    /// Learns the weight of words relative to embeddings, from stored and given judgments.
    ///
    /// >>> index.fuse([("is there caffeine in tea?", "tea")])["fusion"] is None
    /// True
    #[pyo3(signature = (pairs = None, *, progress = None))]
    fn fuse(
        &self,
        py: Python<'_>,
        pairs: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let pairs = pairs.map(judgments).transpose()?.unwrap_or_default();
        self.long(py, progress, |index| index.fuse(&pairs))
    }

    /// Gives the model a fast encoder of questions, or removes it with `kind="none"`.
    ///
    /// >>> index.distil(kind="none")
    #[pyo3(signature = (pairs = None, *, kind = "static", texts = None, passes = None, questions = None,
        seed = 0, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn distil(
        &self,
        py: Python<'_>,
        pairs: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::kind)] kind: &str,
        #[pyo3(from_py_with = arguments::texts)] texts: Option<Whole>,
        #[pyo3(from_py_with = arguments::passes)] passes: Option<Whole>,
        questions: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::seed)] seed: Whole,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let mut options = distillation(kind, texts, passes, seed)?;
        options.pairs = pairs.map(judgments).transpose()?.unwrap_or_default();
        options.questions = options::questions("questions", questions)?;
        self.long(py, progress, |index| index.distil(&options))
    }

    /// Switches to another model: every document is encoded and routed again while the index stays in use.
    ///
    /// >>> index.reencode("models/scifact-minilm")
    /// Traceback (most recent call last):
    /// ...
    /// ehi.InputError: the index already uses model ...
    #[pyo3(signature = (model, *, progress = None))]
    fn reencode(
        &self,
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let model = model::model(py, model)?;
        let bundle = &model.bundle;
        self.long(py, progress, |index| index.reencode(bundle))
    }

    /// Returns to the previous model.
    ///
    /// >>> index.rollback()
    /// Traceback (most recent call last):
    /// ...
    /// ehi.InputError: ...
    #[pyo3(signature = (*, progress = None))]
    fn rollback(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.long(py, progress, |index| index.rollback())
    }

    /// Removes the model that `rollback` would return to; returns whether there was one.
    ///
    /// >>> index.drop_previous_model()
    /// False
    fn drop_previous_model(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.drop_previous_model())
    }

    /// Tunes the tree in a background thread as the collection grows, until the returned object is closed.
    ///
    /// >>> with index.auto_tune(interval=60) as tuning:
    /// ...     tuning.tunings
    /// 0
    #[pyo3(signature = (*, interval = None))]
    fn auto_tune(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::interval)] interval: Option<f64>,
    ) -> PyResult<AutoTune> {
        let mut options = ehi::learn::AutoTuneOptions::default();
        if let Some(interval) = interval {
            options.interval = seconds("interval", interval)?;
        }
        let index = self.inner()?;
        let tune = run(py, move || index.auto_tune(options))?;
        Ok(AutoTune { path: self.path.clone(), tune: RwLock::new(Some(tune)) })
    }
}

fn learning(
    pairs: Option<&Bound<'_, PyAny>>,
    config: Option<&Bound<'_, PyAny>>,
    accept: bool,
) -> PyResult<LearnOptions> {
    Ok(LearnOptions {
        pairs: pairs.map(judgments).transpose()?.unwrap_or_default(),
        config: self::config(config, TrainConfig::from_json)?,
        accept,
    })
}

/// Waits for the thread, except in a forked child, which has none.
fn end(tune: Option<ehi::learn::AutoTune>) {
    match is_forked() {
        true => std::mem::forget(tune),
        false => drop(tune),
    }
}

impl Drop for AutoTune {
    fn drop(&mut self) {
        end(self.tune.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// A tuning thread, created by `Index.auto_tune`.
#[pyclass(frozen, module = "ehi")]
pub struct AutoTune {
    path: PathBuf,
    tune: RwLock<Option<ehi::learn::AutoTune>>,
}

#[pymethods]
impl AutoTune {
    /// Number of finished tunings.
    #[getter]
    fn tunings(&self) -> usize {
        let tune = self.tune.read().unwrap_or_else(PoisonError::into_inner);
        tune.as_ref().map_or(0, |tune| tune.last().0)
    }

    /// Stops it; a running tuning is abandoned and leaves the index unchanged.
    fn close(&self, py: Python<'_>) {
        let taken = self.tune.write().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(move || end(taken));
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = quoted(py, &self.path)?;
        let is_closed = self.tune.read().unwrap_or_else(PoisonError::into_inner).is_none();
        let state = if is_closed { "closed".to_owned() } else { format!("{} tunings", self.tunings()) };
        Ok(format!("AutoTune({path}, {state})"))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }
}
