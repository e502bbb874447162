//! The walk over the folders.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{FileType, RawDir, fstat};
use rustix::io::Errno;

use crate::error::{WatchError, is_exhaustion};
use crate::folders::{EntryMarks, Id, MarkReason};
use crate::notices::NotWatched;
use crate::watch::Watch;
use crate::{Kind, Marks, Rules, look};

/// Longest path of a folder that a walk enters, in bytes; a folder with a longer path is hidden as a
/// whole. The kernel takes no path of more than 4,095 bytes (`PATH_MAX`), and a name has up to 255.
const LONGEST: usize = 3_800;

/// A folder that is still to be walked.
pub(crate) struct PendingFolder<A> {
    pub(crate) id: Id,
    pub(crate) above: A,
}

/// A directory entry, as far as a walk knows it.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) kind: FileType,
    /// Inode number.
    pub(crate) number: u64,
}

impl<R: Rules> Watch<R> {
    /// Walks over a folder and everything below it. Watches each folder if notifications are in use.
    pub(crate) fn scan(&mut self, first: PendingFolder<R::FolderMatches>) -> Result<(), WatchError> {
        let mut pending = vec![first];
        let mut buffer = vec![MaybeUninit::uninit(); 64 * 1024];
        while let Some(PendingFolder { id, above }) = pending.pop() {
            let Some(place) = self.folders.place(id) else { continue };
            let Some(root) = self.roots.get(place.root) else { continue };
            let mut path = root.absolute(&place.relative);
            let opened = match path.as_os_str().len() {
                0..=LONGEST => look::open_folder(root.folder.as_fd(), &place.relative),
                _ => Err(Errno::NAMETOOLONG),
            };
            let folder = match opened {
                Ok(folder) => folder,
                Err(errno) => {
                    self.not_opened(id, &above, errno, path)?;
                    continue;
                }
            };
            let in_marked = self.rules.marks(&above).any();
            if let Err(errno) = self.watch_folder(folder.as_fd(), id, in_marked) {
                self.not_opened(id, &above, errno, path)?;
                continue;
            }
            self.entries(&folder, PendingFolder { id, above }, &mut path, &mut buffer, &mut pending)?;
        }
        Ok(())
    }

    /// Processes the entries of an open folder.
    fn entries(
        &mut self,
        folder: &OwnedFd,
        PendingFolder { id, above }: PendingFolder<R::FolderMatches>,
        path: &mut PathBuf,
        buffer: &mut [MaybeUninit<u8>],
        pending: &mut Vec<PendingFolder<R::FolderMatches>>,
    ) -> Result<(), WatchError> {
        let mut entries = RawDir::new(folder, buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                // The folder was removed during the read.
                Err(errno) if look::is_absence(errno) => break,
                Err(errno) => {
                    self.not_opened(id, &above, errno, path.clone())?;
                    break;
                }
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match look::stat_in(folder.as_fd(), name) {
                    Ok(stat) => look::type_of(&stat),
                    Err(_) => continue,
                },
                kind => kind,
            };
            let entry = Entry { name, kind, number: entry.ino() };
            pending.extend(self.entry(folder.as_fd(), id, &above, path, &entry));
        }
        Ok(())
    }

    /// Marks an entry if a rule applies to it. Returns a folder that still has to be walked.
    ///
    /// `path` is the folder's path, and is restored before the function returns.
    pub(crate) fn entry(
        &mut self,
        folder: BorrowedFd<'_>,
        id: Id,
        above: &R::FolderMatches,
        path: &mut PathBuf,
        entry: &Entry<'_>,
    ) -> Option<PendingFolder<R::FolderMatches>> {
        let is_folder = entry.kind == FileType::Directory;
        let inherited = self.rules.marks(above);
        if inherited.hidden {
            // The entry is hidden with its folder. A file in it may have a further name elsewhere.
            return is_folder
                .then(|| PendingFolder { id: self.folders.add(id, entry.name), above: above.clone() });
        }
        let name = OsStr::from_bytes(entry.name);
        let is_bare_socket = entry.kind == FileType::Socket && self.rules.hide_sockets();
        if !self.rules.may_match(above, name) {
            if is_bare_socket {
                self.hide_socket(id, entry.name);
                return None;
            }
            if is_folder {
                return Some(PendingFolder { id: self.folders.add(id, entry.name), above: above.clone() });
            }
            self.further_name(folder, id, entry);
            return None;
        }
        path.push(name);
        let kind = match entry.kind {
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            _ => Kind::File,
        };
        let known = self.rules.below(above, path, kind);
        path.pop();
        let mut marks = self.rules.marks(&known);
        // A frozen folder freezes all its entries.
        marks.frozen &= !inherited.frozen;
        if marks.any() {
            let why = match kind {
                Kind::Folder => MarkReason::Folder,
                Kind::Link => MarkReason::Link,
                Kind::File => MarkReason::File,
            };
            self.mark(id, entry.name, EntryMarks { marks, why });
        } else if is_bare_socket {
            self.hide_socket(id, entry.name);
        } else if !is_folder {
            self.further_name(folder, id, entry);
        }
        is_folder.then(|| PendingFolder { id: self.folders.add(id, entry.name), above: known })
    }

    fn hide_socket(&mut self, id: Id, name: &[u8]) {
        let marks = Marks { hidden: true, ..Marks::default() };
        self.folders.mark(id, name, EntryMarks { marks, why: MarkReason::Socket });
    }

    /// Marks an entry, and records that it has appeared.
    pub(crate) fn mark(&mut self, id: Id, name: &[u8], found: EntryMarks) {
        self.folders.mark(id, name, found);
        self.appeared.push((id, name.into()));
        self.names.stale = true;
    }

    /// Handles a folder that cannot be opened, watched or listed.
    fn not_opened(
        &mut self,
        id: Id,
        above: &R::FolderMatches,
        errno: Errno,
        path: PathBuf,
    ) -> Result<(), WatchError> {
        if is_exhaustion(errno) {
            return Err(WatchError::Folder { path, source: errno.into() });
        }
        if look::is_absence(errno) || self.rules.marks(above).hidden {
            // The folder is gone, or is hidden with its parent folder.
            self.remove_folder(id);
        } else {
            self.seal(id);
        }
        Ok(())
    }

    /// Hides a folder that cannot be listed.
    pub(crate) fn seal(&mut self, id: Id) {
        let sealed =
            EntryMarks { marks: Marks { hidden: true, ..Marks::default() }, why: MarkReason::Sealed };
        match self.folders.above(id) {
            Some((above, name)) => {
                self.remove_folder(id);
                self.mark(above, &name, sealed);
            }
            None => {
                if let Some(root) = self.folders.place(id).and_then(|place| self.roots.get_mut(place.root)) {
                    root.hidden = true;
                }
            }
        }
    }

    /// Forgets a folder and everything below it.
    pub(crate) fn remove_folder(&mut self, id: Id) {
        let notices = &mut self.notices;
        self.folders.remove(id, &mut |id, watch| {
            if let Some(notices) = notices {
                notices.remove(watch, id);
            }
        });
    }

    /// Watches an open folder, if watching is in use and possible.
    fn watch_folder(&mut self, folder: BorrowedFd<'_>, id: Id, in_marked: bool) -> Result<(), Errno> {
        let Some(notices) = &mut self.notices else { return Ok(()) };
        let (watch, others) = match notices.add(folder, id, in_marked) {
            Ok(added) => added,
            Err(NotWatched::TooMany) => {
                self.walk_always(format!(
                    "there are more folders than can be watched for changes, so every command scans \
                     them; raise fs.inotify.max_user_watches ({} folders known so far)",
                    self.folders.count()
                ));
                return Ok(());
            }
            Err(NotWatched::Failed(errno)) => return Err(errno),
        };
        self.folders.set_watch(id, watch);
        // These numbers stand for the same folder at another path. Either the folder was moved here,
        // and a notification of that follows, or it is mounted twice.
        if others.is_empty() {
            return Ok(());
        }
        let here = look::identity(&fstat(folder)?);
        for other in others {
            let is_there_too = self.folders.place(other).is_some_and(|place| {
                self.roots
                    .get(place.root)
                    .and_then(|root| look::open_folder(root.folder.as_fd(), &place.relative).ok())
                    .and_then(|folder| fstat(&folder).ok())
                    .is_some_and(|stat| look::identity(&stat) == here)
            });
            if !is_there_too {
                self.remove_folder(other);
            }
        }
        Ok(())
    }
}
