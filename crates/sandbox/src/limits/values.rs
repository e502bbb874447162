//! Limits as data: those that a caller asks for, and those in force.

use std::fmt;

use serde::Serialize;

/// Limits for one command and its descendants. A field that is `None` takes the built-in value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes of all processes of the cell together: private memory, shared memory, and
    /// files in memory (`/tmp`, `/dev/shm`, memfd). Built-in value: half of the machine's memory,
    /// or of the limit of this process's control group.
    pub memory: Option<u64>,
    /// Private memory in bytes of one process; shared memory is not counted. The kernel refuses
    /// allocations above it. Built-in value: none.
    pub process_memory: Option<u64>,
    /// Processor time, in cores. Built-in value: all.
    pub cpus: Option<u64>,
    /// Maximum number of processes and threads at once. Built-in value: 512.
    pub processes: Option<u64>,
    /// Maximum number of processes at once, not counting their threads, of all cells that share a
    /// [`ProcessTotal`]. The kernel has no counter for that, so the watchdog counts. Built-in value: none.
    pub process_count: Option<u64>,
    /// Maximum number of open files of one process; never more than this process may have. Built-in
    /// value: 65,536.
    pub open_files: Option<u64>,
    /// Maximum size of one file in bytes. Built-in value: none.
    pub file_size: Option<u64>,
    /// Maximum number of bytes written to disks in total. Built-in value: none; then the command's
    /// files may take half of the disk space that is free at its start, see [`Limit::DiskSpace`].
    pub disk: Option<u64>,
}

/// The resource that a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// [`Limits::memory`].
    Memory,
    /// [`Limits::process_memory`].
    ProcessMemory,
    /// [`Limits::cpus`].
    Cpus,
    /// [`Limits::processes`].
    Processes,
    /// [`Limits::process_count`].
    ProcessCount,
    /// [`Limits::open_files`].
    OpenFiles,
    /// [`Limits::file_size`].
    FileSize,
    /// [`Limits::disk`].
    Disk,
    /// Disk space taken by the command's files at a time, if [`Limits::disk`] is not given.
    DiskSpace,
}

impl Limit {
    /// Returns the name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::ProcessMemory => "process_memory",
            Self::Cpus => "cpus",
            Self::Processes => "processes",
            Self::ProcessCount => "process_count",
            Self::OpenFiles => "open_files",
            Self::FileSize => "file_size",
            Self::Disk => "disk",
            Self::DiskSpace => "disk_space",
        }
    }
}

/// The layer that enforces a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// A control group of the unified hierarchy (version 2).
    CgroupV2,
    /// A control group in the hierarchy of one controller (version 1).
    CgroupV1,
    /// A kernel limit on each process, or on the cell's only user.
    Rlimit,
    /// The processors on which the command starts. The command could choose others.
    Affinity,
    /// Sampling: the usage is measured several times a second, and excessive usage kills the cell.
    /// Memory that is allocated and freed between two samples is not seen.
    Watchdog,
}

impl Layer {
    /// Returns the name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup_v2",
            Self::CgroupV1 => "cgroup_v1",
            Self::Rlimit => "rlimit",
            Self::Affinity => "affinity",
            Self::Watchdog => "watchdog",
        }
    }

    /// Returns true if the kernel enforces the limit against every command.
    pub fn is_exact(self) -> bool {
        !matches!(self, Self::Affinity | Self::Watchdog)
    }
}

/// A limit with its value and the layer that enforces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LimitInForce {
    /// Limited resource.
    pub limit: Limit,
    /// Value of the limit: bytes, cores, or a number.
    pub value: u64,
    /// Layer that enforces the limit.
    pub layer: Layer,
}

/// The limits of one cell, with the built-in values filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) memory: u64,
    pub(super) process_memory: Option<u64>,
    /// Processor cores; `None` if the limit would have no effect on this machine.
    pub(crate) cpus: Option<u64>,
    pub(crate) processes: u64,
    pub(super) process_count: Option<u64>,
    pub(super) open_files: u64,
    pub(super) file_size: Option<u64>,
    pub(crate) disk: Option<u64>,
}

impl fmt::Display for LimitInForce {
    /// Writes a text such as `limit of 512 MiB on memory`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.limit {
            Limit::Memory => "memory",
            Limit::ProcessMemory => "the memory of a process",
            Limit::Cpus => "processor cores",
            Limit::Processes => "processes and threads",
            Limit::ProcessCount => "processes",
            Limit::OpenFiles => "open files of a process",
            Limit::FileSize => "the size of a file",
            Limit::Disk => "disk writes",
            Limit::DiskSpace => "its disk space: half of the free space at its start",
        };
        let in_bytes =
            !matches!(self.limit, Limit::Cpus | Limit::Processes | Limit::ProcessCount | Limit::OpenFiles);
        write!(formatter, "limit of ")?;
        match self.value {
            bytes if in_bytes && bytes % (1 << 20) == 0 => write!(formatter, "{} MiB", bytes >> 20)?,
            bytes if in_bytes => write!(formatter, "{bytes} bytes")?,
            count => write!(formatter, "{count}")?,
        }
        write!(formatter, " on {what}")
    }
}
