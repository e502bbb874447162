//! Takes the changes of a command out of an overlay's upper folder, and puts all of them into the workspace or none.
//!
//! An [`Area`] holds a folder for each call. A [`Call`] has the empty folders over which the overlay is mounted; when the
//! command has ended and the overlay is unmounted, [`Call::commit`] swaps the changes in.
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
//! // In real life a command writes this through an overlay.
//! std::fs::write(call.upper().join("new"), "content")?;
//! assert!(matches!(call.commit(&workspace, &terms)?, Outcome::Committed(_)));
//! call.discard()?;
//! assert_eq!(std::fs::read_to_string(workspace.path().join("new"))?, "content");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What this program changes itself goes through a [`Draft`], which lays it out in the same form.
//!
//! # A commit
//!
//! 1. The upper folder is read and compared with the workspace as it is now: what changed, what conflicts with what others
//!    did meanwhile, and what the judge says to each entry. A held entry or a conflict ends it here.
//! 2. A journal is written with every step and the identity of every entry in it.
//! 3. Entry by entry, the new is exchanged with the old in one system call, so that the old ends in the folder of the call.
//!    What comes out is looked at: if it is not what was checked, everything is taken back.
//! 4. Folders that stay get their rights and times, the overlay's marks are taken off, and the journal is renamed. That is
//!    the moment at which the commit has happened.
//!
//! Whatever kills the process, [`Area::recover`] takes back what was done before that moment, and cleans up after it.
//!
//! Set-user-id and set-group-id bits of files are taken off, sockets and devices are dropped, attributes in the overlay's
//! own namespace (`user.overlay.`) are not kept. A file that has other names (hard links) in the workspace gets its new
//! content under the changed name alone, as the command saw it: the others may lie where the call must not write.
//! The rights of the workspace folder itself stay as they are.
//!
//! # Reach
//!
//! Everything is resolved beneath open folders, through no link and no mount point, and looked at before it is used.
//! This crate knows no tools, no policy and no database, mounts nothing, and reads no configuration and no environment.

mod area;
mod attributes;
mod beneath;
mod changes;
mod commit;
mod compare;
mod copy;
mod draft;
mod encoding;
mod entry;
mod error;
mod git_index;
mod hidden;
mod journal;
mod kept;
mod kind;
mod known;
mod layout;
mod loosened;
mod now;
mod read;
mod read_once;
mod recover;
mod regenerable;
mod remove;
mod renamed;
mod repositories;
mod restore;
mod save;
mod several;
mod sides;
mod sparse;
mod state;
mod swap;
mod take_away;
mod touch;
mod tracked;
pub mod tree;
mod undo;
mod workspace;
mod writer;

pub use area::{Area, Call};
pub use changes::{Change, Changes, Conflict, Held, MOST_CHANGES, Meanwhile, Note, What};
pub use commit::{Committed, Durability, Outcome, Terms};
pub use draft::Draft;
pub use entry::{Entry, Time};
pub use error::{Error, Result};
pub use hidden::{Hidden, NOTICE, SeenAs};
pub use kept::Kept;
pub use kind::Kind;
pub use read::DEEPEST;
pub use recover::{OnCommitted, Recovered, Recovery};
pub use renamed::add_saved_later;
pub use restore::{Restoration, Restored, compose};
pub use save::{Save, Saved, SavedEntry};
pub use sides::OnStep;
pub use state::{ContentHash, Contents, LARGEST_HASHED, LONGEST_TARGET, State};
pub use take_away::Taken;
pub use touch::{Action, Fate, Found, Judge, Touch, Touches, Verdict};
pub use tracked::{InRepository, Tracked, Trackers};
pub use workspace::Workspace;
