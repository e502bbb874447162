//! The commands, one file each, and the handling of their results.

mod agents;
mod approvals;
mod attach;
mod audit;
mod audit_tree;
mod browser;
mod call;
mod change_notices;
mod changes;
mod chat;
mod check;
mod checkpoints;
mod code_watcher;
mod config;
mod csp;
mod doctor;
mod graph;
mod init;
mod knowledge_watcher;
mod log;
mod login;
mod mcp;
mod packages;
mod plugin;
mod policy;
mod run;
mod schedule;
mod serving;
mod setup;
mod shell_texts;
mod status;
mod tools;
mod trust;
mod undo;
mod up;
mod vault;

pub(crate) use approvals::{describe_grant, engine_of, text as approval_text};

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::{Cli, Command};
pub(crate) use crate::failure::Failure;
use crate::mounts::POINTS;
use crate::report::{covered, secrets};

/// Runs one command.
///
/// # Errors
/// If the command could not start or failed.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let global = &cli.global;
    match cli.command {
        Command::Up(arguments) => up::run(global, &arguments),
        Command::Attach(arguments) => attach::run(global, &arguments),
        Command::Detach(arguments) => attach::detach(global, &arguments),
        Command::Mcp { gateway: false } => mcp::run(global),
        Command::Mcp { gateway: true } => {
            let catalogue = Some(dialects::CatalogueKind::Gateway);
            mcp::run(&crate::cli::Global { catalogue, ..global.clone() })
        }
        Command::Csp => csp::run(global),
        Command::Call { call, yes } => call::run(global, &call, yes),
        Command::Check(arguments) => check::run(global, &arguments),
        Command::Config { command } => config::run(&command),
        Command::Tools { name, json } => tools::run(global, name.as_deref(), json),
        Command::Audit { command } => audit::run(global, command),
        Command::Status { json } => status::run(global, json),
        Command::Log(arguments) => log::run(global, &arguments),
        Command::Approvals { command } => approvals::run(global, command),
        Command::Changes { command } => changes::run(global, command),
        Command::Policy { command } => policy::run(global, command.as_ref()),
        Command::Undo(arguments) => undo::run(global, arguments),
        Command::Checkpoints { command } => checkpoints::run(global, command),
        Command::Trust { file } => trust::run(global, file),
        Command::Doctor { json } => doctor::run(global, json),
        Command::Vault { command } => vault::run(global, command),
        Command::Browser { command } => browser::run(global, &command),
        Command::Agents(arguments) => agents::run(global, &arguments),
        Command::Run(arguments) => run::run(global, &arguments),
        Command::Chat(arguments) => chat::run(global, &arguments),
        Command::Schedule { command } => schedule::run(global, command),
        Command::Plugin { command } => plugin::run(global, command),
        Command::Packages(command) => packages::run(global, command),
        Command::Graph { command } => graph::run(global, &command),
        Command::Setup { command } => setup::run(global, &command),
        Command::Login { command } => login::login(global, command),
        Command::Logout { command } => login::logout(global, &command),
        Command::Completions { shell } => shell_texts::completions(shell),
        Command::ManPages { folder } => shell_texts::man_pages(&folder),
        Command::OpenApi => {
            print(&format!("{}\n", serde_json::to_string_pretty(&door_http::document(&POINTS))?))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::ProbeAttempt { arguments } => {
            sandbox::attempt(&arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::EnterCell { control } => sandbox::enter(control),
        Command::Init(arguments) => init::run(global, &arguments),
    }
}

/// Writes text to standard output. A closed pipe ends the program quietly, as in every filter.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(covered(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a value to standard output: readable on a terminal, on one line elsewhere.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let readable = io::IsTerminal::is_terminal(&io::stdout());
    let mut value = serde_json::to_value(value)?;
    secrets().value(&mut value);
    let value = &value;
    let mut text =
        if readable { escaped(&serde_json::to_string_pretty(value)?) } else { serde_json::to_string(value)? };
    text.push('\n');
    print(&text)
}

/// Escapes control and invisible characters in JSON, which could hide on a terminal or steer it.
/// Such characters occur in strings only.
fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if (character.is_control() && character != '\n') || tool::is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Creates a runtime for one command, without further threads until a call needs one.
pub(crate) fn tokio_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    #[test]
    fn json_on_a_terminal_hides_nothing_and_says_the_same() {
        let value = serde_json::json!({"a": "x\u{9b}8m\u{202e}\u{e0041}\u{7f}\n\u{1b}ä"});
        let text = super::escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(text, "{\n  \"a\": \"x\\u009b8m\\u202e\\udb40\\udc41\\u007f\\n\\u001bä\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
