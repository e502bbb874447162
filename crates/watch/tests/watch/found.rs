//! The marked entries that a watch finds.

use std::fs::{self, Permissions, hard_link, rename};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use watch::{MarkedPaths, Watch, WatchMode};

use crate::fixture::{ByName, Folder};

#[test]
fn every_kind_of_entry_is_found_at_any_depth_and_links_are_not_followed() {
    let folder =
        Folder::new(&[".env", "a/b/c/.env", "a/plain", "secret/inner/.env", "x/secret/y", "fixed/a"]);
    fs::create_dir(folder.at("k")).unwrap();
    let _socket = UnixListener::bind(folder.at("k/.env")).unwrap();
    let _other = UnixListener::bind(folder.at("k/other")).unwrap();
    fs::create_dir(folder.at("f")).unwrap();
    let fifo = folder.at("f/.env");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    symlink("..", folder.at("a/loop")).unwrap();
    let hidden = [".env", "a/b/c/.env", "f/.env", "k/.env", "k/other", "secret", "x/secret"];
    folder.expect(&mut folder.watch(), &hidden, &["fixed"]);
    assert_eq!(folder.relative(&folder.walked()).0, hidden);
}

#[test]
fn a_marked_link_marks_what_it_leads_to_within_the_roots_alone() {
    let folder = Folder::new(&["config/dev", "c/plain"]);
    let outside = Folder::new(&["file"]);
    symlink("config/dev", folder.at(".env")).unwrap();
    fs::create_dir_all(folder.at("b/d")).unwrap();
    symlink(outside.at("file"), folder.at("b/.env")).unwrap();
    symlink("../..", folder.at("b/d/.env")).unwrap();
    symlink("missing", folder.at("c/.env")).unwrap();
    symlink("../c", folder.at("b/secret")).unwrap();
    folder.expect(&mut folder.watch(), &["c", "config/dev"], &[]);
}

#[test]
fn further_names_of_a_marked_file_are_marked_wherever_they_lie() {
    let folder = Folder::new(&["deep/.env", "secret/inner/key", "fixed", "plain"]);
    let other = Folder::new(&["plain"]);
    hard_link(folder.at("deep/.env"), folder.at("notes.txt")).unwrap();
    hard_link(folder.at("secret/inner/key"), folder.at("deep/key")).unwrap();
    hard_link(folder.at("fixed"), folder.at("deep/loose")).unwrap();
    hard_link(folder.at("plain"), folder.at("plain2")).unwrap();
    hard_link(folder.at("deep/.env"), other.at("elsewhere")).unwrap();
    let hidden = ["deep/.env", "deep/key", "notes.txt", "secret"];
    folder.expect(&mut folder.watch(), &hidden, &["deep/loose", "fixed"]);
    let both = Watch::new(vec![folder.path(), other.path()], ByName, WatchMode::Once).sync().unwrap();
    assert!(both.hidden.contains(&other.at("elsewhere")), "{both:?}");
}

#[test]
fn names_that_are_made_later_are_found_too_and_let_go_when_they_are_no_more() {
    let folder = Folder::new(&["a/.env", "b/plain", "c/two"]);
    let outside = Folder::new(&["x"]);
    let mut watch = folder.watch();
    folder.expect(&mut watch, &["a/.env"], &[]);
    hard_link(folder.at("a/.env"), folder.at("b/copy")).unwrap();
    folder.expect(&mut watch, &["a/.env", "b/copy"], &[]);
    // A file that already has two names gets a marked third one.
    hard_link(folder.at("c/two"), folder.at("c/three")).unwrap();
    folder.expect(&mut watch, &["a/.env", "b/copy"], &[]);
    rename(folder.at("c/three"), folder.at("c/.env")).unwrap();
    folder.expect(&mut watch, &["a/.env", "b/copy", "c/.env", "c/two"], &[]);
    fs::remove_file(folder.at("a/.env")).unwrap();
    rename(folder.at("c/.env"), folder.at("c/four")).unwrap();
    hard_link(folder.at("c/two"), outside.at("y")).unwrap();
    rename(outside.path().join("y"), folder.at("y")).unwrap();
    folder.expect(&mut watch, &[], &[]);
    assert_eq!(watch.walks(), 1);
}

#[test]
fn a_name_outside_of_a_marked_folder_that_a_file_in_it_gains_later_is_found() {
    let folder = Folder::new(&["secret/data", "secret/deep/data", "plain"]);
    let mut watch = folder.watch();
    folder.expect(&mut watch, &["secret"], &[]);
    // The first link makes the watch list the files with several names; the next links are made
    // after that.
    hard_link(folder.at("secret/data"), folder.at("one")).unwrap();
    folder.expect(&mut watch, &["one", "secret"], &[]);
    hard_link(folder.at("secret/deep/data"), folder.at("two")).unwrap();
    folder.expect(&mut watch, &["one", "secret", "two"], &[]);
    // Move a folder in that contains a further name.
    let outside = Folder::new(&["tree/plain"]);
    folder.write("secret/later");
    folder.expect(&mut watch, &["one", "secret", "two"], &[]);
    hard_link(folder.at("secret/later"), outside.at("tree/three")).unwrap();
    rename(outside.at("tree"), folder.at("tree")).unwrap();
    folder.expect(&mut watch, &["one", "secret", "tree/three", "two"], &[]);
    assert_eq!(watch.walks(), 1);
}

fn modes_count(folder: &Folder) -> bool {
    fs::read_dir(folder.path()).is_err()
}

#[test]
fn a_folder_that_cannot_be_looked_into_is_hidden_as_a_whole_until_it_can() {
    let folder = Folder::new(&["closed/.env", "closed/a", "names/in/.env", "names/.env", "open"]);
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(folder.at(path), Permissions::from_mode(mode)).unwrap();
    };
    let mut watch = folder.watch();
    mode("", 0o000);
    if !modes_count(&folder) {
        // Root can list every folder; `tests/security/denied_files.rs` tests this case for an
        // ordinary user.
        return;
    }
    mode("", 0o700);
    mode("closed", 0o000);
    mode("names", 0o400);
    folder.expect(&mut watch, &["closed", "names"], &[]);
    mode("closed", 0o700);
    mode("names", 0o700);
    folder.expect(&mut watch, &["closed/.env", "names/.env", "names/in/.env"], &[]);
    mode("closed", 0o000);
    folder.expect(&mut watch, &["closed", "names/.env", "names/in/.env"], &[]);
    mode("closed", 0o700);
}

#[test]
fn a_path_too_long_to_be_named_is_hidden_from_there_on() {
    let folder = Folder::new(&[]);
    let mut at = std::fs::File::open(folder.path()).unwrap().into();
    let name = "n".repeat(200);
    for _ in 0..30 {
        at = deeper(&at, &name);
    }
    rustix::fs::openat(&at, ".env", rustix::fs::OFlags::CREATE, rustix::fs::Mode::RUSR).unwrap();
    let marked = folder.watch().sync().unwrap();
    assert_eq!(marked.hidden.len(), 1);
    assert!(marked.hidden[0].as_os_str().len() < 4_096, "{}", marked.hidden[0].as_os_str().len());
}

fn deeper(at: &std::os::fd::OwnedFd, name: &str) -> std::os::fd::OwnedFd {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    mkdirat(at, name, Mode::RWXU).unwrap();
    openat(at, name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

#[test]
fn a_root_that_is_marked_or_a_file_or_missing_is_answered_for() {
    let folder = Folder::new(&["secret/a", "x/.env", "plain"]);
    let roots = ["secret", "x/.env", "plain", "missing"].map(|name| folder.at(name)).to_vec();
    let marked = Watch::new(roots, ByName, WatchMode::Fresh).sync().unwrap();
    assert_eq!(folder.relative(&marked).0, ["secret", "x/.env"]);
}

#[test]
fn what_is_guarded_is_told_entry_by_entry_and_what_is_noted_as_it_comes() {
    let folder = Folder::new(&["hooks/old", "hooks/plain", "a/b"]);
    let mut watch = folder.watch();
    let own = |paths: &[PathBuf]| {
        let path = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned();
        paths.iter().map(path).collect::<Vec<_>>()
    };
    let marked = watch.sync().unwrap();
    assert_eq!(own(&marked.guarded), ["hooks"]);
    assert_eq!(own(&marked.noted), ["hooks", "hooks/old"], "after a walk everything is told");
    assert_eq!(watch.sync().unwrap().noted, [] as [PathBuf; 0]);

    folder.write("hooks/new");
    folder.write("hooks/plain");
    folder.write("a/hooks/inner/one");
    folder.write("a/sign");
    std::os::unix::fs::symlink("nowhere", folder.at("hooks/link")).unwrap();
    let marked = watch.sync().unwrap();
    assert_eq!(own(&marked.guarded), ["a/hooks", "hooks"]);
    assert_eq!(
        own(&marked.noted),
        ["a/hooks", "a/hooks/inner", "a/hooks/inner/one", "a/sign", "hooks/link", "hooks/new"]
    );
    assert_eq!(
        marked,
        MarkedPaths { noted: marked.noted.clone(), appeared: marked.appeared.clone(), ..folder.walked() }
    );

    // A further name of a guarded file is guarded too, and a file that takes an old name appears
    // again.
    std::fs::hard_link(folder.at("hooks/new"), folder.at("a/other")).unwrap();
    folder.write("a/next");
    std::fs::rename(folder.at("a/next"), folder.at("hooks/old")).unwrap();
    let marked = watch.sync().unwrap();
    assert_eq!(own(&marked.guarded), ["a/hooks", "a/other", "hooks"]);
    assert_eq!(own(&marked.noted), ["a/other", "hooks/old"]);
    assert_eq!(watch.walks(), 1);
}
