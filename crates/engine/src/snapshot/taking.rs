//! Taking the snapshot of a call, on a thread that may block because other processes share the
//! folder of the changes.

use std::sync::Arc;
use std::time::Duration;

use sandbox::Spawner;
use tool::{Code, Stop, StopReason, ToolError};

use super::{ChangedBy, PendingChanges, Snapshot, Snapshots};
use crate::stopping::requested;

impl Snapshots {
    /// Takes the snapshot of a call. Waits no longer than the call may take.
    ///
    /// # Errors
    /// Returns the reason why the snapshot could not be taken, in which case nothing was done, or
    /// `ETIMEOUT` or `ECANCELLED` as for every call.
    pub(crate) async fn taken(
        self: &Arc<Self>,
        by: ChangedBy,
        spawner: Option<Arc<Spawner>>,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<Snapshot, ToolError> {
        let (snapshots, given_up) = (self.clone(), stop.clone());
        let taking = move || {
            let taken = snapshots.take(by, spawner.as_ref()).map_err(not_kept_apart)?;
            let Err(stopped) = given_up.check() else { return Ok(taken) };
            // The next start removes folders that cannot be removed now.
            drop(taken.discard());
            Err(stopped)
        };
        self.within(timeout, stop, taking).await
    }

    /// Reopens the changes that an earlier call has kept aside under this id. Waits no longer than
    /// the call may take.
    ///
    /// # Errors
    /// `ENOTFOUND` if there are no such changes, or the errors of [`taken`](Self::taken).
    pub(crate) async fn taken_up(
        self: &Arc<Self>,
        id: String,
        timeout: Duration,
        stop: &Stop,
    ) -> Result<PendingChanges, ToolError> {
        let snapshots = self.clone();
        self.within(timeout, stop, move || snapshots.take_up(&id)).await
    }

    async fn within<T: Send + 'static>(
        &self,
        timeout: Duration,
        stop: &Stop,
        taking: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        tokio::select! {
            taken = tokio::task::spawn_blocking(taking) => taken.map_err(|panic| {
                ToolError::internal("the changes could not be isolated").because(panic)
            })?,
            reason = requested(stop) => Err(reason.into()),
            () = tokio::time::sleep(timeout) => {
                stop.request(StopReason::Deadline);
                let by = self.area().held_by().unwrap_or_else(|| "another process holds a lock of the state".to_owned());
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
