//! Takes the changes of a command out of an overlay's upper folder, and commits all of them to the
//! workspace or none.
//!
//! An [`Area`] contains a folder for each call. A [`Call`] has the empty folders over which the
//! overlay is mounted. When the command has ended and the overlay is unmounted, [`Call::commit`]
//! swaps the changes in.
//!
//! ```
//! use checkpoint::{Area, Outcome, Terms, Workspace};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::create_dir(folder.path().join("workspace"))?;
//! let workspace = Workspace::open(&folder.path().join("workspace"))?;
//! let area = Area::open(&folder.path().join("area"))?;
//!
//! let call = area.begin()?;
//! let terms = Terms::since(call.baseline()?);
//! // In production, a command writes this file through an overlay.
//! std::fs::write(call.upper().join("new"), "content")?;
//! assert!(matches!(call.commit(&workspace, &terms)?, Outcome::Committed(_)));
//! call.discard()?;
//! assert_eq!(std::fs::read_to_string(workspace.path().join("new"))?, "content");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Changes made by this program itself go through a [`Draft`], which lays them out in the same form.
//!
//! # A commit
//!
//! 1. The upper folder is read and compared with the current workspace: changes, conflicts with
//!    concurrent changes of others, and the judge's verdict on each entry. A refused entry or a
//!    conflict ends the commit here.
//! 2. A journal is written that contains every step and the identity of every entry.
//! 3. Each new entry is exchanged with the old one in one system call, so that the old one lands in
//!    the folder of the call. The old entry is then examined: if it is not the entry that was checked,
//!    everything is undone.
//! 4. Folders that stay get their rights and times, the overlay's marks are removed, and the journal
//!    is renamed. The rename completes the commit.
//!
//! If the process is killed, [`Area::recover`] undoes all steps before that moment, or cleans up
//! after it.
//!
//! Set-user-id and set-group-id bits of files are removed, sockets and devices are dropped, and
//! attributes in the overlay's own namespace (`user.overlay.`) are not kept. A file with other names
//! (hard links) in the workspace gets its new content only under the changed name, as the command
//! saw it. The other names may lie where the call must not write. The rights of the workspace folder
//! itself stay unchanged.
//!
//! # Reach
//!
//! Every path is resolved beneath open folders, through no link and no mount point, and checked
//! before use. This crate knows no tools, no policy and no database, mounts nothing, and reads no
//! configuration and no environment.

mod attributes;
mod changes;
mod commit;
mod commit_entry;
mod compare;
mod copy;
mod current_state;
mod draft;
mod encoding;
mod entry;
mod error;
mod exchange_dirs;
mod extract;
mod folder;
mod git_index;
mod hidden;
mod journal;
mod kept;
mod kind;
mod layout;
mod parallel;
mod read;
mod read_once;
mod recover;
mod regenerable;
mod remove;
mod renamed;
mod repositories;
mod restore;
mod save;
mod sparse;
mod staging;
mod state;
mod state_cache;
mod swap;
mod tracked;
pub mod tree;
mod true_modes;
mod undo;
mod workspace;
mod writer;

pub use changes::{Change, Changes, Conflict, LaterChange, MAX_CHANGES, Note, RefusedChange, StepKind};
pub use commit::{CommitSummary, Durability, Outcome, Terms};
pub use commit_entry::{Action, Fate, FoundEntry, Judge, Touch, Touches, Verdict};
pub use draft::Draft;
pub use entry::{Entry, Time};
pub use error::{Error, Result};
pub use exchange_dirs::OnStep;
pub use extract::TakeMethod;
pub use hidden::{HiddenFile, NOTICE, SeenAs};
pub use kept::KeptChanges;
pub use kind::Kind;
pub use read::DEEPEST;
pub use recover::{OnCommitted, Recovered, Recovery};
pub use renamed::add_saved_later;
pub use restore::{Restoration, RestoreOutcome, compose};
pub use save::{ChangeEntries, Save, SavedEntry};
pub use staging::{Area, Call};
pub use state::{ContentHash, Contents, LARGEST_HASHED, LONGEST_TARGET, State};
pub use tracked::{InRepository, TrackedFile, Trackers};
pub use workspace::Workspace;
