//! Jobs of a store under a clock that the test turns: changes of the clock, pauses, failures.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use schedule::{JobState, Kind, Misfire, Open, Overlap, Rules, Schedule, after_failure, after_success, plan};
use store_api::{
    AfterAttempt, AttemptEnd, Claimer, Due, Firing, OpenFirings, ScheduleRow, ScheduleState, ScheduleTimes,
    Store as _,
};
use store_sqlite::SqliteStore;

/// A store with one job, and the time.
struct Driven {
    store: SqliteStore,
    _folder: tempfile::TempDir,
    now: Zoned,
    rules: Rules,
}

fn restored(row: &ScheduleRow) -> Schedule {
    let kind = match &row.times {
        ScheduleTimes::Recurring(line) => Kind::Recurring { cron_expression: line.clone() },
        ScheduleTimes::OneTime(at) => Kind::OneTime { run_at: *at },
    };
    Schedule::restore(&kind, &row.canonical, TimeZone::get(&row.zone).unwrap()).unwrap()
}

impl Driven {
    fn new(text: &str, now: &str, misfire: Misfire, overlap: Overlap) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let now: Zoned = now.parse().unwrap();
        let schedule = Schedule::parse(text, &now).unwrap();
        let times = match schedule.kind() {
            Kind::Recurring { cron_expression } => ScheduleTimes::Recurring(cron_expression),
            Kind::OneTime { run_at } => ScheduleTimes::OneTime(run_at),
        };
        let row = ScheduleRow {
            id: "job".to_owned(),
            name: "job".to_owned(),
            description: String::new(),
            workspace: "/w".into(),
            text: text.to_owned(),
            canonical: schedule.canonical().to_owned(),
            zone: schedule.zone().iana_name().unwrap().to_owned(),
            times,
            action: "{}".to_owned(),
            ceiling: "{}".to_owned(),
            rules: "{}".to_owned(),
            state: ScheduleState::Active,
            created_at: now.timestamp(),
            created_by: "c1".to_owned(),
            next_at: schedule.next(now.timestamp()),
            last_at: None,
            last_status: None,
            failures: 0,
            disabled: None,
        };
        store.schedules().add(&row).unwrap();
        let rules = Rules { grace: Duration::from_mins(1), misfire, overlap };
        Self { store, _folder: folder, now, rules }
    }

    fn row(&self) -> ScheduleRow {
        self.store.schedules().find("job").unwrap().unwrap()
    }

    /// Sets the clock, and claims what is due then.
    fn claim_at(&mut self, now: &Zoned) -> Vec<Firing> {
        self.now = now.clone();
        let at = now.timestamp();
        let decide = |row: &ScheduleRow, open: OpenFirings| {
            let open = Open { running: open.running, queued: open.queued };
            let plan = plan(&restored(row), row.next_at.unwrap(), at, open, &self.rules);
            Due { fire: plan.fire, queue: plan.queue, next_at: plan.next_at }
        };
        let claimer = Claimer {
            owner: "o".to_owned(),
            workspace: "/w".into(),
            lease: SignedDuration::from_hours(48),
            most: 99,
        };
        self.store.schedules().claim_due(&claimer, at, &decide).unwrap()
    }

    fn end(&self, firing: &Firing, succeeded: bool) {
        let end = AttemptEnd { succeeded, outcome: "it broke".to_owned(), output: None };
        let now = self.now.timestamp();
        let decide = |row: &ScheduleRow, firing: &Firing| {
            let state = JobState { failures: row.failures, disabled: None };
            let (state, delay) = if succeeded {
                (after_success(&state), None)
            } else {
                after_failure(&state, "it broke", firing.attempt, 2, 5)
            };
            let retry_at = delay.map(|delay| now.checked_add(delay).unwrap());
            AfterAttempt { failures: state.failures, retry_at, disabled: state.disabled }
        };
        assert!(self.store.schedules().finish(&firing.claim, &end, now, &decide).unwrap());
    }

    /// Sleeps until the next claim again and again, as a process does, and returns what fired when.
    fn run_until(&mut self, end: &str) -> Vec<String> {
        let end: Zoned = end.parse().unwrap();
        let mut fired = Vec::new();
        while let Some(at) =
            self.store.schedules().next_claim("/w".as_ref()).unwrap().filter(|at| *at < end.timestamp())
        {
            let now = at.max(self.now.timestamp()).to_zoned(end.time_zone().clone());
            for firing in self.claim_at(&now) {
                assert_eq!(firing.claim.instant, at, "it begins at its instant");
                self.end(&firing, true);
                fired.push(self.local(firing.claim.instant));
            }
        }
        fired
    }

    fn local(&self, instant: Timestamp) -> String {
        instant.to_zoned(self.now.time_zone().clone()).strftime("%m-%d %H:%M").to_string()
    }

    fn instants(&self, firings: &[Firing]) -> Vec<String> {
        firings.iter().map(|firing| self.local(firing.claim.instant)).collect()
    }
}

#[test]
fn a_daily_job_fires_once_each_day_of_a_year_with_both_changes_of_the_clock() {
    let start = "2027-01-01T00:00:00[Europe/Berlin]";
    let mut job = Driven::new("every day at 2:30", start, Misfire::Once, Overlap::Skip);
    let fired = job.run_until("2028-03-01T00:00:00[Europe/Berlin]");
    assert_eq!(fired.len(), 365 + 31 + 29);
    let mut days: Vec<&str> = fired[..365].iter().map(|time| &time[..5]).collect();
    days.dedup();
    assert_eq!(days.len(), 365, "each day once");
    let odd: Vec<&String> = fired.iter().filter(|time| !time.ends_with("02:30")).collect();
    assert_eq!(odd, ["03-28 03:00"]);
    assert_eq!(fired.last().unwrap(), "02-29 02:30");
}

#[test]
fn a_pause_is_made_up_for_by_the_rule_and_the_job_goes_on_in_time() {
    for (misfire, expected) in [
        (Misfire::Skip, &[][..]),
        (Misfire::Once, &["03-28 14:00"][..]),
        (Misfire::UpTo(3), &["03-28 12:00", "03-28 13:00", "03-28 14:00"][..]),
    ] {
        let start = "2027-03-27T22:30:00[Europe/Berlin]";
        let mut job = Driven::new("every hour", start, misfire, Overlap::Allow);
        let late: Zoned = "2027-03-28T14:20:00[Europe/Berlin]".parse().unwrap();
        let fired = job.claim_at(&late);
        assert_eq!(job.instants(&fired), expected);
        for firing in &fired {
            job.end(firing, true);
        }
        assert_eq!(job.run_until("2027-03-28T16:30:00[Europe/Berlin]"), ["03-28 15:00", "03-28 16:00"]);
    }
}

#[test]
fn instants_that_are_made_up_for_run_one_after_another_unless_they_may_overlap() {
    for overlap in [Overlap::Skip, Overlap::Queue] {
        let start = "2027-03-01T12:30:00[Europe/Berlin]";
        let mut job = Driven::new("every hour", start, Misfire::UpTo(3), overlap);
        let late = job.now.checked_add(5.hours()).unwrap();
        for expected in ["03-01 15:00", "03-01 16:00", "03-01 17:00"] {
            let fired = job.claim_at(&late);
            assert_eq!(job.instants(&fired), [expected]);
            assert_eq!(job.claim_at(&late), []);
            job.end(&fired[0], true);
        }
        assert_eq!(job.claim_at(&late), []);
    }
}

#[test]
fn a_clock_that_goes_back_fires_nothing_twice() {
    let start = "2027-03-01T12:30:00[Europe/Berlin]";
    let mut job = Driven::new("every hour", start, Misfire::UpTo(9), Overlap::Allow);
    let at = |hour: i8| job.now.with().hour(hour).minute(0).build().unwrap();
    let clock = [13, 14, 13, 12, 14, 15].map(at);
    let fired: Vec<String> = clock
        .iter()
        .flat_map(|now| {
            let fired = job.claim_at(now);
            job.instants(&fired)
        })
        .collect();
    assert_eq!(fired, ["03-01 13:00", "03-01 14:00", "03-01 15:00"]);
}

#[test]
fn a_job_longer_than_its_interval_is_left_out_queued_or_runs_beside_itself() {
    for (overlap, during, afterwards) in [
        (Overlap::Skip, &[][..], &[][..]),
        (Overlap::Queue, &[][..], &["03-01 14:00"][..]),
        (Overlap::Allow, &["03-01 14:00", "03-01 15:00"][..], &[][..]),
    ] {
        let start = "2027-03-01T12:30:00[Europe/Berlin]";
        let mut job = Driven::new("every hour", start, Misfire::Skip, overlap);
        let at = |hour: i8, minute: i8| {
            let start: Zoned = start.parse().unwrap();
            start.with().hour(hour).minute(minute).build().unwrap()
        };
        let first = job.claim_at(&at(13, 0));
        assert_eq!(job.instants(&first), ["03-01 13:00"]);
        let mut found = job.claim_at(&at(14, 0));
        found.extend(job.claim_at(&at(15, 0)));
        assert_eq!(job.instants(&found), during);
        job.end(&first[0], true);
        let found = job.claim_at(&at(15, 30));
        assert_eq!(job.instants(&found), afterwards);
    }
}

#[test]
fn failures_are_tried_again_with_longer_delays_and_disable_the_job_in_the_end() {
    let start = "2027-03-01T12:30:00[Europe/Berlin]";
    let mut job = Driven::new("every hour", start, Misfire::Skip, Overlap::Skip);
    let mut begun = Vec::new();
    while let Some(at) = job.store.schedules().next_claim("/w".as_ref()).unwrap() {
        let now = at.to_zoned(job.now.time_zone().clone());
        for firing in job.claim_at(&now) {
            begun.push(now.strftime("%H:%M:%S").to_string());
            job.end(&firing, false);
        }
    }
    assert_eq!(begun, ["13:00:00", "13:00:30", "13:01:30", "14:00:00", "14:00:30"]);
    let row = job.row();
    assert_eq!((row.state, row.failures), (ScheduleState::Paused, 5));
    assert_eq!(row.disabled.as_deref(), Some("5 failures in a row, the last: it broke"));
}

#[test]
fn a_single_instant_that_was_missed_fires_late_once_and_is_over() {
    let start = "2027-03-01T12:30:00[Europe/Berlin]";
    let mut job = Driven::new("in 5 minutes", start, Misfire::Once, Overlap::Skip);
    let late = job.now.checked_add(3.days()).unwrap();
    let fired = job.claim_at(&late);
    assert_eq!(job.instants(&fired), ["03-01 12:35"]);
    job.end(&fired[0], true);
    assert_eq!(job.store.schedules().next_claim("/w".as_ref()).unwrap(), None);
    assert_eq!(job.row().state, ScheduleState::Ended);
}
