//! Phrases for recurring times.

use std::collections::BTreeSet;

use jiff::Zoned;
use jiff::civil::Weekday;

use super::Reading;
use super::names::{Unit, day_name, ending, joined, number_with_unit, ordinal, unit, weekday};
use crate::error::ScheduleError;
use crate::pattern::{Pattern, When};
use crate::time_of_day::{self, shown};
use crate::words::Words;

pub(super) fn recurring(line: &str, canonical: impl Into<String>, now: &Zoned) -> Reading {
    Ok((When::Recurring(Box::new(Pattern::parse(line, now)?)), canonical.into()))
}

pub(super) fn every(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let word = words.need("an interval or a day")?;
    if let Some((number, unit)) = number_with_unit(&word) {
        return interval(number, unit, now);
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        let named = words.need("minutes or hours")?;
        return interval(&word, unit(&named).ok_or_else(|| words.unknown(&named))?, now);
    }
    match word.as_str() {
        "minute" => recurring("* * * * *", "every minute", now),
        "hour" => recurring("0 * * * *", "every hour", now),
        "day" => at_days(words, "*", "every day", now),
        "morning" | "afternoon" | "evening" | "night" => in_part_of_day(words, &word, now),
        "weekday" | "workday" => at_days(words, "1-5", "every weekday", now),
        "weekend" => at_days(words, "0,6", "every weekend", now),
        "month" => monthly(words, now),
        other => match weekday(other) {
            Some(day) => on_weekdays(words, day, now),
            None => Err(words.unknown(other)),
        },
    }
}

/// Reads an interval of minutes or hours, which must divide its hour or day.
fn interval(number: &str, unit: Unit, now: &Zoned) -> Reading {
    let (whole, name) = match unit {
        Unit::Minute => (60, "minute"),
        Unit::Hour => (24, "hour"),
        Unit::Second | Unit::Day | Unit::Week => {
            let interval = format!("{number} {}", unit.plural());
            return Err(ScheduleError::Unit { interval });
        }
    };
    let most = whole - 1;
    let count = number.parse::<u32>().ok().filter(|count| (1..=most).contains(count));
    let count = count.ok_or_else(|| ScheduleError::Number {
        number: number.to_owned(),
        bounds: format!("a number of {name}s from 1 to {most}"),
    })?;
    if whole % count != 0 {
        let divides = |count: &u32| whole % count == 0;
        let below = (1..count).rev().find(divides).unwrap_or(1);
        let above = (count..whole).find(divides);
        let near =
            above.map_or_else(|| format!("{below} {name}s"), |above| format!("{below} and {above} {name}s"));
        return Err(ScheduleError::Uneven { interval: format!("{count} {name}s"), near });
    }
    let canonical = if count == 1 { format!("every {name}") } else { format!("every {count} {name}s") };
    let field = if count == 1 { "*".to_owned() } else { format!("*/{count}") };
    let line = if unit == Unit::Minute { format!("{field} * * * *") } else { format!("0 {field} * * *") };
    recurring(&line, canonical, now)
}

/// Reads the times after a choice of days, which is a field of a cron line.
pub(super) fn at_days(words: &mut Words<'_>, days: &str, name: &str, now: &Zoned) -> Reading {
    at_times(words, &format!("* * {days}"), name, now)
}

/// Reads times of the day, such as `9am and 5pm`, for the other fields of a cron line.
fn at_times(words: &mut Words<'_>, fields: &str, name: &str, now: &Zoned) -> Reading {
    let mut times = vec![time_of_day::take(words)?];
    while words.take_any(&["and"]) || words.peek().is_some_and(|word| word.starts_with(is_digit)) {
        times.push(time_of_day::take(words)?);
    }
    times.sort();
    times.dedup();
    let texts: Vec<String> = times.iter().map(|time| shown(*time)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let hours = numbers(times.iter().map(|time| time.hour()));
    let minutes = numbers(times.iter().map(|time| time.minute()));
    // A cron line has each of its hours with each of its minutes.
    if hours.len() * minutes.len() != times.len() {
        return Err(ScheduleError::Times { times: joined(&texts) });
    }
    let line = format!("{} {} {fields}", minutes.join(","), hours.join(","));
    recurring(&line, format!("{name} at {}", joined(&texts)), now)
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

/// Returns numbers as texts, each once and in order.
fn numbers(of: impl Iterator<Item = i8>) -> Vec<String> {
    of.collect::<BTreeSet<i8>>().into_iter().map(|number| number.to_string()).collect()
}

/// Reads the time after a part of the day, which must lie in that part.
fn in_part_of_day(words: &mut Words<'_>, part: &str, now: &Zoned) -> Reading {
    let time = time_of_day::take(words)?;
    let fits = match part {
        "morning" => (0..12).contains(&time.hour()),
        "afternoon" => (12..18).contains(&time.hour()),
        "evening" => (17..24).contains(&time.hour()),
        _ => time.hour() >= 20 || time.hour() < 6,
    };
    if !fits {
        let bounds = format!("a time of the {part}");
        return Err(ScheduleError::Number { number: shown(time), bounds });
    }
    let line = format!("{} {} * * *", time.minute(), time.hour());
    recurring(&line, format!("every day at {}", shown(time)), now)
}

/// Reads further days of the week and the time.
pub(super) fn on_weekdays(words: &mut Words<'_>, first: Weekday, now: &Zoned) -> Reading {
    let mut days = vec![first];
    loop {
        let _and = words.take_any(&["and"]);
        let Some(day) = words.peek().and_then(weekday) else { break };
        words.take();
        days.push(day);
    }
    days.sort_by_key(|day| day.to_monday_zero_offset());
    days.dedup();
    let numbers: Vec<String> = days.iter().map(|day| day.to_sunday_zero_offset().to_string()).collect();
    let names: Vec<&str> = days.iter().map(|day| day_name(*day)).collect();
    at_days(words, &numbers.join(","), &format!("every {}", joined(&names)), now)
}

/// Reads the day of the month and the time.
pub(super) fn monthly(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let _on = words.take_any(&["on"]);
    let _the = words.take_any(&["the"]);
    let day = day_of_month(words)?;
    monthly_on(words, day, now)
}

/// Returns `None` for the last day of each month.
pub(super) fn day_of_month(words: &mut Words<'_>) -> Result<Option<i8>, ScheduleError> {
    let word = words.need("a day of the month, such as 1st")?;
    if word == "last" {
        return if words.take_any(&["day"]) { Ok(None) } else { Err(words.ends("`day`")) };
    }
    Ok(Some(ordinal(&word).ok_or_else(|| words.unknown(&word))?))
}

pub(super) fn monthly_on(words: &mut Words<'_>, day: Option<i8>, now: &Zoned) -> Reading {
    let (field, name) = match day {
        Some(day) => (day.to_string(), format!("{day}{}", ending(day))),
        None => ("L".to_owned(), "last day".to_owned()),
    };
    at_times(words, &format!("{field} * *"), &format!("every month on the {name}"), now)
}

/// Reads days in the plural, which recur; `None` if the word is none.
pub(super) fn plural(words: &mut Words<'_>, word: &str, now: &Zoned) -> Option<Reading> {
    let single = word.strip_suffix('s')?;
    let day = weekday(single).filter(|_| single.ends_with("day"));
    match single {
        "weekday" | "workday" => {
            words.take();
            Some(at_days(words, "1-5", "every weekday", now))
        }
        "weekend" => {
            words.take();
            Some(at_days(words, "0,6", "every weekend", now))
        }
        _ => {
            let day = day?;
            words.take();
            Some(on_weekdays(words, day, now))
        }
    }
}
