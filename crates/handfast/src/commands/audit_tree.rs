//! `handfast audit tree`: the calls that were made on behalf of a call or by an agent.

use std::collections::BTreeMap;
use std::process::ExitCode;

use engine::{RecordedCall, actions, full_id, recorded_calls};
use serde_json::{Value, json};
use store_api::{Filter, Store};

use super::Failure;
use super::checkpoints::refused;
use crate::clock::SystemClock;
use crate::moment::Present;
use crate::pager::print_listing;
use crate::report::table;

/// Maximum number of calls that are looked through, the newest ones.
const MOST: u32 = 20_000;
/// Maximum depth of the tree. Agents below agents are bounded to less.
const DEEPEST: usize = 32;

pub(super) fn tree(
    store: &dyn Store,
    id: &str,
    record: &dyn Fn(Value) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let calls = recorded_calls(store, &Filter { limit: MOST, ..Filter::default() })?;
    record(json!({"tree": id}))?;
    let of_session =
        |call: &&RecordedCall| call.last().is_some_and(|last| last.row.session.as_deref() == Some(id));
    let mut tops: Vec<&RecordedCall> = calls.iter().filter(of_session).collect();
    if tops.is_empty() {
        let full = full_id(store, id).map_err(|error| refused(&error))?;
        tops = calls.iter().filter(|call| call.id() == full).collect();
    }
    if tops.is_empty() {
        return Err(Failure::usage(format!("no recorded call or agent is named {id}")));
    }
    let mut below: BTreeMap<String, Vec<&RecordedCall>> = BTreeMap::new();
    for call in &calls {
        if let Some(parent) = parent_of(call) {
            below.entry(parent).or_default().push(call);
        }
    }
    let present = Present::by(&SystemClock);
    let mut rows = Vec::new();
    // The newest call comes first in the record, and the oldest one in the tree.
    let mut open: Vec<(usize, &RecordedCall)> = tops.into_iter().map(|call| (0, call)).collect();
    while let Some((depth, call)) = open.pop() {
        rows.push(cells(depth, call, &present));
        if depth < DEEPEST
            && let Some(children) = below.remove(call.id())
        {
            open.extend(children.into_iter().map(|child| (depth + 1, child)));
        }
    }
    print_listing(&table(&["call", "agent", "tool", "decision", "outcome", "time", "plan"], rows))?;
    Ok(ExitCode::SUCCESS)
}

fn parent_of(call: &RecordedCall) -> Option<String> {
    let plan: Value = serde_json::from_str(call.last()?.row.plan.as_deref()?).ok()?;
    plan.get("parent")?.as_str().map(str::to_owned)
}

fn cells(depth: usize, call: &RecordedCall, present: &Present) -> Vec<String> {
    let Some(recorded) = call.last() else { return Vec::new() };
    let row = &recorded.row;
    vec![
        format!("{}{}", "  ".repeat(depth), call.id()),
        row.session.clone().unwrap_or_else(|| "-".to_owned()),
        row.tool.clone(),
        row.decision.clone().unwrap_or_else(|| "-".to_owned()),
        call.outcome().to_owned(),
        present.local(row.time),
        summary(row.plan.as_deref().unwrap_or_default()),
    ]
}

/// Returns the actions of a plan in one short line.
pub(super) fn summary(plan: &str) -> String {
    let plan: Value = serde_json::from_str(plan).unwrap_or_default();
    actions(&plan).join(", ").chars().take(80).collect()
}
