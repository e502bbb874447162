//! The ledger of one call, kept in the store.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use llm::{Amount, Hold, Limit, Reserve, ReserveError, WorstCase};
use store_api::{Amounts, Limits, ReserveOutcome, Store};
use tool::{BoxFuture, Clock};

use crate::{PER_MILLIONTH, SharedLimits, amount, amounts, day_of, keys, scope};

/// Ledger of one call.
pub(crate) struct StoredLedger {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: SharedLimits,
    pub(crate) project: PathBuf,
    pub(crate) zone: TimeZone,
    pub(crate) owner: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lease: SignedDuration,
}

/// Reservation in the store. If its process is killed, it counts as spent when its lease has ended.
struct StoredHold {
    store: Arc<dyn Store>,
    id: i64,
    /// Amount that is charged when this is dropped; `None` if it is settled.
    if_dropped: Option<Amounts>,
}

impl Reserve for StoredLedger {
    fn reserve(&self, worst: WorstCase) -> BoxFuture<'_, Result<Box<dyn Hold>, ReserveError>> {
        // INVARIANT: no await lies between the reservation and its hold, so a dropped future reserves nothing.
        Box::pin(async move { self.reserve_now(worst) })
    }
}

impl StoredLedger {
    fn reserve_now(&self, worst: WorstCase) -> Result<Box<dyn Hold>, ReserveError> {
        let now = self.clock.now();
        let [day, project] = keys(day_of(now, self.zone.clone()), self.project.clone());
        let accounts = [(day, self.limits.day), (project, self.limits.project)];
        for (key, limit) in &accounts {
            worst.require_known(Some(&scope(key)), *limit)?;
        }
        let reserved = amounts(worst.amount());
        let stored = accounts.clone().map(|(key, limit)| (key, stored(limit)));
        let outcome = self.store.spending().reserve(&stored, reserved, &self.owner, now, self.lease);
        match outcome.map_err(|error| ReserveError::Failed(error.to_string()))? {
            ReserveOutcome::Reserved(id) => {
                Ok(Box::new(StoredHold { store: self.store.clone(), id, if_dropped: Some(reserved) }))
            }
            ReserveOutcome::Over { key, limit, spent, reserved: taken } => {
                let scope = scope(&key);
                let needed = amount(reserved);
                let worst = WorstCase { money: Some(needed.money), tokens: Some(needed.tokens) };
                let taken = amount(spent.saturating_add(taken));
                worst.require_room(Some(&scope), told(limit), taken)?;
                Err(ReserveError::Failed(format!("the store allows no reservation for the {scope}")))
            }
        }
    }
}

impl Hold for StoredHold {
    fn settle(mut self: Box<Self>, real: Amount) {
        self.if_dropped = None;
        self.end(amounts(real));
    }
}

impl StoredHold {
    fn end(&self, real: Amounts) {
        // A reservation that cannot be settled now counts as spent, with its worst case, after its lease.
        let _settled = self.store.spending().settle(self.id, real);
    }
}

impl Drop for StoredHold {
    fn drop(&mut self) {
        if let Some(worst) = self.if_dropped.take() {
            self.end(worst);
        }
    }
}

/// Converts a limit to the numbers of the store. A part of a millionth is left out, so that no limit is too
/// high.
fn stored(limit: Limit) -> Limits {
    let micro_usd = limit.money.map(|money| money.trillionths() / PER_MILLIONTH);
    Limits { micro_usd, tokens: limit.tokens }
}

/// Converts a limit from the numbers of the store.
fn told(limit: Limits) -> Limit {
    let money = limit.micro_usd.map(|micro_usd| amount(Amounts { micro_usd, tokens: 0 }).money);
    Limit { money, tokens: limit.tokens }
}
