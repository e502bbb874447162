//! Schedules and their firings, shared by all processes of a state.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::StoreError;

/// A job and the times at which it runs.
///
/// All times are kept in whole microseconds. The name, the description and the text must have passed the
/// redaction. The store keeps `action`,
/// `ceiling` and `rules` as they are and does not read them: callers refuse an action that contains a
/// secret, because a masked one would do something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduleRow {
    /// Id of the schedule.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Workspace in which the job runs.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// Times, as the caller wrote them.
    pub text: String,
    /// Times, in their canonical form.
    pub canonical: String,
    /// Name of the time zone in which times of the day are meant.
    pub zone: String,
    /// Kind of the times, from which they are computed.
    pub times: ScheduleTimes,
    /// JSON of the job.
    pub action: String,
    /// JSON of all that the job may do at most, frozen at the creation.
    pub ceiling: String,
    /// JSON of the rules for missed, overlapping and failed firings.
    pub rules: String,
    /// State of the schedule.
    pub state: ScheduleState,
    /// Time of the creation.
    pub created_at: Timestamp,
    /// Id of the call that has created it.
    pub created_by: String,
    /// First instant that was not claimed; `None` if there is no further one.
    pub next_at: Option<Timestamp>,
    /// Last instant that was claimed.
    pub last_at: Option<Timestamp>,
    /// State of the last firing that ended.
    pub last_status: Option<FiringState>,
    /// Number of failures since the last success.
    pub failures: u32,
    /// Reason why the schedule is disabled.
    pub disabled: Option<String>,
}

/// Kind of a schedule's times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleTimes {
    /// The instants of a cron line of five fields.
    Recurring(String),
    /// One instant.
    OneTime(Timestamp),
}

/// State of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleState {
    /// Active: instants fire.
    Active,
    /// Paused until somebody resumes it: by a person, or because too many firings have failed.
    Paused,
    /// Ended: the single instant has fired.
    Ended,
}

/// Choice of schedules for a list. Ended ones are in none of them but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleFilter {
    /// Active and paused ones.
    Open,
    /// Active ones.
    Active,
    /// Paused ones.
    Paused,
    /// All, with those that have ended.
    All,
}

/// Outcome of adding a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// The schedule is stored.
    Added,
    /// The id is taken; nothing was changed.
    Taken,
    /// A schedule of the workspace that has not ended has this name; nothing was changed.
    NameTaken,
    /// The store has its maximum of open schedules; nothing was changed.
    Full,
}

/// One run of a job, for one instant of its schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Firing {
    /// Claim that holds the firing now, or has held it last.
    pub claim: Claim,
    /// Owner of the claim, such as a process.
    pub owner: String,
    /// State of the firing.
    pub state: FiringState,
    /// Number of the attempt, from 0.
    pub attempt: u32,
    /// True if the lease of the claim before ended without an end of its attempt: its owner has died, or
    /// lasts longer than its lease. Nobody knows how much of that attempt was done.
    pub interrupted: bool,
    /// Time at which the instant was claimed or queued.
    pub begun_at: Timestamp,
    /// End of the lease; for a firing that waits, the time of its next attempt. Means nothing for others.
    pub held_until: Timestamp,
    /// Time of the end.
    pub ended_at: Option<Timestamp>,
    /// Outcome of the last attempt, for people.
    pub outcome: Option<String>,
    /// Id of the output of the last attempt that ended.
    pub output: Option<String>,
}

/// Fence of a firing. Each further claim of the same firing has a higher epoch, and voids the claims
/// before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Claim {
    /// Id of the schedule.
    pub schedule: String,
    /// Instant of the firing.
    pub instant: Timestamp,
    /// Number of the claim of this firing, from 1; 0 before the first.
    pub epoch: u32,
}

/// State of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FiringState {
    /// Run by an owner, until the lease ends.
    Claimed,
    /// Waiting for a time: that of the next attempt, or now if the firing before it has ended.
    Waiting,
    /// Waiting for earlier firings of the schedule.
    Queued,
    /// Ended with success.
    Done,
    /// Ended without success.
    Failed,
}

/// Process that claims firings.
#[derive(Clone, Debug)]
pub struct Claimer {
    /// Name of the owner.
    pub owner: String,
    /// Workspace whose schedules are claimed: their jobs run there alone.
    pub workspace: PathBuf,
    /// Time after which others may take the firings over.
    pub lease: SignedDuration,
    /// Number of firings that are claimed at most. The instants of one schedule are claimed together, so
    /// the last one may exceed it.
    pub most: usize,
}

/// Firings of a schedule that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OpenFirings {
    /// Number of those that run, or wait for their next attempt.
    pub running: u32,
    /// Number of those that wait for earlier ones.
    pub queued: u32,
}

/// Decision of the caller about a schedule that is due. An instant in neither list is left out.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Due {
    /// Instants to claim.
    pub fire: Vec<Timestamp>,
    /// Instants whose firings wait until all earlier ones of the schedule have ended.
    pub queue: Vec<Timestamp>,
    /// First instant that is left for a later claim. One that is not later than before ends the schedule's
    /// instants, because it would stay due for ever.
    pub next_at: Option<Timestamp>,
}

/// End of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// True if the attempt has succeeded.
    pub succeeded: bool,
    /// Outcome, for people.
    pub outcome: String,
    /// Id of the output.
    pub output: Option<String>,
}

/// Decision of the caller about a schedule after an attempt has ended.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AfterAttempt {
    /// Number of failures since the last success.
    pub failures: u32,
    /// Time of the next attempt of the same firing, if there is one.
    pub retry_at: Option<Timestamp>,
    /// Reason why the schedule is disabled from now on, if it is.
    pub disabled: Option<String>,
}

impl ScheduleState {
    /// Returns the word stored in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Ended => "ended",
        }
    }
}

impl FromStr for ScheduleState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Active, Self::Paused, Self::Ended].into_iter().find(|state| state.as_str() == text).ok_or(())
    }
}

impl FiringState {
    /// Returns the word stored in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

impl FromStr for FiringState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Claimed, Self::Waiting, Self::Queued, Self::Done, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(())
    }
}

/// Writes a path as a text.
pub(crate) fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// Decides about a schedule that is due, with its firings that have not ended.
pub type DecideDue<'a> = dyn Fn(&ScheduleRow, OpenFirings) -> Due + 'a;

/// Decides about a schedule and its firing, after an attempt of it has ended.
pub type DecideAfter<'a> = dyn Fn(&ScheduleRow, &Firing) -> AfterAttempt + 'a;

/// The schedules of a store.
///
/// Each instant of a schedule fires at most once, whichever process claims it. The store computes no
/// times: the functions of the caller decide, within the transaction that carries the decision out, so
/// they must not use the store.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Schedules: Send + Sync {
    /// Adds a schedule.
    fn add(&self, row: &ScheduleRow) -> Result<AddOutcome, StoreError>;

    /// Returns one schedule.
    fn find(&self, id: &str) -> Result<Option<ScheduleRow>, StoreError>;

    /// Returns the schedule of a workspace with this name: the one that has not ended, or else the latest.
    fn named(&self, workspace: &Path, name: &str) -> Result<Option<ScheduleRow>, StoreError>;

    /// Returns the numbers of active and of paused schedules of a workspace.
    fn counts(&self, workspace: &Path) -> Result<(u32, u32), StoreError>;

    /// Lists the schedules of a workspace, or all of them, in the order of their creation.
    fn list(&self, workspace: Option<&Path>, filter: ScheduleFilter) -> Result<Vec<ScheduleRow>, StoreError>;

    /// Pauses a schedule: none of its instants fires, and no attempt of a firing begins. Attempts that
    /// run go on. Returns true if the schedule was active.
    fn pause(&self, id: &str) -> Result<bool, StoreError>;

    /// Resumes a paused schedule with the first instant that is to fire, and forgets its failures.
    /// Returns true if the schedule was paused.
    fn resume(&self, id: &str, next_at: Option<Timestamp>) -> Result<bool, StoreError>;

    /// Removes a schedule with all its firings. The claims of those that run are void. Returns true if
    /// the schedule existed.
    fn remove(&self, id: &str) -> Result<bool, StoreError>;

    /// Returns the time at which there is something to claim in a workspace: the earliest instant, next
    /// attempt or end of a lease.
    fn next_claim(&self, workspace: &Path) -> Result<Option<Timestamp>, StoreError>;

    /// Claims what is due in the claimer's workspace: the next attempts of firings, those whose lease has ended, and the instants
    /// that `decide` chooses, in this order and the earliest first. Among all callers in all processes,
    /// one claims an instant.
    fn claim_due(
        &self,
        claimer: &Claimer,
        now: Timestamp,
        decide: &DecideDue<'_>,
    ) -> Result<Vec<Firing>, StoreError>;

    /// Claims a firing of a schedule for `now`, whatever its instants and its state are. Returns `None` if
    /// the schedule does not exist, or has a firing of this very instant.
    fn claim_now(&self, id: &str, claimer: &Claimer, now: Timestamp) -> Result<Option<Firing>, StoreError>;

    /// Extends the lease of a claim. Returns false if the claim is void, so that its owner must stop.
    fn renew(&self, claim: &Claim, held_until: Timestamp) -> Result<bool, StoreError>;

    /// Ends the attempt of a claim, as `decide` says. A lease that has ended is no obstacle while no
    /// other process has claimed the firing. Returns false if the claim is void; nothing is changed then.
    fn finish(
        &self,
        claim: &Claim,
        end: &AttemptEnd,
        now: Timestamp,
        decide: &DecideAfter<'_>,
    ) -> Result<bool, StoreError>;

    /// Lists the firings of a schedule, the latest instant first.
    fn firings(&self, id: &str, limit: u32) -> Result<Vec<Firing>, StoreError>;
}
