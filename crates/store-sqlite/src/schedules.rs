//! Schedules and their firings, shared by all processes of a state folder.
//!
//! An instant is claimed in one immediate transaction that inserts its firing and moves the schedule to
//! the next instant. The key of a firing is its schedule and its instant, so that no instant fires twice
//! even if a caller's decision names it again.

mod firings;
mod rows;

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};
use store_api::{
    AddOutcome, AttemptEnd, Claim, Claimer, DecideAfter, DecideDue, Firing, ScheduleFilter, ScheduleRow,
    ScheduleTimes, Schedules, StoreError,
};

use crate::approvals::{bytes, time};
use crate::database::Database;

use rows::{FIRING, SCHEDULE, read_firing, read_schedule};

/// Maximum number of schedules that have not ended, which is the number that the promised delay of a
/// firing is measured with.
const MAX_SCHEDULES: u32 = 10_000;

/// Time after which an ended schedule and its firings are deleted, counted from its instant.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The schedules of one store.
pub(crate) struct SqliteSchedules {
    database: Arc<Database>,
}

impl Schedules for SqliteSchedules {
    fn add(&self, row: &ScheduleRow) -> Result<AddOutcome, StoreError> {
        let mut row = row.clone();
        for text in [&mut row.name, &mut row.description, &mut row.text] {
            self.database.cover(text);
        }
        self.database.write(|connection| {
            forget_ended(connection, row.created_at)?;
            let count = "SELECT count(*) FROM schedules INDEXED BY schedules_names WHERE state <> 'ended'";
            let open: u32 = connection.query_row(count, [], |found| found.get(0))?;
            if find(connection, &row.id)?.is_some() {
                return Ok(AddOutcome::Taken);
            }
            let named = "SELECT 1 FROM schedules WHERE workspace = ? AND name = ? AND state <> 'ended'";
            if connection.prepare(named)?.exists(params![bytes(&row.workspace), row.name])? {
                return Ok(AddOutcome::NameTaken);
            }
            if open >= MAX_SCHEDULES {
                return Ok(AddOutcome::Full);
            }
            insert(connection, &row)?;
            Ok(AddOutcome::Added)
        })
    }

    fn find(&self, id: &str) -> Result<Option<ScheduleRow>, StoreError> {
        self.database.read(|connection| find(connection, id))
    }

    fn named(&self, workspace: &Path, name: &str) -> Result<Option<ScheduleRow>, StoreError> {
        // Two statements, because each has an index.
        self.database.read(|connection| {
            let open = format!(
                "SELECT {SCHEDULE} FROM schedules WHERE workspace = ? AND name = ? AND state <> 'ended'"
            );
            let ended = format!(
                "SELECT {SCHEDULE} FROM schedules WHERE workspace = ? AND name = ? AND state = 'ended'
                 ORDER BY created_at_us DESC LIMIT 1"
            );
            let values = params![bytes(workspace), name];
            let found = connection.prepare_cached(&open)?.query_row(values, read_schedule).optional()?;
            match found {
                Some(row) => Ok(Some(row)),
                None => connection.prepare_cached(&ended)?.query_row(values, read_schedule).optional(),
            }
        })
    }

    fn counts(&self, workspace: &Path) -> Result<(u32, u32), StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT count(*) FROM schedules WHERE workspace = ? AND state = ?";
            let mut statement = connection.prepare_cached(sql)?;
            let mut count =
                |state: &str| statement.query_row(params![bytes(workspace), state], |row| row.get(0));
            Ok((count("active")?, count("paused")?))
        })
    }

    fn list(&self, workspace: Option<&Path>, filter: ScheduleFilter) -> Result<Vec<ScheduleRow>, StoreError> {
        let chosen = match filter {
            ScheduleFilter::Open => "state <> 'ended'",
            ScheduleFilter::Active => "state = 'active'",
            ScheduleFilter::Paused => "state = 'paused'",
            ScheduleFilter::All => "1",
        };
        self.database.read(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT {SCHEDULE} FROM schedules WHERE {chosen} AND (?1 IS NULL OR workspace = ?1)
                 ORDER BY created_at_us, id"
            ))?;
            let rows = statement.query_map([workspace.map(bytes)], read_schedule)?;
            rows.collect()
        })
    }

    fn pause(&self, id: &str) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            let sql = "UPDATE schedules SET state = 'paused' WHERE id = ? AND state = 'active'";
            Ok(connection.execute(sql, [id])? == 1)
        })
    }

    fn resume(&self, id: &str, next_at: Option<Timestamp>) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            let sql = "UPDATE schedules SET state = 'active', next_at_us = ?, failures = 0, disabled = NULL
                 WHERE id = ? AND state = 'paused'";
            Ok(connection.execute(sql, params![next_at.map(Timestamp::as_microsecond), id])? == 1)
        })
    }

    fn remove(&self, id: &str) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            connection.execute("DELETE FROM firings WHERE schedule = ?", [id])?;
            Ok(connection.execute("DELETE FROM schedules WHERE id = ?", [id])? == 1)
        })
    }

    fn next_claim(&self, workspace: &Path) -> Result<Option<Timestamp>, StoreError> {
        self.database.read(|connection| next_claim(connection, workspace))
    }

    fn claim_due(
        &self,
        claimer: &Claimer,
        now: Timestamp,
        decide: &DecideDue<'_>,
    ) -> Result<Vec<Firing>, StoreError> {
        // Most of the time nothing is due, and the caller need not wait for processes that write.
        if claimer.most == 0 || self.next_claim(&claimer.workspace)?.is_none_or(|at| at > now) {
            return Ok(Vec::new());
        }
        self.database.write(|connection| {
            let mut claimed = firings::take_over(connection, claimer, now)?;
            firings::claim_instants(connection, claimer, now, decide, &mut claimed)?;
            Ok(claimed)
        })
    }

    fn claim_now(&self, id: &str, claimer: &Claimer, now: Timestamp) -> Result<Option<Firing>, StoreError> {
        self.database.write(|connection| match find(connection, id)? {
            Some(_) => firings::insert(connection, id, now, Some(claimer), now),
            None => Ok(None),
        })
    }

    fn renew(&self, claim: &Claim, held_until: Timestamp) -> Result<bool, StoreError> {
        self.database.write(|connection| firings::renew(connection, claim, held_until))
    }

    fn finish(
        &self,
        claim: &Claim,
        end: &AttemptEnd,
        now: Timestamp,
        decide: &DecideAfter<'_>,
    ) -> Result<bool, StoreError> {
        let mut end = end.clone();
        self.database.cover(&mut end.outcome);
        self.database.write(|connection| firings::finish(connection, claim, &end, now, decide))
    }

    fn firings(&self, id: &str, limit: u32) -> Result<Vec<Firing>, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT {FIRING} FROM firings WHERE schedule = ? ORDER BY instant_us DESC LIMIT ?"
            ))?;
            let rows = statement.query_map(params![id, limit], read_firing)?;
            rows.collect()
        })
    }
}

impl SqliteSchedules {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<ScheduleRow>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {SCHEDULE} FROM schedules WHERE id = ?"))?;
    statement.query_row([id], read_schedule).optional()
}

fn insert(connection: &Connection, row: &ScheduleRow) -> rusqlite::Result<()> {
    let (cron, run_at) = match &row.times {
        ScheduleTimes::Recurring(line) => (Some(line), None),
        ScheduleTimes::OneTime(at) => (None, Some(at.as_microsecond())),
    };
    connection
        .execute(
            "INSERT INTO schedules (id, name, description, workspace, text, canonical, zone, cron, run_at_us, action,
                ceiling, rules, state, created_at_us, next_at_us, last_at_us, last_status, failures, disabled,
                created_by)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                row.id,
                row.name,
                row.description,
                bytes(&row.workspace),
                row.text,
                row.canonical,
                row.zone,
                cron,
                run_at,
                row.action,
                row.ceiling,
                row.rules,
                row.state.as_str(),
                row.created_at.as_microsecond(),
                row.next_at.map(Timestamp::as_microsecond),
                row.last_at.map(Timestamp::as_microsecond),
                row.last_status.map(store_api::FiringState::as_str),
                row.failures,
                row.disabled,
                row.created_by,
            ],
        )
        .map(drop)
}

/// Deletes the schedules that ended long ago.
fn forget_ended(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let before = now.checked_sub(KEPT_FOR).unwrap_or(Timestamp::MIN).as_microsecond();
    let ended = "state = 'ended' AND last_at_us < ?";
    connection.execute(
        &format!("DELETE FROM firings WHERE schedule IN (SELECT id FROM schedules INDEXED BY schedules_ended WHERE {ended})"),
        [before],
    )?;
    connection.execute(&format!("DELETE FROM schedules WHERE {ended}"), [before]).map(drop)
}

fn next_claim(connection: &Connection, workspace: &Path) -> rusqlite::Result<Option<Timestamp>> {
    let mut statement = connection.prepare_cached(
        "SELECT min(at) FROM (
            SELECT min(next_at_us) AS at FROM schedules
             WHERE workspace = ?1 AND state = 'active' AND next_at_us IS NOT NULL
            UNION ALL
            SELECT min(held_until_us) FROM firings CROSS JOIN schedules ON id = schedule
             WHERE firings.state IN ('claimed', 'waiting') AND schedules.state = 'active' AND workspace = ?1)",
    )?;
    let at: Option<i64> = statement.query_row([bytes(workspace)], |row| row.get(0))?;
    at.map(|at| time(0, at)).transpose()
}
