//! Memory for what must not be written anywhere: kept out of swap and of core dumps, and wiped when it is let go.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Once;

use region::LockGuard;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zeroize::Zeroize;

/// Bytes in pages of their own. Where the system lets this process lock no more memory (`ulimit -l`), they are wiped all the same,
/// and [`Locked::is_locked`] says that they may be swapped out.
pub struct Locked {
    /// A page more than is needed before and behind, because unlocking a page unlocks it for all that lies in it.
    bytes: Vec<u8>,
    start: usize,
    length: usize,
    guard: Option<LockGuard>,
}

impl Locked {
    /// So many bytes, each 0.
    pub fn zeroed(length: usize) -> Self {
        dump_no_core();
        let page = region::page::size();
        // INVARIANT: never grown, because growing would move the bytes and leave a copy behind.
        let bytes = vec![0_u8; length.next_multiple_of(page) + page];
        let start = bytes.as_ptr().align_offset(page).min(page);
        let guard = bytes
            .get(start..)
            .filter(|_| length > 0)
            .and_then(|pages| region::lock(pages.as_ptr(), length).ok());
        Self { bytes, start, length, guard }
    }

    /// A copy of these bytes.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }

    /// Whether the system keeps them out of swap.
    pub fn is_locked(&self) -> bool {
        self.guard.is_some() || self.length == 0
    }

    /// The first bytes alone. What is behind them is wiped.
    pub fn truncate(&mut self, length: usize) {
        if let Some(behind) = self.get_mut(length..) {
            behind.zeroize();
            self.length = length;
        }
    }
}

/// A process that holds secrets leaves no core dump, neither in a file nor with a service of the system, which keep to this limit.
fn dump_no_core() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let maximum = getrlimit(Resource::Core).maximum;
        // Making a limit smaller is refused to nobody.
        let _set = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
    });
}

impl Deref for Locked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // All that was ever written to: what a shorter length left behind is wiped already.
        self.deref_mut().zeroize();
        // Before the memory is given back: it may be somebody else's at once.
        drop(self.guard.take());
    }
}

impl fmt::Debug for Locked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Locked").field(&self.length).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// The kernel counts what the whole process has locked, so that these tests take turns.
    fn turn() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the kernel says of the memory of this process that is locked, in KiB.
    fn locked_kilobytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn pages_are_locked_one_by_one_and_let_go_again() {
        let _turn = turn();
        let before = locked_kilobytes();
        let first = Locked::copy_of(b"one");
        let second = Locked::copy_of(&[7; 5_000]);
        assert!(first.is_locked() && second.is_locked());
        let page = region::page::size() as u64 / 1_024;
        let both = locked_kilobytes();
        assert!(both >= before + 3 * page, "{before} {both}");
        drop(first);
        assert!(second.is_locked() && second.iter().all(|byte| *byte == 7));
        assert_eq!(locked_kilobytes(), both - page);
        drop(second);
        assert_eq!(locked_kilobytes(), before);
        // So much that it goes back to the system at once, and not before it is unlocked.
        let large = Locked::zeroed(4 << 20);
        assert!(large.is_locked());
        drop(large);
        assert_eq!(locked_kilobytes(), before);
    }

    #[test]
    fn what_is_cut_off_is_wiped_and_nothing_is_shown() {
        let _turn = turn();
        let mut bytes = Locked::copy_of(b"0123456789");
        bytes.truncate(4);
        assert_eq!(&bytes[..], b"0123");
        assert!(bytes.bytes[bytes.start + 4..].iter().all(|byte| *byte == 0));
        assert_eq!(format!("{bytes:?}"), "Locked(4)");
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert!(Locked::zeroed(0).is_empty());
    }
}
