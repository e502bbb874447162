//! Resources of the machine, as far as limits depend on them. They are determined once.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};
use rustix::system::uname;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::cgroup;

/// First kernel version that counts a user's processes by user namespace, so that a limit set in a
/// cell counts only the processes of that cell.
const COUNTS_BY_NAMESPACE: (u32, u32) = (5, 14);

/// Assumed memory in bytes if the machine does not report its size.
const UNKNOWN_MEMORY: u64 = 2 << 30;

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Memory in bytes: the machine's, or the limit of this process's control group, if that is
    /// lower.
    pub(crate) memory: u64,
    /// Number of processors that this process may use.
    pub(crate) processors: u64,
    /// Numbers of these processors.
    pub(crate) allowed: Vec<u64>,
    pub(crate) open_files: OpenFiles,
    /// Maximum number of processes of this process's user.
    pub(crate) most_processes: u64,
    pub(crate) counts_processes_by_namespace: bool,
}

/// Limits on the open files of a process of this program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFiles {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

impl Machine {
    pub(crate) fn this() -> &'static Self {
        static THIS: OnceLock<Machine> = OnceLock::new();
        THIS.get_or_init(Self::look)
    }

    fn look() -> Self {
        let allowed = allowed_processors();
        let open_files = getrlimit(Resource::Nofile);
        let installed = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
        let of_group = cgroup::memory_of_own_group();
        Self {
            memory: installed.unwrap_or(UNKNOWN_MEMORY).min(of_group.unwrap_or(u64::MAX)),
            processors: (allowed.len() as u64).max(1),
            allowed,
            open_files: OpenFiles {
                soft: open_files.current.unwrap_or(u64::MAX),
                hard: open_files.maximum.unwrap_or(u64::MAX),
            },
            most_processes: getrlimit(Resource::Nproc).maximum.unwrap_or(u64::MAX),
            counts_processes_by_namespace: uname()
                .release()
                .to_str()
                .is_ok_and(|release| version(release) >= COUNTS_BY_NAMESPACE),
        }
    }

    /// Returns `count` of the allowed processors. Each call starts at a different one, so that
    /// cells do not share one while others are idle.
    pub(crate) fn some_processors(&self, count: u64) -> Vec<u64> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.allowed.len());
        let first = NEXT.fetch_add(count, Ordering::Relaxed);
        (0..count)
            .filter_map(|offset| self.allowed.get(first.wrapping_add(offset) % self.allowed.len()).copied())
            .collect()
    }
}

/// Returns the current number of processes and threads of all users. If the machine does not report
/// it, returns the kernel's default maximum.
pub(crate) fn processes_now() -> u64 {
    /// `PID_MAX_DEFAULT` of linux/threads.h.
    const MOST: u64 = 0x8000;
    fs::read_to_string("/proc/loadavg").ok().and_then(|text| running(&text)).unwrap_or(MOST)
}

fn allowed_processors() -> Vec<u64> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).map(|number| number as u64).collect()
}

/// Parses the number after the slash in a line such as `0.20 0.18 0.12 1/80 11206`.
fn running(loadavg: &str) -> Option<u64> {
    loadavg.split_whitespace().find_map(|word| word.split_once('/')?.1.parse().ok())
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_kernel_are_understood() {
        assert_eq!(total_memory("MemTotal:       24684032 kB\nMemFree: 1 kB\n"), Some(24_684_032 * 1024));
        assert_eq!(total_memory("nonsense"), None);
        assert_eq!(running("0.20 0.18 0.12 1/80 11206\n"), Some(80));
        assert_eq!(running(""), None);
        assert_eq!(version("6.18.44-fc-v595"), (6, 18));
        assert_eq!(version("5.4.0-generic"), (5, 4));
        assert_eq!(version("rolling"), (0, 0));
        assert!(version("5.10.1") < COUNTS_BY_NAMESPACE && version("5.14") >= COUNTS_BY_NAMESPACE);
    }

    #[test]
    fn processors_are_handed_out_in_turn_and_no_more_than_there_are() {
        let this = Machine::this();
        assert!(this.memory > 0 && !this.allowed.is_empty());
        let machine = Machine { allowed: vec![3, 5, 9], ..this.clone() };
        let mut seen: Vec<_> = (0..3).flat_map(|_| machine.some_processors(1)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [3, 5, 9]);
        assert_eq!(machine.some_processors(7).len(), 3);
    }
}
