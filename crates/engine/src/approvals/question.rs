//! What a human is asked, and what they may say.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tool::{BoxFuture, CallId, Level};

use crate::Program;

/// A question to a human: may this call be made? Everything in it has been seen by the redaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// What the `EAPPROVAL` error and the audit call it.
    pub id: String,
    /// The call that waits.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The level of the call.
    pub level: Level,
    /// Every effect, one readable line each.
    pub effects: Vec<String>,
    /// What else there is to see: the command as it was read, the difference that a write makes.
    pub preview: Option<String>,
    /// How many lines were left out at the end of the preview.
    #[serde(default)]
    pub preview_more_lines: u64,
    /// Why the policy asks.
    pub reason: String,
    /// The rule that decided.
    pub rule: String,
    /// A yes can only be for this one call: what [`Approval::terminal_only`] names, and what runs code that cannot be named.
    pub once_only: bool,
    /// Only a person on a terminal may say yes: it is critical, looks dangerous, or writes what a later program would run.
    #[serde(default)]
    pub terminal_only: bool,
    /// How far a yes may reach beyond this call, and what each would cover.
    pub offers: Vec<Offer>,
    /// What a pattern that somebody types would be one of; none where no pattern is possible.
    pub pattern_kind: Option<PatternKind>,
    /// What to think of, where calls of this kind were allowed one by one before.
    pub suggestion: Option<String>,
    /// Binds an answer to exactly this plan: the tool, its arguments and effects, and what [`Approval::bound`] lists.
    pub digest: String,
    /// Binds what is offered for exactly the same effects.
    pub effects_digest: String,
    /// What of the machine the answer is bound to: where paths lead, the programs and scripts that would run, the files that
    /// would be written, each as it was when it was asked.
    pub bound: Vec<Bound>,
    /// How commands reach the state that the question stands in. Known while the question is put, and kept in no row.
    #[serde(skip)]
    pub program: Program,
}

/// Characters of what a call would do in one line of a question: so many of its beginning and of its end.
const HEADLINE: (usize, usize) = (120, 40);

impl Approval {
    /// The effect that tells most of the call, in one line: a command, or else the first that does more than read.
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
        format!("{begin} [... {left_out} characters, whole below ...] {end}")
    }

    /// The first lines of the preview, and how many it has besides. At most so many lines, and whole ones up to so many characters.
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
pub struct Bound {
    /// What it is, as the subject of a sentence.
    pub what: String,
    /// How it was.
    pub was: String,
}

/// How far a yes reaches. The order is meaningful: a later variant reaches farther.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This one call.
    Once,
    /// This session.
    Session,
    /// This workspace.
    Project,
    /// Every workspace of this user, for a pattern.
    Always,
}

impl Scope {
    /// All of them, the narrowest first.
    pub const ALL: [Self; 4] = [Self::Once, Self::Session, Self::Project, Self::Always];

    /// The word for it, as on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Project => "project",
            Self::Always => "always",
        }
    }

    /// How long a yes of this reach is good for, unless somebody says otherwise: one hour to make the one call, a session's
    /// longest day, a month for a project, a working day for a pattern that holds everywhere.
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
            .ok_or_else(|| format!("`{text}` is none of once, session, project, always"))
    }
}

/// What a pattern is one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternKind {
    /// The beginning of a command.
    Command,
    /// Paths of the workspace that are written.
    Write,
    /// A folder outside the workspace that is read.
    Read,
}

/// One way in which a yes may reach beyond the call that asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// How far it reaches.
    pub scope: Scope,
    /// The pattern that it is for; none where it is for exactly the same effects.
    pub pattern: Option<String>,
    /// Exactly what it would cover, for people.
    pub covers: String,
    /// How long, in seconds.
    pub seconds: u64,
}

/// What the human said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this once.
    Once {
        /// Who said so, for the audit.
        by: String,
    },
    /// Yes, and for a time also what the offer says.
    Lease {
        /// One of [`Approval::offers`].
        offer: Offer,
        /// Who said so, for the audit.
        by: String,
    },
    /// No.
    Denied {
        /// Who said so, for the audit.
        by: String,
        /// A word for the agent.
        message: Option<String>,
    },
    /// There is nobody here who could answer now; somebody elsewhere may.
    Nobody {
        /// How an answer could be had, for the hint of the error.
        hint: String,
    },
    /// Whoever was asked has seen the question and left it: the call ends at once, and the question stays open.
    Unanswered {
        /// How an answer could be had, for the hint of the error.
        hint: String,
    },
    /// The answer comes with another call: this one ends at once.
    Later,
}

/// Whoever can be asked: a terminal, a client that can show a form, nobody.
pub trait Asker: Send + Sync {
    /// Asks and waits. Must come back with [`Answer::Nobody`] rather than wait for ever. When somebody elsewhere is faster,
    /// this is dropped, and takes its question back.
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer>;

    /// Hears that the call now waits for somebody elsewhere, for at most this long.
    fn waits_for_others(&self, _approval: &Approval, _most: Duration) {}

    /// Whether the answer is known without asking, so that no question has to be kept for others.
    fn knows_the_answer(&self) -> bool {
        false
    }
}

/// Nobody is there to answer.
pub struct NoAsker {
    /// How an answer could be had.
    pub hint: String,
}

impl Asker for NoAsker {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody { hint: self.hint.clone() } })
    }
}
