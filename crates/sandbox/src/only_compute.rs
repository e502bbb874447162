//! A process that gives up every right but computing: for programs of this project that parse what a stranger wrote.
//!
//! Unlike a cell, this needs no namespace and no other process, so it works on every machine that has seccomp.

use std::collections::BTreeMap;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is,
    SeccompCondition as Condition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::error::SandboxError;

/// Calls that stay: reading and writing what is open, memory, waiting within the process, time, and the end.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that stay for memory that cannot be executed, whose protection is the third argument.
const MAPPINGS: [libc::c_long; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// Gives up every right of this process but computing with up to `memory` bytes of addresses, and reading and writing
/// the descriptors that are open. Any other system call then fails with `EPERM`. To be called before another thread
/// starts.
///
/// # Errors
/// Returns [`SandboxError`] if the kernel refuses a limit or the filter. The process must not go on then.
pub fn only_compute(memory: u64) -> Result<(), SandboxError> {
    let failed = |error: std::io::Error| SandboxError::Setup {
        doing: "giving up the rights of this process".to_owned(),
        source: error,
    };
    for (resource, most) in [(Resource::As, memory), (Resource::Core, 0), (Resource::Nofile, 3)] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|errno| failed(errno.into()))?;
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|errno| failed(errno.into()))?;
    let filter = filter().map_err(|error| failed(std::io::Error::other(error)))?;
    seccompiler::apply_filter(&filter).map_err(|error| failed(std::io::Error::other(error)))
}

fn filter() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<libc::c_long, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let executable = u64::from(libc::PROT_EXEC.cast_unsigned());
    for call in MAPPINGS {
        let never_runs = Condition::new(2, Width::Dword, Is::MaskedEq(executable), 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![never_runs])?]);
    }
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?.try_into()
}
