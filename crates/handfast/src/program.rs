//! The program: from its command line to its exit code.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use crate::compose::RUN_JAVASCRIPT;
use crate::{cli, cli_options, commands, host_environment, report, run_secrets};

/// Runs the whole program: reads the command line, composes the runtime, runs one command.
pub fn main() -> ExitCode {
    // A parent process may have blocked signals. Handfast could then not be ended by one.
    sandbox::unblock_signals();
    run_javascript();
    let cli = match cli_options::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return ExitCode::from(if error.print().is_ok() { 0 } else { 2 });
        }
        Err(error) => {
            // If standard error is closed, nobody reads the message.
            let _unread = refuse(&error);
            return ExitCode::from(2);
        }
    };
    run_secrets::begin(cli.global.run_options());
    locks::listen(report::warn);
    match commands::run(cli) {
        Ok(code) => code,
        Err(failure) => {
            report::print_chain(failure.error.as_ref());
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Runs a script and ends this process, if the arguments say so. Comes before everything else, because there is neither
/// a configuration nor a state folder in the script's cell.
fn run_javascript() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() == Some(OsStr::new(RUN_JAVASCRIPT))
        && let (Some(folder), None) = (arguments.next(), arguments.next())
    {
        javascript::run(Path::new(&folder));
    }
}

/// Prints an error in the command line, which may contain a secret.
fn refuse(error: &clap::Error) -> std::io::Result<()> {
    // The valid part of the line tells where the secrets lie.
    let understood = cli::Cli::command().ignore_errors(true).try_get_matches().ok();
    match understood.and_then(|line| cli::Global::from_arg_matches(&line).ok()) {
        Some(global) => run_secrets::begin(global.run_options()),
        None => run_secrets::begin_without_state(),
    }
    // The error may show a part of an argument.
    let typed = host_environment::typed();
    let sent = report::secrets().sent_among(typed.iter().map(String::as_str));
    match report::secrets().text_for(&error.render().to_string(), &sent) {
        Some(covered) => writeln!(std::io::stderr(), "{}", covered.trim_end()),
        None => error.print(),
    }
}
