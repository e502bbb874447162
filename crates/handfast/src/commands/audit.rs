//! `handfast audit`: shows recorded calls, and proves that nobody changed the record.

use std::cell::Cell;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;

use engine::{AuditReading, Door, Pieces, RecordedCall, full_id, recorded_calls, recorded_row};
use serde_json::{Value, json};
use store_api::{Filter, Hash, HeadFileState, Store, StoreError};
use store_sqlite::SqliteStore;

use super::audit_tree::{summary, tree};
use super::checkpoints::refused;
use super::{Failure, print, print_json};
use crate::cli::Global;
use crate::cli_audit::{AuditCommand, ExportFormat};
use crate::clock::SystemClock;
use crate::host_environment::HostEnvironment;
use crate::moment::Present;
use crate::pager::print_listing;
use crate::places::{cover_rows, state_folder};
use crate::report::{note, secrets, table};

pub(super) fn run(global: &Global, command: Option<AuditCommand>) -> Result<ExitCode, Failure> {
    reading(global, |store, record| match command {
        None => list(store, &Filter::default(), false, record),
        Some(AuditCommand::List { tool, session, since, limit, json }) => {
            let since = since.map(|since| since.by(&SystemClock)).transpose()?;
            list(store, &Filter { tool, session, since, limit, ..Filter::default() }, json, record)
        }
        Some(AuditCommand::Show { call, json }) => show(store, &call, json, record),
        Some(AuditCommand::Tree { id }) => tree(store, &id, record),
        // Verification reveals no calls, so it is not recorded.
        Some(AuditCommand::Verify { expect, json }) => verify(store, expect.as_deref(), json),
        Some(AuditCommand::Export { format: ExportFormat::Jsonl }) => {
            // Record the export before the first row is written, so that its own row is the last
            // one in the output.
            record(json!({ "all": true })).and_then(|()| export(store))
        }
    })
}

/// Reads the audit by `read`, which records its query by the function that it gets.
pub(super) fn reading<T>(
    global: &Global,
    read: impl FnOnce(&SqliteStore, &dyn Fn(Value) -> Result<(), Failure>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let state = state_folder(&global.run_options(), &host_environment)?;
    let store = SqliteStore::open_to_read(&state)?;
    cover_rows(&store);
    let can_be_written = Cell::new(true);
    let record = |asked: Value| -> Result<(), Failure> {
        let reading =
            AuditReading { door: Door::CommandLine, dialect: "handfast", session: None, by: None, asked };
        match reading.record(&store, &SystemClock, secrets(), "ok") {
            // A snapshot, or a copy that serves as evidence. No reading can be recorded there.
            Err(StoreError::NotWritable { path, .. }) => {
                can_be_written.set(false);
                note(&format!("{} is not writable, so this access is not recorded", path.display()));
                Ok(())
            }
            recorded => Ok(recorded?),
        }
    };
    let done = read(&store, &record)?;
    if can_be_written.get() {
        store.close()?;
    }
    Ok(done)
}

fn list(
    store: &dyn Store,
    filter: &Filter,
    as_json: bool,
    record: &dyn Fn(Value) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let calls = recorded_calls(store, filter)?;
    record(AuditReading::of(filter))?;
    if as_json {
        let lines: Result<String, serde_json::Error> =
            calls.iter().map(|call| Ok(format!("{}\n", call.as_json()?))).collect();
        let lines = lines?;
        print(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    if calls.is_empty() {
        note("no recorded call matches");
        return Ok(ExitCode::SUCCESS);
    }
    let present = Present::by(&SystemClock);
    let ids: Vec<&str> = calls.iter().map(RecordedCall::id).collect();
    let rows = calls.iter().zip(tool::short_ids(&ids)).map(|(call, id)| as_cells(call, id, &present));
    print_listing(&table(&["time", "call", "door", "tool", "decision", "outcome", "ms", "plan"], rows))?;
    Ok(ExitCode::SUCCESS)
}

fn as_cells(call: &RecordedCall, id: String, present: &Present) -> Vec<String> {
    let Some(recorded) = call.last() else { return Vec::new() };
    let row = &recorded.row;
    let approved = row.approved_by.as_ref().map(|_| " (approved)").unwrap_or_default();
    vec![
        present.local(row.time),
        id,
        row.door.clone(),
        row.tool.clone(),
        format!("{}{approved}", row.decision.as_deref().unwrap_or("-")),
        call.outcome().to_owned(),
        row.duration.map(|duration| duration.as_millis().to_string()).unwrap_or_default(),
        summary(row.plan.as_deref().unwrap_or_default()),
    ]
}

fn show(
    store: &dyn Store,
    call: &str,
    as_json_only: bool,
    record: &dyn Fn(Value) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let id = full_id(store, call).map_err(|error| refused(&error))?;
    let rows = store.audit().show(&id)?;
    record(json!({ "call": id }))?;
    let values: Vec<Value> = rows.iter().map(recorded_row).collect::<Result<_, _>>()?;
    if as_json_only {
        print_json(&values)?;
        return Ok(ExitCode::SUCCESS);
    }
    for value in values {
        let Some(fields) = value.as_object() else { continue };
        let mut text = String::new();
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let shown = match value {
                Value::String(text) => tool::visible(text),
                Value::Object(_) | Value::Array(_) => {
                    let pretty = serde_json::to_string_pretty(value)?;
                    format!("\n    {}", pretty.replace('\n', "\n    "))
                }
                other => other.to_string(),
            };
            text.push_str(&format!("{name:<13} {shown}\n"));
        }
        text.push('\n');
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(store: &dyn Store, expect: Option<&str>, as_json: bool) -> Result<ExitCode, Failure> {
    let expect = expect
        .map(str::parse::<Hash>)
        .transpose()
        .map_err(|error| Failure::usage(format!("--expect: {error}")))?;
    let found = store.audit().verify(expect)?;
    if as_json {
        let mut value = serde_json::to_value(&found)?;
        value["ok"] = Value::from(found.fault.is_none());
        print_json(&value)?;
    } else if let Some(fault) = &found.fault {
        print(&format!(
            "BROKEN: {fault}\n{} rows before the fault are intact, up to {}\n",
            found.rows, found.head
        ))?;
    } else {
        print(&format!("clean: {} rows, head {}\n", found.rows, found.head))?;
        match found.head_file {
            Some(HeadFileState::Behind { rows }) => {
                print(&format!(
                    "{rows} rows are newer than audit.head: a process was killed, or is writing now\n"
                ))?;
            }
            Some(HeadFileState::UnflushedLost { rows }) => print(&format!(
                "{rows} unflushed rows are missing: after a power loss, or because somebody removed \
                 exactly these rows\n"
            ))?,
            Some(HeadFileState::Current) | None => {}
        }
    }
    Ok(ExitCode::from(u8::from(found.fault.is_some())))
}

fn export(store: &dyn Store) -> Result<ExitCode, Failure> {
    let mut out = CoveredOutput { pieces: secrets().pieces(), to: BufWriter::new(io::stdout().lock()) };
    let written = store.audit().export(&mut out).map(|_| ());
    match written.map_err(Failure::from).and_then(|()| Ok(out.end()?)) {
        Err(failure) if went_away(failure.error.as_ref()) => Ok(ExitCode::SUCCESS),
        other => other.map(|()| ExitCode::SUCCESS),
    }
}

/// A stream that covers secrets which became known after its rows were written.
struct CoveredOutput<W> {
    pieces: Pieces,
    to: W,
}

impl<W: Write> CoveredOutput<W> {
    fn end(mut self) -> io::Result<()> {
        let rest = self.pieces.next(&[], true);
        self.to.write_all(&rest).and_then(|()| self.to.flush())
    }
}

impl<W: Write> Write for CoveredOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let settled = self.pieces.next(bytes, false);
        self.to.write_all(&settled).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns true if the reader of standard output has gone. An export then ends without a failure.
fn went_away(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // The store shares its causes in an `Arc`, which `downcast_ref` does not see through.
        let shared = error.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>();
        let written = shared.map_or_else(|| error.downcast_ref(), |shared| shared.downcast_ref());
        if written.is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe) {
            return true;
        }
        cause = error.source();
    }
    false
}
