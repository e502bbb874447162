//! `handfast setup languages`: installs the program with the grammars of C++ and C# in the state folder.
//!
//! A released program knows the hash of the one that was released with it, and takes no other. One that was built
//! from source takes the program of the same source.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sha2::{Digest, Sha256};
use tempfile::TempPath;
use zip::ZipArchive;

use crate::cli::Global;
use crate::commands::Failure;
use crate::host_environment::HostEnvironment;
use crate::languages::{PROGRAM, VERSION, languages_of, place};
use crate::places::{create_private, state_folder};
use crate::report::note;

use super::pip::{Pip, Stopped, clear};

/// SHA-256 of the released program, in lower-case hexadecimal digits. `cargo xtask dist` sets it.
const RELEASED: Option<&str> = option_env!("HANDFAST_LANGUAGES_SHA256");

/// Name of the package.
const PACKAGE: &str = "handfast-languages";

/// Approximate size of the package in bytes, for the progress display only.
const PACKAGE_BYTES: u64 = 2_000_000;

/// Maximum size of the program in bytes. A debug build has the most.
const LARGEST: u64 = 256 << 20;

/// Maximum number of entries of a package that are examined.
const MAX_ENTRIES: usize = 1_000;

pub(super) fn run(global: &Global, from: Option<&Path>, remove: bool) -> Result<ExitCode, Failure> {
    let state = state_folder(&global.run_options(), &HostEnvironment::of_this_process())?;
    let place = place(&state);
    let folder = place.parent().unwrap_or(&state);
    create_private(folder)?;
    let lock = File::options().create(true).append(true).open(folder.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Failure::from(
                "another `handfast setup languages` is running; wait until it has ended",
            ));
        }
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    // Remove leftovers of a killed run. The lock excludes concurrent runs.
    let new = folder.join("new");
    clear(&new)?;
    if remove {
        return forget(&place);
    }
    let installed = place.is_file().then(|| languages_of(&place, &place.display().to_string()));
    if from.is_none() && matches!(installed, Some(Ok(_))) {
        note(&format!("nothing is needed: {PROGRAM} is in {}", folder.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let stopped = Stopped::listen()?;
    create_private(&new)?;
    let taken = match (from, RELEASED) {
        (Some(from), _) => take(from, &new),
        (None, Some(_)) => fetch(&new, &stopped),
        (None, None) => Err(from_source()),
    };
    let outcome = match taken {
        _ if stopped.code().is_some() => Ok(None),
        Ok(program) => put(program, &place).map(Some),
        Err(failure) => Err(failure),
    };
    clear(&new)?;
    match outcome? {
        Some(languages) => {
            note(&format!("the code graph has {languages} from the next query on"));
            Ok(ExitCode::SUCCESS)
        }
        None => {
            note("stopped; nothing was changed");
            Ok(ExitCode::from(stopped.code().unwrap_or(1)))
        }
    }
}

fn forget(place: &Path) -> Result<ExitCode, Failure> {
    match fs::remove_file(place) {
        Ok(()) => note(&format!("{PROGRAM} is removed; files of C++ and C# are in no graph")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => note("nothing was installed"),
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn from_source() -> Failure {
    Failure::from(format!(
        "this program was built from source, so no released {PROGRAM} belongs to it. In the same checkout, run \
         `cargo build --release --package languages`, and then `handfast setup languages --from \
         target/release/{PROGRAM}`"
    ))
}

/// Downloads the package of this version, and takes the program out of it.
fn fetch(new: &Path, stopped: &Stopped) -> Result<ProgramCopy, Failure> {
    let package = format!("{PACKAGE}=={VERSION}");
    let elsewhere = format!(
        "run `pip download --no-deps {package}` on another machine, or take the package from the release, and name \
         it with --from"
    );
    let Some(pip) = Pip::of_this_machine() else {
        return Err(Failure::from(format!(
            "pip, which downloads {PACKAGE}, is not installed: install it (on Debian and Ubuntu \
             `apt install python3-pip`), or {elsewhere}"
        )));
    };
    note(&format!("getting {package}"));
    match pip.get(&package, new, stopped, PACKAGE_BYTES)? {
        Ok(()) => Ok(ProgramCopy { name: package, ..take(new, new)? }),
        Err(why) => Err(Failure::from(format!(
            "cannot download {package}: {why}; nothing was changed. Run the command again when the network is \
             available, or {elsewhere}"
        ))),
    }
}

/// A copy of the program that is not in its place yet.
struct ProgramCopy {
    copy: TempPath,
    /// Source of the copy, as errors name it.
    name: String,
}

/// Copies the program to a new file, from a folder, a package, or the program itself.
fn take(from: &Path, new: &Path) -> Result<ProgramCopy, Failure> {
    let cannot =
        |error: &dyn std::fmt::Display| Failure::usage(format!("{} cannot be used: {error}", from.display()));
    if from.is_dir() {
        let program = from.join(PROGRAM);
        let found = if program.is_file() { Some(program) } else { package_in(from)? };
        let found =
            found.ok_or_else(|| cannot(&format!("it has neither {PROGRAM} nor a package with it")))?;
        // A file is no folder, so this goes one step deep.
        let copy = take_file(&found, new).map_err(|error| cannot(&error))?;
        return Ok(ProgramCopy { copy, name: found.display().to_string() });
    }
    let copy = take_file(from, new).map_err(|error| cannot(&error))?;
    Ok(ProgramCopy { copy, name: from.display().to_string() })
}

/// Returns the first package of a folder that is one of this program.
fn package_in(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("handfast_languages-") && path.extension().is_some_and(|end| end == "whl") {
            packages.push(path);
        }
    }
    packages.sort();
    Ok(packages.into_iter().next())
}

/// Copies the program out of a package, or the program itself.
fn take_file(from: &Path, new: &Path) -> io::Result<TempPath> {
    let mut file = File::open(from)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut target = tempfile::NamedTempFile::new_in(new)?;
    let copied = if from.extension().is_some_and(|end| end == "whl" || end == "zip") {
        let mut archive = ZipArchive::new(file).map_err(io::Error::other)?;
        let is_program = |name: &str| name.rsplit('/').next() == Some(PROGRAM);
        let mut at = (0..archive.len().min(MAX_ENTRIES)).filter(|at| {
            archive.name_for_index(*at).is_some_and(|name| name.is_ok_and(|name| is_program(&name)))
        });
        let at = at.next().ok_or_else(|| io::Error::other(format!("it has no {PROGRAM}")))?;
        let entry = archive.by_index(at).map_err(io::Error::other)?;
        io::copy(&mut entry.take(LARGEST + 1), &mut target)?
    } else {
        io::copy(&mut (&mut file).take(LARGEST + 1), &mut target)?
    };
    if copied > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    target.flush()?;
    target.as_file().set_permissions(Permissions::from_mode(0o700))?;
    target.as_file().sync_all()?;
    // A program that is open for writing cannot be started.
    Ok(target.into_temp_path())
}

/// Checks a program, and puts it into its place in one step. Returns what it has.
fn put(program: ProgramCopy, place: &Path) -> Result<String, Failure> {
    let ProgramCopy { copy: program, name } = program;
    if let Some(released) = RELEASED {
        // The size is bounded.
        let found: String =
            Sha256::digest(fs::read(&program)?).iter().map(|byte| format!("{byte:02x}")).collect();
        if found != released {
            return Err(Failure::from(format!(
                "{name} is not the {PROGRAM} that was released with Handfast {VERSION}: its SHA-256 is {found}, not \
                 {released}; nothing was changed"
            )));
        }
    }
    let languages =
        languages_of(&program, &name).map_err(|why| Failure::from(format!("{why}; nothing was changed")))?;
    program.persist(place).map_err(|error| Failure::from(error.error))?;
    File::open(place.parent().unwrap_or(place))?.sync_all()?;
    let titles: Vec<&str> = languages.iter().map(|language| language.title()).collect();
    Ok(titles.join(" and "))
}
