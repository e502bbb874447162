//! What the policy says to each path that a command turned out to have changed.

use std::path::{Path, PathBuf};

use checkpoint::{Action, Found, Kind, Touch, Verdict};
use policy::{AutoRun, Entry, Policy, Spot, auto_run, git_config_change, git_pointer_change};

use super::{LARGEST_CONFIGURATION, read_small};

/// Judges the changes of one command.
pub(super) struct Judge<'a> {
    pub(super) policy: &'a Policy,
    pub(super) workspace: &'a Path,
    /// Where what is new lies before the commit.
    pub(super) upper: PathBuf,
    /// A human has agreed to what is held.
    pub(super) approved: bool,
}

impl Judge<'_> {
    pub(super) fn verdict(&self, touch: &Touch<'_>) -> Verdict {
        let path = self.workspace.join(touch.path);
        let spot = self.policy.spot(&path);
        if let Some(reason) = self.denied(touch, &path, &spot) {
            return Verdict::Deny(reason);
        }
        if self.approved || rewrites_the_same(touch) {
            return Verdict::Allow;
        }
        if self.policy.is_outside_writes(&spot) {
            return Verdict::Hold("it is not listed in `allowed_write_paths`".to_owned());
        }
        self.runs_later(touch).map_or(Verdict::Allow, Verdict::Hold)
    }

    fn denied(&self, touch: &Touch<'_>, path: &Path, spot: &Spot<'_>) -> Option<String> {
        let is_folder =
            |found: Option<Found<'_>>| found.is_some_and(|found| found.entry.kind == Kind::Folder);
        if let Some(rule) = self.policy.own_file(path) {
            return Some(format!("it is denied by {rule}"));
        }
        let folder = is_folder(touch.new) || (touch.new.is_none() && is_folder(touch.old));
        // A folder may get another time or mode: what is in it is judged by itself.
        if touch.action != Action::Attributes
            && let Some(rule) = self.policy.denied_writes().rule_at(spot, folder)
        {
            return Some(format!("it is denied by {rule}"));
        }
        // What must not be read must not go elsewhere either, nor be replaced by something that may.
        let goes = matches!(touch.action, Action::Remove | Action::Replace);
        let rule = self.policy.denied_reads().rule_at(spot, is_folder(touch.old)).filter(|_| goes)?;
        Some(format!("what is there is denied by {rule}"))
    }

    /// Why a later program would run code through what is new.
    fn runs_later(&self, touch: &Touch<'_>) -> Option<String> {
        let new = touch.new?;
        let entry = match new.entry.kind {
            Kind::Folder => Entry::Folder,
            Kind::Link => Entry::Link,
            _ => Entry::File,
        };
        match auto_run(touch.path, entry, &|folder| self.is_repository(folder))? {
            AutoRun::Any(why) => Some(why.to_owned()),
            AutoRun::GitConfig => {
                let old = touch.old.map_or(Some(Vec::new()), content);
                match (old, content(new)) {
                    (Some(old), Some(new)) => git_config_change(&old, &new),
                    _ => Some("git runs what it names, and it cannot be read".to_owned()),
                }
            }
            AutoRun::GitPointer => match content(new) {
                Some(new) => git_pointer_change(&new),
                None => Some("it leads git to a repository, and it cannot be read".to_owned()),
            },
        }
    }

    /// Whether git would take the folder for a repository, as it is now or as it would be.
    fn is_repository(&self, folder: &Path) -> bool {
        let has = |name: &str| {
            [self.workspace, &self.upper]
                .iter()
                .any(|root| root.join(folder).join(name).symlink_metadata().is_ok())
        };
        has("HEAD") && has("objects")
    }
}

/// Whether a file is replaced by one of the same mode and content, as `git reset --hard` replaces what it only takes for changed.
fn rewrites_the_same(touch: &Touch<'_>) -> bool {
    let (Some(old), Some(new)) = (touch.old, touch.new) else { return false };
    let is_alike = |one: Found<'_>, other: Found<'_>| {
        (one.entry.kind, one.entry.mode, one.entry.size_bytes)
            == (other.entry.kind, other.entry.mode, other.entry.size_bytes)
    };
    is_alike(old, new) && content(old).zip(content(new)).is_some_and(|(old, new)| old == new)
}

/// The content of a regular file of sensible size.
fn content(found: Found<'_>) -> Option<Vec<u8>> {
    read_small(found.open_file().ok()?, LARGEST_CONFIGURATION).ok()?
}
