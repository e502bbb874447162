//! `handfast agents`: the agents of the workspace, with those below them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;
use store_api::{AgentFilter, AgentRow, AgentState};
use tool::{Clock as _, visible};

use super::{Failure, print_json};
use crate::cli::Global;
use crate::cli_agents::AgentsArgs;
use crate::clock::SystemClock;
use crate::host_environment::HostEnvironment;
use crate::moment::Present;
use crate::pager::print_listing;
use crate::places::{open_store, place};
use crate::report::{note, table, warn};

/// Maximum number of agents in the list.
const MOST: u32 = 200;
/// Maximum number of characters of a task.
const TASK: usize = 60;

pub(super) fn run(global: &Global, arguments: &AgentsArgs) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let options = global.run_options();
    let place = place(&options, &host_environment, &warn)?;
    let store = open_store(&options, &host_environment)?;
    store.agents().expire(SystemClock.now())?;
    let filter = if arguments.all { AgentFilter::All } else { AgentFilter::Open };
    let rows = store.agents().list(&place.workspace, filter, MOST)?;
    let dead = store.mail().dead(&place.workspace, MOST)?;
    store.close()?;
    if arguments.json {
        print_json(&json!({"agents": rows, "dead_messages": dead}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        note(if arguments.all {
            "there is no agent yet"
        } else {
            "no agent works; --all lists those that have ended"
        });
    } else {
        let present = Present::by(&SystemClock);
        let lines = ordered(&rows).into_iter().map(|(depth, row)| cells(depth, row, &present));
        print_listing(&table(&["agent", "state", "model", "since", "tokens", "usd", "task"], lines))?;
    }
    if let Some(newest) = dead.first() {
        let reason = newest.dead_reason.as_deref().unwrap_or("unknown");
        note(&format!(
            "{} messages were never delivered, the newest one from {} to {}: {reason}",
            dead.len(),
            newest.from,
            newest.to
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the agents with their depth, each below the one that has started it; others the newest first.
fn ordered(rows: &[AgentRow]) -> Vec<(usize, &AgentRow)> {
    let mut below: BTreeMap<&str, Vec<&AgentRow>> = BTreeMap::new();
    let mut tops = Vec::new();
    for row in rows {
        match row.parent.as_deref().filter(|parent| rows.iter().any(|other| other.id == *parent)) {
            Some(parent) => below.entry(parent).or_default().push(row),
            None => tops.push(row),
        }
    }
    let mut ordered = Vec::new();
    let mut open: Vec<(usize, &AgentRow)> = tops.into_iter().rev().map(|row| (0, row)).collect();
    while let Some((depth, row)) = open.pop() {
        ordered.push((depth, row));
        // Each agent is below one other, so each is taken once.
        if let Some(children) = below.remove(row.id.as_str()) {
            open.extend(children.into_iter().map(|child| (depth + 1, child)));
        }
    }
    ordered
}

fn cells(depth: usize, row: &AgentRow, present: &Present) -> Vec<String> {
    let task: String = visible(&row.task).chars().take(TASK).collect();
    let name = if row.name.is_empty() { String::new() } else { format!("{}: ", row.name) };
    let state = match row.state {
        AgentState::Interrupted => "interrupted",
        state => state.as_str(),
    };
    let dollars = format!("{}.{:06}", row.spent_micro_usd / 1_000_000, row.spent_micro_usd % 1_000_000);
    vec![
        format!("{}{}", "  ".repeat(depth), row.id),
        state.to_owned(),
        row.model.clone(),
        present.age(row.created_at),
        row.spent_tokens.to_string(),
        dollars.trim_end_matches('0').trim_end_matches('.').to_owned(),
        format!("{name}{task}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent_runtime::new_row;

    #[test]
    fn each_agent_stands_below_the_one_that_has_started_it() {
        let row = |id: &str, parent: Option<&str>| AgentRow {
            parent: parent.map(str::to_owned),
            ..new_row(id, std::path::Path::new("/w"), "p")
        };
        // The newest first, as the store lists them.
        let rows = [
            row("d", Some("b")),
            row("c", Some("a")),
            row("b", Some("a")),
            row("z", Some("gone")),
            row("a", None),
        ];
        let shown: Vec<_> = ordered(&rows).into_iter().map(|(depth, row)| (depth, row.id.as_str())).collect();
        assert_eq!(shown, [(0, "z"), (0, "a"), (1, "b"), (2, "d"), (1, "c")]);
    }
}
