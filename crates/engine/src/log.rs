//! The log: one view of the calls, questions, answers, refused connections and changes of a workspace.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use store_api::{Filter, Kind, RecordedRow, Store, StoreError};

use crate::actions::{actions, effects};
use crate::audit_reading::{AuditReading, READ_AUDIT};
use crate::egress_gate::CONNECTIONS;
use crate::history::walk;
use crate::undo::{ChangedPath, first_paths};

/// Maximum number of changed paths that an entry names.
const MAX_PATHS: u32 = 4;

/// Conditions on the entries of the log. All of them must hold.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Workspace of the entries; `None` for all workspaces. Entries without a workspace always match.
    pub workspace: Option<PathBuf>,
    /// Texts that all occur in the plan, the tool's name, the rule or the outcome, in either case.
    pub words: Vec<String>,
    /// File or folder, absolute, that the call planned to use or has changed, or that contains such a file.
    pub path: Option<PathBuf>,
    /// `ok`, `failed`, `unfinished` or an error code. A command that ended with another exit code than
    /// 0 has failed.
    pub outcome: Option<String>,
    /// Canonical tool name.
    pub tool: Option<String>,
    /// Host that the call planned to reach or has reached, or a domain that contains such a host.
    pub host: Option<String>,
    /// Earliest time.
    pub since: Option<Timestamp>,
    /// Upper bound, exclusive, of the times.
    pub until: Option<Timestamp>,
    /// Maximum number of entries.
    pub limit: u32,
}

/// Kind of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEntryKind {
    /// A call of a tool, or an action of the user on the command line.
    Call,
    /// A question about a call.
    Question,
    /// An answer to a question.
    Answer,
    /// The use of an approval by a call.
    Use,
    /// The end of a lease by the user.
    Lease,
    /// A connection of a command.
    Connection,
    /// A reading of the audit.
    Reading,
}

/// One entry of the log.
#[derive(Debug, Serialize)]
pub struct LogEntry {
    /// Time of the entry; for a call, of its end if it has ended.
    pub time: Timestamp,
    /// Id of the call, or of the audit row of another kind.
    pub id: String,
    /// Kind of the entry.
    pub kind: LogEntryKind,
    /// Id of the call that a question or an answer is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Door that the call came through.
    pub door: String,
    /// Session of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Workspace of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Tool of the call, or the name of the row.
    pub tool: String,
    /// Planned actions in words, such as `run npm test`.
    pub actions: Vec<String>,
    /// `ok`, `unfinished` or an error code; for an answer, `yes` or `no`.
    pub outcome: String,
    /// Exit code of the call's command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Duration of the call in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Decision of the policy: `pass`, `check` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Name of the person or lease that approved the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// Hosts that the call's commands could reach, as `HOST:PORT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<String>,
    /// Number of paths that `handfast undo` restores. The id of the call is the id of its checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<u64>,
    /// First changed paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangedPath>,
    /// Id of the checkpoint that the call undid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
}

/// Returns the newest entries first. Blocks on the disk. The caller records the reading with
/// [`LogQuery::reading`].
///
/// # Errors
/// Fails if the audit or the checkpoints cannot be read.
pub fn log(store: &dyn Store, query: &LogQuery) -> Result<Vec<LogEntry>, StoreError> {
    let limit = query.limit as usize;
    let mut search = Search { store, query, changed: HashSet::new(), met: HashSet::new(), found: Vec::new() };
    if let Some(path) = &query.path {
        search.take_changes_of(path)?;
    }
    let taken = search.found.len();
    walk(store, &query.filter(), |recorded| {
        search.consider(recorded)?;
        let is_full = search.found.len() - taken >= limit;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let mut found = search.found;
    found.sort_by_key(|row| std::cmp::Reverse(row.sequence));
    found.truncate(limit);
    found.into_iter().map(|row| entry(store, row)).collect()
}

impl LogQuery {
    /// Returns the query in the form of [`AuditReading::asked`].
    pub fn reading(&self) -> Value {
        let mut asked = AuditReading::of(&Filter { containing: self.words.clone(), ..self.filter() });
        let path = self.path.as_deref().map(tool::path_text);
        let named =
            [("outcome", self.outcome.as_ref()), ("host", self.host.as_ref()), ("path", path.as_ref())];
        for (name, value) in named {
            if let Some(value) = value {
                asked[name] = json!(value);
            }
        }
        asked
    }

    /// Returns the conditions that the store can check. The search checks every condition again.
    fn filter(&self) -> Filter {
        let mut containing = self.words.clone();
        containing.extend(self.host.clone());
        containing.extend(self.path.as_deref().map(in_json));
        containing.extend(self.outcome.clone().filter(|outcome| outcome != "failed"));
        Filter {
            workspace: self.workspace.as_deref().map(tool::path_text),
            tool: self.tool.clone(),
            since: self.since,
            until: self.until,
            containing,
            ..Filter::default()
        }
    }
}

/// Returns a path as it stands within JSON.
fn in_json(path: &Path) -> String {
    let text = Value::from(tool::path_text(path)).to_string();
    text.trim_matches('"').to_owned()
}

/// Search for the rows of a log.
struct Search<'a> {
    store: &'a dyn Store,
    query: &'a LogQuery,
    /// Ids of the calls that changed the path of the query.
    changed: HashSet<String>,
    /// Ids of the rows that were considered.
    met: HashSet<String>,
    found: Vec<RecordedRow>,
}

impl Search<'_> {
    /// Takes the newest calls that changed the path, whatever their plans say.
    fn take_changes_of(&mut self, path: &Path) -> Result<(), StoreError> {
        let Some(workspace) = &self.query.workspace else { return Ok(()) };
        let Ok(relative) = path.strip_prefix(workspace) else { return Ok(()) };
        let mut ids = self.store.checkpoints().at_or_below(workspace, relative)?;
        self.changed = ids.iter().cloned().collect();
        ids.sort_unstable_by(|one, other| other.cmp(one));
        for id in ids {
            if self.found.len() >= self.query.limit as usize {
                break;
            }
            if let Some(recorded) = self.store.audit().show(&id)?.pop() {
                self.consider(recorded)?;
            }
        }
        Ok(())
    }

    /// Takes the call of this row, if it matches and was not considered before.
    fn consider(&mut self, recorded: RecordedRow) -> Result<(), StoreError> {
        if !self.met.insert(recorded.row.call.clone()) {
            return Ok(());
        }
        let last = match recorded.row.kind {
            Kind::Intent => self.store.audit().show(&recorded.row.call)?.pop().unwrap_or(recorded),
            _ => recorded,
        };
        if self.matches(&last) {
            self.found.push(last);
        }
        Ok(())
    }

    fn matches(&self, recorded: &RecordedRow) -> bool {
        let (row, query) = (&recorded.row, self.query);
        let is_late = query.since.is_some_and(|since| row.time < since);
        let is_early = query.until.is_some_and(|until| row.time >= until);
        if is_late || is_early || query.tool.as_ref().is_some_and(|tool| *tool != row.tool) {
            return false;
        }
        let outcome = row.outcome.as_deref().unwrap_or("unfinished");
        let is_shown = match kind(&row.tool) {
            LogEntryKind::Reading | LogEntryKind::Use => query.tool.is_some(),
            LogEntryKind::Connection => query.tool.is_some() || outcome != "ok",
            _ => true,
        };
        if !is_shown {
            return false;
        }
        let text = row.plan.as_deref().unwrap_or_default();
        let texts = [text, &row.tool, row.rule.as_deref().unwrap_or_default(), outcome];
        let has = |word: &String| {
            let word = word.to_ascii_lowercase();
            texts.iter().any(|text| text.to_ascii_lowercase().contains(&word))
        };
        if !query.words.iter().all(has) {
            return false;
        }
        let plan: Value = serde_json::from_str(text).unwrap_or_default();
        self.is_here(&plan)
            && query.outcome.as_ref().is_none_or(|wanted| has_outcome(wanted, outcome, &plan))
            && query.host.as_ref().is_none_or(|host| hosts(&plan).any(|met| is_within(met, host)))
            && query.path.as_ref().is_none_or(|path| {
                self.changed.contains(&row.call) || paths(&plan).any(|used| Path::new(used).starts_with(path))
            })
    }

    fn is_here(&self, plan: &Value) -> bool {
        match (&self.query.workspace, plan["workspace"].as_str()) {
            (Some(workspace), Some(named)) => tool::path_text(workspace) == named,
            _ => true,
        }
    }
}

fn has_outcome(wanted: &str, outcome: &str, plan: &Value) -> bool {
    let exit_code = plan["exit_code"].as_i64().unwrap_or(0);
    match wanted {
        "failed" => !matches!(outcome, "ok" | "unfinished") || exit_code != 0,
        "ok" => outcome == "ok" && exit_code == 0,
        code => outcome.eq_ignore_ascii_case(code),
    }
}

fn paths(plan: &Value) -> impl Iterator<Item = &str> {
    effects(plan).filter_map(|effect| effect["path"].as_str())
}

/// Returns the hosts that a plan names, and those that the call reached, without their ports.
fn hosts(plan: &Value) -> impl Iterator<Item = &str> {
    let planned = effects(plan).filter_map(|effect| effect["host"].as_str());
    let reached = plan["reached"].as_array().into_iter().flatten().filter_map(Value::as_str);
    planned.chain(reached.map(|place| place.rsplit_once(':').map_or(place, |(host, _)| host)))
}

/// Returns true if a host is this one, or is within this domain.
fn is_within(host: &str, domain: &str) -> bool {
    let (host, domain) = (host.to_ascii_lowercase(), domain.to_ascii_lowercase());
    host.strip_suffix(&domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn kind(tool: &str) -> LogEntryKind {
    match tool {
        "approval_ask" => LogEntryKind::Question,
        "approval_answer" => LogEntryKind::Answer,
        CONNECTIONS => LogEntryKind::Connection,
        READ_AUDIT => LogEntryKind::Reading,
        _ if tool.starts_with("approval_") => LogEntryKind::Use,
        _ if tool.starts_with("lease_") => LogEntryKind::Lease,
        _ => LogEntryKind::Call,
    }
}

fn entry(store: &dyn Store, recorded: RecordedRow) -> Result<LogEntry, StoreError> {
    let row = recorded.row;
    let plan: Value = serde_json::from_str(row.plan.as_deref().unwrap_or_default()).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (kind, arguments) = (kind(&row.tool), &plan["arguments"]);
    let is_call = kind == LogEntryKind::Call;
    let checkpoint = if is_call { store.checkpoints().find(&row.call)? } else { None };
    let changes = match &checkpoint {
        Some(checkpoint) => first_paths(store, &checkpoint.id, MAX_PATHS)?,
        None => Vec::new(),
    };
    let outcome = match (kind, &arguments["answer"]) {
        (LogEntryKind::Answer, Value::String(answer)) => answer.clone(),
        _ => row.outcome.unwrap_or_else(|| "unfinished".to_owned()),
    };
    Ok(LogEntry {
        time: row.time,
        id: row.call,
        kind,
        about: if is_call { None } else { text(&arguments["call"]) },
        door: row.door,
        session: row.session,
        workspace: text(&plan["workspace"]),
        tool: row.tool,
        actions: actions(&plan),
        outcome,
        exit_code: plan["exit_code"].as_i64(),
        duration_ms: row.duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        decision: row.decision,
        rule: row.rule,
        approved_by: row.approved_by,
        reached: plan["reached"].as_array().into_iter().flatten().filter_map(text).collect(),
        paths: checkpoint.as_ref().map(|checkpoint| checkpoint.paths),
        changes,
        undoes: checkpoint.and_then(|checkpoint| checkpoint.undoes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_within_its_own_domains_alone() {
        for (host, domain, expected) in [
            ("example.com", "example.com", true),
            ("api.example.com", "Example.com", true),
            ("badexample.com", "example.com", false),
            ("example.com", "api.example.com", false),
            ("example.com.evil.org", "example.com", false),
        ] {
            assert_eq!(is_within(host, domain), expected, "{host} {domain}");
        }
    }
}
