//! Parallel work on many independent files.
//!
//! The system takes nearly all the time of a small file, and it serves several threads at once.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Minimum number of items that a thread takes at a time. With fewer than two shares, the caller
/// works alone.
const SHARE: usize = 64;

/// Maximum size of a share that is extended to cover one folder: the folder is then opened once, and
/// no other thread waits for its lock.
const MAX_OF_ONE_FOLDER: usize = 512;

/// Maximum number of threads, including the caller. Further threads would wait for the locks of the
/// file system.
const MAX_THREADS: usize = 4;

/// Runs `work` on each item, and returns the results in the order of the items. `begin` creates the
/// state that a thread keeps from one item to the next.
///
/// The first failing item, in item order, determines the error. Later items may already have been
/// processed.
pub(crate) fn each<T: Sync, S, R: Send, E: Send>(
    items: &[T],
    path: impl Fn(&T) -> &Path,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let shares = shares(items, path);
    let next = AtomicUsize::new(0);
    let take_shares = || {
        let (mut state, mut done) = (begin(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(share) = shares.get(number) else { return done };
            let results: Result<Vec<R>, E> = share.iter().map(|item| work(&mut state, item)).collect();
            if results.is_err() {
                // No thread begins a later share; earlier shares are under way, and may fail as
                // well.
                next.fetch_max(shares.len(), Ordering::Relaxed);
            }
            done.push((number, results));
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads(shares.len()))
            // If the system refuses further threads, fewer do the work.
            .map_while(|_| {
                thread::Builder::new().name("files".to_owned()).spawn_scoped(scope, take_shares).ok()
            })
            .collect();
        let own = take_shares();
        let joined = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.fold(own, |mut all, more| {
            all.extend(more);
            all
        })
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    let mut all = Vec::with_capacity(items.len());
    for (_, results) in done {
        all.extend(results?);
    }
    Ok(all)
}

/// Divides the items into shares; neighbours in one folder share one.
fn shares<T>(items: &[T], path: impl Fn(&T) -> &Path) -> Vec<&[T]> {
    let mut shares = Vec::new();
    let mut rest = items;
    while !rest.is_empty() {
        let mut end = SHARE.min(rest.len());
        while end < rest.len().min(MAX_OF_ONE_FOLDER)
            && path(&rest[end]).parent() == path(&rest[end - 1]).parent()
        {
            end += 1;
        }
        let (share, behind) = rest.split_at(end);
        shares.push(share);
        rest = behind;
    }
    shares
}

/// Returns the number of threads. Counting the processors takes several system calls, so a single
/// share skips it.
fn threads(shares: usize) -> usize {
    if shares < 2 {
        return 1;
    }
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS).min(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assigns items to folders of 100 items each.
    fn place(item: &usize) -> &Path {
        const FOLDERS: [&str; 3] = ["a/x", "b/x", "c/x"];
        Path::new(FOLDERS[item / 100 % FOLDERS.len()])
    }

    #[test]
    fn a_folder_is_one_share_unless_it_is_large() {
        let items: Vec<usize> = (0..1_000).collect();
        assert!(shares(&items, place).iter().all(|share| share.len() == 100));
        let lengths: Vec<usize> =
            shares(&items, |_| Path::new("one/x")).iter().map(|share| share.len()).collect();
        assert_eq!(lengths, [MAX_OF_ONE_FOLDER, 1_000 - MAX_OF_ONE_FOLDER]);
        // Many small folders must not result in many small shares.
        let names: Vec<String> = (0..200).map(|folder| format!("{folder}/x")).collect();
        assert_eq!(shares(&names, |name| Path::new(name))[0].len(), SHARE);
    }

    #[test]
    fn results_come_in_the_order_of_the_items_whoever_worked_on_them() {
        for count in [0, 1, SHARE, SHARE + 1, 20 * SHARE + 3] {
            let items: Vec<usize> = (0..count).collect();
            let done = each(&items, place, || (), |(), item| Ok::<_, ()>(item * 2)).unwrap();
            assert_eq!(done, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn of_several_that_fail_the_first_is_told_and_all_before_it_was_worked_on() {
        let items: Vec<usize> = (0..30 * SHARE).collect();
        let first = 7 * SHARE + 5;
        let worked = AtomicUsize::new(0);
        let failed = each(
            &items,
            place,
            || (),
            |(), item| {
                if *item < first {
                    worked.fetch_add(1, Ordering::Relaxed);
                }
                if *item >= first { Err(*item) } else { Ok(()) }
            },
        );
        assert_eq!((failed, worked.into_inner()), (Err(first), first));
    }

    #[test]
    fn a_thread_keeps_its_state_from_one_item_to_the_next() {
        let items: Vec<usize> = (0..10 * SHARE).collect();
        let begun = AtomicUsize::new(0);
        let count = |state: &mut usize, _: &usize| {
            *state += 1;
            Ok::<_, ()>(*state)
        };
        let counted = each(&items, place, || begun.fetch_add(0, Ordering::Relaxed), count).unwrap();
        assert!(counted.iter().any(|count| *count > 1), "{counted:?}");
    }
}
