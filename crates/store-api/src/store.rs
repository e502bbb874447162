//! The whole state of the runtime.

use crate::agents::AgentStore;
use crate::approvals::Approvals;
use crate::audit::AuditLog;
use crate::blobs::Blobs;
use crate::checkpoints::Checkpoints;
use crate::chores::Chores;
use crate::error::StoreError;
use crate::leases::Leases;
use crate::mail::MailStore;
use crate::memories::Memories;
use crate::outputs::Outputs;
use crate::presence::Presence;
use crate::schedules::Schedules;
use crate::spending::SpendingStore;
use crate::trust::Trust;

/// A function that masks the secrets in a text, or returns `None` if the text contains no secret.
pub type Cover = dyn Fn(&str) -> Option<String> + Send + Sync;

/// An open state, which several processes may share. Hand it on behind an `Arc`.
pub trait Store: Presence + Chores {
    /// Masks secrets in the texts of all later rows of the audit, the approvals, the leases, the
    /// schedules, the agents and the mail, but not in JSON that the store does not read. The first call wins.
    fn cover_rows(&self, cover: Box<Cover>);

    /// Returns the audit log.
    fn audit(&self) -> &dyn AuditLog;

    /// Returns the content stored by hash.
    fn blobs(&self) -> &dyn Blobs;

    /// Returns the outputs stored by reference.
    fn outputs(&self) -> &dyn Outputs;

    /// Returns the changes made by calls, for undo.
    fn checkpoints(&self) -> &dyn Checkpoints;

    /// Returns the files that the user trusts.
    fn trust(&self) -> &dyn Trust;

    /// Returns the questions to humans.
    fn approvals(&self) -> &dyn Approvals;

    /// Returns the permissions that humans have granted beyond one call.
    fn leases(&self) -> &dyn Leases;

    /// Returns the memories of agents.
    fn memories(&self) -> &dyn Memories;

    /// Returns the schedules and their firings.
    fn schedules(&self) -> &dyn Schedules;

    /// Returns the agents and their conversations.
    fn agents(&self) -> &dyn AgentStore;

    /// Returns the mail between agents.
    fn mail(&self) -> &dyn MailStore;

    /// Returns what models have cost.
    fn spending(&self) -> &dyn SpendingStore;

    /// Does the work that a large change has left behind, so that no later change waits for the
    /// disk. Blocks.
    ///
    /// # Errors
    /// Returns an error if the state cannot be written.
    fn move_log(&self) -> Result<(), StoreError>;

    /// Checks that there is room for the rows that record the end of a change of `paths` paths.
    /// Callers ask before they change anything: otherwise a change could succeed without room to
    /// record its end.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`] if there is less room, and [`StoreError::File`] if the disk does not
    /// answer.
    fn require_room(&self, paths: usize) -> Result<(), StoreError>;

    /// Writes the queued audit rows, and makes them survive a power loss. Later rows are refused;
    /// everything else still works. Blocks. Dropping the store does the same, but reports no error.
    ///
    /// # Errors
    /// Returns an error if queued rows could not be written.
    fn close(&self) -> Result<(), StoreError>;
}
