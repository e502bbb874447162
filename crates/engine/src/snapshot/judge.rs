//! Judgement of each path that a command has changed.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use checkpoint::{Action, FoundEntry, Kind, Touch, Verdict};
use policy::{LocatedPath, Policy};

use crate::approvals::ForeseenWrites;
use crate::cell::shown;
use crate::denied::{AsOf, DeniedFiles};
use crate::impact::ChangedCode;
use crate::protected::{ChangeJudge, LayeredView, News, ProtectedSet};
use crate::small_file::{LARGEST_CONFIGURATION, read_small};

/// Changes that are held until a human approves them.
#[derive(Clone, Copy)]
pub(crate) enum HeldChanges<'a> {
    /// Empty set, because a human has approved the changes.
    Nothing,
    /// Changes that would run automatically, and changes that no list names, except those that a
    /// human has approved in advance; and changes of code with many callers, if a rule asks.
    AsFoundBy(&'a DeniedFiles, &'a ForeseenWrites, Option<&'a ChangedCode>),
}

/// Judge of the changes of one command.
pub(super) struct Judge<'a> {
    policy: &'a Policy,
    workspace: &'a Path,
    holds: HeldChanges<'a>,
    /// Protected set, computed for the first path, because most commands change nothing.
    set: OnceLock<Result<Arc<ProtectedSet>, String>>,
    news: News,
}

impl<'a> Judge<'a> {
    pub(super) fn new(policy: &'a Policy, workspace: &'a Path, holds: HeldChanges<'a>) -> Self {
        Self { policy, workspace, holds, set: OnceLock::new(), news: News::default() }
    }

    pub(super) fn verdict(&self, touch: &Touch<'_>) -> Verdict {
        let path = self.workspace.join(touch.path);
        let spot = self.policy.spot(&path);
        if let Some(reason) = self.denied(touch, &path, &spot) {
            return Verdict::Deny(reason);
        }
        let HeldChanges::AsFoundBy(denied, foreseen, code) = self.holds else { return Verdict::Allow };
        if rewrites_the_same(touch) {
            return Verdict::Allow;
        }
        let is_folder = is_folder(touch.new) || is_folder(touch.old);
        if self.policy.is_outside_writes(&spot) && !foreseen.has_unlisted(&path, is_folder) {
            return Verdict::Hold("it is not listed in `allowed_write_paths`".to_owned());
        }
        if !foreseen.has_run_later(&path, is_folder)
            && let Some(reason) = self.runs_by_itself(touch, denied)
        {
            return Verdict::Hold(reason);
        }
        code.and_then(|code| code.reason(touch)).map_or(Verdict::Allow, Verdict::Hold)
    }

    fn denied(&self, touch: &Touch<'_>, path: &Path, spot: &LocatedPath<'_>) -> Option<String> {
        if let Some(rule) = self.policy.own_file(path) {
            return Some(format!("it is denied by {rule}"));
        }
        let folder = is_folder(touch.new) || (touch.new.is_none() && is_folder(touch.old));
        // A folder may get another time or mode, because its entries are judged separately.
        if touch.action != Action::Attributes
            && let Some(rule) = self.policy.denied_writes().rule_at(spot, folder)
        {
            return Some(format!("it is denied by {rule}"));
        }
        // A file that must not be read must not be replaced by a readable one. The file may be
        // removed, because it is saved before, and the command saw a placeholder at most. A folder
        // is covered as a whole, so a folder that is removed was created while the command ran.
        let goes = match touch.action {
            Action::Remove => is_folder(touch.old),
            action => action == Action::Replace,
        };
        let rule = self.policy.denied_reads().rule_at(spot, is_folder(touch.old)).filter(|_| goes)?;
        Some(format!("reading the existing file is denied by {rule}"))
    }

    /// Returns the reason why the new entry would run automatically.
    fn runs_by_itself(&self, touch: &Touch<'_>, denied: &DeniedFiles) -> Option<String> {
        touch.new?;
        let find = || {
            let roots = shown(self.policy, self.workspace);
            denied.protected(&roots, self.workspace, AsOf::ForThisCall).map_err(|error| error.to_string())
        };
        match self.set.get_or_init(find) {
            Ok(set) => {
                let changed =
                    ChangeJudge::new(set, self.workspace, LayeredView::Touches(touch.among), &self.news);
                changed.reason(touch.path)
            }
            Err(error) => Some(format!("the search for run-later files failed: {error}")),
        }
    }
}

fn is_folder(found: Option<FoundEntry<'_>>) -> bool {
    found.is_some_and(|found| found.entry.kind == Kind::Folder)
}

/// Returns true if a file is replaced by one with the same mode and content, as `git reset --hard`
/// does with files that only look changed.
fn rewrites_the_same(touch: &Touch<'_>) -> bool {
    let (Some(old), Some(new)) = (touch.old, touch.new) else { return false };
    let is_alike = |one: FoundEntry<'_>, other: FoundEntry<'_>| {
        (one.entry.kind, one.entry.mode, one.entry.size_bytes)
            == (other.entry.kind, other.entry.mode, other.entry.size_bytes)
    };
    is_alike(old, new) && content(old).zip(content(new)).is_some_and(|(old, new)| old == new)
}

/// Returns the content of a regular file up to the size limit.
fn content(found: FoundEntry<'_>) -> Option<Vec<u8>> {
    read_small(found.open_file().ok()?, LARGEST_CONFIGURATION).ok()?
}
