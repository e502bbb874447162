//! `handfast completions` and the man pages: texts that are generated from the command line itself.

use std::path::Path;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use dialects::{CatalogueKind, Dialect};
use policy::EffectKind;

use super::{Failure, print};
use crate::cli_options;

/// Name of the program in every generated text.
const PROGRAM: &str = "handfast";

/// Prints the completions of a shell.
pub(super) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    let whole = cli_options::command_without_help();
    let globals: Vec<&Arg> = whole.get_arguments().filter(|option| option.is_global_set()).collect();
    clap_complete::generate(shell, &mut offered(&whole, &globals), PROGRAM, &mut text);
    print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of the program, and one of each command, into an existing folder.
pub(super) fn man_pages(folder: &Path) -> Result<ExitCode, Failure> {
    clap_mangen::generate_to(cli_options::command_without_help(), folder).map_err(|error| {
        let folder = folder.display();
        Failure::from(format!("cannot write man pages to {folder}: {error}; name an existing folder"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command with only what its help shows. The generators of completions also offer what
/// is hidden, and they know the values of no option that has a parser of its own.
// BOUNDED: by the commands of the command line.
fn offered(command: &Command, globals: &[&Arg]) -> Command {
    let is_global = |option: &&Arg| globals.iter().any(|global| global.get_id() == option.get_id());
    // The generators add the options for help and version themselves.
    let is_offered =
        |option: &&Arg| !option.is_hide_set() && !["help", "version"].contains(&option.get_id().as_str());
    let own = command.get_arguments().filter(|option| !is_global(option));
    let inherited = command.get_arguments().filter(is_global);
    let options = own.chain(inherited).filter(is_offered);
    let options = options.map(|option| with_values(option.clone().global(false)));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let whole = Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .args(options)
        .subcommands(below.map(|below| offered(below, globals)));
    match command.get_version() {
        Some(version) => whole.version(version.to_owned()),
        None => whole,
    }
}

/// Returns the argument with the values that it accepts, if there is a list of them.
fn with_values(argument: Arg) -> Arg {
    let values: Vec<String> = match argument.get_id().as_str() {
        "mode" => ["ask_always", "smart_auto", "full_auto"].map(str::to_owned).to_vec(),
        "dialect" => Dialect::ALL.map(|dialect| dialect.as_str().to_owned()).to_vec(),
        "catalogue" => CatalogueKind::ALL.map(|kind| kind.as_str().to_owned()).to_vec(),
        "permission" => EffectKind::ALL.map(|kind| kind.as_str().to_owned()).to_vec(),
        _ => match argument.get_value_names() {
            // Options with few values name them all, in the form `once|session`.
            Some([names])
                if names.contains('|') && names.chars().all(|c| c == '|' || c.is_ascii_lowercase()) =>
            {
                names.split('|').map(str::to_owned).collect()
            }
            _ => return argument,
        },
    };
    argument.value_parser(PossibleValuesParser::new(values))
}
