//! Listings for people: longer than the terminal, they go through the user's pager.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use crate::commands::{Failure, print, tokio_runtime};
use crate::host_environment::{HostEnvironment, variable};
use crate::report::covered;
use crate::signals::Signals;

/// Variables that name the pager, in the order of their precedence.
const VARIABLES: [&str; 2] = ["HANDFAST_PAGER", "PAGER"];
/// Pager without these variables.
const USUAL: &str = "less";
/// Options of `less`, as git sets them: end if everything fits, colours, and no alternate screen.
const LESS: &str = "FRX";

/// Prints a listing. On a terminal that has fewer lines, the listing goes through the pager that
/// `HANDFAST_PAGER` or `PAGER` names; an empty value or `cat` means none.
///
/// # Errors
/// If standard output cannot be written.
pub(crate) fn print_listing(text: &str) -> Result<(), Failure> {
    let is_long = io::stdout().is_terminal()
        && io::stdin().is_terminal()
        && rows_of_terminal().is_some_and(|rows| text.lines().count() >= rows);
    let pager = pager();
    if !is_long || pager.is_empty() || pager == "cat" || !shown_by(&pager, text)? {
        return print(text);
    }
    Ok(())
}

/// Returns the command line of the pager, which is empty if there is none.
fn pager() -> String {
    match VARIABLES.iter().find_map(|name| variable(name)) {
        Some(named) => String::from_utf8_lossy(&named).trim().to_owned(),
        None if is_installed(USUAL) => USUAL.to_owned(),
        None => String::new(),
    }
}

fn is_installed(program: &str) -> bool {
    HostEnvironment::of_this_process().search_path.iter().any(|folder| folder.join(program).is_file())
}

/// Returns the number of lines of the terminal.
fn rows_of_terminal() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0).then_some(usize::from(size.ws_row))
}

/// Shows the text by the pager until the user ends the pager. Returns false if the pager cannot be
/// started.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's own command starts the user's own pager, outside of any call"
)]
fn shown_by(pager: &str, text: &str) -> Result<bool, Failure> {
    let mut command = Command::new("sh");
    command.args(["-c", pager]).stdin(Stdio::piped());
    if variable("LESS").is_none() {
        command.env("LESS", LESS);
    }
    tokio_runtime()?.block_on(async {
        // Ctrl-C belongs to the pager.
        let _signals = Signals::listen()?;
        let Ok(mut child) = command.spawn() else { return Ok(false) };
        if let Some(mut input) = child.stdin.take() {
            // The user may end the pager before its input ends.
            let _unread = input.write_all(covered(text).as_bytes());
        }
        let status = child.wait()?;
        // A shell reports 127 for a program that does not exist.
        Ok(status.code() != Some(127))
    })
}
