//! Tests that a commit interrupted at any point leaves the workspace unchanged, or completely
//! changed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::fixture::{Place, since, tree, when_free};
use checkpoint::{Area, Error, Outcome, Recovery};

const BEFORE: &str = "
    mkdir d e f keep; echo a >a; echo x >d/x; echo y >e/y; echo z >f/z; ln -s a l; echo gone >gone
    touch -d 2020-01-01 a d e f keep .";
const SCRIPT: &str = "
    echo A >>a; echo n >new; ln new new2; mkdir nd; echo 1 >nd/1; echo X >d/x; chmod 700 d; rm -r e; mkdir e
    echo q >e/q; rm -r f gone; rm l; ln -s b l; touch -d 2021-01-01 keep";

/// Returns a callback that interrupts at one step, counted from 1.
pub(crate) fn at_step(number: usize) -> impl Fn() -> ControlFlow<()> + Sync {
    let steps = AtomicUsize::new(0);
    move || {
        let is_cut_off = steps.fetch_add(1, Ordering::Relaxed) + 1 >= number;
        if is_cut_off { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Commits and interrupts at every step in turn; `recover` then recovers the area.
fn at_every_step(elsewhere: Option<&Path>, recover: impl Fn(&Area) -> Vec<Recovery>) {
    for number in 1.. {
        let place = Place::with_area_in(elsewhere);
        place.prepare(BEFORE);
        let before = tree(&place.path());
        let (call, baseline) = place.overlay(SCRIPT);
        let breaking = at_step(number);
        let mut terms = since(baseline);
        terms.on_step = &breaking;
        let outcome = call.commit(&place.workspace(), &terms);
        drop(call);
        if let Ok(outcome) = outcome {
            assert!(matches!(outcome, Outcome::Committed(_)));
            assert!(number > 20, "only {number} steps");
            return;
        }
        assert!(matches!(outcome, Err(Error::BrokenOff)), "at step {number}: {outcome:?}");
        let recovered = recover(&place.area);
        let now = tree(&place.path());
        for (path, shown) in &before {
            assert_eq!(now.get(path), Some(shown), "{} after step {number}", path.display());
        }
        assert_eq!(now.len(), before.len(), "after step {number}: {:?}", now.keys());
        match &recovered[..] {
            // The first step comes before the journal: recovery sees a call that had not begun to
            // commit.
            [Recovery::Dropped] => assert!(number <= 2, "dropped at step {number}"),
            [Recovery::TakenBack { others, left }] => {
                assert!(others.is_empty() && left.is_empty(), "at step {number}: {others:?} {left:?}");
                apply_later(&place);
            }
            other => unreachable!("at step {number}: {other:?}"),
        }
    }
}

/// Checks that undone changes are complete, and can still be committed.
fn apply_later(place: &Place) {
    let kept = place.area.kept().unwrap();
    let (call, kept) = when_free(|| place.area.take_up(&kept[0].id).ok());
    let terms = kept.terms(&call).unwrap();
    let outcome = call.commit(&kept.workspace().unwrap(), &terms).unwrap();
    if let Outcome::Conflict(changes) | Outcome::Held(changes) = &outcome {
        unreachable!("{:?} {:?}", changes.conflicts, changes.held);
    }
    call.discard().unwrap();
    let now = tree(&place.path());
    let shown: Vec<String> =
        now.iter().map(|(path, shown)| format!("{} {}", path.display(), shown.what)).collect();
    let wanted = [
        " folder",
        "a file \"a\\nA\\n\"",
        "d folder",
        "d/x file \"X\\n\"",
        "e folder",
        "e/q file \"q\\n\"",
        "keep folder",
        "l link to b",
        "nd folder",
        "nd/1 file \"1\\n\"",
        "new file \"n\\n\"",
        "new2 file \"n\\n\"",
    ];
    assert_eq!(shown, wanted);
    assert_eq!(now[Path::new("d")].mode, 0o700);
    assert_eq!(now[Path::new("new2")].same_as.as_deref(), Some(Path::new("new")));
    assert!(now.values().all(|shown| shown.attributes.is_empty()), "{now:#?}");
}

fn recover_at_once(area: &Area) -> Vec<Recovery> {
    let go_on = || ControlFlow::Continue(());
    let recovered = when_free(|| {
        Some(area.recover(&go_on, &|_| Ok(())).unwrap()).filter(|recovered| !recovered.is_empty())
    });
    assert!(area.recover(&go_on, &|_| Ok(())).unwrap().is_empty(), "a second time there is nothing to do");
    recovered.into_iter().map(|recovered| recovered.action).collect()
}

/// Interrupts the recovery itself, at its first step, then at its second, and so on until it
/// completes.
fn recover_step_by_step(area: &Area) -> Vec<Recovery> {
    let mut number = 0;
    when_free(|| {
        number += 1;
        match area.recover(&at_step(number), &|_| Ok(())) {
            Ok(recovered) if recovered.is_empty() => None,
            Ok(recovered) => Some(recovered.into_iter().map(|recovered| recovered.action).collect()),
            Err(Error::BrokenOff) => None,
            Err(error) => unreachable!("{error:?}"),
        }
    })
}

#[test]
fn a_commit_cut_off_at_any_step_is_taken_back_and_can_be_applied_later() {
    at_every_step(None, recover_at_once);
}

#[test]
fn recovery_can_be_cut_off_at_any_step_too() {
    at_every_step(None, recover_step_by_step);
}

#[test]
fn a_commit_across_file_systems_cut_off_at_any_step_is_taken_back() {
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else {
        println!("not checked: there is no second file system");
        return;
    };
    at_every_step(Some(elsewhere.path()), recover_step_by_step);
}

#[test]
fn a_commit_cut_off_behind_its_mark_stays_committed() {
    let place = Place::new();
    place.prepare(BEFORE);
    let (call, baseline) = place.overlay(SCRIPT);
    assert!(matches!(call.commit(&place.workspace(), &since(baseline)).unwrap(), Outcome::Committed(_)));
    let committed = tree(&place.path());
    drop(call);
    assert!(matches!(recover_at_once(&place.area)[..], [Recovery::Cleaned]));
    assert_eq!(tree(&place.path()), committed);
    assert!(place.area.kept().unwrap().is_empty());
}

#[test]
fn recovery_leaves_what_somebody_changed_since_and_says_so() {
    let place = Place::new();
    place.prepare("echo a >a; echo b >b; echo c >c");
    let (call, baseline) = place.overlay("echo A >a; rm b; echo n >new");
    // Everything is swapped, and nothing is marked.
    let steps = AtomicUsize::new(0);
    let counting = || {
        steps.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let mut terms = since(baseline);
    terms.on_step = &counting;
    let dry = Place::new();
    dry.prepare("echo a >a; echo b >b; echo c >c");
    let (dry_call, dry_baseline) = dry.overlay("echo A >a; rm b; echo n >new");
    let mut dry_terms = since(dry_baseline);
    dry_terms.on_step = &counting;
    dry_call.commit(&dry.workspace(), &dry_terms).unwrap();
    let breaking = at_step(steps.load(Ordering::Relaxed));
    terms.on_step = &breaking;
    assert!(matches!(call.commit(&place.workspace(), &terms), Err(Error::BrokenOff)));
    drop(call);
    crate::fixture::direct(
        &place.path(),
        "test ! -e b; echo longer than before >a; echo mine >b; echo mine >new",
    );
    let recovered = recover_at_once(&place.area);
    let [Recovery::TakenBack { others, left }] = &recovered[..] else { unreachable!("{recovered:?}") };
    assert_eq!(
        (&others[..], &left[..]),
        (&[PathBuf::from("new")][..], &[PathBuf::from("b"), "a".into()][..])
    );
    let shown: Vec<String> = tree(&place.path()).into_values().map(|shown| shown.what).collect();
    let wanted =
        ["folder", "file \"longer than before\\n\"", "file \"mine\\n\"", "file \"c\\n\"", "file \"mine\\n\""];
    assert_eq!(shown, wanted);
}

#[test]
fn a_call_of_a_live_process_is_left_alone() {
    let place = Place::new();
    let call = place.area.begin().unwrap();
    assert!(place.area.recover(&|| ControlFlow::Continue(()), &|_| Ok(())).unwrap().is_empty());
    assert!(call.upper().is_dir());
    drop(call);
    assert!(matches!(recover_at_once(&place.area)[..], [Recovery::Dropped]));
}

/// Enough files for several threads to swap them.
const MANY: &str = "for d in 1 2 3 4; do mkdir $d; for f in $(seq 100); do echo old >$d/$f; done; done";

#[test]
fn of_many_files_that_are_swapped_at_once_none_stays_changed_wherever_it_is_cut_off() {
    for number in [5, 100, 250, 400, 607, 800] {
        let place = Place::new();
        place.prepare(MANY);
        let before = tree(&place.path());
        let (call, baseline) = place.overlay("for f in */*; do echo new $f >$f; done; echo n >1/new; rm 4/1");
        let breaking = at_step(number);
        let mut terms = since(baseline);
        terms.on_step = &breaking;
        let outcome = call.commit(&place.workspace(), &terms);
        assert!(matches!(outcome, Err(Error::BrokenOff)), "at step {number}: {outcome:?}");
        drop(call);
        let recovered = recover_at_once(&place.area);
        let [Recovery::TakenBack { others, left }] = &recovered[..] else { unreachable!("{recovered:?}") };
        assert!(others.is_empty() && left.is_empty(), "at step {number}: {others:?} {left:?}");
        assert_eq!(tree(&place.path()), before, "at step {number}");
    }
}

#[test]
fn a_change_by_others_while_many_files_are_swapped_at_once_takes_all_of_them_back() {
    // No thread has reached the end of a folder by then.
    for number in [3, 60, 190] {
        let place = Place::new();
        place.prepare(MANY);
        let (call, baseline) = place.overlay("for f in */*; do echo new $f >$f; done");
        let steps = Mutex::new(0);
        let meanwhile = || {
            // The other threads wait; otherwise they would reach that file before it has changed.
            let mut steps = steps.lock();
            *steps += 1;
            if *steps == number {
                crate::fixture::direct(&place.path(), "echo mine >4/99");
            }
            ControlFlow::Continue(())
        };
        let mut terms = since(baseline);
        terms.on_step = &meanwhile;
        let outcome = call.commit(&place.workspace(), &terms).unwrap();
        assert!(matches!(outcome, Outcome::Conflict(_)), "at step {number}");
        let now = tree(&place.path());
        let is = |what: &str| now.values().filter(|shown| shown.what == format!("file {what:?}")).count();
        assert_eq!((is("old\n"), is("mine\n")), (399, 1), "at step {number}");
    }
}
