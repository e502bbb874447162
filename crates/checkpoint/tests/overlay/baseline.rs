//! Tests that the baseline separates earlier entries from later changes by others.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::fixture::Place;
use checkpoint::Time;

/// Returns true if the kernel gives exact times to files whose times were read (since Linux 6.13).
fn has_exact_times() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 13)
}

#[test]
fn a_change_right_before_the_baseline_is_earlier_and_one_right_after_it_is_not() {
    let place = Place::new();
    let call = place.area.begin().unwrap();
    let path = place.path().join("file");
    let changed = || {
        let found = fs::symlink_metadata(&path).unwrap();
        Time { seconds: found.ctime(), nanoseconds: found.ctime_nsec().try_into().unwrap() }
    };
    let exact = has_exact_times();
    if !exact {
        println!("not checked: this kernel stamps changes with a clock that moves in ticks");
    }
    for round in 0..400 {
        // Alternate between a new file, with a time of the coarse clock, and one whose times were
        // read.
        if round % 2 == 0 {
            let _ = fs::remove_file(&path);
            fs::write(&path, "new").unwrap();
        } else {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let baseline = call.baseline().unwrap();
        if exact {
            assert!(changed() < baseline, "in round {round}: {:?} against {baseline:?}", changed());
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(changed() >= baseline, "in round {round}: {:?} against {baseline:?}", changed());
    }
}
