//! A schedule: one instant, or recurring ones.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::error::ScheduleError;
use crate::grammar;
use crate::pattern::{self, Pattern, When};
use crate::words::Words;

/// Maximum number of characters of a text.
const LONGEST: usize = 200;

/// Time or times at which something happens.
#[derive(Debug, Clone)]
pub struct Schedule {
    when: When,
    canonical: String,
    zone: TimeZone,
}

/// Kind of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Recurring, by this cron line of five fields.
    Recurring {
        /// The line.
        cron_expression: String,
    },
    /// One instant.
    OneTime {
        /// The instant.
        run_at: Timestamp,
    },
}

impl Schedule {
    /// Parses a cron line of five fields or a phrase, in the zone of `now`.
    ///
    /// # Errors
    /// [`ScheduleError`] says what is not understood, and what would be.
    pub fn parse(text: &str, now: &Zoned) -> Result<Self, ScheduleError> {
        let text = text.trim();
        if text.is_empty() || text.chars().nth(LONGEST).is_some() {
            return Err(ScheduleError::Length);
        }
        let zone = now.time_zone().clone();
        if pattern::is_line(text) {
            let pattern = Pattern::parse(text, now)?;
            let canonical = pattern.line.clone();
            return Ok(Self { when: When::Recurring(Box::new(pattern)), canonical, zone });
        }
        let (when, canonical) = grammar::parse(&mut Words::of(text), now)?;
        if let When::Once(at) = when
            && at <= now.timestamp()
        {
            let read_as = at.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %Z").to_string();
            return Err(ScheduleError::Past { read_as });
        }
        Ok(Self { when, canonical, zone })
    }

    /// Restores a schedule that was parsed before, from what was kept of it. A single instant may be over,
    /// so that one that was missed can be made up for.
    ///
    /// # Errors
    /// [`ScheduleError`] if the line cannot be read.
    pub fn restore(kind: &Kind, canonical: &str, zone: TimeZone) -> Result<Self, ScheduleError> {
        let when = match kind {
            Kind::Recurring { cron_expression } => {
                When::Recurring(Box::new(Pattern::restore(cron_expression)?))
            }
            Kind::OneTime { run_at } => When::Once(*run_at),
        };
        Ok(Self { when, canonical: canonical.to_owned(), zone })
    }

    /// Returns the schedule in the one form that each way of writing it has: of a cron line, the line.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Returns the schedule for people: the canonical form, or a cron line in words.
    pub fn described(&self) -> String {
        match &self.when {
            When::Recurring(pattern) if pattern.line == self.canonical => pattern.described(),
            When::Recurring(_) | When::Once(_) => self.canonical.clone(),
        }
    }

    /// Returns the kind, with its cron line or its instant.
    pub fn kind(&self) -> Kind {
        match &self.when {
            When::Recurring(pattern) => Kind::Recurring { cron_expression: pattern.line.clone() },
            When::Once(at) => Kind::OneTime { run_at: *at },
        }
    }

    /// Returns the zone in which times of the day are meant.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Returns the first instant after `after`; `None` if there is none.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Recurring(pattern) => Some(pattern.next(&after.to_zoned(self.zone.clone()))?.timestamp()),
            When::Once(at) => Some(*at).filter(|at| *at > after),
        }
    }

    /// Returns the instants after `after` up to `until`.
    pub(crate) fn all_between(&self, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        std::iter::successors(self.next(after), |last| self.next(*last))
            .take_while(|instant| *instant <= until)
            .collect()
    }

    /// Returns the next instants, at most `most`.
    pub fn next_ones(&self, after: Timestamp, most: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next(after), |last| self.next(*last)).take(most).collect()
    }
}
