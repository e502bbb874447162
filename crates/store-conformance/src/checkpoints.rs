//! Promises of the checkpoints.

use std::path::{Path, PathBuf};
use std::time::Duration;

use store_api::{Checkpoint, CheckpointEntry, CheckpointRetention, CheckpointState, Checkpoints, Hash};

use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("a checkpoint comes back as it was added, with its entries in order", comes_back),
    ("checkpoints are found by the start or the end of their id within their workspace", by_part_of_id),
    ("checkpoints are found by a path that they changed within their workspace", by_path),
    ("checkpoints are found by time within their workspace", by_time),
    ("an unfinished checkpoint is in no list of finished ones", unfinished),
    ("entries are added, retracted and replaced", changed_entries),
    ("pruning keeps the newest checkpoints of each workspace", pruned),
];

fn checkpoint(id: &str, workspace: &str, minutes: i64) -> Checkpoint {
    Checkpoint {
        id: id.to_owned(),
        session: Some("s".to_owned()),
        tool: "file_write".to_owned(),
        workspace: workspace.into(),
        made_at: at(minutes),
        folder: format!("folder-{id}"),
        state: CheckpointState::Done,
        undoes: None,
        paths: 2,
        bytes: 10,
        unsaved: vec!["target".into()],
        roots: vec!["src".into(), "docs".into()],
    }
}

fn entry(path: &str, before: Option<&[u8]>) -> CheckpointEntry {
    CheckpointEntry {
        path: path.into(),
        before: before.map(<[u8]>::to_vec),
        after: Some(b"after".to_vec()),
        content: before.map(Hash::of),
    }
}

fn add(checkpoints: &dyn Checkpoints, checkpoint: &Checkpoint) -> Result<(), Problem> {
    Ok(checkpoints.add(checkpoint, &mut std::iter::empty(), &[])?)
}

fn ids(found: impl IntoIterator<Item = Checkpoint>) -> String {
    found.into_iter().map(|checkpoint| checkpoint.id).collect::<Vec<_>>().join(" ")
}

fn paths(checkpoints: &dyn Checkpoints, id: &str) -> Result<Vec<PathBuf>, Problem> {
    Ok(checkpoints.entries(id)?.into_iter().map(|entry| entry.path).collect())
}

fn comes_back(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let whole = Checkpoint { undoes: Some("c0".to_owned()), ..checkpoint("c1", "/w", 0) };
    let entries = [entry("b", Some(b"old")), entry("a", None), entry("c", Some(b"mark"))];
    one.checkpoints().add(&whole, &mut entries.iter().cloned(), &[Hash::of(b"needed")])?;
    equal("the checkpoint", other.checkpoints().find("c1")?, Some(whole.clone()))?;
    equal("the checkpoint of the folder", other.checkpoints().of_folder("folder-c1")?, Some(whole))?;
    equal("the entries", other.checkpoints().entries("c1")?, entries.to_vec())?;
    equal("the first entries", other.checkpoints().first_entries("c1", 2)?, entries[..2].to_vec())?;
    equal("the marked entries", other.checkpoints().entries_marked("c1", b"mark")?, entries[2..].to_vec())?;
    equal("an unknown checkpoint", other.checkpoints().find("c2")?, None)?;
    holds("an id is given once", add(other.checkpoints(), &checkpoint("c1", "/w", 0)).is_err())?;
    one.checkpoints().remove("c1")?;
    equal("a removed checkpoint", other.checkpoints().find("c1")?, None)?;
    equal("its entries", paths(other.checkpoints(), "c1")?, vec![])
}

fn by_part_of_id(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    for (id, workspace) in [("ab1", "/w"), ("ab2", "/other"), ("ab3", "/w"), ("b1", "/w")] {
        add(one.checkpoints(), &checkpoint(id, workspace, 0))?;
    }
    let found = |workspace: &str, prefix: &str, limit: u32| -> Result<String, Problem> {
        Ok(ids(other.checkpoints().with_part(Path::new(workspace), prefix, limit)?))
    };
    equal("those with the prefix", found("/w", "ab", 9)?, "ab1 ab3".to_owned())?;
    equal("those of another workspace", found("/other", "a", 9)?, "ab2".to_owned())?;
    equal("those with the suffix", found("/w", "b3", 9)?, "ab3".to_owned())?;
    equal("a prefix of one and a suffix of another", found("/w", "b1", 9)?, "ab1 b1".to_owned())?;
    equal("a whole id", found("/w", "ab3", 9)?, "ab3".to_owned())?;
    equal("as many as the limit", found("/w", "ab", 1)?, "ab1".to_owned())?;
    equal("a prefix of none", found("/w", "%", 9)?, String::new())
}

fn by_path(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    for (id, workspace, path) in [
        ("c1", "/w", "src/a.rs"),
        ("c2", "/w", "src"),
        ("c3", "/w", "src-old/a.rs"),
        ("c4", "/other", "src/a.rs"),
        ("c5", "/w", "src/a.rs.orig"),
    ] {
        let entries = [entry(path, None)];
        one.checkpoints().add(&checkpoint(id, workspace, 0), &mut entries.into_iter(), &[])?;
    }
    let found = |path: &str| -> Result<String, Problem> {
        let mut found = other.checkpoints().at_or_below(Path::new("/w"), Path::new(path))?;
        found.sort();
        Ok(found.join(" "))
    };
    equal("those of a folder", found("src")?, "c1 c2 c5".to_owned())?;
    equal("those of a file", found("src/a.rs")?, "c1".to_owned())?;
    equal("those of a path that nothing changed", found("sr")?, String::new())?;
    equal("those of the workspace", found("")?, "c1 c2 c3 c5".to_owned())
}

fn by_time(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    for (id, workspace, minutes) in
        [("c1", "/w", 1), ("c2", "/other", 2), ("c3", "/w", 3), ("c4", "/w", 3), ("c5", "/w", 4)]
    {
        add(one.checkpoints(), &checkpoint(id, workspace, minutes))?;
    }
    let (checkpoints, workspace) = (other.checkpoints(), Path::new("/w"));
    equal("the newest first", ids(checkpoints.list(workspace, 9)?), "c5 c4 c3 c1".to_owned())?;
    equal("as many as the limit", ids(checkpoints.list(workspace, 2)?), "c5 c4".to_owned())?;
    let first = |minutes: i64| -> Result<String, Problem> {
        Ok(ids(checkpoints.first_since(workspace, at(minutes))?))
    };
    equal("the first since a time", [first(1)?, first(2)?, first(5)?], ["c1", "c3", ""].map(str::to_owned))?;
    let later =
        |call: &str| -> Result<String, Problem> { Ok(ids(checkpoints.first_since_call(workspace, call)?)) };
    equal("the first since a call", [later("c1")?, later("c2")?], ["c1", "c3"].map(str::to_owned))?;
    let since = checkpoints.since(workspace, &checkpoint("c4", "/w", 3))?;
    equal("all since a checkpoint, oldest first", ids(since), "c4 c5".to_owned())
}

fn unfinished(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    for (id, state) in [("c1", CheckpointState::Prepared), ("c2", CheckpointState::Direct)] {
        add(one.checkpoints(), &Checkpoint { state, ..checkpoint(id, "/w", 0) })?;
    }
    let workspace = Path::new("/w");
    equal("the unfinished ones", ids(other.checkpoints().unfinished()?), "c1 c2".to_owned())?;
    equal("the finished ones", ids(other.checkpoints().list(workspace, 9)?), String::new())?;
    equal("those by prefix", ids(other.checkpoints().with_part(workspace, "c", 9)?), String::new())?;
    equal("those by time", ids(other.checkpoints().first_since(workspace, at(0))?), String::new())?;
    // A folder completes only the change that was prepared in it.
    one.checkpoints().complete_folder("folder-c2")?;
    one.checkpoints().complete_folder("folder-c1")?;
    equal("those that are left", ids(other.checkpoints().unfinished()?), "c2".to_owned())?;
    one.checkpoints().complete("c2")?;
    equal("the finished ones in the end", ids(other.checkpoints().list(workspace, 9)?), "c2 c1".to_owned())
}

fn changed_entries(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    let checkpoints = store.checkpoints();
    add(checkpoints, &Checkpoint { state: CheckpointState::Direct, paths: 0, ..checkpoint("c1", "/w", 0) })?;
    for path in ["a", "b"] {
        checkpoints.extend("c1", &entry(path, Some(b"old")), &[Hash::of(b"needed")], 5)?;
    }
    let counted = |found: Option<Checkpoint>| found.map(|found| (found.paths, found.bytes));
    equal("the paths and bytes", counted(checkpoints.find("c1")?), Some((2, 20)))?;
    checkpoints.retract("c1", &entry("b", Some(b"old")))?;
    equal("the entries after one is retracted", paths(checkpoints, "c1")?, vec![PathBuf::from("a")])?;
    let replaced = [entry("x", None), entry("y", None)];
    checkpoints.complete_as("c1", &mut replaced.iter().cloned(), 2, &["z".into()])?;
    equal("the replaced entries", checkpoints.entries("c1")?, replaced.to_vec())?;
    let ended = checkpoints.find("c1")?.map(|ended| (ended.state, ended.paths, ended.unsaved));
    equal("the ended change", ended, Some((CheckpointState::Done, 2, vec!["z".into()])))
}

fn pruned(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    for (id, workspace, minutes) in [("c1", "/w", 1), ("c2", "/w", 2), ("c3", "/w", 3), ("d1", "/other", 0)] {
        add(store.checkpoints(), &checkpoint(id, workspace, minutes))?;
    }
    let open = Checkpoint { state: CheckpointState::Prepared, ..checkpoint("e1", "/w", 0) };
    add(store.checkpoints(), &open)?;
    let retention =
        CheckpointRetention { max_bytes: u64::MAX, max_age: Duration::from_mins(1), keep_newest: 1 };
    equal("the number of removed ones", store.checkpoints().prune(&retention, at(60))?, 2)?;
    equal("those that stay", ids(store.checkpoints().list(Path::new("/w"), 9)?), "c3".to_owned())?;
    equal("the only one elsewhere", ids(store.checkpoints().list(Path::new("/other"), 9)?), "d1".to_owned())?;
    equal("the unfinished one", ids(store.checkpoints().unfinished()?), "e1".to_owned())
}
