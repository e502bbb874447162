//! Promises of the schedules and their firings.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use store_api::{
    AddOutcome, AfterAttempt, AttemptEnd, Claimer, Due, Firing, FiringState, OpenFirings, ScheduleFilter,
    ScheduleRow, ScheduleState, ScheduleTimes, Schedules,
};

use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("a schedule comes back as it was added, and its id and its name are taken", added),
    ("schedules are listed by their workspace and their state", listed),
    ("an instant is claimed once by all processes, and its schedule moves on", claimed_once),
    ("a paused schedule fires nothing until it is resumed", paused),
    ("a firing whose lease has ended is taken over, and its first owner is refused", taken_over),
    ("a lease that is renewed is not taken over", renewed),
    ("a failed attempt is followed by the next one at its time", retried),
    ("a firing for now is claimed beside the instants, also of a paused schedule", claimed_now),
    ("a queued firing begins when those before it have ended", queued),
    ("a schedule that is disabled says why, and forgets it when it is resumed", disabled),
    ("a single instant ends its schedule, which stays in the history", ended),
    ("a removed schedule fires nothing, and what runs is refused", removed),
    ("the time of the next claim is that of the earliest instant, attempt or end of a lease", next_claim),
];

const WORKSPACE: &str = "/w";

/// Returns a schedule of one instant an hour.
pub(crate) fn hourly(id: &str) -> ScheduleRow {
    let text = |text: &str| text.to_owned();
    ScheduleRow {
        id: text(id),
        name: format!("name of {id}"),
        description: text("described"),
        workspace: WORKSPACE.into(),
        text: text("Every Hour"),
        canonical: text("every hour"),
        zone: text("Europe/Berlin"),
        times: ScheduleTimes::Recurring(text("0 * * * *")),
        action: text(r#"{"tool":"web_fetch"}"#),
        ceiling: text(r#"{"level":"safe"}"#),
        rules: text("{}"),
        state: ScheduleState::Active,
        created_at: at(0),
        created_by: "c1".to_owned(),
        next_at: Some(at(60)),
        last_at: None,
        last_status: None,
        failures: 0,
        disabled: None,
    }
}

fn single(id: &str, minutes: i64) -> ScheduleRow {
    ScheduleRow { times: ScheduleTimes::OneTime(at(minutes)), next_at: Some(at(minutes)), ..hourly(id) }
}

fn claimer(owner: &str) -> Claimer {
    Claimer { owner: owner.to_owned(), workspace: "/w".into(), lease: SignedDuration::from_mins(5), most: 10 }
}

/// Fires the instant that is due, and leaves the one an hour later.
fn fire(schedule: &ScheduleRow, _open: OpenFirings) -> Due {
    let next_at = match schedule.times {
        ScheduleTimes::Recurring(_) => schedule.next_at.map(|next| next + SignedDuration::from_hours(1)),
        ScheduleTimes::OneTime(_) => None,
    };
    Due { fire: schedule.next_at.into_iter().collect(), queue: Vec::new(), next_at }
}

/// Fires the instant that is due if nothing runs, and queues it otherwise.
fn fire_or_queue(schedule: &ScheduleRow, open: OpenFirings) -> Due {
    let due = fire(schedule, open);
    if open.running == 0 { due } else { Due { queue: due.fire, fire: Vec::new(), ..due } }
}

fn claim(schedules: &dyn Schedules, owner: &str, minutes: i64) -> Result<Vec<Firing>, Problem> {
    Ok(schedules.claim_due(&claimer(owner), at(minutes), &fire)?)
}

/// Claims the one firing that is due.
fn claim_one(schedules: &dyn Schedules, owner: &str, minutes: i64) -> Result<Firing, Problem> {
    let mut found = claim(schedules, owner, minutes)?;
    match (found.pop(), found.len()) {
        (Some(firing), 0) => Ok(firing),
        (_, others) => Err(Problem(format!("at minute {minutes}, one firing is due, beside {others}"))),
    }
}

fn end(succeeded: bool) -> AttemptEnd {
    AttemptEnd { succeeded, outcome: "it ran".to_owned(), output: Some("out-1".to_owned()) }
}

fn succeed(schedules: &dyn Schedules, firing: &Firing, minutes: i64) -> Result<bool, Problem> {
    Ok(schedules.finish(&firing.claim, &end(true), at(minutes), &|_, _| AfterAttempt::default())?)
}

fn found(schedules: &dyn Schedules, id: &str) -> Result<ScheduleRow, Problem> {
    schedules.find(id)?.ok_or_else(|| Problem(format!("the schedule {id} is not found")))
}

fn names(firings: &[Firing]) -> Vec<String> {
    firings
        .iter()
        .map(|firing| format!("{}@{}", firing.claim.schedule, minute(firing.claim.instant)))
        .collect()
}

fn minute(time: Timestamp) -> i64 {
    time.duration_since(at(0)).as_mins()
}

fn added(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let row = ScheduleRow { workspace: "/w\u{fe}".into(), ..hourly("s1") };
    equal("the first of its id", one.schedules().add(&row)?, AddOutcome::Added)?;
    equal("the schedule", other.schedules().find("s1")?, Some(row.clone()))?;
    let named = ScheduleRow { id: "s9".to_owned(), ..row.clone() };
    equal("the second of its name", other.schedules().add(&named)?, AddOutcome::NameTaken)?;
    let elsewhere = ScheduleRow { workspace: "/other".into(), ..named };
    equal("the name in another workspace", other.schedules().add(&elsewhere)?, AddOutcome::Added)?;
    let second = ScheduleRow { name: "another".to_owned(), ..row.clone() };
    equal("the second of its id", other.schedules().add(&second)?, AddOutcome::Taken)?;
    equal("the schedule, afterwards", one.schedules().find("s1")?, Some(row))?;
    equal("another id", one.schedules().find("s2")?, None)?;
    let once = single("s3", 60);
    one.schedules().add(&once)?;
    equal("a single instant", other.schedules().find("s3")?, Some(once))
}

fn listed(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let elsewhere = ScheduleRow { workspace: "/other".into(), created_at: at(1), ..hourly("s2") };
    for row in [hourly("s1"), elsewhere, ScheduleRow { created_at: at(2), ..single("s3", 60) }] {
        one.schedules().add(&row)?;
    }
    one.schedules().pause("s1")?;
    let firing = claim(one.schedules(), "one", 60)?.pop();
    succeed(one.schedules(), &firing.ok_or_else(|| Problem("nothing is due".to_owned()))?, 60)?;
    let ids = |workspace: Option<&str>, filter| -> Result<String, Problem> {
        let rows = other.schedules().list(workspace.map(Path::new), filter)?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    };
    let counts = other.schedules().counts(Path::new(WORKSPACE))?;
    equal("the numbers of active and of paused ones", counts, (0, 1))?;
    let named = |name: &str| other.schedules().named(Path::new(WORKSPACE), name);
    let states = ["name of s1", "name of s3", "name of s2"]
        .map(|name| named(name).map(|row| row.map(|row| row.state)));
    let [first, third, elsewhere] = states;
    equal("one by its name", first?, Some(ScheduleState::Paused))?;
    equal("an ended one by its name", third?, Some(ScheduleState::Ended))?;
    equal("one of another workspace", elsewhere?, None)?;
    let again = ScheduleRow { id: "s4".to_owned(), name: "name of s3".to_owned(), ..hourly("s4") };
    one.schedules().add(&again)?;
    equal("the one that has not ended", named("name of s3")?.map(|row| row.id), Some("s4".to_owned()))?;
    one.schedules().remove("s4")?;
    equal("the open ones", ids(None, ScheduleFilter::Open)?, "s1s2".to_owned())?;
    equal("the open ones of a workspace", ids(Some(WORKSPACE), ScheduleFilter::Open)?, "s1".to_owned())?;
    equal("the active ones", ids(None, ScheduleFilter::Active)?, "s2".to_owned())?;
    equal("the paused ones", ids(None, ScheduleFilter::Paused)?, "s1".to_owned())?;
    equal("all of a workspace", ids(Some(WORKSPACE), ScheduleFilter::All)?, "s1s3".to_owned())
}

fn claimed_once(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&hourly("s1"))?;
    one.add(&hourly("s2"))?;
    let elsewhere = Claimer { workspace: "/other".into(), ..claimer("one") };
    equal("in another workspace", names(&one.claim_due(&elsewhere, at(60), &fire)?), Vec::new())?;
    equal("before the instant", names(&claim(one, "one", 59)?), Vec::new())?;
    let first = one.claim_due(&Claimer { most: 1, ..claimer("one") }, at(60), &fire)?;
    equal("at the instant, one at most", names(&first), vec!["s1@60".to_owned()])?;
    equal("the rest, by another", names(&claim(other, "other", 60)?), vec!["s2@60".to_owned()])?;
    equal("the same instants again", names(&claim(one, "one", 60)?), Vec::new())?;
    let expected = Firing {
        claim: store_api::Claim { schedule: "s1".to_owned(), instant: at(60), epoch: 1 },
        owner: "one".to_owned(),
        state: FiringState::Claimed,
        attempt: 0,
        interrupted: false,
        begun_at: at(60),
        held_until: at(65),
        ended_at: None,
        outcome: None,
        output: None,
    };
    equal("the firing", first, vec![expected.clone()])?;
    equal("the firing, in the history", other.firings("s1", 9)?, vec![expected])?;
    let schedule = found(other, "s1")?;
    equal("the schedule", (schedule.last_at, schedule.next_at), (Some(at(60)), Some(at(120))))?;
    // A decision that names an instant again does not fire it again.
    let again =
        |_: &ScheduleRow, _: OpenFirings| Due { fire: vec![at(60)], queue: vec![], next_at: Some(at(999)) };
    for firing in one.firings("s1", 9)?.iter().chain(&other.firings("s2", 9)?) {
        holds("the end of a firing", succeed(one, firing, 61)?)?;
    }
    let none = one.claim_due(&claimer("one"), at(120), &again)?;
    equal("an instant that is named again", names(&none), Vec::new())?;
    // Schedules that fire nothing do not hide the one that does.
    one.add(&hourly("s3"))?;
    let third = |schedule: &ScheduleRow, open: OpenFirings| match schedule.id.as_str() {
        "s3" => fire(schedule, open),
        _ => Due { fire: Vec::new(), ..fire(schedule, open) },
    };
    for id in ["s0", "s1", "s2"] {
        one.remove(id)?;
        one.add(&hourly(id))?;
    }
    let found = other.claim_due(&Claimer { most: 1, ..claimer("other") }, at(60), &third)?;
    equal("the one that fires", names(&found), vec!["s3@60".to_owned()])
}

fn paused(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&hourly("s1"))?;
    equal("the pauses", [other.pause("s1")?, one.pause("s1")?], [true, false])?;
    equal("the state", found(one, "s1")?.state, ScheduleState::Paused)?;
    equal("a paused one", names(&claim(one, "one", 90)?), Vec::new())?;
    let resumed = [other.resume("s1", Some(at(120)))?, one.resume("s1", Some(at(60)))?];
    equal("the resumptions", resumed, [true, false])?;
    equal("before the instant", names(&claim(one, "one", 119)?), Vec::new())?;
    equal("the instant", names(&claim(one, "one", 120)?), vec!["s1@120".to_owned()])?;
    equal("one that does not exist", [one.pause("s9")?, one.resume("s9", None)?], [false, false])
}

fn taken_over(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&hourly("s1"))?;
    let first = claim_one(one, "one", 60)?;
    equal("within the lease", names(&claim(other, "other", 64)?), Vec::new())?;
    let second = claim_one(other, "other", 65)?;
    equal("the instant", second.claim.instant, first.claim.instant)?;
    equal("the epochs", [first.claim.epoch, second.claim.epoch], [1, 2])?;
    equal("its owner and attempt", (second.owner.as_str(), second.attempt), ("other", 1))?;
    equal("what became of the first attempt", [first.interrupted, second.interrupted], [false, true])?;
    equal("the first owner's end", succeed(one, &first, 66)?, false)?;
    equal("the first owner's renewal", one.renew(&first.claim, at(99))?, false)?;
    equal("the state", found(one, "s1")?.last_status, None)?;
    // A lease that has ended is no obstacle while nobody else has claimed.
    equal("the second owner's end", succeed(other, &second, 90)?, true)?;
    equal("a second end", succeed(other, &second, 91)?, false)?;
    let state = one.firings("s1", 9)?.pop().map(|firing| (firing.state, firing.ended_at, firing.output));
    equal("the firing", state, Some((FiringState::Done, Some(at(90)), Some("out-1".to_owned()))))
}

fn renewed(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&hourly("s1"))?;
    let firing = claim_one(one, "one", 60)?;
    equal("the renewal", one.renew(&firing.claim, at(90))?, true)?;
    equal("before the new end", names(&claim(other, "other", 89)?), Vec::new())?;
    equal("at the new end", claim_one(other, "other", 90)?.claim.epoch, 2)
}

fn retried(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&single("s1", 60))?;
    let first = claim_one(one, "one", 60)?;
    let again = AfterAttempt { failures: 1, retry_at: Some(at(70)), disabled: None };
    let ended = one.finish(&first.claim, &end(false), at(61), &|_, _| again.clone())?;
    equal("the end of the first attempt", ended, true)?;
    let schedule = found(other, "s1")?;
    let state = (schedule.failures, schedule.last_status, schedule.state);
    equal("the schedule after it", state, (1, None, ScheduleState::Active))?;
    equal("before the next attempt", names(&claim(other, "other", 69)?), Vec::new())?;
    let second = claim_one(other, "other", 70)?;
    equal("the next attempt", (second.attempt, second.claim.epoch, second.interrupted), (1, 2, false))?;
    let last = AfterAttempt { failures: 2, ..AfterAttempt::default() };
    let counted = |schedule: &ScheduleRow, firing: &Firing| {
        if (schedule.failures, firing.attempt) == (1, 1) { last.clone() } else { AfterAttempt::default() }
    };
    equal("the end of the second", other.finish(&second.claim, &end(false), at(71), &counted)?, true)?;
    let schedule = found(one, "s1")?;
    let state = (schedule.failures, schedule.last_status, schedule.state);
    equal("the schedule in the end", state, (2, Some(FiringState::Failed), ScheduleState::Ended))
}

fn claimed_now(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&hourly("s1"))?;
    one.pause("s1")?;
    let firing = one.claim_now("s1", &claimer("one"), at(30))?;
    let firing = firing.ok_or_else(|| Problem("nothing is claimed".to_owned()))?;
    equal("its instant and epoch", (minute(firing.claim.instant), firing.claim.epoch), (30, 1))?;
    equal("the same instant again", other.claim_now("s1", &claimer("other"), at(30))?, None)?;
    equal("no schedule", other.claim_now("s9", &claimer("other"), at(30))?, None)?;
    equal("its end", succeed(other, &firing, 31)?, true)?;
    let schedule = found(one, "s1")?;
    let state = (schedule.next_at, schedule.state, schedule.last_status);
    equal("the schedule", state, (Some(at(60)), ScheduleState::Paused, Some(FiringState::Done)))
}

fn queued(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&hourly("s1"))?;
    let claim = |schedules: &dyn Schedules, minutes: i64| -> Result<Vec<Firing>, Problem> {
        let claimer = Claimer { lease: SignedDuration::from_hours(9), ..claimer("one") };
        Ok(schedules.claim_due(&claimer, at(minutes), &fire_or_queue)?)
    };
    let first = claim(one, 60)?;
    equal("the first", names(&first), vec!["s1@60".to_owned()])?;
    for minutes in [120, 180] {
        equal("one that is queued", names(&claim(other, minutes)?), Vec::new())?;
    }
    let states: Vec<FiringState> = one.firings("s1", 9)?.into_iter().map(|firing| firing.state).collect();
    equal("the states", states, vec![FiringState::Queued, FiringState::Queued, FiringState::Claimed])?;
    let mut running = first;
    for (minutes, next) in [(181, "s1@120"), (182, "s1@180")] {
        for firing in &running {
            holds("the end of a firing", succeed(one, firing, minutes)?)?;
        }
        running = claim(other, minutes)?;
        equal("the next one", names(&running), vec![next.to_owned()])?;
        equal("its attempt", running.first().map(|firing| firing.attempt), Some(0))?;
        equal("no further one", names(&claim(one, minutes)?), Vec::new())?;
    }
    Ok(())
}

fn disabled(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&hourly("s1"))?;
    let firing = claim_one(one, "one", 60)?;
    let reason = "5 failures in a row".to_owned();
    let after = AfterAttempt { failures: 5, retry_at: Some(at(70)), disabled: Some(reason.clone()) };
    one.finish(&firing.claim, &end(false), at(61), &|_, _| after.clone())?;
    let schedule = found(other, "s1")?;
    equal("the schedule", (schedule.state, schedule.disabled), (ScheduleState::Paused, Some(reason)))?;
    equal("its last status", schedule.last_status, Some(FiringState::Failed))?;
    equal("what is due", names(&claim(other, "other", 500)?), Vec::new())?;
    other.resume("s1", Some(at(600)))?;
    let schedule = found(one, "s1")?;
    let state = (schedule.state, schedule.failures, schedule.disabled);
    equal("the schedule that was resumed", state, (ScheduleState::Active, 0, None))
}

fn ended(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&single("s1", 60))?;
    let firing = claim_one(one, "one", 60)?;
    equal("while it runs", found(other, "s1")?.state, ScheduleState::Active)?;
    succeed(one, &firing, 61)?;
    let schedule = found(other, "s1")?;
    let state = (schedule.state, schedule.next_at, schedule.last_status);
    equal("afterwards", state, (ScheduleState::Ended, None, Some(FiringState::Done)))?;
    equal("its firings", names(&other.firings("s1", 9)?), vec!["s1@60".to_owned()])?;
    equal("a change", [other.pause("s1")?, other.resume("s1", Some(at(99)))?], [false, false])?;
    // A month later, the next schedule makes room.
    let month = 31 * 24 * 60;
    one.add(&ScheduleRow { created_at: at(month), ..hourly("s2") })?;
    equal("a month later", (other.find("s1")?, other.firings("s1", 9)?), (None, Vec::new()))
}

fn removed(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    one.add(&hourly("s1"))?;
    let firing = claim_one(one, "one", 60)?;
    equal("the removals", [other.remove("s1")?, one.remove("s1")?], [true, false])?;
    equal("what runs", [one.renew(&firing.claim, at(99))?, succeed(one, &firing, 61)?], [false, false])?;
    equal("what is due", names(&claim(one, "one", 500)?), Vec::new())?;
    equal("its firings", names(&one.firings("s1", 9)?), Vec::new())?;
    equal("its id", one.add(&hourly("s1"))?, AddOutcome::Added)
}

fn next_claim(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.schedules(), other.schedules());
    let next = || -> Result<Option<i64>, Problem> { Ok(other.next_claim(Path::new(WORKSPACE))?.map(minute)) };
    equal("in a new state", next()?, None)?;
    one.add(&hourly("s1"))?;
    one.add(&single("s2", 50))?;
    equal("the earliest instant", next()?, Some(50))?;
    let firing = claim_one(one, "one", 50)?;
    equal("the end of a lease", next()?, Some(55))?;
    let again = AfterAttempt { failures: 1, retry_at: Some(at(57)), disabled: None };
    one.finish(&firing.claim, &end(false), at(51), &|_, _| again.clone())?;
    equal("the next attempt", next()?, Some(57))?;
    one.pause("s2")?;
    equal("without what is paused", next()?, Some(60))?;
    one.remove("s1")?;
    equal("without what is removed", next()?, None)
}
