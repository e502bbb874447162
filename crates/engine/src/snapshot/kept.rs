//! Changes that were not committed, and are kept aside until a human decides.

use std::path::PathBuf;

use checkpoint::{KeptChanges, Outcome, StepKind, Terms};
use jiff::Timestamp;
use policy::Policy;
use serde::Serialize;
use serde_json::json;
use store_api::{Durability, Store};
use tool::Code;

use crate::checkpoint_rows::Author;
use crate::denied::DeniedFiles;
use crate::user_action::UserAction;

use super::Snapshots;
use super::commit::commit_saved;
use super::judge::{HeldChanges, Judge};
use super::recovery::timestamp;
use super::result::{CommitResult, conflict, done, held};
use crate::Engine;

/// Changes that are kept aside.
#[derive(Debug, Clone, Serialize)]
pub struct KeptDetails {
    /// Id for `handfast changes`.
    pub id: String,
    /// Workspace of the changes.
    pub workspace: PathBuf,
    /// Time at which the changes were kept.
    pub since: Timestamp,
    /// Reason why the changes are not in the workspace.
    pub reason: String,
    /// Effects of the changes, one line each; empty in a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Diff of the changes. `None` in a list, and for changes of another workspace than this runtime's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Reason why kept changes could not be read or applied.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The runtime keeps no changes of commands.
    #[error("this runtime stores no changes")]
    None,
    /// The folder of the changes, or the workspace, is damaged or inaccessible.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// The action could not be recorded, so it was not done or its result is unknown.
    #[error("the audit cannot be written")]
    Store(#[from] store_api::StoreError),
    /// The policy, or a concurrent change by others, prevents the action.
    #[error("{0}")]
    Refused(String),
}

/// Returns the name of the action of a change.
fn verb(what: StepKind) -> &'static str {
    match what {
        StepKind::Create => "create",
        StepKind::Replace => "replace",
        StepKind::Remove => "remove",
        StepKind::Attributes => "attributes",
        StepKind::Times => "times",
    }
}

fn listed(kept: KeptChanges) -> KeptDetails {
    KeptDetails {
        id: kept.id,
        workspace: kept.workspace,
        since: timestamp(kept.since),
        reason: kept.reason,
        paths: Vec::new(),
        diff: None,
    }
}

impl Engine {
    /// Lists the changes of commands that are not in their workspaces, newest first.
    ///
    /// # Errors
    /// Returns an error if the changes cannot be listed.
    pub fn kept_changes(&self) -> Result<Vec<KeptDetails>, KeptError> {
        self.kept_by()?.kept()
    }

    /// Returns the effects that the changes of this id would have on the current state of their
    /// workspace.
    ///
    /// # Errors
    /// Returns an error if no changes have this id, or if their workspace no longer exists.
    pub fn show_changes(&self, id: &str) -> Result<KeptDetails, KeptError> {
        let latest = self.successor();
        let rules = latest.as_deref().unwrap_or(self);
        let shown = self.kept_by()?.show(id, (&rules.policy, &rules.denied), self.store.as_ref())?;
        let cover = |text: String| self.covered(text);
        Ok(KeptDetails {
            reason: cover(shown.reason),
            paths: shown.paths.into_iter().map(cover).collect(),
            diff: shown.diff.map(cover),
            ..shown
        })
    }

    /// Commits the changes of this id to the workspace, all or none. Returns the number of changed
    /// paths. The caller is a human who has approved the held changes; denied changes stay denied.
    /// With `force`, changes made by others are overwritten.
    ///
    /// # Errors
    /// Returns an error if no changes have this id, if others changed the same paths, or if the
    /// policy denies a change.
    pub async fn apply_changes(&self, id: &str, force: bool) -> Result<u64, KeptError> {
        let snapshots = self.kept_by()?;
        let latest = self.successor();
        let rules = latest.as_deref().unwrap_or(self);
        let applied = self
            .recorded("changes_apply", json!({"id": id, "force": force}), |author| {
                snapshots.apply(&rules.policy, self.store.as_ref(), author, id, force)
            })
            .await?;
        self.settle_question(id, true)?;
        Ok(applied)
    }

    /// Removes the changes of this id.
    ///
    /// # Errors
    /// Returns an error if no changes have this id.
    pub async fn discard_changes(&self, id: &str) -> Result<(), KeptError> {
        let snapshots = self.kept_by()?;
        self.recorded("changes_discard", json!({"id": id}), |_| snapshots.drop_kept(id)).await?;
        self.settle_question(id, false)
    }

    /// Settles an open question about these changes.
    fn settle_question(&self, id: &str, applied: bool) -> Result<(), KeptError> {
        let by = "the user, who decided about the changes";
        Ok(self.store.approvals().settle_changes(id, applied, by, self.clock.now())?)
    }

    fn kept_by(&self) -> Result<&Snapshots, KeptError> {
        self.snapshots.as_deref().ok_or(KeptError::None)
    }

    /// Does the work between two rows of the audit.
    pub(crate) async fn recorded<T>(
        &self,
        what: &str,
        arguments: serde_json::Value,
        work: impl FnOnce(&Author) -> Result<T, KeptError>,
    ) -> Result<T, KeptError> {
        let deed = UserAction::new(self.clock.as_ref(), what, &arguments, Some(&self.place.workspace));
        self.store.audit().append(deed.intent(), Durability::Committed).await?;
        let author = Author {
            id: deed.id.0.clone(),
            session: None,
            tool: what.to_owned(),
            now: self.clock.now(),
            undoes: None,
        };
        let done = work(&author);
        let failed = done.is_err().then_some(Code::Conflict);
        self.store.audit().append(deed.outcome(failed), Durability::Committed).await?;
        done
    }
}

impl Snapshots {
    /// Lists all kept changes of all workspaces, newest first.
    pub(crate) fn kept(&self) -> Result<Vec<KeptDetails>, KeptError> {
        let mut kept = self.area().kept()?;
        kept.sort_by_key(|kept| std::cmp::Reverse(kept.since));
        Ok(kept.into_iter().map(listed).collect())
    }

    /// Returns the effects that the changes of this id would have on the current state of their
    /// workspace.
    pub(crate) fn show(
        &self,
        id: &str,
        (policy, denied): (&Policy, &DeniedFiles),
        store: &dyn Store,
    ) -> Result<KeptDetails, KeptError> {
        let diff = self.difference_of(id, (policy, denied), store)?;
        let (call, kept) = self.area().take_up(id)?;
        let changes = call.changes(&kept.workspace()?, &kept.terms(&call)?)?;
        let mut lines: Vec<String> = changes
            .list
            .iter()
            .filter(|change| change.what != StepKind::Times)
            .map(|change| format!("{} {}", verb(change.what), tool::path_text(&change.path)))
            .collect();
        lines.extend(changes.conflicts.iter().map(|conflict| format!("conflict: {conflict}")));
        Ok(KeptDetails { paths: lines, diff, ..listed(kept) })
    }

    /// Returns the diff of the changes of this id, if they belong to this workspace.
    fn difference_of(
        &self,
        id: &str,
        (policy, denied): (&Policy, &DeniedFiles),
        store: &dyn Store,
    ) -> Result<Option<String>, KeptError> {
        let is_here = self.area().take_up(id).map(|(_, kept)| kept.workspace == self.workspace)?;
        if !is_here {
            return Ok(None);
        }
        let refused = |error: tool::ToolError| KeptError::Refused(error.message);
        let changes = self.take_up(id).map_err(refused)?;
        Ok(Some(changes.preview(policy, denied, store).map_err(refused)?.diff))
    }

    /// Commits the changes of this id to their workspace. The human who asks for this has approved
    /// the held changes; denied changes stay denied. With `force`, changes made by others meanwhile
    /// are overwritten.
    pub(crate) fn apply(
        &self,
        policy: &Policy,
        store: &dyn Store,
        author: &Author,
        id: &str,
        force: bool,
    ) -> Result<u64, KeptError> {
        let (call, kept) = self.area().take_up(id)?;
        let workspace = kept.workspace()?;
        if workspace.path() != self.workspace {
            let elsewhere = kept.workspace.display();
            return Err(KeptError::Refused(format!(
                "these changes belong to {elsewhere}; use --workspace {elsewhere}"
            )));
        }
        let judge = Judge::new(policy, workspace.path(), HeldChanges::Nothing);
        let judged = |touch: &checkpoint::Touch<'_>| judge.verdict(touch);
        let terms = kept.terms(&call)?;
        let baseline = if force { None } else { terms.baseline };
        let terms = Terms { judge: &judged, baseline, ..terms };
        // Without this record, new files would be attributed to a command with direct writes.
        let coming = call.changes(&workspace, &terms)?;
        let coming: Vec<PathBuf> = coming.coming().map(|path| workspace.path().join(path)).collect();
        self.area().set_applied(id, &coming)?;
        let ended =
            match commit_saved(store, author, &call, &workspace, terms, (true, &tool::Stop::default()))? {
                (Outcome::Committed(committed), checkpoint) => {
                    CommitResult::Committed(done(&committed, checkpoint))
                }
                (Outcome::Held(changes), _) => held(&changes),
                (Outcome::Conflict(changes), _) => {
                    let error = conflict(&changes.conflicts);
                    return Err(KeptError::Refused(format!("{error}; --force overwrites them")));
                }
            };
        match ended {
            CommitResult::Committed(done) => {
                // The next recovery removes remaining files.
                if done.is_settled {
                    call.discard()?;
                }
                Ok(done.paths)
            }
            CommitResult::Held(question) => Err(KeptError::Refused(question.lines.join("; "))),
            CommitResult::Refused(error) => Err(KeptError::Refused(error.message)),
        }
    }

    /// Removes the changes of this id.
    pub(crate) fn drop_kept(&self, id: &str) -> Result<(), KeptError> {
        let (call, _) = self.area().take_up(id)?;
        Ok(call.discard()?)
    }
}
