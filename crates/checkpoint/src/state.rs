//! Complete state of a path: everything needed to restore it, and to check whether it is unchanged.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::readlinkat;

use crate::attributes::{self, Attributes};
use crate::encoding::{Decoder, Encoder};
use crate::{Entry, Error, Kind, Result};

/// BLAKE3 hash of a file's bytes.
pub type ContentHash = [u8; blake3::OUT_LEN];

/// Size in bytes up to which a new file is identified by its bytes. A larger file is identified by
/// inode, size and times, so that a command that fetches it need not wait for a second read.
pub const LARGEST_HASHED: u64 = 64 * 1024 * 1024;

/// Maximum length in bytes of a link target stored in a state. Nearly all links have shorter
/// targets.
pub const LONGEST_TARGET: usize = 256;

const MAGIC: &[u8] = b"s1";

/// Header of a state whose content is stored without holes. Only these states use it, so that older
/// versions can read all others.
const SPARSE_MAGIC: &[u8] = b"s2";

/// State of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Kind, rights, times and inode.
    pub entry: Entry,
    /// Extended attributes of users and programs, and access control lists, sorted by name.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Target of a link; `None` if it is longer than [`LONGEST_TARGET`].
    pub target: Option<PathBuf>,
    /// Hash of a file's bytes; `None` if they were not read. For a link with a long target, the hash
    /// of the target, so that a state needs little memory.
    pub content: Option<ContentHash>,
    /// True if the stored content is a stream without the holes of the file.
    pub is_sparse: bool,
}

/// Target of a link, in the form in which two states are compared.
#[derive(PartialEq, Eq)]
enum Target<'a> {
    Short(&'a Path),
    Long(ContentHash),
}

/// Storage for the bytes of files, by hash. Several threads use it at once.
pub trait Contents: Sync {
    /// Stores everything that `content` yields, and returns its hash.
    ///
    /// # Errors
    /// Returns an error if the content cannot be read or stored, for example on a full disk.
    fn keep(&self, content: &mut dyn Read) -> io::Result<ContentHash>;

    /// Opens a stored content, from its start.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if no content is stored under this hash (any more).
    fn open(&self, content: &ContentHash) -> io::Result<Box<dyn Read>>;
}

impl State {
    /// Reads the state of an entry in an open folder. `content` is the known hash of a file's bytes.
    pub(crate) fn of(
        folder: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        entry: Entry,
        content: Option<ContentHash>,
    ) -> Result<Self> {
        let failed = Error::while_doing("inspect", path);
        let attributes = match entry.kind {
            Kind::File | Kind::Folder => attributes::kept(folder, name).map_err(&failed)?,
            Kind::Link => return Self::of_link(folder, name, path, entry, &|target| hash(target)),
            _ => Attributes::new(),
        };
        Ok(Self { entry, attributes, target: None, content, is_sparse: false })
    }

    /// Reads the state of a link in an open folder. `take` hashes a target that is too long for the
    /// state, and may store it.
    pub(crate) fn of_link(
        folder: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        entry: Entry,
        take: &dyn Fn(&[u8]) -> io::Result<ContentHash>,
    ) -> Result<Self> {
        let target = readlinkat(folder, name, Vec::new()).map_err(Error::while_doing("inspect", path))?;
        let target = target.into_bytes();
        let (target, content) = if target.len() > LONGEST_TARGET {
            (None, Some(take(&target).map_err(|error| Error::system("save", path, error))?))
        } else {
            (Some(PathBuf::from(OsString::from_vec(target))), None)
        };
        Ok(Self { entry, attributes: Attributes::new(), target, content, is_sparse: false })
    }

    /// Reads the state of an open file or folder.
    pub(crate) fn of_open(
        opened: BorrowedFd<'_>,
        path: &Path,
        entry: Entry,
        content: Option<ContentHash>,
    ) -> Result<Self> {
        let attributes = attributes::kept_of(opened).map_err(Error::while_doing("inspect", path))?;
        Ok(Self { entry, attributes, target: None, content, is_sparse: false })
    }

    /// Returns true if both states are equal, apart from times and inodes.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let (one, two) = (&self.entry, &other.entry);
        let content = match (self.content, other.content) {
            _ if one.kind != Kind::File => true,
            (Some(one), Some(two)) => one == two,
            _ => one.has_same_size_and_time(two),
        };
        one.kind == two.kind
            && (one.kind == Kind::Link || one.has_same_rights(two))
            && (one.kind != Kind::File || one.size_bytes == two.size_bytes)
            && self.attributes == other.attributes
            && self.has_same_target(other)
            && content
    }

    /// Returns true if both have the same target, or both have none.
    pub(crate) fn has_same_target(&self, other: &Self) -> bool {
        self.leads_to() == other.leads_to()
    }

    /// Returns the target of a link. States of earlier versions contain even a long target.
    fn leads_to(&self) -> Option<Target<'_>> {
        match &self.target {
            Some(target) if target.as_os_str().len() <= LONGEST_TARGET => Some(Target::Short(target)),
            Some(target) => Some(Target::Long(*blake3::hash(target.as_os_str().as_bytes()).as_bytes())),
            None => self.content.filter(|_| self.entry.kind == Kind::Link).map(Target::Long),
        }
    }

    /// Encodes the state as bytes, to be stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder(if self.is_sparse { SPARSE_MAGIC } else { MAGIC }.to_vec());
        to.entry(Some(&self.entry));
        to.number(u64::try_from(self.attributes.len()).unwrap_or(u64::MAX));
        for (name, value) in &self.attributes {
            to.bytes(name);
            to.bytes(value);
        }
        to.byte(u8::from(self.target.is_some()));
        if let Some(target) = &self.target {
            to.path(target);
        }
        to.byte(u8::from(self.content.is_some()));
        if let Some(content) = &self.content {
            to.bytes(content);
        }
        to.0
    }

    /// Decodes the output of [`State::encode`]; returns `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_sparse = bytes.starts_with(SPARSE_MAGIC);
        let mut from = Decoder(bytes.strip_prefix(if is_sparse { SPARSE_MAGIC } else { MAGIC })?);
        let entry = from.entry()??;
        let mut attributes = Attributes::new();
        for _ in 0..from.number()? {
            attributes.push((from.bytes()?.to_vec(), from.bytes()?.to_vec()));
        }
        let target = if from.flag()? { Some(from.path()?) } else { None };
        let content = if from.flag()? { Some(from.bytes()?.try_into().ok()?) } else { None };
        from.0.is_empty().then_some(Self { entry, attributes, target, content, is_sparse })
    }
}

/// Hashes everything that a reader yields.
pub(crate) fn hash(mut file: impl Read) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut file, &mut hasher)?;
    Ok(*hasher.finalize().as_bytes())
}

/// Returns true if a new file of this size is identified by its bytes.
pub(crate) fn is_hashed(entry: &Entry) -> bool {
    entry.kind == Kind::File && entry.size_bytes <= LARGEST_HASHED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    #[test]
    fn a_state_comes_back_as_it_was_written_and_a_cut_one_is_refused() {
        let entry = Entry {
            kind: Kind::File,
            mode: 0o640,
            owner: 1,
            group: 2,
            size_bytes: 3,
            modified: Time { seconds: -1, nanoseconds: 4 },
            changed: Time { seconds: 5, nanoseconds: 6 },
            has_other_names: true,
            device: 7,
            inode: 8,
        };
        let state = State {
            entry,
            attributes: vec![(b"user.x".to_vec(), vec![0, 255])],
            target: Some("a/b".into()),
            content: Some([9; 32]),
            is_sparse: false,
        };
        for state in [State { is_sparse: true, ..state.clone() }, state] {
            let bytes = state.encode();
            assert_eq!(State::decode(&bytes).as_ref(), Some(&state));
            assert!((0..bytes.len()).all(|length| State::decode(&bytes[..length]).is_none()));
        }
    }
}
