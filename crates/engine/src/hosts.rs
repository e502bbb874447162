//! Policy decisions on requests that a call's plan could not name.

use std::net::IpAddr;
use std::sync::Arc;

use policy::{AddressVerdict, Part, Policy, Request, Verdict};
use serde_json::json;
use store_api::{AuditRow, Durability, Kind, Store};
use tool::{Code, Effect, Hosts, Level, ToolError};

use crate::call::Call;
use crate::dry_run::denied;
use crate::{Engine, Redactor};

/// Rules of one call, and the effects of its plan that were decided on.
pub(crate) struct HostGuard {
    policy: Arc<Policy>,
    tool: &'static str,
    planned: Vec<Effect>,
    /// True if a human, who saw the plan, approved the call.
    approved: bool,
    /// Intent of a call whose plan stays on this machine, with the store that records a target if
    /// the call leaves the machine all the same.
    stays: Option<(AuditRow, Arc<dyn Store>, Redactor)>,
}

impl HostGuard {
    pub(crate) fn of(engine: &Engine, call: &Call, tool: &'static str) -> Arc<dyn Hosts> {
        let planned: Vec<Effect> = call.effects.iter().map(|part| part.effect.clone()).collect();
        let stays = (!planned.iter().any(Effect::leaves_the_machine)).then(|| {
            let row = engine.audit_row(Kind::Intent, call);
            (row, engine.store.clone(), engine.redactor.clone())
        });
        let (policy, approved) = (call.rules(engine), call.approved_by.is_some());
        Arc::new(Self { policy, tool, planned, approved, stays })
    }

    /// Records the target of a call whose plan stayed on this machine, and flushes the record to
    /// the disk.
    fn note_leaving(&self, effects: &[Effect]) -> Result<(), ToolError> {
        let Some((row, store, redactor)) = &self.stays else { return Ok(()) };
        if !effects.iter().any(Effect::leaves_the_machine) {
            return Ok(());
        }
        let mut plan = json!({ "effects": effects });
        redactor.value(&mut plan["effects"]);
        let row = AuditRow { plan: Some(plan.to_string()), ..row.clone() };
        store.audit().append(row, Durability::Flushed).wait().map_err(|error| {
            let message = format!("the audit cannot be written, so it was not followed: {error}");
            ToolError::new(Code::Runtime, message).because(error)
        })
    }

    /// Returns true if the plan names the effect, or a wider effect on the same host and port.
    fn is_planned(&self, effect: &Effect) -> bool {
        let covers = |planned: &Effect| match (planned, effect) {
            (
                Effect::Connect { host, port, .. },
                Effect::Connect { host: other, port: at, method: Some(method), .. },
            ) if ["GET", "HEAD"].contains(&method.as_str()) => (host, port) == (other, at),
            _ => planned == effect,
        };
        self.planned.iter().any(covers)
    }
}

impl Hosts for HostGuard {
    fn may_also(&self, level: Level, effects: &[Effect]) -> Result<(), ToolError> {
        if effects.iter().all(|effect| self.is_planned(effect)) {
            return Ok(());
        }
        let parts: Vec<Part> = effects.iter().cloned().map(Part::from).collect();
        let request =
            Request { tool: self.tool, level, parts: &parts, undoable_in_force: false, background: false };
        let decision = self.policy.decide(&request);
        match decision.verdict {
            Verdict::Pass => self.note_leaving(effects),
            Verdict::Deny => Err(denied(&decision)),
            Verdict::Check => {
                let message = format!("not allowed within this call: {}", decision.reason);
                Err(ToolError::new(Code::Permission, message)
                    .hint("use a separate call for it, which can ask for approval"))
            }
        }
    }

    fn may_dial(&self, host: &str, address: IpAddr, port: u16) -> Option<bool> {
        match self.policy.address_verdict(host, address, port, false) {
            AddressVerdict::Denied => Some(false),
            AddressVerdict::Named => Some(true),
            AddressVerdict::Unnamed => {
                // A human who approved a plan has seen its address, but not the address that a name
                // resolves to.
                let is_seen = |effect: &Effect| {
                    matches!(effect, Effect::Connect { host: seen, port: at, .. } if *at == port
                        && (seen.parse() == Ok(address.to_canonical())
                            || seen == host && host == "localhost" && address.is_loopback()))
                };
                (self.approved && self.planned.iter().any(is_seen)).then_some(true)
            }
        }
    }
}
