//! Attempts of hostile programs, and their results.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process;

use super::support::{Place, run_cell, stderr};

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENOSYS: i32 = 38;
const SIGSYS: i32 = 31;

fn results(text: &str) -> BTreeMap<&str, i32> {
    text.lines()
        .map(|line| {
            let (name, errno) = line.split_once(' ').unwrap();
            (name, errno.parse().unwrap())
        })
        .collect()
}

#[test]
fn hostile_system_calls_are_refused_and_ordinary_ones_work() {
    let place = Place::new();
    place.build("attempts", include_str!("attempts.c"));
    let inside = place.output("./attempts");
    let inside = results(&inside);

    let allowed = [
        "call-nothing",
        "clone-plain",
        "personality",
        "segment",
        "segment-gone",
        "socket-inet",
        "socket-inet6",
        "socket-route",
        "socket-unix",
        "terminal-size",
    ];
    assert!(inside.len() > 50, "the program has come to its end: {inside:?}");
    for (name, errno) in &inside {
        // A limit or Landlock refuses these, before or instead of a missing capability.
        if ["nice-up", "mknod-device"].contains(name) {
            assert!([EPERM, EACCES].contains(errno), "{name} {errno}");
            continue;
        }
        let expected = match *name {
            name if allowed.contains(&name) => 0,
            "clone3-user" | "clone3-plain" => ENOSYS,
            "call-i386" | "call-x32" => SIGSYS,
            _ => EPERM,
        };
        assert_eq!(*errno, expected, "{name}");
    }

    // The control: outside, harmless calls are allowed, or fail only because of a bad argument.
    let outside = process::Command::new(place.path("attempts")).arg("harmless").output().unwrap();
    let outside = String::from_utf8(outside.stdout).unwrap();
    let outside = results(&outside);
    for harmless in ["unshare", "ptrace", "vm_readv", "vm_writev", "clone3-plain"] {
        assert_eq!(outside[harmless], 0, "{harmless}");
    }
    for malformed in ["io_uring_enter", "io_uring_register", "pidfd_getfd"] {
        assert!(![0, EPERM].contains(&outside[malformed]), "{malformed} {}", outside[malformed]);
    }
}

#[test]
fn no_capability_is_left_and_none_can_be_gained() {
    let place = Place::new();
    let status = place.output("cat /proc/self/status");
    for line in [
        "CapInh:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapAmb:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "Uid:\t1000\t1000\t1000\t1000",
        "Gid:\t1000\t1000\t1000\t1000",
    ] {
        assert!(status.lines().any(|found| found == line), "{line}\n{status}");
    }
    assert_eq!(place.output("cat /proc/sys/user/max_user_namespaces"), "0\n");
}

#[test]
fn a_server_of_the_host_cannot_be_reached_and_one_of_the_cell_can() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    listener.accept().unwrap();

    place.write(
        "connect.py",
        "import socket, sys\n\
         def attempt(address):\n    \
             try:\n        socket.create_connection(address, 5).close()\n        return 'connected'\n    \
             except OSError as error:\n        return type(error).__name__\n\
         own = socket.create_server(('127.0.0.1', 0))\n\
         print(attempt(own.getsockname()), attempt(('127.0.0.1', int(sys.argv[1]))), attempt(('192.0.2.1', 80)))\n",
    );
    let output = place.output(&format!("/usr/bin/python3 connect.py {port}"));
    assert_eq!(output, "connected ConnectionRefusedError OSError\n");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(place.output("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo\n");
}

#[test]
fn an_abstract_socket_of_the_host_cannot_be_reached() {
    let place = Place::new();
    let name = format!("handfast-test-{}", process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    UnixStream::connect_addr(&address).unwrap();
    let outcome = place.sh(&format!(
        "/usr/bin/python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"\\0{name}\")'"
    ));
    assert!(stderr(&outcome).contains("ConnectionRefusedError"), "{}", stderr(&outcome));
}

/// Connects to a socket and prints the result.
const CONNECT: &str = "import socket, sys
for address in sys.argv[1:]:
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect('\\0' + address[1:] if address[0] == '@' else address)
        print('connected')
    except OSError as error:
        print(type(error).__name__)
";

#[test]
fn sockets_of_the_host_are_absent_or_masked_and_those_of_the_cell_work() {
    let mut place = Place::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let name = format!("@handfast-test-sockets-{}", process::id());
    let address = SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap();
    let outside = elsewhere.path().join("agent.sock");
    let masked = place.path("masked.sock");
    // Stand-ins for the session bus, ssh's agent, a display, and a server in the workspace.
    let listeners = [
        UnixListener::bind_addr(&address).unwrap(),
        UnixListener::bind(&outside).unwrap(),
        UnixListener::bind(&masked).unwrap(),
    ];
    place.spec.masked = vec![masked.clone()];
    place.write("connect.py", CONNECT);
    let addresses = [name.as_str(), outside.to_str().unwrap(), masked.to_str().unwrap()];
    // The control: outside of a cell all sockets can be reached.
    let script = place.path("connect.py");
    let control = process::Command::new("/usr/bin/python3").arg(script).args(addresses).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&control.stdout), "connected\n".repeat(3));
    for listener in &listeners {
        listener.accept().unwrap();
        listener.set_nonblocking(true).unwrap();
    }
    let inside = place.output(&format!("/usr/bin/python3 connect.py {}", addresses.join(" ")));
    assert!(!inside.contains("connected") && inside.lines().count() == 3, "{inside}");
    for listener in &listeners {
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    for folder in ["/run/dbus", "/run/user", "/tmp/.X11-unix", "/var/run/docker.sock", "/run/docker.sock"] {
        assert_ne!(place.sh(&format!("ls -A {folder}")).exit, sandbox::Exit::Code(0), "{folder}");
    }
    let own = "/usr/bin/python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('own.sock'); \
               s.listen(); import os; os.execvp('python3', ['python3', 'connect.py', 'own.sock']) \
               if os.fork() == 0 else (s.accept(), os.wait())\"";
    assert_eq!(place.output(own), "connected\n");
}

#[test]
fn shared_memory_and_queues_of_the_host_are_absent() {
    let place = Place::new();
    let make = "import ctypes; c = ctypes.CDLL(None); print(c.shmget(0x68660000, 4096, 0o1666))";
    let found = "import ctypes; c = ctypes.CDLL(None); print(c.shmget(0x68660000, 0, 0))";
    let python = |code: &str| {
        let output = process::Command::new("/usr/bin/python3").args(["-c", code]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let segment = python(make);
    let file = std::path::Path::new("/dev/shm").join(format!("handfast-test-{}", process::id()));
    std::fs::write(&file, "shared").unwrap();
    let seen_outside = python(found);
    let inside = place.sh(&format!("/usr/bin/python3 -c '{found}'; cat {} || echo absent", file.display()));
    python(&format!("import ctypes; ctypes.CDLL(None).shmctl({segment}, 0, None)"));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(seen_outside, segment, "the control");
    assert_eq!(super::support::stdout(&inside), "-1\nabsent\n");
}

#[test]
fn no_process_of_the_host_is_visible() {
    let place = Place::new();
    let seen = place.output("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done; echo $$");
    assert!(seen.contains(sandbox::shell()), "its own processes are: {seen}");
    let own_name = std::env::current_exe().unwrap();
    assert!(!seen.contains(own_name.to_str().unwrap()), "{seen}");
    assert_eq!(seen.lines().last(), Some("2"), "process ids start anew");
    let outcome = place.sh("kill -0 1; cat /proc/1/environ /proc/1/cmdline /proc/1/maps; ls /proc/1/fd");
    assert_eq!(
        super::support::stdout(&outcome),
        "",
        "the first process of the cell shows nothing of its memory"
    );
}

#[test]
fn no_descriptor_of_the_caller_is_inherited() {
    let place = Place::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    // A descriptor that programs do inherit, as the control shows.
    rustix::io::fcntl_setfd(writer.as_fd(), rustix::io::FdFlags::empty()).unwrap();
    let own = process::Command::new("ls").arg("/proc/self/fd").output().unwrap();
    let number = writer.as_raw_fd().to_string();
    assert!(String::from_utf8(own.stdout).unwrap().lines().any(|fd| fd == number));

    let outcome = place.output("echo /proc/self/fd/*; sleep 0.01 & echo $!");
    let descriptors: Vec<_> = outcome.lines().next().unwrap().split(' ').collect();
    // The shell itself has the folder open that it lists.
    assert_eq!(descriptors, ["/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2", "/proc/self/fd/3"]);
    let target = place.output("readlink /proc/self/fd/0");
    assert_eq!(target, "/dev/null\n");
    drop(writer);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn neither_environment_nor_shared_memory_of_the_caller_is_there() {
    let place = Place::new();
    assert!(std::env::vars_os().count() > 0);
    assert!(!place.output("env").contains("CARGO"));
    assert_eq!(
        place.output("ls -A /dev/shm /tmp/.X11-unix 2>/dev/null; ipcs -m | grep -c 0x; true"),
        "/dev/shm:\n0\n"
    );
}

#[test]
fn landlock_closes_what_mounts_and_modes_leave_open() {
    let place = Place::new();
    let outcome =
        place.sh("stat -c %a /.cell/passwd; cat /etc/passwd > /dev/null && echo read; cat /.cell/passwd");
    if outcome.enforcement.landlock_abi.is_none() {
        assert!(outcome.enforcement.missing.contains(&"landlock".to_owned()));
        return;
    }
    // Both paths are the same file, which its mode makes readable for every user; a rule covers
    // only one of them.
    assert_eq!(super::support::stdout(&outcome), "644\nread\n");
    assert!(stderr(&outcome).contains("Permission denied"), "{}", stderr(&outcome));
}

#[test]
fn within_a_cell_no_further_cell_can_be_had_and_that_is_said() {
    // Inside a cell no namespaces are available, and no way to resolve paths safely.
    let place = Place::new();
    std::fs::copy(run_cell(), place.path("run_cell")).unwrap();
    std::fs::create_dir(place.path("inner")).unwrap();
    let outcome = place.sh("./run_cell $PWD/inner 'touch ran'");
    let said = stderr(&outcome);
    assert!(said.contains("sandboxes cannot be nested"), "{said}");
    assert!(!place.path("inner/ran").exists());
    // The control: the same program runs the line outside of a cell.
    let run =
        process::Command::new(place.path("run_cell")).arg(place.path("inner")).arg("touch ran").output();
    assert!(String::from_utf8(run.unwrap().stderr).unwrap().starts_with("namespaces:"));
    assert!(place.path("inner/ran").exists());
}

#[test]
fn covered_parts_of_the_process_table_are_empty_and_settings_cannot_be_written() {
    let place = Place::new();
    assert_eq!(place.output("cat /proc/keys /proc/kcore /proc/timer_list 2>/dev/null | wc -c"), "0\n");
    for line in [
        "echo x > /proc/sysrq-trigger",
        "echo x > /proc/sys/kernel/hostname",
        "echo 1 > /proc/sys/vm/drop_caches",
    ] {
        assert_ne!(place.sh(line).exit, sandbox::Exit::Code(0), "{line}");
    }
    assert!(!place.output("cat /proc/self/stat").is_empty());
}
