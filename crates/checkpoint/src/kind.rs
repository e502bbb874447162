use rustix::fs::{FileType, Stat};

/// What a name in a folder stands for.
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
    /// A socket. It is never put into a workspace: nobody listens on it any more.
    Socket,
    /// A device, or something that this program does not know. It is never put into a workspace.
    Device,
    /// The mark by which an overlay says that something was removed: a character device of number 0.
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
