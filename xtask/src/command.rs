//! Runs other programs and reports failures in words that a person can act on.
//!
//! These functions neither retry nor set timeouts. The person or machine that started the task ends it.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// The result of a task.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The reason why a task failed, as text for the person at the terminal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    /// Creates a failure with this text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Runs `command` with visible output, after printing the command line in a form that can be pasted.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    eprintln!("$ {line}");
    let status = command.stdin(Stdio::null()).status().map_err(|error| cannot_start(&line, &error))?;
    succeeded(&line, status)
}

/// Runs `command` and returns its standard output. Its standard error is shown.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| cannot_start(&line, &error))?;
    succeeded(&line, output.status)?;
    String::from_utf8(output.stdout).map_err(|_| Failure(format!("`{line}` wrote text that is not UTF-8")))
}

/// Returns true if `command` starts and exits with 0. Its output is discarded.
pub(crate) fn probe(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Reads a whole text file.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Failure(format!("cannot read {}: {error}", path.display())))
}

/// Writes a whole text file and creates its folder.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let written =
        path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, text));
    written.map_err(|error| Failure(format!("cannot write {}: {error}", path.display())))
}

/// Removes a folder with everything in it. A missing folder is not an error.
pub(crate) fn remove_folder(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure(format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| {
        let word = word.to_string_lossy();
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c));
        if plain && !word.is_empty() {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn cannot_start(line: &str, error: &io::Error) -> Failure {
    Failure(format!("cannot start `{line}`: {error}"))
}

/// Checks the exit status. The message names the exit code or the signal, so that Ctrl-C does not
/// look like a failed check.
fn succeeded(line: &str, status: ExitStatus) -> Result<()> {
    if status.success() { Ok(()) } else { Err(Failure(format!("`{line}` ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_status() {
        let failure = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(failure.0, "`sh -c 'exit 3'` ended with exit status: 3");
    }

    #[test]
    fn a_command_ended_by_a_signal_says_so() {
        // The signal of Ctrl-C does not work here: a background job and its child processes ignore
        // SIGINT.
        let failure = run(Command::new("sh").args(["-c", "kill -KILL $$"])).unwrap_err();
        assert!(failure.0.contains("signal: 9"), "{failure}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = capture(&mut Command::new("handfast-no-such-program")).unwrap_err();
        assert!(failure.0.starts_with("cannot start `handfast-no-such-program`"), "{failure}");
    }

    #[test]
    fn a_probe_tells_success_from_failure() {
        assert!(probe(&mut Command::new("true")));
        assert!(!probe(&mut Command::new("false")));
    }
}
