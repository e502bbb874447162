//! Tests of the synchronization with the files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use knowledge::{IndexError, ShelfError, SyncResult};

use crate::base::{Base, index, sync};

fn counts(synced: &SyncResult) -> (u64, u64, u64) {
    (synced.files_indexed, synced.chunks_created, synced.files_removed)
}

#[test]
fn only_what_changed_is_made_anew() {
    let base = Base::new();
    base.write("a.md", "# A\n\none\n\n# B\n\ntwo\n");
    base.write("b.md", "# C\n\nthree\n");
    assert_eq!(counts(&base.sync()), (2, 3, 0));
    assert_eq!(counts(&base.sync()), (0, 0, 0));
    // The first section changes: the other one keeps its text, further down.
    base.write("a.md", "# A\n\none\nmore\n\n# B\n\ntwo\n");
    assert_eq!(counts(&base.sync()), (1, 1, 0));
    assert_eq!(base.find("two")[0].lines, (6, 8));
    assert!(base.find("more").len() == 1 && base.find("one").len() == 1);
    std::fs::remove_file(base.root().join("b.md")).unwrap();
    assert_eq!(counts(&base.sync()), (0, 0, 1));
    assert_eq!(base.find("three"), []);
    // All files are read again, and no chunk is new.
    assert_eq!(counts(&base.sync_as(true, None).unwrap()), (1, 0, 0));
}

#[test]
fn the_same_bytes_at_another_time_are_the_same_file_and_young_files_are_looked_at_again() {
    let base = Base::new();
    base.write("a.md", "# A\n\none\n");
    base.sync();
    base.write("a.md", "# A\n\none\n");
    assert_eq!(counts(&base.sync()), (0, 0, 0));
    // Two writes of the same length within one tick of the clock: the stamp alone would not differ.
    let shelf = crate::base::Folder { root: base.root(), denied: Vec::new() };
    let at_once = |text: &str| {
        base.write("b.md", text);
        let file = std::fs::File::open(base.root().join("b.md")).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000)).unwrap();
        let wanted = knowledge::SyncRequest {
            all: false,
            under: None,
            now_seconds: 1_001,
            stop: &|| false,
            progress: &|_, _| {},
        };
        base.index.sync(&shelf, &wanted).unwrap()
    };
    at_once("# B\n\nfour\n");
    at_once("# B\n\nfive\n");
    assert!(base.find("five").len() == 1 && base.find("four").is_empty());
}

#[test]
fn one_file_or_folder_can_be_asked_for_and_one_that_is_not_there_is_said_so() {
    let base = Base::new();
    base.write("user/a.md", "# A\n\none\n");
    base.write("learned/b.md", "# B\n\ntwo\n");
    assert_eq!(counts(&base.sync_as(false, Some("user/a.md")).unwrap()), (1, 1, 0));
    assert_eq!(base.find("two"), []);
    assert_eq!(counts(&base.sync_as(false, Some("learned")).unwrap()), (1, 1, 0));
    std::fs::remove_file(base.root().join("user/a.md")).unwrap();
    assert_eq!(counts(&base.sync_as(false, Some("user/a.md")).unwrap()), (0, 0, 1));
    let missing = base.sync_as(false, Some("user/none.md")).unwrap_err();
    assert!(matches!(missing, IndexError::Shelf { source: ShelfError::Gone, .. }), "{missing}");
}

#[test]
fn files_of_every_kind_are_read_or_left_out_with_the_reason() {
    let base = Base::new();
    base.write("latin.md", b"# Gr\xfcn\n\nWiese\n");
    base.write("wide.md", b"\xff\xfe#\0 \0T\0i\0d\0e\0");
    base.write("binary.md", b"\x7fELF\0\0\x01");
    base.write("good.md", "# Good\n\nfine\n");
    let odd = base.root().join(OsStr::from_bytes(b"odd-\xff.md"));
    std::fs::write(odd, "# Odd\n\nstrange\n").unwrap();
    symlink("good.md", base.root().join("link.md")).unwrap();
    symlink("..", base.root().join("up")).unwrap();
    symlink("loop.md", base.root().join("loop.md")).unwrap();
    rustix_free_fifo(&base.root().join("pipe.md"));
    for _ in 0..2 {
        let synced = base.sync();
        let mut left: Vec<String> =
            synced.left.iter().map(|left| format!("{}: {}", left.path.display(), left.why)).collect();
        left.sort();
        assert_eq!(
            left,
            [
                "binary.md: skipped: it is binary",
                "latin.md: read as windows-1252, because it is not UTF-8",
                "link.md: skipped: it is a link; copy the file, or move it here",
                "loop.md: skipped: it is a link; copy the file, or move it here",
                "pipe.md: skipped: it is not a regular file",
                "up: skipped: it is a link; copy the file, or move it here",
                "wide.md: read as UTF-16LE, because it is not UTF-8",
            ]
        );
    }
    assert_eq!(base.find("wiese")[0].section, "Grün");
    assert_eq!(base.find("tide").len(), 1);
    assert_eq!(base.find("strange")[0].path.as_os_str().as_bytes(), b"odd-\xff.md");
    assert_eq!(base.find("fine").len(), 1);
}

/// Creates a FIFO with the `mkfifo` program.
fn rustix_free_fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn an_index_of_another_format_or_a_damaged_one_is_made_anew() {
    let mut base = Base::new();
    base.write("a.md", "# A\n\none\n");
    base.sync();
    let path = base.folder.path().join("index");
    // Open connections still cache pages that the file has lost.
    base.index = index(&base.folder.path().join("another"), None);
    let raw = rusqlite_free::open(&path);
    raw(
        "UPDATE files SET hash = x'00'; DROP TABLE chunks; CREATE TABLE chunks (old); PRAGMA user_version = 99;",
    );
    let shelf = crate::base::Folder { root: base.root(), denied: Vec::new() };
    let again = index(&path, None);
    assert_eq!(counts(&sync(&again, &shelf, false, None).unwrap()), (1, 1, 0));
    drop(again);
    for damage in [b"this is no database at all, and never was one".repeat(500), Vec::new()] {
        std::fs::write(&path, damage).unwrap();
        let again = index(&path, None);
        assert_eq!(counts(&sync(&again, &shelf, false, None).unwrap()), (1, 1, 0));
    }
}

#[test]
fn what_is_stopped_keeps_what_is_done() {
    let base = Base::with_model(Some("m"));
    for n in 0..600 {
        base.write(&format!("{n}.md"), "# Boat\n\nsame\n");
    }
    let shelf = crate::base::Folder { root: base.root(), denied: Vec::new() };
    let asked = std::cell::Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) > 300;
    let wanted = knowledge::SyncRequest {
        all: false,
        under: None,
        now_seconds: i64::MAX,
        stop: &stop,
        progress: &|_, _| {},
    };
    assert!(matches!(base.index.sync(&shelf, &wanted), Err(IndexError::Stopped)));
    let rest = base.sync().files_indexed;
    assert!((290..=310).contains(&rest), "{rest}");
    // 600 equal texts share one vector.
    assert_eq!(base.embed().left, 0);
    assert_eq!(base.find("vessel").len(), 10);
}

#[test]
fn a_large_file_goes_in_whole() {
    let base = Base::new();
    let part = |n: usize| format!("## Part {n}\n\n{}\n\n", "some words about this part of it ".repeat(20));
    let text: String = (0..12_000).map(part).collect();
    base.write("large.md", &text);
    drop(text);
    let synced = base.sync();
    assert_eq!((synced.files_indexed, synced.chunks_created), (1, 12_000));
    assert_eq!(base.find("part 11999")[0].section, "Part 11999");
}

/// The index file, opened by another program.
mod rusqlite_free {
    use std::path::Path;
    use std::process::Command;

    pub(super) fn open(path: &Path) -> impl Fn(&str) {
        let path = path.to_owned();
        move |sql| {
            let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.executescript(sys.argv[2])";
            let done = Command::new("python3").args(["-c", script]).arg(&path).arg(sql).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
}
