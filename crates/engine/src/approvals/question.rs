//! The question that a human is asked, and the possible answers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::{BoxFuture, CallId, Level};

use super::host_connection::HostConnection;
use crate::Program;

/// A question to a human: may this call be made? Everything in it has passed through redaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Id of the question in the `EAPPROVAL` error and in the audit.
    pub id: String,
    /// Id of the waiting call.
    pub call: CallId,
    /// Name of the tool.
    pub tool: String,
    /// Level of the call.
    pub level: Level,
    /// Readable lines, one for each effect.
    pub effects: Vec<String>,
    /// Preview of the call: the command as it was parsed, or the difference that a write makes.
    pub preview: Option<String>,
    /// Number of lines that were left out at the end of the preview.
    #[serde(default)]
    pub preview_more_lines: u64,
    /// Reason why the policy asks.
    pub reason: String,
    /// Rule that decided.
    pub rule: String,
    /// True if an approval can be for this one call only: every [`Approval::terminal_only`]
    /// question, and every call that runs code that cannot be named in advance.
    pub once_only: bool,
    /// True if a pattern is possible although `once_only` is set. The pattern counts for calls whose every
    /// change can be undone, whatever code they run.
    #[serde(default)]
    pub patterns_in_the_cell: bool,
    /// True if only a person on a terminal may approve: the call is critical, looks dangerous, or
    /// writes what a later program would run.
    #[serde(default)]
    pub terminal_only: bool,
    /// Scopes beyond this call that are offered, each with what it would cover.
    pub offers: Vec<Offer>,
    /// Kind of a pattern that a person may type. `None` if no pattern is possible.
    pub pattern_kind: Option<PatternKind>,
    /// Suggestion of a wider answer, if calls of this kind were allowed one by one before.
    pub suggestion: Option<String>,
    /// Digest that binds an answer to exactly this plan: the tool, its arguments and effects, and
    /// everything in [`Approval::bound`].
    pub digest: String,
    /// Digest that binds an offer for exactly the same effects.
    pub effects_digest: String,
    /// State of the machine that the answer is bound to, as of the question: targets of paths,
    /// programs and scripts that would run, and files that would be written.
    pub bound: Vec<BoundItem>,
    /// Connections to hosts on no list that the question is about, if it is about connections.
    #[serde(default)]
    pub connections: Vec<HostConnection>,
    /// True if the question is about connections to every host that no list denies.
    #[serde(default)]
    pub every_host: bool,
    /// Commands that reach the state of this question. Set while the question is put, and stored in
    /// no row.
    #[serde(skip)]
    pub program: Program,
}

/// Characters of the effect in the headline of a question: from its beginning, and from its end.
const HEADLINE: (usize, usize) = (120, 40);

impl Approval {
    /// Returns the question as JSON for listeners: what is asked, by which call, and what an answer covers.
    pub(super) fn for_listeners(&self, call: Value) -> Value {
        let mut told = json!({
            "id": self.id,
            "tool": self.tool,
            "level": self.level.to_string(),
            "headline": self.headline(),
            "effects": self.effects,
            "reason": self.reason,
            "rule": self.rule,
            "preview": self.preview,
            "offers": self.offers,
            "show": self.program.command(&format!("approvals show {}", self.id)),
        });
        if let (Value::Object(told), Value::Object(call)) = (&mut told, call) {
            told.extend(call);
        }
        told
    }

    /// Returns the effect that tells most about the call, in one line: a command, otherwise the
    /// first effect that does more than read.
    pub fn headline(&self) -> String {
        let first = |begins: &dyn Fn(&str) -> bool| self.effects.iter().find(|effect| begins(effect));
        let effect = first(&|effect| effect.starts_with("run "))
            .or_else(|| first(&|effect| !effect.starts_with("read ")))
            .or_else(|| self.effects.first());
        let line = tool::visible(effect.map_or(self.tool.as_str(), String::as_str));
        let (begins, ends) = HEADLINE;
        let Some(left_out) = line.chars().count().checked_sub(begins + ends).filter(|left_out| *left_out > 0)
        else {
            return line;
        };
        let end: String = line.chars().skip(begins + left_out).collect();
        let begin: String = line.chars().take(begins).collect();
        format!("{begin} [... {left_out} characters, full text below ...] {end}")
    }

    /// Returns the first lines of the preview and the number of further lines. Returns at most
    /// `most` lines, and only whole lines, up to `characters` characters in all.
    pub fn preview_lines(&self, most: usize, characters: usize) -> (Vec<&str>, u64) {
        let mut left = characters;
        let mut shown = Vec::new();
        let mut lines = self.preview.as_deref().unwrap_or_default().split_terminator('\n').peekable();
        while let Some(line) = lines.next_if(|line| shown.len() < most && line.chars().count() <= left) {
            left -= line.chars().count();
            shown.push(line);
        }
        (shown, lines.count() as u64 + self.preview_more_lines)
    }
}

/// One thing that an answer is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundItem {
    /// Name of the thing, as the subject of a sentence.
    pub what: String,
    /// State of the thing when the question was asked.
    pub was: String,
}

/// Scope of an approval. The order is meaningful: a later variant reaches farther.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The one call.
    Once,
    /// The session of the call.
    Session,
    /// The workspace of the call.
    Project,
    /// All workspaces of this user, for a pattern.
    Always,
}

impl Scope {
    /// All scopes, the narrowest first.
    pub const ALL: [Self; 4] = [Self::Once, Self::Session, Self::Project, Self::Always];

    /// Returns the scope as it is spelled on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Project => "project",
            Self::Always => "always",
        }
    }

    /// Returns the default duration of an approval of this scope: 1 hour for one call, 12 hours for
    /// a session, 30 days for a workspace. A pattern that holds everywhere lasts 8 hours, a working
    /// day.
    pub fn lasts(self) -> Duration {
        match self {
            Self::Once => Duration::from_hours(1),
            Self::Session => Duration::from_hours(12),
            Self::Project => Duration::from_hours(30 * 24),
            Self::Always => Duration::from_hours(8),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not one of once, session, project, always"))
    }
}

/// Kind of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternKind {
    /// Beginning of a command.
    Command,
    /// Paths of the workspace that are written.
    Write,
    /// Folder outside the workspace that is read.
    Read,
}

/// One way in which an approval may reach beyond the call that asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Scope of the offer.
    pub scope: Scope,
    /// Pattern of the offer. `None` if it is for exactly the same effects.
    pub pattern: Option<String>,
    /// Exact description, for people, of what the offer would cover.
    pub covers: String,
    /// Duration in seconds.
    pub seconds: u64,
    /// Number of earlier calls that the offer would have covered, for people, if it has a pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past: Option<String>,
}

impl Offer {
    /// Returns what the offer covers, and what it would have covered.
    pub fn description(&self) -> String {
        match &self.past {
            Some(past) => format!("{}; {past}", self.covers),
            None => self.covers.clone(),
        }
    }
}

/// Answer of the human.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this once.
    Once {
        /// Name of the person who answered, for the audit.
        by: String,
    },
    /// Yes, and for a time also everything that the offer covers.
    Lease {
        /// One of [`Approval::offers`].
        offer: Offer,
        /// Name of the person who answered, for the audit.
        by: String,
    },
    /// Denial.
    Denied {
        /// Name of the person who answered, for the audit.
        by: String,
        /// Message to the agent.
        message: Option<String>,
    },
    /// There is nobody here who can answer now. Somebody elsewhere may.
    Nobody {
        /// Way to get an answer, for the hint of the error.
        hint: String,
    },
    /// The person who was asked has seen the question and left it. The call ends at once, and the
    /// question stays open.
    Unanswered {
        /// Way to get an answer, for the hint of the error.
        hint: String,
    },
    /// The answer comes with another call. This call ends at once.
    Later,
}

/// A way to ask somebody: a terminal, a client that can show a form, or nobody.
pub trait Asker: Send + Sync {
    /// Asks and waits. Must return [`Answer::Nobody`] rather than wait for ever. If somebody
    /// elsewhere answers first, the future is dropped and must withdraw its question.
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer>;

    /// Reports that the call now waits for somebody elsewhere, for at most `most`.
    fn waits_for_others(&self, _approval: &Approval, _most: Duration) {}

    /// Returns true if this can ask somebody while the call runs.
    fn can_ask(&self) -> bool {
        true
    }

    /// Returns true if the answer is known without asking, so that no question has to be stored for
    /// others.
    fn knows_the_answer(&self) -> bool {
        false
    }
}

/// An asker without anybody to ask.
pub struct NoAsker {
    /// Way to get an answer.
    pub hint: String,
}

impl Asker for NoAsker {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody { hint: self.hint.clone() } })
    }

    fn can_ask(&self) -> bool {
        false
    }
}
