//! The set after changes, without a walk.

use std::collections::BTreeSet;
use std::fs::{self, hard_link, rename};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::fixture::Folder;

#[test]
fn what_comes_and_goes_is_followed_without_a_walk() {
    let folder = Folder::new(&["a/plain"]);
    let outside = Folder::new(&["tree/deep/.env", "tree/fixed"]);
    let mut watch = folder.watch();
    folder.expect(&mut watch, &[], &[]);
    folder.write("a/.env");
    folder.expect(&mut watch, &["a/.env"], &[]);
    folder.write("new/below/secret/x");
    folder.expect(&mut watch, &["a/.env", "new/below/secret"], &[]);
    rename(folder.at("a"), folder.at("new/a")).unwrap();
    folder.expect(&mut watch, &["new/a/.env", "new/below/secret"], &[]);
    folder.write("new/a/in/.env");
    folder.expect(&mut watch, &["new/a/.env", "new/a/in/.env", "new/below/secret"], &[]);
    rename(folder.at("new"), outside.at("new")).unwrap();
    rename(outside.at("tree"), folder.at("tree")).unwrap();
    folder.expect(&mut watch, &["tree/deep/.env"], &["tree/fixed"]);
    fs::write(outside.at("new/.env"), "no longer below the root").unwrap();
    fs::remove_dir_all(folder.at("tree")).unwrap();
    folder.write("tree/.env");
    folder.expect(&mut watch, &["tree/.env"], &[]);
    assert_eq!(watch.walks(), 1);
}

#[test]
fn what_takes_an_old_name_has_appeared_again() {
    let folder = Folder::new(&[".env", "other", "fixed"]);
    let mut watch = folder.watch();
    assert_eq!(watch.sync().unwrap().appeared, Vec::<PathBuf>::new());
    rename(folder.at("other"), folder.at(".env")).unwrap();
    assert_eq!(watch.sync().unwrap().appeared, [folder.at(".env")]);
    fs::write(folder.at(".env"), "the same file, written").unwrap();
    assert_eq!(watch.sync().unwrap().appeared, Vec::<PathBuf>::new());
    folder.write("d/e/.env");
    assert_eq!(watch.sync().unwrap().appeared, [folder.at("d/e/.env")]);
}

#[test]
fn a_root_that_is_replaced_is_looked_through_again() {
    let folder = Folder::new(&["root/.env"]);
    let mut watch =
        watch::Watch::new(vec![folder.at("root")], crate::fixture::ByName, watch::WatchMode::Fresh);
    assert_eq!(watch.sync().unwrap().hidden, [folder.at("root/.env")]);
    rename(folder.at("root"), folder.at("old")).unwrap();
    folder.write("root/a/.env");
    assert_eq!(watch.sync().unwrap().hidden, [folder.at("root/a/.env")]);
    fs::remove_dir_all(folder.at("root")).unwrap();
    assert_eq!(watch.sync().unwrap().hidden, Vec::<PathBuf>::new());
    folder.write("root/.env");
    assert_eq!(watch.sync().unwrap().hidden, [folder.at("root/.env")]);
}

#[test]
fn more_changes_than_the_kernel_keeps_lead_to_a_walk() {
    let folder = Folder::new(&["a/.env"]);
    let mut watch = folder.watch();
    folder.expect(&mut watch, &["a/.env"], &[]);
    let kept: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    for number in 0..=kept / 2 {
        // Each round creates two notifications.
        rename(folder.at("a"), folder.at("b")).unwrap();
        rename(folder.at("b"), folder.at("a")).unwrap();
        if number == 0 {
            folder.write("a/deep/secret");
        }
    }
    folder.write("late/.env");
    folder.expect(&mut watch, &["a/.env", "a/deep/secret", "late/.env"], &[]);
    assert_eq!(watch.walks(), 2);
}

/// A generator of pseudo-random numbers, equal in each run (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }

    fn path(&mut self) -> String {
        let names = ["a", "b", "c", ".env", "secret", "fixed", "plain"];
        let depth = 1 + self.below(4);
        (0..depth).map(|_| names[self.below(names.len())]).collect::<Vec<_>>().join("/")
    }
}

/// Makes a random change. Most attempts fail because their file does not exist, which tests as much.
fn change(chance: &mut Chance, folder: &Folder, outside: &Folder) {
    let (one, two) = (chance.path(), chance.path());
    let (from, to) = (folder.at(&one), folder.at(&two));
    let _ = match chance.below(12) {
        0..=2 => fs::create_dir_all(from),
        3..=4 => fs::write(from, "text"),
        5..=6 => rename(from, to),
        7 => fs::remove_dir_all(from),
        8 => fs::remove_file(from),
        9 => hard_link(from, to),
        10 => symlink(&two, from),
        _ if chance.below(2) == 0 => rename(from, outside.at(["x", "y"][chance.below(2)])),
        _ => rename(outside.at(["x", "y"][chance.below(2)]), to),
    };
}

#[test]
fn after_any_changes_the_set_is_what_a_walk_finds() {
    let mut seen = BTreeSet::new();
    for seed in 1..=10 {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (seed << 32));
        let (folder, outside) = (Folder::new(&[]), Folder::new(&[]));
        let mut watch = folder.watch();
        for round in 0..40 {
            for _ in 0..=chance.below(12) {
                change(&mut chance, &folder, &outside);
            }
            let kept = watch.sync().unwrap();
            let walked = folder.walked();
            assert_eq!(folder.relative(&kept), folder.relative(&walked), "seed {seed}, round {round}");
            seen.insert(walked.hidden.len());
        }
        assert_eq!(watch.walks(), 1, "seed {seed}");
    }
    assert!(seen.len() > 5, "the changes come to something: {seen:?}");
}
