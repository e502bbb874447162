//! Agent clients, attached to Handfast and driven by a scripted model: a long suite, run by hand.
//!
//! The clients come from npm, in the versions that `xtask/test-tools/clients` pins. The scripts there
//! attach them, start them in their default settings, and judge what happened. This module installs
//! the clients, builds the program, and starts the scripts; it judges nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::build;
use crate::command::{Result, run as run_command};
use crate::repository::Repository;
use crate::setup;

/// Options of `clients`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Attaches this binary instead of building one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Tries only this kind of attachment; may be given several times
    #[arg(long, value_name = "KIND", value_parser = ["stdio", "http", "project", "project-http", "only"])]
    kind: Vec<String>,
    /// Clients to drive [default: all]
    #[arg(value_name = "CLIENT", value_parser = ["claude", "codex", "gemini", "opencode", "qwen", "continue"])]
    clients: Vec<String>,
}

/// Installs the clients and drives them. Fails if an assertion fails or a client is missing.
pub(crate) fn run(repository: &Repository, options: &Options) -> Result<()> {
    let modules = setup::install_clients(repository)?;
    let binary = match &options.binary {
        Some(path) => path.clone(),
        None => build(repository)?,
    };
    let folder = repository.root.join("target/clients");
    run_command(&mut drive(repository, options, &binary, &modules, &folder))
}

fn drive(
    repository: &Repository,
    options: &Options,
    binary: &Path,
    modules: &Path,
    folder: &Path,
) -> Command {
    let mut command = Command::new("python3");
    // `-B` leaves no compiled files in the checkout.
    command.arg("-B").arg(repository.root.join("xtask/test-tools/clients/drive.py"));
    command.arg("--binary").arg(binary).arg("--modules").arg(modules).arg("--folder").arg(folder);
    command.args(options.kind.iter().flat_map(|kind| ["--kind", kind])).args(&options.clients);
    command
}
