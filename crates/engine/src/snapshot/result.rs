//! Results of a commit, and their wording.

use std::path::{Path, PathBuf};

use checkpoint::{Changes, CommitSummary, Conflict, Note, RefusedChange, StepKind};
use tool::{Code, EffectState, Retry, StopReason, ToolError};

use crate::digest::digest;
use crate::hidden::listed;

/// Maximum number of conflicts, held paths or notes that one response names.
const MAX_NAMED: usize = 10;

/// Question to a human about held changes.
pub(crate) struct Question {
    /// Held paths with the reasons, one line each.
    pub(crate) lines: Vec<String>,
    /// Digest that binds the answer to exactly these changes.
    pub(crate) digest: String,
}

/// Successful commit.
pub(crate) struct SuccessfulCommit {
    /// Number of changed entries.
    pub(crate) paths: u64,
    pub(crate) warnings: Vec<String>,
    /// New and changed paths, relative to the workspace.
    pub(crate) came: Vec<PathBuf>,
    /// Paths that undoing does not restore.
    pub(crate) unsaved: Vec<PathBuf>,
    /// True if the commit has a checkpoint.
    pub(crate) has_checkpoint: bool,
    /// True if the checkpoint is complete. Otherwise the folder of the call must remain for the
    /// next start.
    pub(crate) is_settled: bool,
}

/// Result of a commit.
pub(crate) enum CommitResult {
    /// All changes are in the workspace.
    Committed(SuccessfulCommit),
    /// A human must be asked first. The workspace is unchanged.
    Held(Question),
    /// The changes were refused for this reason. The workspace is unchanged.
    Refused(ToolError),
}

/// State of a commit's checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointOf {
    Nothing,
    Change,
    /// The commit has happened, but only the next start can record it.
    UnsettledChange,
}

/// Converts the summary of a successful commit.
pub(super) fn done(committed: &CommitSummary, checkpoint: CheckpointOf) -> SuccessfulCommit {
    let is_settled = checkpoint != CheckpointOf::UnsettledChange;
    let mut warnings = shortened(committed.changes.notes.iter().map(note));
    if !is_settled {
        warnings.push("the checkpoint could not be completed; the next start completes it".to_owned());
    }
    SuccessfulCommit {
        paths: count(&committed.changes),
        came: committed.changes.coming().map(Path::to_owned).collect(),
        warnings,
        unsaved: committed.changes.unsaved.clone(),
        has_checkpoint: checkpoint != CheckpointOf::Nothing,
        is_settled,
    }
}

/// Returns the error of a call that was stopped while the replaced files were being saved.
pub(super) fn stopped(reason: StopReason) -> ToolError {
    let (code, why) = match reason {
        StopReason::Deadline => (Code::Timeout, "saving the files that the call replaces took too long"),
        StopReason::Cancelled => {
            (Code::Cancelled, "the call was stopped while the files that it replaces were being saved")
        }
    };
    ToolError::new(code, format!("{why}, so none of its changes are in the workspace"))
        .effect(EffectState::None)
}

/// Returns the number of entries that were created, removed or changed. Changed times of folders
/// around them do not count.
pub(super) fn count(changes: &Changes) -> u64 {
    changes.list.iter().filter(|change| change.what != StepKind::Times).count() as u64
}

/// Converts held changes: to a question, or to an error if a rule denies one of them.
pub(super) fn held(changes: &Changes) -> CommitResult {
    let denied: Vec<&RefusedChange> = changes.held.iter().filter(|held| !held.may_be_approved).collect();
    if denied.is_empty() {
        let line = |held: &RefusedChange| format!("{}: {}", tool::path_text(&held.path), held.reason);
        let lines = shortened(changes.held.iter().map(line));
        // No process writes to the folder of the changes any more, so the times and sizes identify
        // the content.
        let shown: Vec<String> = changes.list.iter().map(|change| format!("{change:?}")).collect();
        return CommitResult::Held(Question { lines, digest: digest(&shown) });
    }
    let named =
        shortened(denied.iter().map(|held| format!("{}: {}", tool::path_text(&held.path), held.reason)));
    let message = format!("denied: the call made changes that are not allowed: {}", named.join("; "));
    CommitResult::Refused(
        ToolError::new(Code::Permission, message).hint("none of its changes are in the workspace"),
    )
}

/// Builds the error for changes that others have made meanwhile.
pub(super) fn conflict(conflicts: &[Conflict]) -> ToolError {
    let named = shortened(conflicts.iter().map(ToString::to_string));
    let message = format!(
        "others changed the same paths while the call ran, so none of its changes are in the workspace: {}",
        named.join("; ")
    );
    ToolError::new(Code::Conflict, message).retry(Retry::Now)
}

/// Converts the error of a commit.
pub(super) fn failed(error: checkpoint::Error) -> ToolError {
    let effect = match error {
        checkpoint::Error::NotUndone { .. } => EffectState::Maybe,
        _ => EffectState::None,
    };
    let message = format!("the changes of the call could not be put into the workspace: {error}");
    ToolError::caused_by(&message, error).effect(effect)
}

fn note(note: &Note) -> String {
    match note {
        Note::LinkBroken { path } => {
            let path = tool::path_text(path);
            format!("{path} had other names (hard links), which keep the old content")
        }
        Note::Dropped { path, kind } => format!("{} was {kind} and is dropped", tool::path_text(path)),
        Note::SetIdRemoved { path } => {
            format!("{} lost its set-user-id or set-group-id bit", tool::path_text(path))
        }
        Note::IndexKept { path } => {
            format!("{} was changed by others meanwhile and is left unchanged", tool::path_text(path))
        }
        Note::HiddenRemoved { paths } => {
            format!("removed although it is hidden from commands: {}; undo restores it", listed(paths))
        }
        Note::HiddenCopied { paths } => {
            format!("left out, because it contains a notice instead of hidden content: {}", listed(paths))
        }
    }
}

/// Returns the first [`MAX_NAMED`] lines, and a line with the number of the others.
pub(super) fn shortened(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = all;
    let mut named: Vec<String> = all.by_ref().take(MAX_NAMED).collect();
    let more = all.count();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named
}
