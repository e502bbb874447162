//! Input and output of a decision.

use std::path::PathBuf;

use serde::{Serialize, Serializer};
use tool::{Effect, Level};

use crate::{Impact, Rule};

/// The properties of a call that the policy reads.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Canonical name of the tool.
    pub tool: &'a str,
    /// Level that the tool states for this call.
    pub level: Level,
    /// All effects of the call. Anything that makes the call more than `safe` must be included: an
    /// effect that is not listed is not judged.
    pub parts: &'a [Part],
    /// True if every change of this call to the workspace can be undone: overlay and checkpoint are
    /// really in force.
    pub undoable_in_force: bool,
    /// True if the command outlives the call, so that it changes the workspace directly.
    pub background: bool,
}

/// One effect and, for an effect on a path, the target of the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Effect as planned.
    #[serde(flatten)]
    pub effect: Effect,
    /// Target of the path after all links, if it differs from the path in the effect. Both are
    /// judged, and the stricter verdict counts.
    #[serde(rename = "leads_to", skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub real: Option<PathBuf>,
    /// Reason why the written file would run automatically, if found by inspection of the files and
    /// not by the name alone.
    #[serde(skip)]
    pub runs: Option<String>,
    /// Reason why the statements that a database client would read from a file are dangerous. Found by
    /// inspection of the files that [`statement_files`](crate::statement_files) names for a command.
    #[serde(skip)]
    pub states: Option<String>,
    /// Symbols that the call would change in the file, if the rules ask about their callers.
    #[serde(skip)]
    pub impact: Impact,
    /// True if the effect uses a secret that is the login of the tool itself.
    #[serde(skip)]
    pub is_login: bool,
}

#[expect(clippy::ref_option, reason = "serde hands the field by reference")]
fn as_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(tool::path_text).serialize(serializer)
}

impl From<Effect> for Part {
    fn from(effect: Effect) -> Self {
        Self { effect, real: None, runs: None, states: None, impact: Impact::Unasked, is_login: false }
    }
}

/// The decision on a call, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// Line of the decision list that applied.
    pub line: Line,
    /// Rule that decided.
    pub rule: Rule,
    /// Explanation for people.
    pub reason: String,
    /// Advice how to change the answer; absent if the call passes.
    pub hint: Option<String>,
    /// Part that decided: an effect, or one command of a line. Absent if the call as a whole decided.
    pub part: Option<String>,
    /// Level that counted: the stated one, or a higher one if the effects require it.
    pub level: Level,
    /// True if an approval counts only on a terminal and only for this call. The calls concerned
    /// are critical, look dangerous or write a file that a later program runs. The value depends on
    /// the effects alone, whichever line decided.
    #[serde(skip)]
    pub terminal_only: bool,
    /// Paths that the call names to write and that a human is asked about, so that an approval
    /// covers them when they are written.
    #[serde(skip)]
    pub named: NamedWrites,
}

/// Paths that the commands of a call name to write, if writing them needs an approval. Absolute, as
/// spelled in the line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedWrites {
    /// Files through which a later program would run code.
    pub run_later: Vec<PathBuf>,
    /// Paths that `allowed_write_paths` does not list.
    pub unlisted: Vec<PathBuf>,
    /// Files whose content may be written to these paths. Some may not exist.
    pub sources: Vec<PathBuf>,
    /// True if content may be written that the line does not name: the content of a revision, or
    /// files that a pattern finds.
    pub unbound: bool,
}

impl NamedWrites {
    /// Returns true if no path is named.
    pub fn is_empty(&self) -> bool {
        self.run_later.is_empty() && self.unlisted.is_empty()
    }

    /// Adds the paths that another part of the call names.
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
    /// Returns the name of the answer on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Check => "check",
            Verdict::Deny => "deny",
        }
    }
}

/// Lines of the decision list, in their order: the first that applies decides. The last line judges what the
/// lines before it let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// 1: a list denies an effect.
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
    /// 10: an edit of code with many callers, which a line from 7 to 9 would let pass.
    Impact,
}

impl Line {
    /// Returns the number of the line in the decision list, from 1.
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
            Line::Impact => 10,
        }
    }
}
