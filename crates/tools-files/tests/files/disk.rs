//! A full disk, a read-only disk, two disks, and files of other owners.
//!
//! The disks are small and mounted in a user namespace, which the sandbox needs too.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Workspace, run_tool};
use tool::Code;

/// Runs a script with a disk of one megabyte mounted at `$disk`, and `write PATH` that writes
/// 100,000 bytes there.
///
/// Returns the script's output: JSON values and lines of text.
fn on_a_small_disk(script: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let start = r#"
        mount -t tmpfs -o size=1m handfast "$disk" || exit 99
        write() { "$call" call "$disk" file_write "{\"path\": \"$1\", \"content\": \"$content\", \"backup\": true}"; }
    "#;
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg(format!("{start}{script}"))
        .env("disk", folder.path())
        .env("call", env!("CARGO_BIN_EXE_tools-files-call"))
        .env("content", "x".repeat(100_000))
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(99), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line))).collect()
}

#[test]
fn a_full_disk_leaves_the_old_content_and_nothing_else() {
    let answers = on_a_small_disk(
        r#"
        printf old > "$disk/file"
        printf older > "$disk/file.bak"
        head -c 950000 /dev/zero > "$disk/filler"
        write file
        write new/folder/file
        cat "$disk/file" "$disk/file.bak"; echo
        ls -A "$disk" | tr '\n' ' '; echo
        rm "$disk/filler"
        write file
        "#,
    );
    for (answer, path) in answers[..2].iter().zip(["file", "new/folder/file"]) {
        assert_eq!((&answer["code"], &answer["effect"]), (&json!("ERUNTIME"), &json!("none")));
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(path) && message.contains("no space left"), "{message}");
    }
    assert_eq!(answers[2], "oldolder");
    assert_eq!(answers[3], "file file.bak filler ");
    // Control: with free space the write succeeds.
    assert_eq!(
        answers[4],
        json!({"path": "file", "size_bytes": 100_000, "backed_up": true, "created": false})
    );
}

#[test]
fn no_space_for_the_backup_means_no_write() {
    let answers = on_a_small_disk(
        r#"
        head -c 700000 /dev/zero > "$disk/file"
        write file
        wc -c < "$disk/file"
        ls -A "$disk" | tr '\n' ' '; echo
        "#,
    );
    assert_eq!((&answers[0]["code"], &answers[0]["effect"]), (&json!("ERUNTIME"), &json!("none")));
    let message = answers[0]["message"].as_str().unwrap();
    assert!(message.contains("the backup failed") && message.contains("no space left"), "{message}");
    assert_eq!((&answers[1], &answers[2]), (&json!(700_000), &json!("file ")));
}

#[test]
fn a_move_to_another_disk_is_refused_and_nothing_is_lost() {
    let answers = on_a_small_disk(
        r#"
        mkdir -p "$disk/d/mounted" && mount -t tmpfs handfast "$disk/d/mounted" || exit 99
        echo kept > "$disk/d/mounted/file"
        echo kept > "$disk/file"
        "$call" call "$disk" file_move '{"source": "file", "destination": "d/mounted/moved"}'
        "$call" call "$disk" file_delete '{"path": "d", "recursive": true}'
        cat "$disk/file" "$disk/d/mounted/file"
        "#,
    );
    for answer in &answers[..2] {
        assert_eq!((&answer["code"], &answer["effect"]), (&json!("ERUNTIME"), &json!("none")));
        assert!(answer["message"].as_str().unwrap().contains("another file system"), "{answer}");
    }
    assert_eq!(answers[2..], ["kept", "kept"]);
}

#[test]
fn a_read_only_disk_is_named_and_can_be_read() {
    let answers = on_a_small_disk(
        r#"
        echo text > "$disk/file"
        mount -o remount,ro "$disk" || exit 99
        "$call" call "$disk" file_read '{"path": "file"}'
        write file
        "$call" call "$disk" file_delete '{"path": "file"}'
        "$call" call "$disk" file_move '{"source": "file", "destination": "moved"}'
        "#,
    );
    assert_eq!(answers[0]["content"], "text\n");
    for answer in &answers[1..] {
        assert_eq!(answer["code"], "ERUNTIME");
        assert!(answer["message"].as_str().unwrap().contains("read-only"), "{answer}");
    }
}

/// Runs `work` on a thread that drops root if this process has it: users and groups are per thread.
fn as_an_ordinary_user(work: impl FnOnce() + Send) {
    use rustix::process::{Gid, Uid};
    let result = std::thread::scope(|scope| {
        let unprivileged = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
                rustix::thread::set_thread_groups(&[]).unwrap();
                rustix::thread::set_thread_res_gid(group, group, group).unwrap();
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            work();
        });
        unprivileged.join()
    });
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn what_the_system_does_not_permit_is_refused_and_skipped_in_lists() {
    let workspace = Workspace::new().with_files(&[("open/f", "X"), ("closed/f", "X"), ("secret", "X")]);
    let mode = |path: &str, mode| {
        std::fs::set_permissions(workspace.at(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for folder in ["..", "", "open"] {
        mode(folder, 0o755);
    }
    mode("closed", 0o000);
    mode("secret", 0o000);
    as_an_ordinary_user(|| {
        let tools = tools_files::tools();
        let call = |name: &str, arguments: Value| {
            let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
            run_tool(tool.as_ref(), &workspace, arguments)
        };
        for (tool, arguments) in [
            ("file_read", json!({"path": "secret"})),
            ("file_read", json!({"path": "closed/f"})),
            ("file_list", json!({"path": "closed"})),
        ] {
            let error = call(tool, arguments).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{tool}: {error}");
            assert!(error.message.contains("denies"), "{}", error.message);
        }
        let found = call("file_search", json!({"pattern": "X"})).unwrap();
        assert_eq!(found["matches"].as_array().unwrap().len(), 1, "the control: what is open is found");
        assert_eq!(found["note"], "2 files or folders cannot be read");
        let listed = call("file_list", json!({"path": ".", "recursive": true})).unwrap();
        assert_eq!(listed["note"], "1 folders cannot be read");
    });
    mode("closed", 0o755);
}

#[test]
fn a_file_of_another_owner_is_refused_rather_than_taken_over() {
    if !rustix::process::geteuid().is_root() {
        println!("not checked: only root can make a file of another user");
        return;
    }
    let workspace = Workspace::new().with_files(&[("shared/theirs", "old"), ("shared/mine", "old")]);
    std::fs::set_permissions(workspace.at(".."), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(workspace.at("shared"), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(workspace.at("shared/theirs"), Some(4321), Some(65_534)).unwrap();
    std::os::unix::fs::chown(workspace.at("shared/mine"), Some(65_534), Some(65_534)).unwrap();
    as_an_ordinary_user(|| {
        let tools = tools_files::tools();
        let write = |path: &str| {
            let arguments = json!({"path": path, "content": "new", "backup": false});
            run_tool(tools[1].as_ref(), &workspace, arguments)
        };
        let error = write("shared/theirs").unwrap_err();
        assert_eq!(error.code, Code::Permission);
        assert!(error.message.contains("belongs to another user"), "{}", error.message);
        write("shared/mine").unwrap();
    });
    assert_eq!(
        (workspace.read("shared/theirs"), workspace.read("shared/mine")),
        ("old".into(), "new".into())
    );
    assert_eq!(workspace.names("shared"), ["mine", "theirs"]);
}
