//! Detection of a terminal program that waits for keyboard input, from outside through `/proc`.
//!
//! The answer describes one moment: the system call in which each thread sleeps, and the
//! descriptors that the call waits for. If the kernel does not show the call, the answer is no.

use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};

use rustix::termios::tcgetpgrp;

/// Maximum number of processes of a cell that are examined.
const MAX_PROCESSES: usize = 512;
/// Maximum number of entries of one set of descriptors that are examined.
const MAX_WAITED_FOR: u64 = 64;
/// Device number of `/dev/tty`; the majors of `/dev/pts` follow (admin-guide/devices.txt).
const OWN_TERMINAL: (u32, u32) = (5, 0);
const TERMINAL_MAJORS: std::ops::RangeInclusive<u32> = 136..=143;

/// Returns true if a process of the terminal's foreground group waits for input, and every other
/// process of the group sleeps. `terminal` is the master side of the terminal, `first` the first
/// process of its cell.
pub(crate) fn waits_for_input(terminal: BorrowedFd<'_>, first: i32) -> bool {
    let Ok(group) = tcgetpgrp(terminal) else { return false };
    let group = group.as_raw_nonzero().get();
    let mut waits = false;
    for pid in descendants(first, MAX_PROCESSES) {
        if group_of(pid) != Some(group) {
            continue;
        }
        match attention(pid) {
            Attention::Input => waits = true,
            Attention::Elsewhere => {}
            Attention::Busy => return false,
        }
    }
    waits
}

enum Attention {
    /// A thread sleeps until a terminal has input.
    Input,
    /// All threads sleep for another reason.
    Elsewhere,
    /// A thread runs, or cannot be examined.
    Busy,
}

fn attention(pid: i32) -> Attention {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Attention::Busy };
    let mut found = Attention::Elsewhere;
    for thread in threads.flatten() {
        let Ok(shown) = fs::read_to_string(thread.path().join("syscall")) else { return Attention::Busy };
        let Some(call) = Call::read(&shown) else { return Attention::Busy };
        if call.waits_for_a_terminal(pid) {
            found = Attention::Input;
        }
    }
    found
}

/// A system call in which a thread sleeps.
struct Call {
    number: i64,
    arguments: [u64; 6],
}

impl Call {
    /// Parses `/proc/PID/syscall` (`proc_pid_syscall(5)`). Returns `None` for a running thread.
    fn read(shown: &str) -> Option<Self> {
        let mut words = shown.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut arguments = [0; 6];
        // A thread that sleeps outside of a call has the number -1 and no arguments.
        for (argument, word) in arguments.iter_mut().zip(words) {
            *argument = u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()?;
        }
        Some(Self { number, arguments })
    }

    fn waits_for_a_terminal(&self, pid: i32) -> bool {
        let [first, second, ..] = self.arguments;
        match self.number {
            libc::SYS_read | libc::SYS_readv => is_terminal(pid, first),
            libc::SYS_ppoll => polls_terminal(pid, first, second),
            libc::SYS_pselect6 => selects_terminal(pid, first, second),
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => watches_terminal(pid, first),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => polls_terminal(pid, first, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => selects_terminal(pid, first, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => watches_terminal(pid, first),
            _ => false,
        }
    }
}

fn is_terminal(pid: i32, descriptor: u64) -> bool {
    let Ok(metadata) = fs::metadata(format!("/proc/{pid}/fd/{descriptor}")) else { return false };
    let device = metadata.rdev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    metadata.file_type().is_char_device()
        && (TERMINAL_MAJORS.contains(&major) || (major, minor) == OWN_TERMINAL)
}

/// Reads `struct pollfd` of poll.h: a descriptor, the requested events, the returned events.
fn polls_terminal(pid: i32, address: u64, count: u64) -> bool {
    let mut set = vec![0; memory_size(count.min(MAX_WAITED_FOR) * 8)];
    read_memory(pid, address, &mut set)
        && set.chunks_exact(8).any(|entry| {
            let (descriptor, events) = (&entry[..4], &entry[4..6]);
            let waits_to_read = events.first().is_some_and(|bits| bits & 1 != 0);
            let descriptor = descriptor.try_into().map_or(-1, i32::from_ne_bytes);
            waits_to_read && u64::try_from(descriptor).is_ok_and(|descriptor| is_terminal(pid, descriptor))
        })
}

/// Reads an `fd_set`: one bit for each descriptor.
fn selects_terminal(pid: i32, count: u64, address: u64) -> bool {
    let count = count.min(MAX_WAITED_FOR);
    let mut set = vec![0; memory_size(count.div_ceil(8))];
    address != 0
        && read_memory(pid, address, &mut set)
        && (0..count).any(|descriptor| {
            let byte = set.get(memory_size(descriptor / 8)).copied().unwrap_or_default();
            byte >> (descriptor % 8) & 1 == 1 && is_terminal(pid, descriptor)
        })
}

/// Reads the descriptors that an epoll instance watches from its `fdinfo`, one a line.
fn watches_terminal(pid: i32, descriptor: u64) -> bool {
    let information = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
    let watched = information.lines().filter_map(|line| line.strip_prefix("tfd:"));
    let mut watched = watched.filter_map(|rest| rest.split_whitespace().next()?.parse().ok());
    watched.any(|watched| is_terminal(pid, watched))
}

/// Converts a size that is bounded far below the address space of any machine.
fn memory_size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or_default()
}

fn read_memory(pid: i32, address: u64, into: &mut [u8]) -> bool {
    fs::File::open(format!("/proc/{pid}/mem")).is_ok_and(|memory| memory.read_exact_at(into, address).is_ok())
}

/// Returns the process and its current descendants, at most about `most` of them.
pub(crate) fn descendants(first: i32, most: usize) -> Vec<i32> {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(&pid) = found.get(next).filter(|_| found.len() < most) {
        next += 1;
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    found
}

/// Returns the process group, the fifth field of `/proc/PID/stat`. The second field, in
/// parentheses, may contain any character.
fn group_of(pid: i32) -> Option<i32> {
    let shown = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = shown.rsplit_once(')')?;
    rest.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_the_kernel_shows_it() {
        let call = Call::read("0 0x3 0x7f 0x10 0x0 0x0 0x0 0x7ffe 0x7f12\n").unwrap();
        assert_eq!((call.number, call.arguments), (0, [3, 0x7f, 0x10, 0, 0, 0]));
        assert!(Call::read("running\n").is_none() && Call::read("").is_none());
        assert_eq!(Call::read("-1 0x7ffe 0x7f12").unwrap().number, -1);
    }

    #[test]
    fn this_process_is_in_the_group_that_the_kernel_says() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(group_of(own), Some(rustix::process::getpgrp().as_raw_nonzero().get()));
        assert!(descendants(own, MAX_PROCESSES).contains(&own));
    }
}
