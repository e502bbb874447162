//! Temporary files that become visible when they are complete.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use beneath::{Through, descriptor_path, open_anywhere};
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Stat, flock, fstat, linkat,
    openat, openat2, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::descriptor::reopen;
use crate::metadata::{Identity, kind_of, same};
use crate::{EntryKind, Result, RootsError};

/// A new file that gets its name only when it is complete.
///
/// If the file system supports it, the file has no name at all (`O_TMPFILE`), so a killed process
/// leaves nothing behind. To replace a file, the new one needs a name between two system calls. On
/// other file systems the new file needs a name for the whole write. Names are slots
/// `.handfast-N.tmp`, protected by a lock (`flock`) on the file.
///
/// INVARIANT: a file with a slot name and a free lock was left by a killed process. The next writer
/// in the folder that meets it on the way to a free slot removes it, so leftovers never pile up.
/// Callers that know the folder of a killed process use [`remove_abandoned_in`].
pub(crate) struct Temporary {
    pub(crate) file: File,
    folder: OwnedFd,
    name: Option<OsString>,
}

const PREFIX: &str = ".handfast-";
const SUFFIX: &str = ".tmp";
/// Maximum wait for another process that replaces the same file, many times the usual time. A
/// program of the user may lock the file for as long as it runs.
const REPLACING: Duration = Duration::from_secs(1);
/// Maximum number of slots, more than the writers that can work in one folder at once.
const SLOTS: u32 = 4096;

/// Returns true if this is the name of a file that is being written, or whose writer was killed.
///
/// Listings leave these names out.
pub fn is_temporary_name(name: &OsStr) -> bool {
    let middle = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    let middle = middle.and_then(|name| name.strip_suffix(SUFFIX.as_bytes()));
    middle.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

impl Temporary {
    /// Creates a file in `folder`, with the permission bits that any new file gets there.
    pub(crate) fn begin(folder: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let kept = folder
            .try_clone_to_owned()
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
        let Some(file) = unnamed(folder)? else { return Self::begin_with_name(folder, kept) };
        // No other process can lock a file without a name.
        lock(&file)?;
        Ok(Self { file, folder: kept, name: None })
    }

    fn begin_with_name(folder: BorrowedFd<'_>, kept: OwnedFd) -> rustix::io::Result<Self> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let (name, file) = claim(folder, |name| {
            let file = openat(folder, name, flags, Mode::from_raw_mode(0o666))?;
            // Until the file is locked, another writer may take it for abandoned and remove it.
            lock(&file)?;
            let there = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| Errno::EXIST)?;
            if same(&there, &fstat(&file)?) { Ok(file) } else { Err(Errno::EXIST) }
        })?;
        Ok(Self { file: File::from(file), folder: kept, name: Some(name) })
    }

    /// Gives the complete file its name, which must be free: EEXIST if another entry took it.
    pub(crate) fn place_new(mut self, name: &OsStr) -> rustix::io::Result<()> {
        match &self.name {
            None => self.link(name),
            Some(temporary) => {
                renameat_with(&self.folder, temporary, &self.folder, name, RenameFlags::NOREPLACE)?;
                self.name = None;
                Ok(())
            }
        }
    }

    /// Gives the complete file its name, and replaces the entry that has the name now.
    pub(crate) fn place_over(mut self, name: &OsStr) -> rustix::io::Result<()> {
        if self.name.is_none() {
            let (temporary, ()) = claim(self.folder.as_fd(), |temporary| self.link(temporary))?;
            self.name = Some(temporary);
        }
        if let Some(temporary) = &self.name {
            renameat_with(&self.folder, temporary, &self.folder, name, RenameFlags::empty())?;
        }
        self.name = None;
        Ok(())
    }

    /// Gives the complete file its name in place of `old`, whose identity is `known`. The error is
    /// ESTALE if another file has the name, and that file then stays.
    ///
    /// Every writer that replaces a file this way locks the old file. Two writers therefore never
    /// replace it at once, and the second one finds another file there. Changes by programs without
    /// the lock are not lost either: the two files are exchanged, and the file that comes out is
    /// checked.
    pub(crate) fn place_instead(
        mut self,
        name: &OsStr,
        old: &File,
        known: &Identity,
    ) -> rustix::io::Result<()> {
        let _locked = ReplaceLock::wait(old)?;
        if Identity::of(&look(&self.folder, name)?) != *known {
            return Err(Errno::STALE);
        }
        if self.name.is_none() {
            let (temporary, ()) = claim(self.folder.as_fd(), |temporary| self.link(temporary))?;
            self.name = Some(temporary);
        }
        let Some(temporary) = self.name.clone() else { return Err(Errno::NOENT) };
        let exchange = || renameat_with(&self.folder, &temporary, &self.folder, name, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) => {}
            // The file system cannot exchange files: only the check immediately before remains.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return self.place_over(name),
            Err(errno) => return Err(errno),
        }
        if Identity::of(&look(&self.folder, &temporary)?).has_same_content(known) {
            // Dropping `self` removes the old file.
            return Ok(());
        }
        exchange()?;
        if !same(&look(&self.folder, &temporary)?, &fstat(&self.file)?) {
            // Another process wrote once more meanwhile, and the last write counts.
            exchange()?;
        }
        Err(Errno::STALE)
    }

    fn link(&self, name: &OsStr) -> rustix::io::Result<()> {
        let unnamed = descriptor_path(self.file.as_fd());
        linkat(CWD, unnamed, &self.folder, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // If this fails, the next writer removes the file, because its lock ends here.
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
        // INVARIANT: the file is unlocked, not merely closed. A cell that is being forked has a copy
        // of the descriptor, which would keep the file at its final path locked. The next change of
        // the file would then be reported as a conflict.
        locks::release(&self.file);
    }
}

/// The lock on a file that is about to be replaced. Dropping releases the lock, even if other
/// processes share the descriptor.
struct ReplaceLock<'a>(&'a File);

impl<'a> ReplaceLock<'a> {
    /// Waits until another writer that replaces the file is done. The file's identity then shows the
    /// outcome.
    fn wait(file: &'a File) -> rustix::io::Result<Self> {
        match locks::acquire_within(file, locks::Kind::Exclusive, &"a file of the workspace", REPLACING) {
            Ok(()) => Ok(Self(file)),
            Err(locks::LockError::Held { .. }) => Err(Errno::STALE),
            // A file system without locks has no writers to wait for.
            Err(locks::LockError::System(error)) => match Errno::from_io_error(&error) {
                Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::BADF) => Ok(Self(file)),
                other => Err(other.unwrap_or(Errno::IO)),
            },
        }
    }
}

impl Drop for ReplaceLock<'_> {
    fn drop(&mut self) {
        locks::release(self.0);
    }
}

/// Creates a file without a name, which is removed on close. Returns `None` if the file system has
/// no support for it.
pub(crate) fn unnamed(folder: BorrowedFd<'_>) -> rustix::io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(folder, ".", flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => Ok(Some(File::from(file))),
        // Older kernels report it with several errors.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn look(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<Stat> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Locks a file as being written. The error is EEXIST if another writer has just taken it for
/// abandoned, and will remove it.
fn lock(file: impl AsFd) -> rustix::io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Errno::EXIST),
        // A file system without locks has no abandoned files either.
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::BADF) => Ok(()),
        done => done,
    }
}

/// Takes the first free slot of the folder, as decided by `take`.
fn claim<T>(
    folder: BorrowedFd<'_>,
    take: impl Fn(&OsStr) -> rustix::io::Result<T>,
) -> rustix::io::Result<(OsString, T)> {
    for number in 0..SLOTS {
        let name = OsString::from(format!("{PREFIX}{number}{SUFFIX}"));
        let taken = match take(&name) {
            Err(Errno::EXIST) if remove_abandoned(folder, &name) => take(&name),
            taken => taken,
        };
        match taken {
            Ok(taken) => return Ok((name, taken)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::BUSY)
}

/// Removes the files that killed writers left in a folder below `above`, reached without links.
/// Files that are still locked stay.
///
/// # Errors
/// Returns an error if the folder exists but cannot be listed.
pub fn remove_abandoned_in(above: &Path, folder: &Path) -> Result<()> {
    let failed = RootsError::while_doing("list", folder);
    let above = open_anywhere(above, OFlags::DIRECTORY).map_err(&failed)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let folder = match beneath::open(above.as_fd(), folder, flags, Through::Mounts) {
        Ok(folder) => folder,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    for entry in Dir::read_from(&folder).map_err(&failed)? {
        let name = OsStr::from_bytes(entry.map_err(&failed)?.file_name().to_bytes()).to_owned();
        if is_temporary_name(&name) {
            remove_abandoned(folder.as_fd(), &name);
        }
    }
    Ok(())
}

/// Removes the file of a slot whose writer was killed. Returns true if the file was removed.
fn remove_abandoned(folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let remove = || -> rustix::io::Result<bool> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = openat2(folder, name, flags, Mode::empty(), ResolveFlags::BENEATH)?;
        let stat = fstat(&place)?;
        if kind_of(&stat) != EntryKind::File {
            return Ok(false);
        }
        let file = reopen(place.as_fd(), OFlags::RDONLY)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // The writer may have finished between the two calls, and another writer may have taken the
        // name.
        let there = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !same(&there, &stat) {
            return Ok(false);
        }
        unlinkat(folder, name, AtFlags::empty())?;
        Ok(true)
    };
    // After any failure, the next slot is as good.
    remove().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn folder() -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        (folder, opened)
    }

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn with_name(opened: &File) -> Temporary {
        Temporary::begin_with_name(opened.as_fd(), opened.as_fd().try_clone_to_owned().unwrap()).unwrap()
    }

    #[test]
    fn a_file_with_a_temporary_name_replaces_and_leaves_nothing() {
        let (folder, opened) = folder();
        fs::write(folder.path().join("x"), "old").unwrap();
        let mut temporary = with_name(&opened);
        assert!(is_temporary_name(OsStr::new(&names(&folder).into_iter().find(|n| n != "x").unwrap())));
        temporary.file.write_all(b"new").unwrap();
        temporary.place_over(OsStr::new("x")).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("x")).unwrap(), "new");
        let unfinished = with_name(&opened);
        drop(unfinished);
        assert_eq!(names(&folder), ["x"]);
    }

    #[test]
    fn a_slot_in_use_is_kept_and_an_abandoned_one_is_taken_over() {
        let (folder, opened) = folder();
        fs::write(folder.path().join(".handfast-0.tmp"), "left by a killed process").unwrap();
        let first = with_name(&opened);
        let second = with_name(&opened);
        assert_eq!(first.name.as_deref(), Some(OsStr::new(".handfast-0.tmp")));
        assert_eq!(second.name.as_deref(), Some(OsStr::new(".handfast-1.tmp")));
        assert_eq!(fs::read(folder.path().join(".handfast-0.tmp")).unwrap(), b"");
        first.place_new(OsStr::new("a")).unwrap();
        assert_eq!(second.place_new(OsStr::new("a")).unwrap_err(), Errno::EXIST);
        assert_eq!(names(&folder), ["a"]);
    }

    #[test]
    fn what_killed_writers_left_goes_and_what_a_writer_holds_stays() {
        let (folder, opened) = folder();
        fs::create_dir(folder.path().join("inner")).unwrap();
        for name in [".handfast-0.tmp", ".handfast-7.tmp", ".handfast-x.tmp", "x"] {
            fs::write(folder.path().join(name), "").unwrap();
            fs::write(folder.path().join("inner").join(name), "").unwrap();
        }
        let held = with_name(&opened);
        remove_abandoned_in(folder.path(), Path::new("")).unwrap();
        let mut left = names(&folder);
        left.sort();
        assert_eq!(left, [".handfast-0.tmp", ".handfast-x.tmp", "inner", "x"]);
        drop(held);
        remove_abandoned_in(folder.path(), Path::new("inner")).unwrap();
        assert_eq!(fs::read_dir(folder.path().join("inner")).unwrap().count(), 2);
        std::os::unix::fs::symlink("inner", folder.path().join("link")).unwrap();
        fs::write(folder.path().join("inner/.handfast-0.tmp"), "").unwrap();
        for elsewhere in ["link", "missing", "x"] {
            remove_abandoned_in(folder.path(), Path::new(elsewhere)).unwrap();
        }
        assert!(folder.path().join("inner/.handfast-0.tmp").exists());
    }

    #[test]
    fn a_file_that_a_forked_process_still_has_open_can_be_replaced_again_and_again() {
        let (folder, opened) = folder();
        let name = OsStr::new("x");
        fs::write(folder.path().join(name), "0").unwrap();
        // Copies that a fork holds before it closes its descriptors.
        let mut copies = Vec::new();
        for number in 1..4 {
            let old = File::open(folder.path().join(name)).unwrap();
            let known = Identity::of(&fstat(&old).unwrap());
            let mut temporary = Temporary::begin(opened.as_fd()).unwrap();
            temporary.file.write_all(number.to_string().as_bytes()).unwrap();
            copies.extend([old.try_clone().unwrap(), temporary.file.try_clone().unwrap()]);
            assert_eq!(temporary.place_instead(name, &old, &known), Ok(()), "change {number}");
        }
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), "3");
        assert_eq!(names(&folder), ["x"]);
    }

    #[test]
    fn of_two_who_replace_one_file_at_once_the_second_finds_another_file_there() {
        let (folder, opened) = folder();
        let name = OsStr::new("x");
        fs::write(folder.path().join(name), "old").unwrap();
        let old = File::open(folder.path().join(name)).unwrap();
        let known = Identity::of(&fstat(&old).unwrap());
        let replace = |content: &str| {
            let mut temporary = Temporary::begin(opened.as_fd()).unwrap();
            temporary.file.write_all(content.as_bytes()).unwrap();
            temporary.place_instead(
                name,
                &File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&old))).unwrap(),
                &known,
            )
        };
        assert_eq!(replace("first"), Ok(()));
        assert_eq!(replace("second"), Err(Errno::STALE));
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), "first");
    }

    #[test]
    fn a_fifo_in_a_slot_is_passed_over() {
        let (folder, opened) = folder();
        rustix::fs::mknodat(
            &opened,
            ".handfast-0.tmp",
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(with_name(&opened).name.as_deref(), Some(OsStr::new(".handfast-1.tmp")));
        assert_eq!(names(&folder), [".handfast-0.tmp"]);
    }
}
