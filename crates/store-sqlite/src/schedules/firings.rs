//! Claims of firings and their ends. Each function is a part of one immediate transaction.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use store_api::{
    AttemptEnd, Claim, Claimer, DecideAfter, DecideDue, Due, Firing, FiringState, OpenFirings, ScheduleRow,
    ScheduleTimes,
};

use crate::approvals::bytes;

use super::rows::{FIRING, SCHEDULE, read_firing, read_schedule};

/// Number of ended firings that a schedule keeps: those of a month for one each hour.
const KEPT: u32 = 750;

/// Claims the firings whose lease has ended, or whose next attempt has its time.
pub(super) fn take_over(
    connection: &Connection,
    claimer: &Claimer,
    now: Timestamp,
) -> rusqlite::Result<Vec<Firing>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {FIRING} FROM firings CROSS JOIN schedules ON id = schedule
         WHERE firings.state IN ('claimed', 'waiting') AND held_until_us <= ? AND schedules.state = 'active'
           AND workspace = ?
         ORDER BY held_until_us, schedule, instant_us LIMIT ?"
    ))?;
    let most = i64::try_from(claimer.most).unwrap_or(i64::MAX);
    let rows =
        statement.query_map(params![now.as_microsecond(), bytes(&claimer.workspace), most], read_firing)?;
    let found: Vec<Firing> = rows.collect::<Result<_, _>>()?;
    found.iter().map(|firing| claim(connection, firing, claimer, now)).collect()
}

/// Gives a firing to a claimer, with a higher epoch than all claims before it.
fn claim(
    connection: &Connection,
    firing: &Firing,
    claimer: &Claimer,
    now: Timestamp,
) -> rusqlite::Result<Firing> {
    // A firing that was queued has had no attempt yet.
    let mut statement = connection.prepare_cached(&format!(
        "UPDATE firings SET state = 'claimed', owner = ?, held_until_us = ?, epoch = epoch + 1,
            attempt = attempt + (epoch > 0), interrupted = state = 'claimed'
         WHERE schedule = ? AND instant_us = ? RETURNING {FIRING}"
    ))?;
    statement.query_row(
        params![
            claimer.owner,
            lease_end(claimer, now).as_microsecond(),
            firing.claim.schedule,
            firing.claim.instant.as_microsecond(),
        ],
        read_firing,
    )
}

fn lease_end(claimer: &Claimer, now: Timestamp) -> Timestamp {
    now.checked_add(claimer.lease).unwrap_or(Timestamp::MAX)
}

/// Claims the instants that `decide` chooses among those that are due, until the claimer has enough.
pub(super) fn claim_instants(
    connection: &Connection,
    claimer: &Claimer,
    now: Timestamp,
    decide: &DecideDue<'_>,
    claimed: &mut Vec<Firing>,
) -> rusqlite::Result<()> {
    while claimed.len() < claimer.most {
        // Collected first, because the loop below changes what the statement reads. Each round moves its
        // schedules on, so that those that fire nothing do not hide the others.
        let due = due_schedules(connection, &claimer.workspace, now, claimer.most - claimed.len())?;
        if due.is_empty() {
            break;
        }
        for schedule in due {
            let decision = decide(&schedule, open_firings(connection, &schedule.id)?);
            for instant in &decision.fire {
                claimed.extend(insert(connection, &schedule.id, *instant, Some(claimer), now)?);
            }
            for instant in &decision.queue {
                insert(connection, &schedule.id, *instant, None, now)?;
            }
            if !decision.queue.is_empty() {
                release_queued(connection, &schedule.id, now)?;
            }
            advance(connection, &schedule, &decision)?;
            if claimed.len() >= claimer.most {
                break;
            }
        }
    }
    Ok(())
}

fn due_schedules(
    connection: &Connection,
    workspace: &Path,
    now: Timestamp,
    most: usize,
) -> rusqlite::Result<Vec<ScheduleRow>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {SCHEDULE} FROM schedules WHERE workspace = ? AND state = 'active' AND next_at_us <= ?
         ORDER BY next_at_us, id LIMIT ?"
    ))?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![bytes(workspace), now.as_microsecond(), most], read_schedule)?;
    rows.collect()
}

fn open_firings(connection: &Connection, schedule: &str) -> rusqlite::Result<OpenFirings> {
    let mut statement = connection.prepare_cached(
        "SELECT coalesce(sum(state <> 'queued'), 0), coalesce(sum(state = 'queued'), 0)
         FROM firings INDEXED BY firings_open WHERE schedule = ? AND ended_at_us IS NULL",
    )?;
    statement.query_row([schedule], |row| Ok(OpenFirings { running: row.get(0)?, queued: row.get(1)? }))
}

/// Inserts a firing, claimed or queued; `None` if the instant was claimed before.
pub(super) fn insert(
    connection: &Connection,
    schedule: &str,
    instant: Timestamp,
    claimer: Option<&Claimer>,
    now: Timestamp,
) -> rusqlite::Result<Option<Firing>> {
    let (state, epoch) = match claimer {
        Some(_) => (FiringState::Claimed, 1),
        None => (FiringState::Queued, 0),
    };
    let mut statement = connection.prepare_cached(&format!(
        "INSERT INTO firings (schedule, instant_us, state, owner, epoch, attempt, begun_at_us, held_until_us)
         VALUES (?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT DO NOTHING RETURNING {FIRING}"
    ))?;
    let held_until = claimer.map_or(now, |claimer| lease_end(claimer, now));
    let values = params![
        schedule,
        instant.as_microsecond(),
        state.as_str(),
        claimer.map_or("", |claimer| claimer.owner.as_str()),
        epoch,
        now.as_microsecond(),
        held_until.as_microsecond(),
    ];
    statement.query_row(values, read_firing).optional()
}

/// Moves a schedule to the instant that is left for a later claim.
fn advance(connection: &Connection, schedule: &ScheduleRow, decision: &Due) -> rusqlite::Result<()> {
    let next_at = decision.next_at.filter(|at| Some(*at) > schedule.next_at);
    let last_at = decision.fire.iter().chain(&decision.queue).max().copied().max(schedule.last_at);
    let mut statement =
        connection.prepare_cached("UPDATE schedules SET next_at_us = ?, last_at_us = ? WHERE id = ?")?;
    statement
        .execute(params![
            next_at.map(Timestamp::as_microsecond),
            last_at.map(Timestamp::as_microsecond),
            schedule.id
        ])
        .map(drop)
}

/// Extends a lease; returns false if the claim is void.
pub(super) fn renew(connection: &Connection, claim: &Claim, until: Timestamp) -> rusqlite::Result<bool> {
    let sql = "UPDATE firings SET held_until_us = ?
         WHERE schedule = ? AND instant_us = ? AND epoch = ? AND state = 'claimed'";
    let instant = claim.instant.as_microsecond();
    Ok(connection.execute(sql, params![until.as_microsecond(), claim.schedule, instant, claim.epoch])? == 1)
}

/// Ends the attempt of a claim; returns false if the claim is void.
pub(super) fn finish(
    connection: &Connection,
    claim: &Claim,
    end: &AttemptEnd,
    now: Timestamp,
    decide: &DecideAfter<'_>,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT {FIRING} FROM firings WHERE schedule = ? AND instant_us = ? AND epoch = ? AND state = 'claimed'"
    );
    let instant = claim.instant.as_microsecond();
    let found =
        connection.query_row(&sql, params![claim.schedule, instant, claim.epoch], read_firing).optional()?;
    let (Some(firing), Some(schedule)) = (found, super::find(connection, &claim.schedule)?) else {
        return Ok(false);
    };
    let after = decide(&schedule, &firing);
    let retry_at = after.retry_at.filter(|_| !end.succeeded && after.disabled.is_none());
    let state = match (end.succeeded, retry_at) {
        (true, _) => FiringState::Done,
        (false, Some(_)) => FiringState::Waiting,
        (false, None) => FiringState::Failed,
    };
    let ended_at = retry_at.is_none().then_some(now);
    connection.execute(
        "UPDATE firings SET state = ?, held_until_us = ?, ended_at_us = ?, outcome = ?, output = ?
         WHERE schedule = ? AND instant_us = ?",
        params![
            state.as_str(),
            retry_at.unwrap_or(firing.held_until).as_microsecond(),
            ended_at.map(Timestamp::as_microsecond),
            end.outcome,
            end.output,
            claim.schedule,
            instant,
        ],
    )?;
    let is_over = ended_at.is_some() && matches!(schedule.times, ScheduleTimes::OneTime(_));
    connection.execute(
        "UPDATE schedules SET failures = ?1, disabled = coalesce(?2, disabled),
            last_status = CASE WHEN ?3 THEN ?4 ELSE last_status END,
            state = CASE WHEN ?5 THEN 'ended' WHEN ?2 IS NOT NULL AND state = 'active' THEN 'paused' ELSE state END
         WHERE id = ?6",
        params![after.failures, after.disabled, ended_at.is_some(), state.as_str(), is_over, schedule.id],
    )?;
    if ended_at.is_some() {
        release_queued(connection, &schedule.id, now)?;
        forget_old(connection, &schedule.id)?;
    }
    Ok(true)
}

/// Lets the earliest queued firing begin, if no other one runs.
fn release_queued(connection: &Connection, schedule: &str, now: Timestamp) -> rusqlite::Result<()> {
    if open_firings(connection, schedule)?.running > 0 {
        return Ok(());
    }
    connection
        .execute(
            "UPDATE firings SET state = 'waiting', held_until_us = ?2 WHERE schedule = ?1 AND instant_us =
                (SELECT min(instant_us) FROM firings INDEXED BY firings_open
                    WHERE schedule = ?1 AND ended_at_us IS NULL AND state = 'queued')",
            params![schedule, now.as_microsecond()],
        )
        .map(drop)
}

/// Deletes the oldest ended firings of a schedule, beyond those that are kept.
fn forget_old(connection: &Connection, schedule: &str) -> rusqlite::Result<()> {
    connection
        .execute(
            "DELETE FROM firings WHERE schedule = ?1 AND ended_at_us IS NOT NULL AND instant_us <=
                (SELECT instant_us FROM firings WHERE schedule = ?1 ORDER BY instant_us DESC LIMIT 1 OFFSET ?2)",
            params![schedule, KEPT],
        )
        .map(drop)
}
