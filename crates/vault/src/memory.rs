//! Memory for secrets, which stays out of swap and of core dumps and is wiped when dropped.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Once;

use region::LockGuard;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zeroize::Zeroize;

/// Bytes in pages that contain no other data. If the system allows this process no more locked
/// memory (`ulimit -l`), the bytes are still wiped, and [`SecretBytes::is_locked`] reports that they may
/// be swapped out.
pub struct SecretBytes {
    /// Buffer with room for alignment to whole pages, because unlocking a page affects all data in
    /// that page.
    bytes: Vec<u8>,
    start: usize,
    length: usize,
    guard: Option<LockGuard>,
}

impl SecretBytes {
    /// Allocates `length` bytes, each 0.
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

    /// Copies `bytes` into locked memory.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }

    /// Returns true if the system keeps the bytes out of swap.
    pub fn is_locked(&self) -> bool {
        self.guard.is_some() || self.length == 0
    }

    /// Shortens the block to `length` bytes and wipes the rest.
    pub fn truncate(&mut self, length: usize) {
        if let Some(behind) = self.get_mut(length..) {
            behind.zeroize();
            self.length = length;
        }
    }
}

/// Disables core dumps of this process. System services that collect core dumps respect this limit
/// too.
fn dump_no_core() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let maximum = getrlimit(Resource::Core).maximum;
        // Every process may lower its own limit.
        let _set = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
    });
}

impl Deref for SecretBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl DerefMut for SecretBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        // Wiping the current length is enough: `truncate` has wiped the rest.
        self.deref_mut().zeroize();
        // Unlock before the memory is freed, because another allocation may reuse it at once.
        drop(self.guard.take());
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Locked").field(&self.length).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Returns the locked memory of this process in KiB, as the kernel counts it.
    fn locked_kilobytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test runs itself again, in a process of its own")]
    fn pages_are_locked_one_by_one_and_let_go_again() {
        // The kernel counts the locked memory of a whole process, and tests beside this one lock
        // memory too.
        const ALONE: &str = "VAULT_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "memory::tests::pages_are_locked_one_by_one_and_let_go_again";
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let output = alone.args(["--exact", name]).env(ALONE, "1").output().unwrap();
            let report = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && report.contains("1 passed"), "{report}");
            return;
        }
        let before = locked_kilobytes();
        let first = SecretBytes::copy_of(b"one");
        let second = SecretBytes::copy_of(&[7; 5_000]);
        assert!(first.is_locked() && second.is_locked());
        let page = region::page::size() as u64 / 1_024;
        let both = locked_kilobytes();
        assert!(both >= before + 3 * page, "{before} {both}");
        drop(first);
        assert!(second.is_locked() && second.iter().all(|byte| *byte == 7));
        assert_eq!(locked_kilobytes(), both - page);
        drop(second);
        assert_eq!(locked_kilobytes(), before);
        // A block this large goes back to the system when freed; it must be unlocked before that.
        let large = SecretBytes::zeroed(4 << 20);
        assert!(large.is_locked());
        drop(large);
        assert_eq!(locked_kilobytes(), before);
    }

    #[test]
    fn what_is_cut_off_is_wiped_and_nothing_is_shown() {
        let mut bytes = SecretBytes::copy_of(b"0123456789");
        bytes.truncate(4);
        assert_eq!(&bytes[..], b"0123");
        assert!(bytes.bytes[bytes.start + 4..].iter().all(|byte| *byte == 0));
        assert_eq!(format!("{bytes:?}"), "Locked(4)");
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert!(SecretBytes::zeroed(0).is_empty());
    }
}
