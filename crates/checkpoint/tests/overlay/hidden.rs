//! Tests of files for which the command saw placeholders.

use std::fs;
use std::path::{Path, PathBuf};

use checkpoint::{Call, HiddenFile, InRepository, Note, Outcome, SeenAs, Terms, Time, TrackedFile, Trackers};

use crate::fixture::{Place, since, tree};

/// Content of `tests/server.pem`.
const SECRET: &str = "the content of a file that git tracks and a rule hides, of some length\n";

/// Creates a workspace with a completely hidden file, and one with a notice.
fn place() -> (Place, Vec<HiddenFile>) {
    let place = Place::new();
    place.prepare(&format!(
        "mkdir tests plain; printf secret > .env; printf '{SECRET}' > tests/server.pem; echo x > tests/a; echo x > plain/a"
    ));
    let notice = SeenAs::Notice { size_bytes: SECRET.len() as u64, executable: false };
    let hidden = [(".env", SeenAs::Closed), ("tests/server.pem", notice)];
    (place, hidden.map(|(path, seen_as)| HiddenFile { path: path.into(), seen_as }).into())
}

/// Runs a script on an overlay that contains the placeholders, as a cell places them.
fn run((place, hidden): &(Place, Vec<HiddenFile>), script: &str) -> (Call, Time) {
    let call = place.area.begin().unwrap();
    call.hide(hidden).unwrap();
    let contents = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for (number, hidden) in hidden.iter().enumerate() {
        let (path, content) = (hidden.path.display(), contents.path().join(number.to_string()));
        fs::write(&content, hidden.content()).unwrap();
        let (upper, mark, mode) = (call.upper(), HiddenFile::mark(number), hidden.mode());
        all.push_str(&format!(
            "before=$(stat -c %y $(dirname {path})); cp {} .new; python3 -c 'import os; os.setxattr(\"{}/.new\", {:?}, b\"\")'\n\
             chmod {mode:o} .new; mv -f .new {path}; touch -d \"$before\" $(dirname {path})\n",
            content.display(),
            upper.display(),
            mark.to_str().unwrap(),
        ));
    }
    let baseline = call.baseline().unwrap();
    let output = crate::fixture::overlay(&place.path(), &call, &format!("{all}\n{script}"));
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    (call, baseline)
}

fn committed(place: &(Place, Vec<HiddenFile>), script: &str) -> (Vec<PathBuf>, Vec<Note>) {
    let (call, baseline) = run(place, script);
    match call.commit(&place.0.workspace(), &since(baseline)).unwrap() {
        Outcome::Committed(committed) => {
            let changes = committed.changes;
            (changes.list.into_iter().map(|change| change.path).collect(), changes.notes)
        }
        other => panic!("{script}: {other:?}"),
    }
}

fn read(place: &(Place, Vec<HiddenFile>), path: &str) -> Option<String> {
    fs::read_to_string(place.0.path().join(path)).ok()
}

#[test]
fn untouched_placeholders_are_no_change() {
    let place = place();
    let before = tree(&place.0.path());
    assert_eq!(committed(&place, "cat tests/server.pem; ls -lR"), (Vec::new(), Vec::new()));
    assert_eq!(tree(&place.0.path()), before);
    let (paths, notes) = committed(&place, "echo new > tests/new; echo new > new");
    assert_eq!(
        (paths.len(), notes),
        (4, Vec::new()),
        "both files, and the times of their folders: {paths:?}"
    );
    assert_eq!(
        (read(&place, ".env").unwrap(), read(&place, "tests/server.pem").unwrap()),
        ("secret".into(), SECRET.into())
    );
}

#[test]
fn removing_a_placeholder_removes_the_file_and_says_so() {
    let place = place();
    let (_, notes) = committed(&place, "rm -rf tests .env");
    assert!(!place.0.path().join("tests").exists() && !place.0.path().join(".env").exists());
    let paths: Vec<PathBuf> = [".env", "tests/server.pem"].map(PathBuf::from).into();
    assert_eq!(notes, [Note::HiddenRemoved { paths }]);
}

#[test]
fn a_placeholder_that_was_changed_moved_or_linked_is_never_committed() {
    let place = place();
    let before = tree(&place.0.path());
    for (script, path, word) in [
        ("chmod 600 .env", ".env", "change"),
        ("chmod 644 tests/server.pem; echo new > tests/server.pem", "tests/server.pem", "change"),
        ("chmod 644 .env; mv .env x", "x", ".env"),
        ("mv .env tests/x", "tests/x", ".env"),
        ("mkdir d; mv tests/server.pem d/y.pem", "d/y.pem", "tests/server.pem"),
        ("ln .env x", "x", ".env"),
        ("rm -rf tests; mkdir tests; echo new > tests/server.pem", "tests/server.pem", "change"),
        ("mv -f .env tests/server.pem", "tests/server.pem", ".env"),
        (
            "mv tests/server.pem x; rm -rf tests; mkdir tests; mv x tests/server.pem",
            "tests/server.pem",
            "hidden",
        ),
        // The folder is moved by copying its contents, as always on an overlay.
        ("mv tests moved", "moved/server.pem", "tests/server.pem"),
        ("cp tests/server.pem plain/x; rm tests/server.pem", "plain/x", "tests/server.pem"),
    ] {
        let (call, baseline) = run(&place, script);
        for terms in [since(baseline), Terms { baseline: None, ..since(baseline) }] {
            let Outcome::Held(changes) = call.commit(&place.0.workspace(), &terms).unwrap() else {
                panic!("{script} was committed")
            };
            let held = changes.held.iter().find(|held| held.path == Path::new(path));
            let held = held.unwrap_or_else(|| panic!("{script}: {:?}", changes.held));
            assert!(!held.may_be_approved && held.reason.contains(word), "{script}: {held:?}");
        }
        assert_eq!(tree(&place.0.path()), before, "{script}");
    }
}

#[test]
fn copies_of_a_notice_are_left_out() {
    let place = place();
    let (_, notes) =
        committed(&place, "cp -r tests copy; cp tests/server.pem plain/a; cp tests/server.pem x.pem");
    assert_eq!(
        notes,
        [Note::HiddenCopied { paths: ["copy/server.pem", "plain/a", "x.pem"].map(PathBuf::from).into() }]
    );
    assert_eq!(read(&place, "copy/a").unwrap(), "x\n");
    assert_eq!(read(&place, "plain/a").unwrap(), "x\n", "what it would have replaced stays");
    assert!(!place.0.path().join("copy/server.pem").exists() && !place.0.path().join("x.pem").exists());
    assert_eq!(read(&place, "tests/server.pem").unwrap(), SECRET);
}

#[test]
fn a_tracked_file_that_is_written_again_as_it_is_stays_and_another_is_judged() {
    let place = place();
    let again = format!("rm tests/server.pem; printf '{SECRET}' > tests/server.pem");
    let inode =
        |path: &str| std::os::unix::fs::MetadataExt::ino(&place.0.path().join(path).metadata().unwrap());
    let before = inode("tests/server.pem");
    committed(&place, &again);
    assert_eq!(inode("tests/server.pem"), before);
    let mut place = self::place();
    let back = format!("rm -rf tests; mkdir tests; printf '{SECRET}' > tests/server.pem");
    assert_eq!(committed(&place, &back).1, [], "it is not said to be removed");
    assert_eq!(read(&place, "tests/server.pem").unwrap(), SECRET);
    // In a regenerable folder, a command may replace a hidden file.
    place.0.prepare("mkdir -p node_modules/tls; echo '{}' > package.json; echo old > node_modules/tls/a.pem");
    place.1.push(HiddenFile { path: "node_modules/tls/a.pem".into(), seen_as: SeenAs::Closed });
    committed(&place, "rm -rf node_modules; mkdir -p node_modules/tls; echo new > node_modules/tls/a.pem");
    assert_eq!(read(&place, "node_modules/tls/a.pem").unwrap(), "new\n");
    // For a file that git does not track, a command must not learn whether its guess is right.
    let (paths, _) = committed(&place, "rm -f .env; printf secret > .env; chmod 644 .env");
    assert!(paths.contains(&PathBuf::from(".env")), "it is put to the judge: {paths:?}");
}

#[test]
fn a_folder_that_others_remove_meanwhile_does_not_come_back_for_a_placeholder() {
    let place = place();
    let (call, baseline) = run(&place, "echo x > new");
    fs::remove_dir_all(place.0.path().join("tests")).unwrap();
    let outcome = call.commit(&place.0.workspace(), &since(baseline)).unwrap();
    assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
    assert!(place.0.path().join("new").exists() && !place.0.path().join("tests").exists());
}

#[test]
fn a_commit_that_is_cut_off_at_any_point_leaves_no_placeholder_behind() {
    for number in 1.. {
        let place = place();
        let before = tree(&place.0.path());
        let (call, baseline) = run(&place, "cp -r tests copy; echo new > tests/new; rm -rf .env plain");
        let breaking = crate::interrupted::at_step(number);
        let outcome = call.commit(&place.0.workspace(), &Terms { on_step: &breaking, ..since(baseline) });
        drop(call);
        let now = || tree(&place.0.path());
        let is_placeholder = |shown: &crate::fixture::Shown| {
            shown.what.contains("Handfast hides") || shown.mode | 0o7000 == 0o7000
        };
        let found: Vec<_> = now().into_iter().filter(|(_, shown)| is_placeholder(shown)).collect();
        assert!(found.is_empty(), "at step {number}: {found:?}");
        if outcome.is_ok() {
            assert!(number > 10 && !place.0.path().join(".env").exists(), "only {number} steps");
            return;
        }
        crate::fixture::when_free(|| {
            let recovered =
                place.0.area.recover(&|| std::ops::ControlFlow::Continue(()), &|_| Ok(())).unwrap();
            (!recovered.is_empty()).then_some(())
        });
        assert_eq!(now(), before, "at step {number}");
    }
}

#[test]
fn what_git_tracks_is_known_unless_another_filter_could_have_it() {
    const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
        git() { command git -c user.name=A -c user.email=a@b.c -c protocol.file.allow=always \"$@\"; }";
    let place = Place::new();
    let prepare = |script: &str| place.prepare(&format!("{GIT}\n{script}"));
    prepare(
        "git init -q; mkdir d; printf 12345 > d/a.pem; printf 1 > x.key; chmod 755 x.key; echo > not.pem
         git add d x.key; git commit -qm one; git update-index --index-version 4
         mkdir sub; cd sub; git init -q; printf 123 > in.pem; git add in.pem; git commit -qm s",
    );
    let trackers = Trackers::default();
    let workspace = place.path().canonicalize().unwrap();
    let names = ["d/a.pem", "x.key", "not.pem", "sub/in.pem", "outside/a.pem"];
    let found = || trackers.of(&workspace, &names.map(|name| workspace.join(name)));
    let file = |name: &str, tracked: Option<(u64, bool)>| {
        let tracked = tracked.map(|(size, executable)| TrackedFile { size_bytes: Some(size), executable });
        Some(InRepository { name: name.into(), tracked })
    };
    let all = |a: Option<(u64, bool)>, key, sub| {
        [
            file("d/a.pem", a),
            file("x.key", key),
            file("not.pem", None),
            file("in.pem", sub),
            file("outside/a.pem", None),
        ]
    };
    assert_eq!(found(), all(Some((5, false)), Some((1, true)), Some((3, false))));
    prepare("echo '*.pem filter=lfs' > d/.gitattributes");
    assert_eq!(found(), all(None, Some((1, true)), Some((3, false))), "in that folder alone");
    prepare(
        "rm d/.gitattributes; git config core.attributesFile /elsewhere; git -C sub rm -q --cached in.pem",
    );
    assert_eq!(found(), all(None, None, None));
    prepare(
        "git config --unset core.attributesFile; git update-index --skip-worktree x.key; git -C sub add in.pem",
    );
    assert_eq!(found(), all(Some((5, false)), None, Some((3, false))));
    prepare("rm -rf .git");
    assert_eq!(found(), [None, None, None, file("in.pem", Some((3, false))), None]);
}
