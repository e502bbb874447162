//! The grammar of phrases.
//!
//! ```text
//! every 5 minutes | every hour | every 2 hours | hourly
//! every (day|morning|afternoon|evening|night|weekday|weekend) TIME | daily TIME
//! every DAY[, DAY and DAY] TIME | weekly on DAY TIME | [on] (DAYS|weekdays|weekends) TIME
//! every month on the (NTH|last day) TIME | on the (NTH|last day) of every month TIME | monthly on the NTH TIME
//! in 5 minutes | in 1 hour and 30 minutes | after 30 seconds | in 2 days [TIME]
//! TIME | (today|tonight|tomorrow) TIME | [next|on|this] DAY TIME | YYYY-MM-DD TIME
//! [on] MONTH DAY [YEAR] TIME | [on the] DAY [of] MONTH [YEAR] TIME
//! ```
//!
//! DAYS is a day in the plural: `monday at 9am` is once, `mondays at 9am` is every week.

use jiff::civil::{Date, Time, Weekday};
use jiff::{Span, Timestamp, ToSpan, Zoned};

use crate::error::ScheduleError;
use crate::pattern::{Pattern, When, first_instant};
use crate::time_of_day::{self, shown};
use crate::words::Words;

type Reading = Result<(When, String), ScheduleError>;

/// Longest delay of a single instant: ten years.
const LONGEST_DAYS: i64 = 3_660;

/// Parses a phrase, and returns its meaning with its canonical form.
///
/// # Errors
/// [`ScheduleError`] names the word that is not understood.
pub(crate) fn parse(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let read = match words.peek().unwrap_or_default() {
        "every" | "each" => {
            words.take();
            every(words, now)
        }
        "hourly" => {
            words.take();
            recurring("0 * * * *", "every hour", now)
        }
        "daily" => {
            words.take();
            at_days(words, "*", "every day", now)
        }
        "weekly" => {
            words.take();
            let _on = words.take_any(&["on"]);
            let day = words.need("a day of the week")?;
            let day = weekday(&day).ok_or_else(|| words.unknown(&day))?;
            on_weekdays(words, day, now)
        }
        "monthly" => {
            words.take();
            monthly(words, now)
        }
        "in" | "after" => {
            words.take();
            delay(words, now)
        }
        _ => once(words, now),
    }?;
    words.end()?;
    Ok(read)
}

fn recurring(line: &str, canonical: impl Into<String>, now: &Zoned) -> Reading {
    Ok((When::Recurring(Box::new(Pattern::parse(line, now)?)), canonical.into()))
}

fn every(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let word = words.need("an interval or a day")?;
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return interval(words, &word, now);
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

/// Reads the rest of `every N minutes` or `every N hours`.
fn interval(words: &mut Words<'_>, number: &str, now: &Zoned) -> Reading {
    let unit = words.need("minutes or hours")?;
    let (whole, name, most) = match unit.as_str() {
        "minute" | "minutes" | "min" | "mins" => (60, "minutes", 59),
        "hour" | "hours" | "h" => (24, "hours", 23),
        other => return Err(words.unknown(other)),
    };
    let count = number.parse::<u32>().ok().filter(|count| (1..=most).contains(count));
    let count = count.ok_or_else(|| ScheduleError::Number {
        number: number.to_owned(),
        bounds: format!("a number of {name} from 1 to {most}"),
    })?;
    if whole % count != 0 {
        let divides = |count: &u32| whole % count == 0;
        let below = (1..count).rev().find(divides).unwrap_or(1);
        let above = (count..whole).find(divides);
        let near =
            above.map_or_else(|| format!("{below} {name}"), |above| format!("{below} and {above} {name}"));
        return Err(ScheduleError::Uneven { interval: format!("{count} {name}"), near });
    }
    let singular = name.trim_end_matches('s');
    let canonical = if count == 1 { format!("every {singular}") } else { format!("every {count} {name}") };
    let line = match (name, count) {
        ("minutes", 1) => "* * * * *".to_owned(),
        ("minutes", _) => format!("*/{count} * * * *"),
        (_, 1) => "0 * * * *".to_owned(),
        _ => format!("0 */{count} * * *"),
    };
    recurring(&line, canonical, now)
}

/// Reads the time after a choice of days, which is a field of a cron line.
fn at_days(words: &mut Words<'_>, days: &str, name: &str, now: &Zoned) -> Reading {
    let time = time_of_day::take(words)?;
    let line = format!("{} {} * * {days}", time.minute(), time.hour());
    recurring(&line, format!("{name} at {}", shown(time)), now)
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
fn on_weekdays(words: &mut Words<'_>, first: Weekday, now: &Zoned) -> Reading {
    let mut days = vec![first];
    loop {
        let _and = words.take_any(&["and"]);
        let Some(day) = words.peek().and_then(weekday) else { break };
        words.take();
        days.push(day);
    }
    days.sort_by_key(|day| day.to_monday_zero_offset());
    days.dedup();
    let time = time_of_day::take(words)?;
    let numbers: Vec<String> = days.iter().map(|day| day.to_sunday_zero_offset().to_string()).collect();
    let names: Vec<&str> = days.iter().map(|day| day_name(*day)).collect();
    let line = format!("{} {} * * {}", time.minute(), time.hour(), numbers.join(","));
    recurring(&line, format!("every {} at {}", joined(&names), shown(time)), now)
}

/// Reads the day of the month and the time.
fn monthly(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let _on = words.take_any(&["on"]);
    let _the = words.take_any(&["the"]);
    let day = day_of_month(words)?;
    monthly_on(words, day, now)
}

/// Returns `None` for the last day of each month.
fn day_of_month(words: &mut Words<'_>) -> Result<Option<i8>, ScheduleError> {
    let word = words.need("a day of the month, such as 1st")?;
    if word == "last" {
        return if words.take_any(&["day"]) { Ok(None) } else { Err(words.ends("`day`")) };
    }
    Ok(Some(ordinal(&word).ok_or_else(|| words.unknown(&word))?))
}

fn monthly_on(words: &mut Words<'_>, day: Option<i8>, now: &Zoned) -> Reading {
    let time = time_of_day::take(words)?;
    let (field, name) = match day {
        Some(day) => (day.to_string(), format!("{day}{}", ending(day))),
        None => ("L".to_owned(), "last day".to_owned()),
    };
    let line = format!("{} {} {field} * *", time.minute(), time.hour());
    recurring(&line, format!("every month on the {name} at {}", shown(time)), now)
}

/// Reads `5 minutes`, `1 hour and 30 minutes`, or `2 days at 9am`.
fn delay(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let mut span = Span::new();
    let mut is_days = true;
    loop {
        let number = words.need("a number")?;
        let count = match number.as_str() {
            "a" | "an" | "one" => 1,
            digits => {
                digits.parse::<i64>().ok().filter(|count| *count > 0).ok_or_else(|| words.unknown(digits))?
            }
        };
        let unit = words.need("seconds, minutes, hours, days or weeks")?;
        let added = match unit.trim_end_matches('s') {
            "second" | "sec" => span.try_seconds(count),
            "minute" | "min" => span.try_minutes(count),
            "hour" | "hr" => span.try_hours(count),
            "day" if count <= LONGEST_DAYS => span.try_days(count),
            "week" if count <= LONGEST_DAYS / 7 => span.try_weeks(count),
            "day" | "week" => return Err(ScheduleError::TooFar),
            _ => return Err(words.unknown(&unit)),
        };
        is_days &= matches!(unit.trim_end_matches('s'), "day" | "week");
        span = added.map_err(|_| ScheduleError::TooFar)?;
        if !words.take_any(&["and"])
            && !words.peek().is_some_and(|word| word.parse::<i64>().is_ok() && !is_days)
        {
            break;
        }
    }
    let mut at = now.checked_add(span).map_err(|_| ScheduleError::TooFar)?;
    if is_days && words.peek().is_some() {
        let time = time_of_day::take(words)?;
        at = on(at.date(), time, now)?;
    }
    if at.duration_since(now).as_hours() > LONGEST_DAYS * 24 {
        return Err(ScheduleError::TooFar);
    }
    Ok(at_once(&at))
}

/// Reads one instant: a date and a time.
fn once(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let today = now.date();
    let first = words.peek().unwrap_or_default().to_owned();
    if words.take_any(&["today", "tonight"]) {
        let time = time_of_day::take(words)?;
        return Ok(at_once(&on(today, time, now)?));
    }
    if words.take_any(&["tomorrow"]) {
        let time = time_of_day::take(words)?;
        return Ok(at_once(&on(after_days(today, 1)?, time, now)?));
    }
    if let Some((date, time)) = first.split_once('t').filter(|(date, _)| date.len() == 10) {
        let at = format!("{date} {time}");
        let mut rest = Words::of(&at);
        let date = date_of(&rest.need("a date")?).ok_or_else(|| words.unknown(&first))?;
        let time = time_of_day::take(&mut rest)?;
        words.take();
        return Ok(at_once(&on(date, time, now)?));
    }
    if let Some(date) = date_of(&first) {
        words.take();
        let time = time_of_day::take(words)?;
        return Ok(at_once(&on(date, time, now)?));
    }
    let is_next = words.take_any(&["next"]);
    let is_on = !is_next && words.take_any(&["on", "this"]);
    if is_on && words.take_any(&["the"]) {
        return on_the(words, now);
    }
    let word = words.peek().unwrap_or_default().to_owned();
    if !is_next && let Some(read) = plural(words, &word, now) {
        return read;
    }
    if let Some(day) = weekday(&word) {
        words.take();
        let time = time_of_day::take(words)?;
        return Ok(at_once(&next_weekday(day, time, is_next, now)?));
    }
    if let Some(month) = month(&word) {
        words.take();
        let day = words.need("a day of the month")?;
        return in_month(words, month, &day, now);
    }
    if let Some(month) = ordinal(&word).and(words.peek_second()).and_then(month) {
        words.take();
        words.take();
        return in_month(words, month, &word, now);
    }
    if is_next || is_on {
        return Err(words.unknown(if word.is_empty() { &first } else { &word }));
    }
    // A time alone is the next such time.
    let time = time_of_day::take(words)?;
    let at = on(today, time, now)?;
    let at = if at.timestamp() > now.timestamp() { at } else { on(after_days(today, 1)?, time, now)? };
    Ok(at_once(&at))
}

/// Reads the rest of `on the 1st of every month TIME`, or of `on the 24th of december TIME`.
fn on_the(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let word = words.peek().unwrap_or_default().to_owned();
    let day = day_of_month(words)?;
    let _of = words.take_any(&["of"]);
    if let Some(month) = words.peek().and_then(month) {
        words.take();
        return in_month(words, month, &word, now);
    }
    if words.take_any(&["every", "each", "the"]) && words.take_any(&["month"]) {
        return monthly_on(words, day, now);
    }
    Err(words.ends("`of every month` or a month"))
}

/// Reads days in the plural, which recur; `None` if the word is none.
fn plural(words: &mut Words<'_>, word: &str, now: &Zoned) -> Option<Reading> {
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

/// Reads the year if there is one, and the time.
fn in_month(words: &mut Words<'_>, month: i8, word: &str, now: &Zoned) -> Reading {
    let day = ordinal(word).ok_or_else(|| words.unknown(word))?;
    let year = words.peek().filter(|word| word.len() == 4).and_then(|word| word.parse::<i16>().ok());
    if year.is_some() {
        words.take();
    }
    let time = time_of_day::take(words)?;
    let wrong =
        || ScheduleError::Number { number: word.to_owned(), bounds: "a day of that month".to_owned() };
    let years = year.map_or_else(|| (now.year()..=now.year().saturating_add(8)).collect(), |year| vec![year]);
    let dates: Vec<Date> = years.into_iter().filter_map(|year| Date::new(year, month, day).ok()).collect();
    if dates.is_empty() {
        return Err(wrong());
    }
    let first = dates.first().copied();
    for date in dates {
        let at = on(date, time, now)?;
        if at.timestamp() > now.timestamp() {
            return Ok(at_once(&at));
        }
    }
    // A named year may be over; the caller says so.
    Ok(at_once(&on(first.ok_or_else(wrong)?, time, now)?))
}

/// Returns the next such day. "Next" never means today.
fn next_weekday(day: Weekday, time: Time, is_next: bool, now: &Zoned) -> Result<Zoned, ScheduleError> {
    let today = now.date();
    let ahead = i64::from(today.weekday().until(day));
    if ahead == 0 && !is_next {
        let at = on(today, time, now)?;
        if at.timestamp() > now.timestamp() {
            return Ok(at);
        }
    }
    let ahead = if ahead == 0 { 7 } else { ahead };
    on(after_days(today, ahead)?, time, now)
}

fn after_days(date: Date, days: i64) -> Result<Date, ScheduleError> {
    date.checked_add(days.days()).map_err(|_| ScheduleError::TooFar)
}

/// Returns the instant of a time of the day, which is the change of the clock if that leaves it out.
fn on(date: Date, time: Time, now: &Zoned) -> Result<Zoned, ScheduleError> {
    let zone = now.time_zone();
    let instant = first_instant(zone, date.to_datetime(time)).ok_or(ScheduleError::TooFar)?;
    Ok(instant.to_zoned(zone.clone()))
}

fn at_once(at: &Zoned) -> (When, String) {
    let shown = at.strftime("%Y-%m-%d at %H:%M:%S").to_string();
    let instant: Timestamp = at.timestamp();
    (When::Once(instant), shown.strip_suffix(":00").map(str::to_owned).unwrap_or(shown))
}

fn date_of(word: &str) -> Option<Date> {
    (word.len() == 10).then(|| word.parse().ok()).flatten()
}

/// Returns the letters after the number of a day: `1st`, `12th`, `22nd`.
fn ending(day: i8) -> &'static str {
    match (day / 10, day % 10) {
        (0 | 2 | 3, 1) => "st",
        (0 | 2, 2) => "nd",
        (0 | 2, 3) => "rd",
        _ => "th",
    }
}

/// Returns a day of the month: `1`, `1st`, `22nd`.
fn ordinal(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let end = word.get(digits.len()..)?;
    let day = digits.parse::<i8>().ok().filter(|day| (1..=31).contains(day))?;
    matches!(end, "" | "st" | "nd" | "rd" | "th").then_some(day)
}

fn weekday(word: &str) -> Option<Weekday> {
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

fn day_name(day: Weekday) -> &'static str {
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

fn month(word: &str) -> Option<i8> {
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

/// Joins names as a sentence does: `a, b and c`.
fn joined(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}
