//! Tests that a git index with the same data about every file counts as unchanged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::fixture::{Place, Shown, direct, tree};
use crate::restored::{InMemory, change, conflicts, lay_out, undo};

/// Makes `git` in scripts behave the same on every machine.
const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
    git() { command git -c user.name=n -c user.email=e@x \"$@\"; }
    ";

/// Creates a repository with another one in it, each with a commit.
fn with_repositories() -> (Place, InMemory) {
    let place = Place::new();
    place.prepare(&format!(
        "{GIT} git init -q .; git init -q sub; echo a >a; echo b >sub/b; echo k >k; echo k >sub/k
        git add a k; git commit -qm one; git -C sub add b k; git -C sub commit -qm one"
    ));
    (place, InMemory::default())
}

fn indexes(place: &Place) -> [Vec<u8>; 2] {
    [".git/index", "sub/.git/index"].map(|path| std::fs::read(place.path().join(path)).unwrap())
}

#[test]
fn a_look_by_git_since_stands_against_no_undoing() {
    for command in
        ["echo c >a; git commit -qam two", "echo c >sub/b; git -C sub commit -qam two", "git rm -qf a"]
    {
        let (place, contents) = with_repositories();
        let before = tree(&place.path());
        let first = indexes(&place);
        let saved = change(&place, &contents, &format!("{GIT} {command}"));
        let changed = indexes(&place);
        assert!(changed != first, "the control: {command}");
        let look = "touch -d 2021-01-01 k; git update-index -q --refresh; git status";
        direct(&place.path(), &format!("{GIT} {look} >/dev/null; cd sub; {look} >/dev/null"));
        assert!(indexes(&place) != changed, "the control: the look wrote something");
        undo(&place, &contents, &saved.entries);
        let what = |tree: BTreeMap<PathBuf, Shown>| -> Vec<_> {
            let told = tree.into_iter().filter(|(path, _)| !path.ends_with("index"));
            told.map(|(path, shown)| (path, shown.what)).collect()
        };
        assert_eq!(what(tree(&place.path())), what(before), "{command}");
        direct(&place.path(), &format!("{GIT} git diff --quiet HEAD -- a; git -C sub diff --quiet HEAD"));
    }
}

#[test]
fn an_index_that_says_something_else_since_is_a_conflict() {
    let (place, contents) = with_repositories();
    let saved = change(&place, &contents, &format!("{GIT} echo c >a; git commit -qam two"));
    direct(&place.path(), &format!("{GIT} echo new >new; git add new"));
    let (_, _, restored) = lay_out(&place, &contents, &saved.entries, &[], &|_| false);
    assert_eq!(conflicts(&restored), [".git/index"]);
}

#[test]
fn what_only_refreshes_an_index_changes_nothing() {
    let (place, contents) = with_repositories();
    let before = indexes(&place);
    let refresh = "git update-index -q --force-write-index --refresh";
    let saved = change(&place, &contents, &format!("{GIT} {refresh}; git -C sub status; cd sub; {refresh}"));
    assert_eq!((indexes(&place), saved.entries), (before, vec![]));
    // Control: a command that adds a file changes both.
    let saved =
        change(&place, &contents, &format!("{GIT} echo c >c; git add c; cd sub; echo c >c; git add c"));
    let paths: Vec<&Path> = saved.entries.iter().map(|entry| entry.path.as_path()).collect();
    assert!(
        paths.contains(&Path::new(".git/index")) && paths.contains(&Path::new("sub/.git/index")),
        "{paths:?}"
    );
}
