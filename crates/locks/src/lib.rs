//! Locks on files (`flock`) that several processes share, with bounded waits and immediate release.
//!
//! A stopped process keeps its locks until it is continued. [`acquire`] waits for at most
//! [`TIMEOUT`], reports a long wait to the [listener](listen), and names the holder.
//!
//! A lock belongs to an open file description, which a `fork` shares: after one descriptor is
//! closed, the lock stays as long as a copy is open. [`FileLock`] unlocks explicitly, which takes
//! effect for all copies.
//!
//! This crate makes no decision about the protected data, and prints nothing.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, fstat, major, minor};
use rustix::io::Errno;

/// Maximum wait for a lock. A working holder releases its lock in a small part of this time.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Wait after which the listener gets a report.
const SILENCE: Duration = Duration::from_secs(1);

/// First and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// A kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any number of processes may have the lock at once.
    Shared,
    /// One process has the lock alone.
    Exclusive,
}

/// A failed attempt to get a lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process had the lock for the whole wait.
    #[error("{holder} has held the lock for {} seconds; try again when it is done; if it is stopped, \
         continue it with `kill -CONT` or end it", waited.as_secs())]
    Held {
        /// Holder of the lock.
        holder: Holder,
        /// Duration of the wait.
        waited: Duration,
    },
    /// The system call failed.
    #[error("the file cannot be locked")]
    System(#[source] io::Error),
}

impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::System(source) => source,
            held @ LockError::Held { .. } => Self::new(io::ErrorKind::TimedOut, held),
        }
    }
}

/// The process that has a lock, as far as the kernel shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Id of the process; `None` if it is not visible, for example in another container.
    pub pid: Option<u32>,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(formatter, "process {pid}"),
            None => formatter.write_str("another process"),
        }
    }
}

type Listener = dyn Fn(&str) + Send + Sync;

static LISTENER: OnceLock<Box<Listener>> = OnceLock::new();

/// Sets the listener of this process, which gets one sentence for each long wait. Only the first
/// listener takes effect.
pub fn listen(listener: impl Fn(&str) + Send + Sync + 'static) {
    // A second composition in one process would set an equal listener.
    let _second = LISTENER.set(Box::new(listener));
}

/// Locks a file, and waits for at most [`TIMEOUT`]. `name` is the name of the file in reports to
/// the user.
///
/// # Errors
/// [`LockError::Held`] if another process keeps the lock; [`LockError::System`] if the system call
/// fails.
pub fn acquire(file: impl AsFd, kind: Kind, name: &dyn fmt::Display) -> Result<(), LockError> {
    acquire_within(file, kind, name, TIMEOUT)
}

/// Locks a file as [`acquire`] does, but waits for at most `patience`: for files that other
/// programs may have locked for good.
///
/// # Errors
/// Returns the errors of [`acquire`].
pub fn acquire_within(
    file: impl AsFd,
    kind: Kind,
    name: &dyn fmt::Display,
    patience: Duration,
) -> Result<(), LockError> {
    let operation = match kind {
        Kind::Shared => FlockOperation::NonBlockingLockShared,
        Kind::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    let file = file.as_fd();
    let began = Instant::now();
    let (mut pause, longest) = PAUSES;
    let mut told = false;
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => continue,
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(LockError::System(errno.into())),
        }
        let waited = began.elapsed();
        if waited >= patience {
            return Err(LockError::Held { holder: holder(file), waited });
        }
        if waited >= SILENCE
            && !std::mem::replace(&mut told, true)
            && let Some(listener) = LISTENER.get()
        {
            listener(&format!("waiting for {}, which holds {name}", holder(file)));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}

/// A locked file. Dropping it unlocks the file, even if a copy of this process shares the
/// descriptor.
#[derive(Debug)]
pub struct FileLock(OwnedFd);

impl FileLock {
    /// Locks a file as [`acquire`] does.
    ///
    /// # Errors
    /// Returns the errors of [`acquire`].
    pub fn wait(file: impl Into<OwnedFd>, kind: Kind, name: &dyn fmt::Display) -> Result<Self, LockError> {
        let file = file.into();
        acquire(&file, kind, name).map(|()| Self(file))
    }

    /// Locks a file for this process alone, without waiting; returns `None` if another process has
    /// a lock on it.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub fn try_alone(file: impl Into<OwnedFd>) -> io::Result<Option<Self>> {
        let file = file.into();
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for FileLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        release(&self.0);
    }
}

/// Unlocks a file for every copy of its descriptor.
pub fn release(file: impl AsFd) {
    // Unlocking an open descriptor cannot fail.
    let _unlocked = flock(file, FlockOperation::Unlock);
}

/// Finds the process that has a lock on the file now; returns `None` if there is none.
pub fn holder_of(file: impl AsFd) -> Option<Holder> {
    let file = file.as_fd();
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            release(file);
            None
        }
        Err(_) => Some(holder(file)),
    }
}

/// Finds the process that has a lock on the file (`proc_locks(5)`).
fn holder(file: BorrowedFd<'_>) -> Holder {
    let found = || {
        let stat = fstat(file).ok()?;
        let place = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
        let all = fs::read_to_string("/proc/locks").ok()?;
        all.lines().find_map(|line| {
            // `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5516569 0 EOF`; a waiting process has `->`
            // after the number.
            let mut words = line.split_ascii_whitespace().skip(1);
            let is_lock = words.next() == Some("FLOCK");
            let (pid, at) = (words.nth(2)?, words.next()?);
            (is_lock && at == place).then(|| pid.parse().ok().filter(|pid| *pid > 0)).flatten()
        })
    };
    Holder { pid: found() }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn a_lock_that_is_held_is_an_error_that_names_the_holder_and_who_waits_is_told() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = told.clone();
        listen(move |text| listener.lock().push(text.to_owned()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let open = || File::create(&path).unwrap();
        let held = FileLock::wait(open(), Kind::Exclusive, &"a.lock").unwrap();
        let patience = SILENCE + Duration::from_millis(100);
        for kind in [Kind::Shared, Kind::Exclusive] {
            let other = open();
            match acquire_within(&other, kind, &"a.lock", patience) {
                Err(LockError::Held { holder, .. }) => assert_eq!(holder.pid, Some(std::process::id())),
                other => panic!("{other:?}"),
            }
        }
        let expected = format!("waiting for process {}, which holds a.lock", std::process::id());
        assert_eq!(*told.lock(), [expected.clone(), expected]);
        drop(held);
        acquire(open(), Kind::Exclusive, &"a.lock").unwrap();
    }

    #[test]
    fn a_lock_is_given_back_although_a_copy_of_its_descriptor_lives_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let file = File::create(&path).unwrap();
        let copy = file.try_clone().unwrap();
        let locked = FileLock::try_alone(file).unwrap().unwrap();
        assert!(FileLock::try_alone(File::create(&path).unwrap()).unwrap().is_none(), "the control");
        drop(locked);
        assert!(FileLock::try_alone(File::create(&path).unwrap()).unwrap().is_some());
        drop(copy);
    }
}
