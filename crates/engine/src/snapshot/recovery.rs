//! Work at the start of a process: commits of killed processes, and changes that were kept for too
//! long.

use std::sync::Arc;

use checkpoint::{Area, KeptChanges, Recovery, Time};
use database::Databases;
use jiff::{SignedDuration, Timestamp};
use store_api::Store;

use crate::settle_checkpoints::settle_all;

/// Time for which changes are kept, unless somebody applies or discards them: a week. After that
/// the workspace has usually changed too much.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Maximum number of kept changes; the oldest are removed first.
const MAX_KEPT: usize = 50;

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
    if let Err(error) = settle_all(store, databases, is_open) {
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

/// Converts a time of the file system.
pub(super) fn timestamp(time: Time) -> Timestamp {
    let nanoseconds = i32::try_from(time.nanoseconds).unwrap_or_default();
    Timestamp::new(time.seconds, nanoseconds).unwrap_or_default()
}
