//! Panics of a parser, which are caught without a message.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::Opaque;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

thread_local! {
    /// True if a panic of this thread is caught here.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Turns a panic of a parser into [`Opaque`]. The parsers' sources have places that could panic, on
/// numbers out of range.
///
/// The program's panic hook is still called for all other panics. A panic that is caught here needs
/// no report, and a line from a client must not write to standard error.
pub(crate) fn caught<T>(read: impl FnOnce() -> Result<T, Opaque>) -> Result<T, Opaque> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| set_hook(without_caught(take_hook())));
    let outer = CATCHING.replace(true);
    let answer = catch_unwind(AssertUnwindSafe(read));
    CATCHING.set(outer);
    answer.unwrap_or_else(|_| Err(Opaque::new("a parser gave up on it")))
}

/// Returns a hook for all panics except those that are caught here.
fn without_caught(hook: Hook) -> Hook {
    Box::new(move |panic| {
        if !CATCHING.get() {
            hook(panic);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_panic_that_is_caught_here_is_told_to_nobody_and_every_other_one_is() {
        let told = Arc::new(AtomicUsize::new(0));
        let counter = told.clone();
        let hook: Hook = Box::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        let before = take_hook();
        set_hook(without_caught(hook));
        let broken = || -> Result<(), Opaque> { std::panic::panic_any("out of range") };
        assert_eq!(caught(broken), Err(Opaque::new("a parser gave up on it")));
        assert_eq!(told.load(Ordering::SeqCst), 0);
        assert!(catch_unwind(broken).is_err());
        assert_eq!(told.load(Ordering::SeqCst), 1);
        // A panic on another thread is not hidden by a panic that is caught here.
        let inside = caught(|| Ok(std::thread::spawn(broken).join().is_err()));
        assert_eq!((inside, told.load(Ordering::SeqCst)), (Ok(true), 2));
        set_hook(before);
    }
}
