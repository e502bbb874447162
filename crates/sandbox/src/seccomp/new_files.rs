//! Calls that make files, which must not get the rights of their owner.

use libc::c_long;
use seccompiler::{
    BackendError, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition as Condition, SeccompRule,
};

/// Calls that always make a file, each with the index of its mode argument.
pub(super) const MODES: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that open or make a file, each with the indices of its flags and mode arguments.
pub(super) const OPENINGS: &[(c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// Returns rules for a mode with the setuid or the setgid bit, if the flags make it count.
/// Otherwise the argument may have any value.
pub(super) fn privileged(flags: u8, mode: u8) -> Result<Vec<SeccompRule>, BackendError> {
    // O_TMPFILE contains the bit of O_DIRECTORY, so test its other bit alone.
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
