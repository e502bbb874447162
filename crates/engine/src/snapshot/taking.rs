//! Taking the snapshot of a call, on a thread that may block because other processes share the
//! folder of the changes.

use std::sync::Arc;
use std::time::Duration;

use sandbox::Spawner;
use tool::{Code, Stop, StopReason, ToolError};

use super::{ChangedBy, Snapshot, Snapshots};
use crate::stopping::requested;

/// Kind of snapshot that a call needs.
pub(crate) enum SnapshotKind {
    /// New snapshot.
    New(ChangedBy),
    /// Changes that an earlier call has kept aside under this id.
    Kept(String),
}

impl Snapshots {
    /// Takes the snapshot of a call. Waits no longer than the call may take.
    ///
    /// # Errors
    /// Returns the reason why the snapshot could not be taken, in which case nothing was done, or
    /// `ETIMEOUT` or `ECANCELLED` as for every call.
    pub(crate) async fn taken(
        self: &Arc<Self>,
        wanted: SnapshotKind,
        spawner: Option<Arc<Spawner>>,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<Snapshot, ToolError> {
        let (snapshots, given_up) = (self.clone(), stop.clone());
        let taking = tokio::task::spawn_blocking(move || {
            let taken = match wanted {
                SnapshotKind::Kept(id) => snapshots.take_up(&id),
                SnapshotKind::New(by) => snapshots.take(by, spawner.as_ref()).map_err(not_kept_apart),
            };
            if given_up.requested().is_some()
                && let Ok(Snapshot { call, kept_since: None, .. }) = taken
            {
                // The next start removes folders that cannot be removed now.
                drop(call.discard());
                return Err(given_up.check().err().unwrap_or_else(|| ToolError::from(StopReason::Cancelled)));
            }
            taken
        });
        tokio::select! {
            taken = taking => taken.map_err(|panic| ToolError::internal("the changes could not be \
                 isolated").because(panic))?,
            reason = requested(stop) => Err(reason.into()),
            () = tokio::time::sleep(timeout) => {
                stop.request(StopReason::Deadline);
                let by = self.area.held_by().unwrap_or_else(|| "another process holds a lock of the state".to_owned());
                let message = format!("nothing was done: {by}, and did not release it before the \
                     timeout of the call");
                Err(ToolError::new(Code::Timeout, message)
                    .hint("try again when that process is done; if it is stopped, continue it with \
                         `kill -CONT` or end it"))
            }
        }
    }
}

fn not_kept_apart(error: checkpoint::Error) -> ToolError {
    let message = format!("the changes of the call could not be isolated, so it was not run: {error}");
    ToolError::caused_by(&message, error)
}
