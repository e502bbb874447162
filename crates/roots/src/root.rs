use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::beneath::{Links, name_of, open_anywhere, open_beneath};
use crate::metadata::kind_of;
use crate::{EntryKind, Guard, LastLink, Metadata, Result, RootsError, real_path};

/// Everything that file tools reach, and the guard that judges what they do there.
#[derive(Clone)]
pub struct Roots {
    all: Vec<Root>,
    guard: Arc<dyn Guard>,
    pub(crate) dry_run: bool,
}

/// One part of the file system: a folder and all beneath it, or a single path that may be a file or not exist yet.
#[derive(Clone)]
pub struct Root {
    /// As it was listed.
    named: PathBuf,
    /// Where that really lies.
    pub(crate) real: PathBuf,
    /// The folder itself, or the deepest folder above the single path.
    pub(crate) descriptor: Arc<OwnedFd>,
    /// From the descriptor to the single path; empty for a folder.
    inside: PathBuf,
    right: Right,
}

/// What may be done in a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

impl Root {
    /// Opens a root. Whoever lists a path lists what it leads to now: links in it are followed once, here.
    ///
    /// # Errors
    /// [`RootsError::Io`] where not even a folder above the path can be opened.
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

    /// The path as it was listed.
    pub fn path(&self) -> &Path {
        &self.named
    }

    /// What may be done in it.
    pub fn right(&self) -> Right {
        self.right
    }

    /// The part of `path` below this root, by either name of it.
    fn rest<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.named).or_else(|_| path.strip_prefix(&self.real)).ok()
    }
}

/// A path, as a root and the way from its descriptor.
pub(crate) struct Spot<'a> {
    pub(crate) root: &'a Root,
    pub(crate) relative: PathBuf,
}

/// Something that was opened as a mere place, and looked at.
pub(crate) struct Found {
    pub(crate) descriptor: OwnedFd,
    pub(crate) stat: Stat,
    pub(crate) real: PathBuf,
}

/// How often a path that leads from one root into another is begun anew.
const CROSSINGS: usize = 8;

impl Roots {
    /// The roots of one call.
    pub fn new(roots: Vec<Root>, guard: Arc<dyn Guard>) -> Self {
        Self { all: roots, guard, dry_run: false }
    }

    /// The same for a dry run: every operation looks at what it would meet, and says what it would say, but changes nothing.
    ///
    /// What only doing it can show (a full disk, what others do at the same time) is not foreseen.
    #[must_use]
    pub fn for_dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// What is at `path`.
    ///
    /// # Errors
    /// Where it is not there, out of reach, or the guard does not let it be read.
    pub fn metadata(&self, path: &Path, last: LastLink) -> Result<Metadata> {
        let found = self.find(path, last)?;
        self.may_read(&found.real)?;
        Ok(Metadata::of(&found.stat))
    }

    /// Asks the guard about a place.
    ///
    /// # Errors
    /// [`RootsError::Refused`].
    pub fn may_read(&self, real: &Path) -> Result<()> {
        self.guard.may_read(real).map_err(|refusal| RootsError::Refused { path: real.to_owned(), refusal })
    }

    /// Asks the guard about a place.
    ///
    /// # Errors
    /// [`RootsError::Refused`].
    pub fn may_write(&self, real: &Path) -> Result<()> {
        self.guard.may_write(real).map_err(|refusal| RootsError::Refused { path: real.to_owned(), refusal })
    }

    pub(crate) fn guard(&self) -> Arc<dyn Guard> {
        self.guard.clone()
    }

    /// The root that holds `path`, by its spelling: the longest one.
    pub(crate) fn locate(&self, path: &Path) -> Result<Spot<'_>> {
        let holding = self.all.iter().filter_map(|root| Some((root, root.rest(path)?)));
        let (root, rest) = holding
            .min_by_key(|(_, rest)| rest.as_os_str().len())
            .ok_or_else(|| RootsError::NotInRoots { path: path.to_owned() })?;
        // Joining an empty rest would add a slash, and a file with a slash behind it is not found.
        let relative = if rest.as_os_str().is_empty() { root.inside.clone() } else { root.inside.join(rest) };
        Ok(Spot { root, relative })
    }

    /// That what really lies at `real` is in a root with the right to it. `path` is how it was asked for.
    pub(crate) fn reach(&self, path: &Path, real: &Path, right: Right) -> Result<()> {
        let holding = self.all.iter().filter(|root| real.starts_with(&root.real));
        match holding.max_by_key(|root| root.real.as_os_str().len()) {
            None => Err(RootsError::LeadsOutside { path: path.to_owned(), target: real.to_owned() }),
            Some(root) if root.right < right => Err(RootsError::ReadOnly { path: path.to_owned() }),
            Some(_) => Ok(()),
        }
    }

    /// Whether taking `real` away would take a root along.
    pub(crate) fn holds_a_root(&self, real: &Path) -> bool {
        self.all.iter().any(|root| root.inside.as_os_str().is_empty() && root.real.starts_with(real))
    }

    /// Whether `real` is a folder on the way from an open folder to a single listed path that may be written.
    pub(crate) fn lies_around_a_writable_root(&self, real: &Path) -> bool {
        self.all.iter().any(|root| root.right == Right::Write && root.real.starts_with(real))
    }

    /// Opens what is at `path` as a mere place. The caller asks the guard.
    pub(crate) fn find(&self, path: &Path, last: LastLink) -> Result<Found> {
        let flags = if last == LastLink::Keep { OFlags::PATH | OFlags::NOFOLLOW } else { OFlags::PATH };
        let opened = self.resolve(path, last, |spot, links| {
            open_beneath(spot.root.descriptor.as_fd(), &spot.relative, flags, links)
        })?;
        let found = Found::look(opened, path)?;
        self.reach(path, &found.real, Right::Read)?;
        Ok(found)
    }

    /// Runs `open` on the spot of `path`, and where a link leads out of the root, on the spot it leads to.
    pub(crate) fn resolve<T>(
        &self,
        path: &Path,
        last: LastLink,
        open: impl Fn(&Spot<'_>, Links) -> rustix::io::Result<T>,
    ) -> Result<T> {
        match open(&self.locate(path)?, Links::Inside) {
            Err(Errno::XDEV) => {}
            done => return done.map_err(RootsError::while_doing("open", path)),
        }
        for _ in 0..CROSSINGS {
            let target = real_path(path, last)?;
            let Ok(spot) = self.locate(&target) else {
                return Err(RootsError::LeadsOutside { path: path.to_owned(), target });
            };
            // `target` has no links, unless something puts one there just now.
            match open(&spot, Links::None) {
                Err(Errno::XDEV | Errno::LOOP) => {}
                done => return done.map_err(RootsError::while_doing("open", path)),
            }
        }
        Err(RootsError::Changed { path: path.to_owned() })
    }
}

impl Found {
    /// Looks at what was opened. `path` is how it was asked for.
    pub(crate) fn look(descriptor: OwnedFd, path: &Path) -> Result<Self> {
        let stat = fstat(&descriptor).map_err(RootsError::while_doing("look at", path))?;
        match name_of(descriptor.as_fd(), &stat) {
            Ok(real) => Ok(Self { descriptor, stat, real }),
            Err(Errno::STALE) => Err(RootsError::Changed { path: path.to_owned() }),
            Err(errno) => Err(RootsError::system("look at", path, errno)),
        }
    }

    /// That it is what the operation needs.
    pub(crate) fn expect(&self, wanted: EntryKind, path: &Path) -> Result<()> {
        let found = kind_of(&self.stat);
        if found == wanted {
            return Ok(());
        }
        Err(RootsError::WrongKind { path: path.to_owned(), wanted, found })
    }
}
