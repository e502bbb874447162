//! `handfast init`: asks five questions and writes a configuration of the answers.

mod questions;

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::Failure;
use crate::cli::Global;
use crate::cli_config::InitArgs;
use crate::config::{SCHEMA_URL, USER_FILE, WORKSPACE_FILE};
use crate::host_environment::HostEnvironment;
use crate::places::{create_as_its_parent, workspace};
use crate::report::{note, warn};
use questions::Answers;

/// Every setting with its explanation. A new file contains all of it as a comment.
const EXPLAINED: &str = include_str!("init.yaml");

pub(super) fn run(global: &Global, arguments: &InitArgs) -> Result<ExitCode, Failure> {
    let path = path(global, arguments)?;
    let exists = || Failure::usage(format!("{} exists already; nothing was changed", path.display()));
    if path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let asks = !arguments.yes && !global.no_input && io::stdin().is_terminal() && io::stderr().is_terminal();
    let answers = if asks { questions::ask(&mut io::stdin().lock())? } else { Answers::default() };
    let mut file = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists()),
        other => other.map_err(|error| unwritten(&path, &error))?,
    };
    if let Err(error) = file.write_all(content(&answers, arguments.user).as_bytes()) {
        // Half a file would be a broken configuration, which prevents every later start.
        let _ = std::fs::remove_file(&path);
        return Err(unwritten(&path, &error));
    }
    let changes = if answers.is_empty() { "; it changes nothing yet" } else { "" };
    note(&if arguments.user {
        format!("wrote {}{changes}; it applies in every workspace", path.display())
    } else {
        format!(
            "wrote {}{changes}; it can only tighten rules until you run `handfast trust`, and again \
             after each change",
            path.display()
        )
    });
    Ok(ExitCode::SUCCESS)
}

fn path(global: &Global, arguments: &InitArgs) -> Result<PathBuf, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    if !arguments.user {
        return Ok(workspace(&global.run_options(), &host_environment, &warn)?.join(WORKSPACE_FILE));
    }
    let folder = host_environment.configuration.ok_or_else(|| {
        Failure::usage("there is no folder for your configuration: set HOME or XDG_CONFIG_HOME")
    })?;
    create_as_its_parent(&folder)
        .map_err(|error| Failure::from(format!("cannot create {}: {error}", folder.display())))?;
    Ok(folder.join(USER_FILE))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::from(format!("cannot write {}: {error}", path.display()))
}

/// Beginning of the user's own file.
const OF_THE_USER: &str =
    "# Your own settings, which hold in every workspace. A workspace has further ones in handfast.yaml.";

/// Returns the content of a new file: the answers as settings, and every setting as a comment.
fn content(answers: &Answers, of_the_user: bool) -> String {
    let mut text = format!("# yaml-language-server: $schema={SCHEMA_URL}\n");
    text.push_str(&answers.as_settings());
    text.push_str("\n# Every setting, with built-in values where there are some. docs/CONFIGURATION.md has all keys.\n#\n");
    let (of_a_workspace, settings) = EXPLAINED.split_once("\n\n").unwrap_or_default();
    text.push_str(if of_the_user { OF_THE_USER } else { of_a_workspace });
    text.push_str("\n#\n");
    for line in settings.lines() {
        // A comment within a comment would hide which lines are settings.
        text.push_str(&match line {
            "" => "#\n".to_owned(),
            line if line.starts_with('#') => format!("{line}\n"),
            line => format!("# {line}\n"),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> crate::config::ConfigFile {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("handfast.yaml");
        std::fs::write(&path, text).unwrap();
        crate::config::ConfigFile::read(&path).unwrap().unwrap()
    }

    #[test]
    fn a_file_without_answers_sets_nothing_and_the_explained_settings_are_valid() {
        let file = read(&content(&Answers::default(), false));
        assert!(file.settings.sandbox_config.is_empty());
        assert!(file.settings.mode.is_none() && file.settings.profile.is_none());
        assert!(read(EXPLAINED).settings.sandbox_config.contains_key("normal"));
    }

    #[test]
    fn a_file_sets_what_was_answered_and_no_other_key() {
        let answers = "npm test, cargo \"build\"\ngit push\ndocs.rs\nsecrets/\n2\n";
        let answers = questions::ask(&mut answers.as_bytes()).unwrap();
        let file = read(&content(&answers, true));
        let normal = serde_json::to_value(&file.settings.sandbox_config["normal"]).unwrap();
        let written: Vec<(String, serde_json::Value)> = normal
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, value)| !value.is_null() && *key != "limits")
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let expected = serde_json::json!({
            "allowed_exec_command": ["npm test", "cargo \"build\""],
            "allowed_hosts": ["docs.rs"],
            "deny_exec_command": ["git push"],
            "deny_read_paths": [".env", ".env.*", "!.env.example", "*.pem", "*.key", ".netrc", "secrets/"],
            "undoable": "table",
        });
        assert_eq!(serde_json::Value::Object(written.into_iter().collect()), expected);
    }
}
