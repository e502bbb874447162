//! Tests that the entries that a commit took out of the workspace are restored exactly.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use checkpoint::{
    Call, ChangeEntries, Contents, Outcome, Restoration, RestoreOutcome, Save, SavedEntry, Terms, Time,
    compose,
};
use parking_lot::Mutex;

use crate::fixture::{Place, direct, tree, when_free};
use crate::interrupted::at_step;

/// Bytes in memory, and the number of stored contents.
#[derive(Default)]
pub(crate) struct InMemory(Mutex<HashMap<[u8; 32], Vec<u8>>>, AtomicUsize);

impl Contents for InMemory {
    fn keep(&self, content: &mut dyn Read) -> io::Result<[u8; 32]> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        self.1.fetch_add(1, Ordering::Relaxed);
        let hash = *blake3::hash(&bytes).as_bytes();
        self.0.lock().insert(hash, bytes);
        Ok(hash)
    }

    fn open(&self, content: &[u8; 32]) -> io::Result<Box<dyn Read>> {
        let kept = self.0.lock().get(content).cloned();
        Ok(Box::new(io::Cursor::new(kept.ok_or(io::ErrorKind::NotFound)?)))
    }
}

/// Commits and saves.
pub(crate) fn commit(place: &Place, contents: &InMemory, call: &Call, baseline: Time) -> ChangeEntries {
    let saved = RefCell::new(ChangeEntries::default());
    let keep = |found: &ChangeEntries| {
        *saved.borrow_mut() = found.clone();
        Ok(())
    };
    let save = Some(Save { contents, keep: &keep, loss_is_agreed: false });
    let outcome = call.commit(&place.workspace(), &Terms { save, ..Terms::since(baseline) }).unwrap();
    match outcome {
        Outcome::Committed(_) => {}
        Outcome::Conflict(changes) | Outcome::Held(changes) => {
            unreachable!("{:?} {:?}", changes.conflicts, changes.held)
        }
    }
    saved.into_inner()
}

/// Runs a script in an overlay, commits and saves.
pub(crate) fn change(place: &Place, contents: &InMemory, script: &str) -> ChangeEntries {
    let (call, baseline) = place.overlay(script);
    let saved = commit(place, contents, &call, baseline);
    call.discard().unwrap();
    saved
}

pub(crate) fn lay_out(
    place: &Place,
    contents: &InMemory,
    entries: &[SavedEntry],
    only: &[PathBuf],
    force: &(dyn Fn(&Path) -> bool + Sync),
) -> (Call, Time, RestoreOutcome) {
    let call = place.area.begin().unwrap();
    let baseline = call.baseline().unwrap();
    let wanted = Restoration { entries, only, force, contents };
    let restored = call.draft(&place.workspace()).unwrap().restore(&wanted).unwrap();
    (call, baseline, restored)
}

/// Restores saved entries. Returns the entries that the restoration itself saved.
pub(crate) fn undo(place: &Place, contents: &InMemory, entries: &[SavedEntry]) -> ChangeEntries {
    let (call, baseline, restored) = lay_out(place, contents, entries, &[], &|_| false);
    assert!(restored.conflicts.is_empty(), "{:?}", restored.conflicts);
    let saved = commit(place, contents, &call, baseline);
    call.discard().unwrap();
    saved
}

pub(crate) fn conflicts(restored: &RestoreOutcome) -> Vec<&str> {
    restored.conflicts.iter().map(|conflict| conflict.path.to_str().unwrap()).collect()
}

const BEFORE: &str = "
    mkdir d e f keep p; echo a >a; echo x >d/x; echo y >e/y; echo z >f/z; ln -s a l; echo gone >gone
    chmod 4755 p; echo q >p/q; ln p/q p/r; mkfifo p/s; chmod 640 p/q
    touch -hd 2020-01-01 l; touch -d 2020-01-02 a d e f keep p . p/q d/x";
const SCRIPT: &str = "
    echo A >>a; echo n >new; ln new new2; mkdir nd; echo 1 >nd/1; echo X >d/x; chmod 700 d; rm -r e; mkdir e
    echo q >e/q; rm -r f gone p; rm l; ln -s b l; touch -d 2021-01-01 keep";

#[test]
fn a_change_is_undone_and_done_again_exactly() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare(BEFORE);
    let before = tree(&place.path());
    let saved = change(&place, &contents, SCRIPT);
    let after = tree(&place.path());
    let undone = undo(&place, &contents, &saved.entries);
    assert_eq!(tree(&place.path()), before);
    undo(&place, &contents, &undone.entries);
    assert_eq!(tree(&place.path()), after);
}

#[test]
fn what_others_changed_since_is_a_conflict_and_all_stays_as_it_is() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare(BEFORE);
    let saved = change(&place, &contents, SCRIPT);
    direct(&place.path(), "echo mine >>a; rm new");
    let now = tree(&place.path());
    let (call, _, restored) = lay_out(&place, &contents, &saved.entries, &[], &|_| false);
    // Undo would make the missing `new` disappear anyway, so it is no conflict.
    assert_eq!(conflicts(&restored), ["a"]);
    call.discard().unwrap();
    assert_eq!(tree(&place.path()), now);
    // One file can be forced, and the others are restored with it.
    let (call, baseline, restored) =
        lay_out(&place, &contents, &saved.entries, &[], &|path| path == Path::new("a"));
    assert!(restored.conflicts.is_empty());
    commit(&place, &contents, &call, baseline);
    assert_eq!(std::fs::read_to_string(place.path().join("a")).unwrap(), "a\n");
    assert!(place.path().join("gone").exists());
}

#[test]
fn what_is_undone_is_read_once_and_what_comes_in_between_is_in_neither_side() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("for name in a b c; do echo old $name >$name; done");
    let saved = change(&place, &contents, "for name in a b c; do echo new $name >$name; done");
    let kept = contents.1.load(Ordering::Relaxed);
    let (call, baseline, restored) = lay_out(&place, &contents, &saved.entries, &[], &|_| false);
    assert!(restored.conflicts.is_empty());
    let undone = commit(&place, &contents, &call, baseline);
    call.discard().unwrap();
    assert_eq!(contents.1.load(Ordering::Relaxed) - kept, 3);
    let states = |entry: &SavedEntry| {
        [&entry.before, &entry.after].map(|state| state.as_ref().and_then(|state| state.content))
    };
    let mut swapped: Vec<_> = saved.entries.iter().map(states).collect();
    for [before, after] in &mut swapped {
        std::mem::swap(before, after);
    }
    assert_eq!(undone.entries.iter().map(states).collect::<Vec<_>>(), swapped);
    // Somebody else writes between the read and the commit, and hides the write as well as programs can.
    let (call, baseline, restored) = lay_out(&place, &contents, &undone.entries, &[], &|_| false);
    assert!(restored.conflicts.is_empty());
    direct(&place.path(), "touch -r b ../time; echo odd b >b; touch -r ../time b");
    let outcome = call.commit(&place.workspace(), &Terms::since(baseline)).unwrap();
    assert!(matches!(&outcome, Outcome::Conflict(changes) if changes.conflicts[0].path == Path::new("b")));
    assert_eq!(std::fs::read_to_string(place.path().join("b")).unwrap(), "odd b\n");
}

/// Enough files that several threads share them; some differ in mode, attributes or folder.
#[test]
fn many_files_are_saved_and_put_back_by_several_threads_each_as_it_was() {
    const MANY: &str = "
        for d in 1 2 3 4 5 6 7; do mkdir d$d; for f in $(seq 40); do echo $d $f >d$d/f$f; done; done
        chmod 444 d1/f1; chmod 777 d2/*; python3 -c 'import os, struct
for name in (\"d4/f1\", \"d1/f2\"): os.setxattr(name, \"user.x\", b\"y\")
entries = [(1, 7, -1), (2, 5, 1234), (4, 5, -1), (16, 7, -1), (32, 5, -1)]
inherited = struct.pack(\"<I\", 2) + b\"\".join(struct.pack(\"<HHi\", *entry) for entry in entries)
os.setxattr(\"d3\", \"system.posix_acl_default\", inherited)'; chmod 444 d4/f1; touch -d 2020-01-02 d*/*";
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare(MANY);
    let before = tree(&place.path());
    // Control: a file that is created in that folder gets its list.
    assert!(!before[Path::new("d3")].attributes.is_empty());
    let saved = change(
        &place,
        &contents,
        "rm -r d3 d4; for f in d[1267]/*; do echo new >$f.new; mv -f $f.new $f; done",
    );
    let after = tree(&place.path());
    assert_ne!(after, before);
    let undone = undo(&place, &contents, &saved.entries);
    assert_eq!(tree(&place.path()), before);
    undo(&place, &contents, &undone.entries);
    assert_eq!(tree(&place.path()), after);
    // All conflicts are reported, in their order.
    direct(&place.path(), "for f in d7/f9 d1/f3 d6/f8; do echo mine >$f; done");
    let (call, _, restored) = lay_out(&place, &contents, &saved.entries, &[], &|_| false);
    assert_eq!(conflicts(&restored), ["d1/f3", "d6/f8", "d7/f9"]);
    call.discard().unwrap();
}

#[test]
fn one_file_comes_back_with_the_folders_that_it_needs() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("mkdir -p a/b c; echo 1 >a/b/1; echo 2 >a/b/2; echo 3 >c/3; chmod 710 a/b");
    let saved = change(&place, &contents, "rm -r a; echo 4 >c/3");
    let only = [PathBuf::from("a/b/1")];
    let (call, baseline, restored) = lay_out(&place, &contents, &saved.entries, &only, &|_| false);
    assert!(restored.conflicts.is_empty());
    commit(&place, &contents, &call, baseline);
    let now = tree(&place.path());
    let paths: Vec<&str> = now.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(paths, ["", "a", "a/b", "a/b/1", "c", "c/3"]);
    assert_eq!(now[Path::new("a/b")].mode, 0o710);
    assert!(now[Path::new("c/3")].what.contains('4'));
}

#[test]
fn a_new_folder_goes_unless_others_put_something_into_it() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("echo a >a");
    let saved =
        change(&place, &contents, "mkdir -p n/m t; echo 1 >n/1; echo 2 >n/m/2; echo 3 >t/3; mkdir n/target");
    let tag = "echo 'Signature: 8a477f597d28d172789f06886806bc55' >n/target/CACHEDIR.TAG";
    direct(&place.path(), &format!("echo mine >n/m/mine; {tag}"));
    undo(&place, &contents, &saved.entries);
    let now = tree(&place.path());
    let paths: Vec<&str> = now.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(paths, ["", "a", "n", "n/m", "n/m/mine", "n/target", "n/target/CACHEDIR.TAG"]);
    direct(&place.path(), "rm n/m/mine");
    undo(&place, &contents, &saved.entries);
    assert_eq!(tree(&place.path()).len(), 2, "what tools make again goes with the folder around it");
}

#[test]
fn folders_that_tools_make_again_are_not_saved_and_are_named() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("mkdir -p target/a p/node_modules/x p/src; echo o >target/a/o; echo s >p/src/s; touch Cargo.toml p/package.json");
    let saved = change(&place, &contents, "echo p >target/a/o; echo q >target/q; rm -r p");
    assert_eq!(saved.unsaved, [Path::new("p/node_modules"), Path::new("target")]);
    undo(&place, &contents, &saved.entries);
    let now = tree(&place.path());
    assert!(now[Path::new("p/src/s")].what.contains('s'));
    assert!(!now.contains_key(Path::new("p/node_modules")));
    assert!(now[Path::new("target/a/o")].what.contains('p'));
}

#[test]
fn several_changes_are_undone_as_one_unless_others_came_between() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("echo 1 >a; echo 1 >b");
    let before = tree(&place.path());
    let first = change(&place, &contents, "echo 2 >a; echo 1 >c");
    let second = change(&place, &contents, "echo 3 >a; rm b c; mkdir b");
    let (entries, disturbed) = compose([first.entries, second.entries], &contents);
    assert!(disturbed.is_empty());
    undo(&place, &contents, &entries);
    assert_eq!(tree(&place.path()), before);

    let first = change(&place, &contents, "echo 2 >a");
    direct(&place.path(), "echo mine >a");
    let second = change(&place, &contents, "echo 3 >a");
    let (_, disturbed) = compose([first.entries, second.entries], &contents);
    assert_eq!(disturbed, [Path::new("a")]);
}

#[test]
fn nothing_is_committed_where_saving_fails() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare(BEFORE);
    let before = tree(&place.path());
    let (call, baseline) = place.overlay(SCRIPT);
    let keep = |_: &ChangeEntries| Err(io::Error::from(io::ErrorKind::StorageFull));
    let save = Some(Save { contents: &contents, keep: &keep, loss_is_agreed: false });
    call.commit(&place.workspace(), &Terms { save, ..Terms::since(baseline) }).unwrap_err();
    assert_eq!(tree(&place.path()), before);
    // The failure does not lose the changes.
    commit(&place, &contents, &call, baseline);
    assert_ne!(tree(&place.path()), before);
}

#[test]
fn a_restoration_cut_off_at_any_step_leaves_all_as_it_was_or_as_it_is_to_be() {
    let mut number = 0_usize;
    loop {
        number += 1;
        let (place, contents) = (Place::new(), InMemory::default());
        place.prepare(BEFORE);
        let before = tree(&place.path());
        let saved = change(&place, &contents, SCRIPT);
        let after = tree(&place.path());
        let (call, baseline, _) = lay_out(&place, &contents, &saved.entries, &[], &|_| false);
        let on_step = at_step(number);
        let save = Some(Save { contents: &contents, keep: &|_| Ok(()), loss_is_agreed: false });
        let terms = Terms { save, on_step: &on_step, ..Terms::since(baseline) };
        let outcome = call.commit(&place.workspace(), &terms);
        drop(call);
        if outcome.is_ok() {
            assert!(matches!(outcome, Ok(Outcome::Committed(_))));
            assert_eq!(tree(&place.path()), before);
            assert!(number > 20, "only {number} steps");
            return;
        }
        when_free(|| {
            Some(place.area.recover(&|| ControlFlow::Continue(()), &|_| Ok(())).unwrap())
                .filter(|done| !done.is_empty())
        });
        assert_eq!(tree(&place.path()), after, "after step {number}");
    }
}

#[test]
fn a_direct_change_is_saved_before_and_undone() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare(BEFORE);
    let before = tree(&place.path());
    let workspace = place.workspace();
    let paths = ["a", "n/m/f", "d", "nothing"].map(PathBuf::from);
    let (saved, roots) = workspace.save(&paths, &[], &contents).unwrap();
    assert_eq!(roots, ["a", "d", "n", "nothing"].map(PathBuf::from));
    direct(&place.path(), "echo b >a; rm -r d; mkdir -p n/m; echo f >n/m/f");
    let saved = workspace.note_after(saved, (&roots, &[]), &contents).unwrap();
    let paths: Vec<&str> = saved.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["", "a", "d", "d/x", "n", "n/m", "n/m/f"]);
    undo(&place, &contents, &saved.entries);
    assert_eq!(tree(&place.path()), before);
}

/// Moves a folder like a tool that announces a pure rename.
fn rename(place: &Place, contents: &InMemory, from: &str, to: &str) -> ChangeEntries {
    let (workspace, renamed) = (place.workspace(), [from, to].map(PathBuf::from));
    let (saved, roots) = workspace.save(&renamed, &renamed, contents).unwrap();
    direct(&place.path(), &format!("mv {from} {to}"));
    workspace.note_after(saved, (&roots, &renamed), contents).unwrap()
}

#[test]
fn a_folder_that_only_got_another_name_is_undone_without_its_bytes_having_been_saved() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare(BEFORE);
    let before = tree(&place.path());
    let saved = rename(&place, &contents, "p", "moved");
    assert_eq!((contents.1.load(Ordering::Relaxed), saved.bytes), (0, 0));
    let after = tree(&place.path());
    assert!(after.contains_key(Path::new("moved/q")) && !after.contains_key(Path::new("p")));
    let undone = undo(&place, &contents, &saved.entries);
    assert_eq!(tree(&place.path()), before);
    let redone = undo(&place, &contents, &undone.entries);
    assert_eq!(tree(&place.path()), after);
    // A change by others in the folder is a conflict; a forced undo restores it with their change.
    undo(&place, &contents, &redone.entries);
    let saved = rename(&place, &contents, "d", "moved");
    direct(&place.path(), "echo mine >moved/x");
    let (call, _, restored) = lay_out(&place, &contents, &saved.entries, &[], &|_| false);
    assert_eq!(conflicts(&restored), ["moved/x"]);
    call.discard().unwrap();
    let (call, baseline, restored) =
        lay_out(&place, &contents, &saved.entries, &[], &|path| path == Path::new("moved/x"));
    assert!(restored.conflicts.is_empty(), "{:?}", restored.conflicts);
    commit(&place, &contents, &call, baseline);
    assert_eq!(std::fs::read_to_string(place.path().join("d/x")).unwrap(), "mine\n");
    assert!(!place.path().join("moved").exists());
}

#[test]
fn changes_around_a_folder_that_got_another_name_are_undone_at_once_and_one_after_the_other() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare(
        "mkdir -p d/e; for f in 1 2 3; do echo $f >d/$f; done; echo deep >d/e/f; touch -d 2020-01-02 d/*",
    );
    let before = tree(&place.path());
    let changes = [
        change(&place, &contents, "echo one >d/1"),
        rename(&place, &contents, "d", "moved"),
        change(&place, &contents, "echo two >moved/2; rm moved/3; echo new >moved/new"),
        rename(&place, &contents, "moved", "again"),
        change(&place, &contents, "echo more >again/1"),
    ];
    let after = tree(&place.path());
    let all = changes.iter().map(|saved| saved.entries.clone());
    let (entries, disturbed) = compose(all, &contents);
    assert_eq!(disturbed, Vec::<PathBuf>::new());
    let undone = undo(&place, &contents, &entries);
    assert_eq!(tree(&place.path()), before);
    undo(&place, &contents, &undone.entries);
    assert_eq!(tree(&place.path()), after);
    for saved in changes.iter().rev() {
        undo(&place, &contents, &saved.entries);
    }
    assert_eq!(tree(&place.path()), before);
}

#[test]
fn links_in_the_way_are_not_followed() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("mkdir d ../outside; echo 1 >d/f; echo kept >../outside/f");
    let saved = change(&place, &contents, "rm d/f");
    direct(&place.path(), "rmdir d; ln -s ../outside d");
    let (call, _, restored) = lay_out(&place, &contents, &saved.entries, &[], &|_| true);
    // Even if forced, the folder becomes a folder again, and files outside stay.
    if restored.conflicts.is_empty() {
        let baseline = call.baseline().unwrap();
        commit(&place, &contents, &call, baseline);
    }
    assert_eq!(std::fs::read_to_string(place.folder.path().join("outside/f")).unwrap(), "kept\n");
    assert_eq!(std::fs::read_dir(place.folder.path().join("outside")).unwrap().count(), 1);
}

#[test]
fn a_file_that_goes_under_two_names_is_one_change_after_the_other() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("echo 1 >a; ln a b; ln a kept");
    let before = tree(&place.path());
    let saved = change(&place, &contents, "rm a b");
    undo(&place, &contents, &saved.entries);
    let now = tree(&place.path());
    // Two names are restored as one file; the third one kept the old inode.
    assert_eq!(now[Path::new("b")].same_as.as_deref(), Some(Path::new("a")));
    assert_eq!(now.len(), before.len());
}

#[test]
fn what_is_forced_back_gets_its_folders_again_and_replaces_none_that_others_made() {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare("mkdir -p d/e; echo old >d/e/f; chmod 750 .");
    let saved = change(&place, &contents, "echo new >d/e/f");
    // The record contains the file alone, as for a tool that changes nothing else.
    let entries: Vec<_> =
        saved.entries.into_iter().filter(|entry| entry.path == Path::new("d/e/f")).collect();
    direct(&place.path(), "rm -r d");
    let (call, _, restored) = lay_out(&place, &contents, &entries, &[], &|_| false);
    assert_eq!(conflicts(&restored), ["d/e/f"]);
    call.discard().unwrap();
    direct(&place.path(), "echo theirs >d");
    let (call, _, restored) = lay_out(&place, &contents, &entries, &[], &|_| true);
    assert_eq!(conflicts(&restored), ["d"]);
    call.discard().unwrap();
    direct(&place.path(), "rm d");
    let (call, baseline, restored) = lay_out(&place, &contents, &entries, &[], &|_| true);
    assert!(restored.conflicts.is_empty());
    commit(&place, &contents, &call, baseline);
    assert_eq!(std::fs::read_to_string(place.path().join("d/e/f")).unwrap(), "old\n");
    assert_eq!(tree(&place.path())[Path::new("d/e")].mode & 0o777, 0o750);
}

/// Creates links in the folder `l`: one for each of these target lengths.
fn links(lengths: &[usize]) -> String {
    let make = |length: &usize| format!("ln -s \"$(head -c {length} /dev/zero | tr '\\0' x)\" l/{length}; ");
    format!("mkdir l; {}", lengths.iter().map(make).collect::<String>())
}

#[test]
fn links_with_targets_of_every_length_come_back_and_no_state_holds_a_long_one() {
    let place = Place::new();
    place.prepare(&links(&[1, 255, 256, 257, 1_000, 4_095]));
    let before = tree(&place.path());
    let contents = InMemory::default();
    for script in ["rm -r l", "ln -sfn y l/4095; ln -sfn z l/1; touch -hd @5 l/1000", "mv l m"] {
        let saved = change(&place, &contents, script);
        assert_ne!(tree(&place.path()), before, "{script}");
        let mut states = saved.entries.iter().flat_map(|entry| [&entry.before, &entry.after]).flatten();
        assert!(states.all(|state| state.encode().len() < 500), "{script}");
        let undone = undo(&place, &contents, &saved.entries);
        assert_eq!(tree(&place.path()), before, "{script}");
        // Undoing the undo is a change like any other.
        let again = undo(&place, &contents, &undone.entries);
        undo(&place, &contents, &again.entries);
        assert_eq!(tree(&place.path()), before, "{script}");
    }
}

#[test]
fn a_long_link_that_others_changed_since_is_a_conflict() {
    let place = Place::new();
    place.prepare(&links(&[1_000]));
    let contents = InMemory::default();
    let target = "y".repeat(2_000);
    let saved = change(&place, &contents, &format!("ln -sfn {target} l/1000"));
    let (call, _, restored) = lay_out(&place, &contents, &saved.entries, &[], &|_| false);
    assert!(restored.conflicts.is_empty(), "{:?}", restored.conflicts);
    call.discard().unwrap();
    place.prepare(&format!("ln -sfn {target}y l/1000"));
    let (call, _, restored) = lay_out(&place, &contents, &saved.entries, &[], &|_| false);
    assert_eq!(conflicts(&restored), ["l/1000"]);
    call.discard().unwrap();
}

#[test]
fn a_long_target_in_a_state_of_an_earlier_version_comes_back() {
    let place = Place::new();
    place.prepare(&links(&[1_000]));
    let before = tree(&place.path());
    let contents = InMemory::default();
    let mut saved = change(&place, &contents, "rm -r l");
    for state in saved.entries.iter_mut().filter_map(|entry| entry.before.as_mut()) {
        if state.content.take().is_some() {
            state.target = Some("x".repeat(1_000).into());
        }
    }
    let undone = undo(&place, &contents, &saved.entries);
    assert_eq!(tree(&place.path()), before);
    // The new state is recorded as equal to it.
    for (entry, of_before) in undone.entries.iter().zip(&saved.entries) {
        let (now, then) = (entry.after.as_ref().unwrap(), of_before.before.as_ref().unwrap());
        assert!(now.is_same_as(then), "{entry:?}");
    }
}
