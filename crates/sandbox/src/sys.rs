//! System calls that no crate wraps, each as a thin safe function. All `unsafe` code of the library
//! is in this module and its submodules.
//!
//! INVARIANT: everything here is async-signal-safe: it allocates nothing, takes no lock and touches
//! no state of libc except the thread's `errno`. Most of it runs between `clone3` and `execve` in a
//! copy of a process that had other threads.

#![expect(
    unsafe_code,
    reason = "the system calls that rustix does not wrap; each call states why it is sound"
)]

pub(crate) mod attempts;
pub(crate) mod keeper;

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

/// Arguments or environment in the form that `execve` takes: pointers to the owned strings, then a
/// null pointer.
pub(crate) struct StringArray {
    pointers: Vec<*const c_char>,
    strings: Vec<std::ffi::CString>,
}

impl StringArray {
    pub(crate) fn new(strings: Vec<std::ffi::CString>) -> Self {
        // A CString owns its bytes on the heap, so moving it into the struct leaves the pointers valid.
        let pointers = strings.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Self { pointers, strings }
    }

    pub(crate) fn strings(&self) -> &[std::ffi::CString] {
        &self.strings
    }
}

/// The side of a clone that the caller is on.
pub(crate) enum Side {
    /// The caller, with the new process's id and a descriptor of it.
    Parent(i32, OwnedFd),
    /// The new process, which has copies of all memory and descriptors and exactly one thread.
    Child,
}

fn check(result: c_long) -> Result<c_long, Errno> {
    if result == -1 { Err(last_error()) } else { Ok(result) }
}

fn last_error() -> Errno {
    // SAFETY: `__errno_location` gives the calling thread's own errno, which is always valid to read.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Wraps the descriptor `raw`, which the caller knows to be open, in a type.
///
/// INVARIANT: the descriptor stays open for as long as the result is used.
pub(crate) fn borrow<'a>(raw: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the callers pass descriptors that the blueprint keeps open until the process ends or executes.
    unsafe { BorrowedFd::borrow_raw(raw) }
}

/// The notification that the parent of a new process gets of its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// Absence of a signal. So a `waitpid(-1)` or an ignored `SIGCHLD` elsewhere in this program
    /// does not affect the process: only a wait by descriptor finds it.
    Quiet,
    /// The signal for children. If it is ignored, the kernel reaps the process.
    ChildSignal,
}

/// Starts a process, in new namespaces if `flags` contains `CLONE_NEW*`.
///
/// With a `group` (the folder of a control group, version two) the process starts in that group.
pub(crate) fn clone_into_namespaces(
    flags: c_int,
    at_end: AtEnd,
    group: Option<BorrowedFd<'_>>,
) -> Result<Side, Errno> {
    /// `CLONE_INTO_CGROUP` of linux/sched.h, which is wider than libc's type for the flags.
    const INTO_GROUP: u64 = 0x2_0000_0000;
    let mut descriptor: c_int = -1;
    // SAFETY: all fields of `clone_args` are integers, for which zero is valid.
    let mut arguments: libc::clone_args = unsafe { zeroed() };
    arguments.flags = u64::from((flags | libc::CLONE_PIDFD).cast_unsigned());
    arguments.pidfd = (&raw mut descriptor).addr() as u64;
    if let Some(group) = group {
        arguments.flags |= INTO_GROUP;
        arguments.cgroup = u64::from(group.as_raw_fd().cast_unsigned());
    }
    if at_end == AtEnd::ChildSignal {
        arguments.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    }
    // SAFETY: without CLONE_VM the new process runs on a copy of this stack and this memory, so returning twice
    // is what a fork does. `arguments` and `descriptor` live across the call.
    let result = check(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    })?;
    if result == 0 {
        return Ok(Side::Child);
    }
    // SAFETY: the kernel has just opened this descriptor for us, and it has no other owner.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let pid = i32::try_from(result).map_err(|_| Errno::OVERFLOW)?;
    Ok(Side::Parent(pid, owned))
}

/// Forks without libc's fork handlers, which could wait for a lock that a lost thread owned.
/// Returns `None` in the child.
pub(crate) fn fork() -> Result<Option<i32>, Errno> {
    // SAFETY: plain fork semantics; all pointer arguments are null and so unused.
    let result = check(unsafe { libc::syscall(libc::SYS_clone, c_long::from(libc::SIGCHLD), 0, 0, 0, 0) })?;
    if result == 0 {
        return Ok(None);
    }
    Ok(Some(i32::try_from(result).map_err(|_| Errno::OVERFLOW)?))
}

/// The stack of a process that shares its parent's memory. The process makes a few system calls,
/// without recursion.
pub(crate) struct Stack([std::mem::MaybeUninit<u8>; 64 * 1024]);

impl Stack {
    #[expect(
        clippy::large_stack_arrays,
        reason = "who needs it may not allocate, and has megabytes of stack"
    )]
    pub(crate) const fn new() -> Self {
        Self([std::mem::MaybeUninit::uninit(); 64 * 1024])
    }
}

/// Starts a process that runs `inside` in this one's memory, on a separate stack, until it executes
/// a program or ends. Until then this process is suspended. Returns the id of the new one.
///
/// Neither memory nor page tables are copied: a fork takes four times as long, and so does the
/// first use of each page after it on both sides.
pub(crate) fn start_in_same_memory<T>(
    stack: &mut Stack,
    data: &T,
    inside: fn(&T) -> !,
) -> Result<i32, Errno> {
    struct ChildEntry<'a, T>(&'a T, fn(&T) -> !);
    extern "C" fn enter<T>(inside: *mut c_void) -> c_int {
        // SAFETY: this is the structure below, which lives until the parent goes on.
        let inside = unsafe { &*inside.cast::<ChildEntry<'_, T>>() };
        (inside.1)(inside.0)
    }
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let inside = ChildEntry(data, inside);
    let stack = stack.0.as_mut_ptr_range().end;
    // The stack grows downwards from here, and the ABIs of both architectures want this alignment.
    let top = stack.wrapping_sub(stack.addr() % 16);
    // SAFETY: only this function uses the stack, and its end is aligned. With CLONE_VFORK this
    // process continues after the other one has released the memory. So `inside` and the stack
    // outlive its use, and no two processes run in the memory at the same time. libc's `clone` runs
    // no handlers and takes no locks.
    let pid = unsafe {
        libc::clone(enter::<T>, top.cast(), flags, (&raw const inside).cast_mut().cast::<c_void>())
    };
    check(c_long::from(pid)).map(|_| pid)
}

/// Sets attributes of the mount whose root is `tree`; with `owners` also its id mapping, and with
/// `recursive` those of all mounts below it.
pub(crate) fn mount_setattr(
    tree: BorrowedFd<'_>,
    recursive: bool,
    attributes: MountAttrFlags,
    owners: Option<BorrowedFd<'_>>,
    make_private: bool,
) -> Result<(), Errno> {
    #[repr(C)]
    struct MountAttr {
        attr_set: u64,
        attr_clr: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let mut wanted = MountAttr {
        attr_set: u64::from(attributes.bits()),
        attr_clr: 0,
        propagation: if make_private { libc::MS_PRIVATE } else { 0 },
        userns_fd: 0,
    };
    if let Some(owners) = owners {
        wanted.attr_set |= u64::from(MountAttrFlags::MOUNT_ATTR_IDMAP.bits());
        wanted.userns_fd = u64::from(owners.as_raw_fd().cast_unsigned());
    }
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a literal and the structure has the given size.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const wanted,
            size_of::<MountAttr>(),
        )
    })?;
    Ok(())
}

/// Closes all descriptors from `first` to `last`, or with `on_exec` marks them to be closed by
/// `execve`.
pub(crate) fn close_range(first: u32, last: u32, on_exec: bool) -> Result<(), Errno> {
    // The value of CLOSE_RANGE_CLOEXEC in linux/close_range.h; libc defines it for some targets
    // only.
    let flags: c_int = if on_exec { 4 } else { 0 };
    // SAFETY: takes integers only. The caller ensures that no owner of a closed descriptor is used
    // afterwards: this runs in the new process, which never returns to them.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) })?;
    Ok(())
}

/// Returns the newest Landlock version of the kernel.
pub(crate) fn landlock_version() -> Result<i32, Errno> {
    const CREATE_RULESET_VERSION: c_int = 1;
    // SAFETY: with this flag the kernel takes a null pointer and a size of zero and only returns a number.
    let result = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<c_void>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    })?;
    i32::try_from(result).map_err(|_| Errno::OVERFLOW)
}

/// Adds a rule to `ruleset` that grants `rights` (`LANDLOCK_ACCESS_FS_*`) for `path` and everything
/// below it.
pub(crate) fn landlock_allow(ruleset: RawFd, path: BorrowedFd<'_>, rights: u64) -> Result<(), Errno> {
    #[repr(C, packed)]
    struct PathBeneath {
        allowed_access: u64,
        parent_fd: i32,
    }
    const RULE_PATH_BENEATH: c_int = 1;
    let rule = PathBeneath { allowed_access: rights, parent_fd: path.as_raw_fd() };
    // SAFETY: the rule has the layout that its type requires.
    check(unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &raw const rule, 0)
    })?;
    Ok(())
}

/// Restricts the calling thread by `ruleset` for good.
pub(crate) fn landlock_restrict(ruleset: RawFd) -> Result<(), Errno> {
    // SAFETY: takes integers only.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) })?;
    Ok(())
}

/// Restricts the calling thread by the filter `program` for good.
pub(crate) fn seccomp(program: &[seccompiler::sock_filter]) -> Result<(), Errno> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::INVAL)?,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: seccompiler's sock_filter has the kernel's layout (repr(C), equal fields), the
    // pointer and length belong to a live slice, and the kernel only reads it.
    check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            c_long::from(libc::SECCOMP_SET_MODE_FILTER),
            c_long::from(0),
            &raw const filter,
        )
    })?;
    Ok(())
}

/// Runs the program at `path` in place of this one; returns only if that fails.
pub(crate) fn execute(path: &CStr, arguments: &StringArray, environment: &StringArray) -> Errno {
    // SAFETY: both arrays end with a null pointer and point to strings that the struct owns.
    unsafe { libc::execve(path.as_ptr(), arguments.pointers.as_ptr(), environment.pointers.as_ptr()) };
    last_error()
}

/// Ends the process at once, without handlers or destructors.
pub(crate) fn exit(code: c_int) -> ! {
    // SAFETY: `_exit` is always sound and never returns.
    unsafe { libc::_exit(code) }
}

/// The signal mask before [`block_signals`].
pub(crate) struct BlockedBefore(libc::sigset_t);

/// Blocks all signals in the calling thread.
pub(crate) fn block_signals() -> BlockedBefore {
    // SAFETY: a sigset_t is plain data that `sigfillset` fills, and both calls get valid pointers.
    unsafe {
        let mut all: libc::sigset_t = zeroed();
        let mut before: libc::sigset_t = zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        BlockedBefore(before)
    }
}

impl BlockedBefore {
    /// Restores the mask.
    pub(crate) fn restore(self) {
        // SAFETY: the mask was filled by the kernel.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// Unblocks all signals in the calling thread.
pub fn unblock_signals() {
    // SAFETY: as in `block_signals`.
    unsafe {
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Resets every signal to its default action. So no handler of the parent program runs in this
/// process, and no ignored signal stays ignored in a program that it executes.
pub(crate) fn reset_signal_handlers() {
    /// The kernel's structure; libc's `sigaction` refuses the two signals that libc reserves.
    #[repr(C)]
    struct Action {
        handler: usize,
        flags: c_ulong,
        restorer: usize,
        mask: u64,
    }
    let default = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    for signal in 1..=64 {
        // KILL and STOP cannot be set, which is harmless: their action is always the default.
        // SAFETY: the structure is at least as large as the kernel's on both architectures (aarch64
        // uses no restorer and has the same layout). The mask has eight bytes, as the last argument
        // states.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &raw const default,
                ptr::null_mut::<c_void>(),
                8_usize,
            );
        }
    }
}

/// Makes the kernel reap every child that was started with [`AtEnd::ChildSignal`] when it ends.
pub(crate) fn ignore_children() {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Opens a descriptor that is readable when a child has changed state. The signal must be blocked.
pub(crate) fn child_events() -> Result<OwnedFd, Errno> {
    // SAFETY: as in `block_signals`; the returned descriptor is new and ours.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let fd =
            check(c_long::from(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)))?;
        Ok(OwnedFd::from_raw_fd(RawFd::try_from(fd).map_err(|_| Errno::OVERFLOW)?))
    }
}

/// Reaps the next ended child of any kind, and returns its id and wait status. Returns `None` if no
/// child has ended yet, and the error `CHILD` if there are no children.
pub(crate) fn reap() -> Result<Option<(i32, i32)>, Errno> {
    let mut status: c_int = 0;
    // SAFETY: the pointer is valid for the call.
    let pid =
        check(c_long::from(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) }))?;
    if pid == 0 {
        return Ok(None);
    }
    Ok(Some((i32::try_from(pid).map_err(|_| Errno::OVERFLOW)?, status)))
}

/// Sends a signal to every process of the group `leader`.
pub(crate) fn signal_group(leader: i32, signal: c_int) {
    // An error means that no process is left in the group, which is the intended effect.
    // SAFETY: takes integers only.
    unsafe { libc::kill(-leader, signal) };
}

/// Sends a signal to the foreground process group of a terminal, given its master side. The kernel
/// accepts the signals that a terminal can send: SIGINT, SIGQUIT and SIGTSTP.
pub(crate) fn signal_foreground(terminal: BorrowedFd<'_>, signal: c_int) -> Result<(), Errno> {
    /// `TIOCSIG` of asm-generic/ioctls.h, equal on both architectures.
    const TIOCSIG: libc::Ioctl = 0x4004_5436;
    // SAFETY: takes integers only.
    check(c_long::from(unsafe { libc::ioctl(terminal.as_raw_fd(), TIOCSIG, c_long::from(signal)) }))?;
    Ok(())
}

/// Brings up the loopback device of this process's network namespace.
pub(crate) fn loopback_up(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // Requests of linux/sockios.h, equal on both architectures. The constants of `libc` have one type,
    // and its function another one with each C library.
    const SIOCGIFFLAGS: libc::Ioctl = 0x8913;
    const SIOCSIFFLAGS: libc::Ioctl = 0x8914;
    // SAFETY: an ifreq is plain data for which zero is valid; both requests read and write that
    // struct alone; the flags are the union's member for both.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        for (place, letter) in request.ifr_name.iter_mut().zip(*b"lo") {
            *place = letter.cast_signed();
        }
        check(c_long::from(libc::ioctl(socket.as_raw_fd(), SIOCGIFFLAGS, &raw mut request)))?;
        request.ifr_ifru.ifru_flags |= LOOPBACK_FLAGS;
        check(c_long::from(libc::ioctl(socket.as_raw_fd(), SIOCSIFFLAGS, &raw mut request)))?;
    }
    Ok(())
}

/// Flags `IFF_UP | IFF_RUNNING` of linux/if.h, in the width of the request's field.
const LOOPBACK_FLAGS: i16 = 0x41;

/// Duplicates `from` onto `to`, one of the three standard descriptors.
pub(crate) fn duplicate_onto(from: impl AsFd, to: RawFd) -> Result<(), Errno> {
    // SAFETY: takes integers only; `to` is 0, 1 or 2, which have no owner in the calling process.
    check(c_long::from(unsafe { libc::dup2(from.as_fd().as_raw_fd(), to) }))?;
    Ok(())
}

/// Returns freed memory to the system. glibc's allocator otherwise keeps any amount of it below a
/// later allocation.
///
/// Takes up to a few milliseconds, and delays other threads' allocations during that time: call it
/// while no caller waits.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it has no precondition, and touches no memory that is in use.
    unsafe {
        // The result does not matter: it reports whether any memory was returned.
        let _given = libc::malloc_trim(0);
    }
}
