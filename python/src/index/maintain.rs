//! Maintenance: statistics, checks and layout.

use std::path::PathBuf;

use ehi::learn::TuneOptions;
use ehi::leaves::LeafOptions;
use ehi::{Analyzer, LeafId};
use pyo3::prelude::*;

use super::Index;
use crate::arguments;
use crate::options::{self, Whole, parse, whole, whole_or_none};

#[pymethods]
impl Index {
    /// Makes all changes durable and visible to read-only handles.
    ///
    /// >>> index.flush()
    fn flush(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.flush())
    }

    /// For a read-only handle: makes flushed changes visible; returns whether there were any.
    ///
    /// >>> index.flush()
    /// >>> reader = ehi.Index.open("notes", precision="int8", read_only=True)
    /// >>> reader.refresh(), index.delete("tea"), index.flush(), reader.refresh(), len(reader)
    /// (False, 1, None, True, 2)
    fn refresh(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.refresh())
    }

    /// Sizes, as a dictionary.
    ///
    /// >>> index.stats()["documents"]
    /// 3
    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.stats())
    }

    /// Tolerable problems of the index, as texts.
    ///
    /// >>> index.notices()
    /// []
    fn notices(&self) -> PyResult<Vec<String>> {
        Ok(self.inner()?.notices().iter().map(ToString::to_string).collect())
    }

    /// Whether the tree still fits the collection, with advice, as a dictionary.
    ///
    /// >>> index.health()["documents"]
    /// 3
    fn health(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.health())
    }

    /// What each leaf is about, as dictionaries.
    ///
    /// >>> sum(leaf["documents"] for leaf in index.leaves())
    /// 3
    #[pyo3(signature = (leaf = None, *, terms = None, samples = None, queries = None))]
    fn leaves(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::leaf)] leaf: Option<Whole>,
        #[pyo3(from_py_with = arguments::terms)] terms: Option<Whole>,
        #[pyo3(from_py_with = arguments::samples)] samples: Option<Whole>,
        queries: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let mut options =
            LeafOptions { leaf: whole_or_none("leaf", leaf)?.map(LeafId), ..LeafOptions::default() };
        options.queries = options::questions("queries", queries)?;
        options.terms = whole_or_none("terms", terms)?.unwrap_or(options.terms);
        options.samples = whole_or_none("samples", samples)?.unwrap_or(options.samples);
        self.report(py, |index| index.leaves(&options))
    }

    /// Reads and checks every byte; returns the result as a dictionary.
    ///
    /// >>> index.verify()["sound"]
    /// True
    #[pyo3(signature = (*, progress = None))]
    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.long(py, progress, |index| index.verify())
    }

    /// Copies the index to a folder that is missing or empty.
    ///
    /// >>> index.snapshot("copy")
    /// >>> len(ehi.Index.open("copy", precision="int8", read_only=True))
    /// 3
    fn snapshot(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::target)] target: PathBuf,
    ) -> PyResult<Py<PyAny>> {
        self.report(py, |index| index.snapshot(target))
    }

    /// Merges all segments and drops deleted documents.
    ///
    /// >>> index.compact()
    #[pyo3(signature = (*, progress = None))]
    fn compact(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.long(py, progress, |index| index.compact())
    }

    /// Makes posting lists of words, also for an index with other terms: `tokens`, or a language.
    ///
    /// >>> with ehi.Index.create("other", model="models/scifact-minilm", words="none") as other:
    /// ...     summary = other.add(["tea"], ["Green tea has caffeine."])
    /// ...     other.make_lexical("english")
    /// ...     other.search("caffeine teas", mode="lexical").ids
    /// ['tea']
    #[pyo3(signature = (words = "tokens", *, progress = None))]
    fn make_lexical(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::words)] words: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let analyzer: Analyzer = parse("words", words)?;
        self.long(py, progress, |index| index.make_lexical(analyzer))
    }

    /// Rebuilds the posting lists of leaves.
    ///
    /// >>> index.rebuild_postings()
    #[pyo3(signature = (*, progress = None))]
    fn rebuild_postings(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        self.long(py, progress, |index| index.rebuild_postings())
    }

    /// Measures the number of leaves that a search needs for a recall; returns the curve as a dictionary.
    ///
    /// >>> index.calibrate(["is there caffeine in tea?", "mending a tyre"])["questions"]
    /// 2
    #[pyo3(signature = (questions = None, *, progress = None))]
    fn calibrate(
        &self,
        py: Python<'_>,
        questions: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let questions = options::questions("questions", questions)?;
        self.long(py, progress, |index| index.calibrate(&questions))
    }

    /// Makes a tree for the stored documents, without labels; returns the outcome as a dictionary.
    ///
    /// >>> index.tune()
    /// Traceback (most recent call last):
    /// ...
    /// ehi.InputError: ...
    #[pyo3(signature = (*, leaves = None, passes = None, questions = None, always = false, seed = 0,
        checkpoints = None, resume = false, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn tune(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::leaves)] leaves: Option<Whole>,
        #[pyo3(from_py_with = arguments::passes)] passes: Option<Whole>,
        questions: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::always)] always: bool,
        #[pyo3(from_py_with = arguments::seed)] seed: Whole,
        #[pyo3(from_py_with = arguments::checkpoints)] checkpoints: Option<PathBuf>,
        #[pyo3(from_py_with = arguments::resume)] resume: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let options = TuneOptions {
            leaves: whole_or_none("leaves", leaves)?,
            passes: whole_or_none("passes", passes)?,
            questions: options::questions("questions", questions)?,
            always,
            seed: whole("seed", seed)?,
            checkpoints,
            resume,
            ..TuneOptions::default()
        };
        self.long(py, progress, |index| index.tune(&options))
    }
}
