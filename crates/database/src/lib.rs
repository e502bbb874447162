//! The databases that an agent keeps its own data in: SQLite files of the workspace, opened as what they are, which is a stranger's.
//!
//! What a statement may do is decided by SQLite itself: by its authorizer, which names every table and action while a statement is
//! prepared, and by connections that cannot write. Nobody looks at the text of a statement for that.
//! Every change comes with what undoes it, handed to a [`Keep`] before it is committed.
//!
//! It knows no tool, no policy and no call; it starts no thread, and reads no clock but to wait for a lock.

mod action;
mod change;
mod describe;
mod error;
mod image;
mod memory;
mod open;
mod read;
mod track;
mod tried;
mod undo;
mod value;
mod whole;
mod write;

pub use action::{Statement, dangerous_spelling};
pub use change::Change;
pub use describe::{Column, Described, ForeignKey, Index};
pub use error::DatabaseError;
pub use image::{Image, Piece, PieceHash, ReadPieces};
pub use open::{DEFAULT_NAME, DEFAULT_PATH, Database, Databases, Stopped};
pub use read::{Bounds, Page};
pub use tried::Tried;
pub use undo::Undone;
pub use value::Value;
pub use write::{Keep, KeepError, Written};
