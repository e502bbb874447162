//! Locks on files (`flock`) that several processes share: waited for within bounds, and given back at once.
//!
//! A process that was stopped holds its locks until somebody continues it. [`acquire`] waits for [`PATIENCE`] at most, has whoever
//! [listens](listen) told meanwhile, and names the holder.
//!
//! A lock belongs to an open file description, which a `fork` shares: closing one descriptor of it leaves the lock with the
//! copy for as long as that lives. [`Locked`] unlocks, which counts for all copies.
//!
//! This crate decides nothing about what a lock protects, and prints nothing.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, fstat, major, minor};
use rustix::io::Errno;

/// The longest wait for a lock. Every holder that works gives its lock back in a small part of this.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The wait after which the listener is told.
const SILENCE: Duration = Duration::from_secs(1);

/// The first and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// A kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any number of processes may hold it at once.
    Shared,
    /// One process holds it alone.
    Exclusive,
}

/// A failed attempt to get a lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has held it for the whole wait.
    #[error("{holder} has held the lock for {} seconds; try again when it is done, and where it was stopped, continue it with `kill -CONT` or end it", waited.as_secs())]
    Held {
        /// The holder.
        holder: Holder,
        /// The time that was waited.
        waited: Duration,
    },
    /// The system failed.
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

/// The process that holds a lock, as far as the system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its id. None where it is not visible from here, in another container say.
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

/// Has every wait of this process that lasts told in one sentence, once. The first listener counts.
pub fn listen(listener: impl Fn(&str) + Send + Sync + 'static) {
    // A second composition in one process says the same.
    let _second = LISTENER.set(Box::new(listener));
}

/// Locks a file, and waits for [`PATIENCE`] at most. `name` is what a user is told of the file.
///
/// # Errors
/// [`LockError`].
pub fn acquire(file: impl AsFd, kind: Kind, name: &dyn fmt::Display) -> Result<(), LockError> {
    acquire_within(file, kind, name, PATIENCE)
}

/// Locks a file as [`acquire`] does, with a patience of its own: for files that others may have locked for good.
///
/// # Errors
/// [`LockError`].
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

/// A locked file. Dropped, it is unlocked, also where a copy of this process shares it.
#[derive(Debug)]
pub struct Locked(OwnedFd);

impl Locked {
    /// Locks a file as [`acquire`] does.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn wait(file: impl Into<OwnedFd>, kind: Kind, name: &dyn fmt::Display) -> Result<Self, LockError> {
        let file = file.into();
        acquire(&file, kind, name).map(|()| Self(file))
    }

    /// Locks a file for this process alone, where nobody holds a lock on it now.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_alone(file: impl Into<OwnedFd>) -> io::Result<Option<Self>> {
        let file = file.into();
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Locked {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        release(&self.0);
    }
}

/// Unlocks a file for every copy of its descriptor.
pub fn release(file: impl AsFd) {
    // Unlocking an open descriptor cannot fail.
    let _unlocked = flock(file, FlockOperation::Unlock);
}

/// Finds the process that holds a lock on the file now; none where nobody does.
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

/// Finds the process that holds a lock on the file (`proc_locks(5)`).
fn holder(file: BorrowedFd<'_>) -> Holder {
    let found = || {
        let stat = fstat(file).ok()?;
        let place = format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino);
        let all = fs::read_to_string("/proc/locks").ok()?;
        all.lines().find_map(|line| {
            // `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5516569 0 EOF`; who waits has `->` behind the number.
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
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_lock_that_is_held_is_an_error_that_names_the_holder_and_who_waits_is_told() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = told.clone();
        listen(move |text| listener.lock().unwrap().push(text.to_owned()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let open = || File::create(&path).unwrap();
        let held = Locked::wait(open(), Kind::Exclusive, &"a.lock").unwrap();
        let patience = SILENCE + Duration::from_millis(100);
        for kind in [Kind::Shared, Kind::Exclusive] {
            let other = open();
            match acquire_within(&other, kind, &"a.lock", patience) {
                Err(LockError::Held { holder, .. }) => assert_eq!(holder.pid, Some(std::process::id())),
                other => panic!("{other:?}"),
            }
        }
        let expected = format!("waiting for process {}, which holds a.lock", std::process::id());
        assert_eq!(*told.lock().unwrap(), [expected.clone(), expected]);
        drop(held);
        acquire(open(), Kind::Exclusive, &"a.lock").unwrap();
    }

    #[test]
    fn a_lock_is_given_back_although_a_copy_of_its_descriptor_lives_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let file = File::create(&path).unwrap();
        let copy = file.try_clone().unwrap();
        let locked = Locked::try_alone(file).unwrap().unwrap();
        assert!(Locked::try_alone(File::create(&path).unwrap()).unwrap().is_none(), "the control");
        drop(locked);
        assert!(Locked::try_alone(File::create(&path).unwrap()).unwrap().is_some());
        drop(copy);
    }
}
