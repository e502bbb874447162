//! Uniform view of a folder, either as it is on the disk or as a call would leave it.
//!
//! Paths are relative to the folder. Entries outside of it have absolute paths and are always read
//! from the disk.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use checkpoint::{Fate, FoundEntry, Touches};
use rustix::fs::OFlags;

use crate::small_file::{LARGEST_CONFIGURATION, read_small};

/// Maximum number of symbolic links that are followed on the way to one file, as in the kernel.
const MAX_LINKS: usize = 40;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    Link,
    File,
}

/// Content of a file.
pub(crate) enum Content {
    /// The file does not exist.
    Absent,
    Bytes(Vec<u8>),
    /// The content cannot be judged. The text distinguishes one unknown content from another.
    Unknown(String),
}

/// Changes that a file tool is about to make, as far as its plan names them.
#[derive(Debug, Default)]
pub(crate) struct PlannedChanges {
    /// Files that get a content which is not known yet.
    pub(crate) written: BTreeSet<PathBuf>,
    /// Entries that are removed with everything below them.
    pub(crate) removed: Vec<PathBuf>,
    /// Entries that are renamed without other changes, as pairs of the old and the new path.
    pub(crate) moved: Vec<(PathBuf, PathBuf)>,
}

/// Layer of changes over the disk.
#[derive(Clone, Copy)]
pub(crate) enum LayeredView<'a> {
    Nothing,
    /// The folder counts as empty.
    Empty,
    Touches(&'a Touches<'a>),
    Planned(&'a PlannedChanges),
}

/// Folder with the changes of a call applied.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) root: &'a Path,
    pub(crate) over: LayeredView<'a>,
    /// Folder that `~` stands for.
    pub(crate) home: Option<&'a Path>,
}

/// Result of following a path.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// Entry behind all links, which need not exist; `None` if the links form a circle or are too many.
    pub(crate) end: Option<PathBuf>,
    /// Symbolic links on the way.
    pub(crate) links: Vec<PathBuf>,
}

/// Source of an entry.
enum EntrySource<'a> {
    OnDisk(PathBuf),
    Changed(FoundEntry<'a>),
    Written,
    MadeFolder,
    Nowhere,
}

impl<'a> View<'a> {
    fn there(&self, path: &Path) -> EntrySource<'a> {
        match self.over {
            LayeredView::Nothing => EntrySource::OnDisk(path.to_owned()),
            LayeredView::Empty => EntrySource::Nowhere,
            LayeredView::Touches(touches) => match touches.at(path) {
                Fate::Stays => EntrySource::OnDisk(path.to_owned()),
                Fate::Goes => EntrySource::Nowhere,
                Fate::Becomes(found) => EntrySource::Changed(found),
            },
            LayeredView::Planned(planned) => {
                if planned.written.contains(path) {
                    return EntrySource::Written;
                }
                let moved =
                    planned.moved.iter().find_map(|(from, to)| Some(from.join(path.strip_prefix(to).ok()?)));
                if let Some(from) = moved {
                    // A trailing empty component would ask for a folder.
                    return EntrySource::OnDisk(from.components().collect());
                }
                let is_gone = planned.removed.iter().any(|gone| path.starts_with(gone));
                let missing = is_gone || self.root.join(path).symlink_metadata().is_err();
                if missing && planned.written.iter().any(|written| written.starts_with(path)) {
                    EntrySource::MadeFolder
                } else if is_gone {
                    EntrySource::Nowhere
                } else {
                    EntrySource::OnDisk(path.to_owned())
                }
            }
        }
    }

    /// Returns the kind of the entry at `path`, whose last component alone may be a symbolic link.
    pub(crate) fn kind(&self, path: &Path) -> Option<Kind> {
        match self.there(path) {
            EntrySource::OnDisk(path) => {
                let kind = self.root.join(path).symlink_metadata().ok()?.file_type();
                Some(match kind {
                    kind if kind.is_dir() => Kind::Folder,
                    kind if kind.is_symlink() => Kind::Link,
                    _ => Kind::File,
                })
            }
            EntrySource::Changed(found) => Some(match found.entry.kind {
                checkpoint::Kind::Folder => Kind::Folder,
                checkpoint::Kind::Link => Kind::Link,
                _ => Kind::File,
            }),
            EntrySource::Written => Some(Kind::File),
            EntrySource::MadeFolder => Some(Kind::Folder),
            EntrySource::Nowhere => None,
        }
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.kind(path).is_some()
    }

    /// Returns true if the file is executable.
    pub(crate) fn is_executable(&self, path: &Path) -> bool {
        match self.there(path) {
            EntrySource::OnDisk(path) => {
                fs::metadata(self.root.join(path)).is_ok_and(|found| found.mode() & 0o111 != 0)
            }
            EntrySource::Changed(found) => found.entry.mode & 0o111 != 0,
            EntrySource::Written => true,
            EntrySource::MadeFolder | EntrySource::Nowhere => false,
        }
    }

    /// Reads a file that is no symbolic link.
    pub(crate) fn read(&self, path: &Path) -> Content {
        let unknown = |found: &fs::Metadata| {
            Content::Unknown(format!(
                "{}:{}:{}:{}",
                found.dev(),
                found.ino(),
                found.ctime(),
                found.ctime_nsec()
            ))
        };
        let file = match self.there(path) {
            EntrySource::OnDisk(path) => {
                let path = self.root.join(path);
                match path.symlink_metadata() {
                    Ok(found) if found.is_file() => match open(&path) {
                        Ok(file) => file,
                        Err(_) => return unknown(&found),
                    },
                    Ok(found) if !found.is_dir() => return unknown(&found),
                    _ => return Content::Absent,
                }
            }
            EntrySource::Changed(found) => match found.open_file() {
                Ok(file) => file,
                Err(error) => return Content::Unknown(error.to_string()),
            },
            EntrySource::Written => return Content::Unknown("written by the call".to_owned()),
            EntrySource::MadeFolder | EntrySource::Nowhere => return Content::Absent,
        };
        let found = file.metadata();
        match (read_small(file, LARGEST_CONFIGURATION), found) {
            (Ok(Some(content)), _) => Content::Bytes(content),
            (_, Ok(found)) => unknown(&found),
            (_, Err(error)) => Content::Unknown(error.to_string()),
        }
    }

    /// Reads the target of a symbolic link.
    pub(crate) fn link(&self, path: &Path) -> Option<PathBuf> {
        match self.there(path) {
            EntrySource::OnDisk(path) => fs::read_link(self.root.join(path)).ok(),
            EntrySource::Changed(found) => found.read_link().ok(),
            EntrySource::Written | EntrySource::MadeFolder | EntrySource::Nowhere => None,
        }
    }

    /// Lists the names in a folder.
    pub(crate) fn names(&self, folder: &Path) -> BTreeSet<OsString> {
        let mut names = BTreeSet::new();
        if let EntrySource::OnDisk(path) = self.there(folder) {
            let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
            names.extend(entries.map(|entry| entry.file_name()));
        }
        match self.over {
            LayeredView::Nothing | LayeredView::Empty => {}
            LayeredView::Touches(touches) => {
                names.extend(touches.names_in(folder).into_iter().map(OsStr::to_owned));
            }
            LayeredView::Planned(planned) => {
                let new = planned.written.iter().chain(planned.moved.iter().map(|(_, to)| to));
                let in_folder = new.filter_map(|path| path.strip_prefix(folder).ok()?.iter().next());
                names.extend(in_folder.map(OsStr::to_owned));
            }
        }
        names.retain(|name| self.exists(&folder.join(name)));
        names
    }

    /// Returns the path that a setting names, relative to a folder. The value may begin with the
    /// home folder (`~/`).
    pub(crate) fn named_in(&self, folder: &Path, value: &str) -> PathBuf {
        match (value.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => self.named(&home.join(rest)),
            _ => folder.join(value),
        }
    }

    /// Returns the path in the form of this view: relative if it lies in the folder.
    pub(crate) fn named(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.root).unwrap_or(path).to_owned()
    }

    /// Follows every symbolic link on the way to `path`.
    pub(crate) fn follow(&self, path: &Path) -> Way {
        let mut way = Way::default();
        let mut at = PathBuf::new();
        let mut rest: VecDeque<OsString> = path.iter().map(OsStr::to_owned).collect();
        while let Some(name) = rest.pop_front() {
            match Path::new(&name).components().next() {
                Some(Component::RootDir) => at = PathBuf::from("/"),
                Some(Component::ParentDir) if at.as_os_str().is_empty() => {
                    self.root.parent().unwrap_or(self.root).clone_into(&mut at);
                }
                Some(Component::ParentDir) => drop(at.pop()),
                Some(Component::Normal(name)) => {
                    at = self.named(&at.join(name));
                    if self.kind(&at) == Some(Kind::Link) {
                        let target = self.link(&at).filter(|_| way.links.len() < MAX_LINKS);
                        way.links.push(at.clone());
                        let Some(target) = target else { return way };
                        at.pop();
                        for name in target.iter().rev() {
                            rest.push_front(name.to_owned());
                        }
                    }
                }
                Some(Component::CurDir | Component::Prefix(_)) | None => {}
            }
        }
        way.end = Some(self.named(&at));
        way
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}
