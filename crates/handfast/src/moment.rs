//! Times as users type and read them: phrases such as `1h`, `yesterday 14:00` or `monday`, and local
//! times with their zone and age.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, Zoned};
use tool::Clock;

/// Description of the times that users can type, for errors.
pub(crate) const TIMES: &str = "a time is `1h30m`, `2 days ago`, `yesterday 14:00`, `monday`, `14:00`, \
                                `2026-11-23`, `2026-11-23 14:00` or 2026-11-23T17:05:00Z";

/// A moment as a user types it. Only a clock tells which time it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Moment {
    /// A time with its zone.
    At(Timestamp),
    /// A time before now.
    Ago(TypedSpan),
    /// A time of the local zone.
    Local(LocalDay, Option<Time>),
}

/// A span of time. Two spans are equal if they have the same units.
#[derive(Debug, Clone)]
pub(crate) struct TypedSpan(Span);

impl PartialEq for TypedSpan {
    fn eq(&self, other: &Self) -> bool {
        self.0.fieldwise() == other.0.fieldwise()
    }
}

/// A day of the local calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalDay {
    /// Date of the calendar.
    Date(Date),
    /// Number of days before today.
    DaysAgo(i8),
    /// Name of the last such day.
    Last(Weekday),
    /// Day on which the time passed last.
    Latest,
}

impl Moment {
    /// Parses a moment.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse() {
            return Ok(Self::At(time));
        }
        local(text).or_else(|| ago(text)).ok_or_else(|| format!("`{text}` is not a time: {TIMES}"))
    }

    /// Returns the time of this moment according to a clock and the zone of this machine.
    ///
    /// # Errors
    /// If the moment is out of the range of representable times.
    pub(crate) fn by(&self, clock: &dyn Clock) -> Result<Timestamp, jiff::Error> {
        self.from(&clock.now().to_zoned(zone()))
    }

    fn from(&self, now: &Zoned) -> Result<Timestamp, jiff::Error> {
        let (day, time) = match self {
            Self::At(time) => return Ok(*time),
            Self::Ago(TypedSpan(span)) => return Ok(now.checked_sub(*span)?.timestamp()),
            Self::Local(day, time) => (day, time.unwrap_or(Time::midnight())),
        };
        let today = now.date();
        let at = |date: Date| date.to_datetime(time).to_zoned(now.time_zone().clone());
        let at_or_before = |date: Date, days: i64| {
            let then = at(date)?;
            if then <= *now { Ok(then) } else { at(date.checked_sub(Span::new().try_days(days)?)?) }
        };
        let then = match day {
            LocalDay::Date(date) => at(*date)?,
            LocalDay::DaysAgo(days) => at(today.checked_sub(Span::new().try_days(*days)?)?)?,
            LocalDay::Latest => at_or_before(today, 1)?,
            LocalDay::Last(weekday) => {
                let days = weekday.until(today.weekday());
                at_or_before(today.checked_sub(Span::new().try_days(days)?)?, 7)?
            }
        };
        Ok(then.timestamp())
    }
}

/// Returns the zone of this machine, or UTC if it has none.
fn zone() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

/// Parses a day, a time of day or both.
fn local(text: &str) -> Option<Moment> {
    if let Ok(civil) = text.parse::<DateTime>()
        && text.contains(':')
    {
        return Some(Moment::Local(LocalDay::Date(civil.date()), Some(civil.time())));
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["now"] => Some(Moment::Ago(TypedSpan(Span::new()))),
        [word] => match day(word) {
            Some(day) => Some(Moment::Local(day, None)),
            None => Some(Moment::Local(LocalDay::Latest, Some(time_of_day(word)?))),
        },
        ["last", name] => weekday(name).map(|name| Moment::Local(LocalDay::Last(name), None)),
        [first, time] | [first, "at", time] => Some(Moment::Local(day(first)?, Some(time_of_day(time)?))),
        _ => None,
    }
}

fn day(word: &str) -> Option<LocalDay> {
    match word {
        "today" => Some(LocalDay::DaysAgo(0)),
        "yesterday" => Some(LocalDay::DaysAgo(1)),
        _ => weekday(word).map(LocalDay::Last).or_else(|| Some(LocalDay::Date(word.parse().ok()?))),
    }
}

fn weekday(word: &str) -> Option<Weekday> {
    let names = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let is_name = |name: &&str| *name == word || (word.len() == 3 && name.starts_with(word));
    let index = names.iter().position(is_name)?;
    Weekday::from_monday_zero_offset(i8::try_from(index).ok()?).ok()
}

/// Parses `14:00`, `9:05:30`, `2pm` or `2:30pm`.
fn time_of_day(word: &str) -> Option<Time> {
    let half = ["am", "pm"].into_iter().find(|half| word.ends_with(half));
    let digits = half.map_or(Some(word), |half| word.strip_suffix(half))?;
    let parts: Vec<&str> = digits.split(':').collect();
    let number = |part: &str| {
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse::<i8>().ok() } else { None }
    };
    let numbers: Vec<i8> = parts.into_iter().map(number).collect::<Option<_>>()?;
    let (hour, minute, second) = match (numbers.as_slice(), half) {
        ([hour, minute], _) => (*hour, *minute, 0),
        ([hour, minute, second], _) => (*hour, *minute, *second),
        ([hour], Some(_)) => (*hour, 0, 0),
        _ => return None,
    };
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("am") => hour % 12,
        Some(_) => hour % 12 + 12,
    };
    Time::new(hour, minute, second, 0).ok()
}

/// Parses a span before now.
fn ago(text: &str) -> Option<Moment> {
    let (positive, is_past) = match text.strip_suffix(" ago") {
        Some(positive) => (positive, true),
        None => (text, false),
    };
    let span = span(positive)?;
    (is_past || !span.is_zero()).then_some(Moment::Ago(TypedSpan(span)))
}

/// Parses a span without a sign, such as `1h30m`, `2 hours` or `7d`.
fn span(text: &str) -> Option<Span> {
    let starts_with_digit = text.starts_with(|first: char| first.is_ascii_digit());
    // Jiff's parser also knows ISO 8601, signs and `ago`.
    let has_words_alone = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,.".contains(&byte));
    if !starts_with_digit || !has_words_alone || text.contains("ago") {
        return None;
    }
    text.parse().ok()
}

/// Parses a duration, such as `90s`, `1h30m` or `7 days`. A day has 24 hours.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let length = |span: Span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok();
    span(text)
        .and_then(length)
        .and_then(|length| Duration::try_from(length).ok())
        .ok_or_else(|| format!("`{text}` is not a duration such as 90s, 30m, 1h30m or 7d"))
}

/// The present, for times in listings.
#[derive(Debug)]
pub(crate) struct Present(Zoned);

impl Present {
    /// Returns the present according to a clock, in the zone of this machine.
    pub(crate) fn by(clock: &dyn Clock) -> Self {
        Self(clock.now().to_zoned(zone()))
    }

    /// Returns the present at this time, in UTC.
    #[cfg(test)]
    pub(crate) fn at(time: Timestamp) -> Self {
        Self(time.to_zoned(TimeZone::UTC))
    }

    /// Returns a time in the zone of this machine, such as `2026-11-23 14:05:00 CET`.
    pub(crate) fn local(&self, time: Timestamp) -> String {
        time.to_zoned(self.0.time_zone().clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
    }

    /// Returns a date and the zone, such as `Monday, 2026-11-23 (CET)`.
    pub(crate) fn day(&self, time: Timestamp) -> String {
        time.to_zoned(self.0.time_zone().clone()).strftime("%A, %Y-%m-%d (%Z)").to_string()
    }

    /// Returns the time of day, such as `14:05:00`.
    pub(crate) fn time_of_day(&self, time: Timestamp) -> String {
        time.to_zoned(self.0.time_zone().clone()).strftime("%H:%M:%S").to_string()
    }

    /// Returns the age of a time, such as `2 min ago`, or how far ahead it is, such as `in 8 h`.
    pub(crate) fn age(&self, time: Timestamp) -> String {
        let distance = self.0.timestamp().duration_since(time);
        let seconds = distance.abs().as_secs();
        let (count, unit) = match seconds {
            ..60 => (seconds, "s"),
            60..3_600 => (seconds / 60, "min"),
            3_600..172_800 => (seconds / 3_600, "h"),
            _ => (seconds / 86_400, "days"),
        };
        match distance < SignedDuration::ZERO {
            _ if seconds < 2 => "now".to_owned(),
            true => format!("in {count} {unit}"),
            false => format!("{count} {unit} ago"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Wednesday, three days after the end of summer time.
    fn now() -> Zoned {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        "2026-10-28T14:30:00Z".parse::<Timestamp>().unwrap().to_zoned(berlin)
    }

    #[test]
    fn phrases_mean_the_last_such_time_of_the_local_zone() {
        for (text, expected) in [
            ("2026-11-23T17:05:00Z", "2026-11-23T17:05:00Z"),
            ("now", "2026-10-28T14:30:00Z"),
            ("30m", "2026-10-28T14:00:00Z"),
            ("1h30m", "2026-10-28T13:00:00Z"),
            ("10 minutes ago", "2026-10-28T14:20:00Z"),
            ("2 hours", "2026-10-28T12:30:00Z"),
            ("today", "2026-10-27T23:00:00Z"),
            ("today 09:00", "2026-10-28T08:00:00Z"),
            ("yesterday", "2026-10-26T23:00:00Z"),
            ("Yesterday 14:00", "2026-10-27T13:00:00Z"),
            ("yesterday at 2pm", "2026-10-27T13:00:00Z"),
            ("14:00", "2026-10-28T13:00:00Z"),
            // This time has not come yet today.
            ("16:00", "2026-10-27T15:00:00Z"),
            ("12am", "2026-10-27T23:00:00Z"),
            ("wednesday", "2026-10-27T23:00:00Z"),
            ("wednesday 16:00", "2026-10-21T14:00:00Z"),
            ("mon", "2026-10-25T23:00:00Z"),
            ("last sunday", "2026-10-24T22:00:00Z"),
            ("2026-10-23", "2026-10-22T22:00:00Z"),
            ("2026-10-23 14:00", "2026-10-23T12:00:00Z"),
            ("2026-10-23T14:00:00", "2026-10-23T12:00:00Z"),
            // A day before is the same time of day, across the end of summer time.
            ("7d", "2026-10-21T13:30:00Z"),
            ("1 week ago", "2026-10-21T13:30:00Z"),
            ("1 month", "2026-09-28T13:30:00Z"),
            // This time came twice, and the first one counts.
            ("2026-10-25 02:30", "2026-10-25T00:30:00Z"),
            // This time was skipped.
            ("2026-03-29 02:30", "2026-03-29T01:30:00Z"),
        ] {
            let moment = Moment::parse(text).unwrap().from(&now()).unwrap();
            assert_eq!(moment.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in [
            "",
            " ",
            "10",
            "0",
            "0s",
            "abc",
            "-1h",
            "1e3m",
            " 30m",
            "+1h",
            "P1D",
            "tomorrow",
            "25:00",
            "14:60",
            "13pm",
            "2026-13-01",
            "2026-13-01T00:00:00Z",
            "14",
            "yesterday yesterday",
            "1h ago ago",
            "maiday",
        ] {
            assert!(Moment::parse(wrong).is_err(), "{wrong}: {:?}", Moment::parse(wrong));
        }
        for wrong in ["", "5", "-1h", "1 month", "yesterday", "1h ago", "99999999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("7 days"), Ok(Duration::from_hours(168)));
        assert!(Moment::parse("9999999h").unwrap().from(&now()).is_ok());
        assert!(Moment::parse("19000 years").unwrap().from(&now()).is_err());
    }

    #[test]
    fn a_time_is_shown_with_its_zone_and_age() {
        let present = Present(now());
        let time = "2026-10-24T12:00:00Z".parse().unwrap();
        assert_eq!(present.local(time), "2026-10-24 14:00:00 CEST");
        assert_eq!(present.day(time), "Saturday, 2026-10-24 (CEST)");
        for (time, expected) in [
            ("2026-10-28T14:30:00Z", "now"),
            ("2026-10-28T14:29:01Z", "59 s ago"),
            ("2026-10-28T14:28:00Z", "2 min ago"),
            ("2026-10-28T12:00:00Z", "2 h ago"),
            ("2026-10-24T12:00:00Z", "4 days ago"),
            ("2026-10-28T22:30:00Z", "in 8 h"),
        ] {
            assert_eq!(present.age(time.parse().unwrap()), expected);
        }
    }
}
