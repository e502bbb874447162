//! Recurring times: cron lines of five fields.
//!
//! A line without `*` in its minute and hour names times of the day: one that a change of the clock leaves
//! out comes at the first instant after the gap, and one that comes twice comes the first time. Every other
//! line names an interval, which goes on through an hour that comes twice and has nothing in one that is
//! left out. The common cron of Linux draws the same line.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan, Zoned};

use crate::error::ScheduleError;

/// Nicknames of lines, as `crontab(5)` has them. `@reboot` is no time.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Days in which each date falls on each day of the week: 28 years, and 12 more because 2100 has no leap
/// day.
const DAYS_OF_CYCLE: usize = 40 * 366;

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
    names_times: bool,
}

impl Pattern {
    /// Parses a line of five fields, or a nickname such as `@daily`.
    ///
    /// # Errors
    /// [`ScheduleError::Seconds`] for six fields, [`ScheduleError::Cron`] for other faults, and
    /// [`ScheduleError::Never`] if no day fits.
    pub(crate) fn parse(line: &str, now: &Zoned) -> Result<Self, ScheduleError> {
        let pattern = Self::restore(line)?;
        if !has_day(&pattern.line, now.date()) || pattern.next(now).is_none() {
            return Err(ScheduleError::Never);
        }
        Ok(pattern)
    }

    /// Parses a line that was parsed before, whether or not it ever comes again.
    ///
    /// # Errors
    /// The errors of [`Pattern::parse`], without [`ScheduleError::Never`].
    pub(crate) fn restore(line: &str) -> Result<Self, ScheduleError> {
        let line = of_nickname(line.trim()).unwrap_or(line);
        let fields: Vec<&str> = line.split_whitespace().collect();
        if matches!(fields.len(), 6 | 7) {
            return Err(ScheduleError::Seconds);
        }
        let line = fields.join(" ");
        let cron = cron(&line)?;
        let names_times = fields.iter().take(2).all(|field| !field.contains('*'));
        Ok(Self { line, cron, names_times })
    }

    /// Returns the first instant after `after`, in its zone.
    pub(crate) fn next(&self, after: &Zoned) -> Option<Zoned> {
        if !self.names_times {
            return self.cron.find_next_occurrence(after, false).ok();
        }
        let mut time = after.datetime();
        loop {
            time = self.cron.find_next_occurrence(&time, false).ok()?;
            let instant = first_instant(after.time_zone(), time)?;
            // Several times in one gap come together, and those of the second half of an hour that comes
            // twice have come.
            if instant > after.timestamp() {
                return Some(instant.to_zoned(after.time_zone().clone()));
            }
        }
    }

    /// Returns the line in words.
    pub(crate) fn described(&self) -> String {
        self.cron.describe()
    }
}

fn cron(line: &str) -> Result<Cron, ScheduleError> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser.parse(line).map_err(|error| ScheduleError::Cron { reason: error.to_string() })
}

/// Returns true if any of the next days fits a line. The search for an instant alone would go through all
/// years of the calendar.
fn has_day(line: &str, today: Date) -> bool {
    let fields: Vec<&str> = line.split(' ').skip(2).collect();
    let Ok(cron) = cron(&format!("0 0 {}", fields.join(" "))) else { return false };
    let fits = |day: Date| cron.is_time_matching(&day.to_datetime(Time::midnight())).unwrap_or(false);
    today.series(1.day()).take(DAYS_OF_CYCLE).any(fits)
}

/// Returns the first instant at which a clock of the zone shows the time; for a time that it leaves out,
/// the instant of the change.
pub(crate) fn first_instant(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    let found = zone.to_ambiguous_timestamp(time);
    match found.offset() {
        // Read with the offset after the change, the time lies before it.
        AmbiguousOffset::Gap { after, .. } => {
            let before = after.to_timestamp(time).ok()?;
            zone.following(before).next().map(|change| change.timestamp())
        }
        AmbiguousOffset::Fold { .. } | AmbiguousOffset::Unambiguous { .. } => found.earlier().ok(),
    }
}

/// Returns the line that a nickname stands for.
fn of_nickname(text: &str) -> Option<&'static str> {
    NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, line)| *line)
}

/// Returns true if a text is meant as a cron line.
pub(crate) fn is_line(text: &str) -> bool {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let is_field = |field: &&str| field.bytes().all(|byte| byte.is_ascii_digit() || b"*/,-".contains(&byte));
    match fields.as_slice() {
        [name] => of_nickname(name).is_some(),
        [minute, hour, _, _, ..] => is_field(minute) && is_field(hour),
        _ => false,
    }
}
