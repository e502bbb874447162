//! A cell: a command sees its workspace and the system, and nothing else of the machine.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};

use crate::harness::{Fixture, unread};

/// Runs a command with every question answered yes, and returns its data.
#[track_caller]
fn run(fixture: &Fixture, command: &str) -> Value {
    fixture.data("shell_execute", json!({ "command": command }))
}

#[track_caller]
fn stdout(fixture: &Fixture, command: &str) -> String {
    run(fixture, command)["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn the_home_and_everything_beside_the_workspace_are_absent() {
    let fixture = Fixture::with_files(&[("control.txt", "control")]);
    std::fs::write(fixture.home().join("id_rsa"), "private").unwrap();
    std::fs::write(fixture.outside().join("beside.txt"), "beside").unwrap();
    let tried = format!(
        "cat control.txt; cat {}/id_rsa {}/beside.txt ../beside.txt /etc/shadow; ls -A {}",
        fixture.home().display(),
        fixture.outside().display(),
        fixture.outside().display(),
    );
    let seen = run(&fixture, &tried);
    assert_eq!(seen["stdout"], "controlworkspace\n", "{seen:#}");
}

#[test]
fn the_host_cannot_be_reached_over_the_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let fixture = Fixture::new();
    let connect = |port: u16| {
        format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo refused")
    };
    // The control: the same attempt outside a cell.
    let outside = std::process::Command::new("bash").args(["-c", &connect(port)]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&outside.stdout), "reached\n");
    assert_eq!(stdout(&fixture, &connect(port)), "refused\n");
}

#[test]
fn denied_files_are_absent_in_the_cell_at_any_depth() {
    let fixture = Fixture::with_files(&[
        (".env", "KEY=secret"),
        ("deep/er/server.key", "secret"),
        ("deep/er/plain.txt", "plain"),
        (".env.example", "KEY="),
    ]);
    let seen = stdout(
        &fixture,
        &unread(
            "cat .env deep/er/server.key deep/er/plain.txt .env.example 2>/dev/null; grep -r secret . 2>/dev/null; true",
        ),
    );
    assert_eq!(seen, "plainKEY=");
}

#[test]
fn the_environment_of_the_caller_does_not_reach_the_command() {
    let fixture = Fixture::new();
    let output = fixture
        .command()
        .env("MY_SETTING", "visible?")
        .env("LD_PRELOAD", "")
        .env("LANG", "C.UTF-8")
        .args(["call", "--yes", "shell_execute", r#"{"command": "env"}"#])
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let environment = result["data"]["stdout"].as_str().unwrap();
    assert!(environment.contains("LANG=C.UTF-8"), "{environment}");
    for absent in ["MY_SETTING", "LD_PRELOAD", "SSH_AUTH_SOCK"] {
        assert!(!environment.contains(absent), "{environment}");
    }
}

#[test]
fn no_argument_of_a_call_weakens_the_cell() {
    let fixture = Fixture::new();
    for field in ["sandbox", "network", "env", "dangerously_disable_sandbox", "mode", "approved"] {
        let error = fixture.error("shell_execute", json!({"command": "true", field: true}));
        assert_eq!(error["code"], "EVALIDATION", "{field}: {error:#}");
    }
}

#[test]
fn files_of_a_command_belong_to_the_owner_of_the_workspace() {
    let fixture = Fixture::new();
    assert_eq!(run(&fixture, "echo x > made; mkdir -p folder/sub; id -u")["exit_code"], 0);
    let owner = |path: &str| std::fs::metadata(fixture.workspace().join(path)).unwrap().uid();
    assert_eq!(owner("made"), owner("."));
    assert_eq!(owner("folder/sub"), owner("."));
}

#[test]
fn a_command_is_never_root_and_gains_nothing_by_setuid() {
    let fixture = Fixture::new();
    let seen = stdout(&fixture, "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status");
    let lines: Vec<&str> = seen.lines().collect();
    assert_ne!(lines[0], "0");
    let zero =
        |name: &str| lines.iter().any(|line| line.starts_with(name) && line.ends_with("0000000000000000"));
    assert!(zero("CapEff") && zero("CapBnd"), "{seen}");
    assert!(seen.contains("NoNewPrivs:\t1"), "{seen}");
}

#[test]
fn a_command_leaves_no_file_that_runs_with_the_rights_of_its_owner() {
    let fixture = Fixture::new();
    let script = r##"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, change):
    with open(name, "w") as file:
        file.write("#!/bin/sh\n")
    try:
        change(name)
    except OSError as error:
        print(name, error.strerror)
def raw(path, mode):
    # fchmodat2, which this libc may not know.
    if libc.syscall(452, -100, path.encode(), mode, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def create(name, make):
    try:
        make(name)
    except OSError as error:
        print(name, error.strerror)
def linked(name, file):
    os.link(f"/proc/self/fd/{file}", name, follow_symlinks=True)
def openat2(name, mode):
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_RDWR, mode, 0)
    if libc.syscall(437, -100, name.encode(), ctypes.byref(how), 24) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
create("open-plain", lambda name: os.open(name, os.O_CREAT | os.O_RDWR, 0o755))
create("mknod-plain", lambda name: os.mknod(name, 0o100755))
attempt("plain", lambda name: os.chmod(name, 0o755))
folder = os.open(".", os.O_RDONLY)
for bit in (0o4000, 0o2000):
    attempt(f"chmod-{bit:o}", lambda name: os.chmod(name, 0o755 | bit))
    attempt(f"fchmod-{bit:o}", lambda name: os.fchmod(os.open(name, os.O_RDONLY), 0o755 | bit))
    attempt(f"fchmodat-{bit:o}", lambda name: os.chmod(name, 0o755 | bit, dir_fd=folder))
    attempt(f"fchmodat2-{bit:o}", lambda name: raw(name, 0o755 | bit))
    # New files, which stay empty: nothing takes the bits away from them.
    create(f"open-{bit:o}", lambda name: os.open(name, os.O_CREAT | os.O_RDWR, 0o755 | bit))
    create(f"mknod-{bit:o}", lambda name: os.mknod(name, 0o100755 | bit))
    create(f"temporary-{bit:o}", lambda name: linked(name, os.open(".", os.O_TMPFILE | os.O_RDWR, 0o755 | bit)))
    create(f"openat2-{bit:o}", lambda name: openat2(name, 0o755 | bit))
"##;
    std::fs::write(fixture.workspace().join("attempts.py"), script).unwrap();
    let seen = stdout(&fixture, "umask 0; python3 attempts.py");
    assert_eq!(seen.lines().filter(|line| line.ends_with("Operation not permitted")).count(), 14, "{seen}");
    assert_eq!(seen.lines().filter(|line| line.ends_with("Function not implemented")).count(), 2, "{seen}");
    let mode = |name: &str| std::fs::metadata(fixture.workspace().join(name)).unwrap().mode() & 0o7777;
    for name in ["plain", "open-plain", "mknod-plain"] {
        assert_eq!(mode(name), 0o755, "an ordinary mode can be set: {name}");
    }
    for bit in ["4000", "2000"] {
        for way in ["open", "mknod", "temporary", "openat2"] {
            assert!(!fixture.workspace().join(format!("{way}-{bit}")).exists(), "{way}-{bit}");
        }
        for way in ["chmod", "fchmod", "fchmodat", "fchmodat2"] {
            let name = format!("{way}-{bit}");
            assert_eq!(mode(&name) & 0o6000, 0, "{name} has mode {:o}", mode(&name));
        }
    }
}

#[test]
fn a_process_of_the_host_that_listens_at_a_socket_cannot_be_reached() {
    let fixture = Fixture::with_files(&[(
        "connect.py",
        "import socket, sys\nfor path in sys.argv[1:]:\n    one = socket.socket(socket.AF_UNIX)\n    try:\n        \
         one.connect(path)\n        print('connected')\n    except OSError as error:\n        print('refused')\n",
    )]);
    let paths = [fixture.outside().join("agent.sock"), fixture.workspace().join("server.sock")];
    let listeners = paths.each_ref().map(|path| std::os::unix::net::UnixListener::bind(path).unwrap());
    let named = paths.each_ref().map(|path| path.to_str().unwrap()).join(" ");
    // The control: outside a cell, the same program reaches both.
    let line = format!("python3 connect.py {named}");
    let outside = std::process::Command::new("sh")
        .args(["-c", &line])
        .current_dir(fixture.workspace())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&outside.stdout), "connected\nconnected\n");
    assert_eq!(stdout(&fixture, &line), "refused\nrefused\n");
    for listener in listeners {
        listener.accept().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
