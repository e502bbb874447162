//! Rules for the search in the visible parts of toolchains.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{FolderMatches, Policy};
use watch::{Kind, Marks, Rules};

use super::names::{self, Verdict};

/// Deny lists of the policy, and names of keys.
#[derive(Clone)]
pub(super) struct KeyFiles {
    policy: Arc<Policy>,
    /// Folders in which the histories of git are part of the toolchain.
    repositories: Vec<PathBuf>,
}

/// Judgement of an entry.
#[derive(Clone)]
pub(super) struct EntryJudgement {
    denied: FolderMatches,
    hidden: bool,
    /// True if the content of the file decides.
    asks: bool,
}

impl KeyFiles {
    pub(super) fn new(policy: Arc<Policy>, repositories: Vec<PathBuf>) -> Self {
        Self { policy, repositories }
    }

    fn is_history(&self, path: &Path, name: &str) -> bool {
        name == ".git" && !self.repositories.iter().any(|folder| path.starts_with(folder))
    }

    /// Returns true if the deny lists name the file of which this one is a backup.
    fn is_backup_of_denied(&self, above: &FolderMatches, path: &Path, name: &str) -> bool {
        let reads = self.policy.denied_reads();
        names::versions_before(name)
            .iter()
            .any(|before| reads.is_denied_by(&reads.below(above, &path.with_file_name(before), false)))
    }

    fn judge(&self, above: &EntryJudgement, path: &Path, name: &str, denied: bool) -> Verdict {
        if names::is_bundle(name) {
            return Verdict::AskContent;
        }
        if denied || self.is_backup_of_denied(&above.denied, path, name) {
            return Verdict::Key;
        }
        if self.policy.denies_program(name).is_some() {
            return Verdict::Key;
        }
        let is_program = || fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
        match names::judge(name) {
            Verdict::Key if names::is_ambiguous(name) && is_program() => Verdict::Plain,
            verdict => verdict,
        }
    }
}

impl Rules for KeyFiles {
    type FolderMatches = EntryJudgement;

    fn top(&self, folder: &Path) -> EntryJudgement {
        let reads = self.policy.denied_reads();
        let denied = reads.above(folder);
        let is_history = |part: &Path| part.ends_with(".git") && self.is_history(part, ".git");
        let hidden = reads.is_denied_by(&denied) || folder.ancestors().any(is_history);
        EntryJudgement { denied, hidden, asks: false }
    }

    fn may_match(&self, _: &EntryJudgement, name: &OsStr) -> bool {
        names::may_matter(name.as_bytes())
            || self.policy.denied_reads().may_match(name)
            || name.to_str().is_some_and(|name| self.policy.denies_program(name).is_some())
    }

    fn below(&self, above: &EntryJudgement, path: &Path, kind: Kind) -> EntryJudgement {
        let reads = self.policy.denied_reads();
        let is_folder = kind == Kind::Folder;
        let denied = reads.below(&above.denied, path, is_folder);
        let is_denied = reads.is_denied_by(&denied);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let verdict = match kind {
            _ if self.is_history(path, &name) => Verdict::Key,
            Kind::Folder if is_denied => Verdict::Key,
            Kind::Folder => Verdict::Plain,
            Kind::File | Kind::Link => self.judge(above, path, &name, is_denied),
        };
        EntryJudgement { denied, hidden: verdict == Verdict::Key, asks: verdict == Verdict::AskContent }
    }

    fn marks(&self, known: &EntryJudgement) -> Marks {
        Marks { hidden: known.hidden, guarded: known.asks, ..Marks::default() }
    }

    /// Returns true, because the listener of a socket is a process outside of the cell.
    fn hide_sockets(&self) -> bool {
        true
    }
}
