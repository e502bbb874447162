//! Earlier calls that an approval would have covered, and the rules that they suggest.

use std::ops::ControlFlow;
use std::path::PathBuf;

use policy::{LeasePattern, Part, Request, Suggestion};
use serde::Serialize;
use serde_json::Value;
use store_api::{Filter, Kind, StoreError};
use tool::{CommandLine, Effect, Level};

use crate::Engine;
use crate::actions::actions;
use crate::egress_gate::CONNECTIONS;
use crate::history::walk;

/// Number of earlier calls that are compared with an approval.
const PAST_CALLS: usize = 1_000;

/// Maximum number of rows in which these calls are searched, because rows of no workspace, and of earlier
/// versions, lie among them.
const MAX_ROWS: usize = 10_000;

/// Maximum number of covered calls that are named.
const MAX_EXAMPLES: usize = 3;

/// Maximum number of characters of such a call.
const EXAMPLE: usize = 60;

impl Engine {
    /// Returns how many of the last 1,000 calls in this workspace the lease would have covered, for people.
    /// Blocks on the disk. Returns `None` if the audit cannot be read: the number only helps to decide.
    pub(super) fn past_of(&self, pattern: &LeasePattern) -> Option<String> {
        let covers = self.policy.lease_coverage(pattern);
        let (mut covered, mut asked) = (0_usize, 0_usize);
        let mut examples: Vec<String> = Vec::new();
        let calls = self
            .past_calls(|call| {
                let [part] = call.parts.as_slice() else { return };
                if covers(part) {
                    covered += 1;
                    asked += usize::from(call.was_asked);
                    add_example(&mut examples, call.example);
                }
            })
            .ok()?;
        let last = if calls == 1 { "the last call".to_owned() } else { format!("the last {calls} calls") };
        let such_as = examples.iter().map(|example| format!("`{example}`")).collect::<Vec<_>>().join(", ");
        Some(match covered {
            0 => format!("of {last} here it would have covered none"),
            _ => format!(
                "of {last} here it would have covered {covered}, {asked} of them asked about: {such_as}"
            ),
        })
    }

    /// Returns the name of the profile in force.
    pub fn profile(&self) -> &str {
        self.policy.profile()
    }

    /// Suggests entries of lists with which the last 1,000 calls would have been asked about less: those that
    /// a human approved one by one, the most frequent first. Each entry was tried on the calls. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// Fails if the audit cannot be read.
    pub fn suggest_rules(&self) -> Result<Vec<RuleSuggestion>, StoreError> {
        let mut suggested: Vec<RuleSuggestion> = Vec::new();
        self.past_calls(|call| {
            if !(call.was_asked && call.was_approved) {
                return;
            }
            let request = Request {
                tool: &call.tool,
                level: Level::Moderate,
                parts: &call.parts,
                undoable_in_force: false,
                background: false,
            };
            for Suggestion { key, entry } in self.policy.would_pass_with(&request).unwrap_or_default() {
                let entry = self.covered(entry);
                let known = suggested.iter().position(|known| known.key == key && known.entry == entry);
                let index = known.unwrap_or_else(|| {
                    suggested.push(RuleSuggestion { key, entry, calls: 0, examples: Vec::new() });
                    suggested.len() - 1
                });
                if let Some(known) = suggested.get_mut(index) {
                    known.calls += 1;
                    add_example(&mut known.examples, call.example.clone());
                }
            }
        })?;
        suggested.sort_by_key(|suggestion| std::cmp::Reverse(suggestion.calls));
        Ok(suggested)
    }

    /// Passes the last 1,000 ended calls in this workspace to `visit`, the newest first. Returns their
    /// number.
    fn past_calls(&self, mut visit: impl FnMut(PastCall)) -> Result<usize, StoreError> {
        let workspace = tool::path_text(&self.place.workspace);
        let (mut calls, mut rows) = (0, 0);
        let filter = Filter { workspace: Some(workspace.clone()), ..Filter::default() };
        walk(self.store.as_ref(), &filter, |recorded| {
            rows += 1;
            if rows > MAX_ROWS {
                return Ok(ControlFlow::Break(()));
            }
            let row = recorded.row;
            let plan = row.plan.as_deref().unwrap_or_default();
            let plan: Value = serde_json::from_str(plan).unwrap_or_default();
            let effects = plan["effects"].as_array().filter(|effects| !effects.is_empty());
            let is_call = row.kind != Kind::Intent && row.tool != CONNECTIONS;
            let Some(effects) = effects.filter(|_| is_call && plan["workspace"] == workspace.as_str()) else {
                return Ok(ControlFlow::Continue(()));
            };
            calls += 1;
            let example: String = actions(&plan).join(", ").chars().take(EXAMPLE).collect();
            visit(PastCall {
                parts: effects.iter().map(part).collect::<Option<_>>().unwrap_or_default(),
                example: example.strip_prefix("run ").unwrap_or(&example).to_owned(),
                was_asked: row.decision.as_deref() == Some("check"),
                was_approved: row.approved_by.is_some() && row.outcome.as_deref() == Some("ok"),
                tool: row.tool,
            });
            Ok(if calls == PAST_CALLS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(calls)
    }
}

/// A recorded call.
struct PastCall {
    tool: String,
    /// Planned effects; empty if one of them is neither a command nor on a path.
    parts: Vec<Part>,
    /// Planned actions, for people.
    example: String,
    was_asked: bool,
    was_approved: bool,
}

/// An entry of a list that a human's approvals suggest.
#[derive(Debug, Serialize)]
pub struct RuleSuggestion {
    /// Key of the list.
    pub key: &'static str,
    /// Text of the entry.
    pub entry: String,
    /// Number of approved calls that the entry would have let pass, alone or with other suggestions.
    pub calls: usize,
    /// Some of these calls.
    pub examples: Vec<String>,
}

fn add_example(examples: &mut Vec<String>, example: String) {
    if examples.len() < MAX_EXAMPLES && !examples.contains(&example) {
        examples.push(example);
    }
}

/// Returns an effect of a plan, if it is a command or on a path.
fn part(effect: &Value) -> Option<Part> {
    let path = || effect["path"].as_str().map(PathBuf::from);
    let effect = match effect["effect"].as_str()? {
        "read" => Effect::Read { path: path()? },
        "write" => Effect::Write { path: path()? },
        "delete" => Effect::Delete { path: path()? },
        "run" => Effect::Run {
            command: command(&effect["command"])?,
            directory: effect["directory"].as_str()?.into(),
        },
        _ => return None,
    };
    Some(effect.into())
}

fn command(command: &Value) -> Option<CommandLine> {
    if let Some(line) = command["shell"].as_str() {
        return Some(CommandLine::Shell(line.to_owned()));
    }
    let words = command["argv"].as_array()?.iter().map(|word| word.as_str().map(str::to_owned));
    words.collect::<Option<_>>().map(CommandLine::Argv)
}
