//! Rows and errors of the runtime's durable state: the audit log, approvals, leases, checkpoints,
//! outputs stored by reference, blobs, memories, trusted files.
//!
//! This crate knows no database. It reads no clock and makes no ids: callers pass both.

mod approvals;
mod audit;
mod blobs;
mod checkpoints;
mod chores;
mod error;
mod hash;
mod leases;
mod memories;
mod outputs;

pub use approvals::{AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, EarlierAnswer};
pub use audit::{
    AuditRow, Durability, Fault, Filter, HeadFileState, Kind, ROW_BYTES_MAX, Receipt, RecordedRow, Sender,
    Verification,
};
pub use blobs::{BlobRef, CheckResult};
pub use checkpoints::{Checkpoint, CheckpointEntry, CheckpointRetention, CheckpointState};
pub use chores::Chore;
pub use error::{Cause, StoreError};
pub use hash::{Hash, HashSyntaxError};
pub use leases::{Lease, LeaseKind};
pub use memories::{ChangeOutcome, Memory, MemoryCaller, MemoryVersion, Unembedded};
pub use outputs::{Output, PruneResult, Retention};
