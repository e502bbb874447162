//! The calls that make files, which must not get the rights of their owner.

use libc::c_long;
use seccompiler::{
    BackendError, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition as Condition, SeccompRule,
};

/// The calls that always make a file, each with the number of the argument that is its mode.
pub(super) const MODES: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// The calls that open a file or make it, each with the numbers of the arguments that are its flags and its mode.
pub(super) const OPENINGS: &[(c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// A mode with the setuid or the setgid bit, where the flags say that it counts. Otherwise the argument has any value.
pub(super) fn privileged(flags: u8, mode: u8) -> Result<Vec<SeccompRule>, BackendError> {
    // A bit of O_TMPFILE is that of O_DIRECTORY, so it is told by the other alone.
    let makes = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
    let mut rules = Vec::new();
    for make in makes.map(|flag| u64::from(flag.cast_unsigned())) {
        for bit in [libc::S_ISUID, libc::S_ISGID].map(u64::from) {
            rules.push(SeccompRule::new(vec![
                Condition::new(flags, Width::Dword, Is::MaskedEq(make), make)?,
                Condition::new(mode, Width::Dword, Is::MaskedEq(bit), bit)?,
            ])?);
        }
    }
    Ok(rules)
}
