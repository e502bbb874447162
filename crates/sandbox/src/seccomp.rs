//! The system calls that a cell refuses.
//!
//! A list of refusals, because arbitrary tools run in a cell. It holds what reaches outside (other processes'
//! memory, keys of the session, mounts, further namespaces) and what is large and seldom needed in the kernel.
//! Compiled once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use libc::{c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use crate::error::SandboxError;

/// The filters, in the order in which they are applied.
pub(crate) fn filters() -> Result<&'static [Vec<sock_filter>], SandboxError> {
    static FILTERS: LazyLock<Result<[BpfProgram; 2], seccompiler::BackendError>> = LazyLock::new(compile);
    match &*FILTERS {
        Ok(filters) => Ok(filters),
        Err(error) => Err(SandboxError::Setup {
            doing: "compiling the system call filter".to_owned(),
            source: std::io::Error::other(error.to_string()),
        }),
    }
}

fn compile() -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut refused: BTreeMap<c_long, Vec<SeccompRule>> =
        REFUSED.iter().chain(REFUSED_ON_THIS_ARCHITECTURE).map(|&number| (number, Vec::new())).collect();
    refused.insert(libc::SYS_clone, namespace_flags()?);
    refused.insert(libc::SYS_ioctl, terminal_injection()?);
    refused.insert(libc::SYS_socket, socket_families()?);
    refused.insert(libc::SYS_socketpair, socket_families()?);
    // The flags of clone3 lie in memory where a filter cannot read them. Told that the call does not exist, libc
    // falls back to clone.
    let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let mut first = program(refused, libc::EPERM)?;
    first.splice(0..0, refuse_x32());
    Ok([first, program(absent, libc::ENOSYS)?])
}

fn program(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    errno: c_int,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    // A call by the number table of another architecture kills the process; seccompiler puts that check first.
    SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, refuse, architecture)?.try_into()
}

/// Kills a process that uses an x32 call: those have the architecture of `x86_64` and numbers of their own, which
/// no rule below would match.
fn refuse_x32() -> Vec<sock_filter> {
    /// `__X32_SYSCALL_BIT` of asm/unistd.h.
    const X32: u32 = 0x4000_0000;
    /// `SECCOMP_RET_KILL_PROCESS` of linux/seccomp.h.
    const KILL_PROCESS: u32 = 0x8000_0000;
    // Opcodes of linux/filter.h: load the word at offset 0, which is the number; jump if greater or equal; return.
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: KILL_PROCESS },
    ]
}

/// `clone` with any flag that asks for a namespace. (The flag of time namespaces cannot be given to `clone`.)
fn namespace_flags() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
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

/// The terminal requests that type into a terminal or paste into a console. The kernel looks at the lower half of
/// the argument alone, so the comparison does too.
fn terminal_injection() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    /// TIOCSTI and TIOCLINUX of asm-generic/ioctls.h, the same on both architectures.
    const REQUESTS: [u64; 2] = [0x5412, 0x541c];
    REQUESTS
        .into_iter()
        .map(|request| SeccompRule::new(vec![Condition::new(1, Width::Dword, Is::Eq, request)?]))
        .collect()
}

/// Sockets of any family but Unix, IPv4, IPv6 and netlink, and netlink of any protocol but routing, with which
/// programs list the network devices.
fn socket_families() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
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

/// `open_tree_attr`, which libc does not name yet; the number is the same on all architectures.
const SYS_OPEN_TREE_ATTR: c_long = 467;

/// Refused with EPERM whatever the arguments are.
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
    // Files by handle, past every check of paths.
    libc::SYS_open_by_handle_at,
    // Keys, which no namespace separates.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Programs for the kernel, its counters, its page faults, and its second way in.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    // The machine as a whole.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
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

/// The same for calls that only one architecture has.
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

    #[test]
    fn filters_compile_and_fit_the_kernel() {
        let filters = filters().unwrap();
        assert!(filters.iter().all(|filter| filter.len() < 4096), "BPF_MAXINSNS of linux/bpf_common.h");
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
