//! Caches that the commands of a workspace find again in their home: their location and their size
//! limit.
//!
//! No limit holds while a command writes. From time to time after an answer, the caches that were
//! used least recently are removed as a whole until the rest is within the limit. Half a cache may
//! be worse than none.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use checkpoint::tree::{self, Size};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use policy::{Limits, Policy};
use sandbox::KeptHome;

/// Bytes that the caches of one workspace take by default: enough for the package managers and
/// compilers of a large project, about one gigabyte each.
pub(crate) const LIMIT: u64 = 4 << 30;

/// Interval at which the size of the caches is checked. Measuring 100,000 files takes about a fifth
/// of a second.
const INTERVAL: SignedDuration = SignedDuration::from_mins(10);

/// Time for which the caches of a missing workspace are kept, because its disk may come back.
const KEPT_WITHOUT_WORKSPACE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Number of entries above which a folder of caches is taken for one that a command has filled
/// itself.
const MAX_CACHES: usize = 1000;

/// Name of a file in the folder of a workspace. It contains the workspace's path, and its
/// modification time is the time when the workspace was last opened.
const WORKSPACE: &str = "workspace";
/// Name of a file in the folder of a workspace. Its modification time is the time when the caches
/// were last measured.
const SWEPT: &str = "swept";
/// Prefix of the names of folders that are being removed.
const TAKEN: &str = "taken-";

/// Folder with the homes of all workspaces, and the home of one workspace.
pub(crate) struct Homes {
    folder: PathBuf,
    id: String,
    home: Arc<KeptHome>,
    /// Maximum size of the caches, in bytes.
    limit: u64,
    looked: Mutex<Option<Timestamp>>,
}

/// Returns how many bytes the caches of a workspace may take under this policy.
pub(crate) fn limit(policy: &Policy) -> u64 {
    let built_in = Limits { home_bytes: Some(LIMIT), ..Limits::default() };
    policy.limits_over(built_in).home_bytes.unwrap_or(LIMIT)
}

impl Homes {
    /// Opens the home of `workspace` in `folder`, for caches of at most `limit` bytes. Returns
    /// `None` if the limit is 0.
    ///
    /// # Errors
    /// Returns a sentence for the user. Commands run all the same.
    pub(crate) fn open(
        folder: &Path,
        workspace: &Path,
        limit: u64,
        now: Timestamp,
    ) -> Result<Option<Self>, String> {
        if limit == 0 {
            return Ok(None);
        }
        let id: String = blake3::hash(workspace.as_os_str().as_bytes()).to_hex().chars().take(32).collect();
        let own = folder.join(&id);
        let failed = |error: &dyn std::fmt::Display| {
            format!("the cache that commands keep in their home is lost: {}: {error}", own.display())
        };
        let noted = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&own)?;
            let path = own.join(WORKSPACE);
            if fs::read(&path).ok().as_deref() != Some(workspace.as_os_str().as_bytes()) {
                fs::write(&path, workspace.as_os_str().as_bytes())?;
            }
            touch(&path, now)
        };
        noted().map_err(|error| failed(&error))?;
        let home = KeptHome::new(own.clone(), workspace).map_err(|error| failed(&error))?;
        let (folder, looked) = (folder.to_owned(), Mutex::default());
        Ok(Some(Self { folder, id, home: Arc::new(home), limit, looked }))
    }

    pub(crate) fn home(&self) -> Arc<KeptHome> {
        self.home.clone()
    }

    /// Returns true if it is time to [tend](Self::tend) to the caches. Called after each command,
    /// so it uses no file system.
    pub(crate) fn are_due(&self, now: Timestamp) -> bool {
        let mut looked = self.looked.lock();
        let due = looked.is_none_or(|looked| now.duration_since(looked).abs() >= INTERVAL);
        if due {
            *looked = Some(now);
        }
        due
    }

    /// Removes caches beyond the limit, unless another process has done so within [`INTERVAL`]. If
    /// a command runs or anything else prevents it, the next call tries again.
    pub(crate) fn tend(&self, now: Timestamp) -> io::Result<()> {
        let own = self.folder.join(&self.id);
        let stamp = own.join(SWEPT);
        if modified(&stamp).is_some_and(|swept| now.duration_since(swept).abs() < INTERVAL) {
            return Ok(());
        }
        fs::write(&stamp, "")?;
        touch(&stamp, now)?;
        self.keep_within_limit(&own, now)?;
        remove_taken(&own)?;
        self.leave_without_workspace(now)?;
        remove_taken(&self.folder)
    }

    fn keep_within_limit(&self, own: &Path, now: Timestamp) -> io::Result<()> {
        let caches = self.home.caches();
        let mut found = Vec::new();
        match fs::read_dir(&caches) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => {
                for entry in entries?.take(MAX_CACHES + 1) {
                    found.push(entry?.file_name());
                }
            }
        }
        let millisecond = now.as_millisecond();
        let to = File::open(own)?;
        if found.len() > MAX_CACHES {
            let Some(_alone) = self.home.alone()? else { return Ok(()) };
            let name = caches.file_name().unwrap_or_default();
            return taken(&to, name, &to, &format!("{TAKEN}{millisecond}"));
        }
        let from = File::open(&caches)?;
        let mut sized = Vec::new();
        for name in found {
            sized.push((tree::size_of(from.as_fd(), &name).map_err(io::Error::other)?, name));
        }
        let too_much = too_much(sized, self.limit);
        if too_much.is_empty() {
            return Ok(());
        }
        // A command that begins now waits for this lock. The folders are only moved under the lock
        // and removed later.
        let Some(_alone) = self.home.alone()? else { return Ok(()) };
        for (number, name) in too_much.iter().enumerate() {
            taken(&from, name, &to, &format!("{TAKEN}{millisecond}-{number}"))?;
        }
        Ok(())
    }

    /// Moves away the homes of workspaces that no longer exist.
    fn leave_without_workspace(&self, now: Timestamp) -> io::Result<()> {
        let all = File::open(&self.folder)?;
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let path = self.folder.join(&name);
            if name == *self.id || name.as_bytes().starts_with(TAKEN.as_bytes()) || !path.is_dir() {
                continue;
            }
            let noted = path.join(WORKSPACE);
            let Ok(workspace) = fs::read(&noted).map(|bytes| PathBuf::from(OsString::from_vec(bytes))) else {
                continue;
            };
            let is_gone = matches!(
                fs::symlink_metadata(workspace).map_err(|error| error.kind()),
                Err(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            );
            let unused =
                modified(&noted).is_some_and(|opened| now.duration_since(opened) >= KEPT_WITHOUT_WORKSPACE);
            if is_gone && unused {
                let home = KeptHome::at(path);
                if let Some(_alone) = home.alone()? {
                    taken(&all, &name, &all, &format!("{TAKEN}{}", name.display()))?;
                }
            }
        }
        Ok(())
    }
}

/// Selects the caches to remove so that the rest is within `limit`, those used least recently
/// first. A cache of unknown size is always selected, because no tool has made it.
fn too_much(sized: Vec<(Size, OsString)>, limit: u64) -> Vec<OsString> {
    let (mut taken, mut known) = (Vec::new(), Vec::new());
    for (size, name) in sized {
        match size {
            Size::Known { bytes, used } => known.push((used, bytes, name)),
            Size::Unknown => taken.push(name),
        }
    }
    known.sort();
    let mut total = known.iter().fold(0_u64, |total, (_, bytes, _)| total.saturating_add(*bytes));
    for (_, bytes, name) in known {
        if total <= limit {
            break;
        }
        // Removing a cache of less than 1% of the limit would gain next to nothing.
        if bytes > limit / 100 {
            total = total.saturating_sub(bytes);
            taken.push(name);
        }
    }
    taken
}

fn taken(from: &File, name: &OsStr, to: &File, new_name: &str) -> io::Result<()> {
    tree::move_away(from.as_fd(), name, to.as_fd(), OsStr::new(new_name)).map_err(io::Error::other)
}

/// Removes folders that were moved away, by this process or by one that ended before it could
/// remove them.
fn remove_taken(folder: &Path) -> io::Result<()> {
    let opened = File::open(folder)?;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name.as_bytes().starts_with(TAKEN.as_bytes()) {
            tree::remove(opened.as_fd(), &name).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

fn touch(path: &Path, now: Timestamp) -> io::Result<()> {
    File::options().write(true).open(path)?.set_modified(SystemTime::from(now))
}

fn modified(path: &Path) -> Option<Timestamp> {
    Timestamp::try_from(fs::metadata(path).ok()?.modified().ok()?).ok()
}

#[cfg(test)]
mod tests;
