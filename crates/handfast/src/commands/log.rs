//! `handfast log`: shows what happened in a workspace, newest first.

use std::process::ExitCode;

use engine::{ChangedPath, LogEntry, LogEntryKind, LogQuery, log};

use super::audit::reading;
use super::checkpoints::{and_more, short_range};
use super::{Failure, print};
use crate::cli::Global;
use crate::cli_audit::LogArgs;
use crate::clock::SystemClock;
use crate::host_environment::HostEnvironment;
use crate::moment::Present;
use crate::pager::print_listing;
use crate::places::workspace;
use crate::report::note;

/// Maximum number of characters of the actions of an entry.
const ACTIONS: usize = 100;

/// Maximum length of a word that is searched for, in bytes.
const LONGEST_WORD: usize = 1_000;

/// Maximum number of hosts that an entry names.
const HOSTS: usize = 4;

pub(super) fn run(global: &Global, arguments: &LogArgs) -> Result<ExitCode, Failure> {
    let here = || workspace(&global.run_options(), &HostEnvironment::of_this_process(), &|_| ());
    let workspace = if arguments.all_workspaces { None } else { Some(here()?) };
    if let Some(word) = arguments.words.iter().find(|word| word.len() > LONGEST_WORD) {
        return Err(Failure::usage(format!(
            "a word of {} bytes is too long; at most {LONGEST_WORD} bytes are searched for",
            word.len()
        )));
    }
    let path = arguments.path.as_ref().zip(workspace.as_ref());
    let query = LogQuery {
        path: path.map(|(path, workspace)| workspace.join(path).components().collect()),
        workspace,
        words: arguments.words.clone(),
        outcome: arguments.outcome.clone(),
        tool: arguments.tool.clone(),
        host: arguments.host.clone(),
        since: arguments.since.as_ref().map(|since| since.by(&SystemClock)).transpose()?,
        until: arguments.until.as_ref().map(|until| until.by(&SystemClock)).transpose()?,
        limit: arguments.limit,
    };
    let found = reading(global, |store, record| {
        let found = log(store, &query)?;
        record(query.reading())?;
        Ok(found)
    })?;
    if arguments.json {
        let lines: Result<String, serde_json::Error> =
            found.iter().map(|entry| Ok(format!("{}\n", serde_json::to_string(entry)?))).collect();
        print(&lines?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        note("nothing in the log matches");
        return Ok(ExitCode::SUCCESS);
    }
    print_listing(&text(&found, arguments.all_workspaces, &Present::by(&SystemClock)))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the entries, each with its details below it, under the days on which they happened.
fn text(entries: &[LogEntry], names_workspaces: bool, present: &Present) -> String {
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let (mut text, mut day) = (String::new(), String::new());
    for (entry, id) in entries.iter().zip(tool::short_ids(&ids)) {
        let on = present.day(entry.time);
        if on != day {
            let gap = if day.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{on}\n"));
            day = on;
        }
        let time = present.time_of_day(entry.time);
        text.push_str(&format!("  {time}  {id}  {}\n", tool::visible(&headline(entry))));
        for detail in details(entry, names_workspaces) {
            text.push_str(&format!("            {}\n", tool::visible(&detail)));
        }
    }
    text
}

fn headline(entry: &LogEntry) -> String {
    let about = entry.about.as_ref().map(|call| tool::short_ids(&[call]).concat()).unwrap_or_default();
    let actions: String = match entry.actions.as_slice() {
        [] => entry.tool.clone(),
        actions => {
            let all = actions.join(", ");
            let shown: String = all.chars().take(ACTIONS).collect();
            if shown.len() < all.len() { format!("{shown} ...") } else { shown }
        }
    };
    match entry.kind {
        LogEntryKind::Question => format!("question about {about}"),
        LogEntryKind::Answer => {
            let by = entry.approved_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            format!("answer {} about {about}{by}", entry.outcome)
        }
        LogEntryKind::Use => format!("approval of {about} used"),
        LogEntryKind::Lease => "lease revoked".to_owned(),
        LogEntryKind::Reading => "audit read".to_owned(),
        LogEntryKind::Connection if entry.outcome == "ok" => actions,
        LogEntryKind::Connection => format!("{actions}: refused"),
        LogEntryKind::Call => {
            let failed = entry.exit_code.filter(|code| *code != 0);
            let exit = failed.map(|code| format!(", exit code {code}")).unwrap_or_default();
            format!("{actions}: {}{exit}", entry.outcome)
        }
    }
}

fn details(entry: &LogEntry, names_workspaces: bool) -> Vec<String> {
    let mut details = Vec::new();
    if entry.kind == LogEntryKind::Call && !entry.actions.is_empty() {
        let duration = entry.duration_ms.map(|duration| format!(", {duration} ms")).unwrap_or_default();
        details.push(format!("{} through {}{duration}", entry.tool, entry.door));
    }
    if let (true, Some(workspace)) = (names_workspaces, &entry.workspace) {
        details.push(format!("in {workspace}"));
    }
    if let (Some("check" | "deny"), Some(rule)) = (entry.decision.as_deref(), &entry.rule) {
        let decision = if entry.decision.as_deref() == Some("deny") { "denied" } else { "asked" };
        details.push(format!("{decision} by {rule}"));
    }
    if let (LogEntryKind::Call, Some(by)) = (entry.kind, &entry.approved_by) {
        details.push(format!("approved by {by}"));
    }
    if !entry.reached.is_empty() {
        let first = entry.reached.iter().take(HOSTS).cloned().collect::<Vec<_>>().join(", ");
        details.push(format!("reached {first}{}", and_more(entry.reached.len().saturating_sub(HOSTS))));
    }
    if let Some(paths) = entry.paths {
        let more = usize::try_from(paths).unwrap_or(usize::MAX).saturating_sub(entry.changes.len());
        details.push(format!("{}{}", listed(&entry.changes), and_more(more)));
    }
    if let Some(undoes) = &entry.undoes {
        details.push(format!("undid {}", short_range(undoes)));
    }
    details
}

/// Returns changed paths in one line, each kind of change once: `created a, b, removed c`.
fn listed(changes: &[ChangedPath]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut last = "";
    for change in changes {
        let kind = if change.what == last { String::new() } else { format!("{} ", change.what) };
        parts.push(format!("{kind}{}", change.path));
        last = change.what;
    }
    parts.join(", ")
}
