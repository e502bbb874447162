//! Changes that were not committed, and lie aside until a human decides.

use std::path::PathBuf;
use std::sync::Arc;

use checkpoint::{Area, Kept, Outcome, Recovery, Terms, Time, What};
use database::Databases;
use jiff::{SignedDuration, Timestamp};
use policy::Policy;
use serde::Serialize;
use serde_json::json;
use store::{Durability, Store};
use tool::Code;

use crate::by_hand::Deed;
use crate::denied::DeniedFiles;
use crate::saving::Author;

use super::commit::{commit_saved, done};
use super::judge::{Holds, Judge};
use super::{Ended, Snapshots, conflict, held};
use crate::{Engine, saving};

/// How long changes are kept, unless somebody applies or discards them: a week, after which the workspace has usually moved
/// on too far.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How many are kept at most; the oldest go first.
const MOST_KEPT: usize = 50;

/// Changes that lie aside.
#[derive(Debug, Clone, Serialize)]
pub struct KeptChanges {
    /// What `handfast changes` takes.
    pub id: String,
    /// The workspace that they belong to.
    pub workspace: PathBuf,
    /// When they were kept.
    pub since: Timestamp,
    /// Why they are not in the workspace.
    pub reason: String,
    /// What they would do, one line each; empty in a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The difference that they would make; none in a list, and where they belong to another workspace than this runtime's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Why kept changes could not be had or applied.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// No changes of commands are kept by this runtime.
    #[error("this runtime keeps no changes")]
    None,
    /// The folder of the changes, or the workspace, is not as it should be.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// It could not be recorded, so it was not done, or is not known to be.
    #[error("the audit cannot be written")]
    Store(#[from] store::StoreError),
    /// The policy, or what others changed meanwhile, stands against it.
    #[error("{0}")]
    Refused(String),
}

fn timestamp(time: Time) -> Timestamp {
    let nanoseconds = i32::try_from(time.nanoseconds).unwrap_or_default();
    Timestamp::new(time.seconds, nanoseconds).unwrap_or_default()
}

/// What a change does, in a word.
fn verb(what: What) -> &'static str {
    match what {
        What::Create => "create",
        What::Replace => "replace",
        What::Remove => "remove",
        What::Attributes => "attributes",
        What::Times => "times",
    }
}

fn listed(kept: Kept) -> KeptChanges {
    KeptChanges {
        id: kept.id,
        workspace: kept.workspace,
        since: timestamp(kept.since),
        reason: kept.reason,
        paths: Vec::new(),
        diff: None,
    }
}

impl Engine {
    /// The changes of commands that are not in their workspaces, the newest first.
    ///
    /// # Errors
    /// Where they cannot be listed.
    pub fn kept_changes(&self) -> Result<Vec<KeptChanges>, KeptError> {
        self.kept_by()?.kept()
    }

    /// What the changes of this id would do to their workspace as it is now.
    ///
    /// # Errors
    /// Where there are none under this id, or their workspace is gone.
    pub fn show_changes(&self, id: &str) -> Result<KeptChanges, KeptError> {
        let shown = self.kept_by()?.show(id, (&self.policy, &self.denied), &self.store)?;
        let cover = |text: String| self.covered(text);
        Ok(KeptChanges {
            reason: cover(shown.reason),
            paths: shown.paths.into_iter().map(cover).collect(),
            diff: shown.diff.map(cover),
            ..shown
        })
    }

    /// Puts the changes of this id into the workspace, all or none; gives how many paths changed. Whoever calls this is a
    /// human who has approved what was held. What is denied stays denied. With `force` it overwrites what others changed.
    ///
    /// # Errors
    /// Where there are none under this id, where others changed the same, or where the policy denies it.
    pub async fn apply_changes(&self, id: &str, force: bool) -> Result<u64, KeptError> {
        let snapshots = self.kept_by()?;
        let applied = self
            .recorded("changes_apply", json!({"id": id, "force": force}), |author| {
                snapshots.apply(&self.policy, &self.store, author, id, force)
            })
            .await?;
        self.settle_question(id, true)?;
        Ok(applied)
    }

    /// Removes the changes of this id.
    ///
    /// # Errors
    /// Where there are none under this id.
    pub async fn discard_changes(&self, id: &str) -> Result<(), KeptError> {
        let snapshots = self.kept_by()?;
        self.recorded("changes_discard", json!({"id": id}), |_| snapshots.drop_kept(id)).await?;
        self.settle_question(id, false)
    }

    /// A question about these changes has its answer by this.
    fn settle_question(&self, id: &str, applied: bool) -> Result<(), KeptError> {
        let by = "the user, who decided about the changes";
        Ok(self.store.approvals().settle_changes(id, applied, by, self.clock.now())?)
    }

    fn kept_by(&self) -> Result<&Snapshots, KeptError> {
        self.snapshots.as_deref().ok_or(KeptError::None)
    }

    /// Does it between two rows of the audit.
    pub(crate) async fn recorded<T>(
        &self,
        what: &str,
        arguments: serde_json::Value,
        work: impl FnOnce(&Author) -> Result<T, KeptError>,
    ) -> Result<T, KeptError> {
        let deed = Deed::new(self.clock.as_ref(), what, &arguments);
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
    /// All that lie aside, the newest first, whatever workspace they belong to.
    pub(crate) fn kept(&self) -> Result<Vec<KeptChanges>, KeptError> {
        let mut kept = self.area().kept()?;
        kept.sort_by_key(|kept| std::cmp::Reverse(kept.since));
        Ok(kept.into_iter().map(listed).collect())
    }

    /// What the changes of this id would do to their workspace as it is now.
    pub(crate) fn show(
        &self,
        id: &str,
        (policy, denied): (&Policy, &DeniedFiles),
        store: &Store,
    ) -> Result<KeptChanges, KeptError> {
        let diff = self.difference_of(id, (policy, denied), store)?;
        let (call, kept) = self.area().take_up(id)?;
        let changes = call.changes(&kept.workspace()?, &kept.terms(&call)?)?;
        let mut lines: Vec<String> = changes
            .list
            .iter()
            .filter(|change| change.what != What::Times)
            .map(|change| format!("{} {}", verb(change.what), tool::path_text(&change.path)))
            .collect();
        lines.extend(changes.conflicts.iter().map(|conflict| format!("conflict: {conflict}")));
        Ok(KeptChanges { paths: lines, diff, ..listed(kept) })
    }

    /// The difference that the changes of this id would make, where they belong to this workspace.
    fn difference_of(
        &self,
        id: &str,
        (policy, denied): (&Policy, &DeniedFiles),
        store: &Store,
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

    /// Puts the changes of this id into their workspace. A human who asks for it has approved what was held; what is denied
    /// stays denied. With `force` it overwrites what others changed meanwhile.
    pub(crate) fn apply(
        &self,
        policy: &Policy,
        store: &Store,
        author: &Author,
        id: &str,
        force: bool,
    ) -> Result<u64, KeptError> {
        let (call, kept) = self.area().take_up(id)?;
        let workspace = kept.workspace()?;
        if workspace.path() != self.workspace {
            let elsewhere = kept.workspace.display();
            return Err(KeptError::Refused(format!(
                "these changes belong to {elsewhere}; name it with --workspace {elsewhere}"
            )));
        }
        let judge = Judge::new(policy, workspace.path(), Holds::Nothing);
        let judged = |touch: &checkpoint::Touch<'_>| judge.verdict(touch);
        let terms = kept.terms(&call)?;
        let baseline = if force { None } else { terms.baseline };
        let terms = Terms { judge: &judged, baseline, ..terms };
        // While a command writes directly, what comes would be taken for its own.
        let coming = call.changes(&workspace, &terms)?;
        let coming: Vec<PathBuf> = coming.coming().map(|path| workspace.path().join(path)).collect();
        self.area().set_applied(id, &coming)?;
        let ended =
            match commit_saved(store, author, &call, &workspace, terms, (true, &tool::Stop::default()))? {
                (Outcome::Committed(committed), checkpoint) => Ended::Committed(done(&committed, checkpoint)),
                (Outcome::Held(changes), _) => held(&changes),
                (Outcome::Conflict(changes), _) => {
                    let error = conflict(&changes.conflicts);
                    return Err(KeptError::Refused(format!("{error}; --force would overwrite that")));
                }
            };
        match ended {
            Ended::Committed(done) => {
                // What it leaves behind, the next recovery removes.
                if done.is_settled {
                    call.discard()?;
                }
                Ok(done.paths)
            }
            Ended::Held(question) => Err(KeptError::Refused(question.lines.join("; "))),
            Ended::Refused(error) => Err(KeptError::Refused(error.message)),
        }
    }

    /// Removes the changes of this id.
    pub(crate) fn drop_kept(&self, id: &str) -> Result<(), KeptError> {
        let (call, _) = self.area().take_up(id)?;
        Ok(call.discard()?)
    }
}

/// Of a commit that nobody knows how far it came, what a user can do. Its checkpoint has what was there before: undoing it
/// leaves alone what the commit did not come to, and brings back the rest.
fn half_made(area: &Area, store: &Store, id: &str) -> String {
    let checkpoints = store.checkpoints();
    let found = checkpoints.complete_folder(id).and_then(|()| checkpoints.of_folder(id));
    let way_back = match found {
        Ok(Some(checkpoint)) => format!(
            "`handfast checkpoints diff {0}` shows what it was to change, `handfast undo {0}` takes back what of it was \
             done",
            checkpoint.id
        ),
        Ok(None) => "compare the workspace with what it was, such as by `git status`".to_owned(),
        Err(error) => format!("its checkpoint cannot be read: {error}"),
    };
    format!(
        "a commit was cut off and its journal is damaged: the workspace may hold a part of it; {way_back}. What it replaced \
         and removed lies in {} (`upper`, `taken`): move that folder elsewhere when you need it no more, and this is not \
         said again",
        area.folder_of(id).display()
    )
}

/// Of a commit that has happened, and whose folder cannot be cleaned up, what is wrong with which file and what a user can do. Its
/// checkpoint counts from now on.
fn done_and_unreadable(
    area: &Area,
    store: &Store,
    id: &str,
    name: &str,
    problem: &checkpoint::Error,
) -> String {
    let folder = area.folder_of(id);
    let checkpoints = store.checkpoints();
    let found = checkpoints.complete_folder(id).and_then(|()| checkpoints.of_folder(id));
    let way_back = match found {
        Ok(Some(checkpoint)) => format!("`handfast undo {}` takes it back", checkpoint.id),
        Ok(None) => "it has no checkpoint".to_owned(),
        Err(error) => format!("its checkpoint cannot be read: {error}"),
    };
    format!(
        "what a commit has left cannot be removed, because {problem}: {}. The commit was done, the workspace has all of it, and \
         {way_back}. Remove {}, and `.handfast-commit-{id}` of the workspace where that is there, and this is not said again",
        folder.join(name).display(),
        folder.display(),
    )
}

/// Ends what killed processes left, and removes what is old. Gives what a user should be told of.
pub(super) fn tidy(
    area: &Area,
    (store, databases): (&Arc<Store>, Option<&Databases>),
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
                    if left.is_empty() { String::new() } else { format!(", but not {}", left.join(", ")) };
                told.push(format!(
                    "a commit was cut off: the workspace is as it was before{but}; `handfast changes show {id}` shows \
                     what would have changed"
                ));
            }
            Recovery::Failed(error @ checkpoint::Error::Unreadable { has_happened: true, name, .. }) => {
                told.push(done_and_unreadable(area, store, &id, name, &error));
            }
            Recovery::Failed(checkpoint::Error::Unreadable { is_of_other_version: false, .. }) => {
                told.push(half_made(area, store, &id));
                failed.push(id);
            }
            Recovery::Failed(error @ checkpoint::Error::Unreadable { .. }) => {
                told.push(format!(
                    "a commit was cut off, and the workspace may hold a part of it: {error}; start the version of \
                     Handfast that was in use then, once: it takes the commit back"
                ));
                failed.push(id);
            }
            Recovery::Failed(error) => {
                told.push(format!("the changes {id} could not be recovered: {error}"));
                failed.push(id);
            }
        }
    }
    // No command runs for so long.
    let long_ago = now.checked_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
    area.forget_applied(Time::from(std::time::SystemTime::from(long_ago)))?;
    let is_open = |folder: &str| Ok(failed.iter().any(|id| id == folder) || area.is_alive(folder)?);
    if let Err(error) = saving::settle_all(store, databases, is_open) {
        told.push(format!("checkpoints of a killed process are not settled yet: {error}"));
    }
    let mut kept = area.kept()?;
    kept.sort_by_key(|kept| std::cmp::Reverse(kept.since));
    let is_old = |kept: &Kept| now.duration_since(timestamp(kept.since)) > KEPT_FOR;
    for (_, old) in kept.iter().enumerate().filter(|(index, kept)| *index >= MOST_KEPT || is_old(kept)) {
        match area.take_up(&old.id) {
            Ok((call, _)) => call.discard()?,
            // Somebody else is at it.
            Err(checkpoint::Error::NoSuchChanges { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(told)
}
