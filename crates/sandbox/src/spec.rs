//! A caller's description of a cell and of the command in it: plain data. The live parts that a cell
//! stands on are in [`CellHost`](crate::CellHost).

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::path::PathBuf;

use crate::limits::values::Limits;

/// The content and settings of a cell, made once for each call.
///
/// Besides the paths named here, a cell shows the system folders (`/usr`, `/etc`, `/opt`, ...)
/// read-only, safe devices, and private, initially empty folders in memory.
///
/// A root is shown at the given path, and also at its resolved path if the two differ. A root that
/// is named several times gets the fewest of the named rights. Set-user-id bits and device files
/// have no effect on any visible mount.
#[derive(Clone, Debug, Default)]
pub struct CellSpec {
    /// Path of the workspace, absolute; shown read-write.
    pub workspace: PathBuf,
    /// Further roots, absolute; shown read-only.
    pub read_only: Vec<PathBuf>,
    /// Folders and files of toolchains, absolute; shown read-only. A command of root can access in
    /// each the files that every user of the host can access, unless the root itself is closed to
    /// others.
    pub toolchains: Vec<PathBuf>,
    /// Links of the host, with their texts, so that names lead to toolchains as on the host. A link
    /// is left out where the cell shows the host's files, has files of its own, or mounts something
    /// below the name of the link.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Files and folders of the system and of toolchains whose content must be hidden, like that of
    /// `masked`. A waiting cell covers them before its call comes, so their number costs the call
    /// no time.
    pub covered: Vec<PathBuf>,
    /// Further roots, absolute; shown read-write.
    pub read_write: Vec<PathBuf>,
    /// Files and folders below a visible root whose content must be hidden: each is covered by an
    /// empty, unreadable one. A path that does not exist when the cell is built is not covered.
    pub masked: Vec<PathBuf>,
    /// Placeholders for some of the masked files in a workspace behind an overlay, so that the
    /// command can remove them. Without an overlay, or if a placeholder cannot be made, a mask
    /// covers the file instead.
    ///
    /// The key is the path of the masked file. The folder of each file is copied up, and keeps its
    /// modification time.
    pub placeholders: BTreeMap<PathBuf, Placeholder>,
    /// Files and folders below a writable root that must be read-only and stay in place: a process
    /// of the cell can rename or remove neither them nor a folder above them.
    pub frozen: Vec<PathBuf>,
    /// Further files and folders to freeze, if the command would write to them directly: paths in a
    /// workspace behind an overlay are skipped. A cell without namespaces skips all of them,
    /// because Landlock would then refuse new files next to them.
    pub frozen_where_direct: Vec<PathBuf>,
    /// Folders in which programs are searched, as in `PATH`; if empty, the usual ones of the
    /// system.
    pub search_path: Vec<PathBuf>,
    /// Additional environment variables. The environment is otherwise built from scratch: `PATH`,
    /// `HOME`, `USER`, `LOGNAME`, `SHELL`, `LANG`, `TERM`, `TMPDIR` and `PWD`. A variable given
    /// here replaces the one of that name.
    pub environment: BTreeMap<OsString, OsString>,
    /// Small files for the cell's private home folder, which is in memory and disappears with the
    /// cell: a path relative to the home, and the content.
    pub home_files: Vec<(PathBuf, Vec<u8>)>,
    /// Folder for output that exceeds the memory buffers, in files without a name.
    pub spool_directory: PathBuf,
    /// Maximum number of bytes of each stream that are stored on disk. Further bytes are counted
    /// and dropped; the command never waits for the disk.
    pub output_limit: u64,
    /// Folders that receive changes of the workspace; with `None` the command writes to the
    /// workspace directly.
    pub overlay: Option<Overlay>,
    /// True if the command may change only the overlay. A workspace that contains a mount, which
    /// the command would write to directly, is refused. The caller must not add other writable
    /// roots.
    pub overlay_only: bool,
    /// True if the command must leave no lasting changes: the roots of `read_write` are shown
    /// read-only and the kept home is not used. Without an overlay, which the caller then discards,
    /// the workspace is read-only too.
    pub reads_only: bool,
    /// Limits of the command.
    pub limits: Limits,
    /// True to refuse if the machine cannot enforce a limit exactly, or lacks another feature of a
    /// cell.
    pub strict: bool,
    /// Size of a new terminal, which then serves as standard descriptors and controlling terminal
    /// of the command; its output is then one stream. It is never an existing terminal of the host.
    pub terminal: Option<TerminalSize>,
}

/// A file in the upper folder of an overlay that hides the file of the same name below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// Name of an extended attribute of the placeholder, in the namespace `user.overlay.`, which a
    /// command can neither see nor change. The attribute stays with the file under every name.
    pub mark: CString,
    /// Content of the placeholder.
    pub content: Vec<u8>,
    /// Permission bits of the placeholder, which belongs to the command's user.
    pub mode: u32,
}

/// Two empty folders of the host, next to each other, for one call.
///
/// Both must lie in a folder that serves only them, belongs to the caller and is closed to other
/// users (mode 0700). As root, [`run`](crate::run) gives that folder and both of them to the
/// workspace's owner; then the folder around that one must keep the owner out. The upper folder
/// gets the mode, times and extended attributes of the workspace, which it stands for.
///
/// A workspace behind an overlay differs in a few points. `rename(2)` of a folder that existed
/// before fails with `EXDEV`, and a file with two names becomes two files when one is changed. In
/// the workspace of an ordinary user, a file of another owner or group cannot be changed
/// (`EOVERFLOW`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Folder that receives the changes: new and changed files as a whole, and marks for deleted
    /// ones. After [`run`](crate::run) has returned an outcome, the folder no longer changes.
    pub upper: PathBuf,
    /// Work folder of the kernel, of no use afterwards. It contains folders that no user may read,
    /// so an ordinary user must change their mode to remove them.
    pub work: PathBuf,
}

/// The arguments with which this program is started again, so that it calls [`enter`](crate::enter)
/// at once and with one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments of the program. The number for [`enter`](crate::enter) follows them.
    pub arguments: Vec<OsString>,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters per line.
    pub columns: u16,
    /// Number of lines.
    pub rows: u16,
}

impl Default for TerminalSize {
    /// Returns 80 by 24, the size of the terminal that all others imitate.
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

/// A command to run in a cell. In [`run`](crate::run) its standard input is empty.
#[derive(Clone, Debug)]
pub struct Command {
    /// Program to run.
    pub program: Program,
    /// Working directory, as a path in the cell.
    pub working_directory: PathBuf,
}

/// The program of a command.
#[derive(Clone, Debug)]
pub enum Program {
    /// A line for the shell: `bash -c` if the system has bash in `/bin` or `/usr/bin`, otherwise
    /// `/bin/sh -c`. [`shell`](crate::shell) returns the shell in use.
    Shell(String),
    /// A program and its arguments. A program without a slash is searched in the search path.
    Argv(Vec<OsString>),
}
