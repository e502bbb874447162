//! Mail between agents, shared by all processes of a state folder.
//!
//! A claim reads only the first open mail of each lane, which the column `first` marks, so that its cost
//! does not depend on the number of mails behind it.
//!
//! INVARIANT: a mail that has left the states `waiting` and `claimed` never comes back. A trigger marks the
//! next mail of its lane at that moment.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use store_api::{MAIL_BYTES_MAX, MailRow, MailState, MailStore, NewMail, Priority, SendOutcome, StoreError};

use crate::approvals::{bytes, time};
use crate::columns::{optional_time, word};
use crate::database::Database;

/// Columns of a mail, in the order of the indices in [`read`].
const COLUMNS: &str = "id, workspace, sender, receiver, priority, body, in_reply_to, sent_at_us, deadline_us, \
     state, claimed_until_us, epoch, dead_reason";

/// Condition of an open mail, which the indexes have word for word.
const OPEN: &str = "state IN ('waiting', 'claimed')";

/// Condition of a mail that nobody holds, at the time `?1`.
const FREE: &str = "(claimed_until_us IS NULL OR claimed_until_us <= ?1)";

/// The mail of one store.
pub(crate) struct SqliteMail {
    database: Arc<Database>,
}

impl MailStore for SqliteMail {
    fn send(
        &self,
        new: &NewMail,
        most_waiting_per_receiver: u32,
        most_waiting_per_sender_and_receiver: u32,
    ) -> Result<SendOutcome, StoreError> {
        let new = NewMail { body: self.checked(&new.body)?, ..new.clone() };
        self.database.write(|connection| {
            let workspace = bytes(&new.workspace);
            let of_all = format!("SELECT count(*) FROM mail WHERE workspace = ? AND receiver = ? AND {OPEN}");
            let open: u32 = connection
                .prepare_cached(&of_all)?
                .query_row(params![workspace, new.to], |row| row.get(0))?;
            let of_sender = format!("{of_all} AND sender = ?");
            let open_of_sender: u32 = connection
                .prepare_cached(&of_sender)?
                .query_row(params![workspace, new.to, new.from], |row| row.get(0))?;
            if open >= most_waiting_per_receiver || open_of_sender >= most_waiting_per_sender_and_receiver {
                return Ok(SendOutcome::Full);
            }
            insert(connection, &new).map(SendOutcome::Sent)
        })
    }

    fn claim(
        &self,
        to: &str,
        workspace: &Path,
        now: Timestamp,
        lease: SignedDuration,
        most: u32,
    ) -> Result<Vec<MailRow>, StoreError> {
        // Most of the time nothing waits, and the caller need not wait for processes that write.
        let mailbox = (workspace, to);
        if most == 0 || self.database.read(|connection| claimable(connection, mailbox, now, 1))?.is_empty() {
            return Ok(Vec::new());
        }
        let claimed_until = now.checked_add(lease).unwrap_or(Timestamp::MAX);
        let sql = format!(
            "UPDATE mail SET state = 'claimed', claimed_until_us = ?, epoch = epoch + 1 WHERE id = ?
             RETURNING {COLUMNS}"
        );
        self.database.write(|connection| {
            bury_expired(connection, now)?;
            let ids = claimable(connection, mailbox, now, most)?;
            let mut statement = connection.prepare_cached(&sql)?;
            ids.into_iter()
                .map(|id| statement.query_row(params![claimed_until.as_microsecond(), id], read))
                .collect()
        })
    }

    fn delivered(&self, id: i64, epoch: u32) -> Result<bool, StoreError> {
        let sql = "UPDATE mail SET state = 'delivered', claimed_until_us = NULL
             WHERE id = ? AND epoch = ? AND state = 'claimed'";
        self.database
            .write(|connection| Ok(connection.prepare_cached(sql)?.execute(params![id, epoch])? == 1))
    }

    fn answer(&self, id: i64, from: &str, body: &str, now: Timestamp) -> Result<Option<i64>, StoreError> {
        let body = self.checked(body)?;
        let sql = format!(
            "UPDATE mail SET state = 'answered' WHERE id = ? AND receiver = ? AND state = 'delivered'
             RETURNING {COLUMNS}"
        );
        self.database.write(|connection| {
            let asked = connection.prepare_cached(&sql)?.query_row(params![id, from], read).optional()?;
            let reply = asked.map(|asked| NewMail {
                workspace: asked.workspace,
                from: asked.to,
                to: asked.from,
                priority: asked.priority,
                body,
                in_reply_to: Some(asked.id),
                sent_at: now,
                deadline: None,
            });
            reply.map(|reply| insert(connection, &reply)).transpose()
        })
    }

    fn find(&self, id: i64) -> Result<Option<MailRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM mail WHERE id = ?");
        self.database.read(|connection| connection.prepare_cached(&sql)?.query_row([id], read).optional())
    }

    fn replies(&self, in_reply_to: i64) -> Result<Option<MailRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM mail WHERE in_reply_to = ? ORDER BY id LIMIT 1");
        self.database
            .read(|connection| connection.prepare_cached(&sql)?.query_row([in_reply_to], read).optional())
    }

    fn take_reply(&self, in_reply_to: i64, to: &str) -> Result<Option<MailRow>, StoreError> {
        let first = "SELECT min(id) FROM mail WHERE in_reply_to = ?1 AND receiver = ?2";
        let open = format!("SELECT 1 FROM mail WHERE id = ({first}) AND {OPEN}");
        let sql = format!(
            "UPDATE mail SET state = 'delivered', claimed_until_us = NULL WHERE id = ({first}) AND {OPEN}
             RETURNING {COLUMNS}"
        );
        let values = params![in_reply_to, to];
        // A caller who waits for a reply asks often, and need not wait for processes that write.
        if !self.database.read(|connection| connection.prepare_cached(&open)?.exists(values))? {
            return Ok(None);
        }
        self.database.write(|connection| connection.prepare_cached(&sql)?.query_row(values, read).optional())
    }

    fn expire(&self, now: Timestamp) -> Result<u64, StoreError> {
        let any = format!("SELECT 1 FROM mail WHERE {OPEN} AND deadline_us <= ?1 AND {FREE}");
        let expired =
            |connection: &Connection| connection.prepare_cached(&any)?.exists([now.as_microsecond()]);
        if !self.database.read(expired)? {
            return Ok(0);
        }
        self.database.write(|connection| bury_expired(connection, now))
    }

    fn kill_of(&self, workspace: &Path, receiver: &str, reason: &str) -> Result<u64, StoreError> {
        let mut reason = reason.to_owned();
        self.database.cover(&mut reason);
        let sql = format!(
            "UPDATE mail SET state = 'dead', dead_reason = ?, claimed_until_us = NULL
             WHERE workspace = ? AND receiver = ? AND {OPEN}"
        );
        self.database.write(|connection| {
            let values = params![reason, bytes(workspace), receiver];
            Ok(connection.prepare_cached(&sql)?.execute(values)? as u64)
        })
    }

    fn dead(&self, workspace: &Path, limit: u32) -> Result<Vec<MailRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM mail WHERE workspace = ? AND state = 'dead' ORDER BY id DESC LIMIT ?"
        );
        self.database.read(|connection| {
            connection.prepare_cached(&sql)?.query_map(params![bytes(workspace), limit], read)?.collect()
        })
    }

    fn waiting(&self, workspace: &Path, to: &str) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM mail WHERE workspace = ? AND receiver = ? AND {OPEN}");
        let values = params![bytes(workspace), to];
        self.database.read(|connection| {
            connection.prepare_cached(&sql)?.query_row(values, |row| crate::columns::amount(row, 0))
        })
    }

    fn purge(&self, before: Timestamp) -> Result<u64, StoreError> {
        let sql = format!("DELETE FROM mail WHERE NOT {OPEN} AND sent_at_us < ?");
        self.database.write(|connection| {
            Ok(connection.prepare_cached(&sql)?.execute([before.as_microsecond()])? as u64)
        })
    }
}

impl SqliteMail {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    /// Returns a body with its secrets masked, or an error if it is too long.
    fn checked(&self, body: &str) -> Result<String, StoreError> {
        if body.len() > MAIL_BYTES_MAX {
            let (bytes, most) = (body.len(), MAIL_BYTES_MAX);
            return Err(StoreError::TooLong { what: "body of the mail", bytes, most });
        }
        let mut body = body.to_owned();
        self.database.cover(&mut body);
        Ok(body)
    }
}

fn insert(connection: &Connection, new: &NewMail) -> rusqlite::Result<i64> {
    let sql = format!(
        "INSERT INTO mail (workspace, sender, receiver, priority, body, in_reply_to, sent_at_us, deadline_us,
            state, first)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'waiting', NOT EXISTS (
            SELECT 1 FROM mail WHERE workspace = ?1 AND sender = ?2 AND receiver = ?3 AND priority = ?4 AND {OPEN}))"
    );
    connection.prepare_cached(&sql)?.insert(params![
        bytes(&new.workspace),
        new.from,
        new.to,
        new.priority == Priority::High,
        new.body,
        new.in_reply_to,
        new.sent_at.as_microsecond(),
        new.deadline.map(Timestamp::as_microsecond),
    ])
}

/// Returns the first mails of the lanes of a mailbox that nobody holds, in the order of their delivery.
fn claimable(
    connection: &Connection,
    (workspace, to): (&Path, &str),
    now: Timestamp,
    most: u32,
) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT id FROM mail INDEXED BY mail_first
         WHERE workspace = ?2 AND receiver = ?3 AND first = 1 AND {OPEN} AND {FREE}
         ORDER BY priority DESC, id LIMIT ?4"
    ))?;
    let rows =
        statement.query_map(params![now.as_microsecond(), bytes(workspace), to, most], |row| row.get(0))?;
    rows.collect()
}

/// Buries the mails past their deadline that nobody holds, and returns their number.
fn bury_expired(connection: &Connection, now: Timestamp) -> rusqlite::Result<u64> {
    let sql = format!(
        "UPDATE mail SET state = 'dead', dead_reason = 'deadline', claimed_until_us = NULL
         WHERE {OPEN} AND deadline_us <= ?1 AND {FREE}"
    );
    Ok(connection.prepare_cached(&sql)?.execute([now.as_microsecond()])? as u64)
}

fn read(row: &Row<'_>) -> rusqlite::Result<MailRow> {
    let workspace: Vec<u8> = row.get(1)?;
    Ok(MailRow {
        id: row.get(0)?,
        workspace: PathBuf::from(OsStr::from_bytes(&workspace)),
        from: row.get(2)?,
        to: row.get(3)?,
        priority: if row.get(4)? { Priority::High } else { Priority::Standard },
        body: row.get(5)?,
        in_reply_to: row.get(6)?,
        sent_at: time(7, row.get(7)?)?,
        deadline: optional_time(row, 8)?,
        state: word::<MailState>(row, 9, "state")?,
        claimed_until: optional_time(row, 10)?,
        epoch: row.get(11)?,
        dead_reason: row.get(12)?,
    })
}
