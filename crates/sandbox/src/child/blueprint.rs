//! Everything the new process needs to know, made by the caller before it starts: the process itself only reads
//! it (and notes descriptors in places that are there for that), because it cannot allocate.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::mount::MountAttrFlags;
use seccompiler::sock_filter;

use crate::error::SandboxError;
use crate::spec::TerminalSize;
use crate::sys::StringArray;

/// The user and group id of the command, as it sees itself.
///
/// The same on every machine and for every caller, so that what a command sees does not depend on who started
/// Handfast; 1000 because that is what most systems and container images give their first ordinary user.
pub(crate) const INNER_ID: u32 = 1000;

/// What the new process does, in the order of the fields.
pub(crate) struct Blueprint {
    /// The descriptors that stay open, in ascending order.
    pub(crate) keep: Vec<RawFd>,
    /// The process's end of the control socket.
    pub(crate) control: RawFd,
    pub(crate) standard: Standard,
    /// Whether the caller's further groups can be dropped, which needs privilege.
    pub(crate) drop_groups: bool,
    /// Whether the network is one that it was born into, and not its own.
    pub(crate) shares_network: bool,
    /// The map of its users and that of its groups, where the process must write them itself.
    pub(crate) own_map: Option<OwnMap>,
    /// How the file system is built, in order.
    pub(crate) steps: Vec<Step>,
    pub(crate) landlock: Option<Landlock>,
    pub(crate) filter: &'static [sock_filter],
    pub(crate) start: Start,
}

/// A map of users and one of groups, as the kernel takes them.
pub(crate) struct OwnMap {
    pub(crate) users: Vec<u8>,
    pub(crate) groups: Vec<u8>,
}

/// What a command reads from and writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standard {
    /// Nothing to read, and two pipes to write to.
    Outputs { stdout: RawFd, stderr: RawFd },
    /// A pipe to read from, and one to write everything to.
    Pipes { input: RawFd, output: RawFd },
    /// A terminal of the cell, which the command's process makes itself and hands out.
    Terminal(TerminalSize),
    /// The command's side of a terminal that was made for it.
    GivenTerminal(RawFd),
}

impl Standard {
    /// The descriptors among it.
    pub(crate) fn descriptors(self) -> [Option<RawFd>; 2] {
        match self {
            Self::Outputs { stdout, stderr } => [Some(stdout), Some(stderr)],
            Self::Pipes { input, output } => [Some(input), Some(output)],
            Self::Terminal(_) => [None, None],
            Self::GivenTerminal(terminal) => [Some(terminal), None],
        }
    }
}

/// The command to execute in the finished cell.
pub(crate) struct Start {
    pub(crate) working_directory: CString,
    /// The paths at which the program may be, tried in order.
    pub(crate) candidates: Vec<CString>,
    pub(crate) arguments: StringArray,
    pub(crate) environment: StringArray,
    /// What its process sets for itself and all that come from it.
    pub(crate) bounds: Vec<Bound>,
    /// The processors it starts on; empty for all.
    pub(crate) processors: Vec<u64>,
    /// Whether the caller is told when the program runs.
    pub(crate) announced: bool,
    /// Whether the caller is given the namespaces before the command starts.
    pub(crate) hands_over: bool,
}

/// A limit on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) resource: Resource,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// What the kernel limits for a process or its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Resource {
    Processes,
    OpenFiles,
    FileSize,
    Data,
}

impl Resource {
    pub(crate) const ALL: [Self; 4] = [Self::Processes, Self::OpenFiles, Self::FileSize, Self::Data];

    pub(crate) fn to_kernel(self) -> rustix::process::Resource {
        match self {
            Self::Processes => rustix::process::Resource::Nproc,
            Self::OpenFiles => rustix::process::Resource::Nofile,
            Self::FileSize => rustix::process::Resource::Fsize,
            Self::Data => rustix::process::Resource::Data,
        }
    }
}

/// A Landlock ruleset that the caller has made, and the rules still to be added: their paths exist in the cell only.
pub(crate) struct Landlock {
    pub(crate) ruleset: RawFd,
    pub(crate) rules: Vec<(CString, u64)>,
}

/// One step of building the file system inside the new root.
pub(crate) enum Step {
    /// Mounts something.
    Mount(Mount),
    /// Makes a symbolic link that says `text`.
    Link { at: Place, text: CString },
    /// Makes a file of the cell's own.
    File { at: Place, content: Vec<u8>, mode: u32 },
    /// Makes a folder of the cell's own.
    Folder { at: Place, mode: u32 },
    /// Makes folders of the cell's own in one that is there, for their owner alone.
    Folders { at: Place, names: Vec<CString> },
    /// Puts a placeholder in the place of a file that is seen through an overlay, or covers it where that cannot be.
    Placeholder { at: Place, placeholder: Placeholder },
    /// Makes the mount at `at` read-only, after what belongs into it is in it.
    Seal { at: Place },
    /// Writes a setting of the kernel that counts in the cell's own namespaces. A kernel may not have it.
    Setting { at: Place, value: CString },
    /// Makes sure of what is at `at`, where somebody else has built the file system.
    Check { at: Place, is: Expected },
}

/// What is put in the place of a file, and how.
pub(crate) struct Placeholder {
    /// The folder around the file, in the cell.
    pub(crate) folder: CString,
    /// The name there under which it is made.
    pub(crate) made_as: CString,
    /// The same file in the upper folder of the overlay.
    pub(crate) upper: CString,
    /// The extended attribute that marks it.
    pub(crate) mark: CString,
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
}

/// What is to be at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A mount of exactly this object of the host.
    Same { device: u64, inode: u64, read_only: bool },
    /// A cover.
    Hidden,
}

impl Step {
    /// The path in the cell that the step is about.
    pub(crate) fn path(&self) -> &Path {
        &self.at().path
    }

    /// The same with its parts.
    pub(crate) fn at(&self) -> &Place {
        match self {
            Self::Mount(Mount { at, .. })
            | Self::Link { at, .. }
            | Self::File { at, .. }
            | Self::Folder { at, .. }
            | Self::Folders { at, .. }
            | Self::Placeholder { at, .. }
            | Self::Seal { at }
            | Self::Setting { at, .. }
            | Self::Check { at, .. } => at,
        }
    }
}

/// One mount of the cell.
pub(crate) struct Mount {
    pub(crate) source: Source,
    pub(crate) at: Place,
    pub(crate) kind: Kind,
    pub(crate) attributes: MountAttrFlags,
    /// Without this source or without this place the cell is not built. Otherwise the step is left out: what is
    /// to be hidden does not exist, or what is to be shown is an extra.
    pub(crate) required: bool,
    /// The mount point is made where it is missing.
    pub(crate) make_point: bool,
    /// Where the process notes the descriptor of what it took from the old root; negative until then.
    pub(crate) tree: RawFd,
}

/// Where a mounted tree comes from.
pub(crate) enum Source {
    /// A path of the host, with everything mounted below it.
    Host(CString),
    /// A tree that the caller has prepared.
    Handed(RawFd),
    /// A path of the cell, with everything mounted below it.
    Inside(CString),
    /// A new file system in memory.
    Memory { size: CString, mode: CString },
    /// An overlay of what is at [`LOWER`] in the cell, with these folders of the cell for the changes, escaped as its
    /// options are.
    Overlay { upper: CString, work: CString },
    /// The process table of the cell alone.
    Processes,
    /// Pseudo-terminals of the cell alone.
    Terminals,
}

/// Where the lower folder of an overlay is; nothing in the finished cell gets there.
pub(crate) const LOWER: &CStr = c"/.cell/overlay/lower";

/// What a mount point is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Folder,
    File,
}

/// An absolute path in the cell, in the parts that are walked one by one without following a link.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// The same for the kernel.
    pub(crate) full: CString,
    /// All parts but the last.
    pub(crate) parents: Vec<CString>,
    pub(crate) name: CString,
}

impl Place {
    /// Fails if the path is not absolute, is the root, or has `.`, `..` or a NUL byte in it.
    pub(crate) fn new(path: &Path) -> Result<Self, SandboxError> {
        let mut parents = Vec::new();
        for component in path.components() {
            match component {
                Component::RootDir => {}
                Component::Normal(part) => parents.push(c_string("path", part)?),
                Component::CurDir | Component::ParentDir | Component::Prefix(_) => {
                    return Err(not_plain(path));
                }
            }
        }
        let name = parents.pop().filter(|_| path.is_absolute()).ok_or_else(|| not_plain(path))?;
        Ok(Self { path: path.to_owned(), full: c_string("path", path)?, parents, name })
    }
}

fn not_plain(path: &Path) -> SandboxError {
    SandboxError::Invalid {
        field: "path",
        reason: format!("`{}` is not an absolute path below the root without `.` and `..`", path.display()),
    }
}

/// The text as the kernel takes it; `field` names it in the error when it holds a NUL byte.
pub(crate) fn c_string(field: &'static str, text: impl AsRef<OsStr>) -> Result<CString, SandboxError> {
    CString::new(text.as_ref().as_bytes())
        .map_err(|_| SandboxError::Invalid { field, reason: "it holds a NUL byte".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_splits_an_absolute_path() {
        let place = Place::new(Path::new("/a/b/c")).unwrap();
        assert_eq!(place.parents, [c"a".to_owned(), c"b".to_owned()]);
        assert_eq!(place.name, c"c".to_owned());
    }

    #[test]
    fn place_refuses_what_could_lead_elsewhere() {
        for path in ["relative", "/", "", "/a/../b", "/a\0b"] {
            assert!(Place::new(Path::new(path)).is_err(), "{path:?}");
        }
    }
}
