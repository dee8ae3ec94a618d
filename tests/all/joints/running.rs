//! Runs a sequence on an index and on the model, and compares them after each step.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ehi::{FEWEST_FUSION_QUESTIONS, Index, RepairOptions, SearchRequest, no_progress};
use tempfile::TempDir;

use super::acting::{Outcome, act};
use super::answers::{Beside, answer_alike, fresh_index};
use super::comparison::{Checked, compare, ensure, hits};
use super::killing::{Killed, killed};
use super::model::{Expected, Model};
use super::names;
use super::operations::{FILLED, Op, Origin, Point, Sequence, Step};
use super::world::{World, document, question};
use crate::support::copy_directory;

/// Bytes that an index may have in excess of a fresh one: measurements, and notes of learnings.
const BESIDE: u64 = 16 << 10;

/// A fresh handle is compared after one in so many steps, and a fresh index after half of these.
const FRESH: usize = 4;
/// The number of the last comparison, which is with both.
const END: usize = FRESH + 1;

/// Where a sequence failed, and how.
#[derive(Debug)]
pub struct Failure {
    pub step: usize,
    pub said: String,
}

/// Runs a sequence; returns whether judgments of near questions counted.
pub fn run(world: &World, sequence: &Sequence) -> Result<bool, Failure> {
    run_and(world, sequence, |_| {})
}

/// As [`run`], then changes the closed index without the model's knowledge.
pub fn run_and(world: &World, sequence: &Sequence, then: impl FnOnce(&Path)) -> Result<bool, Failure> {
    let mut step = 0;
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(world, sequence.origin);
        run.check(0)?;
        for own in &sequence.steps {
            run.step(own)?;
            step += 1;
            run.check(step)?;
        }
        run.end(then)
    }));
    let said = match ran {
        Ok(Ok(near)) => return Ok(near),
        Ok(Err(said)) => said,
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            format!("panicked: {}", said.unwrap_or_default())
        }
    };
    Err(Failure { step, said })
}

struct Run<'w> {
    world: &'w World,
    home: TempDir,
    path: PathBuf,
    /// `None` while another process has it.
    index: Option<Index>,
    model: Model,
    /// The handle of [`Step::Refresh`].
    reader: Option<Index>,
    snapshot: Option<(PathBuf, Model)>,
    snapshots: usize,
    /// Whether judgments of near questions counted.
    near: bool,
}

impl<'w> Run<'w> {
    fn new(world: &'w World, origin: Origin) -> Self {
        let shared_memory = Path::new("/dev/shm");
        let home = match shared_memory.is_dir() {
            true => tempfile::tempdir_in(shared_memory),
            false => tempfile::tempdir(),
        };
        let home = home.unwrap();
        let path = home.path().join("index");
        copy_directory(&world.origin(origin), &path);
        let index = Index::open(&path).unwrap();
        let model = Model::new(origin, index.bundle(), (0..FILLED).map(|place| document(place, 0)));
        let (reader, snapshot) = (None, None);
        Self { world, home, path, index: Some(index), model, reader, snapshot, snapshots: 0, near: false }
    }

    fn index(&self) -> &Index {
        self.index.as_ref().unwrap()
    }

    fn open(&mut self) -> Checked {
        self.index = Some(Index::open(&self.path).map_err(|error| format!("open: {error}"))?);
        Ok(())
    }

    fn check(&mut self, step: usize) -> Checked {
        let learned = self.index().fusion().and_then(|fusion| fusion.memory);
        self.near |= learned.is_some_and(|memory| memory.weight > 0.0);
        compare(self.index(), &self.model, step as u16)?;
        if step % FRESH == 1 {
            self.index().flush().map_err(|error| format!("flush: {error}"))?;
            let reader = Index::open_read_only(&self.path).map_err(|error| format!("read: {error}"))?;
            answer_alike(self.index(), &reader, &self.model, step, Beside::Reader)?;
        }
        if step % (2 * FRESH) == END {
            let path = self.home.path().join("fresh");
            drop(self.beside_fresh(&path, step, false)?);
            std::fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Compares with a fresh index in `path`.
    fn beside_fresh(&self, path: &Path, number: usize, by_words: bool) -> Result<Index, String> {
        let fresh = fresh_index(self.index(), &self.model, path);
        let fresh = fresh.map_err(|error| format!("a fresh index: {error}"))?;
        answer_alike(self.index(), &fresh, &self.model, number, Beside::Fresh { by_words })?;
        Ok(fresh)
    }

    fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Do(op) => self.call(op),
            Step::Reopen => {
                self.index = None;
                self.open()
            }
            Step::Cancel { op, at } => self.cancel(op, *at),
            Step::Meanwhile { op, at, write } => self.meanwhile(op, *at, write),
            Step::Repair => {
                self.index = None;
                let repaired = Index::repair(&self.path, &RepairOptions::default(), &mut no_progress);
                let report = repaired.map_err(|error| format!("repair: {error}"))?;
                ensure!(report.was_sound(), "{report:?}");
                self.open()
            }
            Step::Refresh => self.follow(),
            Step::Snapshot => {
                self.snapshots += 1;
                let path = self.home.path().join(format!("snapshot-{}", self.snapshots));
                self.index().snapshot(&path).map_err(|error| format!("snapshot: {error}"))?;
                self.snapshot = Some((path, self.model.snapshot()));
                self.look_at_snapshot()
            }
            Step::Restore => {
                if let Some((path, model)) = self.snapshot.take() {
                    (self.path, self.model, self.index, self.reader) = (path, model, None, None);
                    self.open()?;
                }
                Ok(())
            }
            Step::Shrink => self.shrink(),
            Step::Kill { before, last, point } => self.kill(before, last, *point),
        }
    }

    fn call(&mut self, op: &Op) -> Checked {
        let expected = self.model.expected(op, self.world);
        let called = act(self.index(), op, self.world, &mut |_| ControlFlow::Continue(()));
        self.answered(op, expected, called)?;
        if matches!(op, Op::DropPrevious) {
            self.is_clean()?;
        }
        Ok(())
    }

    /// Whether a call may return this; the model then follows, also what the index learns by itself.
    fn answered(&mut self, op: &Op, expected: Expected, called: ehi::Result<Outcome>) -> Checked {
        let fit = self.index().finish_fit();
        let answered = self.followed(op, expected, called);
        self.model.fitted(fit);
        answered
    }

    fn followed(&mut self, op: &Op, expected: Expected, called: ehi::Result<Outcome>) -> Checked {
        match called {
            Ok(_) if expected == Expected::Refused => Err(format!("{op:?} was done, which cannot be")),
            Ok(outcome) => {
                let now = self.index().bundle();
                self.model.apply(op, outcome, &now, self.world)
            }
            Err(error) if expected == Expected::Done => Err(format!("{op:?}: {error}")),
            Err(_) => Ok(()),
        }
    }

    /// Checks that the index contains only what is in service.
    fn is_clean(&self) -> Checked {
        let strange = names::strange(&self.path).map_err(|error| error.to_string())?;
        ensure!(strange.is_empty(), "{strange:?} is left by `drop-previous`");
        let models = names::names(&self.path.join("models")).map_err(|error| error.to_string())?;
        ensure!(models.len() == 1, "models {models:?} are left by `drop-previous`");
        Ok(())
    }

    fn cancel(&mut self, op: &Op, at: u32) -> Checked {
        let mut left = at;
        let mut on_progress = |_| {
            left = left.saturating_sub(1);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let expected = self.model.expected(op, self.world);
        match act(self.index(), op, self.world, &mut on_progress) {
            Err(ehi::Error::Cancelled) => {
                self.cut_off(op);
                self.model.fitted(self.index().finish_fit());
                Ok(())
            }
            called => self.answered(op, expected, called),
        }
    }

    /// Runs `write` in the middle of `op`.
    fn meanwhile(&mut self, op: &Op, at: u32, write: &Op) -> Checked {
        let (index, world) = (self.index(), self.world);
        let expected = self.model.expected(op, world);
        let before = index.bundle().hash();
        let (mut left, mut wrote) = (at, None);
        let mut on_progress = |_| {
            if left == 0 && wrote.is_none() {
                let is_before = index.bundle().hash() == before;
                let written = act(index, write, world, &mut |_| ControlFlow::Continue(()));
                let written = written.map_err(|error| format!("{write:?}: {error}"));
                wrote = Some((is_before, written, index.finish_fit()));
            }
            left = left.saturating_sub(1);
            ControlFlow::Continue(())
        };
        let called = act(index, op, world, &mut on_progress);
        let now = index.bundle();
        let Some((is_before, written, fit)) = wrote else { return self.answered(op, expected, called) };
        let written = written?;
        if is_before {
            self.model.apply(write, written, &now, world)?;
            self.model.fitted(fit);
            return self.answered(op, expected, called);
        }
        let last = index.finish_fit();
        self.followed(op, expected, called)?;
        self.model.apply(write, written, &now, world)?;
        [fit, last].into_iter().for_each(|fit| self.model.fitted(fit));
        Ok(())
    }

    /// Handles a call that was interrupted.
    fn cut_off(&mut self, op: &Op) {
        if matches!(op, Op::Rollback | Op::Reencode(_)) {
            self.model.return_cut_off();
        }
    }

    /// A read-only handle, even one opened earlier, shows what was flushed.
    fn follow(&mut self) -> Checked {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Index::open_read_only(&self.path).map_err(|error| format!("read: {error}"))?,
        };
        let asked = question(1);
        hits(&reader, &asked, &SearchRequest::dense())
            .map_err(|error| format!("a read-only handle: {error}"))?;
        self.index().flush().map_err(|error| format!("flush: {error}"))?;
        reader.refresh().map_err(|error| format!("refresh: {error}"))?;
        compare(&reader, &self.model, 3)
            .and_then(|()| answer_alike(&reader, self.index(), &self.model, 3, Beside::Reader))
            .map_err(|error| format!("a read-only handle: {error}"))?;
        self.reader = Some(reader);
        Ok(())
    }

    fn look_at_snapshot(&self) -> Checked {
        let Some((path, model)) = &self.snapshot else { return Ok(()) };
        let copy = Index::open_read_only(path).map_err(|error| format!("open a snapshot: {error}"))?;
        compare(&copy, model, 5).map_err(|error| format!("a snapshot: {error}"))
    }

    /// At the end: the index opens as it is, and so does the snapshot, whatever was done to the index since.
    fn end(mut self, then: impl FnOnce(&Path)) -> Result<bool, String> {
        self.index = None;
        then(&self.path);
        self.open()?;
        self.check(END)?;
        self.look_at_snapshot()?;
        Ok(self.near)
    }

    fn shrink(&mut self) -> Checked {
        for op in [Op::DropPrevious, Op::Compact] {
            self.call(&op)?;
        }
        let path = self.home.path().join("fresh");
        let fresh = self.beside_fresh(&path, self.model.judgments.len(), true)?;
        fresh.compact().map_err(|error| format!("compact a fresh index: {error}"))?;
        let [found, expected] = [&self.path, &path].map(|path| names::bytes(path).unwrap());
        let most = expected + expected / 20 + BESIDE;
        ensure!(found <= most, "{found} bytes, and a fresh index has {expected}");
        drop(fresh);
        std::fs::remove_dir_all(&path).map_err(|error| error.to_string())
    }

    fn kill(&mut self, before: &[Op], last: &Op, point: Point) -> Checked {
        self.index = None;
        let calls: Vec<Op> = before.iter().chain([last]).cloned().collect();
        let Killed { returned } = killed(self.world, &self.path, calls.clone(), point)?;
        // Another reader may be first.
        let reader = Index::open_read_only(&self.path).map_err(|error| format!("read: {error}"))?;
        let report = reader.verify().map_err(|error| format!("verify: {error}"))?;
        ensure!(report.is_sound(), "after a kill: {:?}", report.problems);
        drop(reader);
        self.open()?;
        let now = self.index().bundle();
        let found = Outcome::found(self.index());
        for (op, (done, fusion)) in calls.iter().zip(returned.clone()) {
            let expected = self.model.expected(op, self.world);
            let full = matches!(point, Point::Full(_));
            ensure!(done || full || expected != Expected::Done, "{op:?} was refused in another process");
            ensure!(!done || expected != Expected::Refused, "{op:?} was done, which cannot be");
            if done {
                self.model.apply(op, self.found_after(op, &found, &now), &now, self.world)?;
            }
            fusion.into_iter().for_each(|fusion| self.model.serving.learn(fusion));
        }
        let mut allowed = vec![self.model.clone()];
        // A call that ended with an error may have taken effect.
        let is_done = returned.len() == calls.len() && returned.last().is_some_and(|(done, _)| *done);
        let in_midst = calls.get(returned.len()).or(calls.last()).filter(|_| !is_done);
        if let Some(op) = in_midst {
            self.cut_off(op);
            allowed[0] = self.model.clone();
            allowed.extend(self.after(op, &found, &now)?);
            // It may have learned by itself, too.
            let of_many = allowed.iter().filter(|model| model.judgments.len() >= FEWEST_FUSION_QUESTIONS);
            let mut learned: Vec<Model> = of_many.cloned().collect();
            for model in &mut learned {
                found.fusion.iter().for_each(|fusion| model.serving.learn(fusion.clone()));
            }
            allowed.extend(learned);
        }
        let mut failures = Vec::new();
        for model in allowed {
            match compare(self.index(), &model, 11) {
                Ok(()) => {
                    self.model = model;
                    return Ok(());
                }
                Err(failure) => failures.push(failure),
            }
        }
        Err(format!("killed in {in_midst:?}: {}", failures.join("; or ")))
    }

    /// The result of another process's call, as far as the index shows it.
    fn found_after(&self, op: &Op, found: &Outcome, now: &Arc<ehi::Bundle>) -> Outcome {
        let changed = now.hash() != self.model.serving.bundle.hash();
        let mut outcome = found.clone();
        if changed && matches!(op, Op::Tune { .. } | Op::Learn { .. }) {
            outcome.changed = true;
        }
        outcome
    }

    /// The possible states of an index after an interrupted call.
    fn after(&self, op: &Op, found: &Outcome, now: &Arc<ehi::Bundle>) -> Result<Vec<Model>, String> {
        let changes = matches!(op, Op::Tune { .. } | Op::Learn { .. } | Op::Reencode(_) | Op::Rollback);
        if self.model.expected(op, self.world) == Expected::Refused
            || changes && now.hash() == self.model.serving.bundle.hash()
        {
            return Ok(Vec::new());
        }
        let mut done = self.model.clone();
        done.apply(op, self.found_after(op, found, now), now, self.world)?;
        Ok(vec![done])
    }
}
