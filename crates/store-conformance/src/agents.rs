//! Promises of the agents and their conversations.

use std::path::Path;
use std::sync::Barrier;
use std::thread;

use jiff::SignedDuration;
use store_api::{
    AgentAddOutcome, AgentFilter, AgentRow, AgentState, AgentStore, ConversationEntry, ENTRY_BYTES_MAX,
    StoreError,
};

use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("an agent comes back as it was added, also after a restart, and its id is taken", added),
    ("a workspace has at most its number of open agents, also if several add at once", bounded),
    ("agents are listed by their workspace, their state, their parent and their age", listed),
    ("an agent is taken when the lease of its owner has ended, and its earlier owner is refused", taken),
    ("of several that take an agent at once, one has it", taken_once),
    ("an agent that has ended is refused to its owner, and may be taken by anybody", taken_after_the_end),
    ("an agent whose lease has ended is interrupted once, and others are not", expired),
    ("spending adds up from all processes, and does not overflow", spending),
    ("a conversation comes back in order, from a number on, also after a restart", conversation),
    ("an entry that is too long or out of order is refused with all that come with it", refused_entries),
    ("a summary replaces all entries up to a number", summarised),
    ("agents that ended long ago are deleted with their conversations, except the newest", pruned),
];

const WORKSPACE: &str = "/w";
const LEASE: SignedDuration = SignedDuration::from_mins(5);

pub(crate) fn agent(id: &str) -> AgentRow {
    let text = |text: &str| text.to_owned();
    AgentRow {
        id: text(id),
        workspace: WORKSPACE.into(),
        parent: None,
        name: format!("name of {id}"),
        task: text("find the defect"),
        model: text("a/b"),
        state: AgentState::Running,
        settings: text(r#"{"ceiling":"safe"}"#),
        created_by: text("c1"),
        owner: text("one"),
        epoch: 1,
        held_until: at(5),
        created_at: at(0),
        ended_at: None,
        outcome: None,
        spent_micro_usd: 0,
        spent_tokens: 0,
    }
}

fn entry(seq: u64) -> ConversationEntry {
    ConversationEntry { seq, json: format!(r#"{{"text":"{seq}"}}"#), tokens: seq.saturating_mul(10) }
}

fn found(agents: &dyn AgentStore, id: &str) -> Result<AgentRow, Problem> {
    agents.find(id)?.ok_or_else(|| Problem(format!("the agent {id} is not found")))
}

fn ids(rows: &[AgentRow]) -> String {
    rows.iter().map(|row| row.id.as_str()).collect()
}

fn numbers(agents: &dyn AgentStore, id: &str) -> Result<Vec<u64>, Problem> {
    Ok(agents.conversation(id, 0)?.into_iter().map(|entry| entry.seq).collect())
}

fn added(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let row = AgentRow {
        workspace: "/w\u{fe}".into(),
        parent: Some("a0".to_owned()),
        state: AgentState::Failed,
        ended_at: Some(at(9)),
        outcome: Some("it failed".to_owned()),
        spent_micro_usd: 7,
        spent_tokens: 8,
        ..agent("a1")
    };
    equal("the first of its id", one.agents().add(&row, 9)?, AgentAddOutcome::Added)?;
    equal("the agent", other.agents().find("a1")?, Some(row.clone()))?;
    equal("the second of its id", other.agents().add(&agent("a1"), 9)?, AgentAddOutcome::Taken)?;
    drop((one, other));
    let again = handles.open()?;
    equal("the agent, after a restart", again.agents().find("a1")?, Some(row))?;
    equal("another id", again.agents().find("a2")?, None)
}

fn bounded(handles: &Handles<'_>) -> Result<(), Problem> {
    const MOST: u32 = 3;
    let [one, other] = handles.two()?;
    let barrier = Barrier::new(8);
    let outcomes: Vec<Result<AgentAddOutcome, StoreError>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|number| {
                let (store, barrier) = (if number % 2 == 0 { &one } else { &other }, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    store.agents().add(&agent(&format!("a{number}")), MOST)
                })
            })
            .collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    let mut added = 0;
    for outcome in outcomes {
        added += u32::from(outcome? == AgentAddOutcome::Added);
    }
    equal("the number of those that were added", added, MOST)?;
    let open = one.agents().list(Path::new(WORKSPACE), AgentFilter::Open, 9)?;
    equal("the number of those that are open", open.len(), 3)?;
    let elsewhere = AgentRow { workspace: "/other".into(), ..agent("b1") };
    equal("one of another workspace", other.agents().add(&elsewhere, MOST)?, AgentAddOutcome::Added)?;
    let first = open.first().ok_or_else(|| Problem("none is open".to_owned()))?;
    one.agents().set_state(&first.id, 1, AgentState::Idle, None, None)?;
    equal("one more beside an idle one", other.agents().add(&agent("b2"), MOST)?, AgentAddOutcome::Full)?;
    one.agents().set_state(&first.id, 1, AgentState::Done, None, Some(at(1)))?;
    equal("one more after an end", other.agents().add(&agent("b2"), MOST)?, AgentAddOutcome::Added)
}

fn listed(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let child =
        |id: &str, minutes| AgentRow { parent: Some("a".to_owned()), created_at: at(minutes), ..agent(id) };
    let rows = [
        agent("a"),
        AgentRow { name: "reviewer".to_owned(), created_at: at(2), ..agent("b") },
        // Created at the same time as the one before: the order of creation decides.
        AgentRow { created_at: at(2), ..agent("c") },
        child("d", 9),
        child("e", 8),
        AgentRow { workspace: "/other".into(), created_at: at(99), ..agent("f") },
    ];
    for row in &rows {
        one.agents().add(row, 99)?;
    }
    one.agents().set_state("c", 1, AgentState::Done, Some("found"), Some(at(3)))?;
    let agents = other.agents();
    let list = |filter, limit| agents.list(Path::new(WORKSPACE), filter, limit).map(|rows| ids(&rows));
    equal("all of a workspace", list(AgentFilter::All, 99)?, "decba".to_owned())?;
    equal("the open ones", list(AgentFilter::Open, 99)?, "deba".to_owned())?;
    equal("the newest", list(AgentFilter::All, 2)?, "de".to_owned())?;
    equal("the children", ids(&agents.children("a")?), "ed".to_owned())?;
    equal("the children of none", ids(&agents.children("b")?), String::new())?;
    let latest = |name: Option<&str>| {
        agents.latest(Path::new(WORKSPACE), name).map(|row| row.map(|row| row.id).unwrap_or_default())
    };
    equal("the latest of a person", latest(None)?, "c".to_owned())?;
    equal("the latest of a name", latest(Some("reviewer"))?, "b".to_owned())?;
    equal("the latest of a child's name", latest(Some("name of d"))?, String::new())
}

fn taken(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.agents(), other.agents());
    one.add(&AgentRow { state: AgentState::Idle, ..agent("a1") }, 9)?;
    equal("within the lease", other.take("a1", "other", at(4), LEASE)?, None)?;
    equal("a renewal", one.renew("a1", 1, at(10))?, true)?;
    equal("within the new lease", other.take("a1", "other", at(9), LEASE)?, None)?;
    equal("at its end", other.take("a1", "other", at(10), LEASE)?, Some(2))?;
    equal("one that does not exist", other.take("a9", "other", at(10), LEASE)?, None)?;
    let row = found(one, "a1")?;
    equal("its owner", (row.owner.as_str(), row.epoch, row.held_until), ("other", 2, at(15)))?;
    equal("its state", row.state, AgentState::Idle)?;
    let refused = [
        one.renew("a1", 1, at(99))?,
        one.set_state("a1", 1, AgentState::Done, None, Some(at(11)))?,
        one.append("a1", 1, &[entry(1)])?,
        one.summarise("a1", 1, 1, &entry(1))?,
    ];
    equal("what its earlier owner reports", refused, [false; 4])?;
    equal("the agent, afterwards", found(other, "a1")?, row)?;
    equal("its conversation", numbers(other, "a1")?, Vec::new())?;
    equal("what its owner reports", other.append("a1", 2, &[entry(1)])?, true)?;
    equal("the same owner, within its lease", other.take("a1", "other", at(11), LEASE)?, Some(3))?;
    equal("its take before", other.append("a1", 2, &[entry(2)])?, false)?;
    // A lease that has ended is no obstacle while nobody else has taken the agent.
    equal("after the end of the lease", other.append("a1", 3, &[entry(2)])?, true)
}

fn taken_once(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    one.agents().add(&agent("a1"), 9)?;
    for round in 1..=5_u32 {
        let barrier = Barrier::new(6);
        let now = at(i64::from(round) * 10);
        let takes: Vec<Result<Option<u32>, StoreError>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..6)
                .map(|number| {
                    let (store, barrier) = (if number % 2 == 0 { &one } else { &other }, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        store.agents().take("a1", &format!("owner-{number}-{round}"), now, LEASE)
                    })
                })
                .collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
        });
        let takes: Vec<Option<u32>> = takes.into_iter().collect::<Result<_, _>>()?;
        let epochs: Vec<u32> = takes.into_iter().flatten().collect();
        equal("the takes of a round", epochs, vec![round + 1])?;
    }
    Ok(())
}

fn taken_after_the_end(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.agents(), other.agents());
    one.add(&agent("a1"), 9)?;
    // Somebody else stops it, with the epoch that is found in the row.
    equal("a stop", other.set_state("a1", 1, AgentState::Stopped, Some("by a person"), Some(at(1)))?, true)?;
    let row = found(one, "a1")?;
    let end = (row.state, row.ended_at, row.outcome.as_deref());
    equal("its end", end, (AgentState::Stopped, Some(at(1)), Some("by a person")))?;
    let refused = [
        one.renew("a1", 1, at(99))?,
        one.set_state("a1", 1, AgentState::Done, None, Some(at(2)))?,
        one.append("a1", 1, &[entry(1)])?,
    ];
    equal("what its owner reports", refused, [false; 3])?;
    equal("a take within the lease", other.take("a1", "other", at(2), LEASE)?, Some(2))?;
    let row = found(one, "a1")?;
    let state = (row.state, row.ended_at, row.outcome, row.held_until);
    equal("the agent that goes on", state, (AgentState::Running, None, None, at(7)))?;
    equal("what its new owner reports", other.append("a1", 2, &[entry(1)])?, true)
}

fn expired(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.agents(), other.agents());
    for (id, state) in [("a", AgentState::Running), ("b", AgentState::Idle), ("c", AgentState::Done)] {
        one.add(&AgentRow { state, ..agent(id) }, 9)?;
    }
    one.add(&AgentRow { held_until: at(6), ..agent("d") }, 9)?;
    equal("before the end of the lease", ids(&other.expire(at(4))?), String::new())?;
    let mut rows = other.expire(at(5))?;
    rows.sort_by(|one, other| one.id.cmp(&other.id));
    equal("at the end of the lease", ids(&rows), "ab".to_owned())?;
    let interrupted = AgentRow { state: AgentState::Interrupted, ended_at: Some(at(5)), ..agent("a") };
    equal("what is returned", rows.first().cloned(), Some(interrupted.clone()))?;
    equal("what is stored", found(one, "a")?, interrupted)?;
    equal(
        "the others",
        [found(one, "c")?.state, found(one, "d")?.state],
        [AgentState::Done, AgentState::Running],
    )?;
    equal("a second time", ids(&one.expire(at(5))?), String::new())?;
    equal("what the late owner reports", one.renew("a", 1, at(99))?, false)?;
    equal("its take", one.take("a", "one", at(6), LEASE)?, Some(2))
}

fn spending(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    one.agents().add(&agent("a1"), 9)?;
    let spent = || -> Result<(u64, u64), Problem> {
        let row = found(one.agents(), "a1")?;
        Ok((row.spent_micro_usd, row.spent_tokens))
    };
    let added = [one.agents().add_spending("a1", 5, 100)?, other.agents().add_spending("a1", 6, 200)?];
    equal("two that add", added, [true, true])?;
    equal("the sum", spent()?, (11, 300))?;
    equal("one that does not exist", one.agents().add_spending("a9", 1, 1)?, false)?;
    let greatest = i64::MAX.unsigned_abs();
    for amount in [u64::MAX, greatest, 1] {
        other.agents().add_spending("a1", amount, amount)?;
        equal("a sum without end", spent()?, (greatest, greatest))?;
    }
    Ok(())
}

fn conversation(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    one.agents().add(&agent("a1"), 9)?;
    one.agents().add(&agent("a2"), 9)?;
    equal("two entries", one.agents().append("a1", 1, &[entry(0), entry(3)])?, true)?;
    equal("one of another agent", one.agents().append("a2", 1, &[entry(1)])?, true)?;
    equal("one more", other.agents().append("a1", 1, &[entry(4)])?, true)?;
    equal("of an agent that does not exist", other.agents().append("a9", 1, &[entry(4)])?, false)?;
    equal("all", other.agents().conversation("a1", 0)?, vec![entry(0), entry(3), entry(4)])?;
    drop((one, other));
    let again = handles.open()?;
    equal("from a number on", again.agents().conversation("a1", 3)?, vec![entry(3), entry(4)])?;
    equal("after the last", again.agents().conversation("a1", 5)?, Vec::new())
}

fn refused_entries(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, _] = handles.two()?;
    let agents = one.agents();
    agents.add(&agent("a1"), 9)?;
    let sized = |seq, bytes| ConversationEntry { json: "x".repeat(bytes), ..entry(seq) };
    equal("the longest", agents.append("a1", 1, &[sized(1, ENTRY_BYTES_MAX)])?, true)?;
    let too_long = agents.append("a1", 1, &[entry(2), sized(3, ENTRY_BYTES_MAX + 1)]);
    holds("one that is longer is refused", matches!(too_long, Err(StoreError::TooLong { .. })))?;
    let too_long = agents.summarise("a1", 1, 1, &sized(1, ENTRY_BYTES_MAX + 1));
    holds("so is a longer summary", matches!(too_long, Err(StoreError::TooLong { .. })))?;
    for entries in [vec![entry(1)], vec![entry(2), entry(2)], vec![entry(3), entry(2)], vec![entry(u64::MAX)]]
    {
        let refused = agents.append("a1", 1, &entries);
        holds("one out of order is refused", matches!(refused, Err(StoreError::EntryOutOfOrder { .. })))?;
    }
    let beyond = agents.summarise("a1", 1, 2, &entry(2));
    holds("a summary of more is refused", matches!(beyond, Err(StoreError::EntryOutOfOrder { .. })))?;
    equal("what is stored", numbers(agents, "a1")?, vec![1])
}

fn summarised(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.agents(), other.agents());
    one.add(&agent("a1"), 9)?;
    one.add(&agent("a2"), 9)?;
    for id in ["a1", "a2"] {
        one.append(id, 1, &[entry(1), entry(2), entry(4), entry(5)])?;
    }
    let summary = ConversationEntry { seq: 77, json: r#"{"summary":1}"#.to_owned(), tokens: 3 };
    equal("the summary", one.summarise("a1", 1, 3, &summary)?, true)?;
    let stored = ConversationEntry { seq: 3, ..summary.clone() };
    equal("what is left", other.conversation("a1", 0)?, vec![stored, entry(4), entry(5)])?;
    equal("a summary of all", other.summarise("a1", 1, 5, &summary)?, true)?;
    equal("what is left then", one.conversation("a1", 0)?, vec![ConversationEntry { seq: 5, ..summary }])?;
    equal("what follows", one.append("a1", 1, &[entry(6)])?, true)?;
    equal("another agent", numbers(one, "a2")?, vec![1, 2, 4, 5])
}

fn pruned(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (one, other) = (one.agents(), other.agents());
    for (id, ended) in [("a", 10), ("b", 20), ("c", 30), ("d", 40)] {
        one.add(&agent(id), 99)?;
        one.append(id, 1, &[entry(1)])?;
        one.set_state(id, 1, AgentState::Done, None, Some(at(ended)))?;
    }
    one.add(&agent("e"), 99)?;
    one.add(&AgentRow { parent: Some("b".to_owned()), ..agent("f") }, 99)?;
    let left = || other.list(Path::new(WORKSPACE), AgentFilter::All, 99).map(|rows| ids(&rows));
    equal("none beyond the newest", one.prune(at(99), 4)?, 0)?;
    equal("one that is old, and not the parent of an open one", one.prune(at(30), 1)?, 1)?;
    equal("what is left", left()?, "fedcb".to_owned())?;
    equal("its conversation", numbers(other, "a")?, Vec::new())?;
    one.set_state("f", 1, AgentState::Failed, None, Some(at(50)))?;
    equal("all but the newest two", one.prune(at(99), 2)?, 2)?;
    equal("what is left then", left()?, "fed".to_owned())?;
    equal("the conversation of one that is left", numbers(other, "d")?, vec![1])?;
    // An id that is free again has no conversation.
    one.add(&agent("a"), 99)?;
    equal("the conversation of a new one", numbers(other, "a")?, Vec::new())
}
