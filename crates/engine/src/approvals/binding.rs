//! State that an approval is bound to in addition to the arguments: the state of the machine when
//! the question was asked.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use policy::{NamedWrites, Part, Policy, Runs};
use rustix::fs::{Mode, OFlags};
use tool::{Effect, Place, path_text};

use super::ForeseenWrites;
use super::question::BoundItem;
use crate::cell::CellSetup;
use crate::digest::digest;

/// Largest script, in bytes, that is bound by its content. A larger script is bound by its times
/// and size, which the kernel changes with every write.
const LARGEST_SCRIPT: u64 = 4 * 1024 * 1024;

/// A call's request and everything that the call would meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Digest of the caller's request: tool, arguments, effects, working directory.
    pub(crate) request: String,
    /// Paths, programs and files that the call would meet, each with its state.
    pub(crate) bound: Vec<BoundItem>,
    /// Digest of `request` and `bound`: the plan.
    pub(crate) plan: String,
    /// Digest of what an approval beyond this call would cover: the tool with these effects, as
    /// long as it meets the same programs and scripts. The other arguments may differ. The contents
    /// of written files are not part of it, because changing them is the purpose of the call.
    pub(crate) effects: String,
    /// Writes of the call's commands that an approval covers in advance.
    pub(crate) foreseen: ForeseenWrites,
    /// Reason why the code that would run cannot be named in advance, so that nothing binds the
    /// answer to it. `None` if it can be named.
    pub(crate) unnamed: Option<String>,
}

impl Binding {
    /// Inspects everything that the call would meet. Blocks on the disk.
    pub(crate) fn of(
        tool: &str,
        arguments_digest: &str,
        (parts, named): (&[Part], &NamedWrites),
        policy: &Policy,
        cell: &CellSetup,
        place: &Place,
    ) -> Self {
        let effects: Vec<&Effect> = parts.iter().map(|part| &part.effect).collect();
        let request = digest(&(tool, arguments_digest, &effects));
        let mut run = Vec::new();
        let mut written = Vec::new();
        let mut unnamed = None;
        for part in parts {
            if let Some(real) = &part.real {
                let named = match &part.effect {
                    Effect::Run { directory, .. } => Some(directory.as_path()),
                    other => other.path().map(|(_, path)| path),
                };
                let what =
                    format!("the target of {}", named.map(|path| place.show(path)).unwrap_or_default());
                run.push(BoundItem { what, was: path_text(real) });
            }
            match &part.effect {
                Effect::Run { command, directory } => {
                    let what = "the environment of commands".to_owned();
                    let environment: Vec<_> = cell.environment.iter().collect();
                    let was = digest(&format!(
                        "{environment:?} {:?} {:?} {:?}",
                        cell.search_path, cell.toolchains, cell.links
                    ));
                    run.push(BoundItem { what, was });
                    let Runs { files, folders, unnamed: why } = policy.runs(command, directory);
                    let named_by_packages: Vec<PathBuf> =
                        files.iter().flat_map(|file| mains_of(file)).collect();
                    let files = files.iter().chain(&named_by_packages);
                    run.extend(files.filter_map(|file| identity(file, policy, place)));
                    run.extend(folders.iter().filter_map(|folder| link_target(folder, place)));
                    unnamed = unnamed.or(why);
                }
                Effect::Write { path } | Effect::Delete { path } => {
                    let path = part.real.as_deref().unwrap_or(path);
                    let was = std::fs::symlink_metadata(path)
                        .map_or_else(|_| "missing".to_owned(), |data| state(&data));
                    written.push(BoundItem { what: format!("the content of {}", place.show(path)), was });
                }
                _ => {}
            }
        }
        written.extend(written_by_commands(parts, named, policy, place));
        run.dedup();
        let effects = digest(&(tool, parts, &run));
        let bound = [run, written].concat();
        let plan = digest(&(&request, &bound));
        let foreseen = if unnamed.is_none() { ForeseenWrites::of(named) } else { ForeseenWrites::default() };
        Self { request, bound, plan, effects, foreseen, unnamed }
    }

    /// Returns a description of the first thing that has changed, or `None` if nothing has.
    pub(crate) fn drift(before: &[BoundItem], now: &[BoundItem]) -> Option<String> {
        let there = |all: &[BoundItem], one: &BoundItem| all.iter().any(|other| other == one);
        let changed = now.iter().find(|bound| !there(before, bound));
        changed.or_else(|| before.iter().find(|bound| !there(now, bound))).map(|bound| bound.what.clone())
    }
}

/// Identifies a file that would be run: by its content if calls can write it, otherwise by its
/// metadata.
fn identity(path: &Path, policy: &Policy, place: &Place) -> Option<BoundItem> {
    let real = path.canonicalize().ok()?;
    let data = std::fs::metadata(&real).ok().filter(Metadata::is_file)?;
    let is_writable = |path: &PathBuf| {
        policy.roots().iter().any(|root| root.write && path.starts_with(&root.path))
            || path.starts_with("/tmp")
    };
    let was = if is_writable(&real) && data.len() <= LARGEST_SCRIPT {
        content(&real).unwrap_or_else(|| state(&data))
    } else {
        state(&data)
    };
    let leads = if real == path { String::new() } else { format!(" ({})", place.show(&real)) };
    Some(BoundItem { what: format!("{}{leads}", place.show(path)), was })
}

/// Returns the state of the files that commands name to write, and the content that would be
/// written there. An approval of the commands is bound to both.
fn written_by_commands(
    parts: &[Part],
    named: &NamedWrites,
    policy: &Policy,
    place: &Place,
) -> Vec<BoundItem> {
    let runs = |part: &Part| matches!(part.effect, Effect::Run { .. });
    if named.is_empty() || !parts.iter().any(runs) {
        return Vec::new();
    }
    let targets = named.run_later.iter().chain(&named.unlisted).map(|path| {
        let was = std::fs::symlink_metadata(path).map_or_else(|_| "missing".to_owned(), |data| state(&data));
        BoundItem { what: format!("the content of {}", place.show(path)), was }
    });
    let sources = named.sources.iter().filter_map(|source| identity(source, policy, place));
    let mut bound: Vec<BoundItem> = targets.chain(sources).collect();
    bound.dedup();
    bound
}

/// Returns the target of a folder that is reached through a symbolic link.
fn link_target(path: &Path, place: &Place) -> Option<BoundItem> {
    let real = path.canonicalize().ok().filter(|real| real.is_dir() && real != path)?;
    Some(BoundItem { what: format!("the target of {}", place.show(path)), was: path_text(&real) })
}

/// Returns the files that a package may start with: those that `package.json` names, as Node reads
/// it.
fn mains_of(file: &Path) -> Vec<PathBuf> {
    if file.file_name().is_none_or(|name| name != "package.json") {
        return Vec::new();
    }
    let read = || {
        let small =
            std::fs::metadata(file).ok().filter(|data| data.is_file() && data.len() <= LARGEST_SCRIPT)?;
        let bytes = std::fs::read(file).ok().filter(|bytes| bytes.len() as u64 <= small.len())?;
        let package: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        Some(file.parent()?.join(package.get("main")?.as_str()?))
    };
    let Some(main) = read() else { return Vec::new() };
    let with = |ending: &str| {
        let mut path = main.clone().into_os_string();
        path.push(ending);
        PathBuf::from(path)
    };
    [with(""), with(".js"), with(".json"), with(".node"), main.join("index.js")].into()
}

fn content(path: &Path) -> Option<String> {
    // `O_NONBLOCK` avoids waiting if a FIFO has replaced the file.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_SCRIPT + 1).read_to_end(&mut bytes).ok()?;
    Some(blake3::hash(&bytes).to_hex().to_string())
}

/// Formats the metadata that changes with every write to the file and with every replacement of it.
fn state(data: &Metadata) -> String {
    format!(
        "{}:{}:{}:{}.{}:{}.{}:{:o}",
        data.dev(),
        data.ino(),
        data.size(),
        data.mtime(),
        data.mtime_nsec(),
        data.ctime(),
        data.ctime_nsec(),
        data.mode()
    )
}
