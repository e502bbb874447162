//! Interface of the runtime's durable state: the audit log, approvals, leases, checkpoints, outputs
//! stored by reference, blobs, memories, schedules, agents, mail, spending, trusted files, and the
//! presence of other processes.
//!
//! [`Store`] has one trait for each of them, with the rows that go in and out. This crate knows no
//! database and no folder. No implementation reads a clock or makes ids: callers pass both. Only mails
//! and reservations get their number from the store.

mod agents;
mod approvals;
mod audit;
mod blobs;
mod checkpoints;
mod chores;
mod error;
mod hash;
mod leases;
mod mail;
mod memories;
mod outputs;
mod presence;
mod schedules;
mod spending;
mod store;
mod trust;

pub use agents::{
    AgentAddOutcome, AgentFilter, AgentRow, AgentState, AgentStore, ConversationEntry, ENTRY_BYTES_MAX,
};
pub use approvals::{AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, Approvals, EarlierAnswer};
pub use audit::{
    AuditLog, AuditRow, Durability, Fault, Filter, HeadFileState, Kind, ROW_BYTES_MAX, Receipt, RecordedRow,
    Sender, Verification,
};
pub use blobs::{BlobReader, BlobRef, BlobWriter, Blobs, CheckResult};
pub use checkpoints::{Checkpoint, CheckpointEntry, CheckpointRetention, CheckpointState, Checkpoints};
pub use chores::{Chore, Chores};
pub use error::{Cause, StoreError};
pub use hash::{Hash, HashSyntaxError};
pub use leases::{Lease, LeaseKind, Leases};
pub use mail::{MAIL_BYTES_MAX, MailRow, MailState, MailStore, NewMail, Priority, SendOutcome};
pub use memories::{ChangeOutcome, Memories, Memory, MemoryCaller, MemoryVersion, Unembedded, WordMatches};
pub use outputs::{Output, Outputs, PruneResult, Retention};
pub use presence::{Presence, WaitingMark, Watch, WatcherMark};
pub use schedules::{
    AddOutcome, AfterAttempt, AttemptEnd, Claim, Claimer, DecideAfter, DecideDue, Due, Firing, FiringState,
    OpenFirings, ScheduleFilter, ScheduleRow, ScheduleState, ScheduleTimes, Schedules,
};
pub use spending::{Amounts, Limits, ReserveOutcome, SpendingKey, SpendingScope, SpendingStore};
pub use store::{Cover, Store};
pub use trust::Trust;
