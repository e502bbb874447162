//! Removal of single entries from a workspace that a command writes to directly. The entries land in
//! the folder of a call as if the command had run on an overlay.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, RenameFlags, mkdirat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::copy::{Copier, keep};
use crate::folder::{LIST, PLACE, look, open};
use crate::staging::{TAKEN, UPPER};
use crate::{Call, Entry, Error, Kind, Result, Workspace};

/// Size in bytes of the largest file that is copied.
const LARGEST_COPY: u64 = 64 << 20;

/// Maximum time to wait for an entry to stop changing before it is copied.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Way in which an entry was taken out of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeMethod {
    /// The stored entry is a copy, which no program has open.
    Copied,
    /// The entry was too large to be copied and was moved instead. A program that has it open may
    /// still change it.
    Moved,
}

impl Call {
    /// Moves the entry at `path`, which must not be a folder, out of the workspace. The entry
    /// becomes a change of this call, and replaces an earlier one from the same path. Returns how it
    /// was taken, or `None` if there was no entry.
    ///
    /// The entry in the folder of the call is a copy, so that a program with the open original
    /// cannot change it; only a large file is moved. Sockets and devices are removed. A large file
    /// with another name is removed too, because its content stays under that name.
    ///
    /// # Errors
    /// [`Error::System`]. The entry is gone from the workspace, or unchanged.
    pub fn take_away(&self, workspace: &Workspace, path: &Path) -> Result<Option<TakeMethod>> {
        let failed = Error::while_doing("remove", path);
        let name = path.file_name().unwrap_or(OsStr::new("."));
        let above = path.parent().unwrap_or(Path::new(""));
        let from = match open(workspace.folder.as_fd(), above, PLACE) {
            Ok(from) => from,
            Err(errno) if is_gone(errno) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        match look(&from, name).map_err(&failed)? {
            None => return Ok(None),
            Some(entry) if entry.kind == Kind::Folder => return Err(failed(Errno::ISDIR)),
            Some(_) => {}
        }
        // If a folder above was moved meanwhile, the entry no longer exists at this path.
        let Some(to) = self.folders_like(workspace, above)? else { return Ok(None) };
        remove(&to, name).map_err(&failed)?;
        let taken = self.open(TAKEN)?;
        // A single rename if possible, so that no process of the host sees the entry any more.
        let aside = OsString::from("taken");
        let renamed = renameat_with(&from, name, &taken, &aside, RenameFlags::empty());
        let (folder, its_name) = match renamed {
            Ok(()) => (&taken, aside.as_os_str()),
            Err(Errno::XDEV) => (&from, name),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let Some(entry) = at_rest(folder, its_name).map_err(&failed)? else { return Ok(None) };
        let has_content = matches!(entry.kind, Kind::File | Kind::Link | Kind::Fifo);
        if has_content && (entry.size_bytes <= LARGEST_COPY || renamed.is_err()) {
            let on_step = || ControlFlow::Continue(());
            Copier::new(&on_step).copy(folder, &to, its_name, path, &entry)?;
            if its_name != name {
                renameat_with(&to, its_name, &to, name, RenameFlags::empty()).map_err(&failed)?;
            }
        } else if has_content && !entry.has_other_names {
            return renameat_with(folder, its_name, &to, name, RenameFlags::empty())
                .map(|()| Some(TakeMethod::Moved))
                .map_err(&failed);
        }
        remove(folder, its_name).map_err(&failed)?;
        Ok(Some(TakeMethod::Copied))
    }

    /// Opens the folder at this path among the changes, and creates missing folders like those of
    /// the workspace. Returns `None` if the workspace has no such folder.
    fn folders_like(&self, workspace: &Workspace, path: &Path) -> Result<Option<OwnedFd>> {
        let failed = Error::while_doing("remove", path);
        let mut upper = self.open(UPPER)?;
        let mut lower = open(workspace.folder.as_fd(), Path::new(""), PLACE).map_err(&failed)?;
        for name in path {
            let below = match open(lower.as_fd(), Path::new(name), PLACE) {
                Ok(below) => below,
                Err(errno) if is_gone(errno) => return Ok(None),
                Err(errno) => return Err(failed(errno)),
            };
            let made = match mkdirat(&upper, name, Mode::from_raw_mode(0o700)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(failed(errno)),
            };
            if made {
                let entry = look(&lower, name).and_then(|entry| entry.ok_or(Errno::NOENT));
                match entry.and_then(|entry| keep(&lower, &upper, name, &entry)) {
                    Ok(()) => {}
                    Err(errno) if is_gone(errno) => {
                        // Without its original, the new folder would be a change of its own.
                        unlinkat(&upper, name, AtFlags::REMOVEDIR).map_err(&failed)?;
                        return Ok(None);
                    }
                    Err(errno) => return Err(failed(errno)),
                }
            }
            upper = open(upper.as_fd(), Path::new(name), LIST).map_err(&failed)?;
            lower = below;
        }
        Ok(Some(upper))
    }
}

/// Returns true if a path could not be opened because one of its folders was moved, removed or replaced.
fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// Returns the entry when it has stopped changing, or after [`LONGEST_WAIT`]: its creator may be
/// about to write into it.
fn at_rest(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<Option<Entry>> {
    const STEP: Duration = Duration::from_millis(1);
    const REST: Duration = Duration::from_millis(3);
    let (mut last, mut waited, mut rested) = (look(folder, name)?, Duration::ZERO, Duration::ZERO);
    while let Some(before) = &last
        && before.kind == Kind::File
        && waited < LONGEST_WAIT
        && (rested < REST || before.size_bytes == 0)
    {
        thread::sleep(STEP);
        waited += STEP;
        let now = look(folder, name)?;
        let changed = now.as_ref().map(|now| now.changed) != Some(before.changed);
        rested = if changed { Duration::ZERO } else { rested + STEP };
        last = now;
    }
    Ok(last)
}

fn remove(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;

    use crate::{Area, Outcome, Terms};

    use super::*;

    struct Scene {
        _folder: tempfile::TempDir,
        workspace: PathBuf,
        area: Area,
    }

    fn scene() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        fs::create_dir_all(workspace.join("a/b")).unwrap();
        fs::set_permissions(workspace.join("a"), PermissionsExt::from_mode(0o751)).unwrap();
        let area = Area::open(&folder.path().join("area")).unwrap();
        Scene { _folder: folder, workspace, area }
    }

    #[test]
    fn what_is_taken_away_is_a_change_that_can_be_kept_added_to_and_applied() {
        let Scene { workspace, area, _folder } = scene();
        let opened = Workspace::open(&workspace).unwrap();
        let path = Path::new("a/b/hook");
        fs::write(workspace.join(path), "first").unwrap();
        fs::set_permissions(workspace.join(path), PermissionsExt::from_mode(0o755)).unwrap();
        let mut held = OpenOptions::new().append(true).open(workspace.join(path)).unwrap();

        let call = area.begin().unwrap();
        let terms = Terms::since(call.baseline().unwrap());
        assert!(call.take_away(&opened, path).unwrap().is_some());
        assert!(call.take_away(&opened, path).unwrap().is_none(), "it is gone");
        assert!(!workspace.join(path).exists());
        // A program with the open file does not change the stored copy.
        held.write_all(b", and more").unwrap();
        let id = call.keep(&opened, &terms, "to be judged").unwrap();

        // Later entries are stored next to it, and one of the same name replaces it.
        for (name, content) in [("a/b/hook", "second"), ("a/other", "other")] {
            fs::write(workspace.join(name), content).unwrap();
            let (call, _) = area.take_up(&id).unwrap();
            assert!(call.take_away(&opened, Path::new(name)).unwrap().is_some());
        }
        symlink("/nowhere", workspace.join("link")).unwrap();
        let (call, kept) = area.take_up(&id).unwrap();
        assert!(call.take_away(&opened, Path::new("link")).unwrap().is_some());
        assert!(call.take_away(&opened, Path::new("a")).is_err(), "a folder is not taken");
        assert!(call.take_away(&opened, Path::new("missing/x")).unwrap().is_none());

        let changes = call.changes(&opened, &kept.terms(&call).unwrap()).unwrap();
        assert!(changes.conflicts.is_empty(), "{changes:?}");
        let committed = call.commit(&opened, &kept.terms(&call).unwrap()).unwrap();
        assert!(matches!(committed, Outcome::Committed(_)), "{committed:?}");
        assert_eq!(fs::read_to_string(workspace.join(path)).unwrap(), "second");
        assert_eq!(fs::read_to_string(workspace.join("a/other")).unwrap(), "other");
        assert!(workspace.join("link").is_symlink());
        assert_eq!(fs::metadata(workspace.join("a")).unwrap().mode() & 0o7777, 0o751);
        call.discard().unwrap();
    }

    #[test]
    fn of_a_large_file_it_is_said_that_it_may_be_open_and_one_with_another_name_is_not_kept_twice() {
        let Scene { workspace, area, _folder } = scene();
        let opened = Workspace::open(&workspace).unwrap();
        let large = |name: &str| {
            let file = fs::File::create(workspace.join(name)).unwrap();
            file.set_len(LARGEST_COPY + 1).unwrap();
        };
        large("one");
        large("two");
        fs::hard_link(workspace.join("two"), workspace.join("other")).unwrap();
        fs::write(workspace.join("small"), "x").unwrap();
        let call = area.begin().unwrap();
        let take = |name: &str| call.take_away(&opened, Path::new(name)).unwrap();
        assert_eq!((take("one"), take("small")), (Some(TakeMethod::Moved), Some(TakeMethod::Copied)));
        assert_eq!(take("two"), Some(TakeMethod::Copied));
        assert_eq!(fs::metadata(workspace.join("other")).unwrap().len(), LARGEST_COPY + 1);
        assert!(!workspace.join("two").exists() && !workspace.join("one").exists());
        call.discard().unwrap();
    }

    #[test]
    fn that_changes_were_applied_is_known_until_it_is_forgotten() {
        let Scene { area, _folder, .. } = scene();
        let id = "0123456789abcdef0123456789abcdef";
        let call = area.begin().unwrap();
        let now = call.baseline().unwrap();
        call.discard().unwrap();
        area.set_applied(id, &[PathBuf::from("/w/a"), PathBuf::from("/w/b")]).unwrap();
        let long_ago = crate::Time { seconds: 0, nanoseconds: 0 };
        area.forget_applied(long_ago).unwrap();
        let applied = |path: &str, at| area.was_applied(Path::new(path), at);
        assert!(applied("/w/a", now) && applied("/w/b/c", now));
        assert!(!applied("/w/a", long_ago) && !applied("/w/ab", now) && !applied("/w", now));
        assert!(area.recover(&|| ControlFlow::Continue(()), &|_| Ok(())).unwrap().is_empty());
        area.forget_applied(crate::Time { seconds: i64::MAX, nanoseconds: 0 }).unwrap();
        assert!(!area.was_applied(Path::new("/w/a"), now));
    }

    #[test]
    fn a_folder_that_was_moved_meanwhile_is_no_failure() {
        let Scene { workspace, area, _folder } = scene();
        let opened = Workspace::open(&workspace).unwrap();
        let call = area.begin().unwrap();
        let has_folder = |path: &str| call.folders_like(&opened, Path::new(path)).unwrap().is_some();
        assert!(has_folder("a/b"));
        fs::rename(workspace.join("a"), workspace.join("moved")).unwrap();
        assert!(!has_folder("a/b") && !has_folder("a") && has_folder("moved/b"));
        fs::write(workspace.join("a"), "a file").unwrap();
        assert!(!has_folder("a/b"));
    }

    #[test]
    fn nothing_outside_the_workspace_is_reached_through_a_link() {
        let Scene { workspace, area, _folder } = scene();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("hook"), "stays").unwrap();
        symlink(outside.path(), workspace.join("a/link")).unwrap();
        let call = area.begin().unwrap();
        let opened = Workspace::open(&workspace).unwrap();
        assert!(call.take_away(&opened, Path::new("a/link/hook")).unwrap().is_none());
        assert_eq!(fs::read_to_string(outside.path().join("hook")).unwrap(), "stays");
    }
}
