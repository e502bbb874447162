//! Journal of a commit: all its steps, written before the first one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat_with};
use rustix::io::Errno;

use crate::attributes::{Attributes, Marks};
use crate::encoding::{Decoder, Encoder};
use crate::{Change, Error, Result, StepKind, Time};

/// Journal of a commit that is under way. While the journal has this name, recovery undoes the
/// commit.
const UNDER_WAY: &str = "journal";
/// Name of the journal after a single rename, when all changes are in place. The rename completes
/// the commit.
const COMMITTED: &str = "journal.committed";
/// Name of an incomplete journal. No step was taken yet.
const INCOMPLETE: &str = "journal.new";

/// Prefix of a journal of any version.
const ANY: &[u8] = b"handfast commit ";
const MAGIC: &[u8] = b"handfast commit 2\n";
/// Header of the previous version, which does not record whether a change was drafted.
const FIRST: &[u8] = b"handfast commit 1\n";
const HASH_BYTES: usize = blake3::OUT_LEN;

/// Information needed to undo a commit, or to clean up after it.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Original path of the workspace.
    pub(crate) workspace: PathBuf,
    /// Device and inode of the workspace.
    pub(crate) identity: (u64, u64),
    /// Name of the staging folder in the workspace, if the workspace lies on another file system.
    pub(crate) staging: Option<PathBuf>,
    /// Modification time of the workspace before the staging folder was created.
    pub(crate) root_modified: Option<Time>,
    /// Baseline of the commit's terms, to keep the changes under the same terms.
    pub(crate) baseline: Option<Time>,
    pub(crate) index: Option<PathBuf>,
    pub(crate) changes: Vec<Change>,
}

/// Progress of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    UnderWay,
    Committed,
}

impl Journal {
    /// Writes the journal into the folder of the call, atomically.
    ///
    /// `flush`, for commits that must survive a power loss, flushes the file system before the
    /// journal gets its name. The name is then on the disk when this method returns.
    pub(crate) fn write(&self, call: BorrowedFd<'_>, flush: Option<&dyn Fn() -> Result<()>>) -> Result<()> {
        let failed = |source: std::io::Error| Error::system("write", UNDER_WAY, source);
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = openat(call, INCOMPLETE, flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(opened.map_err(|errno| failed(errno.into()))?);
        file.write_all(&self.encode()).map_err(failed)?;
        if let Some(flush) = flush {
            flush()?;
        }
        renameat_with(call, INCOMPLETE, call, UNDER_WAY, RenameFlags::empty())
            .map_err(|errno| failed(errno.into()))?;
        if flush.is_some() {
            rustix::fs::fsync(open_self(call).map_err(|errno| failed(errno.into()))?)
                .map_err(|errno| failed(errno.into()))?;
        }
        Ok(())
    }

    /// Reads the journal, if one exists.
    pub(crate) fn read(call: BorrowedFd<'_>) -> Result<Option<(Stage, Self)>> {
        for (name, stage) in [(UNDER_WAY, Stage::UnderWay), (COMMITTED, Stage::Committed)] {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let mut file = match openat(call, name, flags, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(Error::system("open", name, errno)),
            };
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(|source| Error::system("read", name, source))?;
            let journal = Self::decode(&bytes).ok_or_else(|| Error::Unreadable {
                name,
                has_happened: stage == Stage::Committed,
                is_of_other_version: is_whole(&bytes),
            })?;
            return Ok(Some((stage, journal)));
        }
        Ok(None)
    }

    /// Renames the journal, which completes the commit.
    pub(crate) fn mark_committed(call: BorrowedFd<'_>) -> Result<()> {
        renameat_with(call, UNDER_WAY, call, COMMITTED, RenameFlags::empty())
            .map_err(|errno| Error::system("rename", UNDER_WAY, errno))
    }

    /// Removes the journal after everything was undone.
    pub(crate) fn remove(call: BorrowedFd<'_>) -> Result<()> {
        match rustix::fs::unlinkat(call, UNDER_WAY, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::system("remove", UNDER_WAY, errno)),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Encoder(MAGIC.to_vec());
        to.path(&self.workspace);
        to.number(self.identity.0);
        to.number(self.identity.1);
        to.byte(u8::from(self.staging.is_some()));
        if let Some(staging) = &self.staging {
            to.path(staging);
        }
        for time in [self.root_modified, self.baseline] {
            to.byte(u8::from(time.is_some()));
            to.time(time.unwrap_or(Time { seconds: 0, nanoseconds: 0 }));
        }
        to.byte(u8::from(self.index.is_some()));
        to.path(self.index.as_deref().unwrap_or(Path::new("")));
        to.number(u64::try_from(self.changes.len()).unwrap_or(u64::MAX));
        for change in &self.changes {
            encode_change(change, &mut to);
        }
        let hash = blake3::hash(&to.0);
        to.0.extend_from_slice(hash.as_bytes());
        to.0
    }

    /// Decodes a journal. Returns `None` for anything but the output of [`Journal::encode`].
    fn decode(bytes: &[u8]) -> Option<Self> {
        let body = body(bytes)?;
        let first = body.strip_prefix(FIRST);
        let is_first = first.is_some();
        let mut from = Decoder(first.or_else(|| body.strip_prefix(MAGIC))?);
        let workspace = from.path()?;
        let identity = (from.number()?, from.number()?);
        let staging = if from.flag()? { Some(from.path()?) } else { None };
        let mut time = || {
            let given = from.flag()?;
            from.time().map(|time| Some(time).filter(|_| given))
        };
        let (root_modified, baseline) = (time()?, time()?);
        let has_index = from.flag()?;
        let index = Some(from.path()?).filter(|_| has_index);
        let count = from.number()?;
        let mut changes = Vec::new();
        for _ in 0..count {
            changes.push(decode_change(&mut from, is_first)?);
        }
        from.0.is_empty().then_some(Self {
            workspace,
            identity,
            staging,
            root_modified,
            baseline,
            index,
            changes,
        })
    }
}

/// Returns the hashed part if the hash matches.
fn body(bytes: &[u8]) -> Option<&[u8]> {
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
    (blake3::hash(body).as_bytes() == hash).then_some(body)
}

/// Returns true if the journal is intact, whatever version wrote it.
fn is_whole(bytes: &[u8]) -> bool {
    body(bytes).is_some_and(|body| body.starts_with(ANY))
}

fn open_self(call: BorrowedFd<'_>) -> rustix::io::Result<std::os::fd::OwnedFd> {
    crate::folder::open(call, std::path::Path::new(""), crate::folder::LIST)
}

fn encode_change(change: &Change, to: &mut Encoder) {
    to.path(&change.path);
    to.byte(match change.what {
        StepKind::Create => 0,
        StepKind::Replace => 1,
        StepKind::Remove => 2,
        StepKind::Attributes => 3,
        StepKind::Times => 4,
    });
    to.entry(change.old.as_ref());
    to.entry(change.new.as_ref());
    let Marks { copied_up, opaque, drafted, any, whiteout: _, all_told: _, placeholder: _ } = change.marks;
    for flag in [change.regenerable, change.sets_time, copied_up, opaque, drafted, any] {
        to.byte(u8::from(flag));
    }
    to.byte(u8::from(change.attributes.is_some()));
    if let Some((old, new)) = &change.attributes {
        for attributes in [old, new] {
            to.number(u64::try_from(attributes.len()).unwrap_or(u64::MAX));
            for (name, value) in attributes {
                to.bytes(name);
                to.bytes(value);
            }
        }
    }
}

fn decode_change(from: &mut Decoder<'_>, is_first: bool) -> Option<Change> {
    let path = from.path()?;
    let what = match from.byte()? {
        0 => StepKind::Create,
        1 => StepKind::Replace,
        2 => StepKind::Remove,
        3 => StepKind::Attributes,
        4 => StepKind::Times,
        _ => return None,
    };
    let (old, new) = (from.entry()?, from.entry()?);
    let (regenerable, sets_time) = (from.flag()?, from.flag()?);
    let (copied_up, opaque) = (from.flag()?, from.flag()?);
    let told = if is_first { None } else { Some(from.flag()?) };
    let any = from.flag()?;
    // A mark that is not the overlay's is that of a draft.
    let drafted = told.unwrap_or(any && !copied_up && !opaque && old.is_some());
    let marks = Marks { copied_up, opaque, drafted, any, ..Marks::default() };
    let attributes =
        if from.flag()? { Some((decode_attributes(from)?, decode_attributes(from)?)) } else { None };
    Some(Change { path, what, old, new, regenerable, marks, attributes, sets_time })
}

fn decode_attributes(from: &mut Decoder<'_>) -> Option<Attributes> {
    let count = from.number()?;
    let mut attributes = Vec::new();
    for _ in 0..count {
        attributes.push((from.bytes()?.to_vec(), from.bytes()?.to_vec()));
    }
    Some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Kind};

    fn journal() -> Journal {
        let entry = Entry {
            kind: Kind::Link,
            mode: 0o7654,
            owner: 1,
            group: 2,
            size_bytes: 3,
            modified: Time { seconds: -4, nanoseconds: 5 },
            changed: Time { seconds: 6, nanoseconds: 7 },
            has_other_names: true,
            device: 8,
            inode: 9,
        };
        let change = Change {
            path: "a/b\n\u{0}".into(),
            what: StepKind::Attributes,
            old: Some(entry),
            new: None,
            regenerable: true,
            marks: Marks { copied_up: true, drafted: true, any: true, ..Marks::default() },
            attributes: Some((vec![(b"user.x".to_vec(), vec![0, 255])], Vec::new())),
            sets_time: true,
        };
        Journal {
            workspace: "/w".into(),
            identity: (1, 2),
            staging: Some("s".into()),
            root_modified: None,
            baseline: Some(Time { seconds: 1, nanoseconds: 2 }),
            index: Some(".git/index".into()),
            changes: vec![change.clone(), Change { what: StepKind::Times, attributes: None, ..change }],
        }
    }

    #[test]
    fn a_journal_comes_back_as_it_was_written() {
        let journal = journal();
        let read = Journal::decode(&journal.encode()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{journal:?}"));
    }

    /// Encodes a journal of another version, without the flag that the first one lacks.
    fn of_version(version: u8, journal: &Journal) -> Vec<u8> {
        let mut body = body(&journal.encode()).unwrap().to_vec();
        body[ANY.len()] = version;
        if version == b'1' {
            // After the flag of the only change come two more bytes: `any`, and the absence of
            // attributes.
            body.remove(body.len() - 3);
        }
        let hash = blake3::hash(&body);
        body.extend_from_slice(hash.as_bytes());
        body
    }

    #[test]
    fn a_journal_of_the_first_version_is_read_and_one_of_a_later_version_told_from_a_damaged_one() {
        let mut journal = journal();
        journal.changes.truncate(1);
        journal.changes[0].attributes = None;
        for (copied_up, drafted) in [(true, false), (false, true)] {
            journal.changes[0].marks = Marks { copied_up, drafted, any: true, ..Marks::default() };
            let read = Journal::decode(&of_version(b'1', &journal)).unwrap();
            assert_eq!(format!("{read:?}"), format!("{journal:?}"));
        }
        let mut later = of_version(b'3', &journal);
        assert!(Journal::decode(&later).is_none() && is_whole(&later));
        later[HASH_BYTES] ^= 1;
        assert!(!is_whole(&later));
    }

    #[test]
    fn a_journal_with_any_byte_cut_or_changed_is_refused() {
        let whole = journal().encode();
        for length in 0..whole.len() {
            assert!(Journal::decode(&whole[..length]).is_none(), "cut at {length}");
            let mut changed = whole.clone();
            changed[length] ^= 1;
            assert!(Journal::decode(&changed).is_none(), "changed at {length}");
        }
    }
}
