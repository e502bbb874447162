//! Assignment of the options of [`Global`] to commands. A command refuses other options, and its
//! help omits them.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches, Id};

use crate::cli::Cli;

/// Options for the location, and for whether anybody may be asked. Every command accepts them.
const PLACE: &[&str] = &["workspace", "state", "no_input"];

/// Options of a command that can only show what it would do.
const SHOWN_FIRST: &[&str] = &["workspace", "state", "no_input", "dry_run"];

/// Options that select the rules.
const RULES: &[&str] = &["workspace", "state", "no_input", "profile", "label", "mode"];

/// Options of a command that applies rules and supports dry runs.
const TRIED: &[&str] = &["workspace", "state", "no_input", "profile", "label", "mode", "dry_run"];

/// Options that select tools.
const TOOLS: &[&str] =
    &["workspace", "state", "no_input", "profile", "label", "dialect", "catalogue", "read_only", "dry_run"];

/// Options for making calls.
const CALLS: &[&str] = &[
    "workspace",
    "state",
    "no_input",
    "profile",
    "label",
    "mode",
    "dialect",
    "catalogue",
    "read_only",
    "dry_run",
    "permission",
];

/// Options that `attach` passes on to the server.
const ATTACHED: &[&str] = &[
    "workspace",
    "state",
    "no_input",
    "profile",
    "label",
    "mode",
    "dialect",
    "catalogue",
    "read_only",
    "dry_run",
];

/// The options of each command, which also apply to its subcommands.
const COMMANDS: [(&str, &[&str]); 40] = [
    ("up", CALLS),
    ("mcp", CALLS),
    ("csp", CALLS),
    ("attach", ATTACHED),
    ("detach", SHOWN_FIRST),
    ("call", CALLS),
    ("check", CALLS),
    ("config", PLACE),
    ("tools", TOOLS),
    ("audit", PLACE),
    ("status", RULES),
    ("log", PLACE),
    ("approvals", RULES),
    ("changes", RULES),
    ("policy", RULES),
    ("undo", TRIED),
    ("checkpoints", RULES),
    ("trust", PLACE),
    ("vault", PLACE),
    ("login", PLACE),
    ("logout", PLACE),
    ("browser", PLACE),
    ("run", CALLS),
    ("chat", CALLS),
    ("agents", PLACE),
    ("schedule", TRIED),
    ("plugin", PLACE),
    ("add", SHOWN_FIRST),
    ("update", SHOWN_FIRST),
    ("remove", SHOWN_FIRST),
    ("packages", PLACE),
    ("graph", RULES),
    ("doctor", RULES),
    ("setup", PLACE),
    ("completions", PLACE),
    ("man-pages", PLACE),
    ("openapi", PLACE),
    ("probe-attempt", PLACE),
    ("enter-cell", PLACE),
    ("init", PLACE),
];

/// Commands by purpose, as the help lists them.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Give an agent its tools", &["attach", "detach", "up", "mcp", "csp"]),
    ("See and undo", &["status", "log", "undo", "checkpoints", "changes", "audit"]),
    ("Decide what is allowed", &["init", "approvals", "check", "policy", "trust", "config"]),
    ("Secrets and accounts", &["vault", "login", "logout", "browser"]),
    ("Let a model work", &["chat", "run", "agents", "schedule"]),
    ("Use the tools yourself", &["call", "tools", "graph"]),
    ("Add tools of others", &["plugin", "packages", "add", "update", "remove"]),
    ("This machine", &["doctor", "setup", "completions", "help"]),
];

/// Maximum length of the text about a command: what 100 columns leave beside its name.
const LINE: usize = 85;

/// Template of the help of the whole program, with the commands in groups.
fn template(whole: &Command) -> String {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        text.push_str(&format!("\n{heading}:\n"));
        for name in names {
            let command = whole.find_subcommand(name).filter(|command| command.get_name() != "help");
            let about = match command.and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Prints this text, or the help of a command".to_owned(),
            };
            // A line of help is one clause; `handfast COMMAND --help` has the whole text.
            let end = [": ", "; ", ". "].iter().filter_map(|mark| about.find(mark)).min();
            let mut short = end.and_then(|end| about.get(..end)).unwrap_or(&about);
            while let Some((before, _)) = short.rsplit_once(", ").filter(|_| short.chars().count() > LINE) {
                short = before;
            }
            text.push_str(&format!("  {name:<12} {short}\n"));
        }
    }
    text.push_str("\nOptions:\n{options}{after-help}");
    text
}

/// Parses the command line.
///
/// # Errors
/// An error in the command line, or the requested help.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // This builds the command of the line alone, because the options of all commands take milliseconds.
    let mut quick = Cli::command();
    let error = match quick.try_get_matches_from_mut(&arguments) {
        Ok(matches) => match refused(&quick, &matches) {
            None => return Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command())),
            Some(refused) => return Err(quick.error(ErrorKind::UnknownArgument, refused)),
        },
        Err(error) => error,
    };
    if error.kind() == ErrorKind::DisplayVersion {
        return Err(error);
    }
    // Help and the usage in an error show the options that a command accepts.
    Err(command().try_get_matches_from_mut(arguments).err().unwrap_or(error))
}

/// Builds the whole command line. Options that a command does not accept are hidden in its help.
pub(crate) fn command() -> Command {
    shown(Cli::command())
}

/// Builds the whole command line without the command `help`.
pub(crate) fn command_without_help() -> Command {
    shown(Cli::command().disable_help_subcommand(true))
}

fn shown(mut whole: Command) -> Command {
    // Commands are made when they are needed, unless all of them are built.
    whole.build();
    let globals: Vec<Id> = globals(&whole).map(|option| option.get_id().clone()).collect();
    let template = template(&whole);
    let whole = whole.mut_subcommands(|command| {
        let taken = taken(command.get_name());
        let refused: Vec<Id> = globals.iter().filter(|id| !taken.contains(&id.as_str())).cloned().collect();
        hiding(command, &refused)
    });
    whole.help_template(template)
}

// BOUNDED: by the commands of the command line.
fn hiding(command: Command, refused: &[Id]) -> Command {
    let hide = |option: Arg| {
        let is_refused = refused.contains(option.get_id());
        if is_refused { option.hide(true) } else { option }
    };
    let command = command.mut_args(hide);
    command.mut_subcommands(|below| hiding(below, refused))
}

fn globals(whole: &Command) -> impl Iterator<Item = &Arg> {
    whole.get_arguments().filter(|option| option.is_global_set())
}

/// Returns the options that the named command accepts, or an empty list for an unknown command.
fn taken(name: &str) -> &'static [&'static str] {
    COMMANDS.iter().find(|(command, _)| *command == name).map_or(&[], |(_, options)| options)
}

/// Returns the message for an option that the command does not accept.
fn refused(command: &Command, matches: &ArgMatches) -> Option<String> {
    let (name, _) = matches.subcommand()?;
    let taken = taken(name);
    let is_given = |option: &&Arg| {
        let id = option.get_id().as_str();
        let source = matches.value_source(id).or_else(|| matches.subcommand()?.1.value_source(id));
        !taken.contains(&id) && source == Some(clap::parser::ValueSource::CommandLine)
    };
    let option = globals(command).find(is_given)?;
    let spelled = option.get_long().unwrap_or_default();
    Some(format!(
        "`handfast {name}` does not accept `--{spelled}`, so nothing was done; leave the option out \
         (`handfast {name} --help` lists the accepted options)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects every command without subcommands, with its words.
    fn leaves(command: &Command, words: &[String], into: &mut Vec<(Vec<String>, Command)>) {
        let below: Vec<&Command> =
            command.get_subcommands().filter(|below| below.get_name() != "help").collect();
        if !command.is_subcommand_required_set() && !words.is_empty() {
            into.push((words.to_vec(), command.clone()));
        }
        for one in below {
            leaves(one, &[words, &[one.get_name().to_owned()]].concat(), into);
        }
    }

    /// Returns a valid value for the argument.
    fn sample(argument: &Arg) -> &'static str {
        match argument.get_id().as_str() {
            "mode" => "full_auto",
            "dialect" => "handfast",
            "catalogue" => "full",
            "permission" => "read",
            "control" => "3",
            "client" => "claude",
            "shell" => "bash",
            _ => "0123456789ab",
        }
    }

    #[test]
    fn every_option_is_taken_or_refused_by_every_command_and_its_help_says_which() {
        let whole = command();
        let options: Vec<Arg> = globals(&whole).cloned().collect();
        assert!(options.len() >= 11);
        let mut all = Vec::new();
        leaves(&whole, &[], &mut all);
        assert!(all.len() > 40, "{}", all.len());
        let mut seen = [0; 2];
        for (words, mut leaf) in all {
            let name = words[0].as_str();
            assert!(COMMANDS.iter().any(|(known, _)| *known == name), "nothing is said of {name}");
            let required = leaf.get_arguments().filter(|argument| argument.is_required_set());
            let words_of = |argument: &Arg| {
                let name = argument.get_long().map(|long| format!("--{long}"));
                name.into_iter().chain([sample(argument).to_owned()])
            };
            let required: Vec<String> = required.flat_map(words_of).collect();
            let since: &[&str] = match name {
                "undo" | "check" => &["0123456789ab"],
                "schedule" if words[1..] == ["add"] => &["--", "true"],
                _ => &[],
            };
            let since: Vec<String> = since.iter().map(|word| (*word).to_owned()).collect();
            let line = |more: &[String]| {
                let words = [&["handfast".to_owned()], more, &words, &required, &since].concat();
                parse(words.into_iter().map(OsString::from))
            };
            line(&[]).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            let help = leaf.render_long_help().to_string();
            for option in &options {
                let id = option.get_id().as_str();
                let long = option.get_long().unwrap();
                let mut given = vec![format!("--{long}")];
                given.extend(option.get_action().takes_values().then(|| sample(option).to_owned()));
                let before = line(&given);
                let behind = {
                    let words = [&["handfast".to_owned()], &words[..], &given, &required, &since].concat();
                    parse(words.into_iter().map(OsString::from))
                };
                let means = taken(name).contains(&id);
                // The command that enters a cell takes every following word literally.
                let places = if name == "probe-attempt" { vec![before] } else { vec![before, behind] };
                for place in places {
                    assert_eq!(place.is_ok(), means, "{words:?} --{long}: {:?}", place.err());
                    seen[usize::from(means)] += 1;
                }
                assert_eq!(help.contains(&format!("--{long}")), means, "{words:?} --{long}: {help}");
            }
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }

    #[test]
    fn what_is_refused_is_named_with_what_to_do() {
        let error = parse(["handfast", "trust", "--dry-run"].map(OsString::from)).unwrap_err();
        assert!(error.to_string().contains("`handfast trust` does not accept `--dry-run`"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
