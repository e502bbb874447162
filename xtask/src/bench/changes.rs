//! Cost of file changes, compared with programs that make the same changes without a checkpoint and
//! without a journal.
//!
//! Each sample uses new files, laid out and flushed outside the measured time, because content that
//! is already saved is not saved again. Handfast and the other program take turns.

mod memory;
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::changes::tree::Tree;
use crate::bench::measure::Durations;
use crate::bench::server::{Answer, Kind, Server};
use crate::bench::text_of;
use crate::command::{Failure, Result, write};

pub(super) use memory::{Peaks, peaks};

/// Size in bytes of the file that is edited.
const EDITED: usize = 10 * 1024 * 1024;
/// Files of the patch: 1,000 files of about 4 KB.
const PATCHED: Tree = Tree { folders: 10, files: 100, lines: 60 };
/// Files that a command changes: 5,000 files of about 1 KB.
const CHANGED: Tree = Tree { folders: 50, files: 100, lines: 16 };
/// Command that changes every file of [`CHANGED`] in place, as a formatter does.
const CHANGE_ALL: &str = "cp -r new/. files/";

/// Durations of one operation with Handfast and with the other program.
#[derive(Default)]
pub(super) struct Comparison {
    pub(super) handfast: Durations,
    pub(super) other: Durations,
}

/// Figures about changes.
#[derive(Default)]
pub(super) struct Changes {
    /// Edit of one text in [`EDITED`] bytes, compared with the peer's tool.
    pub(super) edit: Comparison,
    /// Patch of [`PATCHED`], compared with `git apply`.
    pub(super) patch: Comparison,
    /// Saving the changes that a command made to [`CHANGED`] and putting them in place, compared
    /// with `cp -r` of these files.
    pub(super) checkpoint: Comparison,
    /// Undo of the same changes, compared with `cp -r`.
    pub(super) undo: Comparison,
    /// Command that changes [`CHANGED`], with its checkpoint, compared with the same command
    /// without a cell.
    pub(super) command: Comparison,
    /// Read of [`EDITED`] bytes that the caller already has, compared with a read of the first KB
    /// of them.
    pub(super) unchanged: Comparison,
}

/// Number of samples per measurement.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    pub(super) edits: usize,
    pub(super) patches: usize,
    pub(super) commands: usize,
    pub(super) reads: usize,
}

/// Two workspaces with the same files, one for Handfast and one for the other programs.
pub(super) struct Places {
    pub(super) handfast: PathBuf,
    pub(super) other: PathBuf,
    /// Folder for files of earlier turns.
    away: PathBuf,
}

impl Places {
    fn both(&self) -> [&Path; 2] {
        [&self.handfast, &self.other]
    }

    fn lay_out(&self, name: &str, tree: &Tree, turn: usize) -> Result<()> {
        self.put_away(name)?;
        self.both().iter().try_for_each(|place| tree.lay_out(&place.join(name), turn))
    }

    /// Moves used files away instead of removing them. On a file system that delays the reuse of
    /// inodes (ext4 without a journal), all creation after a removal is slow, for every process.
    fn put_away(&self, name: &str) -> Result<()> {
        for used in self.both().map(|place| place.join(name)).iter().filter(|used| used.exists()) {
            let failed = |error| Failure(format!("cannot move {}: {error}", used.display()));
            let number = std::fs::read_dir(&self.away).map_err(failed)?.count();
            std::fs::rename(used, self.away.join(number.to_string())).map_err(failed)?;
        }
        Ok(())
    }

    /// Flushes the file system, so that neither program pays for earlier writes.
    fn flush(&self) -> Result<()> {
        run_quietly(Command::new("sync").arg("-f").arg(&self.handfast)).map(drop)
    }
}

/// Lays out the two workspaces.
pub(super) fn prepare(folder: &Path) -> Result<Places> {
    let [handfast, other, away] = ["handfast", "other", "away"].map(|name| folder.join(name));
    std::fs::create_dir_all(&away)
        .map_err(|error| Failure(format!("cannot make {}: {error}", away.display())))?;
    let places = Places { handfast, other, away };
    for place in places.both() {
        write(&place.join("large.txt"), &format!("{}\nturn 0\n{0}", text_of(EDITED / 2)))?;
    }
    let real = |place: &Path| {
        place.canonicalize().map_err(|error| Failure(format!("cannot find {}: {error}", place.display())))
    };
    Ok(Places { handfast: real(&places.handfast)?, other: real(&places.other)?, ..places })
}

/// Measures all changes. `kind` must serve the workspace of Handfast, `peer` the other one.
pub(super) fn all(kind: &Kind, peer: &Kind, places: &Places, samples: Samples) -> Result<Changes> {
    let mut changes = Changes::default();
    eprintln!("editing 10 MB {} times", samples.edits);
    edits(kind, peer, samples.edits, &mut changes.edit)?;
    eprintln!("reading what is unchanged {} times", samples.reads);
    reads(kind, samples.reads, &mut changes.unchanged)?;
    eprintln!("patching 1,000 files {} times", samples.patches);
    patches(kind, places, samples.patches, &mut changes.patch)?;
    eprintln!("changing 5,000 files {} times, with undo", samples.commands);
    let mut server = Server::start(kind)?;
    for turn in 0..=samples.commands {
        change_all(&mut server, places, turn, &mut changes)?;
    }
    server.stop()?;
    Ok(changes)
}

/// Adds a duration, except that of the first turn.
fn keep(durations: &mut Durations, turn: usize, took: Duration) {
    if turn > 0 {
        durations.add(took);
    }
}

fn edits(kind: &Kind, peer: &Kind, count: usize, edit: &mut Comparison) -> Result<()> {
    let mut servers = [Server::start(kind)?, Server::start(peer)?];
    for turn in 0..=count {
        let (old, new) = (format!("turn {turn}\n"), format!("turn {}\n", turn + 1));
        let edits = json!([{"old_text": old, "new_text": new}]);
        let ours = servers[0].call(("file_edit", json!({"path": "large.txt", "edits": edits})))?;
        keep(&mut edit.handfast, turn, ours.took);
        let theirs = servers[1].call((peer.edit)("large.txt", &old, &new))?;
        keep(&mut edit.other, turn, theirs.took);
    }
    servers.into_iter().try_for_each(Server::stop)
}

fn reads(kind: &Kind, count: usize, unchanged: &mut Comparison) -> Result<()> {
    let mut server = Server::start(kind)?;
    let part = json!({"path": "large.txt", "max_bytes": 1024});
    let first = server.call(("file_read", part.clone()))?;
    let rest: Value = serde_json::from_str(&text(&first, "/content/1/text")?).unwrap_or_default();
    let version = &rest["version"];
    for turn in 0..=count {
        let whole = json!({"path": "large.txt", "max_bytes": EDITED * 2, "version": version});
        let again = server.call(("file_read", whole))?;
        if again.line.len() > 2_000 {
            return Err(Failure::new("file_read gave the content of a file that its caller has"));
        }
        keep(&mut unchanged.handfast, turn, again.took);
        keep(&mut unchanged.other, turn, server.call(("file_read", part.clone()))?.took);
    }
    server.stop()
}

fn patches(kind: &Kind, places: &Places, count: usize, patch: &mut Comparison) -> Result<()> {
    let mut server = Server::start(kind)?;
    let file = places.other.join("patch");
    for turn in 0..=count {
        places.lay_out("files", &PATCHED, turn)?;
        let diff = PATCHED.patch("files", turn);
        write(&file, &diff)?;
        places.flush()?;
        keep(&mut patch.handfast, turn, server.call(("file_patch", json!({"patch": diff})))?.took);
        let mut git = Command::new("git");
        // Outside of a repository, regardless of the folders above. The ceiling counts only above
        // the folder that git begins in.
        let ceiling = places.other.parent().unwrap_or(&places.other);
        git.args(["apply", "patch"]).current_dir(&places.other).env("GIT_CEILING_DIRECTORIES", ceiling);
        keep(&mut patch.other, turn, run_quietly(&mut git)?);
        same(places)?;
    }
    server.stop()
}

/// Runs the command twice, on fresh files: as a dry run that is applied and undone, and directly.
fn change_all(server: &mut Server, places: &Places, turn: usize, changes: &mut Changes) -> Result<()> {
    let lay_out = |turn: usize| {
        places.lay_out("files", &CHANGED, turn)?;
        places.lay_out("new", &CHANGED, turn + 1)?;
        places.put_away("copy")?;
        places.flush()
    };
    lay_out(4 * turn)?;
    let dry = server.call(("shell_execute", json!({"command": CHANGE_ALL, "dry_run": true})))?;
    let id = text(&dry, "/_meta/handfast~1meta/changes/id")?;
    let applied = server.call(("shell_execute", json!({"command": CHANGE_ALL, "apply": id})))?;
    keep(&mut changes.checkpoint.handfast, turn, applied.took);
    let mut copy = Command::new("cp");
    copy.args(["-r", "files", "copy"]).current_dir(&places.other);
    let took = run_quietly(&mut copy)?;
    keep(&mut changes.checkpoint.other, turn, took);
    keep(&mut changes.undo.other, turn, took);
    places.flush()?;
    let id = text(&applied, "/_meta/handfast~1meta/checkpoint")?;
    let undone = server.call(("checkpoint_restore", json!({"id": id})))?;
    keep(&mut changes.undo.handfast, turn, undone.took);
    // After the undo, the files must equal those of the other workspace.
    same(places)?;
    lay_out(4 * turn + 2)?;
    let ours = server.call(("shell_execute", json!({"command": CHANGE_ALL})))?;
    keep(&mut changes.command.handfast, turn, ours.took);
    let mut bare = Command::new("sh");
    bare.args(["-c", CHANGE_ALL]).current_dir(&places.other);
    keep(&mut changes.command.other, turn, run_quietly(&mut bare)?);
    same(places)
}

/// Fails if the two workspaces differ, because a program that did other work would be quick for the
/// wrong reason.
fn same(places: &Places) -> Result<()> {
    let mut compare = Command::new("diff");
    compare.args(["-r", "-q"]).args(places.both().map(|place| place.join("files")));
    run_quietly(&mut compare).map(drop)
}

/// Returns a text of an answer by its JSON pointer below `result`.
fn text(answer: &Answer, place: &str) -> Result<String> {
    let message: Value = serde_json::from_str(&answer.line)
        .map_err(|error| Failure(format!("an answer that is no JSON: {error}")))?;
    let found = message.pointer(&format!("/result{place}")).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| {
        let start: String = answer.line.chars().take(500).collect();
        Failure(format!("an answer without {place}: {start}"))
    })
}

/// Runs a program to its end and returns the duration.
fn run_quietly(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.output().map_err(|error| Failure(format!("cannot run {command:?}: {error}")))?;
    let took = started.elapsed();
    if output.status.success() {
        return Ok(took);
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Failure(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&said))))
}
