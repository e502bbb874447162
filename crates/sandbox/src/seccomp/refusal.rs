//! The refusal of a system call.

use libc::c_int;
use seccompiler::SeccompRule;

/// A refusal: the error number, and the arguments to refuse; all arguments if the list is empty.
pub(super) struct Refusal {
    pub(super) errno: c_int,
    pub(super) when: Vec<SeccompRule>,
}
