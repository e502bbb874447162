//! `handfast setup`: `sandbox` gives this machine's cells their namespaces, or reports the
//! obstacle. The other commands are in the files of their names.
//!
//! The only change is the AppArmor profile for this program, and only if AppArmor is the obstacle.
//! Every other setting affects the whole machine, and is left to its administrator.

mod browser;
mod embeddings;
mod languages;
mod obstacle;
mod pip;
mod profile;
mod wheel;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::sandbox::SandboxError;
use rustix::process::geteuid;

use super::{Failure, print};
use crate::cli::Global;
use crate::cli_setup::SetupCommand;
use crate::host_environment::HostEnvironment;
use crate::report::{note, warn};
use obstacle::{Machine, Obstacle};
use profile::{Profile, Written};

pub(super) fn run(global: &Global, command: &SetupCommand) -> Result<ExitCode, Failure> {
    match command {
        SetupCommand::Sandbox { print, remove } => sandbox(*print, *remove),
        SetupCommand::Browser { from, remove } => browser::run(global, from.as_deref(), *remove),
        SetupCommand::Languages { from, remove } => languages::run(global, from.as_deref(), *remove),
        SetupCommand::Embeddings { from, remove } => embeddings::run(global, from.as_deref(), *remove),
    }
}

fn sandbox(only_print: bool, remove: bool) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe()?.canonicalize()?;
    let profile = Profile::for_program(&program).map_err(Failure::usage)?;
    if only_print {
        print(&profile.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    if remove {
        return take_away(&profile, &program);
    }
    let found = ::sandbox::try_namespaces();
    let machine = Machine::look();
    // Root is not restricted, so working cells of root prove nothing about other users.
    let as_root = geteuid().is_root();
    match (&found, machine.obstacle()) {
        (_, Some(Obstacle::AppArmor)) if as_root => install(&profile, &program),
        (Ok(()), _) => {
            note("nothing is needed: cells have their namespaces on this machine");
            Ok(ExitCode::SUCCESS)
        }
        (Err(SandboxError::Unavailable { .. }), Some(obstacle)) => {
            note(&obstacle.what_to_do(&program));
            note("nothing was changed");
            Ok(ExitCode::FAILURE)
        }
        (Err(error), _) => {
            if let SandboxError::Unavailable { hint, .. } = error {
                note(&format!("{error}; {hint}"));
            } else {
                note(&format!("cannot test cells: {error}"));
            }
            note("nothing was changed");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Installs the profile, and tests whether it helps.
fn install(profile: &Profile, program: &Path) -> Result<ExitCode, Failure> {
    if let Some(who) = profile::who_may_replace(program)? {
        warn(&format!(
            "{} can be replaced by {who}, and a replacement gets the rights of the profile; a copy \
             in /usr/local/bin that root owns is safer",
            program.display()
        ));
    }
    match profile.install(Path::new(profile::FOLDER), &parser()?)? {
        Written::New => note(&format!("installed {}", profile.path(Path::new(profile::FOLDER)).display())),
        Written::AsItWas => note("the profile is installed already; it was loaded again"),
    }
    match try_as_ordinary_user(program)? {
        Ok(user) => {
            note(&format!("cells have their namespaces, tested as user {user}"));
            Ok(ExitCode::SUCCESS)
        }
        Err(problem) => {
            note(&format!(
                "the profile is loaded, but cells still have no namespaces: {problem}\n`{} setup \
                 sandbox --remove` removes the profile",
                program.display()
            ));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn take_away(profile: &Profile, program: &Path) -> Result<ExitCode, Failure> {
    let folder = Path::new(profile::FOLDER);
    if !profile.path(folder).exists() {
        note("there is no profile for this program to remove");
        return Ok(ExitCode::SUCCESS);
    }
    if !geteuid().is_root() {
        note(&format!("removing the profile needs root: sudo {} setup sandbox --remove", quoted(program)));
        return Ok(ExitCode::FAILURE);
    }
    profile.remove(folder, &parser()?)?;
    note(&format!("removed {}", profile.path(folder).display()));
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of AppArmor's own parser. Only fixed places are searched, because it runs as root.
fn parser() -> Result<PathBuf, Failure> {
    let places = ["/usr/sbin/apparmor_parser", "/sbin/apparmor_parser", "/usr/bin/apparmor_parser"];
    places.into_iter().map(PathBuf::from).find(|path| path.is_file()).ok_or_else(|| {
        Failure::from("apparmor_parser is not installed; install the package `apparmor` and run this again")
    })
}

/// Tests as the user who called sudo, or else as nobody, whether cells have namespaces. Returns the
/// user id, or the obstacle.
fn try_as_ordinary_user(program: &Path) -> Result<Result<u32, String>, Failure> {
    /// User id of `nobody` on Debian and its descendants.
    const NOBODY: u32 = 65534;
    let user = HostEnvironment::of_this_process().called_by.filter(|user| *user != 0).unwrap_or(NOBODY);
    let output = profile::command(program)
        .args(["probe-attempt", "--", "have-namespaces", &user.to_string()])
        .stdin(std::process::Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(match said.split_once(' ') {
        Some(("done", _)) => Ok(user),
        Some(("refused", why)) => Err(why.to_owned()),
        _ => Err(format!("cannot run the test: {}", String::from_utf8_lossy(&output.stderr).trim())),
    })
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Returns a function that adds the path to an input or output error.
fn about(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::from(format!("{path}: {error}"))
}
