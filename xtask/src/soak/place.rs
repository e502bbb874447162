//! The folders of a soak, and the processes that it starts in them.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;

use crate::command::{Failure, Result, remove_folder};

/// Maximum time for a process to end after SIGTERM, or after its input is closed.
const END: Duration = Duration::from_mins(1);

/// A workspace, a state folder and a home that every process of one soak shares.
pub(super) struct Place {
    pub(super) workspace: PathBuf,
    pub(super) state: PathBuf,
    home: PathBuf,
    binary: PathBuf,
    /// Stop flag, set by a failure, a signal or the end of the time. Each worker stops before its
    /// next call.
    pub(super) stop: AtomicBool,
    running: Mutex<Vec<u32>>,
}

impl Place {
    /// Creates new folders, and removes those of an earlier soak.
    pub(super) fn new(folder: &Path, binary: &Path) -> Result<Self> {
        remove_folder(folder)?;
        let real = |name: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            let made = std::fs::create_dir_all(&path).and_then(|()| path.canonicalize());
            made.map_err(|error| Failure(format!("cannot create {}: {error}", path.display())))
        };
        let (workspace, state, home) = (real("workspace")?, real("state")?, real("home")?);
        let binary = binary
            .canonicalize()
            .map_err(|error| Failure(format!("cannot find {}: {error}", binary.display())))?;
        let (stop, running) = (AtomicBool::new(false), Mutex::default());
        Ok(Self { workspace, state, home, binary, stop, running })
    }

    /// Returns the program in these folders, in its own process group. Ctrl-C reaches only the
    /// soak, which then ends the program.
    pub(super) fn program(&self) -> Command {
        let mut command = self.clean(&self.binary);
        command.arg("--workspace").arg(&self.workspace).arg("--state").arg(&self.state).arg("--no-input");
        command
    }

    /// Returns the program for calls that need no approval.
    pub(super) fn caller(&self) -> Command {
        let mut command = self.program();
        command.args(["--mode", "full_auto"]);
        command
    }

    /// Returns a shell in its own mount namespace, whose `$state` is a small disk. Returns `None`
    /// if this user may not mount.
    pub(super) fn on_small_disk(&self, script: &str) -> Option<Command> {
        let choices: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
        let mount = "mount -t tmpfs -o size=8m handfast \"$state\"";
        choices.into_iter().find_map(|namespaces| {
            let shell = |script: &str| {
                let mut command = self.clean(Path::new("unshare"));
                command.args(namespaces).args(["sh", "-euc", &format!("{mount}; {script}")]);
                command
                    .env("workspace", &self.workspace)
                    .env("state", &self.state)
                    .env("program", &self.binary);
                command
            };
            crate::command::probe(&mut shell("true")).then(|| shell(script))
        })
    }

    fn clean(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", &self.home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(&self.workspace).process_group(0).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts a process that [`Place::kill_all`] reaches.
    pub(super) fn start(&self, command: &mut Command) -> Result<Process<'_>> {
        let child = command
            .spawn()
            .map_err(|error| Failure(format!("cannot start a process of the soak: {error}")))?;
        self.running.lock().push(child.id());
        Ok(Process { place: self, child })
    }

    /// Kills every started process that has not been waited for.
    pub(super) fn kill_all(&self) {
        for process in self.running.lock().iter() {
            send(*process, Signal::SIGKILL);
        }
    }

    pub(super) fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A process of the soak, killed when the value is dropped.
pub(super) struct Process<'place> {
    place: &'place Place,
    pub(super) child: Child,
}

impl Process<'_> {
    pub(super) fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    /// Waits for the process to end. Fails after [`END`].
    pub(super) fn ended(&mut self) -> Result<ExitStatus> {
        let began = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if began.elapsed() > END => {
                    return Err(Failure(format!("process {} did not end within a minute", self.child.id())));
                }
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Err(error) => return Err(Failure(format!("cannot wait for a process of the soak: {error}"))),
            }
        }
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        let id = self.child.id();
        // Fails only if the process has ended. Then no action is needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.place.running.lock().retain(|other| *other != id);
    }
}

fn send(process: u32, signal: Signal) {
    if let Ok(id) = i32::try_from(process) {
        // The process may have ended already.
        let _ = kill(Pid::from_raw(id), signal);
    }
}
