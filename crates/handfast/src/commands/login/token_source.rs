//! Sources of a forge's token: typed by the user, or taken from `gh` or git on this machine.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::process::{Command, Output, Stdio};

use vault::{ForgeKind, MAX_BYTES};
use zeroize::Zeroizing;

use crate::cli_login::Place;
use crate::commands::Failure;
use crate::hidden_line;
use crate::report::note;

/// A token, and the user for whom it was stored, if its source knows the user.
pub(super) struct FoundToken {
    pub(super) token: Zeroizing<String>,
    pub(super) user: Option<String>,
}

/// Reads a token from the terminal, or from standard input.
pub(super) fn pasted(place: &Place, kind: ForgeKind) -> Result<FoundToken, Failure> {
    if let Some(page) = page_of_tokens(place, kind)
        && std::io::stdin().is_terminal()
    {
        note(&format!("create a token for the repositories that agents may see: {page}"));
    }
    let mut text = Zeroizing::new(String::with_capacity(MAX_BYTES + 3));
    if std::io::stdin().is_terminal() {
        text = hidden_line::ask(&format!("Token for {place}: "))?;
    } else {
        std::io::stdin().lock().take(MAX_BYTES as u64 + 3).read_to_string(&mut text)?;
    }
    found(&text, None)
}

/// Returns the address at which the user creates a token.
fn page_of_tokens(place: &Place, kind: ForgeKind) -> Option<String> {
    match kind {
        ForgeKind::Github => Some(format!("https://{place}/settings/personal-access-tokens/new")),
        ForgeKind::Gitlab => Some(format!("https://{place}/-/user_settings/personal_access_tokens")),
        _ => None,
    }
}

/// Takes the token with which `gh` is logged in.
pub(super) fn of_gh(place: &Place) -> Result<FoundToken, Failure> {
    let place = place.to_string();
    let run = output("gh", &["auth", "token", "--hostname", &place], "")?;
    if !run.status.success() {
        return Err(Failure::from(format!("gh has no token for {place}: log in with `gh auth login` first")));
    }
    found(&Zeroizing::new(String::from_utf8(run.stdout)?), None)
}

/// Takes the password that git's credential helpers have for the place.
pub(super) fn of_git(place: &Place) -> Result<FoundToken, Failure> {
    let run = output("git", &["credential", "fill"], &format!("protocol=https\nhost={place}\n\n"))?;
    let text = Zeroizing::new(String::from_utf8(run.stdout)?);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    match field("password=") {
        Some(password) if run.status.success() => found(password, field("username=").map(str::to_owned)),
        _ => Err(Failure::from(format!("git's credential helper has nothing for https://{place}"))),
    }
}

fn found(text: &str, user: Option<String>) -> Result<FoundToken, Failure> {
    let token = Zeroizing::new(text.trim().to_owned());
    if token.is_empty() {
        return Err(Failure::usage("there is no token: paste it, or pipe it to the command"));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage("a token is one line of printable ASCII characters without spaces"));
    }
    Ok(FoundToken { token, user })
}

/// Runs a program of the user, in an empty folder: the configuration of a repository that happens to
/// be the current folder must not choose programs.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's own command runs the user's own programs, outside of any call"
)]
fn output(program: &str, arguments: &[&str], input: &str) -> Result<Output, Failure> {
    let folder = tempfile::tempdir()?;
    let stdin = folder.path().join("input");
    File::create_new(&stdin)?.write_all(input.as_bytes())?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder.path())
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GCM_INTERACTIVE", "never")
        .env("GIT_ASKPASS", "")
        .env("SSH_ASKPASS", "")
        .env("GIT_CEILING_DIRECTORIES", folder.path().parent().unwrap_or(folder.path()))
        .stdin(File::open(&stdin)?)
        .stderr(Stdio::null());
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG"] {
        command.env_remove(name);
    }
    command.output().map_err(|error| Failure::from(format!("cannot run {program}: {error}")))
}
