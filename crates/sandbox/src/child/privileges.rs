//! Gives up every right that setting up needed, in an order in which each step is still allowed.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Uid, set_dumpable_behavior, setrlimit, setsid, umask,
};
use rustix::system::sethostname;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_keep_capabilities, set_name, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use seccompiler::sock_filter;

use super::blueprint::{INNER_ID, Landlock, OwnMap};
use super::report::{Fault, Stage};
use crate::sys;

/// Host name of the machine in a cell.
pub const HOST_NAME: &str = "cell";

/// Becomes the inner user and keeps the capabilities over the cell that come with a new user
/// namespace.
///
/// The file systems in memory then belong to that user, and no process of the cell ever has another
/// identity.
pub(super) fn become_inner_user(drop_groups: bool) -> Result<(), Errno> {
    set_keep_capabilities(true)?;
    let (user, group) = (Uid::from_raw(INNER_ID), Gid::from_raw(INNER_ID));
    if drop_groups {
        set_thread_groups(&[])?;
    }
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    set_keep_capabilities(false)?;
    // A change of identity clears the effective set; the permitted set stays.
    let mut sets = capabilities(None)?;
    sets.effective = sets.permitted;
    set_capabilities(None, sets)?;
    // This process's memory is a copy of the caller's. While it is not dumpable, no process in the
    // cell can read its memory or descriptors, and with `hidepid` none sees its arguments either.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    umask(Mode::from_raw_mode(0o022));
    Ok(())
}

/// Maps this process's user and group in its new namespace, whose maps are empty.
pub(super) fn map_own_user(map: &OwnMap) -> Result<(), Errno> {
    for (path, content) in [
        // Without this write, the kernel refuses an ordinary user's group map.
        (c"/proc/self/setgroups", &b"deny"[..]),
        (c"/proc/self/uid_map", &map.users),
        (c"/proc/self/gid_map", &map.groups),
    ] {
        let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        write(file, content)?;
    }
    Ok(())
}

/// Sets up the namespaces other than the mounts. A shared network is left unchanged.
pub(super) fn isolate(shares_network: bool) -> Result<(), Fault> {
    // A separate session keeps away the terminal's signals to the caller's process group.
    setsid().and_then(|_| set_name(c"handfast-cell")).map_err(|errno| Stage::Names.fault(errno))?;
    sethostname(HOST_NAME.as_bytes()).map_err(|errno| Stage::Names.fault(errno))?;
    if !shares_network {
        loopback().map_err(|errno| Stage::Network.fault(errno))?;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    for resource in [
        // A core dump of a process would contain its secrets.
        Resource::Core,
        // A user with the right to real-time priorities would otherwise pass it on to every
        // command.
        Resource::Rtprio,
        Resource::Nice,
    ] {
        setrlimit(resource, none).map_err(|errno| Stage::Limits.fault(errno))?;
    }
    Ok(())
}

/// Brings up the loopback device of this process's network.
pub(super) fn loopback() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sys::loopback_up(std::os::fd::AsFd::as_fd(&socket))
}

/// Drops all capabilities for good and applies Landlock and the filter.
pub(super) fn renounce(landlock: Option<&Landlock>, filter: &[sock_filter]) -> Result<(), Fault> {
    drop_capabilities().map_err(|errno| Stage::Capabilities.fault(errno))?;
    if let Some(landlock) = landlock {
        add_rules(landlock)?;
        sys::landlock_restrict(landlock.ruleset).map_err(|errno| Stage::Landlock.fault(errno))?;
    }
    sys::seccomp(filter).map_err(|errno| Stage::Seccomp.fault(errno))
}

/// Adds the rules to the ruleset, without applying it.
pub(super) fn add_rules(landlock: &Landlock) -> Result<(), Fault> {
    for (path, rights) in &landlock.rules {
        match open(path.as_c_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(path) => {
                sys::landlock_allow(landlock.ruleset, std::os::fd::AsFd::as_fd(&path), *rights)
                    .map_err(|errno| Stage::Landlock.fault(errno))?;
            }
            // A missing path needs no right: the rule's step was skipped as well.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(Stage::Landlock.fault(errno)),
        }
    }
    Ok(())
}

/// Ensures that capabilities, once dropped, cannot come back. The current ones stay.
pub(super) fn limit_capabilities() -> Result<(), Fault> {
    close_ways_to_capabilities().map_err(|errno| Stage::Capabilities.fault(errno))
}

fn close_ways_to_capabilities() -> Result<(), Errno> {
    clear_ambient_capability_set()?;
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    for bit in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // The first number that the kernel does not know is one past its last capability.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn drop_capabilities() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)
}
