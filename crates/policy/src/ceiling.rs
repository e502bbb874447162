//! Upper bounds for a call on behalf of another caller: a scheduled task, a sub-agent, a plugin.
//!
//! A ceiling is only ever met with another one, and no part of it can loosen an answer. The creator
//! of a sub-caller gives it the meeting of its own ceiling and the wanted one. So no chain of
//! callers gains rights.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use tool::{Access, Effect, Level};

use crate::path::meet_roots;
use crate::{Decision, Line, Mode, Origin, Part, Policy, Request, Rule, Verdict};

/// Upper bound of what a caller may do. The default has no bound: only the policy of the runtime counts.
#[derive(Debug, Clone)]
pub struct Ceiling {
    /// Highest level of a call.
    pub level: Level,
    /// Kinds of effects that a call may have.
    pub effects: EffectKinds,
    /// Mode, which counts if it is stricter than that of the policy.
    pub mode: Mode,
    /// True if a human may be asked. If false, calls that need a question are denied.
    pub may_ask: bool,
    /// Time from which every call is denied.
    pub expires_at: Option<Timestamp>,
    /// Canonical names of the tools that may be called; `None` for all.
    pub tools: Option<Arc<BTreeSet<String>>>,
    /// Policies that must all agree, in addition to that of the runtime. Each must be compiled for
    /// the workspace of the runtime: with a policy for another workspace every call is denied.
    pub policies: Vec<Arc<Policy>>,
}

/// A kind of effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectKind {
    /// Reading files.
    Read,
    /// Creating and changing files.
    Write,
    /// Removing files.
    Delete,
    /// Running programs. In its cell a program can do to files what the other kinds allow, and it
    /// needs to read.
    Run,
    /// Connecting to other machines.
    Connect,
    /// Using secrets.
    UseSecret,
    /// Changing databases.
    DatabaseWrite,
    /// Scheduling work that runs later.
    Schedule,
    /// Changing Handfast itself.
    ChangeHandfast,
}

impl EffectKind {
    /// All kinds.
    pub const ALL: [EffectKind; 9] = [
        EffectKind::Read,
        EffectKind::Write,
        EffectKind::Delete,
        EffectKind::Run,
        EffectKind::Connect,
        EffectKind::UseSecret,
        EffectKind::DatabaseWrite,
        EffectKind::Schedule,
        EffectKind::ChangeHandfast,
    ];

    /// Returns the kind of an effect.
    pub fn of(effect: &Effect) -> Self {
        match effect {
            Effect::Read { .. } => EffectKind::Read,
            Effect::Write { .. } => EffectKind::Write,
            Effect::Delete { .. } => EffectKind::Delete,
            // The other program is bounded as a command is.
            Effect::Run { .. } | Effect::UseTool { .. } => EffectKind::Run,
            Effect::Connect { .. } | Effect::Act { .. } | Effect::Browse { .. } => EffectKind::Connect,
            Effect::UseSecret { .. } => EffectKind::UseSecret,
            Effect::DatabaseWrite { .. } => EffectKind::DatabaseWrite,
            Effect::Schedule { .. } => EffectKind::Schedule,
            Effect::ChangeHandfast { .. } => EffectKind::ChangeHandfast,
        }
    }

    /// Returns the name of the kind, which is that of the effect on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            EffectKind::Read => "read",
            EffectKind::Write => "write",
            EffectKind::Delete => "delete",
            EffectKind::Run => "run",
            EffectKind::Connect => "connect",
            EffectKind::UseSecret => "use_secret",
            EffectKind::DatabaseWrite => "database_write",
            EffectKind::Schedule => "schedule",
            EffectKind::ChangeHandfast => "change_handfast",
        }
    }

    fn bit(self) -> u16 {
        match self {
            EffectKind::Read => 1,
            EffectKind::Write => 2,
            EffectKind::Delete => 4,
            EffectKind::Run => 8,
            EffectKind::Connect => 16,
            EffectKind::UseSecret => 32,
            EffectKind::DatabaseWrite => 64,
            EffectKind::ChangeHandfast => 128,
            EffectKind::Schedule => 256,
        }
    }
}

/// A set of kinds of effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectKinds(u16);

impl EffectKinds {
    /// All kinds.
    pub const ALL: EffectKinds = EffectKinds(0x1ff);
    /// The empty set.
    pub const NONE: EffectKinds = EffectKinds(0);

    /// Creates a set of these kinds.
    pub fn of(kinds: &[EffectKind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | kind.bit()))
    }

    /// Returns true if the kind is in the set.
    pub fn has(self, kind: EffectKind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// Returns the kinds that are in both sets.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns true if files may be read, or written. In a cell, a program that may write may also remove.
    fn allow(self, access: Access) -> bool {
        match access {
            Access::Read => self.has(EffectKind::Read),
            Access::Write => self.has(EffectKind::Write) || self.has(EffectKind::Delete),
        }
    }
}

impl Default for Ceiling {
    fn default() -> Self {
        Self {
            level: Level::Critical,
            effects: EffectKinds::ALL,
            mode: Mode::FullAuto,
            may_ask: true,
            expires_at: None,
            tools: None,
            policies: Vec::new(),
        }
    }
}

impl Ceiling {
    /// Returns the ceiling with one more policy that must agree.
    #[must_use]
    pub fn with_policy(mut self, policy: Arc<Policy>) -> Self {
        if !self.policies.iter().any(|known| Arc::ptr_eq(known, &policy)) {
            self.policies.push(policy);
        }
        self
    }

    /// Returns a ceiling that allows only what both allow.
    #[must_use]
    pub fn meet(&self, other: &Ceiling) -> Ceiling {
        let expires_at = match (self.expires_at, other.expires_at) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        let tools = match (&self.tools, &other.tools) {
            (Some(one), Some(two)) => Some(Arc::new(one.intersection(two).cloned().collect())),
            (one, two) => one.as_ref().or(two.as_ref()).cloned(),
        };
        let met = Ceiling {
            level: self.level.min(other.level),
            effects: self.effects.both(other.effects),
            mode: self.mode.max(other.mode),
            may_ask: self.may_ask && other.may_ask,
            expires_at,
            tools,
            policies: self.policies.clone(),
        };
        other.policies.iter().cloned().fold(met, Ceiling::with_policy)
    }

    /// Returns true if the ceiling bounds nothing.
    pub fn is_unbounded(&self) -> bool {
        *self == Ceiling::default()
    }

    /// Returns true if the ceiling has its own policies, in addition to that of the runtime.
    pub fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    /// Returns the part of the ceiling that bounds the connections of programs. Two callers with
    /// equal parts may share an egress proxy.
    #[must_use]
    pub fn of_connections(&self) -> Ceiling {
        let kinds = EffectKinds::of(&[EffectKind::Connect, EffectKind::UseSecret]);
        let (effects, policies) = (self.effects.both(kinds), self.policies.clone());
        Ceiling { effects, policies, may_ask: self.may_ask, ..Ceiling::default() }
    }

    /// Returns true if the ceiling has expired, so that every call is denied.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Returns the first bound that a call exceeds by its tool, its level, its time or its effects, whatever
    /// the lists allow.
    fn overstepped(&self, level: Level, request: &Request<'_>) -> Option<(String, String)> {
        let Request { tool, parts, background, .. } = *request;
        if self.tools.as_ref().is_some_and(|tools| !tools.contains(tool)) {
            return Some(("tools".to_owned(), format!("{tool} is none of the tools of this caller")));
        }
        if level > self.level {
            let entry = format!("level {}", self.level);
            return Some((entry, format!("calls of level {level} are above the limit of this caller")));
        }
        if background && self.expires_at.is_some() {
            let reason = "a background program would outlive the permissions of this caller".to_owned();
            return Some(("expires_at".to_owned(), reason));
        }
        let forbidden = |part: &Part| {
            let kind = EffectKind::of(&part.effect);
            let needed = if kind == EffectKind::Run { &[kind, EffectKind::Read][..] } else { &[kind][..] };
            needed.iter().find(|kind| !self.effects.has(**kind)).copied()
        };
        let kind = parts.iter().find_map(forbidden)?;
        Some((format!("effects without {}", kind.as_str()), format!("this caller may not {}", verb(kind))))
    }
}

impl PartialEq for Ceiling {
    fn eq(&self, other: &Self) -> bool {
        let has_all = |one: &Ceiling, two: &Ceiling| {
            one.policies.iter().all(|policy| two.policies.iter().any(|other| Arc::ptr_eq(policy, other)))
        };
        self.level == other.level
            && self.effects == other.effects
            && self.mode == other.mode
            && self.may_ask == other.may_ask
            && self.expires_at == other.expires_at
            && self.tools == other.tools
            && has_all(self, other)
            && has_all(other, self)
    }
}

fn verb(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::Read => "read files",
        EffectKind::Write => "write files",
        EffectKind::Delete => "remove files",
        EffectKind::Run => "run programs",
        EffectKind::Connect => "connect to other machines",
        EffectKind::UseSecret => "use secrets",
        EffectKind::DatabaseWrite => "change databases",
        EffectKind::Schedule => "schedule work",
        EffectKind::ChangeHandfast => "change Handfast",
    }
}

/// Bounds that a ceiling adds to a policy under it.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) ceiling: Ceiling,
    /// Policies of the ceiling, each in the ceiling's mode if that is stricter.
    policies: Vec<Arc<Policy>>,
    /// Rules that deny every path because of the kinds of effects.
    reads: Option<Rule>,
    writes: Option<Rule>,
}

impl Policy {
    /// Returns the policy for a caller under this ceiling. Its decisions, roots and path verdicts
    /// are never looser than without the ceiling, or than under either part of a meeting.
    #[must_use]
    pub fn under(&self, ceiling: &Ceiling) -> Policy {
        let mut ceiling =
            self.bounds.as_ref().map_or_else(|| ceiling.clone(), |bounds| bounds.ceiling.meet(ceiling));
        if ceiling.policies.iter().any(|policy| policy.workspace != self.workspace) {
            // The rules of a policy for another workspace would be about another folder.
            ceiling.effects = EffectKinds::NONE;
        }
        let mut narrowed = self.clone();
        for policy in &ceiling.policies {
            narrowed.reads.narrow(&policy.reads);
            narrowed.writes.narrow(&policy.writes);
            narrowed.roots = meet_roots(&narrowed.roots, &policy.roots);
            narrowed.limits.1 = narrowed.limits.1.lower(policy.limits());
            narrowed.strict |= policy.strict;
            if policy.isolation.0 > narrowed.isolation.0 {
                narrowed.isolation = policy.isolation.clone();
            }
            if policy.commands_see.0 > narrowed.commands_see.0 {
                narrowed.commands_see = policy.commands_see.clone();
            }
            if policy.callers_over.0 > narrowed.callers_over.0 {
                narrowed.callers_over = policy.callers_over.clone();
            }
            if policy.parent_may_answer.0 > narrowed.parent_may_answer.0 {
                narrowed.parent_may_answer = policy.parent_may_answer.clone();
            }
            narrowed.denies_commands |= policy.denies_commands;
            let known = |path| narrowed.protected.iter().any(|(known, _)| known == path);
            let more: Vec<_> = policy.protected.iter().filter(|(path, _)| !known(path)).cloned().collect();
            narrowed.protected.extend(more);
        }
        let stricter = |policy: &Policy| {
            let rule = (ceiling.mode, Origin::Ceiling);
            if ceiling.mode > policy.mode.0 { rule } else { policy.mode.clone() }
        };
        narrowed.mode = stricter(&narrowed);
        let in_its_mode = |policy: &Arc<Policy>| {
            Arc::new(Policy { mode: stricter(policy), bounds: None, ..Policy::clone(policy) })
        };
        let policies = ceiling.policies.iter().map(in_its_mode).collect();
        let denial = |access: Access, entry: &str| {
            let rule = || self.setting(CEILING, entry, Origin::Ceiling);
            (!ceiling.effects.allow(access)).then(rule)
        };
        let (reads, writes) =
            (denial(Access::Read, "effects without read"), denial(Access::Write, "effects without write"));
        let removes = ceiling.effects.has(EffectKind::Delete) && ceiling.effects.has(EffectKind::Write);
        for root in &mut narrowed.roots {
            root.read &= reads.is_none();
            root.write &= writes.is_none();
        }
        narrowed.cell_writes &= removes;
        narrowed.bounds = Some(Arc::new(Bounds { ceiling, policies, reads, writes }));
        narrowed
    }

    /// Returns true if the cells of this policy may change anything that they show. A cell cannot distinguish
    /// writing from removing, so a caller needs both rights to change anything in a cell.
    pub fn cell_writes(&self) -> bool {
        self.cell_writes
    }

    /// Combines the policy's own decision with those of the ceiling: the strictest counts.
    pub(crate) fn bounded(&self, own: Decision, request: &Request<'_>) -> Decision {
        let Some(bounds) = &self.bounds else { return own };
        let deny = |entry: &str, reason: String| Decision {
            verdict: Verdict::Deny,
            line: Line::Denied,
            rule: self.setting(CEILING, entry, Origin::Ceiling),
            reason,
            hint: Some("the creator of this caller must make the call, or allow the caller more".to_owned()),
            ..own.clone()
        };
        if let Some((entry, reason)) = bounds.ceiling.overstepped(own.level, request)
            && own.verdict != Verdict::Deny
        {
            return deny(&entry, reason);
        }
        let others = bounds.policies.iter().map(|policy| policy.decide(request));
        let strictest = others.fold(own.clone(), |strictest, other| {
            let terminal_only = strictest.terminal_only || other.terminal_only;
            let mut named = strictest.named.clone();
            named.extend(other.named.clone());
            let strictest = if other.verdict > strictest.verdict { other } else { strictest };
            Decision { terminal_only, named, ..strictest }
        });
        if strictest.verdict == Verdict::Check && !bounds.ceiling.may_ask {
            return deny("may_ask", format!("this caller may not ask for approval: {}", strictest.reason));
        }
        strictest
    }

    /// Returns true if the ceiling allows this kind of effect. A policy without a ceiling allows all.
    pub(crate) fn bounds_allow(&self, kind: EffectKind) -> bool {
        self.bounds.as_ref().is_none_or(|bounds| bounds.ceiling.effects.has(kind))
    }

    /// Returns the policies of the ceiling, which must all agree.
    pub(crate) fn bounding(&self) -> impl Iterator<Item = &Policy> {
        self.bounds.iter().flat_map(|bounds| bounds.policies.iter().map(Arc::as_ref))
    }

    /// Returns the rule by which the ceiling denies every path for this access.
    pub(crate) fn beyond(&self, access: Access) -> Option<&Rule> {
        let bounds = self.bounds.as_ref()?;
        match access {
            Access::Read => bounds.reads.as_ref(),
            Access::Write => bounds.writes.as_ref(),
        }
    }
}

/// Key that a decision names for a ceiling.
const CEILING: &str = "ceiling";
