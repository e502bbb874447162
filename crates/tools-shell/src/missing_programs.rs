//! Detection of a program that a command did not find, from the output of the command.

use std::sync::Arc;

use sandbox::{CellSpec, Outcome, SandboxError};
use tool::{Context, MissingPrograms, ToolError};

use crate::network::MERGES;
use crate::wording;

/// Maximum length in bytes of a program's name in a message. The kernel takes no longer one.
const LONGEST_NAME: usize = 255;

/// Programs that start others and report a missing one as a missing file.
const STARTERS: [&str; 9] =
    ["chroot", "env", "make", "nice", "nohup", "setsid", "stdbuf", "timeout", "xargs"];

/// Adds a warning about the first program that an ended command did not find, if the runtime knows
/// why.
pub(crate) fn warn(context: &Context, line: &str, cell: &CellSpec, outcome: &Outcome) {
    let merges = cell.terminal.is_some() || MERGES.iter().any(|merge| line.contains(merge));
    let streams = [Some(&outcome.stderr), Some(&outcome.stdout).filter(|_| merges)];
    let mut texts = streams.into_iter().flatten().flat_map(|stream| [&stream.head, &stream.tail]);
    let missed = texts.find_map(|text| missed(&String::from_utf8_lossy(text)));
    if let Some(advice) = missed.and_then(|name| advice(context, &name)) {
        context.warn(advice);
    }
}

/// Converts the error of a command that could not be started.
pub(crate) fn failed(context: &Context, error: SandboxError) -> ToolError {
    let advice = match &error {
        SandboxError::ProgramNotFound { program } => advice(context, program),
        _ => None,
    };
    let failed = wording::failed(error);
    match advice {
        Some(advice) => failed.hint(advice),
        None => failed,
    }
}

fn advice(context: &Context, name: &str) -> Option<String> {
    context.service::<Arc<dyn MissingPrograms>>().ok()?.advice(name)
}

/// Returns the first program that is not found according to a text.
fn missed(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| missed_by_shell(line).or_else(|| missed_by_starter(line)))?;
    let name = name.trim_matches(|around: char| "'\"`‘’“”".contains(around));
    let is_strange = |letter: char| letter == '/' || letter.is_whitespace() || letter.is_control();
    (!name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(is_strange)).then(|| name.to_owned())
}

/// Returns the program of a message such as `bash: line 1: x: command not found`,
/// `sh: 1: x: not found` or `zsh: command not found: x`.
fn missed_by_shell(line: &str) -> Option<&str> {
    if let Some((_, name)) = line.split_once("command not found: ") {
        return Some(name);
    }
    if let Some(before) = line.strip_suffix(": command not found") {
        return before.rsplit_once(": ").map(|(_, name)| name);
    }
    let (above, name) = line.strip_suffix(": not found")?.rsplit_once(": ")?;
    // The number of a line follows the name of the shell or script, so that no other message counts.
    let is_number = |part: &str| {
        let digits = part.strip_prefix("line ").unwrap_or(part);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    above.split(": ").skip(1).any(is_number).then_some(name)
}

/// Returns the program of a message such as `env: 'x': No such file or directory`.
fn missed_by_starter(line: &str) -> Option<&str> {
    let (starter, name) = line.strip_suffix(": No such file or directory")?.split_once(": ")?;
    let starter = starter.rsplit('/').next()?;
    // A make within another one numbers itself.
    let starter = starter.split_once('[').map_or(starter, |(name, _)| name);
    let name = ["failed to run command ", "can't execute "]
        .iter()
        .find_map(|before| name.strip_prefix(before))
        .unwrap_or(name);
    STARTERS.contains(&starter).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_was_not_found_is_read_from_what_shells_and_starters_say() {
        for said in [
            "bash: line 1: flutter: command not found",
            "/bin/bash: line 12: flutter: command not found",
            "./build.sh: line 3: flutter: command not found",
            "sh: 1: flutter: not found",
            "build.sh: 3: flutter: not found",
            "sh: 1: exec: flutter: not found",
            "bash: line 1: exec: flutter: not found",
            "zsh:1: command not found: flutter",
            "env: ‘flutter’: No such file or directory",
            "/usr/bin/env: 'flutter': No such file or directory",
            "env: can't execute 'flutter': No such file or directory",
            "xargs: flutter: No such file or directory",
            "make: flutter: No such file or directory",
            "make[1]: flutter: No such file or directory",
            "timeout: failed to run command ‘flutter’: No such file or directory",
            "before\nsh: 1: flutter: not found\nsh: 1: later: not found",
        ] {
            assert_eq!(missed(said), Some("flutter".to_owned()), "{said}");
        }
    }

    #[test]
    fn other_messages_name_no_program() {
        for said in [
            "",
            "cat: notes: No such file or directory",
            "ls: cannot access 'x': No such file or directory",
            "error: module x: not found",
            "404: page: not found",
            "bash: line 1: /home/me/x/bin/tool: command not found",
            "sh: 1: two words: not found",
            "env: ‘’: No such file or directory",
            "bash: line 1: : command not found",
            &format!("bash: line 1: {}: command not found", "x".repeat(300)),
        ] {
            assert_eq!(missed(said), None, "{said}");
        }
    }
}
