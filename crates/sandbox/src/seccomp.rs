//! The system calls that a cell refuses.
//!
//! The filter is a list of refusals, because arbitrary tools run in a cell. It refuses calls that reach
//! outside: to other processes' memory, keys of the session, mounts, further namespaces, and files with the
//! rights of their owner. It also refuses large parts of the kernel that are seldom needed. Each filter is
//! compiled once.

mod alone;
mod new_files;
mod refusal;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is,
    SeccompCondition as Condition, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use crate::error::SandboxError;
use refusal::Refusal;

/// Maximum size of one System V segment, in bytes, if no control group counts segments that are not attached. A
/// namespace has room for 4,096 segments (`SHMMNI` of linux/shm.h), so all together have at most 64 MiB.
/// Programs exchange small data in a segment; a larger request gets the error of a kernel with a small
/// `shmmax`.
const LARGEST_SEGMENT: u64 = 16 * 1024;

/// Returns the filter of a cell with namespaces. `in_group` is true if a control group counts the cell's
/// memory.
pub(crate) fn filter(in_group: bool) -> Result<&'static [sock_filter], SandboxError> {
    static IN_GROUP: LazyLock<Result<BpfProgram, BackendError>> = LazyLock::new(|| assemble(refusals()?));
    static WATCHED: LazyLock<Result<BpfProgram, BackendError>> = LazyLock::new(|| {
        let mut refused = refusals()?;
        let large = Condition::new(1, Width::Qword, Is::Gt, LARGEST_SEGMENT)?;
        let when = vec![SeccompRule::new(vec![large])?];
        refused.insert(libc::SYS_shmget, Refusal { errno: libc::EINVAL, when });
        assemble(refused)
    });
    compiled(if in_group { &IN_GROUP } else { &WATCHED })
}

/// Returns the filter of a cell without namespaces.
pub(crate) fn filter_alone() -> Result<&'static [sock_filter], SandboxError> {
    static FILTER: LazyLock<Result<BpfProgram, BackendError>> = LazyLock::new(|| {
        let mut refused = refusals()?;
        alone::add(&mut refused)?;
        assemble(refused)
    });
    compiled(&FILTER)
}

/// Returns the filter of a cell without namespaces for a command that must not change any file: Landlock does
/// not restrict changes of modes, times and flags.
pub(crate) fn filter_reading() -> Result<&'static [sock_filter], SandboxError> {
    static FILTER: LazyLock<Result<BpfProgram, BackendError>> = LazyLock::new(|| {
        let mut refused = refusals()?;
        alone::add(&mut refused)?;
        alone::add_changes(&mut refused)?;
        assemble(refused)
    });
    compiled(&FILTER)
}

fn compiled(
    filter: &'static Result<BpfProgram, BackendError>,
) -> Result<&'static [sock_filter], SandboxError> {
    match filter {
        Ok(filter) => Ok(filter),
        Err(error) => Err(SandboxError::Setup {
            doing: "compiling the system call filter".to_owned(),
            source: std::io::Error::other(error.to_string()),
        }),
    }
}

fn refusals() -> Result<BTreeMap<c_long, Refusal>, BackendError> {
    let mut refused: BTreeMap<c_long, Refusal> = REFUSED
        .iter()
        .chain(REFUSED_ON_THIS_ARCHITECTURE)
        .map(|&number| (number, Refusal { errno: libc::EPERM, when: Vec::new() }))
        .collect();
    let mut refuse = |number, errno, when| refused.insert(number, Refusal { errno, when });
    refuse(libc::SYS_clone, libc::EPERM, namespace_flags()?);
    refuse(libc::SYS_ioctl, libc::EPERM, terminal_injection()?);
    refuse(libc::SYS_socket, libc::EPERM, socket_families()?);
    refuse(libc::SYS_socketpair, libc::EPERM, socket_families()?);
    for &(number, argument) in CHANGES_OF_MODE.iter().chain(new_files::MODES) {
        refuse(number, libc::EPERM, privileged_modes(argument)?);
    }
    for &(number, flags, mode) in new_files::OPENINGS {
        refuse(number, libc::EPERM, new_files::privileged(flags, mode)?);
    }
    // The flags and mode of openat2 lie in memory too. Programs that use it fall back to openat, as on older
    // kernels.
    refuse(libc::SYS_openat2, libc::ENOSYS, Vec::new());
    // The flags of clone3 lie in memory, where a filter cannot read them. With ENOSYS, libc falls back to
    // clone.
    refuse(libc::SYS_clone3, libc::ENOSYS, Vec::new());
    Ok(refused)
}

/// Number of calls that one part of the filter compares one after the other.
const GROUP: usize = 8;

/// Builds the filter from small parts, one for each range of numbers, preceded by a search for the range.
///
/// The kernel would walk a single list to its end for every allowed call, and does that for each possible call
/// when the filter is installed. The single list took 0.25 ms to install, this filter takes 0.15 ms.
fn assemble(refused: BTreeMap<c_long, Refusal>) -> Result<BpfProgram, BackendError> {
    let mut groups: Vec<(c_int, BTreeMap<c_long, Vec<SeccompRule>>)> = Vec::new();
    for (number, refusal) in refused {
        match groups.last_mut() {
            Some((errno, group)) if *errno == refusal.errno && group.len() < GROUP => {
                group.insert(number, refusal.when);
            }
            _ => groups.push((refusal.errno, BTreeMap::from([(number, refusal.when)]))),
        }
    }
    let too_long = |_| BackendError::FilterTooLarge(usize::MAX);
    let mut search = refuse_x32();
    search.push(sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 });
    let mut parts = BpfProgram::new();
    let starts: Vec<Option<c_long>> = groups.iter().map(|(_, group)| group.keys().next().copied()).collect();
    for (index, (errno, group)) in groups.into_iter().enumerate() {
        // A number at or past the start of the next group continues the search; the last group takes the rest.
        if let Some(next) = starts.get(index + 1).copied().flatten() {
            let searched_after_this = 2 * (starts.len() - index - 2);
            let offset = u32::try_from(searched_after_this + parts.len()).map_err(too_long)?;
            let next = u32::try_from(next).map_err(|_| BackendError::FilterTooLarge(usize::MAX))?;
            search.push(sock_filter { code: JUMP_IF_AT_LEAST, jt: 1, jf: 0, k: next });
            search.push(sock_filter { code: JUMP, jt: 0, jf: 0, k: offset });
            parts.extend(part(group, errno)?);
        } else {
            // INVARIANT: the search falls through to here, so this part comes first.
            let last = part(group, errno)?;
            let shift = u32::try_from(last.len()).map_err(too_long)?;
            for instruction in search.iter_mut().filter(|instruction| instruction.code == JUMP) {
                instruction.k += shift;
            }
            search.extend(last);
        }
    }
    search.extend(parts);
    Ok(search)
}

fn part(group: BTreeMap<c_long, Vec<SeccompRule>>, errno: c_int) -> Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    // A call with the number table of another architecture kills the process; seccompiler puts that check
    // first.
    SeccompFilter::new(group, SeccompAction::Allow, refuse, architecture)?.try_into()
}

// Opcodes of linux/filter.h.
/// Loads a word of the call's data; the call number is at offset 0.
const LOAD_WORD: u16 = 0x20;
/// Jumps if the word is greater or equal.
const JUMP_IF_AT_LEAST: u16 = 0x35;
/// Jumps unconditionally.
const JUMP: u16 = 0x05;
/// Ends with an action.
const RETURN: u16 = 0x06;

/// Builds instructions that kill a process that uses an x32 call. These calls have the architecture of `x86_64`
/// but different numbers, which no rule below would match.
fn refuse_x32() -> Vec<sock_filter> {
    /// `__X32_SYSCALL_BIT` of asm/unistd.h.
    const X32: u32 = 0x4000_0000;
    /// `SECCOMP_RET_KILL_PROCESS` of linux/seccomp.h.
    const KILL_PROCESS: u32 = 0x8000_0000;
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: KILL_PROCESS },
    ]
}

/// Returns rules for `clone` with any flag that asks for a namespace. (`clone` does not accept the flag of time
/// namespaces.)
fn namespace_flags() -> Result<Vec<SeccompRule>, BackendError> {
    [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ]
    .into_iter()
    .map(|flag| {
        let flag = u64::from(flag.cast_unsigned());
        SeccompRule::new(vec![Condition::new(0, Width::Qword, Is::MaskedEq(flag), flag)?])
    })
    .collect()
}

/// Returns rules for the terminal requests that type into a terminal or paste into a console. The kernel reads
/// the lower half of the argument alone, so the comparison does too.
fn terminal_injection() -> Result<Vec<SeccompRule>, BackendError> {
    /// TIOCSTI and TIOCLINUX of asm-generic/ioctls.h, equal on both architectures.
    const REQUESTS: [u64; 2] = [0x5412, 0x541c];
    REQUESTS
        .into_iter()
        .map(|request| SeccompRule::new(vec![Condition::new(1, Width::Dword, Is::Eq, request)?]))
        .collect()
}

/// Returns rules for sockets of any family except Unix, IPv4, IPv6 and netlink. Netlink is refused for any
/// protocol except routing, with which programs list the network devices.
fn socket_families() -> Result<Vec<SeccompRule>, BackendError> {
    let family = |is, value: c_int| Condition::new(0, Width::Dword, is, u64::from(value.cast_unsigned()));
    Ok(vec![
        SeccompRule::new(vec![
            family(Is::Ne, libc::AF_UNIX)?,
            family(Is::Ne, libc::AF_INET)?,
            family(Is::Ne, libc::AF_INET6)?,
            family(Is::Ne, libc::AF_NETLINK)?,
        ])?,
        SeccompRule::new(vec![
            family(Is::Eq, libc::AF_NETLINK)?,
            Condition::new(2, Width::Dword, Is::Ne, u64::from(libc::NETLINK_ROUTE.cast_unsigned()))?,
        ])?,
    ])
}

/// Returns rules for a mode with the setuid or the setgid bit, as the argument of this index.
///
/// Files of a workspace belong to its owner on the host, where the bits would take effect: any user who may run
/// a file with these bits would get the rights of the owner, which may be root.
fn privileged_modes(argument: u8) -> Result<Vec<SeccompRule>, BackendError> {
    [libc::S_ISUID, libc::S_ISGID]
        .into_iter()
        .map(|bit| {
            let bit = u64::from(bit);
            SeccompRule::new(vec![Condition::new(argument, Width::Dword, Is::MaskedEq(bit), bit)?])
        })
        .collect()
}

/// Numbers that libc does not define for every architecture. Only that of `kexec_file_load` differs.
const SYS_FCHMODAT2: c_long = 452;
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_KEXEC_FILE_LOAD: c_long = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// Calls that change a mode, each with the index of the mode argument.
const CHANGES_OF_MODE: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
];

/// Calls that are refused with EPERM for all arguments.
const REFUSED: &[c_long] = &[
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Files by handle, which bypass every check of paths.
    libc::SYS_open_by_handle_at,
    // Keys, which no namespace separates.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Programs for the kernel, its counters, its page faults, and io_uring as a second entry.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    // The machine as a whole.
    libc::SYS_kexec_load,
    SYS_KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
];

/// Refused calls that exist on one architecture alone.
#[cfg(target_arch = "x86_64")]
const REFUSED_ON_THIS_ARCHITECTURE: &[c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_ON_THIS_ARCHITECTURE: &[c_long] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel would.
    fn verdict(filter: &[sock_filter], number: c_long, architecture: u32, arguments: [u64; 6]) -> u32 {
        let mut data = vec![u32::try_from(number).unwrap(), architecture, 0, 0];
        for argument in arguments {
            let bytes = argument.to_le_bytes();
            data.extend(bytes.chunks(4).map(|half| u32::from_le_bytes(half.try_into().unwrap())));
        }
        let (mut word, mut at) = (0_u32, 0_usize);
        loop {
            let instruction = &filter[at];
            at += 1;
            let holds = match instruction.code {
                LOAD_WORD => {
                    word = data[instruction.k as usize / 4];
                    continue;
                }
                RETURN => return instruction.k,
                JUMP => {
                    at += instruction.k as usize;
                    continue;
                }
                0x54 => {
                    word &= instruction.k;
                    continue;
                }
                JUMP_IF_AT_LEAST => word >= instruction.k,
                0x15 => word == instruction.k,
                0x25 => word > instruction.k,
                other => panic!("instruction {other:#x}"),
            };
            at += usize::from(if holds { instruction.jt } else { instruction.jf });
        }
    }

    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;
    const ERRNO: u32 = 0x0005_0000;
    #[cfg(target_arch = "x86_64")]
    const HERE: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const HERE: u32 = 0xc000_00b7;

    #[test]
    fn every_number_gets_the_verdict_that_the_lists_say() {
        let filter = filter(true).unwrap();
        let by_argument = [libc::SYS_clone, libc::SYS_ioctl, libc::SYS_socket, libc::SYS_socketpair];
        for number in 0..600 {
            let listed = REFUSED.contains(&number) || REFUSED_ON_THIS_ARCHITECTURE.contains(&number);
            // Number 1 is an allowed family, and neither a namespace flag nor a terminal request.
            let verdict = verdict(filter, number, HERE, [1, 0, 0, 0, 0, 0]);
            let expected = match number {
                libc::SYS_clone3 | libc::SYS_openat2 => ERRNO | 0x26,
                _ if listed => ERRNO | 1,
                _ => ALLOW,
            };
            assert_eq!(verdict, expected, "{number}");
            assert!(!(listed && by_argument.contains(&number)));
        }
    }

    #[test]
    fn arguments_decide_where_they_must() {
        let filter = filter(true).unwrap();
        let run = |number, first: u64, second: u64, third: u64| {
            verdict(filter, number, HERE, [first, second, third, 0, 0, 0])
        };
        let flag = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
        assert_eq!(run(libc::SYS_clone, flag | 0x11, 0, 0), ERRNO | 1);
        assert_eq!(run(libc::SYS_clone, 0x3d_0f00, 0, 0), ALLOW, "the flags of a thread");
        assert_eq!(run(libc::SYS_ioctl, 0, 0x5412, 0), ERRNO | 1);
        assert_eq!(run(libc::SYS_ioctl, 0, 0x1_0000_5412, 0), ERRNO | 1, "the upper half does not count");
        assert_eq!(run(libc::SYS_ioctl, 0, 0x5413, 0), ALLOW);
        for (family, verdict) in
            [(1, ALLOW), (2, ALLOW), (10, ALLOW), (16, ALLOW), (17, ERRNO | 1), (40, ERRNO | 1)]
        {
            assert_eq!(run(libc::SYS_socket, family, 1, 0), verdict, "{family}");
        }
        assert_eq!(run(libc::SYS_socket, 16, 3, 15), ERRNO | 1, "netlink of another protocol");
    }

    #[test]
    fn a_mode_with_setuid_or_setgid_is_refused_and_every_other_is_not() {
        let filter = filter(true).unwrap();
        for &(number, argument) in CHANGES_OF_MODE.iter().chain(new_files::MODES) {
            let run = |mode: u64| {
                let mut arguments = [0o6000_u64; 6];
                arguments[usize::from(argument)] = mode;
                verdict(filter, number, HERE, arguments)
            };
            for mode in [0o4000, 0o2000, 0o6777, 0o4755, 0o2750, 0o10_4755, 0x1_0000_0000 | 0o4755] {
                assert_eq!(run(mode), ERRNO | 1, "{number} with {mode:o}");
            }
            for mode in [0, 0o755, 0o1777, 0o10_0644, 0o6000 << 32] {
                assert_eq!(run(mode), ALLOW, "{number} with {mode:o}");
            }
        }
    }

    #[test]
    fn a_new_file_gets_no_setuid_and_no_setgid_and_what_is_opened_may_have_any_word_there() {
        let filter = filter(true).unwrap();
        for &(number, flags, mode) in new_files::OPENINGS {
            let run = |given: i32, bits: u64| {
                let mut arguments = [0_u64; 6];
                arguments[usize::from(flags)] = u64::from(given.cast_unsigned());
                arguments[usize::from(mode)] = bits;
                verdict(filter, number, HERE, arguments)
            };
            for made in
                [libc::O_CREAT, libc::O_CREAT | libc::O_WRONLY | libc::O_EXCL, libc::O_TMPFILE | libc::O_RDWR]
            {
                for bits in [0o4755, 0o2755, 0o6000, 0o10_4644, 0x1_0000_0000 | 0o4755] {
                    assert_eq!(run(made, bits), ERRNO | 1, "{number} with {made:o} and {bits:o}");
                }
                assert_eq!((run(made, 0o1777), run(made, 0o644)), (ALLOW, ALLOW));
            }
            for opened in [libc::O_RDONLY, libc::O_DIRECTORY, libc::O_RDWR | libc::O_TRUNC] {
                assert_eq!(run(opened, u64::MAX), ALLOW, "{number} with {opened:o}");
            }
        }
    }

    #[test]
    fn a_segment_that_no_group_counts_is_small() {
        for (in_group, large) in [(true, ALLOW), (false, ERRNO | 0x16)] {
            let run =
                |size| verdict(filter(in_group).unwrap(), libc::SYS_shmget, HERE, [0, size, 0o1600, 0, 0, 0]);
            assert_eq!(run(LARGEST_SEGMENT), ALLOW);
            for size in [LARGEST_SEGMENT + 1, 1 << 32, u64::MAX] {
                assert_eq!(run(size), large, "{size}");
            }
        }
    }

    #[test]
    fn other_tables_of_numbers_kill() {
        let filter = filter(true).unwrap();
        assert_eq!(verdict(filter, libc::SYS_read, 0x4000_0003, [0; 6]), KILL);
        assert_eq!(verdict(filter, libc::SYS_bpf, 0x4000_0003, [0; 6]), KILL);
        if cfg!(target_arch = "x86_64") {
            assert_eq!(verdict(filter, 0x4000_0000 | libc::SYS_getpid, HERE, [0; 6]), KILL);
        }
    }

    #[test]
    fn the_filter_fits_the_kernel() {
        for in_group in [true, false] {
            assert!(filter(in_group).unwrap().len() < 4096, "BPF_MAXINSNS of linux/bpf_common.h");
        }
    }

    #[test]
    fn no_call_is_listed_twice() {
        let mut numbers: Vec<_> = REFUSED.iter().chain(REFUSED_ON_THIS_ARCHITECTURE).collect();
        let listed = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), listed);
    }
}
