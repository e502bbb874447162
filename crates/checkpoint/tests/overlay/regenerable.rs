//! Tests that saving leaves out only regenerable folders, and that a name alone does not make a
//! folder regenerable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::{Place, Shown, direct, tree, without_times};
use crate::restored::{InMemory, change, undo};

const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; \
    commit() { git -c user.name=n -c user.email=e@e commit -qm m; }";

/// Prepares a workspace, removes folders by a command, and returns the unsaved ones. Undo must
/// restore everything else exactly.
#[track_caller]
fn left_out(before: &str, command: &str) -> Vec<String> {
    let (place, contents) = (Place::new(), InMemory::default());
    place.prepare(&format!("{GIT}\n{before}"));
    let was = tree(&place.path());
    let saved = change(&place, &contents, command);
    let now = tree(&place.path());
    assert_ne!(now, was, "the control: {command} changes something");
    undo(&place, &contents, &saved.entries);
    let left: Vec<String> = saved.unsaved.iter().map(|path| path.to_str().unwrap().to_owned()).collect();
    let is_left = |path: &Path| left.iter().any(|left| path.starts_with(left));
    let all_else = |tree: BTreeMap<PathBuf, Shown>| -> Vec<_> {
        // The parent folder of an unsaved folder has lost an entry, and has another time.
        let tree = if left.is_empty() { tree } else { without_times(tree) };
        tree.into_iter().filter(|(path, _)| !is_left(path)).collect()
    };
    assert_eq!(all_else(tree(&place.path())), all_else(was), "{before}\n{command}");
    left
}

#[test]
fn what_is_tracked_or_has_no_maker_is_saved_whatever_its_name() {
    const NONE: [&str; 0] = [];
    let tracked =
        "git init -q; mkdir dist; echo 1 >dist/index.js; git add .; commit; echo edited >>dist/index.js";
    assert_eq!(left_out(tracked, "rm -rf dist"), NONE);
    let forced = "git init -q; echo dist >.gitignore; mkdir dist; echo 1 >dist/a; echo 2 >dist/b; git add -f dist/a; commit";
    assert_eq!(left_out(forced, "rm -rf dist"), NONE);
    let beside = "git init -q; mkdir target node_modules; touch Cargo.toml package.json; echo 1 >target/a; \
        echo 2 >node_modules/b; git add .; commit";
    assert_eq!(left_out(beside, "rm -rf target node_modules"), NONE);
    let named = "mkdir -p src/target/deep dist venv .venv node_modules __pycache__; touch Cargo.toml; echo 1 >src/target/deep/a.rs; \
        for d in dist venv .venv node_modules; do echo mine >$d/notes; done; echo mine >__pycache__/notes.py";
    assert_eq!(left_out(named, "rm -rf src dist venv .venv node_modules __pycache__"), NONE);
    let of_its_own = "git init -q; echo target >.gitignore; mkdir target; cd target; git init -q; echo 1 >a; git add .; commit; \
        echo edited >>a";
    assert_eq!(left_out(of_its_own, "rm -rf target"), NONE);
    let editable = "mkdir -p venv/src/p; touch venv/pyvenv.cfg; cd venv/src/p; git init -q; echo 1 >a; git add .; commit; \
        echo edited >>a";
    assert_eq!(left_out(editable, "rm -rf venv"), NONE);
    // Invalid files decide nothing: neither of these can be parsed.
    let broken = "git init -q; echo dist >.gitignore; mkdir dist; echo 1 >dist/a; echo none >.git/index";
    assert_eq!(left_out(broken, "rm -rf dist"), NONE);
    let untagged = "mkdir target; echo 1 >target/a; echo Signature: none >target/CACHEDIR.TAG";
    assert_eq!(left_out(untagged, "rm -rf target"), NONE);
}

#[test]
fn what_the_same_command_says_of_a_folder_does_not_count() {
    const NONE: [&str; 0] = [];
    let before = "git init -q; mkdir dist target; echo 1 >dist/a; echo 1 >target/a";
    let tag = "echo 'Signature: 8a477f597d28d172789f06886806bc55' >dist/CACHEDIR.TAG";
    for said in ["printf 'dist\\ntarget\\n' >.gitignore", "touch Cargo.toml", tag, "rm -rf .git"] {
        assert_eq!(left_out(before, &format!("{said}; rm -rf dist target")), NONE, "{said}");
    }
}

#[test]
fn what_a_tool_makes_again_is_left_out() {
    let tag = "echo 'Signature: 8a477f597d28d172789f06886806bc55' >d/dist/CACHEDIR.TAG";
    assert_eq!(left_out(&format!("mkdir -p d/dist; {tag}"), "rm -rf d"), ["d/dist"]);
    let makers = "mkdir -p target node_modules a/node_modules venv __pycache__ .next; touch Cargo.toml package.json venv/pyvenv.cfg \
        a/node_modules/.package-lock.json __pycache__/a.cpython-312.pyc; for d in *; do [ ! -d $d ] || echo 1 >$d/file.pyc; done";
    let removed = "rm -rf target node_modules a venv __pycache__ .next";
    let left = left_out(makers, removed);
    assert_eq!(left, [".next", "__pycache__", "a/node_modules", "node_modules", "target", "venv"]);
    // New entries have nothing to lose, and are not examined.
    assert_eq!(
        left_out("touch package.json", "mkdir node_modules; echo 1 >node_modules/a"),
        ["node_modules"]
    );
}

/// Returns true if git ignores a folder and tracks nothing in it.
fn git_ignores(workspace: &Path, folder: &str) -> bool {
    let git = |arguments: &[&str]| {
        let (holder, name) = folder.rsplit_once('/').unwrap_or((".", folder));
        let mut command = Command::new("git");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.current_dir(workspace.join(holder)).args(arguments).arg(name).output().unwrap()
    };
    let ignored = git(&["check-ignore", "--quiet"]).status;
    let tracked = git(&["ls-files", "--error-unmatch"]).status;
    ignored.code() == Some(0) && !tracked.success()
}

#[test]
fn what_git_ignores_is_what_git_says_that_it_ignores() {
    let layouts = [
        ("dist", "echo dist/ >.gitignore"),
        ("dist", "echo /dist >.gitignore"),
        ("a/dist", "echo /dist >.gitignore"),
        ("a/dist", "echo dist >.gitignore; echo '!dist' >a/.gitignore"),
        ("a/dist", "echo 'a/' >.gitignore; echo '!dist' >a/.gitignore"),
        ("a/b/dist", "echo 'a/**/dist' >.gitignore"),
        ("a/dist", "printf 'dist\\n!/a/dist\\n' >.gitignore"),
        ("a/dist", "echo dist >.git/info/exclude"),
        ("a/dist", "echo dist >.git/info/exclude; echo '!dist' >.gitignore"),
        ("dist", "echo '# dist' >.gitignore"),
        ("dist", "echo 'dist ' >.gitignore"),
        ("dist", "echo 'dist/*' >.gitignore"),
        ("dist", "echo dist >.gitignore; git add -f dist"),
        ("a/dist", "echo dist >.gitignore; git init -q a"),
        ("a/dist", "echo dist >a/.gitignore; git init -q a"),
        ("a/dist", "echo dist >.gitignore; git add -f a/dist; git init -q a; echo dist >a/.gitignore"),
        (
            "w/dist",
            "git add a; commit; git worktree add -q w; mkdir w/dist; echo 1 >w/dist/f; echo dist >w/.gitignore",
        ),
        ("w/dist", "git add -A; commit; git worktree add -q w; mkdir -p w/dist; echo 1 >w/dist/f"),
    ];
    let mut ignored = 0;
    for (folder, said) in layouts {
        let before = format!(
            "git init -q; mkdir -p dist a/dist a/b/dist; for d in dist a/dist a/b/dist; do echo 1 >$d/f; done; {said}"
        );
        let place = Place::new();
        direct(&place.path(), &format!("{GIT}\n{before}"));
        let expected = git_ignores(&place.path(), folder);
        ignored += usize::from(expected);
        let left = left_out(&before, &format!("rm -rf {folder}"));
        // An outer repository may track files of an inner one: a folder tracked by any of them is
        // saved.
        let is_left = left == [folder];
        assert_eq!(is_left, expected && !said.contains("-f a/dist"), "{folder}: {said}: {left:?}");
    }
    assert!(ignored > 5 && ignored < layouts.len(), "{ignored}");
}
