//! Names of days and months, numbers of days, and units of time.

use jiff::civil::Weekday;

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
}

impl Unit {
    /// Returns the name of several.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Second => "seconds",
            Self::Minute => "minutes",
            Self::Hour => "hours",
            Self::Day => "days",
            Self::Week => "weeks",
        }
    }
}

/// Returns the unit that a word names.
pub(super) fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        _ => return None,
    })
}

/// Splits a number with its unit, such as `15m`; `None` if the word is none.
pub(super) fn number_with_unit(word: &str) -> Option<(&str, Unit)> {
    let (number, rest) = word.split_at(word.find(|letter: char| !letter.is_ascii_digit())?);
    (!number.is_empty()).then_some((number, unit(rest)?))
}

pub(super) fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "monday" | "mon" | "mondays" => Weekday::Monday,
        "tuesday" | "tue" | "tues" | "tuesdays" => Weekday::Tuesday,
        "wednesday" | "wed" | "wednesdays" => Weekday::Wednesday,
        "thursday" | "thu" | "thurs" | "thursdays" => Weekday::Thursday,
        "friday" | "fri" | "fridays" => Weekday::Friday,
        "saturday" | "sat" | "saturdays" => Weekday::Saturday,
        "sunday" | "sun" | "sundays" => Weekday::Sunday,
        _ => return None,
    })
}

pub(super) fn day_name(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}

pub(super) fn month(word: &str) -> Option<i8> {
    const NAMES: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let is_it = |name: &str| name == word || (word.len() == 3 && name.starts_with(word));
    let at = NAMES.iter().position(|name| is_it(name))?;
    i8::try_from(at + 1).ok()
}

/// Returns a day of the month: `1`, `1st`, `22nd`.
pub(super) fn ordinal(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let end = word.get(digits.len()..)?;
    let day = digits.parse::<i8>().ok().filter(|day| (1..=31).contains(day))?;
    matches!(end, "" | "st" | "nd" | "rd" | "th").then_some(day)
}

/// Returns the letters after the number of a day: `1st`, `12th`, `22nd`.
pub(super) fn ending(day: i8) -> &'static str {
    match (day / 10, day % 10) {
        (0 | 2 | 3, 1) => "st",
        (0 | 2, 2) => "nd",
        (0 | 2, 3) => "rd",
        _ => "th",
    }
}

/// Joins names as a sentence does: `a, b and c`.
pub(super) fn joined(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}
