//! The question as a human sees it: the effects of the call, and the possible scopes of an
//! approval.

use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use policy::{Decision, LeasePattern};
use tool::{CommandLine, Effect};

use super::Binding;
use super::preview::Preview;
use super::question::{Approval, BoundItem, Offer, PatternKind, Scope};
use crate::call::Call;
use crate::{Engine, reach};

/// Number of calls of a kind, allowed one by one, from which a wider answer is suggested.
const SUGGEST_AFTER: u32 = 3;

/// Period in which those calls are counted.
const SUGGEST_WITHIN: SignedDuration = SignedDuration::from_hours(7 * 24);

impl Engine {
    /// Builds the question for a human.
    pub(super) fn question(
        &self,
        call: &Call,
        decision: &Decision,
        preview: Option<Preview>,
        binding: &Binding,
    ) -> Approval {
        let shown = |part: &policy::Part| self.covered(reach::line(part, &self.place));
        let effects: Vec<String> = call.effects.iter().map(shown).collect();
        let terminal_only = decision.terminal_only;
        let once_only = terminal_only || binding.unnamed.is_some();
        let mut reason = decision.reason.clone();
        if let Some(why) = &binding.unnamed {
            reason.push_str(&format!(
                ". The programs that run cannot be determined in advance ({why}), so an approval of \
                 exactly this call covers no later one, and files may change before it runs"
            ));
        }
        let (pattern_kind, offers) = if terminal_only {
            (None, Vec::new())
        } else {
            self.offers(call, &effects.join("; "), once_only)
        };
        let patterns_in_the_cell = once_only && !offers.is_empty();
        let pattern_kind = pattern_kind.filter(|_| !once_only || patterns_in_the_cell);
        let suggestion = self.suggestion(call, &offers);
        let bound = |bound: &BoundItem| BoundItem { what: self.covered(bound.what.clone()), ..bound.clone() };
        let preview_more_lines = preview.as_ref().map_or(0, |preview| preview.more_lines);
        Approval {
            id: format!("a{}", call.id),
            call: call.id.clone(),
            tool: call.tool.clone(),
            level: decision.level,
            preview: preview.map(|preview| preview.text),
            preview_more_lines,
            effects,
            reason: self.covered(reason),
            rule: self.covered(decision.rule.to_string()),
            once_only,
            patterns_in_the_cell,
            terminal_only,
            offers,
            pattern_kind,
            suggestion,
            digest: binding.plan.clone(),
            effects_digest: binding.effects.clone(),
            bound: binding.bound.iter().map(bound).collect(),
            connections: Vec::new(),
            every_host: false,
            program: self.program().clone(),
        }
    }

    /// Returns the text with every secret covered that this runtime knows, as in an answer.
    pub fn covered(&self, text: String) -> String {
        self.redactor.refresh();
        self.redactor.text(&text).unwrap_or(text)
    }

    /// Returns the offers that reach beyond this call. A run of the command line has no session
    /// that outlives the call. With `once_only`, exactly this call is not offered again.
    fn offers(&self, call: &Call, effects: &str, once_only: bool) -> (Option<PatternKind>, Vec<Offer>) {
        let policy = call.rules(self);
        let request = call.policy_request(&call.tool);
        let kind = pattern_kind(call);
        let exact = |scope: Scope, where_to: &str| Offer {
            scope,
            pattern: None,
            covers: format!(
                "`{}` again with exactly these effects, as long as the programs and scripts do not \
                 change, {where_to}: {effects}",
                call.tool
            ),
            seconds: scope.lasts().as_secs(),
            past: None,
        };
        let mut offers = Vec::new();
        if !once_only && call.door != crate::Door::CommandLine {
            offers.push(exact(Scope::Session, "in this session"));
        }
        let pattern = policy.lease_for(&request).and_then(|pattern| match pattern {
            LeasePattern::Read(path) => {
                let folder = if path.is_dir() { path } else { path.parent()?.to_owned() };
                let pattern = LeasePattern::Read(folder);
                policy.may_lease(&pattern).is_ok().then_some(pattern)
            }
            other => Some(other),
        });
        let in_the_cell = |pattern: &LeasePattern| policy.counts_in_the_cell_alone(pattern);
        match pattern.filter(|pattern| !once_only || in_the_cell(pattern)) {
            Some(LeasePattern::Command(words)) if in_the_cell(&LeasePattern::Command(words.clone())) => {
                let lasts = Scope::Project.lasts();
                offers.extend(self.pattern_offer(Scope::Project, PatternKind::Command, &words, lasts));
            }

            Some(LeasePattern::Read(folder)) => offers.extend(self.pattern_offer(
                Scope::Project,
                PatternKind::Read,
                &tool::path_text(&folder),
                Scope::Always.lasts(),
            )),
            Some(LeasePattern::Command(words)) => {
                offers.push(exact(Scope::Project, "in this workspace"));
                offers.extend(self.pattern_offer(
                    Scope::Always,
                    PatternKind::Command,
                    &words,
                    Scope::Always.lasts(),
                ));
            }
            None if once_only => {}
            Some(LeasePattern::Write(_)) | None => offers.push(exact(Scope::Project, "in this workspace")),
        }
        (kind, offers)
    }

    /// Returns the offer of a pattern, or `None` if the pattern contains a secret.
    pub(super) fn pattern_offer(
        &self,
        scope: Scope,
        kind: PatternKind,
        pattern: &str,
        lasts: Duration,
    ) -> Option<Offer> {
        if self.redactor.text(pattern).is_some() {
            return None;
        }
        let leased = LeasePattern::Command(pattern.to_owned());
        let what = match kind {
            PatternKind::Command if self.policy.counts_in_the_cell_alone(&leased) => format!(
                "every command that begins with `{pattern}`, with any further arguments, as long as all \
                 that it changes can be undone"
            ),
            PatternKind::Command => {
                format!("every command that begins with `{pattern}`, with any further arguments")
            }
            PatternKind::Write => format!("writing any content to every file that matches `{pattern}`"),
            PatternKind::Read => format!("reading everything in {pattern}, with file tools and commands"),
        };
        let whom = match scope {
            Scope::Once => "for this call",
            Scope::Session => "in this session",
            Scope::Project => "in this workspace",
            Scope::Always => "in all your workspaces",
        };
        Some(Offer {
            scope,
            pattern: Some(pattern.to_owned()),
            covers: format!("{what}, {whom}"),
            seconds: lasts.as_secs(),
            past: if kind == PatternKind::Command { self.past_of(&leased) } else { None },
        })
    }

    fn suggestion(&self, call: &Call, offers: &[Offer]) -> Option<String> {
        let widest = offers.last()?;
        let shape = call.rules(self).shape(&call.policy_request(&call.tool));
        let since = self.clock.now().checked_sub(SUGGEST_WITHIN).unwrap_or(Timestamp::MIN);
        let workspace: &Path = &self.place.workspace;
        // A suggestion is best effort: without a count, there is none.
        let times = self.store.approvals().allowed_once(workspace, &shape, since).unwrap_or(0);
        if times < SUGGEST_AFTER {
            return None;
        }
        let often = format!("calls like this were allowed {times} times in the last 7 days");
        // A write is offered for this file only, but the counted calls wrote other files of its
        // folder.
        let folder = call.rules(self).lease_for_folder(&call.policy_request(&call.tool));
        if let Some(LeasePattern::Write(pattern)) = folder.filter(|_| widest.pattern.is_none())
            && !pattern.contains('\'')
        {
            let offer =
                self.pattern_offer(Scope::Project, PatternKind::Write, &pattern, Scope::Project.lasts())?;
            let approve = self.program().command("approvals approve");
            return Some(format!(
                "{often}; `{approve}` with `--scope project --pattern '{pattern}'` would cover {}",
                offer.covers
            ));
        }
        Some(format!("{often}; `{}` would cover {}", widest.scope, widest.covers))
    }
}

/// Returns the kind of pattern that is possible for this call.
fn pattern_kind(call: &Call) -> Option<PatternKind> {
    let all = |is: fn(&Effect) -> bool| {
        !call.effects.is_empty() && call.effects.iter().all(|part| is(&part.effect))
    };
    if all(
        |effect| matches!(effect, Effect::Run { command, .. } if !matches!(command, CommandLine::Typed { .. })),
    ) {
        Some(PatternKind::Command)
    } else if all(Effect::only_reads) {
        Some(PatternKind::Read)
    } else if all(|effect| matches!(effect, Effect::Write { .. }) || effect.only_reads()) {
        Some(PatternKind::Write)
    } else {
        None
    }
}
