//! Undo: every change of a call can be undone exactly, and an undo can be undone.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Fixture, program, unread};

/// Returns every path with kind, mode, time and content.
pub(crate) fn tree(fixture: &Fixture) -> BTreeMap<PathBuf, String> {
    fn collect(folder: &Path, all: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let content = if found.is_file() {
                format!("{:?}", fs::read(&path).unwrap())
            } else if found.is_symlink() {
                format!("to {}", fs::read_link(&path).unwrap().display())
            } else {
                String::new()
            };
            let time = (found.mtime(), found.mtime_nsec());
            all.insert(path.clone(), format!("{:o} {time:?} {content}", found.mode()));
            if found.is_dir() {
                collect(&path, all);
            }
        }
    }
    let mut all = BTreeMap::new();
    collect(&fixture.workspace(), &mut all);
    all
}

#[track_caller]
pub(crate) fn checkpoint(result: &Value) -> String {
    assert_eq!(result["ok"], true, "{result:#}");
    let id = result["meta"]["checkpoint"].as_str().unwrap_or_else(|| panic!("no checkpoint: {result:#}"));
    assert_eq!(result["meta"]["call_id"], id);
    id.to_owned()
}

pub(crate) fn execute(fixture: &Fixture, command: &str) -> String {
    checkpoint(&fixture.call("shell_execute", json!({ "command": command })))
}

#[track_caller]
pub(crate) fn undo(fixture: &Fixture, arguments: &[&str]) -> Value {
    let run = fixture.run(&[&["undo", "--json"], arguments].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()
}

fn filled() -> Fixture {
    let fixture = Fixture::with_files(&[("a", "a\n"), ("d/one", "1"), ("d/e/two", "2"), ("gone", "g")]);
    symlink("a", fixture.workspace().join("link")).unwrap();
    fixture
}

#[test]
fn every_tool_that_changes_something_can_be_undone_and_done_again() {
    let fixture = filled();
    for (tool, arguments) in [
        ("file_write", json!({"path": "a", "content": "b\n"})),
        ("file_write", json!({"path": "link", "content": "through the link", "backup": false})),
        ("file_write", json!({"path": "new/deep/f", "content": "f"})),
        ("file_delete", json!({"path": "d", "recursive": true})),
        ("file_delete", json!({"path": "link"})),
        ("file_move", json!({"source": "d", "destination": "moved"})),
        ("file_move", json!({"source": "d", "destination": "new/deep/moved"})),
        ("file_move", json!({"source": "a", "destination": "new/deep/a"})),
        (
            "shell_execute",
            json!({"command": "echo more >>a; rm -r d gone; mkdir n; echo x >n/x; chmod 600 a; ln -sf x link; mkfifo p"}),
        ),
    ] {
        let before = tree(&fixture);
        let id = checkpoint(&fixture.call(tool, arguments.clone()));
        let after = tree(&fixture);
        assert_ne!(after, before, "{tool} {arguments}");
        let undone = undo(&fixture, &[&id]);
        assert_eq!(tree(&fixture), before, "{tool} {arguments}");
        undo(&fixture, &[undone["checkpoint"].as_str().unwrap()]);
        assert_eq!(tree(&fixture), after, "{tool} {arguments}");
        undo(&fixture, &["--since", &id]);
        assert_eq!(tree(&fixture), before, "{tool} {arguments}");
    }
}

#[test]
fn moving_a_folder_saves_nothing_of_what_is_in_it_and_is_undone() {
    let saved = |fixture: &Fixture| -> u64 {
        let blobs = std::fs::read_dir(fixture.state().join("blobs")).into_iter().flatten().flatten();
        let files = blobs.filter_map(|folder| std::fs::read_dir(folder.path()).ok()).flatten().flatten();
        files.map(|file| file.metadata().unwrap().len()).sum()
    };
    let fixture = filled();
    let mut bytes = vec![0_u8; 3_000_000];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    std::fs::write(fixture.workspace().join("d/large"), &bytes).unwrap();
    let before = tree(&fixture);
    let moved = checkpoint(&fixture.call("file_move", json!({"source": "d", "destination": "moved"})));
    assert_eq!(saved(&fixture), 0);
    // A later change in the moved folder is undone with the move, as one undo.
    fixture.data("file_write", json!({"path": "moved/one", "content": "2", "backup": false}));
    let after = tree(&fixture);
    let undone = undo(&fixture, &["--since", &moved]);
    assert_eq!(tree(&fixture), before);
    undo(&fixture, &[undone["checkpoint"].as_str().unwrap()]);
    assert_eq!(tree(&fixture), after);
    // Changes by others in the folder are not lost.
    fixture.write("moved/e/two", "mine");
    let refused = fixture.run(&["undo", &moved]);
    assert!(refused.code != 0 && refused.stderr.contains("moved/e/two"), "{}", refused.stderr);
    assert_eq!(fixture.read("moved/e/two"), "mine");
    // The control: a removed file is saved.
    fixture.data("file_delete", json!({"path": "moved/large"}));
    assert!(saved(&fixture) >= 3_000_000);
}

#[test]
fn a_moved_folder_that_is_forced_back_has_what_a_later_call_changed_in_it_as_it_was() {
    let fixture = filled();
    let before = tree(&fixture);
    let moved = checkpoint(&fixture.call("file_move", json!({"source": "d", "destination": "moved"})));
    fixture.data("file_write", json!({"path": "moved/one", "content": "2", "backup": false}));
    let refused = fixture.run(&["undo", &moved]);
    assert!(refused.code != 0 && refused.stderr.contains("moved/one"), "{}", refused.stderr);
    undo(&fixture, &[&moved, "--force"]);
    assert_eq!(tree(&fixture), before);
}

#[test]
fn a_folder_that_has_another_name_is_told_in_one_line() {
    let fixture = Fixture::new();
    for number in 0..300 {
        fixture.write(&format!("d/sub/{number}"), &format!("{number}\n"));
    }
    fixture.write("d/last", "last\n");
    let diff = |id: &str| fixture.run(&["checkpoints", "diff", id]).stdout;
    let by_tool = checkpoint(&fixture.call("file_move", json!({"source": "d", "destination": "e"})));
    assert_eq!(diff(&by_tool), "renamed from d to e with its contents: 302 unchanged\n");
    let by_command = execute(&fixture, "mkdir n; mv e n/f; echo more >>n/f/last; echo new >n/f/new");
    let told = diff(&by_command);
    assert!(told.starts_with("renamed from e to n/f with its contents: 301 unchanged\n"), "{told}");
    assert!(told.contains("--- a/n/f/last\n+++ b/n/f/last\n@@ -1 +1,2 @@\n last\n+more\n"), "{told}");
    assert!(told.contains("+++ b/n/f/new\n@@ -0,0 +1 @@\n+new\n") && told.lines().count() < 16, "{told}");
    // The difference shows later changes by others in the folder. A renamed folder that no longer
    // exists is listed file by file.
    fixture.write("n/f/sub/7", "seven is another\n");
    let told = diff(&by_command);
    assert!(told.contains("300 unchanged\n") && told.contains("-7\n+seven is another\n"), "{told}");
    assert!(diff(&by_tool).contains("d/sub/299: "), "{}", diff(&by_tool));
    // Dry runs show a rename in the same way.
    let preview = fixture.data("shell_execute", json!({"command": "mv n/f back", "dry_run": true}));
    let told = preview["diff"].as_str().unwrap();
    assert!(told.starts_with("renamed from n/f to back with its contents: 303 unchanged\n"), "{told}");
    assert!(fixture.workspace().join("n/f/last").exists());
}

#[test]
fn everything_of_the_last_hour_is_undone_by_saying_so() {
    let fixture = filled();
    let before = tree(&fixture);
    for content in ["one", "two"] {
        fixture.call("file_write", json!({"path": "new.txt", "content": content}));
    }
    assert_ne!(tree(&fixture), before);
    undo(&fixture, &["--since", "1h"]);
    assert_eq!(tree(&fixture), before);
    assert_eq!(fixture.run(&["undo", "--since", "1q"]).code, 2);
}

#[test]
fn a_call_that_changes_nothing_has_no_checkpoint() {
    let fixture = filled();
    for (tool, arguments) in [
        ("file_read", json!({"path": "a"})),
        ("shell_execute", json!({"command": "cat a; true >/dev/null"})),
        ("file_delete", json!({"path": "nothing"})),
        ("file_write", json!({"path": "d", "content": "a folder is in the way"})),
    ] {
        let result = fixture.call(tool, arguments);
        assert!(result["meta"].get("checkpoint").is_none(), "{result:#}");
    }
    assert_eq!(fixture.run(&["checkpoints", "list", "--json"]).json(), json!([]));
}

#[test]
fn what_was_changed_since_is_shown_and_stays_unless_it_is_forced() {
    let fixture = filled();
    let id = execute(&fixture, "echo two >>a; echo x >x");
    fixture.write("a", "mine\n");
    let now = tree(&fixture);
    let refused = fixture.run(&["undo", &id]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains("changed since, so nothing was undone: a"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("-mine\n+a\n") && refused.stderr.contains("--force"),
        "{}",
        refused.stderr
    );
    assert_eq!(tree(&fixture), now);
    let error = fixture.error("checkpoint_restore", json!({ "id": id }));
    assert_eq!(error["code"], "ECONFLICT");
    // The other file alone has no conflict. With `--force`, the conflicting file is restored.
    undo(&fixture, &[&id, "--path", "x"]);
    assert!(!fixture.workspace().join("x").exists());
    assert_eq!(fixture.read("a"), "mine\n");
    let forced = undo(&fixture, &[&id, "--path", "a", "--force"]);
    assert_eq!(fixture.read("a"), "a\n");
    undo(&fixture, &[forced["checkpoint"].as_str().unwrap()]);
    assert_eq!(fixture.read("a"), "mine\n", "what was forced can be undone, too");
}

#[test]
fn an_agent_lists_compares_and_restores() {
    let fixture = filled();
    let first = execute(&fixture, "echo two >>a");
    let second = checkpoint(&fixture.call("file_delete", json!({"path": "d/one"})));
    let listed = fixture.data("checkpoint_list", json!({}));
    let ids: Vec<&str> =
        listed["checkpoints"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [second.as_str(), &first]);
    assert_eq!(listed["checkpoints"][0]["tool"], "file_delete");
    let diff = fixture.data("checkpoint_diff", json!({"id": first}))["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains("--- a/a\n+++ b/a\n") && diff.contains("\n+two\n"), "{diff}");
    let result = fixture.call("checkpoint_restore", json!({"id": first, "and_later": true}));
    assert_eq!((fixture.read("a"), fixture.read("d/one")), ("a\n".to_owned(), "1".to_owned()), "{result:#}");
    let id = checkpoint(&result);
    let newest = fixture.run(&["checkpoints", "list", "--json"]).json();
    assert_eq!(newest[0]["undoes"], format!("{first}..{second}"));
    let shown = fixture.run(&["checkpoints", "show", &id]);
    assert_eq!(shown.stdout, "changed  a\ncreated  d/one\n");
    assert!(fixture.run(&["checkpoints", "diff", &first]).stdout.contains("a: the same content"));
    let unknown = fixture.error("checkpoint_restore", json!({"id": "nothing"}));
    assert_eq!(unknown["code"], "ENOTFOUND");
    assert_eq!(fixture.run(&["undo", "nothing"]).code, 2);
    assert_eq!(fixture.run(&["undo"]).code, 2);
    let outside = fixture.error("checkpoint_restore", json!({"id": first, "paths": ["../x"]}));
    assert_eq!(outside["code"], "EPERMISSION");
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn what_tools_make_again_is_not_saved_and_the_answer_says_so() {
    let fixture = Fixture::with_files(&[("Cargo.toml", ""), ("target/o", "o"), ("src/s", "s")]);
    let result = fixture.call("shell_execute", json!({"command": "rm -r target src"}));
    let id = checkpoint(&result);
    assert_eq!(result["meta"]["changes"]["unsaved"], json!(["target"]), "{result:#}");
    let undone = undo(&fixture, &[&id]);
    assert!(undone["notes"][0].as_str().unwrap().contains("target"), "{undone:#}");
    assert_eq!(fixture.read("src/s"), "s");
    assert!(!fixture.workspace().join("target").exists());
    fixture.write("target/o", "o");
    let built = fixture.call("shell_execute", json!({"command": "echo p >target/o"}));
    assert!(built["meta"].get("checkpoint").is_none() && built["meta"]["changes"]["paths"] == 1, "{built:#}");
}

#[test]
fn undoing_brings_no_protected_file_back_without_a_human_and_no_denied_one_at_all() {
    let fixture = Fixture::with_files(&[("a", "a")]);
    let planted = execute(&fixture, &unread("mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; echo b >a"));
    let removed = execute(&fixture, "rm -r .git; echo c >a");
    let asks = fixture.run(&[
        "--mode",
        "full_auto",
        "call",
        "checkpoint_restore",
        &json!({ "id": removed }).to_string(),
    ]);
    assert_eq!(asks.json()["error"]["code"], "EAPPROVAL", "{}", asks.stdout);
    assert_eq!((fixture.read("a"), fixture.workspace().join(".git").exists()), ("c\n".to_owned(), false));
    // The user's own undo needs no further approval.
    undo(&fixture, &[&removed]);
    assert_eq!(fixture.read(".git/hooks/pre-commit"), "x\n");
    undo(&fixture, &[&planted]);
    assert_eq!(fixture.read("a"), "a");

    let id = execute(&fixture, "echo secret >notes.lock; echo d >a");
    fs::create_dir_all(fixture.home().join(".config/handfast")).unwrap();
    let rules = "sandbox_config:\n  normal:\n    mode: full_auto\n    deny_write_paths: [\"*.lock\"]\n    \
                 deny_read_paths: [\"*.lock\"]\n";
    fs::write(fixture.home().join(".config/handfast/config.yaml"), rules).unwrap();
    let denied = fixture.run(&["undo", &id]);
    assert!(denied.code == 1 && denied.stderr.contains("denied"), "{}", denied.stderr);
    assert_eq!(fixture.read("a"), "d\n");
    let diff = fixture.run(&["checkpoints", "diff", &id]).stdout;
    assert!(diff.contains("not shown, denied by") && !diff.contains("secret"), "{diff}");
}

#[test]
fn a_workspace_cannot_undo_what_was_done_in_another() {
    let fixture = filled();
    let id = execute(&fixture, "echo two >>a");
    let other = fixture.outside().join("other");
    fs::create_dir(&other).unwrap();
    let run = std::process::Command::new(program())
        .args(["--workspace", other.to_str().unwrap(), "--state", fixture.state().to_str().unwrap()])
        .args(["--no-input", "undo", &id])
        .env("HOME", fixture.home())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && told.contains("belongs to the workspace"), "{told}");
    assert_eq!(fixture.read("a"), "a\ntwo\n");
}

#[test]
fn what_can_be_undone_passes_without_a_question_and_nothing_else_does() {
    let fixture = filled();
    let ask = |tool: &str, arguments: Value| fixture.run(&["call", tool, &arguments.to_string()]).json();
    for (tool, arguments) in [
        ("shell_execute", json!({"command": "echo two >>a; rm gone"})),
        ("shell_execute", json!({"command": unread("echo three >>a")})),
        ("file_write", json!({"path": "a", "content": "b"})),
        ("file_delete", json!({"path": "d", "recursive": true})),
    ] {
        let result = ask(tool, arguments);
        checkpoint(&result);
        assert!(result["meta"]["rule"].as_str().unwrap().starts_with("undoable: pass"), "{result:#}");
    }
    let id = ask("checkpoint_list", json!({}))["data"]["checkpoints"][0]["id"].as_str().unwrap().to_owned();
    checkpoint(&ask("checkpoint_restore", json!({ "id": id })));
    let checked = fixture.run(&["check", "shell_execute", r#"{"command": "touch x"}"#]).json();
    assert_eq!((&checked["decision"], &checked["line"]), (&json!("pass"), &json!(8)));

    let before = tree(&fixture);
    for (tool, arguments) in [
        ("file_write", json!({"path": ".envrc", "content": "x"})),
        ("file_write", json!({"path": "/srv/outside", "content": "x"})),
        ("file_move", json!({"source": "a", "destination": ".git/hooks/pre-commit"})),
        ("shell_execute", json!({"command": "echo x >.envrc; rm a"})),
        ("shell_execute", json!({"command": "cat /srv/outside; rm a"})),
    ] {
        let result = ask(tool, arguments.clone());
        assert_eq!(result["error"]["code"], "EAPPROVAL", "{tool} {arguments}: {result:#}");
        assert_eq!(tree(&fixture), before, "{tool} {arguments}");
    }
    let background = json!({"command": "rm a", "background": true}).to_string();
    assert_eq!(fixture.run(&["check", "shell_execute", &background]).json()["decision"], "check");
    // A user who wants to be asked is asked, and nothing changes.
    let fixture = fixture.asking();
    for (tool, arguments) in [
        ("shell_execute", json!({"command": "echo two >>a"})),
        ("file_write", json!({"path": "a", "content": "c"})),
        ("file_delete", json!({"path": "a"})),
        ("checkpoint_restore", json!({ "id": id })),
    ] {
        let result = fixture.run(&["call", tool, &arguments.to_string()]).json();
        assert_eq!(result["error"]["code"], "EAPPROVAL", "{tool}: {result:#}");
        assert_eq!(tree(&fixture), before, "{tool}");
    }
}

#[test]
fn a_command_that_turns_out_not_to_be_undoable_is_asked_about_before_it_runs() {
    let fixture = filled();
    fs::create_dir(fixture.workspace().join("mounted")).unwrap();
    let call = |more: &[&str], command: &str| -> Value {
        // A command writes directly to a mount in the workspace. Only this program sees the mount.
        let script = "mount -t tmpfs none mounted && exec \"$@\"";
        let output = std::process::Command::new("unshare")
            .args(["-m", "sh", "-euc", script, "sh"])
            .arg(program())
            .args(["--workspace", fixture.workspace().to_str().unwrap()])
            .args(["--state", fixture.state().to_str().unwrap(), "--no-input", "call"])
            .args(more)
            .args(["shell_execute", &json!({ "command": command }).to_string()])
            .env("HOME", fixture.home())
            .current_dir(fixture.workspace())
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    };
    if !is_root() {
        return;
    }
    let before = tree(&fixture);
    let result = call(&[], "echo two >>a; echo x >mounted/x");
    assert_eq!(result["error"]["code"], "EAPPROVAL", "{result:#}");
    assert_eq!(tree(&fixture), before);
    // The control: an approved command runs.
    let result = call(&["--yes"], "echo two >>a; echo x >mounted/x; cat mounted/x");
    assert_eq!(result["data"]["stdout"], "x\n", "{result:#}");
    assert_eq!(fixture.read("a"), "a\ntwo\n");
}

/// Returns true if the test runs as root. Mounting for one program alone needs root.
fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_dry_run_shows_the_difference_and_exactly_that_can_be_applied() {
    let fixture = filled();
    let run = |arguments: Value| fixture.run(&["call", "shell_execute", &arguments.to_string()]).json();
    let before = tree(&fixture);
    let command = "echo two >>a; mkdir n; echo x >n/x; rm gone; ln -sf d link; cat n/x; exit 3";
    let dry = run(json!({"command": command, "dry_run": true}));
    assert_eq!((&dry["data"]["exit_code"], &dry["data"]["stdout"]), (&json!(3), &json!("x\n")), "{dry:#}");
    let diff = dry["data"]["diff"].as_str().unwrap();
    for part in ["+++ b/a\n@@ -1 +1,2 @@\n a\n+two\n", "--- /dev/null\n+++ b/n/x\n", "+++ /dev/null\n", "-g"]
    {
        assert!(diff.contains(part), "{part}: {diff}");
    }
    assert!(diff.contains("link: a symbolic link -> a link to d"), "{diff}");
    assert_eq!(tree(&fixture), before);
    assert!(dry["meta"].get("checkpoint").is_none() && dry["meta"]["changes"]["state"] == "kept", "{dry:#}");
    let id = dry["meta"]["changes"]["id"].as_str().unwrap();
    let applied = run(json!({"command": "", "apply": id}));
    let checkpoint = checkpoint(&applied);
    assert_eq!((fixture.read("a"), fixture.read("n/x")), ("a\ntwo\n".to_owned(), "x\n".to_owned()));
    assert!(!fixture.workspace().join("gone").exists());
    assert_eq!(run(json!({"command": "", "apply": id}))["error"]["code"], "ENOTFOUND");
    undo(&fixture, &[&checkpoint]);
    assert_eq!(tree(&fixture), before);
    let nothing = run(json!({"command": "cat a", "dry_run": true}));
    assert!(nothing["data"]["diff"] == "" && nothing["meta"].get("changes").is_none(), "{nothing:#}");
}

#[test]
fn applying_a_dry_run_is_decided_on_as_what_it_changes() {
    let fixture = filled();
    let run = |arguments: Value| fixture.run(&["call", "shell_execute", &arguments.to_string()]).json();
    let dry = |command: &str| -> String {
        let result = run(json!({"command": command, "dry_run": true}));
        result["meta"]["changes"]["id"].as_str().unwrap_or_else(|| panic!("{result:#}")).to_owned()
    };
    let (late, planted) = (dry("echo two >>a"), dry(&unread("echo x >.envrc")));
    fixture.write("a", "mine\n");
    let before = tree(&fixture);
    let conflict = run(json!({"command": "", "apply": late}));
    assert_eq!(conflict["error"]["code"], "ECONFLICT", "{conflict:#}");
    let held = run(json!({"command": "ls", "apply": planted}));
    assert_eq!(held["error"]["code"], "EAPPROVAL", "{held:#}");
    assert_eq!(tree(&fixture), before);
    // An allowed command does not make the applied changes allowed.
    let plain = dry("echo x >x");
    let fixture = fixture.asking();
    let asked =
        fixture.run(&["call", "shell_execute", &json!({"command": "ls", "apply": plain}).to_string()]);
    assert_eq!(asked.json()["error"]["code"], "EAPPROVAL", "{}", asked.stdout);
    assert_eq!(tree(&fixture), before);
    for wrong in [
        json!({"command": "ls", "dry_run": true, "background": true}),
        json!({"command": "ls", "dry_run": true, "apply": plain}),
    ] {
        let run = fixture.run(&["call", "--yes", "shell_execute", &wrong.to_string()]);
        assert_eq!(run.json()["error"]["code"], "EVALIDATION");
    }
}
