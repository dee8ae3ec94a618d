//! Repair of a damaged log: every whole commit is kept, in order, and those in between are counted as lost.

use super::{
    Repair, Result, StoreError,
    files::{self, set_aside},
    log::{self, Log, LogPlace, Room, Scan, Tail},
};
use crate::ids::Generation;

impl Repair {
    /// Sets a damaged log aside and replaces it by one of its whole commits.
    pub(super) fn mend_log(&mut self) -> Result<()> {
        let (backend, dir) = (self.backend.clone(), self.dir.clone());
        let place = self.manifest.log();
        for base in log::bases(&*backend, &dir)? {
            let newer = base > place.base;
            if base < place.base {
                // Its commits are already sealed.
                continue;
            }
            let place = LogPlace { base, ..place };
            let (mut whole, mut behind) = (Vec::new(), Vec::new());
            let before = log::scan(&*backend, &dir, place, &mut |frame, bytes| {
                let commits = if frame.is_behind { &mut behind } else { &mut whole };
                commits.push((frame.generation, bytes.to_vec()));
                Ok(())
            });
            let damaged = match &before {
                Ok(found) => newer || matches!(found.tail, Tail::Damaged { .. }),
                Err(StoreError::Corrupt { .. }) => true,
                Err(_) => return before.map(drop),
            };
            let usable = |bytes: &[u8]| {
                let config = &self.manifest.config;
                log::decode(bytes, config.passages.is_some())
                    .is_some_and(|commit| commit.check(config).is_ok())
            };
            let bad = whole.iter().position(|(_, bytes)| !usable(bytes));
            if !damaged && bad.is_none() {
                continue;
            }
            whole.extend(behind);
            let last = whole.iter().map(|(generation, _)| generation.0).max().unwrap_or(base.0);
            whole.retain(|(_, bytes)| usable(bytes));
            let name = log::name(base);
            self.report.set_aside.push(set_aside(&*backend, &dir, &name)?);
            self.report.log_damaged = true;
            if newer {
                // It follows a manifest that is gone.
                self.report.lost_commits += last.saturating_sub(base.0);
                files::remove_file(&*backend, &dir.join(&name))?;
                continue;
            }
            self.report.lost_commits += (last - base.0).saturating_sub(whole.len() as u64);
            // At least the last one is lost; the total is unknown.
            let at_the_end = matches!(&before, Ok(Scan { tail: Tail::Damaged { commits: 0, .. }, .. }));
            self.report.lost_commits += u64::from(at_the_end);
            self.report.kept_commits += whole.len() as u64;
            self.rewrite(place, &whole)?;
        }
        Ok(())
    }

    /// Publishes a log of these commits in place of the current one.
    fn rewrite(&self, place: LogPlace, commits: &[(Generation, Vec<u8>)]) -> Result<()> {
        let backend = &*self.backend;
        let provisional = format!("{}.new", log::name(place.base));
        let mut log = Log::create(backend, &self.dir, &provisional, place)?;
        let written = commits
            .iter()
            .try_for_each(|(_, commit)| log.append(commit, Room::Ordinary))
            .and_then(|()| log.sync(backend));
        let (from, to) = (self.dir.join(&provisional), self.dir.join(log::name(place.base)));
        if let Err(error) = written {
            let _ = backend.remove(&from);
            return Err(error);
        }
        files::rename(backend, &from, &to)
    }
}
