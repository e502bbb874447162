//! Tests that the changes of a command through an overlay arrive in the workspace.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fixture::{Place, direct, since, tree, without_times};
use checkpoint::{CommitSummary, Kind, Note, Outcome, StepKind};

/// Script with every distinct case: kinds, renames, removals, modes, links, attributes, opaque
/// folders.
const BEFORE: &str = "
    mkdir d e f g g/h keep empty; echo a >a; echo b >b; ln b b2; echo x >d/x; echo y >e/y; echo z >f/z; ln -s a l
    echo q >g/h/q; mkfifo p; echo 1 >keep/1; chmod 755 d; echo same >same; chmod 600 same
    touch -d 2020-01-01 a d e f g/h g keep same .";
const SCRIPT: &str = "
    echo A >>a; echo B >b3; echo new >new; ln new new2; mkdir nd; mkdir nd/deep; echo 1 >nd/deep/1
    rm d/x; rm -r e; mkdir e; echo q >e/q; rm -r f; ln -s zz f; chmod 700 d; touch -d 2021-01-01 g/h/q
    rm l; ln -s b l; rm p; mkfifo p2; mv g/h/q g/q; rmdir empty; chmod 750 same; mkdir -p many/empty/folders";

fn committed(outcome: Outcome) -> CommitSummary {
    match outcome {
        Outcome::Committed(committed) => committed,
        Outcome::Conflict(changes) => panic!("conflicts: {:?}", changes.conflicts),
        Outcome::Held(changes) => panic!("held: {:?}", changes.held),
    }
}

fn paths(committed: &CommitSummary, what: StepKind) -> Vec<&Path> {
    let of = committed.changes.list.iter().filter(|change| change.what == what);
    of.map(|change| change.path.as_path()).collect()
}

#[test]
fn everything_comes_out_as_a_direct_run_leaves_it() {
    let place = Place::new();
    place.prepare(BEFORE);
    let copy = place.folder.path().join("copy");
    direct(place.folder.path(), "cp -a workspace copy");
    let (call, baseline) = place.overlay(SCRIPT);
    let outcome = call.commit(&place.workspace(), &since(baseline)).unwrap();
    committed(outcome);
    call.discard().unwrap();
    direct(&copy, SCRIPT);
    assert_eq!(without_times(tree(&place.path())), without_times(tree(&copy)));
}

#[test]
fn times_come_out_as_in_the_overlay() {
    let place = Place::new();
    place.prepare(BEFORE);
    let inside = place.folder.path().join("inside");
    let script = format!("{SCRIPT}; cp -a . {}", inside.display());
    let (call, baseline) = place.overlay(&script);
    committed(call.commit(&place.workspace(), &since(baseline)).unwrap());
    let (mut now, mut wanted) = (tree(&place.path()), tree(&inside));
    // The command does not set the mode of the workspace itself: in the overlay it was that of the
    // upper folder.
    for tree in [&mut now, &mut wanted] {
        tree.get_mut(Path::new("")).unwrap().mode = 0;
    }
    assert_eq!(now, wanted);
}

#[test]
fn old_entries_lie_where_the_commit_says() {
    let place = Place::new();
    place.prepare("echo old >a; mkdir d; echo old >d/x; echo gone >b");
    let (call, baseline) = place.overlay("echo new >a; rm -r d b");
    let committed = committed(call.commit(&place.workspace(), &since(baseline)).unwrap());
    let old = |name: &str| {
        let number = committed.changes.list.iter().position(|change| change.path == Path::new(name)).unwrap();
        committed.old_place(number).unwrap()
    };
    assert_eq!(fs::read_to_string(old("a")).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(old("d").join("x")).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(old("b")).unwrap(), "gone\n");
    assert_eq!(paths(&committed, StepKind::Remove), [Path::new("b"), Path::new("d")]);
    call.discard().unwrap();
    assert_eq!(fs::read_dir(place.folder.path().join("area")).unwrap().count(), 2, "two locks stay");
}

#[test]
fn a_command_that_changes_nothing_commits_nothing() {
    let place = Place::new();
    place.prepare(BEFORE);
    let before = tree(&place.path());
    let (call, baseline) = place.overlay("cat a; : >>a; ls -R; touch -r keep/1 keep/1; exec 3<>same");
    let committed = committed(call.commit(&place.workspace(), &since(baseline)).unwrap());
    assert_eq!(format!("{:?}", committed.changes.list), "[]");
    assert_eq!(tree(&place.path()), before);
}

#[test]
fn set_id_bits_and_sockets_do_not_get_in() {
    let place = Place::new();
    place.prepare("echo s >was-a-file");
    let script = "echo x >tool; chmod 6755 tool; mkdir d; echo y >d/tool; chmod 4711 d/tool; rm was-a-file
        python3 -c 'import socket; [socket.socket(socket.AF_UNIX).bind(p) for p in (\"s\", \"d/s\", \"was-a-file\")]'";
    let (call, baseline) = place.overlay(script);
    let committed = committed(call.commit(&place.workspace(), &since(baseline)).unwrap());
    let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("tool"), mode("d/tool")), (0o755, 0o711));
    let names: Vec<PathBuf> = tree(&place.path()).into_keys().collect();
    assert_eq!(names, ["", "d", "d/tool", "tool"].map(PathBuf::from));
    let dropped = |path: &str| Note::Dropped { path: path.into(), kind: Kind::Socket };
    for note in ["s", "d/s", "was-a-file"].map(dropped) {
        assert!(committed.changes.notes.contains(&note), "{note:?} in {:?}", committed.changes.notes);
    }
    assert!(committed.changes.notes.contains(&Note::SetIdRemoved { path: "d/tool".into() }));
}

#[test]
fn a_changed_file_with_other_names_leaves_them_their_content_and_says_so() {
    let place = Place::new();
    place.prepare("mkdir in; echo old >in/a; ln in/a in/b");
    let outside = place.folder.path().join("outside");
    fs::hard_link(place.path().join("in/a"), &outside).unwrap();
    crate::fixture::next_tick();
    let (call, baseline) = place.overlay("echo new >in/a");
    let committed = committed(call.commit(&place.workspace(), &since(baseline)).unwrap());
    let read = |name: &str| fs::read_to_string(place.path().join("in").join(name)).unwrap();
    assert_eq!((read("a"), read("b")), ("new\n".into(), "old\n".into()));
    assert_eq!(fs::read_to_string(outside).unwrap(), "old\n");
    assert_eq!(committed.changes.notes, [Note::LinkBroken { path: "in/a".into() }]);
}

#[test]
fn new_hard_links_stay_hard_links() {
    let place = Place::new();
    let (call, baseline) = place.overlay("echo x >a; ln a b; mkdir d; ln a d/c");
    committed(call.commit(&place.workspace(), &since(baseline)).unwrap());
    let inode = |name: &str| fs::metadata(place.path().join(name)).unwrap().ino();
    assert_eq!(inode("a"), inode("b"));
    assert_eq!(inode("a"), inode("d/c"));
}

#[test]
fn nothing_of_the_overlay_is_left_on_what_was_committed() {
    let place = Place::new();
    place.prepare(BEFORE);
    let script = format!(
        "{SCRIPT}; mkdir made; mv made renamed; setfattr_missing=1
        python3 -c 'import os
os.setxattr(\"new\", \"user.kept\", b\"1\")
os.setxattr(\"new\", \"user.overlay.opaque\", b\"y\")
os.setxattr(\"keep\", \"user.kept\", b\"2\")'"
    );
    let (call, baseline) = place.overlay(&script);
    committed(call.commit(&place.workspace(), &since(baseline)).unwrap());
    let tree = tree(&place.path());
    let attributes: Vec<_> = tree
        .iter()
        .flat_map(|(path, shown)| shown.attributes.iter().map(move |(name, value)| (path, name, value)))
        .collect();
    let names: Vec<String> =
        attributes.iter().map(|(path, name, _)| format!("{} {}", path.display(), name.display())).collect();
    assert_eq!(names, ["keep user.kept", "new user.kept", "new2 user.kept"]);
}
