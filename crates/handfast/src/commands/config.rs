//! `handfast config`: describes configuration files.

use std::process::ExitCode;

use super::{Failure, print};
use crate::cli_config::ConfigCommand;
use crate::config;

pub(super) fn run(command: &ConfigCommand) -> Result<ExitCode, Failure> {
    match command {
        ConfigCommand::Schema => print(&format!("{}\n", serde_json::to_string_pretty(&config::schema())?))?,
    }
    Ok(ExitCode::SUCCESS)
}
