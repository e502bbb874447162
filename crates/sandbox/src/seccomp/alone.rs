//! Further refusals of a cell without namespaces, in which no other layer restricts these calls.
//!
//! Landlock does not restrict the path of a Unix socket, System V objects, or the attributes of
//! files. Nor does it restrict the settings that one process may change for another one of the same
//! user.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition as Condition, SeccompRule,
};

use super::refusal::Refusal;

/// Adds the refusals.
pub(super) fn add(refused: &mut BTreeMap<c_long, Refusal>) -> Result<(), BackendError> {
    for &number in REFUSED.iter().chain(REFUSED_ON_THIS_ARCHITECTURE) {
        refused.insert(number, Refusal { errno: libc::EPERM, when: Vec::new() });
    }
    for &number in ATTRIBUTES {
        // Programs that copy files take this error for a file system without attributes.
        refused.insert(number, Refusal { errno: libc::EOPNOTSUPP, when: Vec::new() });
    }
    refused.insert(libc::SYS_socketpair, Refusal { errno: libc::EPERM, when: pairs()? });
    for &number in OF_A_PROCESS {
        let other = SeccompRule::new(vec![compare(0, Is::Ne, 0)?])?;
        refused.insert(number, Refusal { errno: libc::EPERM, when: vec![other] });
    }
    for (number, user) in ALL_OF_A_USER {
        let when = vec![
            SeccompRule::new(vec![compare(1, Is::Ne, 0)?])?,
            SeccompRule::new(vec![compare(0, Is::Eq, user)?])?,
        ];
        refused.insert(number, Refusal { errno: libc::EPERM, when });
    }
    Ok(())
}

/// Adds the refusals of calls that change a file without opening it for writing.
pub(super) fn add_changes(refused: &mut BTreeMap<c_long, Refusal>) -> Result<(), BackendError> {
    for &number in MODES_AND_TIMES.iter().chain(MODES_AND_TIMES_ON_THIS_ARCHITECTURE) {
        refused.insert(number, Refusal { errno: libc::EROFS, when: Vec::new() });
    }
    let requests = refused.entry(libc::SYS_ioctl).or_insert(Refusal { errno: libc::EPERM, when: Vec::new() });
    for request in FLAGS {
        requests.when.push(SeccompRule::new(vec![compare(1, Is::Eq, request)?])?);
    }
    Ok(())
}

fn compare(argument: u8, is: Is, value: u64) -> Result<Condition, BackendError> {
    Condition::new(argument, Width::Dword, is, value)
}

/// Returns rules for pairs of sockets, except connected Unix ones: the others can send to any path.
fn pairs() -> Result<Vec<SeccompRule>, BackendError> {
    /// `SOCK_TYPE_MASK` of linux/net.h: the rest of the argument is flags.
    const TYPE: u64 = 0xf;
    let of_type = |value: c_int| {
        SeccompRule::new(vec![compare(1, Is::MaskedEq(TYPE), u64::from(value.cast_unsigned()))?])
    };
    let unix = u64::from(libc::AF_UNIX.cast_unsigned());
    Ok(vec![
        SeccompRule::new(vec![compare(0, Is::Ne, unix)?])?,
        of_type(libc::SOCK_DGRAM)?,
        // A raw Unix socket is a datagram socket.
        of_type(libc::SOCK_RAW)?,
    ])
}

/// Calls that are refused with EPERM for all arguments.
const REFUSED: &[c_long] = &[
    // The network of the host, and its Unix sockets.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Objects of System V and POSIX that have a separate namespace of names.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Changes of ownership, which can move any file of the user to another of the user's groups.
    libc::SYS_fchown,
    libc::SYS_fchownat,
    // Names of events in folders that cannot be listed.
    libc::SYS_inotify_init1,
    // Memory placement of another process.
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

/// Refused calls that exist on one architecture alone.
#[cfg(target_arch = "x86_64")]
const REFUSED_ON_THIS_ARCHITECTURE: &[c_long] = &[libc::SYS_chown, libc::SYS_lchown, libc::SYS_inotify_init];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_ON_THIS_ARCHITECTURE: &[c_long] = &[];

/// Numbers of `setxattrat` and `removexattrat`, which libc does not define yet; equal on all
/// architectures.
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;

/// Changes of attributes, which reach every file of the user by its name.
const ATTRIBUTES: &[c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
];

/// Number of `file_setattr`, which libc does not define yet; equal on all architectures.
const SYS_FILE_SETATTR: c_long = 469;

/// Changes of modes and times, which reach every file of the user.
const MODES_AND_TIMES: &[c_long] =
    &[libc::SYS_fchmod, libc::SYS_fchmodat, super::SYS_FCHMODAT2, libc::SYS_utimensat, SYS_FILE_SETATTR];
#[cfg(target_arch = "x86_64")]
const MODES_AND_TIMES_ON_THIS_ARCHITECTURE: &[c_long] =
    &[libc::SYS_chmod, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const MODES_AND_TIMES_ON_THIS_ARCHITECTURE: &[c_long] = &[];

/// Requests that change the flags of an open file, even one opened for reading: `FS_IOC_SETFLAGS`,
/// `FS_IOC32_SETFLAGS`, `FS_IOC_FSSETXATTR`, `FS_IOC_SETVERSION` and `FS_IOC32_SETVERSION` of
/// linux/fs.h.
const FLAGS: [u64; 5] = [0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4008_7602, 0x4004_7602];

/// Settings of a class of processes, with the value of the first argument that means all processes
/// of a user: `PRIO_USER` of sys/resource.h and `IOPRIO_WHO_USER` of linux/ioprio.h.
const ALL_OF_A_USER: [(c_long, u64); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Settings of the process named by the first argument: refused for every process except the
/// caller.
const OF_A_PROCESS: &[c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
];
