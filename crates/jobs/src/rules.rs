//! Rules of a job for instants that were missed, that overlap, or whose firings fail.

use std::time::Duration;

use schedule::{Misfire, Overlap, Rules};
use serde::{Deserialize, Serialize};

/// Time after an instant in which it counts as on time: longer than a restart of Handfast takes.
const GRACE: Duration = Duration::from_mins(1);
/// Maximum number of instants that are made up for under [`Missed::All`].
const MOST_MADE_UP: usize = 100;

/// Rule for instants at which nothing ran that could fire them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Missed instants are left out.
    Skip,
    /// The last one fires.
    #[default]
    Once,
    /// Missed instants fire one after another, the last 100 of them.
    All,
}

/// Rule for an instant while an earlier firing has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlapping {
    /// The instant is left out.
    #[default]
    Skip,
    /// The firing waits. One may wait.
    Queue,
    /// Both run.
    Allow,
}

/// Rules of a job, stored as JSON with its schedule. An absent one has its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobRules {
    /// Rule for missed instants.
    pub missed: Missed,
    /// Rule for overlapping firings.
    pub overlap: Overlapping,
    /// Longest delay by which a firing begins after its instant, in seconds.
    pub jitter_seconds: u64,
    /// Number of times that a failed firing is tried again.
    pub retries: u32,
    /// Number of failures in a row after which the job is paused; 0 for never.
    pub max_failures: u32,
    /// Time within which an attempt must end, with the questions that wait for an answer, in seconds.
    pub deadline_seconds: u64,
}

impl Default for JobRules {
    fn default() -> Self {
        Self {
            missed: Missed::default(),
            overlap: Overlapping::default(),
            jitter_seconds: 0,
            retries: 0,
            // Whoever looks once a week finds a daily job that fails still running, and an hourly one paused.
            max_failures: 10,
            // A question can be answered for a day.
            deadline_seconds: 24 * 60 * 60,
        }
    }
}

impl JobRules {
    /// Returns the rules for instants that are due.
    pub(crate) fn of_times(&self) -> Rules {
        Rules {
            grace: GRACE,
            misfire: match self.missed {
                Missed::Skip => Misfire::Skip,
                Missed::Once => Misfire::Once,
                Missed::All => Misfire::UpTo(MOST_MADE_UP),
            },
            overlap: match self.overlap {
                Overlapping::Skip => Overlap::Skip,
                Overlapping::Queue => Overlap::Queue,
                Overlapping::Allow => Overlap::Allow,
            },
        }
    }

    /// Returns the longest delay of a firing.
    pub fn jitter(&self) -> Duration {
        Duration::from_secs(self.jitter_seconds)
    }

    /// Returns the time within which an attempt must end.
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline_seconds)
    }
}
