//! The exec log of a CSP/1 specialist: `memory/exec-logs/` of its workspace, one file per command, per
//! picture and per text of a page.
//!
//! The dialect closes `memory/` to every tool and every command, so only Handfast writes to it.
//! Folders are opened one by one and never through a link, because others can write to the
//! workspace.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use door_csp::{ExecLog, Record, Stream, StreamKind};
use engine::SummarizedCall;
use rustix::fs::{
    AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, fchown, fstat, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use store_api::Store;
use tool::{CallResult, Meta};

/// Folders of the log within the workspace, outermost first (the source: `memory/exec-logs/`).
const FOLDERS: [&str; 2] = ["memory", "exec-logs"];
/// Maximum number of log files. The oldest are removed first.
const MOST: usize = 1_000;
/// Maximum size of all log files in bytes. The oldest are removed first, but never the newest,
/// because its answer refers to it.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Ends of the names of log files.
const ENDS: [&[u8]; 4] = [b".log", b".txt", b".png", b".jpg"];
/// Interval between removals, in commands and in bytes.
const LOOK_EACH: usize = 100;
const LOOK_EACH_BYTES: u64 = MAX_BYTES / 16;

/// The log of one workspace.
pub(crate) struct WorkspaceLog {
    folder: OwnedFd,
    owner: (Uid, Gid),
    store: Arc<dyn Store>,
    written: AtomicUsize,
    /// Number of bytes since the last removal.
    bytes: AtomicU64,
}

impl WorkspaceLog {
    /// Opens the folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created, or a link or another object is in its place.
    pub(crate) fn open(workspace: &Path, store: Arc<dyn Store>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = openat(CWD, workspace, flags, Mode::empty())?;
        let of_workspace = fstat(&folder)?;
        let owner = (Uid::from_raw(of_workspace.st_uid), Gid::from_raw(of_workspace.st_gid));
        for name in FOLDERS {
            let is_new = match mkdirat(&folder, name, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(errno.into()),
            };
            folder = openat(&folder, name, flags, Mode::empty())?;
            if is_new {
                give(&folder, owner)?;
            }
        }
        let log = Self { folder, owner, store, written: AtomicUsize::new(0), bytes: AtomicU64::new(0) };
        log.remove_old()?;
        Ok(log)
    }

    /// Removes the oldest files if there are too many or their total size is too large. Their names
    /// sort by time.
    fn remove_old(&self) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let name = entry?.file_name().to_owned();
            if ENDS.iter().any(|end| name.to_bytes().ends_with(end)) {
                names.push(name);
            }
        }
        names.sort_unstable();
        let mut bytes = 0_u64;
        for (newer, name) in names.iter().rev().enumerate() {
            // Another process has removed a file that is gone.
            let size = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).map_or(0, |stat| stat.st_size);
            bytes = bytes.saturating_add(u64::try_from(size).unwrap_or_default());
            if newer == 0 || newer < MOST && bytes <= MAX_BYTES {
                continue;
            }
            match unlinkat(&self.folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Copies one stream, preceded by a line with its length.
    fn copy(
        &self,
        stream: &Stream<'_>,
        to: &mut impl Write,
        seen: &mut dyn FnMut(StreamKind, &[u8]),
    ) -> io::Result<()> {
        let opened = stream.whole.map(|id| self.store.outputs().open(id)).transpose();
        let Some((_, mut file)) = opened.map_err(io::Error::other)? else {
            writeln!(to, "--- {} {} bytes", stream.kind.as_str(), stream.text.len())?;
            seen(stream.kind, stream.text.as_bytes());
            to.write_all(stream.text.as_bytes())?;
            return writeln!(to);
        };
        writeln!(to, "--- {} {} bytes", stream.kind.as_str(), file.metadata()?.len())?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = match file.read(&mut buffer) {
                Ok(0) => return writeln!(to),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            seen(stream.kind, &buffer[..read]);
            to.write_all(&buffer[..read])?;
        }
    }

    /// Creates a file and returns its path in the workspace. Removes old files at intervals.
    fn create(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<String> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?;
        let written = give(&file, self.owner).and_then(|()| {
            let mut to = BufWriter::new(File::from(file));
            write(&mut to)?;
            to.flush()?;
            Ok(to.get_ref().metadata()?.len())
        });
        let size = match written {
            Ok(size) => size,
            Err(error) => {
                // An incomplete file would look complete. If its removal fails as well, the first
                // error is still the one to report.
                let _ = unlinkat(&self.folder, name, AtFlags::empty());
                return Err(error);
            }
        };
        let files = self.written.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.bytes.fetch_add(size, Ordering::Relaxed) + size;
        if files.is_multiple_of(LOOK_EACH) || bytes >= LOOK_EACH_BYTES {
            self.bytes.store(0, Ordering::Relaxed);
            self.remove_old()?;
        }
        Ok(format!("{}/{name}", FOLDERS.join("/")))
    }
}

impl ExecLog for WorkspaceLog {
    fn keep(&self, record: &Record<'_>, seen: &mut dyn FnMut(StreamKind, &[u8])) -> io::Result<String> {
        self.create(&format!("{}.log", record.meta.call_id), |to| {
            let meta = record.meta;
            writeln!(to, "call {}", meta.call_id)?;
            writeln!(to, "started {}", meta.started_at)?;
            writeln!(to, "ended {}", meta.ended_at)?;
            writeln!(to, "outcome {}", record.outcome)?;
            writeln!(to, "command {}", serde_json::to_string(record.command)?)?;
            record.streams.iter().try_for_each(|stream| self.copy(stream, to, seen))
        })
    }

    fn keep_file(&self, meta: &Meta, extension: &str, content: &[u8]) -> io::Result<String> {
        self.create(&format!("{}.{extension}", meta.call_id), |to| to.write_all(content))
    }
}

impl engine::Summarizer for WorkspaceLog {
    fn sum_up(&self, call: &SummarizedCall, result: &mut CallResult) {
        match call {
            SummarizedCall::Command(command) => door_csp::sum_up(command, result, self),
            SummarizedCall::Browser => door_csp::sum_up_page(result, self),
        }
    }
}

/// Gives a file that root created to the owner of the workspace.
fn give(made: impl AsFd, (owner, group): (Uid, Gid)) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        fchown(made, Some(owner), Some(group))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_folder_is_not_followed() {
        for (link, expected) in [("memory", true), ("memory/exec-logs", true), ("memory/other", false)] {
            let folder = tempfile::tempdir().unwrap();
            let (workspace, elsewhere) = (folder.path().join("workspace"), folder.path().join("elsewhere"));
            std::fs::create_dir_all(&elsewhere).unwrap();
            let link = workspace.join(link);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
            let store = Arc::new(store_sqlite::SqliteStore::open(&folder.path().join("state")).unwrap());
            assert_eq!(
                WorkspaceLog::open(&workspace, store.clone()).is_err(),
                expected,
                "{}",
                link.display()
            );
            assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
            store.close().unwrap();
        }
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("memory/exec-logs");
        std::fs::create_dir_all(&logs).unwrap();
        for number in 0..MOST + 5 {
            std::fs::write(logs.join(format!("{number:05}.log")), "").unwrap();
        }
        std::fs::write(logs.join("00000.md"), "").unwrap();
        let store = Arc::new(store_sqlite::SqliteStore::open(&folder.path().join("state")).unwrap());
        WorkspaceLog::open(folder.path(), store.clone()).unwrap();
        assert_eq!(std::fs::read_dir(&logs).unwrap().count(), MOST + 1);
        assert!(!logs.join("00004.log").exists() && logs.join("00005.log").exists());
        assert!(logs.join("00000.md").exists());
        store.close().unwrap();
    }

    #[test]
    fn the_oldest_go_where_they_are_too_large_together_and_the_newest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("memory/exec-logs");
        std::fs::create_dir_all(&logs).unwrap();
        // Sparse files: they have the size and use no space.
        let write = |name: &str, size: u64| File::create(logs.join(name)).unwrap().set_len(size).unwrap();
        let there = |name: &str| logs.join(name).exists();
        for (name, size) in
            [("1.log", 1), ("2.log", MAX_BYTES / 2), ("3.log", 10), ("4.log", MAX_BYTES / 2 - 10)]
        {
            write(name, size);
        }
        let store = Arc::new(store_sqlite::SqliteStore::open(&folder.path().join("state")).unwrap());
        WorkspaceLog::open(folder.path(), store.clone()).unwrap();
        assert_eq!(["1.log", "2.log", "3.log", "4.log"].map(there), [false, true, true, true]);
        write("5.log", MAX_BYTES + 1);
        WorkspaceLog::open(folder.path(), store.clone()).unwrap();
        assert_eq!(["2.log", "3.log", "4.log", "5.log"].map(there), [false, false, false, true]);
        store.close().unwrap();
    }
}
