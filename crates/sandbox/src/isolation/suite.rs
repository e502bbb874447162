//! Tests of the same small promises of every backend that this machine offers, through the trait.
//!
//! The suite runs a second time as an ordinary user if it runs as root, because other backends exist there.

#![expect(clippy::disallowed_methods, reason = "the suite starts itself as another user")]

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::backend::{Backend, CellHost, Isolation, IsolationChoice, StartRequest};
use super::cell::{Cell, CellEvent};
use crate::enforcement::{DeniedFiles, Enforcement, NetworkReach, WorkspaceChanges};
use crate::error::SandboxError;
use crate::late_mask::LateMasks;
use crate::limits::values::{Layer, Limit};
use crate::outcome::{ChangeSource, Exit, Outcome, Stream};
use crate::run::run;
use crate::spec::{CellSpec, Command, Entrance, Overlay, Program, TerminalSize};
use crate::stopper::Stopper;
use crate::streams::Streams;

/// Word after which the number for `enter` follows, if this program is started in a cell of bwrap.
const ENTER: &str = "--enter-cell-of-the-suite";

/// A user that owns nothing (`nobody` of Debian).
const NOBODY: u32 = 65534;

/// Maximum wait for an event. Reaching it fails a test; the time itself is never judged.
const TIMEOUT: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// Runs before `main`. Enters the cell if bwrap has started this program in one.
extern "C" fn enter_cell() {
    let words = fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<_> = words.split(|byte| *byte == 0).collect();
    if let [_, word, control, ..] = &words[..]
        && *word == ENTER.as_bytes()
    {
        let control = std::str::from_utf8(control).ok().and_then(|text| text.parse().ok());
        crate::enter(control.unwrap_or(-1));
    }
}

// SAFETY: the loader calls each function of this section once, before `main`, with arguments that a
// function of the C convention may ignore. The function needs no setup of the standard library.
#[expect(unsafe_code, reason = "a cell must be entered before the test harness has threads")]
#[used]
#[unsafe(link_section = ".init_array")]
static ENTER_CELL: extern "C" fn() = enter_cell;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A workspace of an ordinary user, and a secret next to it.
struct Scene {
    folder: tempfile::TempDir,
    spec: CellSpec,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        // The workspace's owner must reach it.
        fs::set_permissions(&real, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let workspace = real.join("workspace");
        fs::create_dir(&workspace).unwrap();
        fs::write(real.join("beside"), "secret").unwrap();
        let scene = Self { folder, spec: CellSpec { workspace, ..CellSpec::default() } };
        // Without namespaces, a denied file closes the folders above it to new files.
        fs::create_dir(scene.path("deep")).unwrap();
        fs::create_dir(scene.path("open")).unwrap();
        for (name, content) in [("plain", "plain"), ("deep/.env", "secret"), ("late", "secret")] {
            fs::write(scene.path(name), content).unwrap();
        }
        for name in ["fifo", "go"] {
            mknodat(CWD, scene.path(name), FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        for name in ["", "plain", "open", "deep", "deep/.env", "late", "fifo", "go"] {
            if is_root() {
                chown(scene.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let spec = CellSpec {
            masked: vec![scene.path("deep/.env")],
            spool_directory: std::env::temp_dir(),
            output_limit: 1 << 20,
            ..scene.spec.clone()
        };
        Self { spec, ..scene }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.spec.workspace.join(name)
    }

    /// Returns true if the isolation foresees an overlay for the workspace.
    fn foresees_overlay(&self, host: &CellHost) -> bool {
        let area = self.folder.path().canonicalize().unwrap();
        host.isolation.can_give_overlay(&self.spec, &area, || Ok(self.overlay()))
    }

    fn overlay(&self) -> Overlay {
        let folder = tempfile::tempdir_in(self.folder.path().canonicalize().unwrap()).unwrap().keep();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let overlay = Overlay { upper: folder.join("upper"), work: folder.join("work") };
        for made in [&overlay.upper, &overlay.work] {
            fs::create_dir(made).unwrap();
        }
        overlay
    }

    fn command(&self, line: &str) -> Command {
        let words = ["/bin/sh", "-c", line].map(Into::into);
        Command { program: Program::Argv(words.into()), working_directory: self.spec.workspace.clone() }
    }

    fn run(&self, spec: &CellSpec, host: &CellHost, line: &str) -> Result<Outcome, SandboxError> {
        run(spec, host, &self.command(line), None, &Stopper::new()?, &mut |_, _| {})
    }

    fn output(&self, host: &CellHost, line: &str) -> (String, Outcome) {
        let outcome = self.run(&self.spec, host, line).unwrap();
        (String::from_utf8_lossy(&outcome.stdout.head).into_owned(), outcome)
    }

    /// Starts a line in a cell of the preferred backend alone.
    fn start(&self, host: &CellHost, line: &str) -> Box<dyn Cell> {
        let (command, streams) = (self.command(line), Streams::Captured);
        let start = |backend: &dyn Backend| {
            backend.start(&StartRequest { spec: &self.spec, host, command: &command, streams })
        };
        host.isolation.in_turn(&self.spec, start).unwrap()
    }
}

/// Runs `test` with each backend that this machine offers to this user.
fn each(test: impl Fn(&Scene, &CellHost)) {
    let program = std::env::current_exe().unwrap();
    let entrance = Entrance { program, arguments: vec![ENTER.into()] };
    let mut offered = 0;
    for choice in [IsolationChoice::Namespaces, IsolationChoice::Bubblewrap, IsolationChoice::Landlock] {
        let isolation = Isolation::of(choice, Some(entrance.clone()));
        let host = CellHost { isolation, ..CellHost::default() };
        let scene = Scene::new();
        match scene.run(&scene.spec, &host, "true") {
            Ok(outcome) => assert_eq!(outcome.exit, Exit::Code(0), "{choice:?}"),
            Err(SandboxError::Unavailable { what, hint, .. }) => {
                assert!(hint.contains("isolation: auto"), "{choice:?}: {what}; {hint}");
                continue;
            }
            Err(error) => panic!("{choice:?}: {error:?}"),
        }
        offered += 1;
        test(&scene, &host);
    }
    assert!(offered > 0, "this machine offers no isolation at all");
}

/// Waits for the next event of a cell.
fn next_event(cell: &dyn Cell) -> CellEvent {
    loop {
        let ready = poll(&mut [PollFd::from_borrowed_fd(cell.events(), PollFlags::IN)], Some(&TIMEOUT));
        assert_eq!(ready, Ok(1), "the cell is silent");
        if let Some(event) = cell.next_event().unwrap() {
            return event;
        }
    }
}

/// Reads an output until it contains `text` this many times.
fn read_until(output: &OwnedFd, text: &str, times: usize) {
    let mut said = String::new();
    while said.matches(text).count() < times {
        assert_eq!(poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&TIMEOUT)), Ok(1), "{said}");
        let mut bytes = [0_u8; 256];
        let count = rustix::io::read(output, &mut bytes[..]).unwrap();
        assert_ne!(count, 0, "the output ended: {said}");
        said += std::str::from_utf8(&bytes[..count]).unwrap();
    }
}

/// Returns the number of processes of this machine with `marker` among their arguments.
fn processes_with(marker: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("cmdline"));
    let has = |path: &PathBuf| {
        let words = fs::read(path).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == marker.as_bytes())
    };
    processes.filter(has).count()
}

#[test]
fn wait_returns_the_exit_after_all_output() {
    each(|scene, host| {
        let mut cell = scene.start(host, "cat plain; echo told >&2; exit 7");
        let ends = cell.take_stdio();
        let (exit, alone) = loop {
            match next_event(&*cell) {
                CellEvent::Ended { exit, alone } => break (exit, alone),
                CellEvent::Connected | CellEvent::Started => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(exit, Exit::Code(7));
        let ended = cell.wait(exit, alone).unwrap();
        assert!(ended.exceeded.is_none());
        let text = |end: Option<OwnedFd>| {
            let mut text = String::new();
            fs::File::from(end.unwrap()).read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!((text(ends.output), text(ends.error)), ("plain".to_owned(), "told\n".to_owned()));
    });
}

#[test]
fn kill_ends_every_process() {
    each(|scene, host| {
        let marker = format!("marker-{}", scene.folder.path().display());
        let one = format!("/bin/sh -c 'trap \"\" TERM; echo up; read line < fifo' {marker}");
        let mut cell = scene.start(host, &format!("{one} & setsid {one} & wait"));
        let ends = cell.take_stdio();
        read_until(ends.output.as_ref().unwrap(), "up\n", 2);
        assert!(processes_with(&marker) >= 2, "the control: they run");
        cell.kill();
        while !matches!(next_event(&*cell), CellEvent::Closed) {}
        cell.wait(Exit::Signal(libc::SIGKILL), false).unwrap();
        assert_eq!(processes_with(&marker), 0);
    });
}

#[test]
fn wait_ends_what_the_command_has_left_behind() {
    each(|scene, host| {
        let marker = format!("left-{}", scene.folder.path().display());
        let one = format!("/bin/sh -c 'trap \"\" TERM; echo up; read line < fifo' {marker}");
        let mut cell = scene.start(host, &format!("setsid {one} & read line < go; exit 3"));
        let ends = cell.take_stdio();
        read_until(ends.output.as_ref().unwrap(), "up\n", 1);
        fs::write(scene.path("go"), "\n").unwrap();
        let (exit, alone) = loop {
            if let CellEvent::Ended { exit, alone } = next_event(&*cell) {
                break (exit, alone);
            }
        };
        assert_eq!((exit, alone), (Exit::Code(3), false));
        assert!(processes_with(&marker) > 0, "the control: it runs on");
        cell.wait(exit, false).unwrap();
        assert_eq!(processes_with(&marker), 0);
    });
}

#[test]
fn a_signal_reaches_the_command() {
    each(|scene, host| {
        let mut cell = scene.start(host, "trap 'exit 9' USR1; echo up; read line < fifo & wait");
        let ends = cell.take_stdio();
        read_until(ends.output.as_ref().unwrap(), "up\n", 1);
        cell.signal(u8::try_from(libc::SIGUSR1).unwrap());
        let exit = loop {
            if let CellEvent::Ended { exit, .. } = next_event(&*cell) {
                break exit;
            }
        };
        assert_eq!(exit, Exit::Code(9));
        cell.wait(exit, false).unwrap();
    });
}

#[test]
fn a_terminal_is_one_of_the_cell() {
    each(|scene, host| {
        let spec = CellSpec { terminal: Some(TerminalSize { columns: 91, rows: 23 }), ..scene.spec.clone() };
        let outcome = scene.run(&spec, host, "stty size; test -t 0 && test -t 2 && echo all").unwrap();
        assert_eq!(String::from_utf8_lossy(&outcome.stdout.head), "23 91\r\nall\r\n");
    });
}

/// Prints the facts that `holds` compares with the claims of a cell.
fn report(port: u16, beside: &Path) -> String {
    format!(
        "for file in deep/.env {}; do cat $file && echo seen; done 2>/dev/null; \
         unshare --user true 2>/dev/null && echo unshared; \
         for kind in user mnt pid net ipc uts cgroup; do echo $kind $(readlink /proc/self/ns/$kind); done; \
         (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached; \
         echo files $(ulimit -Hn); echo made > open/made && echo wrote",
        beside.display()
    )
}

/// Asserts that what a cell claims is what its command has found.
fn holds(enforcement: &Enforcement, said: &str, scene: &Scene) {
    assert!(!said.contains("secret") && !said.contains("seen"), "{said}");
    assert!(enforcement.seccomp && !said.contains("unshared"), "{said}");
    let names = [("user", "user"), ("mount", "mnt"), ("pid", "pid"), ("net", "net"), ("ipc", "ipc")];
    for (claimed, name) in names.into_iter().chain([("uts", "uts"), ("cgroup", "cgroup")]) {
        let outside = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        let own = !said.contains(&format!("{name} {}\n", outside.display()));
        assert!(own || !enforcement.namespaces.contains(&claimed), "{claimed}: {said}");
    }
    assert_eq!(enforcement.network, NetworkReach::Own);
    assert!(!said.contains("reached"), "{said}");
    let files = enforcement.limits.iter().find(|it| it.limit == Limit::OpenFiles).unwrap();
    assert_eq!(files.layer, Layer::Rlimit);
    assert!(said.contains(&format!("files {}\n", files.value)), "{said}");
    let made = fs::metadata(scene.path("open/made"));
    match enforcement.workspace {
        WorkspaceChanges::Direct => {
            let owner = fs::metadata(&scene.spec.workspace).unwrap().uid();
            assert_eq!(made.expect(said).uid(), owner);
            assert!(said.contains("wrote"), "{said}");
        }
        WorkspaceChanges::ReadOnly => assert!(made.is_err() && !said.contains("wrote"), "{said}"),
        WorkspaceChanges::Overlay => assert!(made.is_err() && said.contains("wrote"), "{said}"),
    }
}

#[test]
fn what_a_cell_claims_to_enforce_is_enforced() {
    each(|scene, host| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let beside = scene.folder.path().canonicalize().unwrap().join("beside");
        let line = report(port, &beside);
        let bash = |line: &str| {
            let words = ["/bin/bash", "-c", line].map(Into::into);
            Command { program: Program::Argv(words.into()), ..scene.command("") }
        };
        let run = |spec: &CellSpec| {
            let stopper = Stopper::new().unwrap();
            let outcome = run(spec, host, &bash(&line), None, &stopper, &mut |_, _| {}).unwrap();
            (String::from_utf8_lossy(&outcome.stdout.head).into_owned(), outcome)
        };
        let read_only = CellSpec { reads_only: true, ..scene.spec.clone() };
        let (said, outcome) = run(&read_only);
        assert_eq!(outcome.enforcement.workspace, WorkspaceChanges::ReadOnly);
        holds(&outcome.enforcement, &said, scene);
        let (said, outcome) = run(&scene.spec);
        assert_eq!(outcome.enforcement.workspace, WorkspaceChanges::Direct);
        assert_eq!(outcome.changes, ChangeSource::None);
        holds(&outcome.enforcement, &said, scene);
        fs::remove_file(scene.path("open/made")).unwrap();
        // The control: outside, each of these is possible.
        let mut control = std::process::Command::new("bash");
        let control = control.args(["-c", &line]).current_dir(&scene.spec.workspace).output().unwrap();
        let control = String::from_utf8(control.stdout).unwrap();
        assert_eq!(control.matches("secret").count(), 2, "{control}");
        assert!(control.contains("reached"), "{control}");
        assert!(control.contains("unshared") || !scene.foresees_overlay(host), "{control}");
    });
}

#[test]
fn changes_are_found_where_the_cell_says() {
    each(|scene, host| {
        let overlay = scene.overlay();
        let spec = CellSpec { overlay: Some(overlay.clone()), ..scene.spec.clone() };
        let foreseen = scene.foresees_overlay(host);
        let outcome = scene.run(&spec, host, "echo changed > plain");
        if foreseen {
            let outcome = outcome.unwrap();
            assert_eq!(outcome.enforcement.workspace, WorkspaceChanges::Overlay);
            assert_eq!(outcome.changes, ChangeSource::UpperFolder(overlay.upper.clone()));
            assert_eq!(fs::read_to_string(overlay.upper.join("plain")).unwrap(), "changed\n");
        } else {
            assert!(matches!(outcome, Err(SandboxError::Overlay { .. })), "{outcome:?}");
        }
        assert_eq!(fs::read_to_string(scene.path("plain")).unwrap(), "plain");
    });
}

#[test]
fn no_overlay_is_foreseen_where_a_cell_has_none() {
    each(|scene, host| {
        if !scene.foresees_overlay(host) {
            return;
        }
        let overlay = scene.overlay();
        let area = overlay.upper.parent().unwrap().to_owned();
        // The folder for the changes would be shown to the command.
        let shows_area = CellSpec { read_only: vec![area.clone()], ..scene.spec.clone() };
        assert!(!host.isolation.can_give_overlay(&shows_area, &area, || unreachable!()));
        let ran = scene.run(&CellSpec { overlay: Some(overlay), ..shows_area }, host, "echo changed > plain");
        assert!(matches!(ran, Err(SandboxError::Overlay { .. })), "{ran:?}");
        // A cell of this workspace had no overlay although one was foreseen.
        crate::overlay::distrust_overlay(&scene.spec.workspace);
        assert!(!scene.foresees_overlay(host));
    });
}

#[test]
fn files_are_covered_late_where_the_cell_says_so() {
    each(|scene, host| {
        let masks = Arc::new(LateMasks::default());
        let host = CellHost { late_masks: Some(masks.clone()), ..host.clone() };
        let (late, fifo) = (scene.path("late"), scene.path("fifo"));
        let command = scene.command("echo up; read line < fifo; cat late");
        let stopper = Stopper::new().unwrap();
        let outcome = run(&scene.spec, &host, &command, None, &stopper, &mut |stream, chunk| {
            if stream == Stream::Stdout && chunk == b"up\n" {
                masks.cover(std::slice::from_ref(&late)).unwrap();
                fs::write(&fifo, "go\n").unwrap();
            }
        });
        let outcome = outcome.unwrap();
        let seen = String::from_utf8_lossy(&outcome.stdout.head).contains("secret");
        assert_eq!(seen, outcome.enforcement.denied_files == DeniedFiles::AtStart);
        assert_eq!(masks.have_begun(), outcome.enforcement.denied_files == DeniedFiles::Watched);
    });
}

#[test]
fn a_network_with_listeners_is_given_or_refused() {
    each(|scene, host| {
        let network = host.isolation.make_network();
        if !host.isolation.can_give_network() {
            assert!(matches!(network, Err(SandboxError::Unavailable { .. })), "{network:?}");
            let listeners = host.open_listeners(&[443]);
            assert!(matches!(listeners, Err(SandboxError::Unavailable { .. })), "{listeners:?}");
            return;
        }
        let host = CellHost { network: Some(network.unwrap()), has_egress: true, ..host.clone() };
        let listeners = host.open_listeners(&[443]).unwrap().unwrap();
        assert_eq!(listeners.everywhere.len(), 1);
        let (_, outcome) = scene.output(&host, "true");
        assert_eq!(outcome.enforcement.network, NetworkReach::Doors);
    });
}

#[test]
fn a_strict_caller_gets_a_full_cell_or_none() {
    each(|scene, host| {
        let spec = CellSpec { strict: true, ..scene.spec.clone() };
        match scene.run(&spec, host, "true") {
            Ok(outcome) => assert_eq!(outcome.enforcement.degraded, None),
            Err(SandboxError::Unavailable { what, .. }) => assert!(what.contains("strict"), "{what}"),
            Err(error) => panic!("{error:?}"),
        }
    });
}

#[test]
fn an_ordinary_user_gets_the_same() {
    if !is_root() {
        return;
    }
    // The user cannot read the folder in which this program was built.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = folder.path().join("suite");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let id = NOBODY.to_string();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all", "--"])
        .arg(&copy)
        .arg("isolation::suite::")
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(" passed"), "{said}");
    assert!(!said.contains(" 0 passed"), "{said}");
}
