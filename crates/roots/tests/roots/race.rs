//! Tests of a link that is swapped in at any moment of an operation.

use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::{Fixture, never};
use roots::Removal;
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Enough attempts to meet both states many times; the test ends as soon as it has.
const MAX_TRIES: usize = 200_000;
const ENOUGH_OF_EACH: usize = 300;

/// Swaps `inside/spot` (a folder) and `inside/link` (a link that leads out) as fast as it can while
/// `work` runs.
fn while_swapping(fixture: &Fixture, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(
                    CWD,
                    fixture.inside("spot"),
                    CWD,
                    fixture.inside("link"),
                    RenameFlags::EXCHANGE,
                )
                .unwrap();
            }
        });
        // The swapping also ends when an assertion in `work` fails.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fs::create_dir(fixture.inside("spot")).unwrap();
    fs::write(fixture.inside("spot/file"), "inside").unwrap();
    fs::write(fixture.outside("file"), "outside").unwrap();
    std::os::unix::fs::symlink(fixture.outside(""), fixture.inside("link")).unwrap();
    fixture
}

#[test]
fn a_swapped_link_never_leads_a_read_out() {
    let fixture = fixture();
    let roots = fixture.roots();
    let (mut passed, mut refused) = (0, 0);
    while_swapping(&fixture, || {
        for _ in 0..MAX_TRIES {
            match roots.open_file(&fixture.inside("spot/file")) {
                Ok(mut opened) => {
                    let mut text = String::new();
                    opened.file.read_to_string(&mut text).unwrap();
                    assert_eq!(text, "inside");
                    passed += 1;
                }
                Err(_) => refused += 1,
            }
            if passed >= ENOUGH_OF_EACH && refused >= ENOUGH_OF_EACH {
                return;
            }
        }
    });
    assert!(passed > 0 && refused > 0, "the race was not met: {passed} passed, {refused} refused");
}

#[test]
fn a_swapped_link_never_leads_a_write_or_a_removal_out() {
    let fixture = fixture();
    let roots = fixture.roots();
    let (mut written, mut refused) = (0, 0);
    while_swapping(&fixture, || {
        for _ in 0..MAX_TRIES {
            let path = fixture.inside("spot/file");
            let made = roots.stage(&path, b"inside").and_then(roots::StagedFile::commit);
            let removed = roots.remove(&path, Removal::Entry, &never);
            for outcome in [made.is_ok(), removed.is_ok()] {
                if outcome {
                    written += 1;
                } else {
                    refused += 1;
                }
            }
            assert_eq!(fs::read_to_string(fixture.outside("file")).unwrap(), "outside");
            if written >= ENOUGH_OF_EACH && refused >= ENOUGH_OF_EACH {
                return;
            }
        }
    });
    assert!(written > 0 && refused > 0, "the race was not met: {written} done, {refused} refused");
    assert_eq!(fs::read_dir(fixture.outside("")).unwrap().count(), 1);
}
