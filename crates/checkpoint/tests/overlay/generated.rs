//! Tests that random commands leave the same tree through an overlay with a commit and in a direct
//! run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use checkpoint::{Outcome, SavedEntry, compose};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use crate::fixture::{Place, Shown, direct, in_user_namespace, since, tree, without_times};
use crate::restored::{InMemory, change, undo};

/// One command. Paths are few and short, so that commands meet each other's files.
#[derive(Debug, Clone)]
enum Step {
    Write(String, u8),
    Append(String, u8),
    ReplaceByRename(String, u8),
    OpenOnly(String),
    MakeFolders(String),
    Remove(String),
    RemoveInside(String),
    Move(String, String),
    CopyFolder(String, String),
    Link(String, String),
    HardLink(String, String),
    Fifo(String),
    Mode(String, u32),
    Time(String, u8),
}

impl Step {
    /// Returns the shell command. A step that makes no sense at its position fails in both runs
    /// alike.
    fn line(&self) -> String {
        let line = match self {
            Self::Write(path, text) => format!("test ! -p {path} && echo {text} >{path}"),
            Self::Append(path, text) => format!("test ! -p {path} && echo {text} >>{path}"),
            Self::ReplaceByRename(path, text) => format!("echo {text} >new && mv -T new {path}"),
            Self::OpenOnly(path) => format!("test ! -p {path} && true 3<>{path}"),
            Self::MakeFolders(path) => format!("mkdir -p {path}"),
            Self::Remove(path) => format!("rm -rf {path}"),
            Self::RemoveInside(path) => format!("test ! -L {path} && rm -rf {path}/*"),
            Self::Move(from, to) => format!("test ! -d {from} -o -L {from} && mv -T {from} {to}"),
            // An overlay answers EXDEV to the rename of a folder, and `mv` then runs this copy.
            Self::CopyFolder(from, to) => {
                // Copying into itself, `cp` gets as far as the order of the entries on the disk
                // allows; into a FIFO, it waits. `readlink -m` would follow a link to itself
                // forever.
                let apart = format!(
                    "real=$(readlink -f {to}) && case $real/ in $(readlink -f {from})/*) false;; esac"
                );
                let free = format!("test -d {from} -a ! -L {from} -a ! -e {to} -a ! -L {to}");
                format!("{free} && {apart} && cp -a {from} {to} && rm -r {from}")
            }
            Self::Link(target, path) => format!("ln -sT {target} {path}"),
            Self::HardLink(from, to) => format!("test ! -L {from} && ln -T {from} {to}"),
            Self::Fifo(path) => format!("mkfifo {path}"),
            Self::Mode(path, mode) => format!("test ! -L {path} && chmod {mode:o} {path}"),
            Self::Time(path, day) => format!("test -e {path} && touch -hd 2020-01-{day:02} {path}"),
        };
        format!("{{ {line}; }} 2>/dev/null || true")
    }
}

fn script(steps: &[Step]) -> String {
    let lines: Vec<String> = steps.iter().map(Step::line).collect();
    format!("umask 022\n{}", lines.join("\n"))
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", "target"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    let file_mode = prop::sample::select(vec![0o600, 0o644, 0o755, 0o444, 0o700, 0o000]);
    prop_oneof![
        4 => (path(), any::<u8>()).prop_map(|(path, text)| Step::Write(path, text)),
        2 => (path(), any::<u8>()).prop_map(|(path, text)| Step::Append(path, text)),
        2 => (path(), any::<u8>()).prop_map(|(path, text)| Step::ReplaceByRename(path, text)),
        1 => path().prop_map(Step::OpenOnly),
        4 => path().prop_map(Step::MakeFolders),
        3 => path().prop_map(Step::Remove),
        1 => path().prop_map(Step::RemoveInside),
        2 => (path(), path()).prop_map(|(from, to)| Step::Move(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Step::CopyFolder(from, to)),
        1 => (path(), path()).prop_map(|(target, path)| Step::Link(target, path)),
        1 => (path(), path()).prop_map(|(from, to)| Step::HardLink(from, to)),
        1 => path().prop_map(Step::Fifo),
        3 => (path(), file_mode).prop_map(|(path, mode)| Step::Mode(path, mode)),
        1 => (path(), 1..28_u8).prop_map(|(path, day)| Step::Time(path, day)),
    ]
}

/// Returns true if a step may prepare the workspace. Hard links are excluded: a direct write to one
/// of two names changes both, but through an overlay only one. Folders keep the rights that an
/// ordinary user needs to compare them.
fn is_plain(step: &Step) -> bool {
    !matches!(step, Step::HardLink(..) | Step::Mode(_, 0o000 | 0o444 | 0o600 | 0o644))
}

fn commit_equals_direct_run(
    elsewhere: Option<&Path>,
    before: &[Step],
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let place = Place::with_area_in(elsewhere);
    place.prepare(&script(before));
    let (copy, inside) = (place.folder.path().join("copy"), place.folder.path().join("inside"));
    direct(place.folder.path(), "cp -a workspace copy");
    let (call, baseline) = place.overlay(&format!("{}\ncp -a . {}", script(steps), inside.display()));
    let outcome = call.commit(&place.workspace(), &since(baseline)).unwrap();
    prop_assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
    call.discard().unwrap();
    in_user_namespace(&copy, &script(steps));
    let mut committed = tree(&place.path());
    prop_assert_eq!(without_times(committed.clone()), without_times(tree(&copy)));
    let mut wanted = tree(&inside);
    for tree in [&mut committed, &mut wanted] {
        // The command cannot change the root's rights, and its time only counts if its contents
        // changed.
        tree.remove(Path::new("")).unwrap();
        // The overlay may show one file under two names as two files; the direct run above shows
        // which names are one file.
        for shown in tree.values_mut() {
            shown.same_as = None;
        }
    }
    prop_assert_eq!(committed, wanted);
    Ok(())
}

fn try_many(elsewhere: Option<&Path>, cases: u32) {
    // All runs use the same scripts; change the seed and the number of cases for others.
    let rng_seed = RngSeed::Fixed(1);
    let config =
        Config { cases, max_shrink_iters: 150, failure_persistence: None, rng_seed, ..Config::default() };
    let before = prop::collection::vec(step().prop_filter("plain", is_plain), 0..14);
    let steps = prop::collection::vec(step(), 1..14);
    let tried = TestRunner::new(config)
        .run(&(before, steps), |(before, steps)| commit_equals_direct_run(elsewhere, &before, &steps));
    if let Err(error) = tried {
        panic!("{error}");
    }
}

/// Commits several scripts, and undoes them from the last to the first: each undo restores the
/// previous tree.
fn undone_in_turn(before: &[Step], scripts: &[Vec<Step>]) -> Result<(), TestCaseError> {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("touch Cargo.toml");
    place.prepare(&script(before));
    let mut done = Vec::new();
    for steps in scripts {
        let was = saved_tree(&place);
        done.push((was, change(&place, &contents, &script(steps))));
    }
    let last = saved_tree(&place);
    let all: Vec<Vec<SavedEntry>> = done.iter().map(|(_, saved)| saved.entries.clone()).collect();
    let (together, disturbed) = compose(all, &contents);
    prop_assert!(disturbed.is_empty(), "{disturbed:?}");
    // Undo everything at once, and redo it.
    let redo = undo(&place, &contents, &together);
    prop_assert_eq!(saved_tree(&place), done[0].0.clone());
    undo(&place, &contents, &redo.entries);
    prop_assert_eq!(saved_tree(&place), last);
    // Undo one change after the other.
    for (was, saved) in done.iter().rev() {
        undo(&place, &contents, &saved.entries);
        prop_assert_eq!(&saved_tree(&place), was);
    }
    Ok(())
}

/// Lists everything in a workspace that must be saved: all but `target` next to the workspace's
/// `Cargo.toml`. Other folders of that name count. If that `target` came or went, its parent folder
/// has another time.
fn saved_tree(place: &Place) -> BTreeMap<PathBuf, Shown> {
    let mut tree = tree(&place.path());
    let is_made_again = |path: &PathBuf| {
        path.ancestors().any(|part| {
            let is_folder = tree.get(part).is_some_and(|shown| shown.what == "folder");
            is_folder && part == Path::new("target")
        })
    };
    let out: Vec<PathBuf> = tree.keys().filter(|path| is_made_again(path)).cloned().collect();
    for path in out {
        tree.remove(&path);
    }
    for shown in tree.values_mut() {
        shown.same_as = None;
        if shown.what == "folder" {
            shown.modified = (0, 0);
        }
    }
    tree
}

fn undo_many(cases: u32) {
    let rng_seed = RngSeed::Fixed(2);
    let config =
        Config { cases, max_shrink_iters: 150, failure_persistence: None, rng_seed, ..Config::default() };
    let before = prop::collection::vec(step().prop_filter("plain", is_plain), 0..14);
    let scripts = prop::collection::vec(prop::collection::vec(step(), 1..8), 1..4);
    let tried = TestRunner::new(config)
        .run(&(before, scripts), |(before, scripts)| undone_in_turn(&before, &scripts));
    if let Err(error) = tried {
        panic!("{error}");
    }
}

#[test]
fn random_changes_are_undone_exactly_at_once_and_one_after_the_other() {
    undo_many(40);
}

#[test]
fn a_commit_leaves_what_a_direct_run_leaves() {
    try_many(None, 40);
}

#[test]
fn a_commit_across_file_systems_leaves_what_a_direct_run_leaves() {
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else {
        println!("not checked: there is no second file system");
        return;
    };
    try_many(Some(elsewhere.path()), 20);
}
