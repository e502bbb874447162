//! Tests that drafts of this program are committed like the changes of a command.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fixture::{Place, direct, tree, when_free, without_times};
use checkpoint::{Call, Draft, Durability, LaterChange, Outcome, Terms};

const BEFORE: &str = "
    mkdir d shut gone many; echo old >d/file; chmod 640 d/file; echo x >script; chmod 755 script
    echo 1 >gone/only; echo 2 >d/removed; ln -s d/file link; echo y >many/y; chmod 711 d; touch -d 2020-01-01 d script";

fn begun(place: &Place) -> (Call, Draft) {
    let call = place.area.begin().unwrap();
    let draft = call.draft(&place.workspace()).unwrap();
    (call, draft)
}

fn commit(place: &Place, call: &Call, draft: &Draft) -> Outcome {
    let terms = Terms { durability: Durability::Power, ..Terms::since(draft.begun().into()) };
    call.commit(&place.workspace(), &terms).unwrap()
}

fn fill(draft: &Draft) {
    let path = Path::new;
    draft.write(path("d/file"), b"new\n", Some(path("d/file")), None).unwrap();
    draft.write(path("script"), b"x\n", Some(path("script")), Some(false)).unwrap();
    draft.write(path("a/b/new"), b"n\n", None, Some(true)).unwrap();
    draft.remove(path("gone")).unwrap();
    draft.remove(path("d/removed")).unwrap();
    draft.remove(path("link")).unwrap();
    draft.link(path("many/link"), "../d/file".as_ref()).unwrap();
}

#[test]
fn a_draft_comes_out_as_the_same_commands_leave_it() {
    let place = Place::new();
    place.prepare(BEFORE);
    direct(place.folder.path(), "cp -a workspace copy");
    let (call, draft) = begun(&place);
    fill(&draft);
    assert!(matches!(commit(&place, &call, &draft), Outcome::Committed(_)));
    call.discard().unwrap();
    let copy = place.folder.path().join("copy");
    direct(
        &copy,
        "echo new >d/file; chmod 644 script; mkdir -p a/b; echo n >a/b/new; chmod 755 a/b/new; rm -r gone d/removed link
         ln -s ../d/file many/link",
    );
    assert_eq!(without_times(tree(&place.path())), without_times(tree(&copy)));
}

#[test]
fn what_others_did_since_a_draft_was_begun_is_a_conflict() {
    for (others, path) in [
        ("echo theirs >d/file", "d/file"),
        ("rm d/file", "d/file"),
        ("mkdir -p a/b; echo theirs >a/b/new", "a/b/new"),
        ("echo theirs >gone/another", "gone/another"),
        ("echo theirs >d/removed", "d/removed"),
    ] {
        let place = Place::new();
        place.prepare(BEFORE);
        let (call, draft) = begun(&place);
        fill(&draft);
        place.prepare(others);
        let before = tree(&place.path());
        let Outcome::Conflict(changes) = commit(&place, &call, &draft) else { panic!("{others}: committed") };
        let paths: Vec<_> = changes.conflicts.iter().map(|conflict| conflict.path.as_path()).collect();
        assert!(paths.contains(&Path::new(path)), "{others}: {paths:?}");
        assert!(
            changes.conflicts.iter().all(|conflict| conflict.meanwhile != LaterChange::ChangedDuringCommit)
        );
        assert_eq!(tree(&place.path()), before, "{others}");
    }
}

#[test]
fn a_new_file_of_a_folder_that_nobody_else_may_enter_keeps_that_folder_as_it_is() {
    let place = Place::new();
    place.prepare(BEFORE);
    fs::set_permissions(place.path().join("d"), fs::Permissions::from_mode(0o700)).unwrap();
    let (call, draft) = begun(&place);
    draft.write(Path::new("d/new"), b"", None, None).unwrap();
    assert!(matches!(commit(&place, &call, &draft), Outcome::Committed(_)));
    assert_eq!(tree(&place.path())[Path::new("d")].mode & 0o777, 0o700);
}

#[test]
fn what_others_do_in_a_folder_that_tools_make_again_is_a_conflict_for_a_draft() {
    let place = Place::new();
    place.prepare("mkdir -p target/d; echo old >target/d/file; touch Cargo.toml");
    let (call, draft) = begun(&place);
    let path = Path::new("target/d/file");
    draft.write(path, b"new\n", Some(path), None).unwrap();
    place.prepare("echo theirs >target/d/file");
    let Outcome::Conflict(changes) = commit(&place, &call, &draft) else { panic!("committed") };
    assert_eq!(changes.conflicts[0].path, path);
    assert_eq!(fs::read_to_string(place.path().join(path)).unwrap(), "theirs\n");
    // Control: for a command, the last writer wins there.
    let (call, baseline) = place.overlay("echo new >target/d/file");
    place.prepare("echo again >target/d/file");
    let outcome = call.commit(&place.workspace(), &Terms::since(baseline)).unwrap();
    assert!(matches!(outcome, Outcome::Committed(_)));
}

#[test]
fn a_draft_that_was_taken_back_still_knows_what_was_there() {
    let commit_and_break = |place: &Place, last: usize| {
        place.prepare(BEFORE);
        let (call, draft) = begun(place);
        fill(&draft);
        let steps = AtomicUsize::new(0);
        let on_step = || {
            let is_last = steps.fetch_add(1, Ordering::Relaxed) + 1 == last;
            if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let terms = Terms { on_step: &on_step, ..Terms::since(draft.begun().into()) };
        let outcome = call.commit(&place.workspace(), &terms);
        (outcome, steps.into_inner())
    };
    let (committed, steps) = commit_and_break(&Place::new(), 0);
    assert!(matches!(committed, Ok(Outcome::Committed(_))));
    // Right before the last step everything is swapped, and the marks are removed.
    let place = Place::new();
    let (broken, _) = commit_and_break(&place, steps);
    assert!(matches!(broken, Err(checkpoint::Error::BrokenOff)), "{broken:?}");
    when_free(|| {
        let recovered = place.area.recover(&|| ControlFlow::Continue(()), &|_| Ok(())).unwrap();
        Some(recovered).filter(|recovered| !recovered.is_empty())
    });
    place.prepare("rm d/file");
    let kept = place.area.kept().unwrap();
    let (call, kept) = when_free(|| place.area.take_up(&kept[0].id).ok());
    let changes = call.changes(&kept.workspace().unwrap(), &kept.terms(&call).unwrap()).unwrap();
    let conflicts: Vec<_> = changes.conflicts.iter().map(|one| (one.path.as_path(), one.meanwhile)).collect();
    assert_eq!(conflicts, [(Path::new("d/file"), LaterChange::Removed)]);
}
