//! Pushes: the commands for refs, and what follows them (`gitprotocol-pack`, "Reference update
//! request").

use std::fmt;

use crate::pack::{self, Pack};
use crate::pkt_line::{self, PktLine, PktLineError};
use crate::shown::{list, shown};

/// Maximum number of refs of one push.
const MAX_COMMANDS: usize = 10_000;
/// Maximum length of the name of a ref, in bytes.
const LONGEST_NAME: usize = 1024;
/// Maximum length of a body that is read to its end, so that its commits can be counted, in bytes.
pub(crate) const COUNTED: u64 = 1024 * 1024;
/// Maximum number of refs that a description names.
const NAMED: usize = 10;
/// Maximum number of characters of a name in a description.
const NAME: usize = 100;

/// A push of refs to a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Path of the repository at its host, without `.git`.
    pub repository: String,
    /// Commands, in the order of the request; at least one.
    pub commands: Vec<RefCommand>,
    /// Options that the server interprets.
    pub options: Vec<String>,
    /// Number of commits that are sent, if the whole pack is known.
    pub commits: Option<usize>,
    /// Capabilities that the client named.
    pub(crate) capabilities: Vec<String>,
}

/// A command for one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefCommand {
    /// Full name, which is valid for git and begins with `refs/`.
    pub name: String,
    /// Change of the ref.
    pub change: RefChange,
}

/// Change of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefChange {
    /// The ref is new.
    Create,
    /// The new commit follows the old one.
    Continue,
    /// The ref moves, perhaps away from commits that it has now.
    Move,
    /// The ref is deleted.
    Delete,
}

impl RefCommand {
    /// Returns the name of the branch, if the ref is a branch.
    pub fn branch(&self) -> Option<&str> {
        self.name.strip_prefix("refs/heads/")
    }

    fn shown_name(&self) -> String {
        let (kind, name) = match (self.branch(), self.name.strip_prefix("refs/tags/")) {
            (Some(branch), _) => ("", branch),
            (None, Some(tag)) => ("tag ", tag),
            (None, None) => ("", self.name.as_str()),
        };
        format!("{kind}`{}`", shown(name, NAME))
    }
}

impl RefChange {
    fn words(self) -> &'static str {
        match self {
            Self::Create => "new",
            Self::Continue => "",
            Self::Move => "may drop commits that are there",
            Self::Delete => "delete",
        }
    }
}

impl fmt::Display for Push {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repository = shown(&self.repository, NAME);
        let is_deletion = |command: &&RefCommand| command.change == RefChange::Delete;
        let names = |commands: Vec<&RefCommand>| {
            let words = |command: &RefCommand| match command.change.words() {
                "" | "delete" => command.shown_name(),
                words => format!("{} ({words})", command.shown_name()),
            };
            let names: Vec<String> = commands.iter().take(NAMED + 1).map(|command| words(command)).collect();
            let more = commands.len().saturating_sub(NAMED);
            let named = list(names.iter().take(NAMED).map(String::as_str), NAMED);
            if more > 0 { format!("{named}, and {more} more refs") } else { named }
        };
        let (deleted, pushed): (Vec<_>, Vec<_>) = self.commands.iter().partition(is_deletion);
        if !deleted.is_empty() {
            write!(formatter, "delete {}", names(deleted))?;
        }
        if !pushed.is_empty() {
            let and = if self.commands.len() > pushed.len() { " and " } else { "" };
            let commits = match self.commits {
                Some(1) => "1 commit ".to_owned(),
                Some(commits) => format!("{commits} commits "),
                None => String::new(),
            };
            write!(formatter, "{and}push {commits}to {}", names(pushed))?;
        }
        write!(formatter, " of {repository}")?;
        if !self.options.is_empty() {
            let options: Vec<String> =
                self.options.iter().map(|option| format!("`{}`", shown(option, NAME))).collect();
            write!(formatter, ", with the options {}", list(options.iter().map(String::as_str), NAMED))?;
        }
        Ok(())
    }
}

/// Failure to understand a push.
pub(crate) enum PushError {
    Partial,
    Unclear(&'static str),
}

impl From<PktLineError> for PushError {
    fn from(error: PktLineError) -> Self {
        match error {
            PktLineError::Partial => Self::Partial,
            PktLineError::Length => Self::Unclear("a line of the push has an invalid length"),
        }
    }
}

/// Reads the commands, and what follows them as far as it has arrived.
///
/// # Errors
/// Fails if the push is not understood, or needs more of the body.
pub(crate) fn read(repository: &str, body: &[u8], is_whole: bool) -> Result<Push, PushError> {
    let mut rest = body;
    let mut commands: Vec<(RefCommand, &str, &str)> = Vec::new();
    let mut capabilities = Vec::new();
    loop {
        let line = match pkt_line::next(&mut rest)? {
            PktLine::Flush => break,
            PktLine::Data(line) => line,
        };
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(id) = line.strip_prefix(b"shallow ") {
            id_of(id)?;
            continue;
        }
        let (command, after) = match line.iter().position(|byte| *byte == 0) {
            Some(at) => (&line[..at], Some(&line[at + 1..])),
            None => (line, None),
        };
        if let Some(after) = after {
            // Git reads the capabilities of every command, but clients send one list.
            if !commands.is_empty() {
                return Err(PushError::Unclear("the push has two lists of capabilities"));
            }
            let text = std::str::from_utf8(after)
                .map_err(|_| PushError::Unclear("the push has an invalid list of capabilities"))?;
            capabilities = text.split_ascii_whitespace().map(str::to_owned).collect();
        }
        let command = ref_command(command)?;
        if commands.first().is_some_and(|(_, first, _)| first.len() != command.1.len()) {
            return Err(PushError::Unclear("the push has ids of two kinds"));
        }
        commands.push(command);
        if commands.len() > MAX_COMMANDS {
            return Err(PushError::Unclear("the push has more than 10,000 refs"));
        }
    }
    let Some((_, id, _)) = commands.first() else {
        return Err(PushError::Unclear("the push has no command"));
    };
    let digits = id.len();
    let options =
        if capabilities.iter().any(|name| name == "push-options") { options(&mut rest)? } else { Vec::new() };
    let pack = content(rest, is_whole, digits)?;
    let changes = commands.iter().map(|(command, old, new)| {
        let follows = pack.as_ref().is_some_and(|pack| pack.leads_to(new, old));
        let change =
            if command.change == RefChange::Move && follows { RefChange::Continue } else { command.change };
        RefCommand { name: command.name.clone(), change }
    });
    Ok(Push {
        repository: repository.to_owned(),
        commands: changes.collect(),
        options,
        commits: pack.map(|pack| pack.commits()),
        capabilities,
    })
}

/// Checks that an id is one, and returns its digits.
fn id_of(id: &[u8]) -> Result<&str, PushError> {
    let is_id = matches!(id.len(), 40 | 64) && id.iter().all(u8::is_ascii_hexdigit);
    let id = std::str::from_utf8(id).ok().filter(|_| is_id);
    id.ok_or(PushError::Unclear("a line of the push is not a command"))
}

/// Reads a command with its old and its new id.
fn ref_command(line: &[u8]) -> Result<(RefCommand, &str, &str), PushError> {
    let unknown = || PushError::Unclear("a line of the push is not a command");
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (Some(old), Some(new), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(unknown());
    };
    let (old, new) = (id_of(old)?, id_of(new)?);
    if old.len() != new.len() {
        return Err(unknown());
    }
    let name = std::str::from_utf8(name).ok().filter(|name| is_ref(name));
    let name = name.ok_or(PushError::Unclear("the push has an invalid name of a ref"))?.to_owned();
    let is_none = |id: &str| id.bytes().all(|digit| digit == b'0');
    let change = match (is_none(old), is_none(new)) {
        (true, true) => return Err(unknown()),
        (true, false) => RefChange::Create,
        (false, true) => RefChange::Delete,
        (false, false) => RefChange::Move,
    };
    Ok((RefCommand { name, change }, old, new))
}

/// Returns true if git accepts the name of a ref (`git check-ref-format`).
fn is_ref(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("refs/") else { return false };
    let is_wrong = |letter: char| letter.is_ascii_control() || " ~^:?*[\\".contains(letter);
    let part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && part.strip_suffix(".lock").is_none();
    name.len() <= LONGEST_NAME
        && !name.chars().any(is_wrong)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && rest.split('/').all(part)
}

fn options(rest: &mut &[u8]) -> Result<Vec<String>, PushError> {
    let mut options = Vec::new();
    loop {
        match pkt_line::next(rest)? {
            PktLine::Flush => return Ok(options),
            PktLine::Data(line) => {
                options.push(String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)).into_owned());
            }
        }
        if options.len() > MAX_COMMANDS {
            return Err(PushError::Unclear("the push has too many options"));
        }
    }
}

/// Checks that a pack or nothing follows the commands. Returns the pack if all of it is there.
fn content(rest: &[u8], is_whole: bool, digits: usize) -> Result<Option<Pack>, PushError> {
    const MAGIC: &[u8] = b"PACK";
    match rest.len() {
        0 if is_whole => Ok(None),
        length if length < MAGIC.len() && !is_whole => Err(PushError::Partial),
        _ if !rest.starts_with(MAGIC) => {
            Err(PushError::Unclear("something else than a pack follows the refs of the push"))
        }
        _ if is_whole => Ok(pack::read(rest, digits)),
        _ => Ok(None),
    }
}
