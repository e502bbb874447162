//! Kinds of entries.

use rustix::fs::{FileType, Stat};

/// Kind of an entry in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket. Sockets are never committed: no process listens on them any more.
    Socket,
    /// A device, or a kind unknown to this program. Devices are never committed.
    Device,
    /// An overlay's mark for a removal: a character device of number 0.
    Whiteout,
}

impl Kind {
    pub(crate) fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice if stat.st_rdev == 0 => Self::Whiteout,
            FileType::BlockDevice | FileType::CharacterDevice | FileType::Unknown => Self::Device,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::File => "a regular file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Whiteout => "nothing",
        })
    }
}
