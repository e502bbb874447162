//! Sampling of a running cell from outside, several times a second, for limits that no other layer
//! on this machine enforces.
//!
//! The watchdog reads the information about each process that the kernel shows to every user, and
//! more about processes that permit inspection. It is not exact: it misses a memfd in transit
//! between two processes, and memory that comes and goes between two samples. It also misses System
//! V segments that are not attached; the system call filter limits their size.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{statfs, statvfs};

use super::space::Space;
use super::total::{CellCount, ProcessTotal};
use super::values::{Layer, Limit, LimitInForce};
use crate::enforcement::{Degraded, Enforcement};
use crate::system::HOME;

/// Delay of the first sample. Most commands end before this, and cost no sampling.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(100);
/// Inverse of the share of time that sampling may take, however many processes there are.
const SHARE: u32 = 20;
/// Longest pause between samples that count processes, which can become very many in that time.
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Folders of a cell that are in memory.
const IN_MEMORY: [&str; 4] = ["/tmp", "/dev/shm", "/var/tmp", HOME];

/// Watches one cell.
pub(crate) struct Watchdog {
    /// Id of the first process of the cell, which does not belong to the command.
    first: i32,
    memory: Option<LimitInForce>,
    disk: Option<LimitInForce>,
    processes: Option<LimitInForce>,
    process_count: Option<LimitInForce>,
    count: CellCount,
    /// Number of processes below the first one that do not belong to the command.
    ours: u64,
    /// True if the folders in memory belong to the cell. Without namespaces they are the host's.
    own_files: bool,
    next: Option<Instant>,
    written: DiskWrites,
    space: Space,
}

/// Bytes written to disks.
#[derive(Default)]
struct DiskWrites {
    /// Bytes written by reaped children of the first process, if that process does not show its own
    /// counter.
    gone: u64,
    /// Bytes written by the children of the first process, at the last sample.
    children: BTreeMap<i32, u64>,
}

impl Watchdog {
    /// Watches the cell of this first process for the limits that are left to the watchdog.
    pub(crate) fn over(
        first: i32,
        enforcement: &Enforcement,
        space: Space,
        total: Option<Arc<ProcessTotal>>,
        now: Instant,
    ) -> Self {
        let alone = enforcement.degraded == Some(Degraded::Landlock);
        // In a cell without namespaces, the first process has one further child that does not
        // belong to the command.
        let mut watchdog = Self::of(first, &enforcement.limits, !alone, alone.into(), now);
        if space.in_force().is_some() {
            watchdog.next = Some(now + FIRST_LOOK);
        }
        watchdog.space = space;
        watchdog.count = CellCount::new(total);
        watchdog
    }

    fn of(first: i32, in_force: &[LimitInForce], own_files: bool, ours: u64, now: Instant) -> Self {
        let of = |limit| {
            let is = |it: &&LimitInForce| it.limit == limit && it.layer == Layer::Watchdog;
            in_force.iter().find(is).copied()
        };
        let (memory, disk, processes) = (of(Limit::Memory), of(Limit::Disk), of(Limit::Processes));
        let process_count = of(Limit::ProcessCount);
        let next =
            [memory, disk, processes, process_count].iter().any(Option::is_some).then(|| now + FIRST_LOOK);
        Self {
            first,
            memory,
            disk,
            processes,
            process_count,
            count: CellCount::default(),
            ours,
            own_files,
            next,
            written: DiskWrites::default(),
            space: Space::default(),
        }
    }

    /// Returns the time of the next sample.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Takes a sample if it is time, and returns the exceeded limit.
    pub(crate) fn look(&mut self, now: Instant) -> Option<LimitInForce> {
        self.next.filter(|next| now >= *next)?;
        let space =
            self.space.exceeded(|device| deleted_on(device, &descendants(self.first, None).processes));
        if space.is_some() {
            return space;
        }
        let watched = [self.memory, self.disk, self.processes, self.process_count];
        if watched.iter().all(Option::is_none) {
            self.next = Some(Instant::now() + PAUSE);
            return None;
        }
        let most = self.processes.map(|limit| limit.value.saturating_add(self.ours));
        let ProcessList { processes, threads } = descendants(self.first, most);
        // Once there are too many, stop examining them.
        if let (Some(limit), Some(most)) = (self.processes, most)
            && threads > most
        {
            return Some(limit);
        }
        let count = u64::try_from(processes.len()).unwrap_or(u64::MAX).saturating_sub(self.ours);
        let in_all = self.process_count.map_or(0, |_| self.count.replace(count));
        if let Some(limit) = self.process_count.filter(|limit| in_all > limit.value) {
            return Some(limit);
        }
        let memory = self.memory.filter(|limit| uses_more(&processes, self.own_files, limit.value));
        let disk = self.disk.filter(|limit| self.written.total(self.first, &processes) > limit.value);
        let done = Instant::now();
        let pause = PAUSE.max(done.duration_since(now) * SHARE);
        let counts = self.processes.is_some() || self.process_count.is_some();
        self.next = Some(done + if counts { pause.min(LONGEST_PAUSE) } else { pause });
        memory.or(disk)
    }
}

/// Processes, with the total number of their threads.
#[derive(Default)]
struct ProcessList {
    processes: Vec<i32>,
    threads: u64,
}

/// Returns all processes below `first`, parents before children. Stops soon after `most` threads.
fn descendants(first: i32, most: Option<u64>) -> ProcessList {
    let mut found = ProcessList { processes: children(first).processes, threads: 0 };
    let mut next = 0;
    while let Some(process) = found.processes.get(next)
        && most.is_none_or(|most| found.threads <= most)
    {
        let below = children(*process);
        found.processes.extend(below.processes);
        // A zombie counts as well.
        found.threads += below.threads.max(1);
        next += 1;
    }
    found
}

/// Returns the children of a process, and the number of its threads.
fn children(process: i32) -> ProcessList {
    let mut found = ProcessList::default();
    // The kernel lists children with the thread that made them.
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        found.threads += 1;
        let listed = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.processes.extend(listed.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}

/// Returns true if the processes use more bytes of memory than `limit`.
fn uses_more(processes: &[i32], own_files: bool, limit: u64) -> bool {
    let files =
        processes.iter().filter(|_| own_files).find_map(|process| files_in_memory(*process)).unwrap_or(0);
    let files = files.saturating_add(files_without_name(processes));
    let mut quick = MemoryUse::default();
    for process in processes {
        quick.add(&MemoryUse::quickly(*process));
    }
    if quick.total(files) <= limit {
        return false;
    }
    // The quick count includes shared memory once for each process. The exact count takes longer.
    let mut exact = MemoryUse::default();
    for process in processes {
        exact.add(&MemoryUse::exactly(*process).unwrap_or_else(|| MemoryUse::quickly(*process)));
    }
    exact.total(files) > limit
}

/// Memory of processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemoryUse {
    own: u64,
    /// Mapped memory that is shared or part of a file in memory.
    shared: u64,
}

impl MemoryUse {
    fn quickly(process: i32) -> Self {
        Self::of_text(
            &fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default(),
            ["RssAnon:", "VmSwap:"],
            "RssShmem:",
        )
    }

    /// Counts each page divided by its number of users. Works only for processes that permit
    /// inspection.
    fn exactly(process: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        // Kernels before 5.4 report less.
        text.contains("Pss_Anon:").then(|| Self::of_text(&text, ["Pss_Anon:", "SwapPss:"], "Pss_Shmem:"))
    }

    fn of_text(text: &str, own: [&str; 2], shared: &str) -> Self {
        let bytes = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim().strip_suffix(" kB").and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) << 10
        };
        Self { own: own.map(bytes).into_iter().sum(), shared: bytes(shared) }
    }

    fn add(&mut self, other: &Self) {
        self.own = self.own.saturating_add(other.own);
        self.shared = self.shared.saturating_add(other.shared);
    }

    /// Returns the total with `files` bytes in files, some of which may be mapped: no command is
    /// killed for memory that may be counted twice.
    fn total(&self, files: u64) -> u64 {
        self.own.saturating_add(self.shared.max(files))
    }
}

/// Returns the bytes of the cell's files in memory, seen through one of its processes, if that
/// process permits inspection.
fn files_in_memory(process: i32) -> Option<u64> {
    let used = |folder: &str| {
        let found = statvfs(format!("/proc/{process}/root{folder}")).ok()?;
        Some(found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize))
    };
    IN_MEMORY.into_iter().map(used).sum()
}

/// Returns the bytes of the memfds that these processes have open, counting each once. Processes
/// that do not permit inspection are skipped.
fn files_without_name(processes: &[i32]) -> u64 {
    /// Unit of `st_blocks` in bytes, on every file system.
    const BLOCK: u64 = 512;
    let mut seen = BTreeSet::new();
    let mut bytes = 0_u64;
    for process in processes {
        for file in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
            let is_memfd = fs::read_link(file.path())
                .is_ok_and(|name| name.as_os_str().as_bytes().starts_with(b"/memfd:"));
            if is_memfd
                && let Ok(found) = fs::metadata(file.path())
                && seen.insert((found.dev(), found.ino()))
            {
                bytes = bytes.saturating_add(found.blocks().saturating_mul(BLOCK));
            }
        }
    }
    bytes
}

/// Returns the bytes of deleted files on a disk that these processes have open. Files of an overlay
/// count for every disk, because an overlay does not show the disk of its upper folder.
fn deleted_on(device: u64, processes: &[i32]) -> u64 {
    /// `OVERLAYFS_SUPER_MAGIC` of linux/magic.h.
    const OVERLAY: i64 = 0x794c_7630;
    const BLOCK: u64 = 512;
    let mut seen = BTreeSet::new();
    let mut bytes = 0_u64;
    for process in processes {
        for file in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
            let Ok(found) = fs::metadata(file.path()) else { continue };
            let lies_there =
                || found.dev() == device || statfs(file.path()).is_ok_and(|system| system.f_type == OVERLAY);
            if found.is_file()
                && found.nlink() == 0
                && lies_there()
                && seen.insert((found.dev(), found.ino()))
            {
                bytes = bytes.saturating_add(found.blocks().saturating_mul(BLOCK));
            }
        }
    }
    bytes
}

impl DiskWrites {
    /// Returns the bytes that all processes have written together.
    fn total(&mut self, first: i32, processes: &[i32]) -> u64 {
        // The process that reaped another one includes its count.
        let by_first = written_by(first);
        let mut sum = by_first.unwrap_or(0);
        let direct = children(first).processes;
        let mut seen = BTreeMap::new();
        for process in processes {
            let written = written_by(*process).unwrap_or(0);
            sum = sum.saturating_add(written);
            if direct.contains(process) {
                seen.insert(*process, written);
            }
        }
        let before = std::mem::replace(&mut self.children, seen);
        if by_first.is_none() {
            let gone = before.into_iter().filter(|(process, _)| !self.children.contains_key(process));
            self.gone = gone.fold(self.gone, |sum, (_, written)| sum.saturating_add(written));
        }
        sum.saturating_add(self.gone)
    }
}

/// Returns the bytes that a process and the children that it reaped have written to a disk.
fn written_by(process: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    let number =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(number("write_bytes:")?.saturating_sub(number("cancelled_write_bytes:").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_counts_once_and_never_beside_the_file_it_belongs_to() {
        let status = "VmSwap:\t       4 kB\nRssAnon:\t     100 kB\nRssFile:\t 9 kB\nRssShmem:\t      50 kB\n";
        let held = MemoryUse::of_text(status, ["RssAnon:", "VmSwap:"], "RssShmem:");
        assert_eq!(held, MemoryUse { own: 104 << 10, shared: 50 << 10 });
        assert_eq!(held.total(0), 154 << 10);
        assert_eq!(held.total(60 << 10), 164 << 10);
        assert_eq!(MemoryUse::of_text("", ["a", "b"], "c"), MemoryUse::default());
    }

    #[test]
    fn this_process_holds_something_and_both_ways_to_count_find_it() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(MemoryUse::quickly(own).own > 0);
        assert!(MemoryUse::exactly(own).unwrap().own > 0);
        assert!(written_by(own).is_some());
        assert!(
            uses_more(&[own], true, 1) && !uses_more(&[own], false, u64::MAX) && !uses_more(&[], true, 0)
        );
    }

    #[test]
    fn a_memfd_counts_once_with_what_was_written_to_it() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = files_without_name(&[own]);
        let file = rustix::fs::memfd_create(c"held", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let again = rustix::io::dup(&file).unwrap();
        let mut file = fs::File::from(file);
        std::io::Write::write_all(&mut file, &vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(files_without_name(&[own, own]) - before, 1 << 20);
        drop((file, again));
        assert_eq!(files_without_name(&[own]), before);
    }

    #[test]
    fn nothing_is_looked_at_when_other_layers_hold_the_limits_or_before_it_is_time() {
        let now = Instant::now();
        let limit = |layer| LimitInForce { limit: Limit::Memory, value: 0, layer };
        assert_eq!(Watchdog::of(1, &[limit(Layer::CgroupV1)], true, 0, now).next(), None);
        let mut watchdog = Watchdog::of(1, &[limit(Layer::Watchdog)], true, 0, now);
        assert_eq!((watchdog.next(), watchdog.look(now)), (Some(now + FIRST_LOOK), None));
    }
}
