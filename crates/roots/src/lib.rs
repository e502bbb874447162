//! The part of the file system that file tools reach: a set of folders, accessed by descriptor.
//!
//! Every operation resolves its path beneath an open folder with `openat2`, and checks the entry
//! that it opened. The operation then asks the [`Guard`] about the entry's real path, and acts only
//! on the checked descriptor. A running command therefore has no moment between check and use in
//! which a swapped link could redirect the operation.
//!
//! Opening never blocks on a FIFO and never touches a device. A path is first opened with `O_PATH`,
//! and opened for reading only if it is a regular file or a folder.
//!
//! Links inside a root are followed, also in the parents of a written file, because monorepos
//! contain many. The real target of a link counts: it must lie in a root with the required right,
//! and the guard judges it.
//!
//! This crate knows no tools and no policy. It decides only about reach, and reads no configuration
//! and no environment.

mod attributes;
mod descriptor;
mod error;
mod file;
mod folder;
mod guard;
mod kind;
mod make;
mod metadata;
mod names;
mod real;
mod remove;
mod rename;
mod root;
mod slot;
mod temporary;
mod tree;
mod walk;
mod write;

pub use error::{Result, RootsError};
pub use file::OpenedFile;
pub use folder::Folder;
pub use guard::{Guard, ReadableNames, Refusal};
pub use kind::EntryKind;
pub use make::CreatedFolders;
pub use metadata::{Identity, Metadata};
pub use names::{Entries, Entry};
pub use real::{LastLink, real_path};
pub use remove::{Removal, RemovalResult};
pub use root::{Right, Root, Roots};
pub use temporary::{is_temporary_name, remove_abandoned_in};
pub use walk::{DEEPEST, Step, Visit, Walk, WalkSummary};
pub use write::{CommitResult, StagedFile, Staging};
