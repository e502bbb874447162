//! Tests of the caches in a home: order of removal, limits and hostile content.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, UNIX_EPOCH};

use super::*;

const NOW: Timestamp = Timestamp::constant(2_000_000_000, 0);

/// A folder for homes, and a workspace.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("workspace")).unwrap();
        Self { folder }
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    fn homes(&self, limit: u64) -> Homes {
        Homes::open(&self.folder.path().join("homes"), &self.workspace(), limit, NOW).unwrap().unwrap()
    }
}

/// Fills a cache that was last used `days` days ago.
fn fill(homes: &Homes, cache: &str, bytes: usize, days: u64) {
    let folder = homes.home.caches().join(cache);
    fs::create_dir_all(folder.join("inner")).unwrap();
    fs::write(folder.join("inner/file"), vec![b'x'; bytes]).unwrap();
    let then = SystemTime::from(NOW) - Duration::from_secs(days * 86_400);
    let times = fs::FileTimes::new().set_accessed(then).set_modified(then);
    for path in [folder.join("inner/file"), folder.join("inner"), folder] {
        File::open(path).unwrap().set_times(times).unwrap();
    }
}

fn left(homes: &Homes) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(homes.home.caches())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_caches_used_least_recently_go_until_the_rest_is_within_the_limit() {
    let scene = Scene::new();
    let homes = scene.homes(5 << 20);
    for (cache, days) in [("pip", 1), ("npm", 30), ("go", 20), ("deno", 2)] {
        fill(&homes, cache, 2 << 20, days);
    }
    fill(&homes, "bun", 1, 90);
    homes.tend(NOW).unwrap();
    assert_eq!(left(&homes), ["bun", "deno", "pip"]);
    assert_eq!(fs::read_dir(scene.folder.path().join("homes")).unwrap().count(), 1);
    let own = fs::read_dir(homes.folder.join(&homes.id)).unwrap();
    assert!(own.into_iter().all(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with(TAKEN)));
}

#[test]
fn caches_within_the_limit_stay_and_nobody_looks_again_at_once() {
    let scene = Scene::new();
    let homes = scene.homes(5 << 20);
    fill(&homes, "pip", 2 << 20, 1);
    assert!(homes.are_due(NOW) && !homes.are_due(NOW));
    homes.tend(NOW).unwrap();
    assert_eq!(left(&homes), ["pip"]);
    fill(&homes, "npm", 9 << 20, 2);
    // Another process of the same workspace.
    scene.homes(5 << 20).tend(NOW).unwrap();
    assert_eq!(left(&homes), ["npm", "pip"]);
    let later = NOW + INTERVAL;
    assert!(homes.are_due(later));
    homes.tend(later).unwrap();
    assert_eq!(left(&homes), ["pip"]);
}

#[test]
fn hostile_trees_go_whatever_they_are_and_nothing_outside_of_them() {
    let scene = Scene::new();
    let homes = scene.homes(1 << 20);
    fill(&homes, "pip", 10, 1);
    let caches = homes.home.caches();
    let outside = scene.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("stays"), vec![b'x'; 4 << 20]).unwrap();
    // A symbolic link counts with its own size.
    symlink(&outside, caches.join("link")).unwrap();
    symlink(&outside, caches.join("pip/link")).unwrap();
    let closed = caches.join("npm/closed");
    fs::create_dir_all(closed.join("inner")).unwrap();
    symlink(&outside, closed.join("inner/link")).unwrap();
    fs::write(closed.join(OsStr::from_bytes(b"\xff\n*")), vec![b'x'; 2 << 20]).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    // Nest folders deeper than a path can be long.
    let mut deep = File::open(&caches).unwrap();
    for _ in 0..40 {
        let place = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&deep)));
        let next = place.join("d".repeat(200));
        fs::create_dir(&next).unwrap();
        deep = File::open(next).unwrap();
    }
    homes.tend(NOW).unwrap();
    assert_eq!(left(&homes), ["link", "pip"]);
    assert_eq!(fs::metadata(outside.join("stays")).unwrap().len(), 4 << 20);
}

#[test]
fn a_folder_that_was_filled_with_entries_is_taken_as_a_whole() {
    let scene = Scene::new();
    let homes = scene.homes(1 << 20);
    fs::create_dir_all(homes.home.caches()).unwrap();
    for number in 0..=MAX_CACHES {
        fs::write(homes.home.caches().join(number.to_string()), "").unwrap();
    }
    homes.tend(NOW).unwrap();
    assert!(!homes.home.caches().exists(), "the next cell makes it again");
}

#[test]
fn nothing_is_taken_while_somebody_else_has_the_caches() {
    let scene = Scene::new();
    let homes = scene.homes(1);
    fill(&homes, "pip", 1 << 20, 1);
    let other = homes.home.alone().unwrap();
    assert!(other.is_some());
    homes.tend(NOW).unwrap();
    assert_eq!(left(&homes), ["pip"]);
    drop(other);
    homes.tend(NOW + INTERVAL).unwrap();
    assert_eq!(left(&homes), Vec::<String>::new());
}

#[test]
fn what_a_killed_process_had_taken_away_is_removed_by_the_next() {
    let scene = Scene::new();
    let homes = scene.homes(1 << 20);
    fill(&homes, "pip", 10, 1);
    let own = homes.folder.join(&homes.id);
    let places = [own.join("taken-1"), homes.folder.join("taken-2")];
    for place in &places {
        fs::create_dir_all(place.join("inner")).unwrap();
    }
    homes.tend(NOW).unwrap();
    assert!(places.iter().all(|place| !place.exists()));
    assert_eq!(left(&homes), ["pip"]);
}

#[test]
fn the_home_of_a_workspace_that_is_gone_goes_after_a_week() {
    let scene = Scene::new();
    let homes = scene.homes(1 << 20);
    let folder = homes.folder.clone();
    let other = |name: &str, opened: Timestamp| {
        let workspace = scene.folder.path().join(name);
        Homes::open(&folder, &workspace, LIMIT, opened).unwrap().unwrap()
    };
    let week_ago = NOW - KEPT_WITHOUT_WORKSPACE;
    // A workspace must exist to be opened, because the home's owner is derived from it.
    for name in ["gone", "gone-lately", "there"] {
        fs::create_dir(scene.folder.path().join(name)).unwrap();
    }
    let all = [
        other("gone", week_ago),
        other("gone-lately", week_ago + SignedDuration::from_secs(1)),
        other("there", week_ago),
    ];
    for homes in &all {
        fill(homes, "pip", 10, 1);
    }
    fs::remove_dir(scene.folder.path().join("gone")).unwrap();
    fs::remove_dir(scene.folder.path().join("gone-lately")).unwrap();
    homes.tend(NOW).unwrap();
    assert_eq!(all.each_ref().map(|homes| folder.join(&homes.id).exists()), [false, true, true]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "nothing else is left, and the own home stays");
}

#[test]
fn a_limit_of_nothing_keeps_nothing() {
    let scene = Scene::new();
    let folder = scene.folder.path().join("homes");
    assert!(Homes::open(&folder, &scene.workspace(), 0, NOW).unwrap().is_none());
    assert!(!folder.exists());
}

#[test]
fn the_order_is_by_use_and_what_has_no_size_goes_first() {
    let known = |bytes, day| Size::Known { bytes, used: UNIX_EPOCH + Duration::from_secs(day) };
    let sized = |all: &[(Size, &str)]| all.iter().map(|(size, name)| (*size, OsString::from(name))).collect();
    assert_eq!(too_much(sized(&[(known(3, 2), "b"), (known(3, 1), "a"), (known(3, 3), "c")]), 6), ["a"]);
    assert_eq!(too_much(sized(&[(known(3, 2), "b"), (Size::Unknown, "x")]), 6), ["x"]);
    assert!(too_much(sized(&[(known(6, 2), "b")]), 6).is_empty());
}
