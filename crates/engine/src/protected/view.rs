//! A folder as it is on the disk, or as a call would leave it, so that both are looked at in one way.
//!
//! Paths are relative to the folder; what lies outside of it is named by absolute paths and is always as on the disk.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use checkpoint::{Fate, Found, Touches};
use rustix::fs::OFlags;

use crate::snapshot::{LARGEST_CONFIGURATION, read_small};

/// How many links are followed on the way to one file, as by the kernel.
const MOST_LINKS: usize = 40;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    Link,
    File,
}

/// The content of a file.
pub(crate) enum Content {
    /// There is no file.
    Absent,
    Bytes(Vec<u8>),
    /// It cannot be judged. The text tells one such content from another one.
    Unknown(String),
}

/// The changes that a file tool is about to make, as far as its plan says.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    /// Files that get a content which is not known yet.
    pub(crate) written: BTreeSet<PathBuf>,
    /// Entries that go, with all below them.
    pub(crate) removed: Vec<PathBuf>,
    /// Entries that only get another name: the old one and the new one.
    pub(crate) moved: Vec<(PathBuf, PathBuf)>,
}

/// The layer over the disk.
#[derive(Clone, Copy)]
pub(crate) enum Over<'a> {
    Nothing,
    /// The folder counts as empty.
    Empty,
    Touches(&'a Touches<'a>),
    Planned(&'a Planned),
}

/// A folder, seen through what a call changes in it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) root: &'a Path,
    pub(crate) over: Over<'a>,
    /// What `~` stands for.
    pub(crate) home: Option<&'a Path>,
}

/// The way to which a path leads.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// The entry behind all links, which need not be there; none where the links lead in a circle.
    pub(crate) end: Option<PathBuf>,
    /// The links on the way.
    pub(crate) links: Vec<PathBuf>,
}

/// The place of an entry.
enum There<'a> {
    OnDisk(PathBuf),
    Changed(Found<'a>),
    Written,
    MadeFolder,
    Nowhere,
}

impl<'a> View<'a> {
    fn there(&self, path: &Path) -> There<'a> {
        match self.over {
            Over::Nothing => There::OnDisk(path.to_owned()),
            Over::Empty => There::Nowhere,
            Over::Touches(touches) => match touches.at(path) {
                Fate::Stays => There::OnDisk(path.to_owned()),
                Fate::Goes => There::Nowhere,
                Fate::Becomes(found) => There::Changed(found),
            },
            Over::Planned(planned) => {
                if planned.written.contains(path) {
                    return There::Written;
                }
                let moved =
                    planned.moved.iter().find_map(|(from, to)| Some(from.join(path.strip_prefix(to).ok()?)));
                if let Some(from) = moved {
                    // An empty end of the path would ask for a folder.
                    return There::OnDisk(from.components().collect());
                }
                let is_gone = planned.removed.iter().any(|gone| path.starts_with(gone));
                let missing = is_gone || self.root.join(path).symlink_metadata().is_err();
                if missing && planned.written.iter().any(|written| written.starts_with(path)) {
                    There::MadeFolder
                } else if is_gone {
                    There::Nowhere
                } else {
                    There::OnDisk(path.to_owned())
                }
            }
        }
    }

    /// Tells what lies at `path`, of which only the last name may be a link.
    pub(crate) fn kind(&self, path: &Path) -> Option<Kind> {
        match self.there(path) {
            There::OnDisk(path) => {
                let kind = self.root.join(path).symlink_metadata().ok()?.file_type();
                Some(match kind {
                    kind if kind.is_dir() => Kind::Folder,
                    kind if kind.is_symlink() => Kind::Link,
                    _ => Kind::File,
                })
            }
            There::Changed(found) => Some(match found.entry.kind {
                checkpoint::Kind::Folder => Kind::Folder,
                checkpoint::Kind::Link => Kind::Link,
                _ => Kind::File,
            }),
            There::Written => Some(Kind::File),
            There::MadeFolder => Some(Kind::Folder),
            There::Nowhere => None,
        }
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.kind(path).is_some()
    }

    /// Tells whether a program may be started from the file.
    pub(crate) fn is_executable(&self, path: &Path) -> bool {
        match self.there(path) {
            There::OnDisk(path) => {
                fs::metadata(self.root.join(path)).is_ok_and(|found| found.mode() & 0o111 != 0)
            }
            There::Changed(found) => found.entry.mode & 0o111 != 0,
            There::Written => true,
            There::MadeFolder | There::Nowhere => false,
        }
    }

    /// Reads a file that is no link.
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
            There::OnDisk(path) => {
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
            There::Changed(found) => match found.open_file() {
                Ok(file) => file,
                Err(error) => return Content::Unknown(error.to_string()),
            },
            There::Written => return Content::Unknown("written by the call".to_owned()),
            There::MadeFolder | There::Nowhere => return Content::Absent,
        };
        let found = file.metadata();
        match (read_small(file, LARGEST_CONFIGURATION), found) {
            (Ok(Some(content)), _) => Content::Bytes(content),
            (_, Ok(found)) => unknown(&found),
            (_, Err(error)) => Content::Unknown(error.to_string()),
        }
    }

    /// Reads where a link leads.
    pub(crate) fn link(&self, path: &Path) -> Option<PathBuf> {
        match self.there(path) {
            There::OnDisk(path) => fs::read_link(self.root.join(path)).ok(),
            There::Changed(found) => found.read_link().ok(),
            There::Written | There::MadeFolder | There::Nowhere => None,
        }
    }

    /// Lists the names in a folder.
    pub(crate) fn names(&self, folder: &Path) -> BTreeSet<OsString> {
        let mut names = BTreeSet::new();
        if let There::OnDisk(path) = self.there(folder) {
            let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
            names.extend(entries.map(|entry| entry.file_name()));
        }
        match self.over {
            Over::Nothing | Over::Empty => {}
            Over::Touches(touches) => names.extend(touches.names_in(folder).into_iter().map(OsStr::to_owned)),
            Over::Planned(planned) => {
                let new = planned.written.iter().chain(planned.moved.iter().map(|(_, to)| to));
                let in_folder = new.filter_map(|path| path.strip_prefix(folder).ok()?.iter().next());
                names.extend(in_folder.map(OsStr::to_owned));
            }
        }
        names.retain(|name| self.exists(&folder.join(name)));
        names
    }

    /// Gives the path that a setting names, which may begin with the home folder, seen from a folder.
    pub(crate) fn named_in(&self, folder: &Path, value: &str) -> PathBuf {
        match (value.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => self.named(&home.join(rest)),
            _ => folder.join(value),
        }
    }

    /// Gives the path as this view names it: relative where it lies in the folder.
    pub(crate) fn named(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.root).unwrap_or(path).to_owned()
    }

    /// Follows every link on the way to `path`.
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
                        let target = self.link(&at).filter(|_| way.links.len() < MOST_LINKS);
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
