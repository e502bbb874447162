//! Tests of whole schedules.

mod instants;

use std::time::Duration;

use jiff::{Timestamp, ToSpan, Zoned};
use proptest::prelude::*;

use crate::{Kind, Misfire, Overlap, Schedule, ScheduleError, Start, jitter, missed};

fn now() -> Zoned {
    // A Saturday.
    "2026-11-28T12:00:00[Europe/Berlin]".parse().unwrap()
}

fn read(text: &str) -> Schedule {
    Schedule::parse(text, &now()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the next instants as local times.
fn next(schedule: &Schedule, after: &Zoned, most: usize) -> Vec<String> {
    let local = |instant: Timestamp| {
        instant.to_zoned(schedule.zone().clone()).strftime("%a %m-%d %H:%M:%S").to_string()
    };
    schedule.next_ones(after.timestamp(), most).into_iter().map(local).collect()
}

#[test]
fn the_eleven_examples_of_the_source_are_read() {
    for (text, line) in [
        ("0 9 * * *", "0 9 * * *"),
        ("every morning at 9am", "0 9 * * *"),
        ("every hour", "0 * * * *"),
        ("every monday at 2pm", "0 14 * * 1"),
        ("every 5 minutes", "*/5 * * * *"),
    ] {
        assert_eq!(read(text).kind(), Kind::Recurring { cron_expression: line.to_owned() }, "{text}");
    }
    for (text, at) in [
        ("in 5 minutes", "12:05:00"),
        ("in 1 hour", "13:00:00"),
        ("in 2 days", "12:00:00"),
        ("after 30 seconds", "12:00:30"),
        ("at 3pm", "15:00:00"),
        ("at 15:30", "15:30:00"),
    ] {
        let schedule = read(text);
        assert!(matches!(schedule.kind(), Kind::OneTime { .. }), "{text}");
        assert!(next(&schedule, &now(), 2)[0].ends_with(at), "{text}: {:?}", next(&schedule, &now(), 2));
        assert_eq!(next(&schedule, &now(), 2).len(), 1);
    }
}

#[test]
fn phrases_have_one_canonical_form_and_the_instants_that_they_name() {
    for (text, canonical, first) in [
        ("Every  MORNING at 9AM", "every day at 09:00", "Sun 11-29 09:00:00"),
        ("daily at noon", "every day at 12:00", "Sun 11-29 12:00:00"),
        ("every evening at 18:30", "every day at 18:30", "Sat 11-28 18:30:00"),
        ("every weekday at 8:00", "every weekday at 08:00", "Mon 11-30 08:00:00"),
        ("every weekend at noon", "every weekend at 12:00", "Sun 11-29 12:00:00"),
        ("every friday, mon and friday @ 7:30", "every Monday and Friday at 07:30", "Mon 11-30 07:30:00"),
        ("weekly on tuesday at 6pm", "every Tuesday at 18:00", "Tue 12-01 18:00:00"),
        ("on the 1st of every month at 08:00", "every month on the 1st at 08:00", "Tue 12-01 08:00:00"),
        ("every month on the 31st at 9am", "every month on the 31st at 09:00", "Thu 12-31 09:00:00"),
        ("hourly", "every hour", "Sat 11-28 13:00:00"),
        ("every 2 hours", "every 2 hours", "Sat 11-28 14:00:00"),
        ("every 1 minutes", "every minute", "Sat 11-28 12:01:00"),
        ("tomorrow at 3pm", "2026-11-29 at 15:00", "Sun 11-29 15:00:00"),
        ("in 1 hour and 30 minutes", "2026-11-28 at 13:30", "Sat 11-28 13:30:00"),
        ("in 2 days at 09:00", "2026-11-30 at 09:00", "Mon 11-30 09:00:00"),
        ("at 11:00", "2026-11-29 at 11:00", "Sun 11-29 11:00:00"),
        ("saturday at 13:00", "2026-11-28 at 13:00", "Sat 11-28 13:00:00"),
        ("next saturday at 13:00", "2026-12-05 at 13:00", "Sat 12-05 13:00:00"),
        ("next friday at 10am", "2026-12-04 at 10:00", "Fri 12-04 10:00:00"),
        ("2026-12-24 18:00", "2026-12-24 at 18:00", "Thu 12-24 18:00:00"),
        ("2026-12-24T18:00", "2026-12-24 at 18:00", "Thu 12-24 18:00:00"),
        ("mondays and thursdays at 7am", "every Monday and Thursday at 07:00", "Mon 11-30 07:00:00"),
        ("on weekdays 8:00", "every weekday at 08:00", "Mon 11-30 08:00:00"),
        ("every day at 9am and 5pm", "every day at 09:00 and 17:00", "Sat 11-28 17:00:00"),
        ("weekdays at 9:30, 9:00 and 9:30", "every weekday at 09:00 and 09:30", "Mon 11-30 09:00:00"),
        (
            "daily at 9:30, 9:00, 17:00 and 17:30",
            "every day at 09:00, 09:30, 17:00 and 17:30",
            "Sat 11-28 17:00:00",
        ),
        ("every 15m", "every 15 minutes", "Sat 11-28 12:15:00"),
        ("every 2 hrs", "every 2 hours", "Sat 11-28 14:00:00"),
        ("in 1h 30m", "2026-11-28 at 13:30", "Sat 11-28 13:30:00"),
        ("in 2d at 9am", "2026-11-30 at 09:00", "Mon 11-30 09:00:00"),
        ("in a week", "2026-12-05 at 12:00", "Sat 12-05 12:00:00"),
        ("tonight @ 9pm", "2026-11-28 at 21:00", "Sat 11-28 21:00:00"),
        ("@noon", "2026-11-29 at 12:00", "Sun 11-29 12:00:00"),
        ("@ 3pm", "2026-11-28 at 15:00", "Sat 11-28 15:00:00"),
        (
            "on the last day of each month at 18:00",
            "every month on the last day at 18:00",
            "Mon 11-30 18:00:00",
        ),
        ("24 dec at 18:00", "2026-12-24 at 18:00", "Thu 12-24 18:00:00"),
        ("on the 24th of december at 18:00", "2026-12-24 at 18:00", "Thu 12-24 18:00:00"),
        ("on december 24 at 6pm", "2026-12-24 at 18:00", "Thu 12-24 18:00:00"),
        ("feb 29 at noon", "2028-02-29 at 12:00", "Tue 02-29 12:00:00"),
    ] {
        let schedule = read(text);
        assert_eq!(schedule.canonical(), canonical, "{text}");
        assert_eq!(next(&schedule, &now(), 1), [first], "{text}");
        // The canonical form of a phrase is a phrase of the same meaning.
        assert_eq!(read(canonical).kind(), schedule.kind(), "{text}");
        assert_eq!(read(canonical).canonical(), canonical);
    }
}

#[test]
fn what_is_not_understood_is_refused_with_the_word_and_near_phrases() {
    let error = |text: &str| Schedule::parse(text, &now()).unwrap_err();
    for (text, word) in [
        ("every blue moon", "blue"),
        ("jeden Morgen um 9 Uhr", "jeden"),
        ("每天早上9点", "每天早上9点"),
        ("tous les jours à 9h", "tous"),
        ("every monday at 2pm please", "please"),
        ("every 5 fortnights", "fortnights"),
        ("in five minutes", "five"),
        ("every other day at 9am", "other"),
        ("run rm -rf /", "run"),
        ("next month at 9am", "month"),
        ("@reboot", "reboot"),
    ] {
        match error(text) {
            ScheduleError::Word { word: found, near } => {
                assert!(found == word && near.len() == 3, "{text}: {found}");
            }
            other => panic!("{text}: {other}"),
        }
    }
    let near = error("evry morning at 9am").to_string();
    assert!(near.contains("`every morning at 9am`"), "{near}");
    for (text, expected) in [
        ("", "1 to 200"),
        (&"every ".repeat(50), "1 to 200"),
        ("every day", "a time such as 9am"),
        ("every monday", "a time such as 9am"),
        ("every", "an interval or a day"),
        ("5 minutes from now", "5 is not a time: write 9am"),
        ("every morning at 9pm", "21:00 is not a time of the morning"),
        ("every day at 9", "9 is not a time"),
        ("every 7 minutes", "6 and 10 minutes do"),
        ("every 90 minutes", "from 1 to 59"),
        ("every 0 minutes", "from 1 to 59"),
        ("every 30 seconds", "30 seconds are no interval of minutes or hours"),
        ("every 2 weeks", "2 weeks are no interval"),
        ("every day at 9am and 5:30pm", "09:00 and 17:30 differ in hour and minute"),
        ("every day at 9am and", "a time such as 9am"),
        ("every 5 hours", "4 and 6 hours do"),
        ("*/5 * * * * *", "seconds"),
        ("0 9 * * * * *", "seconds"),
        ("61 * * * *", "cannot be read"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 4 *", "never comes"),
        ("today at 11am", "is over; it was read as 2026-11-28 11:00:00 CET"),
        ("2020-01-01 at 9am", "is over"),
        ("january 5 2020 at 9am", "is over"),
        ("in 99999999 days", "too far"),
        ("in 0 minutes", "not understood"),
        ("february 30 at 9am", "30 is not a day of that month"),
    ] {
        let shown = error(text).to_string();
        assert!(shown.contains(expected), "{text}: {shown}");
    }
}

#[test]
fn a_change_of_the_clock_leaves_out_no_day_and_repeats_none() {
    let daily = read("every day at 2:30");
    let spring: Zoned = "2027-03-27T12:00:00[Europe/Berlin]".parse().unwrap();
    assert_eq!(next(&daily, &spring, 3), ["Sun 03-28 03:00:00", "Mon 03-29 02:30:00", "Tue 03-30 02:30:00"]);
    let autumn: Zoned = "2026-10-24T12:00:00[Europe/Berlin]".parse().unwrap();
    assert_eq!(next(&daily, &autumn, 3), ["Sun 10-25 02:30:00", "Mon 10-26 02:30:00", "Tue 10-27 02:30:00"]);
    // An interval goes on through the hour that comes twice.
    let often = read("every 30 minutes");
    let night: Zoned = "2026-10-25T01:45:00[Europe/Berlin]".parse().unwrap();
    assert_eq!(next(&often, &night, 5).iter().filter(|time| time.contains("02:")).count(), 4);
    let once = Schedule::parse("2027-03-28 at 2:30", &now()).unwrap();
    assert_eq!(next(&once, &now(), 1), ["Sun 03-28 03:00:00"]);
}

#[test]
fn missed_instants_are_made_up_for_by_the_rule() {
    let hourly = read("every hour");
    let last = now().timestamp();
    let after = |minutes: i64| last.checked_add(minutes.minutes()).unwrap();
    let found = |now: Timestamp, rule| missed(&hourly, last, now, Duration::from_secs(90), rule).len();
    assert_eq!(found(after(59), Misfire::UpTo(9)), 0);
    assert_eq!(found(after(60), Misfire::Skip), 1, "on time");
    assert_eq!(found(after(65), Misfire::Skip), 0);
    assert_eq!(found(after(65), Misfire::Once), 1);
    assert_eq!(found(after(60 * 5 + 10), Misfire::Once), 1);
    assert_eq!(found(after(60 * 5 + 10), Misfire::UpTo(3)), 3);
    assert_eq!(found(after(60 * 5 + 10), Misfire::UpTo(99)), 5);
    // Each rule fires all that is on time.
    let grace = |rule| missed(&hourly, last, after(60 * 5 + 10), Duration::from_hours(2), rule).len();
    assert_eq!([grace(Misfire::Skip), grace(Misfire::Once), grace(Misfire::UpTo(4))], [2, 2, 4]);
    // A pause of years is no reason to count every minute of it.
    let minutely = read("every minute");
    let late = last.checked_add((24 * 365 * 5).hours()).unwrap();
    let latest = missed(&minutely, last, late, Duration::ZERO, Misfire::UpTo(2));
    assert_eq!(latest, [late.checked_sub(1.minutes()).unwrap(), late]);
    let most = missed(&minutely, last, late, Duration::ZERO, Misfire::UpTo(usize::MAX));
    assert_eq!((most.len(), most.last()), (1_000, Some(&late)));
    // A rare one is found in it all the same, and a single instant too.
    let rare = read("0 0 29 2 *");
    assert_eq!(missed(&rare, last, late, Duration::ZERO, Misfire::UpTo(9)).len(), 1);
    let once = read("in 5 minutes");
    assert_eq!(missed(&once, last, late, Duration::ZERO, Misfire::Once), [after(5)]);
    assert_eq!(missed(&once, last, late, Duration::ZERO, Misfire::Skip), []);
    // A clock that went back has nothing to make up for.
    assert_eq!(missed(&minutely, late, last, Duration::ZERO, Misfire::Once), []);
}

#[test]
fn an_instant_during_an_earlier_firing_is_left_out_waits_or_runs_by_the_rule() {
    let decide =
        |rule: Overlap| [(0, 0), (1, 0), (1, 1)].map(|(running, waiting)| rule.decide(running, waiting));
    assert_eq!(decide(Overlap::Skip), [Start::Now, Start::Never, Start::Never]);
    assert_eq!(decide(Overlap::Queue), [Start::Now, Start::Later, Start::Never]);
    assert_eq!(decide(Overlap::Allow), [Start::Now, Start::Now, Start::Now]);
}

#[test]
fn a_cron_line_is_its_own_canonical_form_and_is_told_in_words() {
    let line = read(" 0  9 * *  1-5 ");
    assert_eq!(
        (line.canonical(), line.kind()),
        ("0 9 * * 1-5", Kind::Recurring { cron_expression: "0 9 * * 1-5".to_owned() })
    );
    assert!(line.described().contains("09:00"), "{}", line.described());
    assert_eq!(read("@daily").canonical(), "0 0 * * *");
    assert_eq!(read("daily at 9am").described(), "every day at 09:00");
}

#[test]
fn jitter_is_bounded_steady_and_spread() {
    let most = Duration::from_secs(30);
    let at = now().timestamp();
    let delays: Vec<Duration> = (0..200).map(|job| jitter(&format!("job-{job}"), at, most)).collect();
    assert!(delays.iter().all(|delay| *delay < most));
    assert_eq!(jitter("job-1", at, most), delays[1]);
    let early = delays.iter().filter(|delay| **delay < most / 2).count();
    assert!((60..140).contains(&early), "{early}");
    assert_eq!(jitter("job", at, Duration::ZERO), Duration::ZERO);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        let _read = Schedule::parse(&text, &now());
    }

    #[test]
    fn words_of_the_grammar_in_any_order_are_read_or_refused(
        words in prop::collection::vec(prop::sample::select(vec![
            "every", "at", "9am", "15:30", "in", "2", "days", "monday", "and", "on", "the", "1st", "of", "month",
            "tomorrow", "next", "minutes", "noon", "december", "24", "2027-01-01", "*", "0", ",", "last", "day",
            "fridays", "weekdays", "5pm", "2h", "30m", "after", "daily", "weekly", "monthly", "10", "every month",
        ]), 1..8),
    ) {
        let text = words.join(" ");
        if let Ok(schedule) = Schedule::parse(&text, &now()) {
            let instants = schedule.next_ones(now().timestamp(), 5);
            prop_assert!(!instants.is_empty(), "{text}");
            prop_assert!(instants.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
            let again = Schedule::parse(schedule.canonical(), &now()).unwrap();
            prop_assert_eq!(again.kind(), schedule.kind(), "{}", text);
            prop_assert_eq!(again.canonical(), schedule.canonical(), "{}", text);
        }
    }
}
