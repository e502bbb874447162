//! What a caller says about a cell and the command in it.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use crate::home::KeptHome;
use crate::late::LateMasks;
use crate::limits::{Limits, ProcessTotal};
use crate::network::{Network, SessionNetwork};
use crate::spawner::Spawner;

/// What a cell shows and how it is set up; made once a call.
///
/// Beside what is named here a cell shows the system folders (`/usr`, `/etc`, `/opt`, ...) read-only, devices
/// that are safe, and empty folders of its own in memory.
///
/// A root is shown at the path given, and at its resolved path too where the two differ.
/// A root that is named several times gets the fewest rights named. Everything shown is without effect of
/// set-user-id bits and device files.
#[derive(Clone, Debug, Default)]
pub struct CellSpec {
    /// The workspace, absolute; shown read-write.
    pub workspace: PathBuf,
    /// Further roots, absolute; shown read-only.
    pub read_only: Vec<PathBuf>,
    /// Folders and files of toolchains, absolute; shown read-only. A command of root reaches in each what every user of the
    /// host may reach, unless the root itself is closed to others.
    pub toolchains: Vec<PathBuf>,
    /// Files and folders of the system and of toolchains whose content must be absent, as that of `masked`. A waiting cell
    /// covers them before its call comes, so their number costs the call nothing.
    pub covered: Vec<PathBuf>,
    /// Further roots, absolute; shown read-write.
    pub read_write: Vec<PathBuf>,
    /// Files and folders below a shown root whose content must be absent: each is covered by an empty, unreadable
    /// one. What does not exist when the cell is built is not covered.
    pub masked: Vec<PathBuf>,
    /// What stands in the place of some of the masked files where the workspace is seen through an overlay, so that the
    /// command can remove them. Without an overlay, and where one cannot be put there, a mask covers the file instead.
    ///
    /// By the path of the masked file. The folder around each is copied up, and keeps its modification time.
    pub placeholders: BTreeMap<PathBuf, Placeholder>,
    /// Files and folders below a writable root that must be read-only, and stay where they are: neither they nor
    /// a folder above them can be renamed or removed from inside.
    pub frozen: Vec<PathBuf>,
    /// The same for what the command would write to at once: whatever lies in the workspace is left out where that is seen
    /// through an overlay. A cell without namespaces leaves out all, because nothing could be added beside such a file there.
    pub frozen_where_direct: Vec<PathBuf>,
    /// The folders that programs are looked for in, as `PATH`; when empty, the usual ones of the system.
    pub search_path: Vec<PathBuf>,
    /// What is added to the environment, which is otherwise built from nothing: `PATH`, `HOME`, `USER`,
    /// `LOGNAME`, `SHELL`, `LANG`, `TERM`, `TMPDIR` and `PWD`. A name of this list given here replaces its value.
    pub environment: BTreeMap<OsString, OsString>,
    /// Small files for the cell's private home folder, which is in memory and gone with the cell: a path relative
    /// to it, and the content.
    pub home_files: Vec<(PathBuf, Vec<u8>)>,
    /// What keeps the caches of the home from one cell to the next. Without one, or where it cannot be shown, they are in
    /// memory like the rest.
    pub kept_home: Option<Arc<KeptHome>>,
    /// Where output that outgrows memory goes, into files without a name.
    pub spool_directory: PathBuf,
    /// How many bytes of each stream are kept on disk. What comes after is counted and dropped; the command is
    /// never made to wait for it.
    pub output_limit: u64,
    /// Where changes of the workspace go instead of into the workspace; `None` lets the command write to it directly.
    pub overlay: Option<Overlay>,
    /// The command may change nothing but the overlay: where there is something mounted in the workspace, which it would
    /// write to directly, it is refused. Other roots that it may write to are the caller's to leave out.
    pub overlay_only: bool,
    /// The command may change nothing that outlives it: what is `read_write` is shown read-only, `kept_home` is not used, and
    /// without an overlay, which its caller then throws away, the workspace is read-only too.
    pub reads_only: bool,
    /// What the command may use.
    pub limits: Limits,
    /// Counter of the processes of all cells that [`Limits::process_count`] counts together. Without one each cell counts alone.
    pub process_total: Option<Arc<ProcessTotal>>,
    /// Whether to refuse where the machine cannot hold a limit exactly, or lacks anything else that a cell has.
    pub strict: bool,
    /// With a size, the command's standard descriptors are a terminal of the cell's own, which is also its
    /// controlling one; its output is then one stream. Never a terminal of the host.
    pub terminal: Option<TerminalSize>,
    /// What covers further files while the command runs. One for each cell.
    pub late_masks: Option<Arc<LateMasks>>,
    /// How a cell begins that the system's bwrap makes, where this program may not. Without it no cell is made so.
    pub entrance: Option<Entrance>,
    /// Where waiting cells come from. Without one, or where it has none that suits, a cell is made by this process.
    pub spawner: Option<Arc<Spawner>>,
    /// The network of the cell, in place of the spawner's. The cells that wait are in that one, so none of them is used.
    pub network: Option<SessionNetwork>,
    /// Whether somebody takes connections at the [`Doors`](crate::Doors) of the network that it shares.
    pub has_doors: bool,
}

impl CellSpec {
    /// The caches of the home that the command may change.
    pub(crate) fn shared_home(&self) -> Option<&Arc<KeptHome>> {
        self.kept_home.as_ref().filter(|_| !self.reads_only)
    }

    /// The network that the cell shares with others. A spawner's is that of all cells that name it, also of those that it did not
    /// make.
    pub(crate) fn shared_network(&self) -> Option<&Network> {
        let of_spawner = || self.spawner.as_ref().and_then(|spawner| spawner.network());
        self.network.as_ref().map(SessionNetwork::network).or_else(of_spawner)
    }
}

/// A file in the upper folder of an overlay, in the place of one below that is out of reach by that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// The extended attribute that it has there, from the namespace `user.overlay.`, of which a command neither sees nor
    /// changes anything. It stays with the file under whatever name.
    pub mark: CString,
    /// Its content.
    pub content: Vec<u8>,
    /// Its permission bits. It belongs to the command's user.
    pub mode: u32,
}

/// Two empty folders of the host beside each other, for one call.
///
/// Both lie in a folder that is there for them alone, belongs to the caller and is closed to everybody else
/// (mode 0700). As root [`run`](crate::run) gives that folder and both of them to the workspace's owner: it is the
/// folder around it that keeps that user out.
/// The upper folder gets the mode, times and extended attributes of the workspace, which it stands for.
///
/// What the workspace does not do on an overlay: `rename(2)` of a folder that was there before is `EXDEV`; a file with
/// two names becomes two when one is changed; and in the workspace of an ordinary user a file of another owner or
/// group cannot be changed (`EOVERFLOW`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// What receives the changes: what is new or changed, whole, and marks for what is gone. When
    /// [`run`](crate::run) has returned an outcome it does not change any more.
    pub upper: PathBuf,
    /// What the kernel needs beside it. Of no use afterwards; it holds folders that nobody may read, so their mode
    /// must be changed before an ordinary user can remove them.
    pub work: PathBuf,
}

/// How this program is started again so that it calls [`enter`](crate::enter), first thing and with one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// Its absolute path.
    pub program: PathBuf,
    /// Its arguments. The number that [`enter`](crate::enter) takes comes behind them.
    pub arguments: Vec<OsString>,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

impl Default for TerminalSize {
    /// 80 by 24, that of the terminal which all others imitate.
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

/// What is run in a cell. [`run`](crate::run) gives it nothing on standard input.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program.
    pub program: Program,
    /// Where it starts, as a path in the cell.
    pub working_directory: PathBuf,
}

/// The program of a command.
#[derive(Clone, Debug)]
pub enum Program {
    /// A line for the shell: `bash -c` where the system has bash in `/bin` or `/usr/bin`, otherwise `/bin/sh -c`.
    /// [`shell`](crate::shell) says which.
    Shell(String),
    /// A program and its arguments. A program without a slash is looked for in the search path.
    Argv(Vec<OsString>),
}
