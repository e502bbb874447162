//! The secrets and the program of one run, as output to people needs them.

use std::sync::Arc;

use engine::{Program, Redactor};
use vault::Vault;

use crate::configuration::key_file;
use crate::host_environment::{HostEnvironment, vault_keys};
use crate::places::{self, VAULT_FOLDER, state_folder};
use crate::report;
use crate::run_options::RunOptions;

/// Tells output where the secrets of this run lie. The first run of a process wins.
pub(crate) fn begin(options: RunOptions) {
    let program_options = options.clone();
    report::begin(move || secrets(&options), move || program(&program_options));
}

/// Tells output the secrets of the environment alone, for a command line that names no state folder
/// because it cannot be parsed.
pub(crate) fn begin_without_state() {
    let credentials = || Redactor::new(HostEnvironment::of_this_process().credentials);
    report::begin(credentials, Program::default);
}

/// Returns a redactor with the secrets of the user's vault and environment.
fn secrets(options: &RunOptions) -> Redactor {
    let host_environment = HostEnvironment::of_this_process();
    let redactor = Redactor::new(host_environment.credentials.clone());
    let folder = state_folder(options, &host_environment).ok();
    // The command itself reports errors in the configuration or the folder.
    match (folder, key_file(&host_environment)) {
        (Some(folder), Ok(key)) => {
            redactor.with_vault(Arc::new(Vault::new(folder.join(VAULT_FOLDER), vault_keys(key))))
        }
        _ => redactor,
    }
}

/// Returns the program by which commands reach the state folder of this run.
fn program(options: &RunOptions) -> Program {
    let host_environment = HostEnvironment::of_this_process();
    let folder = state_folder(options, &host_environment).ok();
    folder.map(|folder| places::program(&folder, &host_environment)).unwrap_or_default()
}
