//! Who reads the audit is in the audit.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use store::{AuditRow, Durability, Filter, Kind, Recorded, Store, StoreError};
use tool::{Clock, Code, ToolError};

use crate::{Door, Engine, Redactor};

/// What rows name as their tool that say that the audit was read.
pub(crate) const READ_AUDIT: &str = "audit_read";

/// How long one row stands for the same reader's looking at the same: pages are turned, and screens look again and again.
const SAME_READING: SignedDuration = SignedDuration::from_mins(1);

/// Rows among which such a one is looked for. Where more was read within a minute, some of it may be recorded twice.
const MOST_LOOKED_AT: u32 = 200;

/// Who reads what of the audit.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The way it is read.
    pub door: Door,
    /// The dialect spoken there.
    pub dialect: &'static str,
    /// The session of who reads, where there is one.
    pub session: Option<String>,
    /// Who that is, where that is known.
    pub by: Option<String>,
    /// What is asked for, apart from the page of it.
    pub asked: Value,
}

impl Reading {
    /// What a filter asks for, as [`Reading::asked`] has it.
    pub fn of(filter: &Filter) -> Value {
        let since = filter.since.map(|since| since.to_string());
        let conditions = [("tool", &filter.tool), ("session", &filter.session), ("since", &since)];
        let named = |(name, value): (&str, &Option<String>)| Some((name.to_owned(), json!(value.as_ref()?)));
        Value::Object(conditions.into_iter().filter_map(named).collect())
    }

    /// Records it, unless it was recorded within the last minute. Blocks until the row is written. `outcome` is `ok` or a code.
    ///
    /// # Errors
    /// Where the row cannot be written, or those before it not be read.
    pub fn record(
        self,
        store: &Store,
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
            limit: MOST_LOOKED_AT,
            ..Filter::default()
        };
        // All but when it was, and its name.
        let is_same =
            |earlier: Recorded| AuditRow { time: row.time, call: row.call.clone(), ..earlier.row } == row;
        if store.audit().list(&recent)?.into_iter().any(is_same) {
            return Ok(());
        }
        store.audit().append(row, Durability::Committed).wait()
    }
}

impl Engine {
    /// Looks into the audit, and records that somebody did.
    ///
    /// # Errors
    /// What `look` says; `ERUNTIME` where the reading cannot be recorded: nothing is given out unrecorded.
    pub async fn read_audit<T: Send + 'static>(
        self: &Arc<Self>,
        reading: Reading,
        look: impl FnOnce(&Self) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let engine = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let looked = look(&engine);
            let outcome = looked.as_ref().map_or_else(|error| error.code.as_str(), |_| "ok");
            let recorded = reading.record(&engine.store, engine.clock.as_ref(), &engine.redactor, outcome);
            recorded.map_err(|error| {
                ToolError::new(Code::Runtime, "that the audit was read cannot be recorded").because(error)
            })?;
            looked
        });
        reading
            .await
            .unwrap_or_else(|panic| Err(ToolError::internal("the audit could not be read").because(panic)))
    }
}

/// The error of an audit that cannot be read.
pub fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> ToolError {
    ToolError::new(Code::Runtime, format!("the audit cannot be read: {error}")).because(error)
}
