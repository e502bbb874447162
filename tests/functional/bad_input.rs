//! Wrong and hostile input through the command line: the right code, a message that names the
//! fault, and no effect.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::Fixture;

/// Makes a call that must fail without effect, and returns its error code and message.
#[track_caller]
fn refused(fixture: &Fixture, tool: &str, arguments: Value) -> (String, String) {
    let error = fixture.error(tool, arguments);
    assert_eq!(error["effect"], "none", "{error:#}");
    (error["code"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
}

#[track_caller]
fn assert_refused(fixture: &Fixture, tool: &str, arguments: Value, code: &str, named: &str) {
    let (got, message) = refused(fixture, tool, arguments);
    assert_eq!(got, code, "{message}");
    assert!(message.contains(named), "{message:?} does not name {named:?}");
}

#[test]
fn wrong_arguments_name_the_field() {
    let fixture = Fixture::new();
    assert_refused(&fixture, "file_reed", json!({}), "ENOTFOUND", "file_reed");
    assert_refused(&fixture, "file_read", json!({"path": "a", "colour": 1}), "EVALIDATION", "colour");
    assert_refused(&fixture, "file_read", json!({"path": 7}), "EVALIDATION", "path");
    assert_refused(&fixture, "file_read", json!({}), "EVALIDATION", "path");
    assert_refused(
        &fixture,
        "file_read",
        json!({"path": "a", "lines": {"start": "x"}}),
        "EVALIDATION",
        "lines",
    );
    assert_refused(&fixture, "file_read", json!(["a"]), "EVALIDATION", "object");
    assert_refused(
        &fixture,
        "shell_execute",
        json!({"command": "ls", "timeout": 4000}),
        "EVALIDATION",
        "timeout",
    );
    assert_refused(&fixture, "shell_execute", json!({"command": "ls\u{0}"}), "EVALIDATION", "command");
    assert_refused(&fixture, "shell_execute", json!({"command": " "}), "EVALIDATION", "command");
    assert_refused(&fixture, "file_read", json!({"path": "a\u{0}b"}), "EVALIDATION", "path");
    assert_refused(&fixture, "file_read", json!({"path": ""}), "EVALIDATION", "path");
}

#[test]
fn malformed_messages_are_refused_whole() {
    let fixture = Fixture::new();
    for input in [&b"{\"path\": \"a\""[..], b"\xff\xfe{}", b"nonsense", b"{\"path\": \"\x01\"}"] {
        let run = fixture.run_with_input(&["call", "file_read", "-"], input);
        assert_eq!(run.code, 2, "{}", run.stdout);
        assert_eq!(run.json()["error"]["code"], "EVALIDATION");
    }
    // The audit contains refused calls like all others.
    let listed = fixture.run(&["audit", "list", "--json"]).stdout;
    assert_eq!(listed.lines().count(), 4, "{listed}");
}

#[test]
fn an_argument_of_5_mb_works_and_one_of_50_mb_is_refused() {
    let fixture = Fixture::new();
    let call = |megabytes: usize| {
        let content = "x".repeat(megabytes * 1_000_000);
        let arguments = json!({"path": "big.txt", "content": content}).to_string();
        fixture.run_with_input(&["call", "--yes", "file_write", "-"], arguments.as_bytes())
    };
    let run = call(5);
    assert_eq!(run.code, 0, "{:.300}", run.stdout);
    assert_eq!(std::fs::metadata(fixture.workspace().join("big.txt")).unwrap().len(), 5_000_000);
    let run = call(50);
    assert_eq!(run.code, 2);
    let error = &run.json()["error"];
    assert_eq!(error["code"], "EVALIDATION");
    assert!(error["message"].as_str().unwrap().contains("32 MiB"), "{error:#}");
    assert_eq!(std::fs::metadata(fixture.workspace().join("big.txt")).unwrap().len(), 5_000_000);
}

#[test]
fn paths_out_of_the_workspace_are_never_reached_without_an_approval() {
    let fixture = Fixture::new();
    std::fs::write(fixture.outside().join("secret.txt"), "outside").unwrap();
    let absolute = fixture.outside().join("secret.txt");
    for path in ["../secret.txt", "a/../../secret.txt", absolute.to_str().unwrap()] {
        let arguments = json!({ "path": path }).to_string();
        let run = fixture.run(&["call", "file_read", &arguments]);
        assert_eq!(run.code, 4, "{path}: {}", run.stdout);
        assert!(!run.stdout.contains("outside\""), "{}", run.stdout);
    }
    // An approval opens that one path for that one call.
    assert_eq!(fixture.data("file_read", json!({"path": "../secret.txt"}))["content"], "outside");
}

#[test]
fn links_out_of_the_workspace_are_judged_by_where_they_lead() {
    let fixture = Fixture::with_files(&[("inside/real.txt", "real"), (".env", "KEY=1")]);
    let workspace = fixture.workspace();
    std::fs::create_dir(fixture.outside().join("other")).unwrap();
    std::fs::write(fixture.outside().join("other/secret.txt"), "outside").unwrap();
    symlink(fixture.outside().join("other/secret.txt"), workspace.join("file-link")).unwrap();
    symlink(fixture.outside().join("other"), workspace.join("inside/folder-link")).unwrap();
    symlink("../..", workspace.join("inside/up")).unwrap();
    symlink(".env", workspace.join("harmless.txt")).unwrap();
    symlink("inside/real.txt", workspace.join("good-link")).unwrap();
    symlink("loop", workspace.join("loop")).unwrap();
    for path in ["file-link", "inside/folder-link/secret.txt", "inside/up/other/secret.txt"] {
        let read = fixture.run(&["call", "file_read", &json!({ "path": path }).to_string()]);
        assert_eq!(read.code, 4, "{path}: {}", read.stdout);
        let write =
            fixture.run(&["call", "file_write", &json!({ "path": path, "content": "x" }).to_string()]);
        assert_eq!(write.code, 4, "{path}: {}", write.stdout);
    }
    assert_eq!(std::fs::read_to_string(fixture.outside().join("other/secret.txt")).unwrap(), "outside");
    // A link to a denied file is denied. A link within the workspace works.
    assert_refused(&fixture, "file_read", json!({"path": "harmless.txt"}), "EPERMISSION", "denied");
    assert_eq!(fixture.data("file_read", json!({"path": "good-link"}))["content"], "real");
    let (code, _) = refused(&fixture, "file_read", json!({"path": "loop"}));
    assert!(["EVALIDATION", "ERUNTIME", "EPERMISSION"].contains(&code.as_str()), "{code}");
}

#[test]
fn what_is_no_regular_file_is_named_and_never_waited_for() {
    let fixture = Fixture::with_files(&[("folder/a.txt", "a"), ("file.txt", "f")]);
    let workspace = fixture.workspace();
    assert!(Command::new("mkfifo").arg(workspace.join("fifo")).status().unwrap().success());
    let _socket = UnixListener::bind(workspace.join("socket")).unwrap();
    for (path, named) in [("fifo", "FIFO"), ("socket", "socket"), ("folder", "folder")] {
        assert_refused(&fixture, "file_read", json!({ "path": path }), "EVALIDATION", named);
        assert_refused(&fixture, "file_write", json!({ "path": path, "content": "" }), "EVALIDATION", named);
    }
    assert_refused(&fixture, "file_list", json!({"path": "file.txt"}), "EVALIDATION", "file.txt");
    assert_refused(&fixture, "file_read", json!({"path": "file.txt/below"}), "EVALIDATION", "file.txt");
    // A device, through an approved path outside the workspace.
    assert_refused(&fixture, "file_read", json!({"path": "/dev/zero"}), "EVALIDATION", "device");
}

#[test]
fn enormous_files_cost_bounded_memory_and_time() {
    let fixture = Fixture::new();
    let sparse = std::fs::File::create(fixture.workspace().join("sparse")).unwrap();
    sparse.set_len(10_000_000_000).unwrap();
    let data = fixture.data("file_read", json!({"path": "sparse"}));
    assert_eq!(data["size_bytes"], 10_000_000_000_u64);
    let line = vec![b'x'; 64 * 1024 * 1024];
    std::fs::write(fixture.workspace().join("line"), line).unwrap();
    let read = "ulimit -v 400000; exec \"$0\" \"$@\"";
    for (tool, arguments) in [
        ("file_read", json!({"path": "line"})),
        ("file_read", json!({"path": "line", "lines": {"start": 1, "end": 1}})),
        ("file_search", json!({"pattern": "xx$", "path": "."})),
    ] {
        // An address space of 400 MB is no ambitious limit, but a program that reads 10 GB into
        // memory exceeds it.
        let command = fixture.command();
        let output = Command::new("sh")
            .args(["-c", read])
            .arg(command.get_program())
            .args(command.get_args())
            .args(["call", tool, &arguments.to_string()])
            .env("HOME", fixture.home())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{tool} {arguments}: {text} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(text.len() < 1_000_000, "{}", text.len());
    }
}

#[test]
fn a_move_or_a_write_never_destroys_what_it_was_not_asked_to() {
    let fixture = Fixture::with_files(&[("a.txt", "a"), ("b.txt", "b"), ("full/x", "x")]);
    assert_refused(
        &fixture,
        "file_move",
        json!({"source": "a.txt", "destination": "b.txt"}),
        "ECONFLICT",
        "b.txt",
    );
    let (code, _) = refused(&fixture, "file_delete", json!({"path": "full"}));
    assert!(["ECONFLICT", "EVALIDATION"].contains(&code.as_str()), "{code}");
    let (_, message) = refused(&fixture, "file_delete", json!({"path": ".", "recursive": true}));
    assert!(!message.is_empty());
    assert_eq!(
        (fixture.read("a.txt"), fixture.read("b.txt"), fixture.read("full/x")),
        ("a".into(), "b".into(), "x".into())
    );
}

#[test]
fn a_full_disk_is_said_and_the_old_file_stays_whole() {
    // Mounting a small file system needs root, or a user namespace around the test.
    let fixture = Fixture::new();
    let script = r#"
        set -e
        mount -t tmpfs -o size=64k none "$1/workspace"
        printf old > "$1/workspace/a.txt"
        shift
        exec "$@"
    "#;
    let arguments = fixture.outside().join("arguments.json");
    std::fs::write(&arguments, json!({"path": "a.txt", "content": "x".repeat(200_000)}).to_string()).unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(fixture.outside())
        .args(["sh", "-c", r#""$0" "$@"; echo; cat "$2/a.txt""#])
        .arg(crate::harness::program())
        .arg("--workspace")
        .arg(fixture.workspace())
        .arg("--state")
        .arg(fixture.state())
        .args(["call", "--yes", "file_write", "-"])
        .stdin(std::fs::File::open(arguments).unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("ERUNTIME") && text.contains("no space left"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("\"effect\":\"none\""), "{text}");
    assert!(text.ends_with("old"), "{text}");
}

#[test]
fn a_link_to_a_path_that_is_no_text_is_followed_and_recorded() {
    use std::os::unix::ffi::OsStrExt;
    let fixture = Fixture::new();
    let folder = fixture.workspace().join(std::ffi::OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "a").unwrap();
    symlink(&folder, fixture.workspace().join("link")).unwrap();
    assert_eq!(fixture.data("file_read", json!({"path": "link/a.txt"}))["content"], "a");
    fixture.data("file_write", json!({"path": "link/b.txt", "content": "b"}));
    assert_eq!(std::fs::read(folder.join("b.txt")).unwrap(), b"b");
    let rows = fixture.run(&["audit", "export"]).stdout;
    let recorded = |row: &str| {
        let row: Value = serde_json::from_str(row).unwrap();
        row["plan"]["effects"].as_array().unwrap().iter().any(|effect| {
            effect["leads_to"].as_str().is_some_and(|path| path.ends_with(r"/workspace/\xff/b.txt"))
        })
    };
    assert_eq!(rows.lines().filter(|row| recorded(row)).count(), 2, "the intent and the outcome: {rows}");
}

#[test]
fn a_tree_deeper_than_any_stack_is_an_error_of_the_call_that_meets_it() {
    let fixture = Fixture::with_files(&[("a", "a")]);
    let mut folder = fs::File::open(fixture.workspace()).unwrap();
    for number in 0..6_000 {
        let name = if number == 0 { "top" } else { "d" };
        rustix::fs::mkdirat(&folder, name, rustix::fs::Mode::RWXU).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        folder = fs::File::from(rustix::fs::openat(&folder, name, flags, rustix::fs::Mode::empty()).unwrap());
    }
    for (tool, arguments) in [
        ("file_delete", json!({"path": "top", "recursive": true})),
        ("file_delete", json!({"path": "top/d", "recursive": true, "dry_run": true})),
        ("file_move", json!({"source": "top", "destination": "moved"})),
    ] {
        let (code, message) = refused(&fixture, tool, arguments);
        assert!(["ERUNTIME", "EQUOTA"].contains(&code.as_str()), "{code}: {message}");
        assert!(message.contains("folders deep"), "{message}");
    }
    for (tool, arguments) in [
        ("file_list", json!({"path": ".", "recursive": true})),
        ("file_search", json!({"pattern": "a"})),
        ("shell_execute", json!({"command": "chmod 700 top; true"})),
    ] {
        // The result may be a success or an error: the program must answer.
        let result = fixture.call(tool, arguments);
        assert!(result["ok"].is_boolean(), "{result:#}");
    }
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
    let path = fixture.workspace().join("top");
    assert!(Command::new("rm").arg("-rf").arg(path).status().unwrap().success());
}
