//! The inside of the new process, from `clone3` to `execve`.
//!
//! INVARIANT: nothing in this module and its submodules allocates, locks, panics or unwinds. The
//! process is a copy of one with other threads: a lock that another thread owned stays locked for
//! ever, including the allocator's. Only plain system calls (`rustix` with C strings, and
//! `crate::sys`) on data of the [`Blueprint`](blueprint::Blueprint) are allowed. Owned descriptors may be dropped, which
//! is one `close`.
//!
//! The process is the first one of its pid namespace, so that its end is the end of every process
//! in the cell. It never executes a program itself: it sets up, starts the command, reaps children,
//! and reports how the command ended. It ends when its caller's end of the control socket closes,
//! for any reason. While the command's process is on its way to `execve`, this process is
//! suspended, because the two share their memory; it can still be killed.
//!
//! The process asks for no parent-death signal: the kernel ties that signal to the cloning thread,
//! which may end long before the program does.

pub(crate) mod blueprint;
mod command;
pub(crate) mod cover;
pub(crate) mod entrance;
mod filesystem;
pub(crate) mod first_steps;
pub(crate) mod holder;
pub(crate) mod keeper;
pub(crate) mod late;
pub(crate) mod life;
mod mount;
mod placeholder;
mod privileges;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod zygote;

pub use privileges::HOST_NAME;
