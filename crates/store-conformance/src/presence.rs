//! Promises about the other processes: presence, periodic work, and trusted files.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::SignedDuration;
use store_api::{Chore, Hash, Life};

use crate::approvals::question;
use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("a watcher is seen by others while it lasts, in the workspaces that it can answer", watchers),
    ("a question is waited for while any call waits", waiting),
    ("a process that shows life lives until it ends that", lives),
    ("a watch notices the changes of others once", watched),
    ("a chore is due after its time, for all processes together", chores),
    ("a file is trusted as it was until that is changed", trust),
];

fn watchers(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let seen = || [other.has_attention(Path::new("/here")), other.has_attention(Path::new("/elsewhere"))];
    equal("nobody watches", seen(), [false, false])?;
    let here = one.pay_attention(Some(Path::new("/here")))?;
    equal("somebody watches one workspace", seen(), [true, false])?;
    let all = one.pay_attention(None)?;
    drop(here);
    equal("somebody watches all workspaces", seen(), [true, true])?;
    drop(all);
    equal("nobody watches any more", seen(), [false, false])
}

fn waiting(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let first = one.wait_for("a1", "c1")?;
    let second = other.wait_for("a1", "c2")?;
    let third = one.wait_for("a2", "c3")?;
    drop(first);
    let both = HashSet::from(["a1".to_owned(), "a2".to_owned()]);
    equal("the questions that calls wait for", other.waited_for(), both)?;
    drop((second, third));
    equal("no question", other.waited_for(), HashSet::new())
}

fn lives(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let seen = || [one.life_of("a1"), other.life_of("a1")];
    equal("before", seen(), [Life::Unknown; 2])?;
    let mark = one.show_life("a1")?;
    equal("meanwhile", seen(), [Life::Lives; 2])?;
    drop(mark);
    equal("afterwards", seen(), [Life::Unknown; 2])
}

fn watched(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let mut watch = one.watch()?;
    equal("a watch that begins", watch.has_changed()?, false)?;
    other.approvals().ask(&question("a1", "p"))?;
    equal("a change of another", [watch.has_changed()?, watch.has_changed()?], [true, false])
}

fn chores(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let every = SignedDuration::from_mins(15);
    let is_due = |minutes: i64| other.is_due(Chore::Prune, every, at(minutes));
    equal("in a new state", [is_due(0)?, is_due(14)?, is_due(15)?], [false, false, true])?;
    one.begin(Chore::Check, at(16))?;
    equal("after another chore", is_due(16)?, true)?;
    one.begin(Chore::Prune, at(16))?;
    equal("after the chore", [is_due(30)?, is_due(31)?], [false, true])
}

fn trust(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let path = Path::new(OsStr::from_bytes(b"/w/\xff/handfast.yaml"));
    let (old, new) = (Hash::of(b"old"), Hash::of(b"new"));
    let trusted = || other.trust().trusted_hash(path);
    equal("before", trusted()?, None)?;
    one.trust().trust(path, &old, at(0))?;
    equal("a trusted file", trusted()?, Some(old))?;
    one.trust().trust(path, &new, at(1))?;
    equal("a file that is trusted again", trusted()?, Some(new))?;
    equal("another file", other.trust().trusted_hash(Path::new("/w"))?, None)?;
    holds("the trust is removed", one.trust().distrust(path)? && !one.trust().distrust(path)?)?;
    equal("afterwards", trusted()?, None)
}
