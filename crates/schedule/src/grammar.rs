//! The grammar of phrases.
//!
//! ```text
//! every 5 minutes | every 5m | every hour | every 2 hours | hourly
//! every (day|morning|afternoon|evening|night|weekday|weekend) TIME | daily TIME
//! every DAY[, DAY and DAY] TIME | weekly on DAY TIME | [on] (DAYS|weekdays|weekends) TIME
//! every month on the (NTH|last day) TIME | on the (NTH|last day) of every month TIME | monthly on the NTH TIME
//! in 5 minutes | in 1 hour and 30 minutes | after 30 seconds | in 2 days [TIME]
//! TIME | (today|tonight|tomorrow) TIME | [next|on|this] DAY TIME | YYYY-MM-DD TIME
//! [on] MONTH DAY [YEAR] TIME | [on the] DAY [of] MONTH [YEAR] TIME
//! ```
//!
//! Recurring phrases take several times, as in `9am and 5pm`. DAYS is a day in the plural: `monday at 9am` is once, `mondays at 9am` is every week.

mod names;
mod recurring;

use jiff::civil::{Date, Time, Weekday};
use jiff::{Span, Timestamp, ToSpan, Zoned};

use crate::error::ScheduleError;
use crate::pattern::{When, first_instant};
use crate::time_of_day;
use crate::words::Words;

use names::{Unit, month, number_with_unit, ordinal, unit, weekday};
use recurring::{at_days, day_of_month, every, monthly, monthly_on, on_weekdays, plural, recurring};

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

/// Reads `5 minutes`, `1 hour and 30 minutes`, or `2 days at 9am`.
fn delay(words: &mut Words<'_>, now: &Zoned) -> Reading {
    let mut span = Span::new();
    let mut is_days = true;
    loop {
        let (count, unit) = count_and_unit(words)?;
        let added = match unit {
            Unit::Second => span.try_seconds(count),
            Unit::Minute => span.try_minutes(count),
            Unit::Hour => span.try_hours(count),
            Unit::Day if count <= LONGEST_DAYS => span.try_days(count),
            Unit::Week if count <= LONGEST_DAYS / 7 => span.try_weeks(count),
            Unit::Day | Unit::Week => return Err(ScheduleError::TooFar),
        };
        is_days &= matches!(unit, Unit::Day | Unit::Week);
        span = added.map_err(|_| ScheduleError::TooFar)?;
        if !words.take_any(&["and"])
            && !words.peek().is_some_and(|word| {
                number_with_unit(word).is_some() || (word.parse::<i64>().is_ok() && !is_days)
            })
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

/// Reads `5 minutes`, `an hour` or `5m`.
fn count_and_unit(words: &mut Words<'_>) -> Result<(i64, Unit), ScheduleError> {
    let word = words.need("a number")?;
    let (number, unit) = match number_with_unit(&word) {
        Some((number, unit)) => (number, unit),
        None => {
            let named = words.need("seconds, minutes, hours, days or weeks")?;
            (word.as_str(), unit(&named).ok_or_else(|| words.unknown(&named))?)
        }
    };
    let count = match number {
        "a" | "an" | "one" => Some(1),
        digits => digits.parse::<i64>().ok().filter(|count| *count > 0),
    };
    Ok((count.ok_or_else(|| words.unknown(number))?, unit))
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
