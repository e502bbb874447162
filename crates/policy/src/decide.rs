//! The decision. Each part of a call is judged, and then the first line of the list that applies to
//! any part decides.

use std::collections::BTreeSet;

use tool::{Effect, Level, PageAccess};

use crate::judge::{Cause, Judgement, change_rule};
use crate::{
    Dangerous, Decision, Line, Mode, NamedWrites, Origin, Part, Policy, Request, Rule, Undoable, Verdict,
};

impl Policy {
    /// Decides a call.
    ///
    /// The order of the parts does not affect the verdict, and one more part never loosens it.
    pub fn decide(&self, request: &Request<'_>) -> Decision {
        let judged: Vec<Judgement> = request.parts.iter().map(|part| self.judge_for(request, part)).collect();
        // A request to a server with the login that the user made for the tool only reads. Any
        // other use of a secret does more.
        let asks = |part: &Part| part.effect.only_reads() || part.effect.only_asks() || part.is_login;
        let only_asks = request.parts.iter().all(asks);
        let least = |part: &Part| if part.is_login && only_asks { Level::Safe } else { least_level(part) };
        let level = request.parts.iter().map(least).fold(self.stated(request), Ord::max);
        let terminal_only = level == Level::Critical
            || judged.iter().any(|judged| judged.dangerous.is_some() || judged.runs_later.is_some());
        let mut named = NamedWrites::default();
        for judged in &judged {
            named.extend(judged.named.clone());
        }
        let call = Call { policy: self, request, judged: &judged, level, terminal_only };

        // INVARIANT: the lines stand in their order, and the first that applies decides.
        let own = call
            .denied()
            .or_else(|| call.dangerous())
            .or_else(|| call.critical())
            .or_else(|| call.ask_always())
            .or_else(|| call.uncertain())
            .or_else(|| call.unlisted())
            .or_else(|| call.allowed())
            .or_else(|| call.leased_in_the_cell())
            .or_else(|| call.undoable())
            .unwrap_or_else(|| call.table());
        let own = call.naming_writes(call.asked_by_impact(call.asked_by_dialect(own)), &named);
        self.bounded(Decision { named, ..own }, request)
    }
}

impl Policy {
    /// Judges a part of the call. A connection counts as only asking if its tool states that the
    /// call is safe, and in no other case.
    fn judge_for(&self, request: &Request<'_>, part: &Part) -> Judgement {
        let mut judged = self.judge(part);
        if request.level != Level::Safe && matches!(part.effect, Effect::Connect { only_asks: true, .. }) {
            judged.allowed = None;
        }
        judged.impact = self.judge_impact(part);
        judged
    }
}

/// Returns the lowest level that a call with this part can have, whatever its tool states.
fn least_level(part: &Part) -> Level {
    match part.effect {
        Effect::Read { .. }
        | Effect::Connect { .. }
        | Effect::Browse { access: PageAccess::Use, .. }
        // The configuration gives each such tool its level.
        | Effect::UseTool { .. } => Level::Safe,
        Effect::Write { .. }
        | Effect::Delete { .. }
        | Effect::Run { .. }
        | Effect::Act { .. }
        | Effect::Browse { .. }
        | Effect::UseSecret { .. }
        | Effect::DatabaseWrite { .. }
        | Effect::Schedule { .. } => Level::Moderate,
        Effect::ChangeHandfast { .. } => Level::Critical,
    }
}

struct Call<'a> {
    policy: &'a Policy,
    request: &'a Request<'a>,
    judged: &'a [Judgement],
    level: Level,
    /// True if only a terminal may approve the call; see [`Decision::terminal_only`].
    terminal_only: bool,
}

impl Call<'_> {
    /// Applies line 1.
    fn denied(&self) -> Option<Decision> {
        if let Some(rule) = self.policy.denied_tools.find(self.request.tool) {
            let reason = format!("the tool {} is denied by {rule}", self.request.tool);
            let cause = Cause { rule: rule.clone(), reason, hint: Some(change_rule(rule)) };
            return Some(self.decision(Line::Denied, Verdict::Deny, &cause, None));
        }
        self.by_part(Line::Denied, Verdict::Deny, |judged| judged.denied.as_ref())
    }

    /// Applies line 2.
    fn dangerous(&self) -> Option<Decision> {
        let verdict = match self.policy.dangerous.0 {
            Dangerous::Deny => Verdict::Deny,
            Dangerous::Ask => Verdict::Check,
        };
        self.by_part(Line::Dangerous, verdict, |judged| judged.dangerous.as_ref())
    }

    /// Applies line 3.
    fn critical(&self) -> Option<Decision> {
        let named = |(part, _): &(&Part, &Judgement)| least_level(part) == Level::Critical;
        let part =
            self.request.parts.iter().zip(self.judged).find(named).map(|(_, judged)| judged.part.clone());
        (self.level == Level::Critical).then(|| Decision {
            part,
            hint: Some("only a human can approve it; no mode or list lets it pass".to_owned()),
            ..self.by_setting(
                Line::Critical,
                Verdict::Check,
                "calls of level critical are always asked about",
            )
        })
    }

    /// Applies line 4.
    fn ask_always(&self) -> Option<Decision> {
        (self.policy.mode.0 == Mode::AskAlways && !self.is_leased()).then(|| Decision {
            hint: Some("mode `smart_auto` asks only about changes".to_owned()),
            ..self.by_setting(Line::AskAlways, Verdict::Check, "the mode asks about every call")
        })
    }

    /// Returns true if a human has allowed these calls beforehand, so that line 4 need not ask.
    fn is_leased(&self) -> bool {
        let by_lease = |judged: &Judgement| {
            judged.allowed.as_ref().is_some_and(|cause| matches!(cause.rule.origin, Origin::Lease(_)))
        };
        let by_a_list =
            self.judged.iter().any(by_lease) && self.judged.iter().all(|judged| judged.allowed.is_some());
        by_a_list || self.leased_in_the_cell().is_some()
    }

    /// Applies line 5.
    fn uncertain(&self) -> Option<Decision> {
        let denies = self.policy.denies_commands;
        self.by_part(Line::Uncertain, Verdict::Check, |judged| judged.uncertain.as_ref().filter(|_| denies))
    }

    /// Applies line 6.
    fn unlisted(&self) -> Option<Decision> {
        self.by_part(Line::Unlisted, Verdict::Check, |judged| judged.unlisted.as_ref())
    }

    /// Adds every write that needs an approval to the question, whichever line asks: an approval
    /// covers what the question names.
    fn naming_writes(&self, mut own: Decision, named: &NamedWrites) -> Decision {
        if own.verdict != Verdict::Check {
            return own;
        }
        let cause = self.judged.iter().find_map(|judged| judged.runs_later.as_ref());
        if let Some(cause) = cause.filter(|cause| own.rule != cause.rule) {
            own.reason = format!("{}, and {}", own.reason, cause.reason);
        }
        let writes = [
            ("it writes more such files", &named.run_later),
            ("it writes paths that `allowed_write_paths` does not list", &named.unlisted),
        ];
        for (what, paths) in writes {
            let unsaid: BTreeSet<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .filter(|path| !own.reason.contains(path))
                .collect();
            if !unsaid.is_empty() {
                let unsaid: Vec<String> = unsaid.into_iter().collect();
                own.reason = format!("{}; {what}: {}", own.reason, unsaid.join(", "));
            }
        }
        own
    }

    /// Applies the dialect to a pass: it may ask about every call that does more than read, unless
    /// the user's own lists allow the call.
    fn asked_by_dialect(&self, own: Decision) -> Decision {
        let reads = self.request.parts.iter().all(|part| part.effect.only_reads());
        let by_a_list = own.line == Line::Allowed && own.rule.origin != Origin::BuiltIn;
        let by_the_user = by_a_list || matches!(own.rule.origin, Origin::Lease(_));
        let asks = self.policy.dialect.asks_unless_reading && self.policy.mode.0 != Mode::FullAuto;
        if own.verdict != Verdict::Pass || !asks || reads || by_the_user {
            return own;
        }
        let rule = self.rule("dialect", "asks unless a call is read-only", &Origin::BuiltIn);
        let reason = "the dialect asks about every call that is not read-only".to_owned();
        let hint = "an entry of `allowed_exec_command` or `allowed_write_paths` lets it pass; mode `full_auto` would not ask";
        let cause = Cause { rule, reason, hint: Some(hint.to_owned()) };
        self.decision(Line::Table, Verdict::Check, &cause, None)
    }

    /// Applies line 10 to a pass: no list and no lease lets an edit of code with many callers pass.
    fn asked_by_impact(&self, own: Decision) -> Decision {
        if own.verdict != Verdict::Pass {
            return own;
        }
        let cause = self.judged.iter().find_map(|judged| Some((judged.impact.as_ref()?, &judged.part)));
        cause.map_or(own, |(cause, part)| self.decision(Line::Impact, Verdict::Check, cause, Some(part)))
    }

    /// Applies line 7. A call without any part is left to the table, because only its level is known.
    fn allowed(&self) -> Option<Decision> {
        let first = self.judged.first()?;
        let all = self.judged.iter().all(|judged| judged.allowed.is_some());
        let telling = self.judged.iter().find(|judged| !judged.only_reads_a_path).unwrap_or(first);
        let cause = telling.allowed.as_ref().filter(|_| all)?;
        Some(Decision {
            hint: None,
            ..self.decision(Line::Allowed, Verdict::Pass, cause, Some(&telling.part))
        })
    }

    /// Applies the leases that count for calls whose every change can be undone.
    fn leased_in_the_cell(&self) -> Option<Decision> {
        let leased = self.policy.leased_in_the_cell.as_ref().filter(|_| self.can_be_undone())?;
        let judged: Vec<Judgement> =
            self.request.parts.iter().map(|part| leased.judge_for(self.request, part)).collect();
        let decision = Call { policy: leased, judged: &judged, ..*self }.allowed()?;
        // The call runs like one that passes by line 8, so that the cell holds what the lease relies on.
        Some(Decision { line: Line::Undoable, ..decision })
    }

    /// Returns true if the call can only change the workspace, and every change can be undone.
    fn can_be_undone(&self) -> bool {
        let only_workspace =
            !self.judged.is_empty() && self.judged.iter().all(|judged| judged.changes_only_the_workspace);
        self.request.undoable_in_force && !self.request.background && only_workspace
    }

    /// Applies line 8.
    fn undoable(&self) -> Option<Decision> {
        (self.policy.undoable.0 == Undoable::Pass && self.can_be_undone()).then(|| {
            let rule = self.rule("undoable", "pass", &self.policy.undoable.1);
            let reason = "it can only change the workspace, and every change can be undone".to_owned();
            self.decision(Line::Undoable, Verdict::Pass, &Cause { rule, reason, hint: None }, None)
        })
    }

    /// Applies line 9.
    fn table(&self) -> Decision {
        let mode = self.policy.mode.0;
        let passes = match self.level {
            Level::Safe => mode != Mode::AskAlways,
            Level::Moderate | Level::Destructive => mode == Mode::FullAuto,
            Level::Critical => false,
        };
        let verdict = if passes { Verdict::Pass } else { Verdict::Check };
        let answer = if passes { "pass" } else { "are asked about" };
        let reason = format!("in mode {mode}, calls of level {} {answer}", self.level);
        let why_not_listed = self.judged.iter().find_map(|judged| judged.not_allowed.as_deref());
        let hint = (!passes).then(|| match why_not_listed {
            Some(why) => format!("{why}; mode `full_auto` would not ask"),
            None => "mode `full_auto` would not ask".to_owned(),
        });
        let command = self.judged.iter().find_map(|judged| judged.not_allowed_at.clone());
        let effect =
            || self.judged.iter().find(|judged| judged.allowed.is_none()).map(|judged| judged.part.clone());
        let part = command.or_else(effect).filter(|_| !passes);
        Decision { hint, part, ..self.by_setting(Line::Table, verdict, &reason) }
    }

    fn by_part(
        &self,
        line: Line,
        verdict: Verdict,
        cause: impl Fn(&Judgement) -> Option<&Cause>,
    ) -> Option<Decision> {
        self.judged
            .iter()
            .find_map(|judged| Some(self.decision(line, verdict, cause(judged)?, Some(&judged.part))))
    }

    fn by_setting(&self, line: Line, verdict: Verdict, reason: &str) -> Decision {
        let (mode, origin) = &self.policy.mode;
        let rule = match line {
            Line::Critical => self.rule("level", "critical", &Origin::BuiltIn),
            _ => self.rule("mode", mode.as_str(), origin),
        };
        self.decision(line, verdict, &Cause { rule, reason: reason.to_owned(), hint: None }, None)
    }

    fn rule(&self, key: &'static str, entry: &str, origin: &Origin) -> Rule {
        Rule { key, entry: entry.to_owned(), profile: self.policy.profile.clone(), origin: origin.clone() }
    }

    fn decision(&self, line: Line, verdict: Verdict, cause: &Cause, part: Option<&str>) -> Decision {
        Decision {
            verdict,
            line,
            rule: cause.rule.clone(),
            reason: cause.reason.clone(),
            hint: cause.hint.clone(),
            part: part.map(str::to_owned),
            level: self.level,
            terminal_only: self.terminal_only,
            named: NamedWrites::default(),
        }
    }
}
