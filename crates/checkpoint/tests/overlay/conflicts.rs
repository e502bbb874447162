//! Tests that concurrent changes of others are never overwritten, and that nothing else prevents a
//! commit.

use std::path::{Path, PathBuf};

use crate::fixture::{Place, direct, since, tree};
use checkpoint::{Action, Conflict, LaterChange, Note, Outcome, Terms, Verdict};

/// Commits `command`, run over `before`, after `others` ran in the workspace.
fn commit(before: &str, command: &str, others: &str) -> (Place, Outcome) {
    let place = Place::new();
    place.prepare(before);
    let (call, baseline) = place.overlay(command);
    direct(&place.path(), others);
    let outcome = call.commit(&place.workspace(), &since(baseline)).unwrap();
    (place, outcome)
}

/// Returns the paths of the conflicts, or an empty list after a commit. With conflicts, the
/// workspace is unchanged.
fn conflicts(before: &str, command: &str, others: &str) -> Vec<String> {
    let place = Place::new();
    place.prepare(before);
    let (call, baseline) = place.overlay(command);
    direct(&place.path(), others);
    let as_others_left_it = tree(&place.path());
    match call.commit(&place.workspace(), &since(baseline)).unwrap() {
        Outcome::Committed(_) => Vec::new(),
        Outcome::Held(changes) => unreachable!("{:?}", changes.held),
        Outcome::Conflict(changes) => {
            assert_eq!(tree(&place.path()), as_others_left_it);
            let paths = changes.conflicts.iter().map(|conflict| conflict.path.display().to_string());
            paths.collect()
        }
    }
}

fn content(place: &Place, path: &str) -> String {
    std::fs::read_to_string(place.path().join(path)).unwrap()
}

#[test]
fn a_file_that_both_changed_is_a_conflict_however_others_changed_it() {
    let before = "echo a >f; echo other >g; touch -d 2020-01-01 g";
    for others in [
        "echo b >>f",
        "echo b >tmp; mv tmp f",
        "mv g f",
        "chmod 600 f",
        "touch f",
        "rm f; mkdir f",
        "rm f; ln -s g f",
        "rm f; mkfifo f",
        "ln f h",
    ] {
        assert_eq!(conflicts(before, "echo c >>f", others), ["f"], "changed, against: {others}");
        assert_eq!(conflicts(before, "rm f", others), ["f"], "removed, against: {others}");
        assert_eq!(conflicts(before, "rm f; ln -s x f", others), ["f"], "replaced, against: {others}");
    }
    assert_eq!(conflicts(before, "echo c >>f", "rm f"), ["f"]);
}

#[test]
fn what_others_did_elsewhere_is_no_conflict() {
    let before = "mkdir d e; echo a >d/f; echo b >d/g; echo c >e/h";
    for others in ["echo x >d/new", "rm d/g", "echo x >>d/g", "rm -r e", "mv e e2", "touch -d 2020-01-01 d"] {
        assert_eq!(conflicts(before, "echo c >>d/f; echo n >d/mine", others), [""; 0], "{others}");
    }
}

#[test]
fn a_removed_path_that_is_gone_already_is_no_conflict() {
    assert_eq!(conflicts("echo a >f; mkdir d; echo b >d/g", "rm -r f d", "rm -r f d"), [""; 0]);
}

#[test]
fn a_removed_folder_conflicts_with_any_change_below_it() {
    let before = "mkdir -p d/e/f; echo a >d/e/f/x; echo b >d/y";
    let cases = [
        ("echo c >>d/e/f/x", vec!["d/e/f/x"]),
        ("echo c >d/e/new", vec!["d/e", "d/e/new"]),
        ("rm d/e/f/x", vec!["d/e/f"]),
        ("chmod 700 d/e", vec!["d/e"]),
        ("rm d/y; mkdir d/y", vec!["d", "d/y"]),
    ];
    for (others, wanted) in cases {
        for command in ["rm -r d", "rm -r d; mkdir d; echo n >d/n", "rm -r d; echo file >d"] {
            assert_eq!(conflicts(before, command, others), wanted, "{command} against: {others}");
        }
    }
}

#[test]
fn two_new_files_conflict_unless_they_are_alike() {
    assert_eq!(conflicts("", "echo a >f", "echo b >f"), ["f"]);
    assert_eq!(conflicts("", "echo a >f", "echo a >f"), [""; 0]);
    assert_eq!(conflicts("", "echo a >f; chmod 700 f", "echo a >f"), ["f"]);
    assert_eq!(conflicts("", "ln -s a f", "ln -s a f"), [""; 0]);
    assert_eq!(conflicts("", "ln -s a f", "ln -s b f"), ["f"]);
    assert_eq!(conflicts("", "mkdir f", "echo b >f"), ["f"]);
    assert_eq!(conflicts("", "echo b >f", "mkdir f"), ["f"]);
}

#[test]
fn two_new_folders_are_merged_where_they_have_the_same_rights() {
    let (place, outcome) = commit("", "mkdir d; echo a >d/a", "mkdir d; echo b >d/b");
    assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
    assert_eq!((content(&place, "d/a"), content(&place, "d/b")), ("a\n".into(), "b\n".into()));
    assert_eq!(conflicts("", "mkdir d; chmod 700 d", "mkdir d; chmod 755 d"), ["d"]);
    assert_eq!(conflicts("", "mkdir d; echo a >d/a", "mkdir d; echo b >d/a"), ["d/a"]);
}

#[test]
fn a_folder_that_somebody_removed_or_replaced_is_a_conflict() {
    let before = "mkdir -p d e; echo a >d/x";
    assert_eq!(conflicts(before, "echo b >>d/x", "rm -r d"), ["d"]);
    assert_eq!(conflicts(before, "echo b >>d/x", "rm -r d; echo file >d"), ["d"]);
    assert_eq!(conflicts(before, "echo b >>d/x", "mv d moved; ln -s moved d"), ["d"]);
    assert_eq!(conflicts(before, "echo b >>d/x", "mv d moved; mv e d"), ["d/x"]);
}

#[test]
fn rights_of_a_folder_that_both_may_have_changed_are_a_conflict() {
    let before = "mkdir d; chmod 755 d";
    assert_eq!(conflicts(before, "chmod 700 d", "chmod 750 d"), ["d"]);
    assert_eq!(conflicts(before, "chmod 700 d", "chmod 700 d"), [""; 0]);
    assert_eq!(conflicts(before, "chmod 700 d", "true"), [""; 0]);
}

#[test]
fn in_regenerable_folders_the_last_writer_wins() {
    let before = "mkdir -p a/node_modules/x target; echo 1 >a/node_modules/x/f; echo 1 >target/o; touch a/package.json Cargo.toml";
    let command = "echo 2 >a/node_modules/x/f; echo new >a/node_modules/n; rm -r target; mkdir target; echo 2 >target/o";
    let others =
        "echo 3 >a/node_modules/x/f; echo other >a/node_modules/n; echo 3 >target/o; echo 4 >target/p";
    let (place, outcome) = commit(before, command, others);
    assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
    assert_eq!(content(&place, "a/node_modules/x/f"), "2\n");
    assert_eq!(content(&place, "a/node_modules/n"), "new\n");
    assert_eq!(content(&place, "target/o"), "2\n");
    assert!(!place.path().join("target/p").exists());
    // The name alone makes no file regenerable, nor the folder around it.
    assert_eq!(conflicts("echo 1 >target", "echo 2 >target", "echo 3 >target"), ["target"]);
    assert_eq!(conflicts("mkdir a; echo 1 >a/f", "rm -r a; mkdir a", "mkdir a/target"), ["a", "a/target"]);
    let of_a_name = (
        "mkdir dist target; echo 1 >dist/f; echo 1 >target/f",
        "rm -r dist target",
        "echo 2 >dist/f; echo 2 >target/f",
    );
    assert_eq!(conflicts(of_a_name.0, of_a_name.1, of_a_name.2), ["dist/f", "target/f"]);
}

#[test]
fn a_copy_that_the_command_did_not_change_is_no_change_but_may_be_a_conflict() {
    let before = "echo a >f; chmod 600 f";
    let open_only = "exec 3<>f; exec 3>&-";
    assert_eq!(conflicts(before, open_only, "true"), [""; 0]);
    // Others may rewrite the existing content: a copy like this looks the same as a change whose
    // time was set back.
    assert_eq!(conflicts(before, open_only, "echo a >f"), [""; 0]);
    assert_eq!(conflicts(before, open_only, "echo b >f"), ["f"]);
}

#[test]
fn force_overwrites_what_others_did() {
    let place = Place::new();
    place.prepare("echo a >f; mkdir d; echo b >d/g");
    let (call, baseline) = place.overlay("echo mine >f; rm -r d");
    direct(&place.path(), "echo others >f; echo others >d/new");
    let outcome = call.commit(&place.workspace(), &since(baseline)).unwrap();
    assert!(matches!(outcome, Outcome::Conflict(_)), "{outcome:?}");
    let terms = Terms { baseline: None, ..since(baseline) };
    assert!(matches!(call.commit(&place.workspace(), &terms).unwrap(), Outcome::Committed(_)));
    assert_eq!(content(&place, "f"), "mine\n");
    assert!(!place.path().join("d").exists());
}

#[test]
fn kept_changes_are_found_under_their_id_and_checked_again() {
    let place = Place::new();
    place.prepare("echo a >f");
    let (call, baseline) = place.overlay("echo mine >f");
    let id = call.keep(&place.workspace(), &since(baseline), "because").unwrap();
    let kept = place.area.kept().unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].id.as_str(), kept[0].reason.as_str()), (id.as_str(), "because"));
    assert_eq!(kept[0].workspace, place.path());
    direct(&place.path(), "echo others >f");
    let (call, kept) = crate::fixture::when_free(|| place.area.take_up(&id).ok());
    let outcome = call.commit(&kept.workspace().unwrap(), &kept.terms(&call).unwrap()).unwrap();
    assert!(matches!(outcome, Outcome::Conflict(_)), "{outcome:?}");
    assert!(place.area.take_up(&id).is_err(), "they are in use");
    call.discard().unwrap();
    assert!(place.area.kept().unwrap().is_empty());
    for id in [id.as_str(), "", "..", "area.lock", "../area"] {
        assert!(place.area.take_up(id).is_err(), "{id}");
    }
}

#[test]
fn a_workspace_that_was_replaced_is_not_committed_into() {
    let place = Place::new();
    place.prepare("echo a >f");
    let (call, baseline) = place.overlay("echo mine >f");
    let id = call.keep(&place.workspace(), &since(baseline), "").unwrap();
    direct(place.folder.path(), "mv workspace old; mkdir workspace");
    let (_call, kept) = crate::fixture::when_free(|| place.area.take_up(&id).ok());
    assert!(kept.workspace().is_err());
}

#[test]
fn a_refused_entry_keeps_everything_back_and_every_refusal_is_told() {
    let before = "mkdir -p d/secret d/x; echo a >d/secret/key; echo b >d/x/y; echo c >f; echo .env >.env";
    let place = Place::new();
    place.prepare(before);
    let untouched = tree(&place.path());
    let (call, baseline) =
        place.overlay("rm -r d; echo n >f; rm .env; mkdir -p new/hooks; echo h >new/hooks/run");
    let asked = parking_lot::Mutex::new(Vec::new());
    let judge = |touch: &checkpoint::Touch<'_>| {
        asked.lock().push((touch.path.to_owned(), touch.action));
        match touch.path.file_name().and_then(|name| name.to_str()) {
            Some("key" | ".env") => Verdict::Deny("secret".into()),
            Some("run") => {
                Verdict::Hold(std::io::read_to_string(touch.new.unwrap().open_file().unwrap()).unwrap())
            }
            _ => Verdict::Allow,
        }
    };
    let terms = Terms { judge: &judge, ..since(baseline) };
    let Outcome::Held(changes) = call.commit(&place.workspace(), &terms).unwrap() else { unreachable!() };
    let held: Vec<_> = changes
        .held
        .iter()
        .map(|held| (held.path.to_str().unwrap(), held.action, held.may_be_approved, held.reason.as_str()))
        .collect();
    let wanted = [
        (".env", Action::Remove, false, "secret"),
        ("d/secret/key", Action::Remove, false, "secret"),
        ("new/hooks/run", Action::Create, true, "h\n"),
    ];
    assert_eq!(held, wanted);
    assert_eq!(tree(&place.path()), untouched);
    let mut asked = asked.into_inner();
    asked.sort_by(|one, other| one.0.cmp(&other.0));
    let asked: Vec<_> = asked.iter().map(|(path, action)| (path.to_str().unwrap(), *action)).collect();
    let wanted = [
        (".env", Action::Remove),
        ("d", Action::Remove),
        ("d/secret", Action::Remove),
        ("d/secret/key", Action::Remove),
        ("d/x", Action::Remove),
        ("d/x/y", Action::Remove),
        ("f", Action::Replace),
        ("new", Action::Create),
        ("new/hooks", Action::Create),
        ("new/hooks/run", Action::Create),
    ];
    assert_eq!(asked, wanted);
}

#[test]
fn what_changes_during_the_commit_is_found_and_everything_is_taken_back() {
    // At each step in turn, somebody changes every entry that is about to be swapped.
    for others in [
        "echo theirs >>f",
        "rm f; ln -s /etc/passwd f",
        "chmod 400 f",
        "mv f g2",
        "mv d moved; ln -s /etc d",
        "echo t >d/z",
    ] {
        for number in 1..16 {
            let place = Place::new();
            place.prepare("mkdir d e; echo a >f; echo x >d/x; echo y >e/y; echo z >z");
            let (call, baseline) =
                place.overlay("echo mine >f; rm -r e; echo X >d/x; echo new >d/new; rm z; chmod 711 d");
            let count = std::sync::atomic::AtomicUsize::new(0);
            let on_step = || {
                if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == number {
                    // If a step has already moved the entry away, there is nothing to change.
                    crate::fixture::attempt(&place.path(), others);
                }
                std::ops::ControlFlow::Continue(())
            };
            let terms = Terms { on_step: &on_step, ..since(baseline) };
            let outcome = call.commit(&place.workspace(), &terms);
            let now = tree(&place.path());
            let has = |path: &str| now.contains_key(Path::new(path));
            match outcome {
                Ok(Outcome::Committed(_)) => {
                    assert!(has("d/new") || has("moved/new"), "{others} at {number}: {now:?}");
                }
                Ok(Outcome::Conflict(changes)) => {
                    assert!(
                        has("e/y") && has("z") && !has("d/new") && !has("moved/new"),
                        "{others} at {number}: {now:?}"
                    );
                    let during = |conflict: &Conflict| conflict.meanwhile == LaterChange::ChangedDuringCommit;
                    assert!(changes.conflicts.iter().any(during));
                    if others.starts_with("echo theirs") {
                        assert_eq!(content(&place, "f"), "a\ntheirs\n", "at {number}");
                    }
                }
                other => unreachable!("{others} at {number}: {other:?}"),
            }
        }
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    assert!(!passwd.contains("mine"));
}

#[test]
fn an_index_that_git_only_refreshed_is_no_conflict() {
    let git = "git -c user.name=n -c user.email=e@x -c core.fsmonitor=false";
    let before = format!(
        "{git} init -q .; echo a >a; echo b >b; {git} add a b; {git} commit -qm one; echo c >c; echo d >d"
    );
    let index = PathBuf::from(".git/index");
    let run = |command: &str, others: &str| {
        let place = Place::new();
        place.prepare(&before);
        let before = std::fs::File::open(place.path().join(&index)).unwrap();
        let (call, baseline) = place.overlay(command);
        direct(&place.path(), others);
        let theirs = std::fs::read(place.path().join(&index)).unwrap();
        let terms = Terms { index: Some((index.clone(), Some(before))), ..since(baseline) };
        let outcome = call.commit(&place.workspace(), &terms).unwrap();
        let stays = std::fs::read(place.path().join(&index)).unwrap() == theirs;
        (outcome, stays)
    };
    let refresh =
        "touch -d 2020-01-01 a; git update-index -q --refresh; git update-index -q --force-write-index";
    let (outcome, stays) = run(refresh, "touch b; git update-index -q --force-write-index --refresh");
    let Outcome::Committed(committed) = outcome else { unreachable!("{outcome:?}") };
    assert!(stays && committed.changes.notes.contains(&Note::IndexKept { path: index.clone() }));
    // The command added a file, others only refreshed: the command's index is committed.
    let (outcome, stays) = run("git add c", "touch b; git update-index -q --force-write-index --refresh");
    assert!(matches!(outcome, Outcome::Committed(_)) && !stays, "{outcome:?}");
    // Others added a file, the command only refreshed: their index stays.
    let (outcome, stays) = run(refresh, "git add d");
    assert!(matches!(outcome, Outcome::Committed(_)) && stays, "{outcome:?}");
    // Both sides added a file.
    let (outcome, stays) = run("git add c", "git add d");
    let Outcome::Conflict(changes) = outcome else { unreachable!("{outcome:?}") };
    assert!(stays && changes.conflicts.iter().any(|conflict| conflict.path == index));
}
