//! Further names of marked files: hard links.
//!
//! Only marked files are checked for further names. If a marked file has several names, the others
//! are found by its inode number. The kernel returns that number with every directory entry, so the
//! search makes no other request.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, RawDir, Stat};

use crate::error::{WatchError, is_exhaustion};
use crate::folders::{EntryMarks, Id, MarkReason, Name};
use crate::scan::Entry;
use crate::watch::Watch;
use crate::{Marks, Rules, look};

/// State about files with several names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Marked files with several names: inode number to device and marks.
    marked: HashMap<u64, Vec<(u64, Marks)>>,
    /// Files with several names in and below marked folders, by folder, until something in the
    /// folder changes.
    in_folders: HashMap<Id, Vec<(u64, u64)>>,
    /// True if an entry has appeared since `marked` was computed.
    pub(crate) stale: bool,
}

impl Names {
    /// Iterates over the hidden files with several names, as device and inode number.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = (u64, u64)> {
        let files =
            self.marked.iter().flat_map(|(number, files)| files.iter().map(move |file| (number, file)));
        files.filter(|(_, (_, marks))| marks.hidden).map(|(number, (device, _))| (*device, *number))
    }

    fn marks(&self, device: u64, number: u64) -> Option<Marks> {
        let (_, marks) = self.marked.get(&number)?.iter().find(|(other, _)| *other == device)?;
        Some(*marks)
    }

    /// Notes that some file, perhaps one in a marked folder, may have a further name. The folder of
    /// that file gets no notification of a new link, so all of `in_folders` is discarded.
    pub(crate) fn may_have_gained_one(&mut self) {
        self.in_folders.clear();
        self.stale = true;
    }

    /// Notes that an entry was added to a folder or removed from it.
    pub(crate) fn changed(&mut self, id: Id) {
        if !self.in_folders.is_empty() && self.in_folders.remove(&id).is_some() {
            self.stale = true;
        }
    }
}

/// Returns true if a file has further names. Folders have none; a link's content is only a path.
pub(crate) fn has_several(stat: &Stat) -> bool {
    !matches!(look::type_of(stat), FileType::Directory | FileType::Symlink) && stat.st_nlink > 1
}

impl<R: Rules> Watch<R> {
    /// Marks an entry that no rule marks, if it is a further name of a marked file.
    pub(crate) fn further_name(&mut self, folder: BorrowedFd<'_>, id: Id, entry: &Entry<'_>) {
        if !self.names.marked.contains_key(&entry.number) {
            return;
        }
        let Ok(stat) = look::stat_in(folder, entry.name) else { return };
        let (device, number) = look::identity(&stat);
        if let Some(marks) = self.names.marks(device, number) {
            self.folders.mark(id, entry.name, EntryMarks { marks, why: MarkReason::FurtherName });
            self.appeared.push((id, entry.name.into()));
        }
    }

    /// Finds the further names of marked files, if an entry has appeared that could be or have one.
    pub(crate) fn find_further_names(&mut self) -> Result<(), WatchError> {
        if !std::mem::take(&mut self.names.stale) {
            return Ok(());
        }
        let marked = self.with_several_names()?;
        let known = |number: &u64, files: &Vec<(u64, Marks)>| {
            files.iter().all(|(device, marks)| self.names.marks(*device, *number) == Some(*marks))
        };
        let all_known = marked.iter().all(|(number, files)| known(number, files));
        self.names.marked = marked;
        self.forget_names_no_more();
        if all_known {
            // The further names of these files were found when they appeared.
            return Ok(());
        }
        let ids: Vec<Id> = self.folders.ids().collect();
        let mut buffer = vec![MaybeUninit::uninit(); 64 * 1024];
        for id in ids {
            let Some(place) = self.folders.place(id) else { continue };
            let Some(root) = self.roots.get(place.root) else { continue };
            let folder = match look::open_folder(root.folder.as_fd(), &place.relative) {
                Ok(folder) => folder,
                Err(errno) if is_exhaustion(errno) => {
                    let path = root.absolute(&place.relative);
                    return Err(WatchError::Folder { path, source: errno.into() });
                }
                // The folder was removed or closed; other code handles both.
                Err(_) => continue,
            };
            let mut entries = RawDir::new(&folder, &mut buffer);
            while let Some(Ok(entry)) = entries.next() {
                let name = entry.file_name().to_bytes();
                let suspect = self.names.marked.contains_key(&entry.ino());
                if suspect
                    && entry.file_type() != FileType::Directory
                    && self.folders.found(id, name).is_none()
                {
                    let entry = Entry { name, kind: entry.file_type(), number: entry.ino() };
                    self.further_name(folder.as_fd(), id, &entry);
                }
            }
        }
        Ok(())
    }

    /// Returns the marked files that have several names, by inode number.
    fn with_several_names(&mut self) -> Result<HashMap<u64, Vec<(u64, Marks)>>, WatchError> {
        let mut several: HashMap<u64, Vec<(u64, Marks)>> = HashMap::new();
        let mut add = |(device, number): (u64, u64), marks: Marks| {
            let files = several.entry(number).or_default();
            match files.iter_mut().find(|(other, _)| *other == device) {
                Some((_, all)) => *all = all.and(marks),
                None => files.push((device, marks)),
            }
        };
        let marked: Vec<(Id, Name, EntryMarks)> =
            self.folders.marked().map(|(id, name, found)| (id, name.clone(), found)).collect();
        let mut looked_in: HashMap<Id, Vec<(u64, u64)>> = HashMap::new();
        for (id, name, found) in marked {
            let Some(mut place) = self.folders.place(id) else { continue };
            place.push(&name);
            if !found.marks.is_about_content() {
                continue;
            }
            match found.why {
                MarkReason::File => {
                    let Some(root) = self.roots.get(place.root) else { continue };
                    if let Ok(stat) = look::stat(root.folder.as_fd(), &place.relative)
                        && has_several(&stat)
                    {
                        add(look::identity(&stat), found.marks);
                    }
                }
                MarkReason::Folder => {
                    let mut folders: Vec<Id> = self.folders.child(id, &name).into_iter().collect();
                    while let Some(id) = folders.pop() {
                        folders.extend(self.folders.children(id));
                        let files = match self.names.in_folders.remove(&id) {
                            Some(files) => files,
                            None => self.files_with_several_names(id)?,
                        };
                        for file in &files {
                            add(*file, found.marks);
                        }
                        looked_in.insert(id, files);
                    }
                }
                MarkReason::Link | MarkReason::Socket | MarkReason::FurtherName | MarkReason::Sealed => {}
            }
        }
        self.names.in_folders = looked_in;
        Ok(several)
    }

    /// Returns the files in a folder that have several names.
    fn files_with_several_names(&self, id: Id) -> Result<Vec<(u64, u64)>, WatchError> {
        let mut files = Vec::new();
        let Some(place) = self.folders.place(id) else { return Ok(files) };
        let Some(root) = self.roots.get(place.root) else { return Ok(files) };
        let folder = match look::open_folder(root.folder.as_fd(), &place.relative) {
            Ok(folder) => folder,
            Err(errno) if is_exhaustion(errno) => {
                let path = root.absolute(&place.relative);
                return Err(WatchError::Folder { path, source: errno.into() });
            }
            Err(_) => return Ok(files),
        };
        let mut buffer = vec![MaybeUninit::uninit(); 64 * 1024];
        let mut entries = RawDir::new(&folder, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            if entry.file_type() == FileType::Directory {
                continue;
            }
            if let Ok(stat) = look::stat_in(folder.as_fd(), entry.file_name().to_bytes())
                && has_several(&stat)
            {
                files.push(look::identity(&stat));
            }
        }
        Ok(files)
    }

    /// Removes the marks from names whose file is no longer marked.
    fn forget_names_no_more(&mut self) {
        let gone: Vec<(Id, Name)> = self
            .folders
            .marked()
            .filter(|(_, _, found)| found.why == MarkReason::FurtherName)
            .filter(|(id, name, found)| {
                let stat = self.folders.place(*id).and_then(|mut place| {
                    place.push(name);
                    look::stat(self.roots.get(place.root)?.folder.as_fd(), &place.relative).ok()
                });
                let marks = stat.and_then(|stat| {
                    let (device, number) = look::identity(&stat);
                    self.names.marks(device, number)
                });
                marks != Some(found.marks)
            })
            .map(|(id, name, _)| (id, name.clone()))
            .collect();
        for (id, name) in gone {
            self.folders.unmark(id, &name);
        }
    }
}
