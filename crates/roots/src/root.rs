//! Roots, and the resolution of paths within them.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beneath::{Through, open_anywhere};
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::descriptor::name_of;
use crate::metadata::kind_of;
use crate::{EntryKind, Guard, LastLink, Metadata, Result, RootsError, real_path};

/// The folders and paths that file tools reach, with the guard that judges operations in them.
#[derive(Clone)]
pub struct Roots {
    all: Vec<Root>,
    guard: Arc<dyn Guard>,
    pub(crate) dry_run: bool,
}

/// A reachable part of the file system: a folder with everything below it, or a single path that may
/// be a file or not exist yet.
#[derive(Clone)]
pub struct Root {
    /// Path as the profile lists it.
    named: PathBuf,
    /// Real path of the root.
    pub(crate) real: PathBuf,
    /// Descriptor of the folder, or of the deepest existing folder above the single path.
    pub(crate) descriptor: Arc<OwnedFd>,
    /// Path from the descriptor to the single path; empty for a folder.
    inside: PathBuf,
    right: Right,
}

/// Access right to a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Read access.
    Read,
    /// Read and write access.
    Write,
}

impl Root {
    /// Opens a root. Links in `path` are followed once, here, so the root is their current target.
    ///
    /// # Errors
    /// [`RootsError::Io`] if no folder above the path can be opened.
    pub fn open(path: &Path, right: Right) -> Result<Self> {
        let real = real_path(path, LastLink::Follow)?;
        for folder in real.ancestors() {
            match open_anywhere(folder, OFlags::DIRECTORY | OFlags::NOFOLLOW) {
                Ok(descriptor) => {
                    let inside = real.strip_prefix(folder).unwrap_or(Path::new("")).to_owned();
                    let descriptor = Arc::new(descriptor);
                    return Ok(Self { named: path.to_owned(), real, descriptor, inside, right });
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(RootsError::system("open", folder, errno)),
            }
        }
        Err(RootsError::NotFound { path: path.to_owned() })
    }

    /// Returns the path as the profile lists it.
    pub fn path(&self) -> &Path {
        &self.named
    }

    /// Returns the access right to the root.
    pub fn right(&self) -> Right {
        self.right
    }

    /// Returns the part of `path` below this root, by its listed or its real path.
    fn rest<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.named).or_else(|_| path.strip_prefix(&self.real)).ok()
    }
}

/// A path, as a root and the path from its descriptor.
pub(crate) struct LocatedPath<'a> {
    pub(crate) root: &'a Root,
    pub(crate) relative: PathBuf,
}

/// An entry that was opened with `O_PATH`, with its metadata.
pub(crate) struct OpenEntry {
    pub(crate) descriptor: OwnedFd,
    pub(crate) stat: Stat,
    pub(crate) real: PathBuf,
}

/// Maximum number of times that a resolution restarts when a path crosses from one root into
/// another.
const CROSSINGS: usize = 8;

impl Roots {
    /// Creates the set of roots of one call.
    pub fn new(roots: Vec<Root>, guard: Arc<dyn Guard>) -> Self {
        Self { all: roots, guard, dry_run: false }
    }

    /// Switches to a dry run: every operation makes its checks and returns its result, but changes
    /// nothing.
    ///
    /// Failures that only the real operation can show (a full disk, concurrent changes) are not
    /// foreseen.
    #[must_use]
    pub fn for_dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Reads the metadata of the entry at `path`.
    ///
    /// # Errors
    /// Returns an error if the entry is missing or out of reach, or if the guard denies reading it.
    pub fn metadata(&self, path: &Path, last: LastLink) -> Result<Metadata> {
        let found = self.find(path, last)?;
        self.may_read(&found.real)?;
        Ok(Metadata::of(&found.stat))
    }

    /// Asks the guard whether `real` may be read.
    ///
    /// # Errors
    /// [`RootsError::Refused`].
    pub fn may_read(&self, real: &Path) -> Result<()> {
        self.guard.may_read(real).map_err(|refusal| RootsError::Refused { path: real.to_owned(), refusal })
    }

    /// Asks the guard whether `real` may be written.
    ///
    /// # Errors
    /// [`RootsError::Refused`].
    pub fn may_write(&self, real: &Path) -> Result<()> {
        self.guard.may_write(real).map_err(|refusal| RootsError::Refused { path: real.to_owned(), refusal })
    }

    pub(crate) fn guard(&self) -> Arc<dyn Guard> {
        self.guard.clone()
    }

    /// Finds the root that contains `path` by its spelling: the longest match.
    pub(crate) fn locate(&self, path: &Path) -> Result<LocatedPath<'_>> {
        let holding = self.all.iter().filter_map(|root| Some((root, root.rest(path)?)));
        let (root, rest) = holding
            .min_by_key(|(_, rest)| rest.as_os_str().len())
            .ok_or_else(|| RootsError::NotInRoots { path: path.to_owned() })?;
        // Joining an empty rest would add a slash, and the kernel does not find a file with a
        // trailing slash.
        let relative = if rest.as_os_str().is_empty() { root.inside.clone() } else { root.inside.join(rest) };
        Ok(LocatedPath { root, relative })
    }

    /// Checks that the real path lies in a root with the required right. `path` is the caller's
    /// spelling.
    pub(crate) fn reach(&self, path: &Path, real: &Path, right: Right) -> Result<()> {
        let holding = self.all.iter().filter(|root| real.starts_with(&root.real));
        match holding.max_by_key(|root| root.real.as_os_str().len()) {
            None => Err(RootsError::LeadsOutside { path: path.to_owned(), target: real.to_owned() }),
            Some(root) if root.right < right => Err(RootsError::ReadOnly { path: path.to_owned() }),
            Some(_) => Ok(()),
        }
    }

    /// Returns true if removing `real` would remove a root.
    pub(crate) fn holds_a_root(&self, real: &Path) -> bool {
        self.all.iter().any(|root| root.inside.as_os_str().is_empty() && root.real.starts_with(real))
    }

    /// Returns true if `real` is a folder on the way to a writable listed path.
    pub(crate) fn lies_around_a_writable_root(&self, real: &Path) -> bool {
        self.all.iter().any(|root| root.right == Right::Write && root.real.starts_with(real))
    }

    /// Opens the entry at `path` with `O_PATH`. The caller asks the guard.
    pub(crate) fn find(&self, path: &Path, last: LastLink) -> Result<OpenEntry> {
        let flags = if last == LastLink::Keep { OFlags::PATH | OFlags::NOFOLLOW } else { OFlags::PATH };
        let opened = self.resolve(path, last, |spot, through| {
            beneath::open(spot.root.descriptor.as_fd(), &spot.relative, flags, through)
        })?;
        let found = OpenEntry::look(opened, path)?;
        self.reach(path, &found.real, Right::Read)?;
        Ok(found)
    }

    /// Runs `open` on the spot of `path`. If a link leads out of the root, runs `open` on the spot
    /// of the link's target.
    pub(crate) fn resolve<T>(
        &self,
        path: &Path,
        last: LastLink,
        open: impl Fn(&LocatedPath<'_>, Through) -> rustix::io::Result<T>,
    ) -> Result<T> {
        match open(&self.locate(path)?, Through::InnerLinks) {
            Err(Errno::XDEV) => {}
            done => return done.map_err(RootsError::while_doing("open", path)),
        }
        for _ in 0..CROSSINGS {
            let target = real_path(path, last)?;
            let Ok(spot) = self.locate(&target) else {
                return Err(RootsError::LeadsOutside { path: path.to_owned(), target });
            };
            // `target` contains no links, unless another process creates one at this moment.
            match open(&spot, Through::Mounts) {
                Err(Errno::XDEV | Errno::LOOP) => {}
                done => return done.map_err(RootsError::while_doing("open", path)),
            }
        }
        Err(RootsError::Changed { path: path.to_owned() })
    }
}

impl OpenEntry {
    /// Reads the metadata of an opened entry. `path` is the caller's spelling.
    pub(crate) fn look(descriptor: OwnedFd, path: &Path) -> Result<Self> {
        let stat = fstat(&descriptor).map_err(RootsError::while_doing("inspect", path))?;
        match name_of(descriptor.as_fd(), &stat) {
            Ok(real) => Ok(Self { descriptor, stat, real }),
            Err(Errno::STALE) => Err(RootsError::Changed { path: path.to_owned() }),
            Err(errno) => Err(RootsError::system("inspect", path, errno)),
        }
    }

    /// Checks that the entry has the kind that the operation needs.
    pub(crate) fn expect(&self, wanted: EntryKind, path: &Path) -> Result<()> {
        let found = kind_of(&self.stat);
        if found == wanted {
            return Ok(());
        }
        Err(RootsError::WrongKind { path: path.to_owned(), wanted, found })
    }
}
