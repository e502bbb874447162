//! Tests of the protected set.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::repository::{items, macros, new_driver};
use super::view::{Content, LayeredView, PlannedChanges, View};
use super::{ChangeJudge, News, ProtectedSet, package};

struct World(tempfile::TempDir);

impl World {
    fn of(files: &[(&str, &str)]) -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for (path, content) in files {
            world.write(path, content);
        }
        world
    }

    fn root(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Returns the reasons that a repository newly runs something when `new` replaces its
    /// configuration `old`.
    fn new_settings(old: &str, new: &str) -> Vec<String> {
        let [before, after] = [old, new].map(|text| {
            let world = Self::of(&[("r/HEAD", ""), ("r/objects/x", ""), ("r/config", text)]);
            let root = world.root();
            items(&View { root: &root, over: LayeredView::Nothing, home: None }, Path::new("r"))
        });
        after.into_iter().filter(|(item, _)| !before.contains_key(item)).map(|(_, why)| why).collect()
    }

    fn set(&self, beginnings: &[&str]) -> Arc<ProtectedSet> {
        let root = self.root();
        let policy = testkit::policy_of(&root, None, &serde_json::json!({})).unwrap();
        let beginnings = beginnings.iter().map(PathBuf::from).collect();
        Arc::new(ProtectedSet::find(&Arc::new(policy), &root, beginnings))
    }

    /// Returns the reason why a file tool that writes these files would be asked about the last one.
    fn reason(&self, set: &ProtectedSet, written: &[&str]) -> Option<String> {
        let root = self.root();
        let planned = PlannedChanges {
            written: written.iter().map(PathBuf::from).collect(),
            ..PlannedChanges::default()
        };
        let news = News::default();
        ChangeJudge::new(set, &root, LayeredView::Planned(&planned), &news)
            .reason(Path::new(written.last().unwrap()))
    }
}

#[test]
fn settings_that_were_there_may_stay_and_go_and_move() {
    let old = "[alias]\n\tst = !x\n[core]\n\tbare = false\n";
    let none = Vec::<String>::new();
    assert_eq!(World::new_settings(old, "[core]\n\tbare = false\n[alias]\n\tst = \"!x\"\n"), none);
    assert_eq!(World::new_settings(old, ""), none);
    assert_eq!(World::new_settings(old, "[alias]\n\tst = !y\n").len(), 1);
    assert_eq!(World::new_settings(old, "[alias]\n\tst = !x\n\tst = !x\n").len(), 1);
    assert_eq!(World::new_settings(old, "[alias").len(), 1);
}

#[test]
fn a_folder_is_asked_about_when_what_completes_it_comes_and_not_before() {
    let world =
        World::of(&[("x/config", "[core]\n\tfsmonitor = x\n"), ("y/config/app.toml", ""), ("y/HEAD", "")]);
    let set = world.set(&[]);
    assert_eq!(world.reason(&set, &["x/HEAD"]), None);
    assert_eq!(world.reason(&set, &["y/objects/a"]), None);
    world.write("x/HEAD", "");
    assert!(world.reason(&set, &["x/objects/aa/bb"]).unwrap().contains("core.fsmonitor"));
    assert!(world.reason(&set, &["x/commondir"]).is_some());
    world.write("x/objects/aa/bb", "");
    assert_eq!(world.reason(&set, &["x/objects/aa/cc"]), None, "it was one before");
    assert!(world.reason(&set, &["x/hooks/update"]).is_some());
    assert_eq!(world.reason(&set, &["x/hooks/update.sample"]), None);
    assert_eq!(world.reason(&set, &["x/description"]), None);
}

#[test]
fn a_folder_that_gets_another_name_is_judged_as_what_it_becomes() {
    let world = World::of(&[("x/HEAD", ""), ("x/config", "[core]\n\tfsmonitor = x\n"), ("o/a", "")]);
    let (root, set, news) = (world.root(), world.set(&[]), News::default());
    let planned =
        PlannedChanges { moved: vec![("o".into(), "x/objects".into())], ..PlannedChanges::default() };
    let changed = ChangeJudge::new(&set, &root, LayeredView::Planned(&planned), &news);
    assert!(changed.reason(Path::new("x/objects")).is_some());
}

#[test]
fn what_a_hook_calls_by_plain_words_counts_and_its_data_does_not() {
    let hook = "#!/bin/sh\n# see docs/notes.sh\nroot=$(git rev-parse --show-toplevel)\n. \"$root/lib/common.sh\"\n\
                if [ -x ./later.sh ]; then ./later.sh; fi\ncargo fmt -- src/main.rs\nbash -e scripts/run\nmake lint\n";
    let world = World::of(&[
        (".git/HEAD", ""),
        (".git/hooks/pre-commit", hook),
        ("lib/common.sh", "source lib/deeper.sh\n"),
        ("lib/deeper.sh", ""),
        ("scripts/run", ""),
        ("src/main.rs", ""),
        ("docs/notes.sh", ""),
        ("Makefile", ""),
    ]);
    let set = world.set(&[".git/HEAD"]);
    for led in ["lib/common.sh", "lib/deeper.sh", "scripts/run", "later.sh", "Makefile"] {
        assert!(world.reason(&set, &[led]).is_some(), "{led}");
    }
    for free in ["src/main.rs", "docs/notes.sh", "lib/other.sh", "scripts/other"] {
        assert_eq!(world.reason(&set, &[free]), None, "{free}");
    }
}

#[test]
fn links_in_a_repository_lead_to_its_parts_and_not_to_all_that_is_there() {
    let world = World::of(&[
        ("store/HEAD", ""),
        ("store/objects/aa/b", ""),
        ("store/config", "[core]\n\thooksPath = ../on\n"),
        ("far/hooks/pre-commit", ""),
        ("sub/.envrc", "use flake\n"),
        ("sub/flake.nix", ""),
        ("on/x", ""),
    ]);
    symlink("store", world.root().join(".git")).unwrap();
    symlink("../far/hooks", world.root().join("store/hooks")).unwrap();
    let set = world.set(&[".git", "store/HEAD", "sub/.envrc"]);
    for led in [
        "far/hooks/pre-commit",
        "far/hooks/post-commit",
        "store/hooks/update",
        "store/config",
        "sub/flake.nix",
    ] {
        assert!(world.reason(&set, &[led]).is_some(), "{led}");
    }
    for free in [
        "store/objects/aa/c",
        "store/index",
        "store/refs/heads/x",
        "far/hooks/README",
        "far/other",
        "flake.nix",
    ] {
        assert_eq!(world.reason(&set, &[free]), None, "{free}");
    }
}

#[test]
fn the_set_is_current_until_something_on_the_way_changes() {
    let world = World::of(&[("a", ""), ("b", "")]);
    let root = world.root();
    symlink("a", root.join(".envrc")).unwrap();
    let set = world.set(&[".envrc"]);
    let beginnings = BTreeSet::from([PathBuf::from(".envrc")]);
    assert!(world.reason(&set, &["a"]).is_some() && world.reason(&set, &["b"]).is_none());
    assert!(set.is_current(&root, &beginnings));
    fs::remove_file(root.join(".envrc")).unwrap();
    symlink("b", root.join(".envrc")).unwrap();
    assert!(!set.is_current(&root, &beginnings));
    assert!(!set.is_current(&root, &BTreeSet::new()));
}

#[test]
fn attributes_count_where_they_newly_name_a_program() {
    let drivers = BTreeSet::from([("filter".to_owned(), "f".to_owned())]);
    let none = BTreeSet::new();
    let new = |old: &str, new: &str| new_driver(old.as_bytes(), new.as_bytes(), &drivers, &none);
    assert_eq!(new("", "*.rs text diff=rust\n"), None);
    assert_eq!(new("*.x filter=f\n", "*.y text\n*.x filter=f\n"), None);
    assert!(new("", "*.x\tfilter=f").is_some());
    let known = macros(b"[attr]clean filter=f\n[attr]other text\n", &drivers);
    assert_eq!(known, BTreeSet::from(["clean".to_owned()]));
    assert!(new_driver(b"", b"*.x clean", &drivers, &known).is_some());
    assert!(new_driver(b"", b"*.x other", &drivers, &known).is_none());
}

#[test]
fn of_a_package_what_a_hook_runs_counts() {
    let words = ["npm", "run", "lint"].map(str::to_owned).into_iter().collect();
    let change = |old: &str, new: &str| {
        let [old, new] = [old, new].map(|text| Content::Bytes(text.as_bytes().to_vec()));
        package::change(&old, &new, &words)
    };
    let old = r#"{"scripts": {"lint": "a", "build": "b"}, "husky": {}}"#;
    assert_eq!(change(old, r#"{"scripts": {"lint": "a", "build": "c"}, "version": "2"}"#), None);
    for new in [
        r#"{"scripts": {"lint": "x"}}"#,
        r#"{"scripts": {"lint": "a", "prelint": "x"}}"#,
        r#"{"husky": {"hooks": {}}}"#,
        r#"{"config": {"ghooks": 1}}"#,
        "{",
    ] {
        assert!(change(old, new).is_some(), "{new}");
    }
    assert!(package::change(&Content::Absent, &Content::Unknown(String::new()), &words).is_some());
}
