//! `audit.head`: the number of audit rows and the hash of the last one, in a file outside the
//! database. A log whose last rows were cut off therefore does not look complete.
//!
//! The file names two points of the chain:
//!
//! - `flushed`, the last row that is known to survive a power loss. The point advances only after a
//!   flushed commit, so on any disk it is never ahead of the database. The file itself is flushed
//!   after 20 ms without a row, and at the latest after 64 flushed commits. After a power loss it may
//!   be behind by that much.
//! - `committed`, the last row that a process committed, with the boot id of the kernel at that
//!   time. The point is written after every commit but not flushed. Under the same boot id no power
//!   was lost, so the database must contain that row. After another boot, the database may legally
//!   have lost the rows since `flushed`.
//!
//! A process killed between a commit and the write of this file leaves the file behind the database.
//! A file that is behind is legal, and the next commit heals it. The file is created before the
//! first row can exist, so a missing file is a finding too.
//!
//! INVARIANT: the file only moves forward, and only while the database still contains the points in
//! the file. Otherwise the file stays unchanged: the next row must not overwrite the evidence of a
//! cut log.
//!
//! The file has two lines of 512 bytes, each in its own disk sector. The lines are written
//! alternately and in place. Each line has a checksum and a generation, so an interrupted write
//! leaves the other line intact. The file does not protect against somebody who can write both files
//! and knows this format. Against that, keep a hash elsewhere and pass it to `verify`.

use std::fs::File;
use std::io;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use locks::Kind;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use store_api::{Hash, StoreError};

/// Length of a line with its newline; the sector size of every disk is a multiple of it.
const LINE: usize = 512;

/// Number of checksum digits at the start of a line.
const CHECK: usize = 32;

/// A point of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) rows: i64,
    pub(crate) hash: Hash,
}

impl Point {
    pub(crate) const START: Self = Self { rows: 0, hash: Hash::GENESIS };
}

/// Content of the head file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    generation: u64,
    pub(crate) flushed: Point,
    pub(crate) committed: Point,
    boot: String,
}

impl Head {
    /// Returns true if the database must contain the committed point: no power loss can lie in
    /// between.
    pub(crate) fn same_boot(&self) -> bool {
        boot().is_some_and(|boot| boot == self.boot)
    }

    fn line(&self) -> io::Result<[u8; LINE]> {
        let json = serde_json::to_string(self)?;
        let mut line = [b' '; LINE];
        write!(&mut line[..LINE - 1], "{} {json}", check(&json))?;
        line[LINE - 1] = b'\n';
        Ok(line)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?.trim_end();
        let (found, json) = text.split_once(' ')?;
        if found != check(json) {
            return None;
        }
        serde_json::from_str(json).ok()
    }
}

fn check(json: &str) -> String {
    let mut digits = Hash::of(json.as_bytes()).to_string();
    digits.truncate(CHECK);
    digits
}

/// Result of reading the head file.
#[derive(Debug)]
pub(crate) enum HeadRead {
    Head(Head),
    /// A file in which each line has a wrong checksum.
    Broken,
    /// A missing file.
    Missing,
}

/// The head file, opened by a writer.
pub(crate) struct HeadFile {
    path: PathBuf,
    file: File,
    boot: String,
}

impl HeadFile {
    /// Creates the file for a log without rows, and makes it survive a power loss. An existing file
    /// stays unchanged.
    pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
        let at = |error| StoreError::from_io(path, error);
        let folder = path.parent().unwrap_or(Path::new("."));
        let head = Head {
            generation: 0,
            flushed: Point::START,
            committed: Point::START,
            boot: boot().unwrap_or_default(),
        };
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(at)?;
        let line = head.line().map_err(at)?;
        file.write_all(&line).and_then(|()| file.write_all(&line)).map_err(at)?;
        file.as_file().sync_all().map_err(at)?;
        match file.persist_noclobber(path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at(error.error)),
        }
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(at)
    }

    /// Opens the file for writing. Returns `None` if the file is missing, which `verify` reports.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        match File::options().read(true).write(true).open(path) {
            Ok(file) => Ok(Some(Self { path: path.to_owned(), file, boot: boot().unwrap_or_default() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::from_io(path, error)),
        }
    }

    /// Reads the file at `path`.
    pub(crate) fn look(path: &Path) -> Result<HeadRead, StoreError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HeadRead::Missing),
            Err(error) => return Err(StoreError::from_io(path, error)),
        };
        let head = locked(&file, Kind::Shared, || read(&file));
        Ok(head.map_err(|error| StoreError::from_io(path, error))?.map_or(HeadRead::Broken, HeadRead::Head))
    }

    /// Reads the current content of the file, or `None` if each line is damaged.
    pub(crate) fn read(&self) -> Result<Option<Head>, StoreError> {
        locked(&self.file, Kind::Shared, || read(&self.file))
            .map_err(|error| StoreError::from_io(&self.path, error))
    }

    /// Waits for the exclusive lock on the file.
    pub(crate) fn turn(&self) -> Result<Turn<'_>, StoreError> {
        let lock = Lock::take(&self.file, Kind::Exclusive);
        let lock = lock.map_err(|error| StoreError::from_io(&self.path, error))?;
        Ok(Turn { head: self, _lock: lock })
    }

    /// Takes the exclusive lock, and fails if another process has it.
    pub(crate) fn try_turn(&self) -> Result<Turn<'_>, StoreError> {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| StoreError::from_io(&self.path, errno.into()))?;
        Ok(Turn { head: self, _lock: Lock(&self.file) })
    }

    /// Makes the written content survive a power loss.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| StoreError::from_io(&self.path, error))
    }
}

/// The exclusive right to move the file forward.
pub(crate) struct Turn<'f> {
    head: &'f HeadFile,
    _lock: Lock<'f>,
}

impl Turn<'_> {
    /// Moves the file forward to `point`, which is in the database and, with `flushed`, survives a
    /// power loss. `holds` checks whether the database contains a point; see the invariant above.
    pub(crate) fn advance<E: From<StoreError>>(
        self,
        point: Point,
        flushed: CommitDurability,
        holds: impl Fn(Point) -> Result<bool, E>,
    ) -> Result<(), E> {
        let HeadFile { path, file, boot } = self.head;
        let at = |error: io::Error| E::from(StoreError::from_io(path, error));
        let Some(mut head) = read(file).map_err(at)? else { return Ok(()) };
        if !holds(head.flushed)? || (head.boot == *boot && !holds(head.committed)?) {
            return Ok(());
        }
        let before = head.clone();
        if point.rows > head.committed.rows || head.boot != *boot {
            head.committed = point;
            head.boot.clone_from(boot);
        }
        if flushed == CommitDurability::Yes && point.rows > head.flushed.rows {
            head.flushed = point;
        }
        if head != before {
            head.generation += 1;
            let slot = head.generation % 2 * LINE as u64;
            head.line().and_then(|line| file.write_all_at(&line, slot)).map_err(at)?;
        }
        Ok(())
    }
}

/// Durability of a commit: whether it survives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitDurability {
    Yes,
    No,
}

fn read(file: &File) -> io::Result<Option<Head>> {
    let mut bytes = [0; 2 * LINE];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(bytes.chunks(LINE).filter_map(Head::parse).max_by_key(|head| head.generation))
}

/// An advisory lock on the open file, released on drop.
struct Lock<'f>(&'f File);

impl<'f> Lock<'f> {
    fn take(file: &'f File, kind: Kind) -> io::Result<Self> {
        locks::acquire(file, kind, &"the audit's head")?;
        Ok(Self(file))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        locks::release(self.0);
    }
}

fn locked<T>(file: &File, kind: Kind, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _lock = Lock::take(file, kind)?;
    work()
}

/// Returns the kernel's boot id, or `None` if the kernel does not report it.
fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let text = text.trim();
    (!text.is_empty() && text.len() <= 64).then(|| text.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Writes `flushed` and `committed` as left by a process under another boot.
    pub(crate) fn write_as_another_boot(path: &Path, flushed: Point, committed: Point) {
        let head = Head { generation: 1, flushed, committed, boot: "another".to_owned() };
        let line = head.line().unwrap();
        std::fs::write(path, [line, line].concat()).unwrap();
    }

    fn point(rows: i64) -> Point {
        Point { rows, hash: Hash::of(&rows.to_le_bytes()) }
    }

    fn new() -> (tempfile::TempDir, PathBuf, HeadFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.head");
        HeadFile::create(&path).unwrap();
        let file = HeadFile::open(&path).unwrap().unwrap();
        (folder, path, file)
    }

    fn advance(file: &HeadFile, rows: i64, flushed: CommitDurability, holds: bool) {
        file.turn().unwrap().advance::<StoreError>(point(rows), flushed, |_| Ok(holds)).unwrap();
    }

    fn points(file: &HeadFile) -> (i64, i64) {
        let head = file.read().unwrap().unwrap();
        (head.flushed.rows, head.committed.rows)
    }

    #[test]
    fn a_flushed_point_moves_both_and_a_committed_one_only_its_own() {
        let (_folder, _path, file) = new();
        assert_eq!(points(&file), (0, 0));
        advance(&file, 3, CommitDurability::No, true);
        assert_eq!(points(&file), (0, 3));
        advance(&file, 5, CommitDurability::Yes, true);
        assert_eq!(points(&file), (5, 5));
    }

    #[test]
    fn it_never_moves_backwards() {
        let (_folder, _path, file) = new();
        advance(&file, 5, CommitDurability::Yes, true);
        advance(&file, 4, CommitDurability::Yes, true);
        assert_eq!(points(&file), (5, 5));
    }

    #[test]
    fn it_stays_when_the_database_no_longer_holds_what_it_names() {
        let (_folder, _path, file) = new();
        advance(&file, 5, CommitDurability::Yes, true);
        advance(&file, 9, CommitDurability::Yes, false);
        assert_eq!(points(&file), (5, 5));
    }

    #[test]
    fn a_half_written_line_leaves_the_one_before() {
        let (_folder, path, file) = new();
        advance(&file, 1, CommitDurability::Yes, true);
        advance(&file, 2, CommitDurability::Yes, true);
        let mut bytes = std::fs::read(&path).unwrap();
        // Generation 2 is in the first line; as a positive control, it was read from there.
        assert_eq!(points(&file), (2, 2));
        bytes[100..200].fill(b'x');
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(points(&file), (1, 1));
        bytes[600..700].fill(b'x');
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(HeadFile::look(&path).unwrap(), HeadRead::Broken));
    }

    #[test]
    fn creating_it_again_changes_nothing() {
        let (_folder, path, file) = new();
        advance(&file, 5, CommitDurability::Yes, true);
        HeadFile::create(&path).unwrap();
        assert_eq!(points(&file), (5, 5));
    }

    #[test]
    fn the_longest_line_fits() {
        let longest = Point { rows: i64::MAX, hash: Hash::of(b"x") };
        let head = Head { generation: u64::MAX, flushed: longest, committed: longest, boot: "x".repeat(64) };
        assert_eq!(Head::parse(&head.line().unwrap()), Some(head));
    }
}
