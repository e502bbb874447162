//! Hosts that refuse namespaces: commands run with Landlock and seccomp alone, and every result reports this.
//! The host is an outer user namespace without further ones. Every refusal has its control there, without
//! Handfast.

mod chosen;
mod closed;
mod reading;
mod way_out;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::chown;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, copy_program, eventually, program, repository, unread};
use crate::server::Server;

/// A user that owns nothing (`nobody` of Debian).
const NOBODY: &str = "65534";

/// A fixture on a host without namespaces.
pub(crate) struct Refusing {
    fixture: Fixture,
    root: bool,
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(65534), Some(65534)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

impl Refusing {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Fixture::with_files(files);
        let root =
            std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        copy_program(&fixture.outside().join("handfast"));
        let made = Self { fixture, root };
        made.give();
        made
    }

    /// Gives new files to the ordinary user, if the tests run as root.
    fn give(&self) {
        if self.root {
            give(&self.fixture.outside());
        }
    }

    /// Returns a command that runs the program on this host.
    fn command(&self, program: &str) -> Command {
        let without_rights = r#"echo 0 > /proc/sys/user/max_user_namespaces &&
            exec setpriv --inh-caps=-all --ambient-caps=-all -- "$@""#;
        let mut words = Vec::new();
        if self.root {
            words.extend([
                "setpriv",
                "--reuid",
                NOBODY,
                "--regid",
                NOBODY,
                "--clear-groups",
                "--inh-caps=-all",
                "--",
            ]);
        }
        words.extend([
            "unshare",
            "--user",
            "--map-current-user",
            "--keep-caps",
            "sh",
            "-c",
            without_rights,
            "sh",
        ]);
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg(program)
            .current_dir(self.fixture.workspace())
            .env("HOME", self.fixture.home());
        command
    }

    fn handfast(&self) -> Command {
        let mut command = self.command(self.fixture.outside().join("handfast").to_str().unwrap());
        command.arg("--workspace").arg(self.fixture.workspace()).arg("--state").arg(self.fixture.state());
        command
    }

    pub(crate) fn call(&self, line: &str) -> Value {
        let arguments = json!({"command": line, "timeout": 60}).to_string();
        let output = self.handfast().args(["call", "--yes", "shell_execute", &arguments]).output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Returns the output of the line in a cell.
    fn inside(&self, line: &str) -> String {
        let result = self.call(line);
        assert_eq!(result["ok"], true, "{result:#}");
        assert_eq!(result["meta"]["sandbox"][0], "degraded:landlock", "{result:#}");
        result["data"]["stdout"].as_str().unwrap().to_owned()
    }

    /// Returns the output of the line on this host without Handfast.
    fn outside(&self, line: &str) -> String {
        let output = self.command("bash").args(["-c", line]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn ordinary_development_works_and_every_result_says_what_is_missing() {
    let own = Refusing::new(&[
        ("src/hello.c", "#include <stdio.h>\nint main(void) { puts(\"c\"); return 0; }\n"),
        (
            "src/hello.py",
            "import subprocess, threading, tempfile\ntempfile.TemporaryFile()\n\
            threading.Thread(target=lambda: print(subprocess.check_output(['echo', 'python'], text=True), end='')).start()\n",
        ),
    ]);
    assert_eq!(
        own.inside("cd src && gcc -o hello hello.c && ./hello && /usr/bin/python3 hello.py"),
        "c\npython\n"
    );
    let git = "git init -q . && git add . && git -c user.name=a -c user.email=a@b.example commit -qm first && git log --format=%s";
    assert_eq!(own.inside(git), "first\n");
    assert_eq!(
        own.inside("cat <(echo substituted) | tr a-z A-Z; sleep 0.01 & wait; echo made > made; cat made"),
        "SUBSTITUTED\nmade\n"
    );
    assert_eq!(own.fixture.read("made"), "made\n");
    assert_eq!(own.inside("cd; echo x > in-home && mktemp > /dev/null && pwd | grep -c /home"), "1\n");
    assert_eq!(
        std::fs::read_dir(own.fixture.state().join("spool")).unwrap().count(),
        0,
        "its folder is gone"
    );
    let words = own.call("true")["meta"]["sandbox"].to_string();
    assert!(words.contains("missing:processes of its own") && words.contains("seccomp"), "{words}");
}

#[test]
fn files_outside_and_denied_ones_cannot_be_read_under_any_name() {
    let own = Refusing::new(&[
        (".env", "secret"),
        ("deep/er/server.key", "secret"),
        ("deep/er/plain.txt", "plain"),
        ("plain.txt", "plain"),
    ]);
    let (home, beside) = (own.fixture.home(), own.fixture.outside());
    std::fs::write(home.join("id_rsa"), "secret").unwrap();
    std::fs::write(beside.join("beside.txt"), "secret").unwrap();
    std::fs::hard_link(own.fixture.workspace().join(".env"), own.fixture.workspace().join("other-name"))
        .unwrap();
    // A leftover link must not open its target.
    std::os::unix::fs::symlink(&home, own.fixture.workspace().join("link")).unwrap();
    own.give();
    let line = format!(
        "cat .env other-name deep/er/server.key link/id_rsa {}/id_rsa {}/beside.txt ../beside.txt 2>/dev/null; \
         grep -rs secret . {}; head -c 9 deep/er/plain.txt plain.txt -q",
        home.display(),
        beside.display(),
        beside.display()
    );
    // The control: seven matches by reading, three by searching the workspace, and five by searching above it.
    assert_eq!(own.outside(&line).matches("secret").count(), 7 + 3 + 5);
    assert_eq!(own.inside(&unread(&line)), "plainplain");
    // Moving or linking a file or its folder to a more open place does not show it either.
    let moves = "mkdir -p deep/free 2>/dev/null; mv .env deep/free/a; mv deep/er deep/free/b; ln deep/er/server.key deep/free/c; \
        ln .env plain-dir; cp .env deep/free/d; mv deep moved; find . -type f -exec cat {} + 2>/dev/null | grep -c secret";
    assert_eq!(own.inside(&unread(&format!("{moves}; true"))), "0\n");
    assert_eq!(own.fixture.read(".env"), "secret");
    assert_eq!(own.fixture.read("deep/er/server.key"), "secret");
}

#[test]
fn nothing_of_the_host_can_be_reached_over_sockets() {
    let own = Refusing::new(&[]);
    let loopback = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = loopback.local_addr().unwrap().port();
    let name = format!("handfast-degraded-{port}");
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let path = own.fixture.outside().join("socket");
    let _by_path = UnixListener::bind(&path).unwrap();
    chown(&path, own.root.then_some(65534), None).unwrap();
    let script = format!(
        r#"
import socket
def attempt(name, act):
    try:
        act()
        print(name, "reached")
    except OSError as error:
        print(name, "refused", error.errno)
unix = lambda address: socket.socket(socket.AF_UNIX).connect(address)
attempt("loopback", lambda: socket.create_connection(("127.0.0.1", {port}), 5))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {port})))
attempt("abstract", lambda: unix("\0{name}"))
attempt("path", lambda: unix("{path}"))
def by_pair(kind):
    one, two = socket.socketpair(socket.AF_UNIX, kind)
    one.connect("{path}")
attempt("pair-datagram", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("pair-raw", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW))
attempt("pair-stream-to-path", lambda: by_pair(socket.SOCK_STREAM))
one, two = socket.socketpair()
one.send(b"works")
print("pair", two.recv(5).decode())
"#,
        path = path.display()
    );
    own.fixture.write("connect.py", &script);
    own.give();
    let outside = own.outside("/usr/bin/python3 connect.py");
    assert_eq!(outside.matches("reached").count(), 6, "the control: {outside}");
    let inside = own.inside("/usr/bin/python3 connect.py");
    assert_eq!(inside.matches("refused 1\n").count(), 7, "{inside}");
    assert!(inside.contains("pair works"), "{inside}");
}

#[test]
fn processes_of_the_host_can_be_neither_signalled_nor_limited_nor_looked_into() {
    let own = Refusing::new(&[]);
    let mut victim =
        own.command("sh").args(["-c", "echo here; exec sleep 600"]).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(victim.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let script = r#"
import os, resource, signal, sys
pid = int(sys.argv[1])
def attempt(name, act):
    try:
        act()
        print(name, "done")
    except OSError as error:
        print(name, "refused", error.errno)
attempt("limit", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64)))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 5))
attempt("affinity", lambda: os.sched_setaffinity(pid, [0]))
attempt("environment", lambda: open(f"/proc/{pid}/environ").read())
attempt("command line", lambda: open(f"/proc/{pid}/cmdline").read())
attempt("memory", lambda: open(f"/proc/{pid}/mem", "rb"))
attempt("own limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
attempt("signal", lambda: os.kill(pid, signal.SIGKILL))
"#;
    own.fixture.write("reach.py", script);
    own.give();
    let line = format!("/usr/bin/python3 reach.py {}", victim.id());
    let inside = own.inside(&line);
    assert_eq!(inside.matches("refused").count(), 7, "{inside}");
    assert!(inside.contains("own limit done"), "{inside}");
    // All processes at once: the cell ends itself, and nobody else.
    own.call("kill -9 -1; kill -9 -- -1");
    assert!(victim.try_wait().unwrap().is_none(), "it lives");
    // The control, which also kills the victim, whose memory is closed to another user namespace here as well.
    let outside = own.outside(&line);
    for name in ["limit", "priority", "affinity", "command line", "own limit", "signal"] {
        assert!(outside.contains(&format!("{name} done")), "{outside}");
    }
    assert!(!victim.wait().unwrap().success());
}

/// Returns true if a process of the command still has this file open and locked.
fn is_held(path: &Path) -> bool {
    let file = std::fs::File::open(path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
}

/// An orphan in its own session that ignores SIGTERM, and a process that forks for ever.
const SURVIVORS: &str =
    "exec 9> lock; flock 9; (trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600' & ) ; \
    /usr/bin/python3 -c '
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    for generation in range(100000):
        if os.fork() != 0:
            os._exit(0)
' & wait; echo begun > begun; ";

#[test]
fn nothing_outlives_a_command_whatever_it_tries() {
    let own = Refusing::new(&[]);
    own.inside(&format!("{SURVIVORS} echo ended"));
    assert!(own.fixture.workspace().join("begun").exists());
    assert!(!is_held(&own.fixture.workspace().join("lock")), "without leftovers");
    // The timeout ends them, too.
    let arguments =
        json!({"command": format!("{SURVIVORS} trap '' TERM; sleep 600"), "timeout": 2}).to_string();
    let output = own.handfast().args(["call", "--yes", "shell_execute", &arguments]).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["error"]["code"], "ETIMEOUT", "{result:#}");
    assert!(!is_held(&own.fixture.workspace().join("lock")), "without leftovers");
}

#[test]
fn a_tree_of_forks_is_stopped_at_the_limit_and_nothing_of_it_is_left() {
    let own =
        Refusing::new(&[("handfast.yaml", "sandbox_config:\n  normal:\n    limits:\n      processes: 40\n")]);
    // Each process forks children that do the same and ignore signals, for eight generations or a few seconds.
    let bomb = r"
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.monotonic() + 20
def generation(left):
    for _ in range(4):
        try:
            if left and os.fork() == 0:
                os.setsid()
                generation(left - 1)
        except BlockingIOError:
            pass
    while time.monotonic() < until:
        time.sleep(0.05)
    os._exit(0)
generation(8)
";
    own.fixture.write("folder/bomb.py", bomb);
    own.give();
    let result = own.call("cd folder; exec 9> lock; flock 9; echo before; /usr/bin/python3 bomb.py");
    let words = result["meta"]["sandbox"].to_string();
    assert!(
        words.contains("limit:processes=watchdog") || words.contains("limit:processes=cgroup"),
        "{words}"
    );
    if words.contains("limit:processes=watchdog") {
        assert_eq!(result["error"]["code"], "EQUOTA", "{result:#}");
        let error = result["error"].to_string();
        assert!(error.contains("limit of 40 on processes") && error.contains("limits.processes"), "{error}");
    }
    assert!(!is_held(&own.fixture.workspace().join("folder/lock")), "without leftovers");
    // The control: processes below the limit are undisturbed, and so is moving a file to another folder.
    let modest = "cd folder; mkdir a b; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.3 & done; wait; echo x > a/f; ln a/f b/g; mv a/f b/f; cat b/f";
    assert_eq!(own.inside(modest), "x\n");
}

#[test]
fn a_session_has_a_terminal_that_nobody_else_has() {
    let own = Refusing::new(&[]);
    let mut command = own.handfast();
    command.args(["--mode", "full_auto"]);
    let mut server = Server::of(command);
    let line = "tty; stty size; echo x > /dev/tty; (exec 3<> $(tty)) && echo opened; ls /dev/pts; \
        read -r line; echo \"got $line\"; exec cat";
    let session = server.background(line, true);
    for line in ["^/dev/pts/[0-9]+", "^24 80", "^opened"] {
        server.expect(&session, 0, line);
    }
    server.press(&session, "hello", &["enter"]);
    let next = server.expect(&session, 0, "got hello");
    server.press(&session, "echoed", &["enter"]);
    server.expect(&session, next, "^echoed");
    server.press(&session, "", &["ctrl-c"]);
    // The session ends with its program.
    let ended = json!({"action": "read", "session_id": session, "offset": 1_u64 << 40, "wait": 60});
    server.data("shell_session", ended);
    // A command cannot open another user's terminal, and cannot type into its own.
    let pty = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
    rustix::pty::unlockpt(&pty).unwrap();
    let theirs = rustix::pty::ptsname(&pty, Vec::new()).unwrap().into_string().unwrap();
    if own.root {
        chown(&theirs, Some(65534), None).unwrap();
    }
    let into = format!("(exec 3<> {theirs}) && echo reached; true");
    assert_eq!(own.outside(&into), "reached\n", "the control");
    let session = server.background(&format!("({into}) 2>&1; echo done"), true);
    server.expect(&session, 0, "Permission denied");
    server.end();
}

#[test]
fn a_cell_without_namespaces_ends_with_the_program_that_started_it() {
    let own = Refusing::new(&[]);
    let line = "exec 9> lock; flock 9; setsid sleep 600 & echo begun > begun; sleep 600";
    let arguments = json!({"command": line, "timeout": 600}).to_string();
    let mut call: Child = own
        .handfast()
        .args(["call", "--yes", "shell_execute", &arguments])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = own.fixture.workspace().join("begun");
    eventually("the command", || {
        assert!(call.try_wait().unwrap().is_none(), "the call has ended early");
        begun.exists()
    });
    assert!(is_held(&own.fixture.workspace().join("lock")), "the control: it runs");
    call.kill().unwrap();
    call.wait().unwrap();
    eventually("the end of the command", || !is_held(&own.fixture.workspace().join("lock")));
}

#[test]
fn a_strict_profile_refuses_and_says_what_to_do() {
    let own = Refusing::new(&[("handfast.yaml", "sandbox_config:\n  normal:\n    strict: true\n")]);
    own.give();
    let result = own.call("touch made");
    assert_eq!(result["error"]["code"], "EUNAVAILABLE", "{result:#}");
    assert!(!result["error"]["hint"].as_str().unwrap().is_empty(), "{result:#}");
    assert!(!own.fixture.workspace().join("made").exists());
    // The control: the same command without `strict`.
    own.fixture.write("handfast.yaml", "mode: smart_auto\n");
    std::fs::create_dir(own.fixture.workspace().join("folder")).unwrap();
    own.give();
    own.inside("touch folder/made");
    assert!(own.fixture.workspace().join("folder/made").exists());
}

#[test]
fn no_command_runs_in_a_workspace_that_root_owns() {
    let fixture = Fixture::new();
    let script = r#"echo 0 > /proc/sys/user/max_user_namespaces && exec "$@""#;
    let call = json!({"command": "touch made"}).to_string();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(program())
        .arg("--workspace")
        .arg(fixture.workspace())
        .arg("--state")
        .arg(fixture.state())
        .args(["call", "--yes", "shell_execute", &call])
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["error"]["code"], "EUNAVAILABLE", "{result:#}");
    assert!(result["error"]["hint"].as_str().unwrap().contains("user.max_user_namespaces"), "{result:#}");
    assert!(!fixture.workspace().join("made").exists());
    // The control: the same call where namespaces are available.
    fixture.data("shell_execute", json!({"command": "touch made"}));
    assert!(fixture.workspace().join("made").exists());
}

#[test]
fn of_root_a_command_gets_the_rights_of_the_workspaces_owner() {
    use std::os::unix::fs::MetadataExt;
    let own = Refusing::new(&[]);
    std::fs::write(own.fixture.outside().join("roots"), "secret").unwrap();
    let line = "id -u; grep -s Cap /proc/self/status; echo x > made; cat /etc/shadow ../roots; chmod 777 /etc/shadow";
    let arguments = json!({ "command": line }).to_string();
    let output = Command::new("python3")
        .arg(repository().join("tests/security/refuse_clone3.py"))
        .arg(program())
        .arg("--workspace")
        .arg(own.fixture.workspace())
        .arg("--state")
        .arg(own.fixture.state())
        .args(["call", "--yes", "shell_execute", &arguments])
        .env("HOME", own.fixture.home())
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let words = result["meta"]["sandbox"].to_string();
    // For an ordinary user, the system's bwrap may have made the cell.
    assert!(words.contains(if own.root { "degraded:landlock" } else { "degraded:" }), "{result:#}");
    assert_eq!(words.contains("user:workspace_owner"), own.root, "{words}");
    let owner = |name: &str| std::fs::metadata(own.fixture.workspace().join(name)).unwrap().uid();
    assert_eq!(owner("made"), owner("."));
    if own.root {
        assert_eq!(result["data"]["stdout"], format!("{}\n", owner(".")), "{result:#}");
    }
    assert_ne!(result["data"]["exit_code"], 0, "{result:#}");
}

#[test]
fn doctor_says_what_does_not_hold_there() {
    let output = Refusing::new(&[]).handfast().args(["doctor", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = findings.as_array().unwrap();
    let find = |name: &str| all.iter().find(|it| it["name"] == name).unwrap();
    assert!(find("cell")["detail"].as_str().unwrap().starts_with("degraded:landlock"), "{findings:#}");
    assert_eq!(find("namespaces")["verdict"], "fails");
    assert!(find("namespaces")["hint"].as_str().unwrap().contains("handfast setup sandbox"));
    for finding in all {
        // An overlay needs namespaces, too.
        let fails = ["namespaces", "snapshot"].contains(&finding["name"].as_str().unwrap());
        assert!(finding["promise"].is_null() || fails || finding["verdict"] == "holds", "{finding:#}");
    }
}

#[test]
fn where_a_command_cannot_be_undone_it_is_asked_about() {
    let own = Refusing::new(&[("a", "a")]);
    let call = ["--no-input", "call", "shell_execute", r#"{"command": "rm a"}"#];
    let printed = String::from_utf8(own.handfast().args(call).output().unwrap().stdout).unwrap();
    assert!(printed.contains("EAPPROVAL") && own.fixture.read("a") == "a", "{printed}");
}
