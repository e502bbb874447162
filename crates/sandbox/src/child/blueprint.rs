//! Input of the new process, made by the caller before the process starts. The process only reads
//! it (and stores descriptors in fields meant for that), because it cannot allocate.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::mount::MountAttrFlags;
use seccompiler::sock_filter;

use crate::error::SandboxError;
use crate::spec::TerminalSize;
use crate::sys::StringArray;

/// User and group id of the command inside the cell.
///
/// Equal on every machine and for every caller, so that the command's view does not depend on the
/// user who started Handfast. Most systems and container images give 1000 to their first ordinary
/// user.
pub(crate) const INNER_ID: u32 = 1000;

/// The work of the new process, in the order of the fields.
pub(crate) struct Blueprint {
    /// Descriptors that stay open, in ascending order.
    pub(crate) keep: Vec<RawFd>,
    /// The process's end of the control socket.
    pub(crate) control: RawFd,
    pub(crate) standard: Standard,
    /// True if the caller's supplementary groups can be dropped, which needs privilege.
    pub(crate) drop_groups: bool,
    /// True if the process was started in a shared network namespace and has no separate one.
    pub(crate) shares_network: bool,
    /// The maps of users and groups, if the process must write them itself.
    pub(crate) own_map: Option<OwnMap>,
    /// Steps that build the file system, in order.
    pub(crate) steps: Vec<Step>,
    pub(crate) landlock: Option<Landlock>,
    pub(crate) filter: &'static [sock_filter],
    pub(crate) start: Start,
}

/// A map of users and one of groups, in the kernel's format.
pub(crate) struct OwnMap {
    pub(crate) users: Vec<u8>,
    pub(crate) groups: Vec<u8>,
}

/// The standard descriptors of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standard {
    /// An empty input and two output pipes.
    Outputs { stdout: RawFd, stderr: RawFd },
    /// An input pipe and one pipe for both outputs.
    Pipes { input: RawFd, output: RawFd },
    /// A terminal of the cell, which the command's process makes and hands to the caller.
    Terminal(TerminalSize),
    /// The command's side of a terminal that was made for the command.
    GivenTerminal(RawFd),
}

impl Standard {
    /// Returns the descriptors that it contains.
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
    /// Paths at which the program may be, tried in order.
    pub(crate) candidates: Vec<CString>,
    pub(crate) arguments: StringArray,
    pub(crate) environment: StringArray,
    /// Resource limits that the process sets for itself and its descendants.
    pub(crate) bounds: Vec<Bound>,
    /// Processors on which the process starts; empty for all.
    pub(crate) processors: Vec<u64>,
    /// True if the caller wants a report when the program runs.
    pub(crate) announced: bool,
    /// True if the caller gets the namespaces before the command starts.
    pub(crate) hands_over: bool,
}

/// A limit on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) resource: Resource,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// A resource that the kernel limits for a process or its user.
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

/// A Landlock ruleset that the caller has made, and the rules still to be added, whose paths exist
/// in the cell alone.
pub(crate) struct Landlock {
    pub(crate) ruleset: RawFd,
    pub(crate) rules: Vec<(CString, u64)>,
}

/// One step of building the file system inside the new root.
pub(crate) enum Step {
    /// Attaches a mount.
    Mount(Mount),
    /// Makes a symbolic link with the target `text`.
    Link { at: Place, text: CString },
    /// Makes a file that belongs to the cell.
    File { at: Place, content: Vec<u8>, mode: u32 },
    /// Makes a folder that belongs to the cell.
    Folder { at: Place, mode: u32 },
    /// Makes folders in an existing folder, accessible to their owner alone.
    Folders { at: Place, names: Vec<CString> },
    /// Replaces a file of an overlay by a placeholder, or covers the file if the overlay refuses
    /// that.
    Placeholder { at: Place, placeholder: Placeholder },
    /// Makes the mount at `at` read-only, after its content is in place.
    Seal { at: Place },
    /// Writes a kernel setting of the cell's namespaces. A kernel may lack the setting.
    Setting { at: Place, value: CString },
    /// Verifies the object at `at` in a file system that another program has built.
    Check { at: Place, is: ExpectedEntry },
}

/// A placeholder for a file, and the way in which it is made.
pub(crate) struct Placeholder {
    /// Folder of the file, as a path in the cell.
    pub(crate) folder: CString,
    /// Temporary name in that folder under which the placeholder is made.
    pub(crate) made_as: CString,
    /// Path of the placeholder in the upper folder of the overlay.
    pub(crate) upper: CString,
    /// Name of the extended attribute that marks a placeholder.
    pub(crate) mark: CString,
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
}

/// The object expected at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedEntry {
    /// A mount of exactly this object of the host.
    Same { device: u64, inode: u64, read_only: bool },
    /// A cover that hides the content.
    Hidden,
}

impl Step {
    /// Returns the path in the cell that the step affects.
    pub(crate) fn path(&self) -> &Path {
        &self.at().path
    }

    /// Returns that path with its components.
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
    /// True if a missing source or mount point fails the cell. Otherwise the step is skipped: the
    /// object to hide does not exist, or the object to show is optional.
    pub(crate) required: bool,
    /// True if a missing mount point is made.
    pub(crate) make_point: bool,
    /// Descriptor of the tree that the process took from the old root; negative until then.
    pub(crate) tree: RawFd,
}

/// The source of a mounted tree.
pub(crate) enum Source {
    /// A path of the host, with all mounts below it.
    Host(CString),
    /// A tree that the caller has prepared.
    Handed(RawFd),
    /// A path of the cell, with all mounts below it.
    Inside(CString),
    /// A new file system in memory.
    Memory { size: CString, mode: CString },
    /// An overlay of [`LOWER`] in the cell, with folders of the cell for the changes; their paths
    /// are escaped for the mount options.
    Overlay { upper: CString, work: CString },
    /// A process table limited to the cell.
    Processes,
    /// A pseudo-terminal file system limited to the cell.
    Terminals,
}

/// Path of the lower folder of an overlay, which no process of the finished cell can reach.
pub(crate) const LOWER: &CStr = c"/.cell/overlay/lower";

/// The kind of a mount point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Folder,
    File,
}

/// An absolute path in the cell, split into components that are walked one by one without following
/// a link.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// The full path for the kernel.
    pub(crate) full: CString,
    /// All components but the last.
    pub(crate) parents: Vec<CString>,
    pub(crate) name: CString,
}

impl Place {
    /// Splits an absolute path.
    ///
    /// # Errors
    /// [`SandboxError::Invalid`] if the path is not absolute, is the root, or contains `.`, `..` or
    /// a NUL byte.
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

/// Converts text to a C string. An error for a NUL byte names `field`.
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
