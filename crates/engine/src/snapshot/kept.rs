//! Changes that were not committed, and are kept aside until a human decides.

use std::path::PathBuf;
use std::sync::Arc;

use checkpoint::{Area, KeptChanges, Outcome, Recovery, StepKind, Terms, Time};
use database::Databases;
use jiff::{SignedDuration, Timestamp};
use policy::Policy;
use serde::Serialize;
use serde_json::json;
use store_api::{Durability, Store};
use tool::Code;

use crate::denied::DeniedFiles;
use crate::direct_checkpoint::Author;
use crate::user_action::UserAction;

use super::commit::{commit_saved, done};
use super::judge::{HeldChanges, Judge};
use super::{CommitResult, Snapshots, conflict, held};
use crate::{Engine, direct_checkpoint};

/// Time for which changes are kept, unless somebody applies or discards them: a week. After that
/// the workspace has usually changed too much.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Maximum number of kept changes; the oldest are removed first.
const MAX_KEPT: usize = 50;

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

fn timestamp(time: Time) -> Timestamp {
    let nanoseconds = i32::try_from(time.nanoseconds).unwrap_or_default();
    Timestamp::new(time.seconds, nanoseconds).unwrap_or_default()
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
        let shown = self.kept_by()?.show(id, (&self.policy, &self.denied), self.store.as_ref())?;
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
        let applied = self
            .recorded("changes_apply", json!({"id": id, "force": force}), |author| {
                snapshots.apply(&self.policy, self.store.as_ref(), author, id, force)
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
        let deed = UserAction::new(self.clock.as_ref(), what, &arguments);
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
        let snapshot = self.take_up(id).map_err(refused)?;
        let since = snapshot.kept_since.unwrap_or(Time { seconds: 0, nanoseconds: 0 });
        Ok(Some(snapshot.preview(policy, denied, store, since).map_err(refused)?.diff))
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

/// Returns advice for the user about a commit whose progress is unknown. Its checkpoint has the
/// previous state: undoing it leaves the paths alone that the commit did not reach, and restores
/// the others.
fn half_made(area: &Area, store: &dyn Store, id: &str) -> String {
    let checkpoints = store.checkpoints();
    let found = checkpoints.complete_folder(id).and_then(|()| checkpoints.of_folder(id));
    let way_back = match found {
        Ok(Some(checkpoint)) => format!(
            "`handfast checkpoints diff {0}` shows its planned changes, `handfast undo {0}` undoes \
             those that were made",
            checkpoint.id
        ),
        Ok(None) => "compare the workspace with its earlier state, for example with `git status`".to_owned(),
        Err(error) => format!("its checkpoint cannot be read: {error}"),
    };
    format!(
        "a commit was interrupted and its journal is damaged: the workspace may contain a part of it; \
         {way_back}. Files that it replaced or removed are in {} (`upper`, `taken`): move that folder \
         elsewhere when you no longer need it, and this message stops",
        area.folder_of(id).display()
    )
}

/// Returns the fault and advice for the user about a commit that has happened and whose folder
/// cannot be cleaned up. Its checkpoint counts from now on.
fn done_and_unreadable(
    area: &Area,
    store: &dyn Store,
    id: &str,
    name: &str,
    problem: &checkpoint::Error,
) -> String {
    let folder = area.folder_of(id);
    let checkpoints = store.checkpoints();
    let found = checkpoints.complete_folder(id).and_then(|()| checkpoints.of_folder(id));
    let way_back = match found {
        Ok(Some(checkpoint)) => format!("`handfast undo {}` undoes it", checkpoint.id),
        Ok(None) => "it has no checkpoint".to_owned(),
        Err(error) => format!("its checkpoint cannot be read: {error}"),
    };
    format!(
        "files left by a commit cannot be removed, because {problem}: {}. The commit is complete in \
         the workspace, and {way_back}. Remove {}, and `.handfast-commit-{id}` in the workspace if it \
         exists, and this message stops",
        folder.join(name).display(),
        folder.display(),
    )
}

/// Completes or rolls back the commits of killed processes, and removes expired changes. Returns
/// messages for the user.
pub(super) fn tidy(
    area: &Area,
    (store, databases): (&Arc<dyn Store>, Option<&Databases>),
    now: Timestamp,
) -> Result<Vec<String>, checkpoint::Error> {
    let mut told = Vec::new();
    let mut failed = Vec::new();
    let go_on = || std::ops::ControlFlow::Continue(());
    let on_committed =
        |folder: &str| store.checkpoints().complete_folder(folder).map_err(std::io::Error::other);
    for recovered in area.recover(&go_on, &on_committed)? {
        let id = recovered.id;
        match recovered.action {
            Recovery::Dropped | Recovery::Cleaned => {}
            Recovery::TakenBack { left, .. } => {
                let left: Vec<String> = left.iter().map(|path| tool::path_text(path)).collect();
                let but =
                    if left.is_empty() { String::new() } else { format!(", except {}", left.join(", ")) };
                told.push(format!(
                    "a commit was interrupted: the workspace has its earlier state{but}; `handfast \
                     changes show {id}` shows the planned changes"
                ));
            }
            Recovery::Failed(error @ checkpoint::Error::Unreadable { has_happened: true, name, .. }) => {
                told.push(done_and_unreadable(area, store.as_ref(), &id, name, &error));
            }
            Recovery::Failed(checkpoint::Error::Unreadable { is_of_other_version: false, .. }) => {
                told.push(half_made(area, store.as_ref(), &id));
                failed.push(id);
            }
            Recovery::Failed(error @ checkpoint::Error::Unreadable { .. }) => {
                told.push(format!(
                    "a commit was interrupted, and the workspace may contain a part of it: {error}; \
                     start the version of Handfast that made it once: it undoes the commit"
                ));
                failed.push(id);
            }
            Recovery::Failed(error) => {
                told.push(format!("the changes {id} could not be recovered: {error}"));
                failed.push(id);
            }
        }
    }
    // No command runs this long.
    let long_ago = now.checked_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
    area.forget_applied(Time::from(std::time::SystemTime::from(long_ago)))?;
    let is_open = |folder: &str| Ok(failed.iter().any(|id| id == folder) || area.is_alive(folder)?);
    if let Err(error) = direct_checkpoint::settle_all(store, databases, is_open) {
        told.push(format!("checkpoints of a killed process are not completed yet: {error}"));
    }
    let mut kept = area.kept()?;
    kept.sort_by_key(|kept| std::cmp::Reverse(kept.since));
    let is_old = |kept: &KeptChanges| now.duration_since(timestamp(kept.since)) > KEPT_FOR;
    for (_, old) in kept.iter().enumerate().filter(|(index, kept)| *index >= MAX_KEPT || is_old(kept)) {
        match area.take_up(&old.id) {
            Ok((call, _)) => call.discard()?,
            // Another process is handling the changes.
            Err(checkpoint::Error::NoSuchChanges { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(told)
}
