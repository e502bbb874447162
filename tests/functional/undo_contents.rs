//! Undo of contents: every change of a file can be undone, regardless of the content and of readers
//! since.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use serde_json::json;

use crate::functional::undo::{checkpoint, execute, tree, undo};
use crate::harness::Fixture;

#[test]
fn the_users_git_status_makes_no_checkpoint_and_stands_against_no_undoing() {
    let fixture = Fixture::with_files(&[("a", "a"), ("k", "k")]);
    let user = |script: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script]).current_dir(fixture.workspace()).output().unwrap()
    };
    user("git init -q && git add . && git -c user.name=n -c user.email=e@e commit -qm m");
    let looked = fixture.call(
        "shell_execute",
        json!({"command": "touch a; git status; git update-index --force-write-index"}),
    );
    assert_eq!(looked["ok"], true, "{looked:#}");
    let id = execute(&fixture, "echo b >a; git -c user.name=n -c user.email=e@e commit -qam agent");
    let log = user("touch -d 2021-01-01 k; git update-index --refresh; git status; git log --oneline");
    assert!(String::from_utf8_lossy(&log.stdout).contains("agent"), "{log:?}");
    let only_looks =
        fixture.call("shell_execute", json!({"command": "git update-index --force-write-index; git status"}));
    assert!(only_looks["meta"].get("checkpoint").is_none(), "{only_looks:#}");
    undo(&fixture, &[&id]);
    assert_eq!(fixture.read("a"), "a");
    let log = user("git log --oneline; git status --porcelain");
    assert!(!String::from_utf8_lossy(&log.stdout).contains("agent"), "{log:?}");
}

#[test]
fn a_file_of_holes_takes_no_time_to_save_and_comes_back_with_its_holes() {
    let fixture = Fixture::new();
    let path = fixture.workspace().join("disk.img");
    let file = fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(b"boot", 3 << 30).unwrap();
    drop(file);
    let id = checkpoint(&fixture.call("shell_execute", json!({"command": "rm disk.img", "timeout": 2})));
    assert!(!path.exists());
    undo(&fixture, &[&id]);
    let found = fs::metadata(&path).unwrap();
    assert_eq!(found.len(), 1 << 40);
    assert!(found.blocks() < 1024, "{} blocks", found.blocks());
    let mut bytes = [0; 6];
    fs::File::open(&path).unwrap().read_exact_at(&mut bytes, (3 << 30) - 1).unwrap();
    assert_eq!(&bytes, b"\0boot\0");
    let deleted = checkpoint(&fixture.call("file_delete", json!({"path": "disk.img"})));
    undo(&fixture, &[&deleted]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 40);
}

#[test]
fn files_of_any_content_come_back_together() {
    for content in ["", "a", "b", "c", "d", "e", "f", "some words\n"] {
        let fixture = Fixture::with_files(&[("a.txt", ""), ("b.txt", content), ("c.txt", content)]);
        let before = tree(&fixture);
        for command in ["rm a.txt b.txt", "echo changed | tee a.txt b.txt c.txt"] {
            let id = execute(&fixture, command);
            assert_ne!(tree(&fixture), before, "{command}");
            undo(&fixture, &[&id]);
            assert_eq!(tree(&fixture), before, "{command}");
        }
    }
}

#[test]
fn tracked_work_in_a_folder_of_a_tools_name_comes_back() {
    let fixture = Fixture::with_files(&[
        ("dist/index.js", "1"),
        ("src/target/lib.rs", "fn a() {}"),
        ("Cargo.toml", ""),
    ]);
    let init = "git init -q && git add . && git -c user.name=n -c user.email=e@e commit -qm m";
    assert!(
        std::process::Command::new("sh")
            .args(["-c", init])
            .current_dir(fixture.workspace())
            .status()
            .unwrap()
            .success()
    );
    fixture.write("dist/index.js", "edited");
    let before = tree(&fixture);
    let shell = execute(&fixture, "rm -rf dist src");
    undo(&fixture, &[&shell]);
    assert_eq!(tree(&fixture), before);
    let tool = checkpoint(&fixture.call("file_delete", json!({"path": "dist", "recursive": true})));
    undo(&fixture, &[&tool]);
    assert_eq!(tree(&fixture), before);
}

#[test]
fn the_time_of_a_folder_alone_is_undone() {
    let fixture = Fixture::with_files(&[("d/one", "1")]);
    let before = tree(&fixture);
    let id = execute(&fixture, "touch -d 2020-01-01 d");
    assert_ne!(tree(&fixture), before);
    undo(&fixture, &[&id]);
    assert_eq!(tree(&fixture), before);
}
