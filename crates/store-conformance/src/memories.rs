//! Promises of the memories.

use std::collections::BTreeMap;

use store_api::{ChangeOutcome, Memories, Memory, MemoryCaller};

use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("an agent has its own memories and the shared ones, and nothing of another", owners),
    ("a change expects a version, and every version stays", versions),
    ("the memories under an earlier name belong to the agent", adopted),
    ("a dry run has the result of the change, and changes nothing", dry_run),
    ("memories are listed by key, page by page", listed),
    ("words find what the agent sees, and none of them is an operator", words),
    ("vectors belong to one version, one model and what the agent sees", vectors),
];

const MODEL: [u8; 32] = [1; 32];

fn who(agent: &str) -> MemoryCaller {
    let text = |text: &str| text.to_owned();
    MemoryCaller {
        workspace: "/w".into(),
        agent: text(agent),
        session: text("s"),
        call: text("c"),
        now: at(0),
        only_tries: false,
    }
}

fn elsewhere(agent: &str) -> MemoryCaller {
    MemoryCaller { workspace: "/other".into(), ..who(agent) }
}

fn done(outcome: ChangeOutcome) -> Result<Memory, Problem> {
    match outcome {
        ChangeOutcome::Done(memory) => Ok(memory),
        other => Err(Problem(format!("a change was not made: {other:?}"))),
    }
}

fn create(rows: &dyn Memories, who: &MemoryCaller, id: &str, text: (&str, &str)) -> Result<Memory, Problem> {
    done(rows.create(who, id, text, false)?)
}

fn keys(rows: &dyn Memories, who: &MemoryCaller) -> Result<String, Problem> {
    Ok(rows.list(who, "", (0, 10))?.0.into_iter().map(|memory| memory.key).collect::<Vec<_>>().join(" "))
}

fn owners(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (rows, others) = (one.memories(), other.memories());
    let created = create(rows, &who("one"), "i1", ("color", "blue"))?;
    done(rows.create(&who("one"), "i2", ("port", "8080"), true)?)?;
    equal("the own memory", others.read(&who("one"), "i1")?, Some(created))?;
    for key in ["color", "i1"] {
        equal("a memory of another agent", others.read(&who("two"), key)?, None)?;
        equal("its history", others.history(&who("two"), key)?, vec![])?;
        let changed = others.update(&who("two"), key, "red", None)?;
        equal("a change of it", changed, ChangeOutcome::Unknown)?;
        equal("a deletion of it", others.delete(&who("two"), key, None)?, ChangeOutcome::Unknown)?;
    }
    let shared = others.read(&who("two"), "port")?.map(|memory| (memory.agent, memory.shared));
    equal("a shared memory", shared, Some(("one".to_owned(), true)))?;
    equal("the list of the owner", keys(others, &who("one"))?, "color port".to_owned())?;
    equal("the list of another agent", keys(others, &who("two"))?, "port".to_owned())?;
    equal("the list in another workspace", keys(others, &elsewhere("one"))?, String::new())?;
    let taken = others.create(&who("two"), "i3", ("port", "x"), false)?;
    holds("a key that the agent sees is taken", matches!(taken, ChangeOutcome::Conflict(_)))
}

fn versions(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let (rows, one) = (store.memories(), who("one"));
    create(rows, &one, "i", ("k", "first"))?;
    let changed = done(rows.update(&one, "k", "second", Some(1))?)?;
    equal("the changed memory", (changed.version, changed.content.as_str()), (2, "second"))?;
    let stale = rows.update(&one, "k", "third", Some(1))?;
    holds(
        "a stale version is a conflict",
        matches!(stale, ChangeOutcome::Conflict(Memory { version: 2, .. })),
    )?;
    done(rows.delete(&one, "k", Some(2))?)?;
    equal("a deleted memory", rows.read(&one, "k")?, None)?;
    let history = rows.history(&one, "k")?;
    let versions: Vec<_> = history
        .iter()
        .map(|version| (version.version, version.what.as_str(), version.content.as_str()))
        .collect();
    equal(
        "its history",
        versions,
        vec![(1, "created", "first"), (2, "updated", "second"), (3, "deleted", "second")],
    )?;
    create(rows, &one, "i2", ("k", "anew")).map(drop)
}

fn adopted(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let (rows, earlier, agent) = (store.memories(), who("old"), who("new"));
    for (id, key) in [("i", "k"), ("j", "both"), ("l", "gone")] {
        create(rows, &earlier, id, (key, "boats"))?;
    }
    done(rows.delete(&earlier, "gone", None)?)?;
    create(rows, &agent, "m", ("both", "newer"))?;
    rows.adopt("old", "new")?;
    let content = |key: &str| rows.read(&agent, key).map(|found| found.map(|memory| memory.content));
    equal("an adopted memory", content("k")?, Some("boats".to_owned()))?;
    equal("a key of both", content("both")?, Some("newer".to_owned()))?;
    equal("the versions of a deleted memory", rows.history(&agent, "l")?.len(), 2)?;
    equal("a memory under the earlier name", rows.read(&earlier, "k")?, None)?;
    equal("a memory of a third agent", rows.read(&who("other"), "k")?, None)
}

fn dry_run(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let (rows, one) = (store.memories(), who("one"));
    let tries = MemoryCaller { only_tries: true, ..one.clone() };
    let first = create(rows, &one, "i", ("k", "first"))?;
    equal("a creation", create(rows, &tries, "j", ("new", "text"))?.key, "new".to_owned())?;
    equal("a change", done(rows.update(&tries, "k", "second", Some(1))?)?.version, 2)?;
    let refused = [rows.create(&tries, "j", ("k", "x"), false)?, rows.update(&tries, "k", "x", Some(7))?];
    let conflict = |outcome: &ChangeOutcome| matches!(outcome, ChangeOutcome::Conflict(_));
    holds("a change that would be refused is refused", refused.iter().all(conflict))?;
    equal("a deletion of nothing", rows.delete(&tries, "none", None)?, ChangeOutcome::Unknown)?;
    done(rows.delete(&tries, "k", None)?)?;
    equal("the memories in the end", rows.list(&one, "", (0, 10))?, (vec![first], false))?;
    equal("the versions in the end", rows.history(&one, "k")?.len(), 1)
}

fn listed(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let (rows, one) = (store.memories(), who("one"));
    for (id, key) in [("i1", "b"), ("i2", "a%1"), ("i3", "a%2"), ("i4", "ab")] {
        create(rows, &one, id, (key, "text"))?;
    }
    let page = |prefix: &str, page: (u64, u32)| -> Result<(String, bool), Problem> {
        let (found, more) = rows.list(&one, prefix, page)?;
        Ok((found.into_iter().map(|memory| memory.key).collect::<Vec<_>>().join(" "), more))
    };
    equal("a first page", page("a", (0, 2))?, ("a%1 a%2".to_owned(), true))?;
    equal("the next page", page("a", (2, 2))?, ("ab".to_owned(), false))?;
    equal("a prefix without operators", page("a%", (0, 9))?, ("a%1 a%2".to_owned(), false))?;
    let numbered = rows.unembedded(&one, &MODEL, 9)?.1;
    let numbers: Vec<i64> = numbered.iter().map(|memory| memory.number).collect();
    let found: Vec<i64> = rows.numbered(&one, &numbers)?.into_iter().map(|(number, _)| number).collect();
    equal("memories by their numbers, in order", found, numbers.clone())?;
    equal("the same for another agent", rows.numbered(&who("two"), &numbers)?, vec![])
}

fn words(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let rows = store.memories();
    create(rows, &who("one"), "i1", ("color", "blue paint"))?;
    done(rows.create(&who("one"), "i2", ("port", "a blue port, blue paint"), true)?)?;
    create(rows, &who("two"), "i3", ("other", "blue"))?;
    let count = |agent: &str, term: &str| -> Result<usize, Problem> {
        let matches = rows.with_words(&who(agent), &[term.to_owned(), "nothing".to_owned()], 10)?;
        equal("the lists of matches", matches.of_terms.len(), 2)?;
        equal("the matches of a word that no memory has", matches.of_terms[1].len(), 0)?;
        Ok(matches.of_terms[0].len())
    };
    let counts =
        [count("one", "blue")?, count("two", "blue")?, count("one", "port")?, count("one", "ports")?];
    equal("the memories with a word", counts, [2, 2, 1, 1])?;
    equal(
        "the memories with words in a row",
        [count("one", "blue paint")?, count("one", "paint blue")?],
        [2, 0],
    )?;
    for term in ["\"blue", "blue OR port", "NEAR(blue)", "key:blue", "blue*", "'; --"] {
        count("one", term)?;
    }
    equal("the memories that an agent sees", rows.with_words(&who("two"), &[], 10)?.seen, 2)?;
    let matches = rows.with_words(&who("one"), &["paint".to_owned()], 10)?;
    holds("a match has a positive factor", matches.of_terms[0].iter().all(|(_, factor)| *factor > 0.0))?;
    equal("at most as many", rows.with_words(&who("one"), &["blue".to_owned()], 1)?.of_terms[0].len(), 1)
}

fn vectors(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let (rows, others) = (one.memories(), other.memories());
    create(rows, &who("one"), "i1", ("k", "boats"))?;
    create(rows, &who("two"), "i2", ("k", "water"))?;
    let (count, missing) = rows.unembedded(&who("one"), &MODEL, 10)?;
    equal("the memories without a vector", (count, missing.len()), (1, 1))?;
    for memory in &missing {
        rows.keep_vectors(&MODEL, &[(memory, vec![b"1".to_vec(), b"2".to_vec()])])?;
    }
    let kept = |who: &MemoryCaller, model: u8| -> Result<Vec<Vec<u8>>, Problem> {
        let mut kept: BTreeMap<i64, Vec<Vec<u8>>> = BTreeMap::new();
        others.vectors(who, &[model; 32], &mut |number, vector| {
            kept.entry(number).or_default().push(vector.to_vec());
        })?;
        Ok(kept.into_values().flatten().collect())
    };
    equal("the vectors", kept(&who("one"), 1)?, vec![b"1".to_vec(), b"2".to_vec()])?;
    equal("those of another model", kept(&who("one"), 2)?, vec![])?;
    equal("those for another agent", kept(&who("two"), 1)?, vec![])?;
    equal("the memories without a vector then", others.unembedded(&who("one"), &MODEL, 0)?.0, 0)?;
    done(rows.update(&who("one"), "k", "water", None)?)?;
    equal("the vectors of the earlier version", kept(&who("one"), 1)?, vec![])?;
    for memory in &missing {
        rows.keep_vectors(&MODEL, &[(memory, vec![b"1".to_vec()])])?;
    }
    equal("vectors that come too late", kept(&who("one"), 1)?, vec![])?;
    equal("the memories without a vector in the end", others.unembedded(&who("one"), &MODEL, 0)?.0, 1)
}
