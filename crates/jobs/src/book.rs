//! The schedules of one workspace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use schedule::{Kind, Schedule, ScheduleError};
use store_api::{
    AddOutcome, Claimer, Firing, ScheduleFilter, ScheduleRow, ScheduleState, ScheduleTimes, Store, StoreError,
};

use crate::{Action, JobRules};

/// Maximum number of characters of a name.
const LONGEST_NAME: usize = 100;

/// A reason why a schedule cannot be stored, found or changed.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// The times cannot be read.
    #[error(transparent)]
    Times(#[from] ScheduleError),
    /// The name cannot be one.
    #[error("a name has 1 to {LONGEST_NAME} characters, and no control characters")]
    Name,
    /// Another schedule has the name.
    #[error("there is a schedule named {0} already")]
    Taken(String),
    /// The state has as many schedules as it can have.
    #[error("there are too many schedules")]
    Full,
    /// No schedule has this name or id.
    #[error("there is no schedule {0}")]
    Missing(String),
    /// The time zone of this machine has no name, so the times could not be computed again.
    #[error("the time zone of this machine has no name")]
    Zone,
    /// The single instant of a paused schedule is over.
    #[error("its time is over")]
    Over,
    /// The job cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The state cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A job that is to be stored.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Id, which no other schedule has.
    pub id: String,
    /// Id of the call that stores it.
    pub call: String,
    /// Name, for people and for later changes.
    pub name: String,
    /// Description, for people.
    pub description: String,
    /// Times: a cron line or a phrase.
    pub times: String,
    /// Action of the job.
    pub action: Action,
    /// Rules for missed, overlapping and failed firings.
    pub rules: JobRules,
    /// JSON of all that the job may do at most.
    pub ceiling: String,
}

/// The schedules of one workspace. Each method blocks.
pub struct ScheduleBook {
    store: Arc<dyn Store>,
    workspace: PathBuf,
    /// Zone in which times of the day are meant; `None` for that of the machine, which may change.
    zone: Option<TimeZone>,
    /// Function that is told of each change.
    on_change: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl ScheduleBook {
    /// Creates the book of a workspace. Times of the day are meant in `zone`, or else in the zone of the
    /// machine.
    pub fn new(store: Arc<dyn Store>, workspace: PathBuf, zone: Option<TimeZone>) -> Self {
        Self { store, workspace, zone, on_change: Mutex::default() }
    }

    /// Sets the function that is told of each change by this process.
    pub fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        *self.on_change.lock() = Some(Box::new(listener));
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Reads a cron line or a phrase, as meant at `now`.
    ///
    /// # Errors
    /// [`BookError::Times`] says what is not understood.
    pub fn read(&self, times: &str, now: Timestamp) -> Result<Schedule, BookError> {
        Ok(Schedule::parse(times, &now.to_zoned(self.zone()))?)
    }

    /// Checks that a name could be that of a new schedule.
    ///
    /// # Errors
    /// [`BookError::Name`], [`BookError::Taken`], [`BookError::Store`].
    pub fn is_free(&self, name: &str) -> Result<(), BookError> {
        let length = name.chars().count();
        if length == 0 || length > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(BookError::Name);
        }
        let named = self.store.schedules().named(&self.workspace, name)?;
        if named.is_some_and(|row| row.state != ScheduleState::Ended) {
            Err(BookError::Taken(name.to_owned()))
        } else {
            Ok(())
        }
    }

    /// Stores a job, and returns its row.
    ///
    /// # Errors
    /// Every [`BookError`] but `Missing` and `Over`. Nothing is stored then.
    pub fn add(&self, new: NewJob, now: Timestamp) -> Result<ScheduleRow, BookError> {
        self.is_free(&new.name)?;
        let schedule = self.read(&new.times, now)?;
        let zone = schedule.zone().iana_name().ok_or(BookError::Zone)?.to_owned();
        let times = match schedule.kind() {
            Kind::Recurring { cron_expression } => ScheduleTimes::Recurring(cron_expression),
            Kind::OneTime { run_at } => ScheduleTimes::OneTime(run_at),
        };
        let row = ScheduleRow {
            id: new.id,
            name: new.name,
            description: new.description,
            workspace: self.workspace.clone(),
            text: new.times,
            canonical: schedule.canonical().to_owned(),
            zone,
            times,
            action: serde_json::to_string(&new.action)?,
            ceiling: new.ceiling,
            rules: serde_json::to_string(&new.rules)?,
            state: ScheduleState::Active,
            created_at: now,
            created_by: new.call,
            next_at: schedule.next(now),
            last_at: None,
            last_status: None,
            failures: 0,
            disabled: None,
        };
        match self.store.schedules().add(&row)? {
            AddOutcome::Added => self.changed(),
            AddOutcome::Taken | AddOutcome::NameTaken => return Err(BookError::Taken(row.name)),
            AddOutcome::Full => return Err(BookError::Full),
        }
        Ok(row)
    }

    /// Lists the schedules, in the order of their creation.
    ///
    /// # Errors
    /// [`BookError::Store`].
    pub fn list(&self, filter: ScheduleFilter) -> Result<Vec<ScheduleRow>, BookError> {
        Ok(self.store.schedules().list(Some(&self.workspace), filter)?)
    }

    /// Returns the numbers of active and of paused schedules.
    ///
    /// # Errors
    /// [`BookError::Store`].
    pub fn counts(&self) -> Result<(u32, u32), BookError> {
        Ok(self.store.schedules().counts(&self.workspace)?)
    }

    /// Finds a schedule of the workspace by its id or its name. Of several ended ones with one name, the
    /// latest is meant, and one that has not ended comes first.
    ///
    /// # Errors
    /// [`BookError::Missing`], [`BookError::Store`].
    pub fn find(&self, named: &str) -> Result<ScheduleRow, BookError> {
        let schedules = self.store.schedules();
        let by_id = schedules.find(named)?.filter(|row| row.workspace == self.workspace);
        match by_id {
            Some(row) => Ok(row),
            None => {
                schedules.named(&self.workspace, named)?.ok_or_else(|| BookError::Missing(named.to_owned()))
            }
        }
    }

    /// Pauses a schedule; returns false if it was not active.
    ///
    /// # Errors
    /// [`BookError::Store`].
    pub fn pause(&self, row: &ScheduleRow) -> Result<bool, BookError> {
        let paused = self.store.schedules().pause(&row.id)?;
        self.changed();
        Ok(paused)
    }

    /// Resumes a paused schedule with its next instant after `now`; returns false if it was not paused.
    ///
    /// # Errors
    /// [`BookError::Over`] if there is no further instant, [`BookError::Times`], [`BookError::Store`].
    pub fn resume(&self, row: &ScheduleRow, now: Timestamp) -> Result<bool, BookError> {
        let next = restored(row)?.next(now).ok_or(BookError::Over)?;
        let resumed = self.store.schedules().resume(&row.id, Some(next))?;
        self.changed();
        Ok(resumed)
    }

    /// Removes a schedule with its history; returns false if it is gone.
    ///
    /// # Errors
    /// [`BookError::Store`].
    pub fn remove(&self, row: &ScheduleRow) -> Result<bool, BookError> {
        let removed = self.store.schedules().remove(&row.id)?;
        self.changed();
        Ok(removed)
    }

    /// Lists the firings of a schedule, the latest first.
    ///
    /// # Errors
    /// [`BookError::Store`].
    pub fn history(&self, row: &ScheduleRow, limit: u32) -> Result<Vec<Firing>, BookError> {
        Ok(self.store.schedules().firings(&row.id, limit)?)
    }

    /// Claims a firing for `now` beside the schedule's instants; `None` if the schedule is gone, or fires at
    /// this very instant.
    ///
    /// # Errors
    /// [`BookError::Store`].
    pub fn fire_now(
        &self,
        row: &ScheduleRow,
        claimer: &Claimer,
        now: Timestamp,
    ) -> Result<Option<Firing>, BookError> {
        Ok(self.store.schedules().claim_now(&row.id, claimer, now)?)
    }

    fn zone(&self) -> TimeZone {
        self.zone.clone().unwrap_or_else(TimeZone::system)
    }

    fn changed(&self) {
        if let Some(listener) = &*self.on_change.lock() {
            listener();
        }
    }
}

/// Restores the times of a stored schedule.
///
/// # Errors
/// An error if the row cannot be read, such as one whose zone this machine does not know.
pub fn restored(row: &ScheduleRow) -> Result<Schedule, ScheduleError> {
    let kind = match &row.times {
        ScheduleTimes::Recurring(line) => Kind::Recurring { cron_expression: line.clone() },
        ScheduleTimes::OneTime(at) => Kind::OneTime { run_at: *at },
    };
    let zone = TimeZone::get(&row.zone).map_err(|_| ScheduleError::Zone { name: row.zone.clone() })?;
    Schedule::restore(&kind, &row.canonical, zone)
}
