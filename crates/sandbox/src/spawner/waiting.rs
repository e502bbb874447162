//! A cell that waits for its request.

use std::os::fd::OwnedFd;

use crate::cgroup::Group;
use crate::process::Process;

/// A cell that waits for its request.
///
/// INVARIANT: in this order. While the process lives, its group cannot be removed.
#[derive(Debug)]
pub(crate) struct WaitingCell {
    pub(crate) process: Process,
    pub(crate) control: OwnedFd,
    pub(crate) group: Option<Group>,
}
