use std::path::PathBuf;

use serde::{Serialize, Serializer};
use tool::{Effect, Level};

use crate::Rule;

/// A call, as far as the policy looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The tool's canonical name.
    pub tool: &'a str,
    /// The level that the tool states for this call.
    pub level: Level,
    /// Everything the call would do. What makes the call more than `safe` must be among it: a part that is not named is not judged.
    pub parts: &'a [Part],
    /// Whether every change this call can make to the workspace will be undoable: overlay and checkpoint are really in force.
    pub undoable_in_force: bool,
    /// Whether the command outlives the call, so that it changes the workspace directly.
    pub background: bool,
}

/// One effect and, for one on a path, where that path really leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The effect as planned.
    #[serde(flatten)]
    pub effect: Effect,
    /// The path behind all links, where it differs from the one in the effect. Both are judged, the stricter counts.
    #[serde(rename = "leads_to", skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub real: Option<PathBuf>,
    /// Why what is written there would run by itself, where that was found by looking at the files and not by the name alone.
    #[serde(skip)]
    pub runs: Option<String>,
    /// Why the statements are dangerous that a database client would read from a file. Of a command, found by looking at the
    /// files that [`statement_files`](crate::statement_files) names.
    #[serde(skip)]
    pub states: Option<String>,
    /// Whether the effect uses a secret that is the login of the tool itself.
    #[serde(skip)]
    pub is_login: bool,
}

#[expect(clippy::ref_option, reason = "serde hands the field by reference")]
fn as_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(tool::path_text).serialize(serializer)
}

impl From<Effect> for Part {
    fn from(effect: Effect) -> Self {
        Self { effect, real: None, runs: None, states: None, is_login: false }
    }
}

/// What the policy says to a call, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// The line of the decision list that applied.
    pub line: Line,
    /// The rule that decided.
    pub rule: Rule,
    /// What happened, for people.
    pub reason: String,
    /// How to change it; absent where the call passes.
    pub hint: Option<String>,
    /// The part that decided: an effect, or one command of a line; absent where the call as a whole did.
    pub part: Option<String>,
    /// The level that counted: the stated one, or a higher one where the effects call for it.
    pub level: Level,
    /// Whether a yes counts only on a terminal and for this one call: for what is critical, looks dangerous, or writes a file that a
    /// later program runs. It follows from the effects alone, whichever line decided.
    #[serde(skip)]
    pub terminal_only: bool,
    /// What the call names to write and a human is asked about, so that a yes covers it once it is written.
    #[serde(skip)]
    pub named: NamedWrites,
}

/// Paths that the commands of a call name to write, where writing them needs an approval. Absolute, as the line spells them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedWrites {
    /// Files through which a later program would run code.
    pub run_later: Vec<PathBuf>,
    /// Paths that `allowed_write_paths` does not list.
    pub unlisted: Vec<PathBuf>,
    /// Files whose content may go there. Some may not exist.
    pub sources: Vec<PathBuf>,
    /// Whether something may go there that the line does not name: the content of a revision, files that a pattern finds.
    pub unbound: bool,
}

impl NamedWrites {
    /// Whether no path is named.
    pub fn is_empty(&self) -> bool {
        self.run_later.is_empty() && self.unlisted.is_empty()
    }

    /// Adds what another part of the call names.
    pub(crate) fn extend(&mut self, other: Self) {
        let Self { run_later, unlisted, sources, unbound } = other;
        self.run_later.extend(run_later);
        self.unlisted.extend(unlisted);
        self.sources.extend(sources);
        self.unbound |= unbound;
    }
}

/// The three answers of the MSC source. The order is meaningful: a later variant is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call runs.
    Pass,
    /// A human is asked.
    Check,
    /// The call does not run.
    Deny,
}

impl Verdict {
    /// The answer's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Check => "check",
            Verdict::Deny => "deny",
        }
    }
}

/// The lines of the decision list, in their order: the first that applies decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// 1: an effect is denied by a list.
    Denied,
    /// 2: a dangerous pattern.
    Dangerous,
    /// 3: the level is critical.
    Critical,
    /// 4: the mode is `ask_always`.
    AskAlways,
    /// 5: a command that could hide a denied one.
    Uncertain,
    /// 6: a path or a host that is not listed, or a file through which a later program would run code.
    Unlisted,
    /// 7: only reads, read-only or listed commands, and writes to listed paths.
    Allowed,
    /// 8: every change can be undone.
    Undoable,
    /// 9: the table of modes and levels.
    Table,
}

impl Line {
    /// The line's number in the decision list, from 1.
    pub fn number(self) -> u8 {
        match self {
            Line::Denied => 1,
            Line::Dangerous => 2,
            Line::Critical => 3,
            Line::AskAlways => 4,
            Line::Uncertain => 5,
            Line::Unlisted => 6,
            Line::Allowed => 7,
            Line::Undoable => 8,
            Line::Table => 9,
        }
    }
}
