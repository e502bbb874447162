//! Rows of schedules and firings.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::Type;
use store_api::{Claim, Firing, ScheduleRow, ScheduleTimes};

use crate::approvals::time;

/// Columns of a schedule, in the order of the indices in [`read_schedule`].
pub(super) const SCHEDULE: &str = "id, name, description, workspace, text, canonical, zone, cron, run_at_us, action, \
     ceiling, rules, state, created_at_us, next_at_us, last_at_us, last_status, failures, disabled, created_by";

/// Columns of a firing, in the order of the indices in [`read_firing`].
pub(super) const FIRING: &str = "schedule, instant_us, epoch, owner, firings.state, attempt, begun_at_us, held_until_us, \
     ended_at_us, outcome, output, interrupted";

pub(super) fn read_schedule(row: &Row<'_>) -> rusqlite::Result<ScheduleRow> {
    let workspace: Vec<u8> = row.get(3)?;
    let times = match (row.get::<_, Option<String>>(7)?, optional_time(row, 8)?) {
        (Some(line), _) => ScheduleTimes::Recurring(line),
        (None, Some(at)) => ScheduleTimes::OneTime(at),
        (None, None) => return Err(invalid(7, "cron")),
    };
    let last_status: Option<String> = row.get(16)?;
    Ok(ScheduleRow {
        id: row.get(0)?,
        name: row.get(1)?,
        description: row.get(2)?,
        workspace: PathBuf::from(OsStr::from_bytes(&workspace)),
        text: row.get(4)?,
        canonical: row.get(5)?,
        zone: row.get(6)?,
        times,
        action: row.get(9)?,
        ceiling: row.get(10)?,
        rules: row.get(11)?,
        state: word(12, "state", &row.get::<_, String>(12)?)?,
        created_at: time(13, row.get(13)?)?,
        next_at: optional_time(row, 14)?,
        last_at: optional_time(row, 15)?,
        last_status: last_status.map(|status| word(16, "last_status", &status)).transpose()?,
        failures: row.get(17)?,
        disabled: row.get(18)?,
        created_by: row.get(19)?,
    })
}

pub(super) fn read_firing(row: &Row<'_>) -> rusqlite::Result<Firing> {
    Ok(Firing {
        claim: Claim { schedule: row.get(0)?, instant: time(1, row.get(1)?)?, epoch: row.get(2)? },
        owner: row.get(3)?,
        state: word(4, "state", &row.get::<_, String>(4)?)?,
        attempt: row.get(5)?,
        begun_at: time(6, row.get(6)?)?,
        held_until: time(7, row.get(7)?)?,
        ended_at: optional_time(row, 8)?,
        outcome: row.get(9)?,
        output: row.get(10)?,
        interrupted: row.get(11)?,
    })
}

fn optional_time(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Timestamp>> {
    row.get::<_, Option<i64>>(index)?.map(|at| time(index, at)).transpose()
}

fn word<T: FromStr>(index: usize, name: &str, text: &str) -> rusqlite::Result<T> {
    text.parse().map_err(|_| invalid(index, name))
}

fn invalid(index: usize, name: &str) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(index, name.to_owned(), Type::Text)
}
