//! Recurring times: cron lines of five fields.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::{Timestamp, Zoned};

use crate::error::ScheduleError;

/// Meaning of a schedule: a cron line, or one instant.
#[derive(Debug, Clone)]
pub(crate) enum When {
    Recurring(Box<Pattern>),
    Once(Timestamp),
}

/// A cron line, with the form in which it is shown.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) line: String,
    cron: Cron,
}

impl Pattern {
    /// Parses a line of five fields, or a nickname such as `@daily`.
    ///
    /// # Errors
    /// [`ScheduleError::Seconds`] for six fields, [`ScheduleError::Cron`] for other faults, and
    /// [`ScheduleError::Never`] if no day fits.
    pub(crate) fn parse(line: &str, now: &Zoned) -> Result<Self, ScheduleError> {
        let fields = line.split_whitespace().count();
        if matches!(fields, 6 | 7) {
            return Err(ScheduleError::Seconds);
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(line).map_err(|error| ScheduleError::Cron { reason: error.to_string() })?;
        let pattern = Self { line: line.split_whitespace().collect::<Vec<_>>().join(" "), cron };
        if pattern.next(now).is_none() {
            return Err(ScheduleError::Never);
        }
        Ok(pattern)
    }

    /// Returns the first instant after `after`, in its zone.
    ///
    /// A time of the day that a change of the clock leaves out comes at the first instant after the gap;
    /// one that comes twice comes once.
    pub(crate) fn next(&self, after: &Zoned) -> Option<Zoned> {
        self.cron.find_next_occurrence(after, false).ok()
    }

    /// Returns the line in words.
    pub(crate) fn described(&self) -> String {
        self.cron.describe()
    }
}

/// Returns true if a text is meant as a cron line.
pub(crate) fn is_line(text: &str) -> bool {
    let mut fields = text.split_whitespace();
    let Some(first) = fields.next() else { return false };
    let is_field = |field: &str| {
        field.bytes().all(|byte| byte.is_ascii_digit() || b"*/,-".contains(&byte)) && !field.is_empty()
    };
    first.starts_with('@')
        || (is_field(first) && fields.clone().count() >= 3 && fields.all(|field| !field.contains(':')))
}
