//! The part of the file system that file tools reach: a set of folders, acted on by descriptor.
//!
//! Every operation resolves its path beneath an open folder with `openat2`, looks at what it got, asks the [`Guard`] about
//! the place where that really lies, and only then acts, always on the descriptor it looked at.
//! So there is no moment between a check and its use in which a link, swapped in by a running command, could lead it astray.
//!
//! Opening never blocks on a FIFO and never touches a device: a path is first opened as a mere place (`O_PATH`), and opened
//! for reading only once it is known to be a regular file or a folder.
//!
//! Links inside a root are followed, also in the parents of what is written: monorepos are full of them.
//! What counts is where a link really leads: that place must lie in a root with the right to it, and the guard judges it.
//!
//! This crate knows no tools and no policy, decides nothing but reach, and reads no configuration and no environment.

mod attributes;
mod beneath;
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
pub use remove::{Removal, Removed};
pub use root::{Right, Root, Roots};
pub use temporary::{is_temporary_name, remove_abandoned_in};
pub use walk::{DEEPEST, Step, Visit, Walk, Walked};
pub use write::{Staged, Staging, Written};
