//! Databases for the agent's own data: SQLite files of the workspace, opened as untrusted files.
//!
//! SQLite itself decides what a statement may do: its authorizer reports every table and action
//! during preparation, and reading connections cannot write. The text of a statement is not
//! analysed for that. Every change produces an undo record, which a [`Keep`] receives before the
//! commit.
//!
//! This crate knows no tool, no policy and no call. The crate starts no thread, and reads the clock
//! only to wait for a lock.

mod action;
mod change;
mod describe;
mod dry_run;
mod error;
mod full_copy;
mod memory;
mod open;
mod read;
mod row_tracking;
mod snapshot;
mod undo;
mod value;
mod write;

pub use action::{Statement, dangerous_spelling};
pub use change::Change;
pub use describe::{Column, ForeignKey, Index, TableDescription};
pub use dry_run::DryRunResult;
pub use error::DatabaseError;
pub use open::{DEFAULT_NAME, DEFAULT_PATH, Database, Databases, StopCheck};
pub use read::{Bounds, Page};
pub use snapshot::{Image, Piece, PieceHash, ReadPieces};
pub use undo::UndoOutcome;
pub use value::Value;
pub use write::{Keep, KeepError, WriteOutcome};
