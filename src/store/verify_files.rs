//! Files other than segments: the log, the manifest's copy, and files that nothing names.

use std::time::Duration;

use super::{
    Notice, Result, Store, VerifyReport,
    error::Damage,
    files,
    layout::names,
    log::{self, Tail},
    manifest::Manifest,
    recovery,
};
use crate::disk::Kind;

/// How long an active writer has to finish what a read-only handle would take for remains.
const SETTLE: Duration = Duration::from_millis(50);

impl Store {
    /// Adds the problems of these files, and notices for their owner.
    pub(super) fn check_files(&self, report: &mut VerifyReport) -> Result<()> {
        self.check_log(report)?;
        for name in [names::LOCK, names::RESERVE] {
            let path = self.dir.join(name);
            if files::kind(&*self.backend, &path)?.is_some_and(|kind| kind != Kind::File) {
                report.problem(name, Damage::NotAFile);
            }
        }
        let mut warnings = self.leftovers()?;
        if self.is_read_only() && !warnings.is_empty() {
            std::thread::sleep(SETTLE);
            let again = self.leftovers()?;
            warnings.retain(|warning| again.contains(warning));
        }
        report.warnings.extend(warnings);
        Ok(())
    }

    /// Checks that the next writer can take over the log. Commits waiting in it are a warning for a reader;
    /// for a writer they are just not flushed yet.
    fn check_log(&self, report: &mut VerifyReport) -> Result<()> {
        let (backend, dir) = (&*self.backend, &self.dir);
        let manifest = match (self.is_read_only(), report.note(Manifest::read(backend, dir))?) {
            (true, Some(newest)) => newest,
            (false, Some(_)) => self.manifest(),
            (_, None) => return Ok(()),
        };
        if let Some(later) = recovery::evidence_of_later(backend, dir, &manifest)
            // A writer may have published since.
            && Manifest::read(backend, dir).is_ok_and(|newest| newest == manifest)
        {
            report.note::<()>(Err(later))?;
        }
        for base in log::bases(backend, dir)? {
            report.note(recovery::check_base(base, &manifest))?;
        }
        let waiting = report.note(recovery::waiting(backend, dir, &manifest))?.flatten();
        let Some(waiting) = waiting else { return Ok(()) };
        if let Tail::Damaged { detail, .. } = &waiting.scan.tail {
            report.problem(log::name(manifest.generation), detail.clone());
        }
        if self.is_read_only() && !matches!(waiting.scan.tail, Tail::Damaged { .. }) {
            report.warnings.extend(self.waiting_notice(&waiting));
            report.warnings.extend(recovery::notice_of(&waiting.scan));
        }
        Ok(())
    }

    /// Files that the next flush or repair handles.
    fn leftovers(&self) -> Result<Vec<Notice>> {
        let (backend, dir) = (&*self.backend, &self.dir);
        let mut found = Vec::new();
        let manifest = match self.is_read_only() {
            true => Manifest::read(backend, dir),
            false => Ok(self.manifest()),
        };
        // Its damage is reported as such.
        if let Ok(manifest) = manifest
            && recovery::evidence_of_later(backend, dir, &manifest).is_none()
        {
            let copy = Manifest::read_named(backend, dir, names::MANIFEST_COPY);
            if !copy.is_ok_and(|copy| copy == manifest) {
                found.push(Notice::StaleCopy { file: names::MANIFEST_COPY.to_owned() });
            }
            let unused = recovery::unused(backend, dir, &manifest, true)?;
            found.extend(unused.into_iter().map(|file| Notice::Unused { file }));
        }
        if files::kind(backend, &dir.join(names::MANIFEST_NEW))?.is_some() {
            found.push(Notice::Unused { file: names::MANIFEST_NEW.to_owned() });
        }
        let aside = dir.join(names::DAMAGED);
        if files::kind(backend, &aside)? == Some(Kind::Directory) {
            let path = |name| format!("{}/{name}", names::DAMAGED);
            let aside = files::list(backend, &aside)?.into_iter();
            found.extend(aside.map(|name| Notice::SetAside { path: path(name) }));
        }
        Ok(found)
    }
}
