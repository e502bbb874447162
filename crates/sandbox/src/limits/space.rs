//! The disk space that a command may fill, if the profile has no limit: half of the space that is
//! free when the command starts.
//!
//! Free space is checked often, because that is cheap. The command's files are counted if the free
//! space fell by more than the command may use, because other processes fill disks as well. The files
//! in folders of its own are also counted after 1, 2, 4, ... seconds: while others free space, the
//! command can use space without a fall.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{StatVfs, statvfs};

use super::values::{Layer, Limit, LimitInForce};

/// A folder of the host that a command writes to.
#[derive(Clone, Debug)]
pub(crate) struct WrittenFolder {
    pub(crate) folder: PathBuf,
    /// True if all files in the folder belong to the command. Otherwise only files changed since
    /// its start do.
    pub(crate) is_its_own: bool,
}

/// The disks that one command writes to.
#[derive(Debug, Default)]
pub(crate) struct Space {
    disks: Vec<Disk>,
    since: Option<SystemTime>,
}

#[derive(Debug)]
struct Disk {
    device: u64,
    folders: Vec<WrittenFolder>,
    at_start: Amount,
    /// Free space below which the command's files are counted.
    count_below: Amount,
    /// Time of the next count that does not depend on the free space.
    next_count: Instant,
    /// Time from that count to the one after it.
    gap: Duration,
}

/// An amount of disk space in bytes and number of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    bytes: u64,
    files: u64,
}

/// Unit of `st_blocks` in bytes, on every file system.
const BLOCK: u64 = 512;

/// Time from the start of a command to the first count that does not depend on the free space.
const FIRST_COUNT: Duration = Duration::from_secs(1);

/// Maximum time for such a count.
const SHORT_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum time for counting. Space that is not counted by then is attributed to the command.
const TIMEOUT: Duration = Duration::from_secs(2);

impl Space {
    /// Starts to watch the free space of these folders' disks. A disk whose free space is unknown
    /// has no limit.
    pub(crate) fn begin(folders: Vec<WrittenFolder>, since: SystemTime) -> Self {
        let mut space = Self { disks: Vec::new(), since: Some(since) };
        for written in folders {
            let Ok(found) = fs::metadata(&written.folder) else { continue };
            if let Some(disk) = space.disks.iter_mut().find(|disk| disk.device == found.dev()) {
                disk.folders.push(written);
                continue;
            }
            let Some(at_start) = free(&written.folder) else { continue };
            let mut disk = Disk {
                device: found.dev(),
                folders: vec![written],
                at_start,
                count_below: Amount::default(),
                next_count: Instant::now() + FIRST_COUNT,
                gap: FIRST_COUNT,
            };
            disk.count_after(Amount::default(), at_start);
            space.disks.push(disk);
        }
        space
    }

    /// Returns the limit on the first disk, which is the disk of the workspace's changes.
    pub(crate) fn in_force(&self) -> Option<LimitInForce> {
        self.disks.first().map(Disk::limit)
    }

    /// Returns the limit that the command exceeds, if it does. `without_name` returns the bytes of
    /// the command's open files without a name on a disk, given the disk's device number.
    pub(crate) fn exceeded(&mut self, without_name: impl Fn(u64) -> u64) -> Option<LimitInForce> {
        let since = self.since?;
        self.disks.iter_mut().find_map(|disk| disk.is_exceeded(since, &without_name).then(|| disk.limit()))
    }
}

impl Disk {
    fn most(&self) -> Amount {
        Amount { bytes: self.at_start.bytes / 2, files: self.at_start.files / 2 }
    }

    fn limit(&self) -> LimitInForce {
        LimitInForce { limit: Limit::DiskSpace, value: self.most().bytes, layer: Layer::Watchdog }
    }

    /// Sets the threshold for the next count: with `used` counted while `now` was free, the rest of
    /// the limit has to go first.
    fn count_after(&mut self, used: Amount, now: Amount) {
        let most = self.most();
        let below = |now: u64, most: u64, used: u64| now.saturating_sub(most.saturating_sub(used));
        self.count_below = Amount {
            bytes: below(now.bytes, most.bytes, used.bytes),
            files: below(now.files, most.files, used.files),
        };
    }

    fn is_exceeded(&mut self, since: SystemTime, without_name: &impl Fn(u64) -> u64) -> bool {
        let Some(now) = self.folders.first().and_then(|written| free(&written.folder)) else { return false };
        let enough = |now: u64, below: u64| now >= below;
        if enough(now.bytes, self.count_below.bytes) && enough(now.files, self.count_below.files) {
            return self.is_exceeded_by_its_own(without_name);
        }
        let (most, until) = (self.most(), Instant::now() + TIMEOUT);
        let mut used = Amount { bytes: without_name(self.device), files: 0 };
        for written in &self.folders {
            let since = (!written.is_its_own).then_some(since);
            if count(&written.folder, since, most, until, &mut used).is_err() {
                return true;
            }
        }
        self.count_after(used, now);
        used.bytes > most.bytes || used.files > most.files
    }

    /// Counts the files in folders of the command's own, if it is time for that.
    fn is_exceeded_by_its_own(&mut self, without_name: &impl Fn(u64) -> u64) -> bool {
        if Instant::now() < self.next_count {
            return false;
        }
        let most = self.most();
        let mut used = Amount { bytes: without_name(self.device), files: 0 };
        let until = Instant::now() + SHORT_TIMEOUT;
        for written in self.folders.iter().filter(|written| written.is_its_own) {
            // Use the sum so far; the rest is left to the next count.
            let _incomplete = count(&written.folder, None, most, until, &mut used);
        }
        self.next_count = Instant::now() + self.gap;
        self.gap = self.gap.saturating_mul(2);
        used.bytes > most.bytes || used.files > most.files
    }
}

/// Returns the free space for users. A file system without a file counter has enough files.
fn free(folder: &Path) -> Option<Amount> {
    let StatVfs { f_bavail, f_frsize, f_files, f_favail, .. } = statvfs(folder).ok()?;
    let files = if f_files == 0 { u64::MAX } else { f_favail };
    Some(Amount { bytes: f_bavail.saturating_mul(f_frsize), files })
}

/// Counts the files in a folder on one file system, and stops above `most`.
///
/// # Errors
/// Returns an error if a folder cannot be read or the counting takes too long.
fn count(
    folder: &Path,
    since: Option<SystemTime>,
    most: Amount,
    until: Instant,
    used: &mut Amount,
) -> io::Result<()> {
    let device = fs::metadata(folder)?.dev();
    let (mut pending, mut linked) = (vec![folder.to_owned()], BTreeSet::new());
    let since = since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
    while let Some(folder) = pending.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries.flatten() {
            // The entry is gone in the meantime.
            let Ok(found) = entry.metadata() else { continue };
            if found.dev() != device {
                continue;
            }
            if found.is_dir() {
                pending.push(entry.path());
            }
            let is_new = since.is_none_or(|since| {
                let changed = (found.ctime(), found.ctime_nsec());
                changed >= (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos().into())
            });
            if is_new && (found.nlink() < 2 || found.is_dir() || linked.insert(found.ino())) {
                used.bytes = used.bytes.saturating_add(found.blocks().saturating_mul(BLOCK));
                used.files += 1;
            }
        }
        if used.bytes > most.bytes || used.files > most.files {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(folder: &Path, is_its_own: bool, at_start: Amount) -> Disk {
        let device = fs::metadata(folder).unwrap().dev();
        let folders = vec![WrittenFolder { folder: folder.to_owned(), is_its_own }];
        let mut disk = Disk {
            device,
            folders,
            at_start,
            count_below: Amount::default(),
            next_count: Instant::now(),
            gap: Duration::from_hours(1),
        };
        // Pretend that the whole disk was free before, so that the free space always looks too
        // small.
        disk.count_below = Amount { bytes: u64::MAX, files: u64::MAX };
        disk
    }

    #[test]
    fn what_the_command_put_there_counts_and_what_was_there_or_others_did_does_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("old"), vec![1; 300_000]).unwrap();
        // The year 2100.
        let later = SystemTime::UNIX_EPOCH + Duration::from_hours(1_139_568);
        let at_start = Amount { bytes: 400_000, files: 100 };
        assert!(disk(folder.path(), true, at_start).is_exceeded(later, &|_| 0));
        assert!(!disk(folder.path(), false, at_start).is_exceeded(later, &|_| 0));
        assert!(disk(folder.path(), false, at_start).is_exceeded(SystemTime::UNIX_EPOCH, &|_| 0));
        // Sparse files take no space; files without a name do.
        let sparse = fs::File::create(folder.path().join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let at_start = Amount { bytes: 1_000_000, files: 100 };
        assert!(!disk(folder.path(), true, at_start).is_exceeded(later, &|_| 0));
        assert!(disk(folder.path(), true, at_start).is_exceeded(later, &|_| 400_000));
    }

    #[test]
    fn what_the_command_uses_while_others_free_as_much_is_counted_in_time() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("big"), vec![1; 300_000]).unwrap();
        let full = |is_its_own| {
            let mut disk = disk(folder.path(), is_its_own, Amount { bytes: 400_000, files: 100 });
            // The free space never fell.
            disk.count_below = Amount::default();
            disk
        };
        let mut one = full(true);
        assert!(one.is_exceeded(SystemTime::UNIX_EPOCH, &|_| 0));
        assert!(!one.is_exceeded(SystemTime::UNIX_EPOCH, &|_| 0), "the next count has to wait");
        // In folders that others write to as well, only a fall of the free space leads to a count.
        assert!(!full(false).is_exceeded(SystemTime::UNIX_EPOCH, &|_| 0));
        assert!(full(false).is_exceeded(SystemTime::UNIX_EPOCH, &|_| 400_000));
    }

    #[test]
    fn many_empty_files_are_too_much_as_well() {
        let folder = tempfile::tempdir().unwrap();
        for name in 0..20 {
            fs::create_dir(folder.path().join(name.to_string())).unwrap();
        }
        let of = |files| Amount { bytes: u64::MAX, files };
        assert!(disk(folder.path(), true, of(30)).is_exceeded(SystemTime::UNIX_EPOCH, &|_| 0));
        assert!(!disk(folder.path(), true, of(60)).is_exceeded(SystemTime::UNIX_EPOCH, &|_| 0));
    }

    #[test]
    fn it_is_counted_again_only_when_enough_more_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = disk(folder.path(), true, Amount { bytes: 1000, files: 1000 });
        disk.count_after(Amount { bytes: 200, files: 0 }, Amount { bytes: 600, files: 900 });
        assert_eq!(disk.count_below, Amount { bytes: 300, files: 400 });
    }
}
