//! Hosts on which this program may not make namespaces and the system's bwrap may: commands run in
//! a cell that bwrap makes, and every result reports this.
//!
//! The tests try two of these hosts, each with an ordinary user. On the first, clone3(2), the call
//! that makes cells, is refused, and bwrap uses an older call. On the second, nobody may make user
//! namespaces, and bwrap is set-user-id; making this host needs root. Each refusal has its control:
//! the same attempt, on the same host, without Handfast.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, copy_program, eventually, repository, unread};
use crate::security::reading;
use crate::server::Server;

/// A user that owns nothing (`nobody` of Debian).
const NOBODY: u32 = 65534;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// clone3(2) is refused, and bwrap is unchanged.
    Refused,
    /// bwrap is set-user-id.
    SetUserId,
}

/// A fixture on one of these hosts.
struct Host {
    fixture: Fixture,
    way: Way,
    root: bool,
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

/// Runs the test on each host that this machine can make.
fn on_each(files: &[(&str, &str)], test: impl Fn(&Host)) {
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    for way in [Way::Refused, Way::SetUserId] {
        if way == Way::SetUserId && !root {
            continue;
        }
        let fixture = Fixture::with_files(files);
        copy_program(&fixture.outside().join("handfast"));
        let host = Host { fixture, way, root };
        host.give();
        test(&host);
    }
}

impl Host {
    /// Gives new files to the ordinary user, if the tests run as root.
    fn give(&self) {
        if self.root {
            give(&self.fixture.outside());
        }
    }

    /// Returns a command that runs the program on this host.
    fn command(&self, program: &str) -> Command {
        let scripts = repository().join("tests/security");
        let mut words: Vec<String> = Vec::new();
        match self.way {
            Way::Refused => {
                if self.root {
                    let id = NOBODY.to_string();
                    let become_user = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
                    words.extend(become_user.map(str::to_owned));
                    words.extend(["--inh-caps=-all", "--"].map(str::to_owned));
                }
                // The user cannot read the repository.
                let script = self.fixture.outside().join("refuse_clone3.py");
                std::fs::copy(scripts.join("refuse_clone3.py"), &script).unwrap();
                words.extend(["/usr/bin/python3".to_owned(), script.display().to_string()]);
            }
            Way::SetUserId => {
                // The copy belongs to root, so it lies outside the folder that the ordinary user gets.
                let copy = tempfile::Builder::new().prefix("bwrap-").tempfile().unwrap().into_temp_path();
                words.extend(["/usr/bin/python3".to_owned()]);
                words.push(scripts.join("set_user_id_bwrap.py").display().to_string());
                words.push(copy.keep().unwrap().display().to_string());
            }
        }
        let found = std::process::Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        let program = String::from_utf8(found.unwrap().stdout).unwrap().trim().to_owned();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program).current_dir(self.fixture.workspace());
        command.env("HOME", self.fixture.home());
        command
    }

    fn handfast(&self) -> Command {
        let mut command = self.command(self.fixture.outside().join("handfast").to_str().unwrap());
        command.arg("--workspace").arg(self.fixture.workspace()).arg("--state").arg(self.fixture.state());
        command
    }

    fn call(&self, line: &str, timeout: u32) -> Value {
        let arguments = json!({"command": line, "timeout": timeout}).to_string();
        let output = self.handfast().args(["call", "--yes", "shell_execute", &arguments]).output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Returns the output of the line in a cell.
    #[track_caller]
    fn inside(&self, line: &str) -> String {
        let result = self.call(line, 60);
        assert_eq!(result["ok"], true, "{:?}: {result:#}", self.way);
        assert_eq!(result["meta"]["sandbox"][0], "degraded:bwrap", "{:?}: {result:#}", self.way);
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
    let files = [
        ("src/hello.c", "#include <stdio.h>\nint main(void) { puts(\"c\"); return 0; }\n"),
        (
            "src/hello.py",
            "import subprocess, threading, tempfile, socket\ntempfile.TemporaryFile()\n\
            s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); socket.create_connection(s.getsockname())\n\
            threading.Thread(target=lambda: print(subprocess.check_output(['echo', 'python'], text=True), end='')).start()\n",
        ),
    ];
    on_each(&files, |host| {
        let built = host.inside("cd src && gcc -o hello hello.c && ./hello && /usr/bin/python3 hello.py");
        assert_eq!(built, "c\npython\n");
        let git = "git init -q . && git add . && git -c user.name=a -c user.email=a@b.example commit -qm first && git log --format=%s";
        assert_eq!(host.inside(git), "first\n");
        let line = "cat <(echo substituted) | tr a-z A-Z; sleep 0.01 & wait; echo made > made; whoami; cd; pwd; echo x > /tmp/x; mktemp > y";
        assert_eq!(host.inside(line), "SUBSTITUTED\nagent\n/home/agent\n");
        assert_eq!(host.fixture.read("made"), "made\n");
        let owner = |name: &str| {
            std::os::unix::fs::MetadataExt::uid(
                &std::fs::metadata(host.fixture.workspace().join(name)).unwrap(),
            )
        };
        assert_eq!(owner("made"), owner("."));
        let words = host.call("touch made", 60)["meta"]["sandbox"].to_string();
        for word in ["seccomp", "workspace:direct", "denied_files:at_start", "network:none"] {
            assert!(words.contains(word), "{words}");
        }
        assert_eq!(words.contains("missing:a user of its own"), host.way == Way::SetUserId, "{words}");
        // A program that cannot start exits with 127.
        assert_eq!(host.call("exec no-such-program", 60)["data"]["exit_code"], 127);
    });
}

#[test]
fn what_a_reading_command_runs_changes_nothing() {
    on_each(&reading::files(), |host| {
        reading::make_repository(&host.fixture);
        host.give();
        let result = host.call(reading::LINE, 60);
        assert_eq!(result["meta"]["sandbox"][0], "degraded:bwrap", "{:?}: {result:#}", host.way);
        reading::assert_ran_as_reader(&result);
        assert_eq!(reading::left(&host.fixture), Vec::<&str>::new());
        // The control: other commands change the workspace.
        host.inside(&unread(reading::LINE));
        assert!(reading::left(&host.fixture).contains(&"a new file"));
    });
}

#[test]
fn files_outside_and_denied_ones_cannot_be_read_under_any_name() {
    let files = [
        (".env", "secret"),
        ("deep/er/server.key", "secret"),
        ("deep/er/plain.txt", "plain"),
        ("plain.txt", "plain"),
    ];
    on_each(&files, |host| {
        let (home, beside) = (host.fixture.home(), host.fixture.outside());
        std::fs::write(home.join("id_rsa"), "secret").unwrap();
        std::fs::write(beside.join("beside.txt"), "secret").unwrap();
        let workspace = host.fixture.workspace();
        std::fs::hard_link(workspace.join(".env"), workspace.join("other-name")).unwrap();
        std::os::unix::fs::symlink(&home, workspace.join("link")).unwrap();
        std::fs::write(workspace.join("handfast.yaml"), "mode: smart_auto\n").unwrap();
        host.give();
        let line = format!(
            "cat .env other-name deep/er/server.key link/id_rsa {}/id_rsa {}/beside.txt ../beside.txt 2>/dev/null; \
             grep -rs secret . {}; head -c 9 deep/er/plain.txt plain.txt -q",
            home.display(),
            beside.display(),
            beside.display()
        );
        // The control: seven matches by reading, three by searching the workspace, and five by
        // searching above it.
        assert_eq!(host.outside(&line).matches("secret").count(), 7 + 3 + 5);
        assert_eq!(host.inside(&unread(&line)), "plainplain");
        // Moving or linking a file or its folder does not show it either. The rules can be neither
        // changed nor moved away.
        let moves = "mkdir -p deep/free; mv .env deep/free/a; ln deep/er/server.key deep/free/c; cp .env deep/free/d; \
            rm -f deep/er/server.key; mv deep moved; echo x > handfast.yaml; mv handfast.yaml old; rm -f handfast.yaml; \
            find . -type f -exec cat {} + 2>/dev/null | grep -c secret";
        assert_eq!(host.inside(&unread(&format!("({moves}) 2>/dev/null; true"))), "0\n");
        assert_eq!(host.fixture.read(".env"), "secret");
        assert_eq!(host.fixture.read("handfast.yaml"), "mode: smart_auto\n");
        let places = [workspace.join("deep/er/server.key"), workspace.join("moved/er/server.key")];
        assert!(places.iter().any(|path| path.exists()), "it is not removed");
        // Commands cannot read the program that makes the cells.
        let own = host.inside("/.cell/handfast --version; head -c 4 /.cell/handfast; ls /proc/1/fd /proc/1/environ -d; cat /proc/1/environ; true");
        assert!(!own.contains("handfast") && !own.contains("ELF"), "{own}");
    });
}

#[test]
fn nothing_of_the_host_can_be_reached_and_nothing_gained() {
    on_each(&[], |host| {
        let loopback = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = loopback.local_addr().unwrap().port();
        let name = format!("handfast-bubblewrap-{port}");
        let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let path = host.fixture.workspace().join("socket");
        let _by_path = UnixListener::bind(&path).unwrap();
        let mut victim = host.command("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        let script = format!(
            r#"
import ctypes, os, signal, socket
def attempt(name, act):
    try:
        act()
        print(name, "reached")
    except OSError as error:
        print(name, "refused")
def user_namespace():
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno())
unix = lambda address: socket.socket(socket.AF_UNIX).connect(address)
attempt("loopback", lambda: socket.create_connection(("127.0.0.1", {port}), 5))
attempt("abstract", lambda: unix("\0{name}"))
attempt("path", lambda: unix("{path}"))
attempt("process", lambda: os.kill({victim}, 0))
attempt("command line", lambda: open("/proc/{victim}/cmdline").read())
"#,
            path = path.display(),
            victim = victim.id(),
        );
        host.fixture.write("connect.py", &script);
        host.give();
        let outside = host.outside("/usr/bin/python3 connect.py");
        assert_eq!(outside.matches("reached").count(), 5, "the control: {outside}");
        let inside = host.inside("/usr/bin/python3 connect.py");
        assert_eq!(inside.matches("refused\n").count(), 5, "{:?}: {inside}", host.way);
        victim.kill().unwrap();
        victim.wait().unwrap();
        let facts = host.inside(
            "grep -E 'Cap|NoNewPrivs|^Seccomp:' /proc/self/status; unshare -U true && echo namespace; \
            mount -t tmpfs x /tmp && echo mounted; su -c true; sudo -n true; ls /proc | grep -c '^[0-9]'",
        );
        assert_eq!(facts.matches("0000000000000000").count(), 5, "{facts}");
        assert!(facts.contains("NoNewPrivs:\t1") && facts.contains("Seccomp:\t2"), "{facts}");
        assert!(!facts.contains("namespace") && !facts.contains("mounted"), "{facts}");
    });
}

fn is_held(path: &Path) -> bool {
    let file = std::fs::File::open(path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
}

const SURVIVORS: &str = "exec 9> lock; flock 9; trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600' & ";

#[test]
fn nothing_outlives_a_command_or_handfast() {
    on_each(&[], |host| {
        let lock = host.fixture.workspace().join("lock");
        host.inside(&format!("{SURVIVORS} sleep 0.1"));
        assert!(!is_held(&lock), "without leftovers");
        let late = host.call(&format!("{SURVIVORS} echo begun; sleep 600"), 2);
        assert_eq!(late["error"]["code"], "ETIMEOUT", "{late:#}");
        assert_eq!(late["data"]["stdout"], "begun\n", "{late:#}");
        assert!(!is_held(&lock), "without leftovers");

        std::fs::remove_file(&lock).unwrap();
        let arguments = json!({"command": format!("{SURVIVORS} echo > begun; sleep 600"), "timeout": 600});
        let mut call = host.handfast();
        call.args(["call", "--yes", "shell_execute", &arguments.to_string()]).stdout(Stdio::null());
        let mut call = call.spawn().unwrap();
        eventually("the command", || {
            assert!(call.try_wait().unwrap().is_none(), "the call has ended early");
            host.fixture.workspace().join("begun").exists()
        });
        assert!(is_held(&lock), "the control: it runs");
        call.kill().unwrap();
        call.wait().unwrap();
        eventually("the end of the command", || !is_held(&lock));
    });
}

#[test]
fn limits_hold_and_say_what_holds_them() {
    let limits = "sandbox_config:\n  normal:\n    limits:\n      processes: 30\n      memory_bytes: 104857600\n      file_size_bytes: 1048576\n";
    on_each(&[("handfast.yaml", limits)], |host| {
        let bomb = "python3 -c \"
import os, time
try:
    while True:
        if os.fork() == 0: os.execvp('sleep', ['sleep', '50'])
except OSError as error: open('errors', 'w').write(str(error))
time.sleep(5)
\"; echo end";
        let result = host.call(&bomb.replace("python3", "/usr/bin/python3"), 60);
        let words = result["meta"]["sandbox"].to_string();
        let refused = host.fixture.workspace().join("errors").exists();
        match host.way {
            Way::Refused => assert!(refused && words.contains("limit:processes=rlimit"), "{result:#}"),
            Way::SetUserId => {
                assert!(words.contains("limit:processes=watchdog"), "{result:#}");
                assert_eq!(result["error"]["code"], "EQUOTA", "{result:#}");
            }
        }
        let hog = "exec /usr/bin/python3 -c \"import mmap, time\nheld = []\nfor _ in range(100):\n  part = mmap.mmap(-1, 4 << 20); part.write(b'x' * (4 << 20)); held.append(part); time.sleep(0.02)\ntime.sleep(50)\"";
        let result = host.call(hog, 60);
        assert_eq!(result["error"]["code"], "EQUOTA", "{result:#}");
        let result = host.call("exec head -c 3000000 /dev/zero > big", 60);
        assert_eq!(result["error"]["code"], "EQUOTA", "{result:#}");
        assert_eq!(std::fs::metadata(host.fixture.workspace().join("big")).unwrap().len(), 1 << 20);
    });
}

#[test]
fn a_session_has_a_terminal_of_its_own_there() {
    on_each(&[], |host| {
        let mut command = host.handfast();
        command.args(["--mode", "full_auto"]);
        let mut server = Server::of(command);
        let session = server.background("tty; stty size; read -r line; echo \"got $line\"; exec cat", true);
        let next = server.expect(&session, 0, "/dev/pts/0");
        server.press(&session, "hello", &["enter"]);
        let next = server.expect(&session, next, "got hello");
        server.press(&session, "", &["ctrl-c"]);
        let _ = next;
        server.end();
    });
}

#[test]
fn a_strict_profile_refuses_and_says_what_to_do() {
    on_each(&[("handfast.yaml", "sandbox_config:\n  normal:\n    strict: true\n")], |host| {
        let result = host.call("touch made", 60);
        assert_eq!(result["error"]["code"], "EUNAVAILABLE", "{result:#}");
        assert!(!result["error"]["hint"].as_str().unwrap().is_empty(), "{result:#}");
        assert!(!host.fixture.workspace().join("made").exists());
        // The control: the same command without `strict`.
        host.fixture.write("handfast.yaml", "mode: smart_auto\n");
        host.give();
        host.inside("touch made");
        assert!(host.fixture.workspace().join("made").exists());
    });
}

#[test]
fn doctor_says_what_does_not_hold_there() {
    on_each(&[], |host| {
        let output = host.handfast().args(["doctor", "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
        let find =
            |name: &str| findings.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
        assert!(find("cell")["detail"].as_str().unwrap().starts_with("degraded:bwrap"), "{findings:#}");
        for finding in findings.as_array().unwrap() {
            // An overlay needs namespaces that this program makes itself. A set-user-id bwrap makes
            // no user namespace, so the cell shares the host's.
            let shared = host.way == Way::SetUserId && finding["name"] == "namespaces";
            let fails = finding["name"] == "snapshot" || shared;
            // On the first host no program gains rights by set-user-id, so the attempt is
            // impossible there.
            let untried = host.way == Way::Refused && finding["name"] == "set-user-id-program";
            let only = finding["promise"].is_null() || fails || untried;
            assert!(only || finding["verdict"] == "holds", "{:?}: {finding:#}", host.way);
        }
    });
}

#[test]
fn caches_of_the_home_are_kept_and_nothing_else_of_it() {
    on_each(&[], |host| {
        let made =
            host.call("echo x > ~/.npm/mark; echo gone > ~/.bashrc; cat ~/.npm/mark ~/.bashrc; grep -c kept /proc/self/mountinfo", 60);
        assert_eq!(made["data"]["stdout"], "x\ngone\n1\n", "{:?}: {made:#}", host.way);
        assert!(made["meta"]["sandbox"].to_string().contains("home:caches_kept"), "{made:#}");
        let again = host.call(
            "cat ~/.npm/mark; mkdir ~/go/pkg/mod && ls ~/go/pkg; cat ~/.bashrc; ls -A ~/.kept/.. | grep lock",
            60,
        );
        assert_eq!(again["data"]["stdout"], "x\nmod\n", "{:?}: {again:#}", host.way);
    });
}
