//! Fills the audit of an empty state folder with calls, to measure what reads it.
//!
//! `cargo run --release -p store-sqlite --example fill_audit FOLDER ROWS WORKSPACE`; half of the rows are
//! intents, and the other half their outcomes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use store_api::{AuditRow, Durability, Kind, Store as _};
use store_sqlite::SqliteStore;

/// Time between two calls.
const BETWEEN: SignedDuration = SignedDuration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let mut next =
        || arguments.next().ok_or_else(|| io::Error::other("usage: fill_audit FOLDER ROWS WORKSPACE"));
    let (folder, rows, workspace) = (PathBuf::from(next()?), next()?, next()?);
    let rows: u32 = rows.to_string_lossy().parse()?;
    let workspace = workspace.to_string_lossy();
    let store = SqliteStore::open(&folder)?;
    let calls = rows / 2;
    let end: Timestamp = "2026-11-01T00:00:00Z".parse()?;
    for number in 0..calls {
        let time = end - BETWEEN * i32::try_from(calls - number)?;
        let call =
            format!("{:012x}{:010x}", time.as_millisecond(), u64::from(number) * 0x9E37_79B9 % (1 << 40));
        let plan = serde_json::json!({
            "arguments": {"command": format!("npm run test:{number} -- {}", "x".repeat(150))},
            "effects": [{"effect": "run", "command": {"shell": format!("npm run test:{number}")}, "directory": workspace}],
            "workspace": workspace,
        });
        for kind in [Kind::Intent, Kind::Outcome] {
            let mut row = AuditRow::new(kind, time, &call, "mcp", "handfast", "shell_execute");
            row.session = Some("01J8ZQ0T4V3M5N6P7Q8R9S0T1U".to_owned());
            row.plan = Some(plan.to_string());
            row.decision = Some("pass".to_owned());
            row.rule = Some("undoable: pass (profile normal, built in)".to_owned());
            if kind == Kind::Outcome {
                row.outcome = Some("ok".to_owned());
                row.duration = Some(Duration::from_millis(20));
            }
            // Waiting happens if the queue is full.
            store.audit().append(row, Durability::Behind).wait()?;
        }
    }
    store.close()?;
    Ok(())
}
