//! Audit records of reads of the audit.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use store_api::{AuditRow, Durability, Filter, Kind, RecordedRow, Store, StoreError};
use tool::{Clock, Code, ToolError};

use crate::{Door, Engine, Redactor};

/// Tool name in the audit rows that record a read of the audit.
pub(crate) const READ_AUDIT: &str = "audit_read";

/// Time for which one row stands for the same query by the same reader. People turn pages, and
/// screens query again and again.
const SAME_READING: SignedDuration = SignedDuration::from_mins(1);

/// Maximum number of recent rows that are searched for the same reading. If more reads happen
/// within a minute, some may be recorded twice.
const MAX_LOOKED_AT: u32 = 200;

/// Read access to the audit: the reader and the query.
#[derive(Debug, Clone)]
pub struct AuditReading {
    /// Door through which the audit is read.
    pub door: Door,
    /// Dialect of the door.
    pub dialect: &'static str,
    /// Session of the reader, if the reader has one.
    pub session: Option<String>,
    /// Identity of the reader, if known.
    pub by: Option<String>,
    /// Query, without its page.
    pub asked: Value,
}

impl AuditReading {
    /// Returns the query of a filter in the form of [`AuditReading::asked`].
    pub fn of(filter: &Filter) -> Value {
        let time = |time: Option<jiff::Timestamp>| time.map(|time| time.to_string());
        let (since, until) = (time(filter.since), time(filter.until));
        let words = (!filter.containing.is_empty()).then(|| filter.containing.join(" "));
        let conditions = [
            ("tool", &filter.tool),
            ("session", &filter.session),
            ("since", &since),
            ("until", &until),
            ("words", &words),
        ];
        let named = |(name, value): (&str, &Option<String>)| Some((name.to_owned(), json!(value.as_ref()?)));
        Value::Object(conditions.into_iter().filter_map(named).collect())
    }

    /// Records the reading, unless it was recorded within the last minute. Blocks until the row is
    /// written. `outcome` is `ok` or a code.
    ///
    /// # Errors
    /// Returns an error if the row cannot be written, or if earlier rows cannot be read.
    pub fn record(
        self,
        store: &dyn Store,
        clock: &dyn Clock,
        redactor: &Redactor,
        outcome: &str,
    ) -> Result<(), StoreError> {
        let now = clock.now();
        let mut plan = json!({"arguments": self.asked, "effects": []});
        if let Some(by) = self.by {
            plan["by"] = Value::from(by);
        }
        redactor.value(&mut plan);
        let call = crate::new_call_id(clock);
        let mut row = AuditRow::new(Kind::Call, now, &call.0, self.door.as_str(), self.dialect, READ_AUDIT);
        row.session = self.session;
        row.plan = Some(plan.to_string());
        row.effect = Some("none".to_owned());
        row.outcome = Some(outcome.to_owned());
        let recent = Filter {
            tool: Some(READ_AUDIT.to_owned()),
            session: row.session.clone(),
            since: now.checked_sub(SAME_READING).ok(),
            limit: MAX_LOOKED_AT,
            ..Filter::default()
        };
        // The comparison ignores the time and the id of the call.
        let is_same =
            |earlier: RecordedRow| AuditRow { time: row.time, call: row.call.clone(), ..earlier.row } == row;
        if store.audit().list(&recent)?.into_iter().any(is_same) {
            return Ok(());
        }
        store.audit().append(row, Durability::Committed).wait()
    }
}

impl Engine {
    /// Reads the audit, and records the reading.
    ///
    /// # Errors
    /// Returns the error of `look`, or `ERUNTIME` if the reading cannot be recorded: no data is
    /// returned without a record.
    pub async fn read_audit<T: Send + 'static>(
        self: &Arc<Self>,
        reading: AuditReading,
        look: impl FnOnce(&Self) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let engine = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let looked = look(&engine);
            let outcome = looked.as_ref().map_or_else(|error| error.code.as_str(), |_| "ok");
            let recorded =
                reading.record(engine.store.as_ref(), engine.clock.as_ref(), &engine.redactor, outcome);
            recorded.map_err(|error| {
                ToolError::new(Code::Runtime, "reading the audit could not be recorded").because(error)
            })?;
            looked
        });
        reading
            .await
            .unwrap_or_else(|panic| Err(ToolError::internal("the audit could not be read").because(panic)))
    }
}

/// Returns the error for an audit that cannot be read.
pub fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> ToolError {
    ToolError::new(Code::Runtime, format!("the audit cannot be read: {error}")).because(error)
}
