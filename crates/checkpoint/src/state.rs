//! What lay at a path, in full: everything that is needed to put it back, and to tell whether it is still there.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::readlinkat;

use crate::attributes::{self, Attributes};
use crate::encoding::{Decoder, Encoder};
use crate::{Entry, Error, Kind, Result};

/// The BLAKE3 hash of a file's bytes.
pub type ContentHash = [u8; blake3::OUT_LEN];

/// Up to which size a new file is known by its bytes. A larger one is known by its inode, size and times alone, so that a
/// command that fetches a large file does not have to be waited for while it is read once more.
pub const LARGEST_HASHED: u64 = 64 * 1024 * 1024;

/// The longest target of a link that a state holds itself, in bytes. Nearly all links have shorter ones.
pub const LONGEST_TARGET: usize = 256;

const MAGIC: &[u8] = b"s1";

/// Begins a state whose content is kept without its holes. Written for such alone, so that all others are read by older versions.
const SPARSE_MAGIC: &[u8] = b"s2";

/// What lay at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its kind, rights, times and inode.
    pub entry: Entry,
    /// The extended attributes of users and programs and the access control lists, sorted by name.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// Of a link, its target; none where that is longer than [`LONGEST_TARGET`].
    pub target: Option<PathBuf>,
    /// Of a file, its bytes; none where they were not read. Of a link whose target is long, that target, so that a state takes little
    /// memory.
    pub content: Option<ContentHash>,
    /// Whether the content that is kept is a stream without the holes of the file.
    pub is_sparse: bool,
}

/// The target of a link, as two states are compared by it.
#[derive(PartialEq, Eq)]
enum Target<'a> {
    Short(&'a Path),
    Long(ContentHash),
}

/// Where the bytes of files are kept, by their hashes. Several threads use it at once.
pub trait Contents: Sync {
    /// Keeps everything that `content` gives, and gives its hash.
    ///
    /// # Errors
    /// Where it cannot be read or kept, such as for want of space.
    fn keep(&self, content: &mut dyn Read) -> io::Result<ContentHash>;

    /// Opens what was kept, from its start.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where nothing is kept under this hash (any more).
    fn open(&self, content: &ContentHash) -> io::Result<Box<dyn Read>>;
}

impl State {
    /// Looks at an entry of an open folder. `content` is what is known of the bytes of a file.
    pub(crate) fn of(
        folder: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        entry: Entry,
        content: Option<ContentHash>,
    ) -> Result<Self> {
        let failed = Error::while_doing("look at", path);
        let attributes = match entry.kind {
            Kind::File | Kind::Folder => attributes::kept(folder, name).map_err(&failed)?,
            Kind::Link => return Self::of_link(folder, name, path, entry, &|target| hash(target)),
            _ => Attributes::new(),
        };
        Ok(Self { entry, attributes, target: None, content, is_sparse: false })
    }

    /// Looks at a link of an open folder. `take` gives the hash of a target that is too long for the state, and may keep it.
    pub(crate) fn of_link(
        folder: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        entry: Entry,
        take: &dyn Fn(&[u8]) -> io::Result<ContentHash>,
    ) -> Result<Self> {
        let target = readlinkat(folder, name, Vec::new()).map_err(Error::while_doing("look at", path))?;
        let target = target.into_bytes();
        let (target, content) = if target.len() > LONGEST_TARGET {
            (None, Some(take(&target).map_err(|error| Error::system("save", path, error))?))
        } else {
            (Some(PathBuf::from(OsString::from_vec(target))), None)
        };
        Ok(Self { entry, attributes: Attributes::new(), target, content, is_sparse: false })
    }

    /// Looks at a file or folder that is open.
    pub(crate) fn of_open(
        opened: BorrowedFd<'_>,
        path: &Path,
        entry: Entry,
        content: Option<ContentHash>,
    ) -> Result<Self> {
        let attributes = attributes::kept_of(opened).map_err(Error::while_doing("look at", path))?;
        Ok(Self { entry, attributes, target: None, content, is_sparse: false })
    }

    /// Whether both were the same, but for times and inodes.
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

    /// Whether both have the same target, or both have none.
    pub(crate) fn has_same_target(&self, other: &Self) -> bool {
        self.leads_to() == other.leads_to()
    }

    /// Gives the target of a link. What earlier versions wrote holds also a long one itself.
    fn leads_to(&self) -> Option<Target<'_>> {
        match &self.target {
            Some(target) if target.as_os_str().len() <= LONGEST_TARGET => Some(Target::Short(target)),
            Some(target) => Some(Target::Long(*blake3::hash(target.as_os_str().as_bytes()).as_bytes())),
            None => self.content.filter(|_| self.entry.kind == Kind::Link).map(Target::Long),
        }
    }

    /// As bytes, for whoever keeps it.
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

    /// From what [`State::encode`] made; none where it is something else.
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

/// The hash of all that a file gives.
pub(crate) fn hash(mut file: impl Read) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut file, &mut hasher)?;
    Ok(*hasher.finalize().as_bytes())
}

/// Whether a new file of this size is known by its bytes.
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
