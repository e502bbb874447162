//! `handfast setup browser`: finds or installs a Chromium, and starts it once in a cell.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use browser::BrowserProgram;
use rustix::process::geteuid;

use crate::browser_program::{chosen, find, named};
use crate::cli::Global;
use crate::commands::Failure;
use crate::commands::doctor::try_browser;
use crate::host_environment::HostEnvironment;
use crate::places::{create_private, place, state_folder};
use crate::report::{note, warn};

/// Packages with a browser, the best first.
const PACKAGES: [&str; 2] = ["chromium-headless-shell", "chromium"];
/// Place of the package manager of Debian and its relatives.
const APT: &str = "/usr/bin/apt-get";

pub(super) fn run(global: &Global, from: Option<&Path>, remove: bool) -> Result<ExitCode, Failure> {
    let (options, host_environment) = (global.run_options(), HostEnvironment::of_this_process());
    let state = state_folder(&options, &host_environment)?;
    if remove {
        return forget(&state);
    }
    let workspace = place(&options, &host_environment, &warn)?.workspace;
    let places = (state.as_path(), workspace.as_path());
    if let Some(program) = from {
        return choose(places, program, &host_environment);
    }
    if let Err(why) = find(places, &host_environment) {
        if fs::read_link(chosen(&state)).is_ok() {
            note(&format!("{why}; `handfast setup browser --remove` forgets it"));
            return Ok(ExitCode::FAILURE);
        }
        note(&why);
        if !install()? {
            return Ok(ExitCode::FAILURE);
        }
    }
    match find(places, &host_environment) {
        Ok(program) => Ok(report(&program)),
        Err(why) => {
            note(&why);
            Ok(ExitCode::FAILURE)
        }
    }
}

fn forget(state: &Path) -> Result<ExitCode, Failure> {
    match fs::remove_file(chosen(state)) {
        Ok(()) => note("the program is forgotten; that of the machine is used, if there is one"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => note("no program was chosen"),
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Uses this program from now on, if it answers in a cell.
fn choose(
    (state, workspace): (&Path, &Path),
    program: &Path,
    host_environment: &HostEnvironment,
) -> Result<ExitCode, Failure> {
    let program = named(&real(program)?, (state, workspace), host_environment).map_err(Failure::usage)?;
    if report(&program) != ExitCode::SUCCESS {
        note("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    create_private(state)?;
    let link = chosen(state);
    // The new link takes the place of the old one in one step.
    let new = link.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    symlink(&program.path, &new)?;
    fs::rename(&new, &link)?;
    let path = program.path.display();
    note(&format!("{path} is used from now on; running servers take it at their next start"));
    Ok(ExitCode::SUCCESS)
}

fn real(program: &Path) -> Result<PathBuf, Failure> {
    let cannot = |why: &str| Failure::usage(format!("{} {why}", program.display()));
    let real = program.canonicalize().map_err(|error| cannot(&format!("cannot be used: {error}")))?;
    let metadata = fs::metadata(&real)?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(cannot("is no program"));
    }
    Ok(real)
}

/// Starts the browser in a cell, and says what came of it.
fn report(program: &BrowserProgram) -> ExitCode {
    let path = program.path.display();
    note(&format!("starting {path} in a cell"));
    if let Some(shown) = &program.shown {
        note(&format!("the cell shows {}, read-only, and nothing else of your folders", shown.display()));
    }
    match try_browser(&program.path) {
        Ok(version) => {
            note(&format!("the browser tools work: {version} answers"));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            note(&format!("{path} does not work in a cell: {problem}"));
            ExitCode::FAILURE
        }
    }
}

/// Installs a package with a browser as root, or says what to do. Returns true if a package was installed.
#[expect(
    clippy::disallowed_methods,
    reason = "the package manager of the user's machine, at the user's request"
)]
fn install() -> Result<bool, Failure> {
    if !Path::new(APT).is_file() {
        note("install Chromium by the package manager of this machine, and run this again");
        return Ok(false);
    }
    let command = |package: &str| format!("apt-get install --no-install-recommends {package}");
    if !geteuid().is_root() {
        let [best, other] = PACKAGES.map(command);
        note(&format!(
            "install one and run this again: sudo {best}\nwhere that package does not exist: sudo {other}"
        ));
        return Ok(false);
    }
    for package in PACKAGES {
        note(&format!("running {}", command(package)));
        let status = Command::new(APT)
            .args(["install", "--yes", "--no-install-recommends", package])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .status()?;
        if status.success() {
            return Ok(true);
        }
    }
    note("neither package could be installed; `apt-get update` may be needed first");
    Ok(false)
}
