//! The `handfast` program: reads the command line, composes the runtime, runs one command.

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use handfast::commands;
use handfast::{Cli, print_chain};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let shown = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion if shown.is_ok() => ExitCode::SUCCESS,
                _ => ExitCode::from(2),
            };
        }
    };
    match commands::run(cli) {
        Ok(code) => code,
        Err(failure) => {
            print_chain(failure.error.as_ref());
            ExitCode::from(failure.exit_code)
        }
    }
}
