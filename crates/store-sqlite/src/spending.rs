//! Costs of models, shared by all processes of a state folder.
//!
//! A reservation is one row, and one row for each account. Their sums are made here and not by the
//! engine, whose sums fail when they overflow.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use store_api::{Amounts, Limits, ReserveOutcome, SpendingKey, SpendingScope, SpendingStore, StoreError};

use crate::columns::{amount, stored};
use crate::database::Database;

/// Number of days before today that are kept.
const DAYS_KEPT: i32 = 40;

/// The accounts of one store.
pub(crate) struct SqliteSpending {
    database: Arc<Database>,
}

impl SpendingStore for SqliteSpending {
    fn reserve(
        &self,
        accounts: &[(SpendingKey, Limits)],
        worst: Amounts,
        owner: &str,
        now: Timestamp,
        lease: SignedDuration,
    ) -> Result<ReserveOutcome, StoreError> {
        let held_until = now.checked_add(lease).unwrap_or(Timestamp::MAX);
        self.database.write(|connection| {
            charge_expired(connection, now)?;
            forget_days(connection, now)?;
            for (key, limit) in accounts {
                let (spent, reserved) = sums(connection, key, now)?;
                if !limit.allow(spent.saturating_add(reserved).saturating_add(worst)) {
                    return Ok(ReserveOutcome::Over { key: key.clone(), limit: *limit, spent, reserved });
                }
            }
            let sql =
                "INSERT INTO reservations (owner, micro_usd, tokens, held_until_us) VALUES (?, ?, ?, ?)";
            let held_until = held_until.as_microsecond();
            let id = connection.prepare_cached(sql)?.insert(params![
                owner,
                stored(worst.micro_usd),
                stored(worst.tokens),
                held_until
            ])?;
            let sql = "INSERT OR IGNORE INTO reserved_accounts (scope, name, reservation) VALUES (?, ?, ?)";
            let mut statement = connection.prepare_cached(sql)?;
            for (key, _) in accounts {
                let (scope, name) = columns(key);
                statement.execute(params![scope, name, id])?;
            }
            Ok(ReserveOutcome::Reserved(id))
        })
    }

    fn settle(&self, id: i64, real: Amounts) -> Result<bool, StoreError> {
        self.database.write(|connection| charge(connection, id, real))
    }

    fn spent(&self, key: &SpendingKey, now: Timestamp) -> Result<(Amounts, Amounts), StoreError> {
        self.database.with(|connection| {
            // One transaction, so that no reservation is missed or counted twice while it is settled.
            let transaction = connection.transaction().map_err(|error| self.database.error(error))?;
            sums(&transaction, key, now).map_err(|error| self.database.error(error))
        })
    }
}

impl SqliteSpending {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

/// Charges the reservations whose lease has ended with all that they reserve.
fn charge_expired(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let mut statement = connection
        .prepare_cached("SELECT micro_usd, tokens, id FROM reservations WHERE held_until_us <= ?")?;
    let rows = statement.query_map([now.as_microsecond()], |row| Ok((amounts(row)?, row.get(2)?)))?;
    let expired: Vec<(Amounts, i64)> = rows.collect::<Result<_, _>>()?;
    for (worst, id) in expired {
        charge(connection, id, worst)?;
    }
    Ok(())
}

/// Ends a reservation, and adds to the accounts that it names; false if it has ended before.
fn charge(connection: &Connection, id: i64, real: Amounts) -> rusqlite::Result<bool> {
    if connection.prepare_cached("DELETE FROM reservations WHERE id = ?")?.execute([id])? == 0 {
        return Ok(false);
    }
    let values = params![id, stored(real.micro_usd), stored(real.tokens), i64::MAX];
    // A sum beyond the greatest integer would become a fraction, which the table refuses.
    connection
        .prepare_cached(
            "INSERT INTO spending (scope, name, micro_usd, tokens)
             SELECT scope, name, ?2, ?3 FROM reserved_accounts WHERE reservation = ?1
             ON CONFLICT (scope, name) DO UPDATE SET
                micro_usd = micro_usd + min(excluded.micro_usd, ?4 - micro_usd),
                tokens = tokens + min(excluded.tokens, ?4 - tokens)",
        )?
        .execute(values)?;
    connection.prepare_cached("DELETE FROM reserved_accounts WHERE reservation = ?")?.execute([id])?;
    Ok(true)
}

fn forget_days(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let Ok(first) = today.checked_sub(jiff::Span::new().days(DAYS_KEPT)) else {
        return Ok(());
    };
    let first = first.to_string().into_bytes();
    connection
        .prepare_cached("DELETE FROM spending WHERE scope = 'day' AND name < ?")?
        .execute([first])
        .map(drop)
}

/// Returns what is spent of an account, with the reservations whose lease has ended, and what the
/// others reserve.
fn sums(connection: &Connection, key: &SpendingKey, now: Timestamp) -> rusqlite::Result<(Amounts, Amounts)> {
    let (scope, name) = columns(key);
    let sql = "SELECT micro_usd, tokens FROM spending WHERE scope = ? AND name = ?";
    let found = connection.prepare_cached(sql)?.query_row(params![scope, name], amounts).optional()?;
    let (mut spent, mut reserved) = (found.unwrap_or_default(), Amounts::default());
    let mut statement = connection.prepare_cached(
        "SELECT micro_usd, tokens, held_until_us <= ?3 FROM reserved_accounts CROSS JOIN reservations ON id = reservation
         WHERE scope = ?1 AND name = ?2",
    )?;
    let rows = statement
        .query_map(params![scope, name, now.as_microsecond()], |row| Ok((amounts(row)?, row.get(2)?)))?;
    for row in rows {
        let (amounts, expired): (Amounts, bool) = row?;
        let sum = if expired { &mut spent } else { &mut reserved };
        *sum = sum.saturating_add(amounts);
    }
    Ok((spent, reserved))
}

/// Reads amounts from the first two columns.
fn amounts(row: &Row<'_>) -> rusqlite::Result<Amounts> {
    Ok(Amounts { micro_usd: amount(row, 0)?, tokens: amount(row, 1)? })
}

fn columns(key: &SpendingKey) -> (&'static str, Vec<u8>) {
    match &key.scope {
        SpendingScope::Day(day) => ("day", day.to_string().into_bytes()),
        SpendingScope::Project(path) => ("project", path.as_os_str().as_bytes().to_vec()),
    }
}
