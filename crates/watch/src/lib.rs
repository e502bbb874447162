//! Which entries below some folders a set of rules marks: found by one walk, then kept by what the kernel tells of changes.
//!
//! [`Watch::sync`] reads what has been told, to the end of what was told when it was called, and gives the marked paths.
//! So what had a name before the call is in the answer, without a walk.
//! Where changes are not told (a network file system, more folders than the kernel watches for one user) the answer
//! comes from a walk each time, and [`Marked::warning`] says so.
//!
//! Links are never followed by a walk. A marked link marks what it leads to.
//! A marked file that has further names by hard links marks these as well.
//! A folder that cannot be looked into is marked hidden as a whole: whoever owns it could open it up again.
//!
//! This crate knows no policy and no cell: what is looked for is its caller's [`Rules`].

mod error;
mod folders;
mod look;
mod mounts;
mod names;
mod noted;
mod notices;
mod scan;
mod watch;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use error::WatchError;
pub use notices::Changes;
pub use watch::Watch;

/// What is looked for.
pub trait Rules {
    /// What is known about a folder, to be handed down to what lies in it.
    type Above: Clone;

    /// What is known about a folder, absolute, at which a walk begins.
    fn top(&self, folder: &Path) -> Self::Above;

    /// Whether the rules could match something by its name alone, in a folder about which this is known. If not, it is hidden
    /// and frozen as its folder is, and nothing else.
    fn may_match(&self, above: &Self::Above, name: &OsStr) -> bool;

    /// What is known about an entry, absolute, given what is known about its folder.
    fn below(&self, above: &Self::Above, path: &Path, kind: Kind) -> Self::Above;

    /// The marks of what this is known about.
    fn marks(&self, known: &Self::Above) -> Marks;

    /// Whether every Unix socket is hidden, whatever its name.
    fn hide_sockets(&self) -> bool {
        false
    }
}

/// What an entry of a folder is, as far as rules tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A symbolic link, to whatever.
    Link,
    /// Anything else.
    File,
}

/// What the rules say to a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// It must not be read. What is below it must not be either.
    pub hidden: bool,
    /// It must not be written. What is below it must not be either.
    pub frozen: bool,
    /// It must not be written without being judged. What is below it is asked about by itself.
    pub guarded: bool,
    /// That it comes is told.
    pub noted: bool,
}

impl Marks {
    fn any(self) -> bool {
        self.is_about_content() || self.noted
    }

    /// Whether it counts under every name that the file has.
    fn is_about_content(self) -> bool {
        self.hidden || self.frozen || self.guarded
    }

    fn and(self, other: Marks) -> Marks {
        Marks {
            hidden: self.hidden || other.hidden,
            frozen: self.frozen || other.frozen,
            guarded: self.guarded || other.guarded,
            noted: self.noted || other.noted,
        }
    }
}

/// Whether changes are to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The set is asked for again and again.
    Fresh,
    /// It is asked for once, and watching would cost more than it saves.
    Once,
}

/// The marked paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marked {
    /// What must not be read: absolute paths below the roots as they were given.
    pub hidden: Vec<PathBuf>,
    /// What must not be written. What is hidden is not named here again.
    pub frozen: Vec<PathBuf>,
    /// What must not be written without being judged. What is hidden or frozen is not named here again. Some may be gone.
    pub guarded: Vec<PathBuf>,
    /// Those of the three that have come, or come again, since the answer before: a new file under an old name is one.
    /// What is hidden for being a socket is not among it.
    pub appeared: Vec<PathBuf>,
    /// What is noted and has come, or come again, since the answer before: by its own name, also where that is a link's.
    /// After a walk, all that is noted.
    pub noted: Vec<PathBuf>,
    /// Something the user should know, said once.
    pub warning: Option<String>,
}
