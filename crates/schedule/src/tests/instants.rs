//! Instants of cron lines, compared with a search minute by minute, in zones whose clocks change.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use proptest::prelude::*;

use super::next;
use crate::{Kind, Schedule, ScheduleError};

/// Zones with an hour's change at 1, 2 and 3 o'clock UTC and local time, a change of half an hour, changes
/// at midnight, offsets of parts of an hour, and none.
const ZONES: [&str; 11] = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/St_Johns",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Atlantic/Azores",
];
/// Minutes that the search goes on: somewhat more than a month.
const SEARCHED: i64 = 60 * 24 * 33;

/// A field of a cron line, with the numbers that it stands for.
#[derive(Debug, Clone)]
struct Field {
    text: String,
    numbers: BTreeSet<i8>,
}

fn field(least: i8, most: i8) -> impl Strategy<Value = Field> {
    let number = least..=most;
    let star = Just(Field { text: "*".to_owned(), numbers: (least..=most).collect() });
    let single =
        number.clone().prop_map(|number| Field { text: number.to_string(), numbers: [number].into() });
    let list = prop::collection::btree_set(number.clone(), 2..4).prop_map(|numbers| {
        let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        Field { text: texts.join(","), numbers }
    });
    let range = (number.clone(), number.clone()).prop_map(|(one, other)| {
        let (from, to) = (one.min(other), one.max(other));
        Field { text: format!("{from}-{to}"), numbers: (from..=to).collect() }
    });
    let step = (2..=7_i8).prop_map(move |step| {
        let numbers = (least..=most).step_by(usize::try_from(step).unwrap()).collect();
        Field { text: format!("*/{step}"), numbers }
    });
    prop_oneof![3 => star, 3 => single, 2 => list, 1 => range, 1 => step]
}

/// A cron line by its fields.
#[derive(Debug, Clone)]
struct Line([Field; 5]);

impl Line {
    fn text(&self) -> String {
        let texts: Vec<&str> = self.0.iter().map(|field| field.text.as_str()).collect();
        texts.join(" ")
    }

    /// Returns true if the line has this local time. A day fits by its number or by its weekday, if both
    /// fields say something.
    fn has(&self, at: jiff::civil::DateTime) -> bool {
        let [minutes, hours, days, months, weekdays] = &self.0;
        let day = days.numbers.contains(&at.day());
        let weekday = weekdays.numbers.contains(&at.date().weekday().to_sunday_zero_offset());
        let is_day = if days.text == "*" || weekdays.text == "*" { day && weekday } else { day || weekday };
        minutes.numbers.contains(&at.minute())
            && hours.numbers.contains(&at.hour())
            && months.numbers.contains(&at.month())
            && is_day
    }

    /// Returns true if the line comes at this minute.
    fn comes_at(&self, instant: Timestamp, zone: &TimeZone) -> bool {
        let local = zone.to_datetime(instant);
        if self.0.iter().take(2).any(|field| field.text.contains('*')) {
            return self.has(local);
        }
        let before = zone.to_offset(instant.checked_sub(1.minutes()).unwrap());
        let gap = zone.to_offset(instant).duration_since(before).as_mins();
        let is_left_out = |minutes: i64| self.has(local.checked_sub(minutes.minutes()).unwrap());
        let is_first = || zone.to_ambiguous_timestamp(local).earlier().unwrap() == instant;
        (1..=gap).any(is_left_out) || (self.has(local) && is_first())
    }
}

fn line() -> impl Strategy<Value = Line> {
    let any = [field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)];
    // Every day at night, when clocks change.
    let nightly = (field(0, 59), prop::collection::btree_set(0..4_i8, 1..4)).prop_map(|(minute, hours)| {
        let text: Vec<String> = hours.iter().map(ToString::to_string).collect();
        let hour = Field { text: text.join(","), numbers: hours };
        let every = |numbers: std::ops::RangeInclusive<i8>| Field {
            text: "*".to_owned(),
            numbers: numbers.collect(),
        };
        Line([minute, hour, every(1..=31), every(1..=12), every(0..=6)])
    });
    prop_oneof![any.prop_map(Line), nightly]
}

/// A moment that is often near to a change of the clock.
fn moment() -> impl Strategy<Value = Zoned> {
    let zone = prop::sample::select(ZONES.to_vec());
    let from: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    (zone, 0..3 * 365 * 24 * 3600_i64, any::<bool>(), -26 * 3600..6 * 3600_i64).prop_map(
        move |(zone, seconds, is_near, distance)| {
            let zone = TimeZone::get(zone).unwrap();
            let at = from.checked_add(seconds.seconds()).unwrap();
            let change = zone.following(at).next().filter(|_| is_near).map(|change| change.timestamp());
            let at = change.map_or(at, |change| change.checked_add(distance.seconds()).unwrap());
            at.to_zoned(zone)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_next_instant_is_that_of_a_search_minute_by_minute(line in line(), after in moment()) {
        let schedule = match Schedule::parse(&line.text(), &after) {
            Err(ScheduleError::Never) => {
                let is_day = |day: i8, month: i8| jiff::civil::Date::new(2028, month, day).is_ok();
                let [_, _, days, months, weekdays] = &line.0;
                let fits = months.numbers.iter().any(|month| days.numbers.iter().any(|day| is_day(*day, *month)));
                prop_assert!(!fits && weekdays.text == "*", "{}", line.text());
                return Ok(());
            }
            schedule => schedule.unwrap(),
        };
        let found = schedule.next(after.timestamp()).unwrap();
        let begin = after.timestamp().as_second().div_euclid(60) * 60;
        let mut minutes = (1..SEARCHED).map(|minute| Timestamp::from_second(begin + minute * 60).unwrap());
        let expected = minutes.clone().find(|at| line.comes_at(*at, after.time_zone()));
        let local = |at: Timestamp| at.to_zoned(after.time_zone().clone());
        match expected {
            Some(expected) => prop_assert_eq!(local(found), local(expected), "{} after {}", line.text(), after),
            None => prop_assert!(minutes.next_back().unwrap() < found, "{}: {}", line.text(), local(found)),
        }
    }

    #[test]
    fn instants_increase_and_do_not_depend_on_where_the_search_begins(line in line(), after in moment()) {
        let Ok(schedule) = Schedule::parse(&line.text(), &after) else { return Ok(()) };
        let instants = schedule.next_ones(after.timestamp(), 12);
        prop_assert_eq!(instants.len(), 12);
        prop_assert!(instants[0] > after.timestamp() && instants.windows(2).all(|pair| pair[0] < pair[1]));
        for pair in instants.windows(2) {
            // A search that begins anywhere between two instants ends at the second.
            let between = pair[0].checked_add(pair[1].duration_since(pair[0]) / 2).unwrap();
            prop_assert_eq!(schedule.next(between), Some(pair[1]), "{} after {}", line.text(), between);
        }
    }
}

#[test]
fn lists_of_times_keep_each_day_when_the_clock_changes() {
    let twice = |after: &str| {
        let after: Zoned = after.parse().unwrap();
        let schedule = Schedule::parse("30 2,14 * * *", &after).unwrap();
        next(&schedule, &after, 3)
    };
    assert_eq!(
        twice("2027-03-27T18:00:00[Europe/Berlin]"),
        ["Sun 03-28 03:00:00", "Sun 03-28 14:30:00", "Mon 03-29 02:30:00"]
    );
    assert_eq!(
        twice("2026-10-24T18:00:00[Europe/Berlin]"),
        ["Sun 10-25 02:30:00", "Sun 10-25 14:30:00", "Mon 10-26 02:30:00"]
    );
    // All that a gap leaves out comes together.
    let night: Zoned = "2027-03-28T01:30:00[Europe/Berlin]".parse().unwrap();
    let often = Schedule::parse("0,20,40 2,3 * * *", &night).unwrap();
    assert_eq!(next(&often, &night, 3), ["Sun 03-28 03:00:00", "Sun 03-28 03:20:00", "Sun 03-28 03:40:00"]);
}

#[test]
fn a_gap_at_midnight_and_one_of_half_an_hour_are_passed() {
    let midnight: Zoned = "2026-04-22T12:00:00[Africa/Cairo]".parse().unwrap();
    let daily = Schedule::parse("every day at midnight", &midnight).unwrap();
    assert_eq!(
        next(&daily, &midnight, 3),
        ["Thu 04-23 00:00:00", "Fri 04-24 01:00:00", "Sat 04-25 00:00:00"]
    );
    let half: Zoned = "2026-10-03T12:00:00[Australia/Lord_Howe]".parse().unwrap();
    let daily = Schedule::parse("every day at 2:15", &half).unwrap();
    assert_eq!(next(&daily, &half, 2), ["Sun 10-04 02:30:00", "Mon 10-05 02:15:00"]);
}

#[test]
fn leap_days_and_ends_of_months_come_when_the_calendar_has_them() {
    let after: Zoned = "2026-11-28T12:00:00[UTC]".parse().unwrap();
    let dates = |text: &str, most: usize| -> Vec<String> {
        let schedule = Schedule::parse(text, &after).unwrap();
        let instants = schedule.next_ones(after.timestamp(), most);
        instants.iter().map(|at| at.to_string()[..10].to_owned()).collect()
    };
    assert_eq!(dates("0 0 29 2 *", 3), ["2028-02-29", "2032-02-29", "2036-02-29"]);
    assert_eq!(dates("every month on the 31st at 9am", 3), ["2026-12-31", "2027-01-31", "2027-03-31"]);
    assert_eq!(
        dates("on the last day of every month at 9am", 4),
        ["2026-11-30", "2026-12-31", "2027-01-31", "2027-02-28"]
    );
    // A day fits by its number or by its weekday.
    assert_eq!(dates("0 9 1 * 1", 3), ["2026-11-30", "2026-12-01", "2026-12-07"]);
}

#[test]
fn a_schedule_keeps_its_zone_and_its_time_of_the_day_in_it() {
    let at_nine = |zone: &str| {
        let now: Zoned = format!("2026-11-28T10:00:00[{zone}]").parse().unwrap();
        Schedule::parse("every day at 9am", &now).unwrap().next(now.timestamp()).unwrap().to_string()
    };
    assert_eq!(at_nine("Europe/Berlin"), "2026-11-29T08:00:00Z");
    assert_eq!(at_nine("America/New_York"), "2026-11-29T14:00:00Z");
    assert_eq!(at_nine("Asia/Kathmandu"), "2026-11-29T03:15:00Z");
}

#[test]
fn a_kept_schedule_comes_back_even_when_its_instant_is_over() {
    let now: Zoned = "2026-11-28T12:00:00[Europe/Berlin]".parse().unwrap();
    for text in ["every weekday at 8:00", "30 2,14 * * *", "in 5 minutes", "@daily"] {
        let parsed = Schedule::parse(text, &now).unwrap();
        let zone = TimeZone::get(parsed.zone().iana_name().unwrap()).unwrap();
        let back = Schedule::restore(&parsed.kind(), parsed.canonical(), zone).unwrap();
        assert_eq!(back.kind(), parsed.kind());
        assert_eq!(back.canonical(), parsed.canonical());
        assert_eq!(back.next_ones(now.timestamp(), 3), parsed.next_ones(now.timestamp(), 3));
    }
    let past = Kind::OneTime { run_at: now.timestamp() };
    let past = Schedule::restore(&past, "2026-11-28 at 12:00", now.time_zone().clone()).unwrap();
    let before = now.timestamp().checked_sub(1.hours()).unwrap();
    assert_eq!((past.next(before), past.next(now.timestamp())), (Some(now.timestamp()), None));
    let broken = Kind::Recurring { cron_expression: "soon".to_owned() };
    assert!(Schedule::restore(&broken, "soon", now.time_zone().clone()).is_err());
}
