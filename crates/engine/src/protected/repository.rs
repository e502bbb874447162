//! The parts of a repository that make git run programs, and their locations.
//!
//! The rules are those of gitrepository-layout(5), git-config(1), githooks(5) and git-rebase(1). If
//! git is stricter than these functions, they report a repository too many: git reads `HEAD`, and
//! here its existence is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use policy::{GitSetting, git_settings};

use super::view::{Content, Kind, View};

/// Maximum depth of includes between files of configuration, as in git.
const DEEPEST_INCLUDE: usize = 10;

/// Reasons why git runs something or is led elsewhere. The key is the file that holds the cause,
/// and a text that distinguishes the cause from others.
pub(super) type Items = BTreeMap<(PathBuf, String), String>;

/// Names in a repository's folder that decide which programs git runs, and names without which the
/// folder is no repository.
pub(super) const STRUCTURE: [&str; 13] = [
    "HEAD",
    "objects",
    "refs",
    "commondir",
    "config",
    "config.worktree",
    "hooks",
    "info",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "remotes",
    "branches",
];

/// Strategies that are built into git; any other name is that of a program.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// Commands of a todo list that run no program of their own.
const STEPS: [&str; 24] = [
    "pick",
    "p",
    "reword",
    "r",
    "edit",
    "e",
    "squash",
    "s",
    "fixup",
    "f",
    "drop",
    "d",
    "break",
    "b",
    "label",
    "l",
    "reset",
    "t",
    "merge",
    "m",
    "update-ref",
    "u",
    "noop",
    "revert",
];

/// Names under which git runs a hook.
pub(super) const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "post-index-change",
];

/// Returns true if git would treat the folder as a repository, or may do so once more of its
/// entries exist: a folder called `.git`, that of a submodule or worktree in one, or a folder with
/// `HEAD` and either `objects` or `commondir`.
pub(super) fn is_repository(view: &View<'_>, folder: &Path) -> bool {
    if is_named_as_one(folder) {
        return view.kind(folder) == Some(Kind::Folder);
    }
    view.exists(&folder.join("HEAD"))
        && (view.exists(&folder.join("objects")) || view.exists(&folder.join("commondir")))
}

/// Returns true if the path alone identifies a folder as a repository.
pub(super) fn is_named_as_one(folder: &Path) -> bool {
    let names: Vec<String> = folder.iter().map(|name| name.to_string_lossy().to_lowercase()).collect();
    let Some(at) = names.iter().position(|name| name == ".git") else { return false };
    match names.get(at + 1..).unwrap_or_default() {
        [] => true,
        [kind, _] if kind == "worktrees" => true,
        // The name of a submodule may itself hold slashes.
        [kind, name @ ..] if kind == "modules" && !name.is_empty() => {
            let is_part =
                |name: &String| name == "logs" || STRUCTURE.iter().any(|part| part.to_lowercase() == *name);
            !name.iter().any(is_part)
        }
        _ => false,
    }
}

/// Returns the folder that a repository shares with its worktrees.
pub(super) fn shared_folder(view: &View<'_>, repository: &Path) -> PathBuf {
    let led = match view.read(&repository.join("commondir")) {
        Content::Bytes(content) => {
            let target = OsString::from_vec(trimmed(&content).to_vec());
            view.follow(&repository.join(target)).end
        }
        Content::Absent | Content::Unknown(_) => None,
    };
    led.unwrap_or_else(|| repository.to_owned())
}

/// Returns the repository behind an entry called `.git`, which is a folder, a symbolic link to one,
/// or a file that names one.
pub(super) fn behind(view: &View<'_>, entry: &Path) -> Option<PathBuf> {
    let end = view.follow(entry).end?;
    match view.kind(&end)? {
        Kind::Folder => Some(end),
        _ => pointed_to(view, &end),
    }
}

/// Returns the folder to which a file called `.git` leads.
pub(super) fn pointed_to(view: &View<'_>, pointer: &Path) -> Option<PathBuf> {
    let Content::Bytes(content) = view.read(pointer) else { return None };
    let target = trimmed(content.strip_prefix(b"gitdir:")?);
    let target = target.trim_ascii_start();
    let folder = pointer.parent().unwrap_or(Path::new(""));
    view.follow(&folder.join(OsString::from_vec(target.to_vec()))).end
}

fn trimmed(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

/// Returns the folders that git uses as the top of a working tree: one per worktree.
pub(super) fn tops(view: &View<'_>, repository: &Path) -> BTreeSet<PathBuf> {
    let mut tops = BTreeSet::new();
    let shared = shared_folder(view, repository);
    for folder in [repository, &shared] {
        let parent = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == ".git"));
        tops.insert(parent.unwrap_or(folder).to_owned());
        for setting in settings(view, &folder.join("config"), &mut Vec::new()) {
            if (setting.section.as_str(), setting.key.as_str()) == ("core", "worktree") {
                tops.extend(view.follow(&folder.join(&setting.value)).end);
            }
        }
    }
    let worktrees = shared.join("worktrees");
    for name in view.names(&worktrees) {
        if let Content::Bytes(content) = view.read(&worktrees.join(name).join("gitdir")) {
            let pointer = PathBuf::from(OsString::from_vec(trimmed(&content).to_vec()));
            tops.extend(pointer.parent().and_then(|top| view.follow(&view.named(top)).end));
        }
    }
    tops
}

/// Reads the settings of a file of configuration and of all files that it includes. Adds each file
/// to `files`.
pub(super) fn settings(view: &View<'_>, file: &Path, files: &mut Vec<PathBuf>) -> Vec<GitSetting> {
    let mut all = Vec::new();
    let mut pending = vec![(file.to_owned(), 0)];
    while let Some((file, depth)) = pending.pop() {
        let Some(end) = view.follow(&file).end else { continue };
        files.push(file);
        let Content::Bytes(content) = view.read(&end) else { continue };
        for setting in git_settings(&content).unwrap_or_default() {
            if let Some(included) =
                setting.included().filter(|_| depth < DEEPEST_INCLUDE && files.len() < 1_000)
            {
                let included = view.named_in(end.parent().unwrap_or(Path::new("")), included);
                if !files.contains(&included) {
                    pending.push((included, depth + 1));
                }
            }
            all.push(setting);
        }
    }
    all
}

/// Returns all items that make git run something when it works in this repository.
pub(super) fn items(view: &View<'_>, repository: &Path) -> Items {
    let mut items = Items::new();
    let shared = shared_folder(view, repository);
    if view.exists(&repository.join("commondir")) && !is_worktree_of(repository, &shared) {
        add_file(&mut items, view, &repository.join("commondir"), "it points git to another repository");
    }
    let mut read = Vec::new();
    let both = BTreeSet::from([repository, shared.as_path()]);
    for folder in both {
        for name in ["config", "config.worktree"] {
            add_settings(&mut items, view, folder, &folder.join(name), &mut read);
        }
        let hooks = folder.join("hooks");
        for name in view.names(&hooks) {
            if !name.to_string_lossy().ends_with(".sample")
                && view.kind(&hooks.join(&name)) != Some(Kind::Folder)
            {
                add_file(&mut items, view, &hooks.join(&name), "git runs it as a hook");
            }
        }
        for part in STRUCTURE.iter().filter(|part| **part != "HEAD") {
            let part = folder.join(part);
            if view.kind(&part) == Some(Kind::Link) {
                add_file(&mut items, view, &part, "git follows it");
            }
        }
    }
    for list in ["rebase-merge/git-rebase-todo", "sequencer/todo"] {
        add_steps(&mut items, view, &repository.join(list));
    }
    let strategy = repository.join("rebase-merge/strategy");
    let is_built_in = match view.read(&strategy) {
        Content::Absent => true,
        Content::Bytes(name) => STRATEGIES.iter().any(|known| known.as_bytes() == name.trim_ascii()),
        Content::Unknown(_) => false,
    };
    if !is_built_in {
        add_file(&mut items, view, &strategy, "git runs the strategy in it");
    }
    items
}

/// Returns true if a repository is one of another repository's worktrees, in the place that git uses.
fn is_worktree_of(repository: &Path, shared: &Path) -> bool {
    repository.parent() == Some(&shared.join("worktrees"))
}

fn add_settings(items: &mut Items, view: &View<'_>, repository: &Path, file: &Path, read: &mut Vec<PathBuf>) {
    let mut files = Vec::new();
    // `settings` also finds the files that `file` includes.
    settings(view, file, &mut files);
    for file in files {
        let end = view.follow(&file).end.unwrap_or_else(|| file.clone());
        if read.contains(&end) {
            continue;
        }
        read.push(end.clone());
        let found = match view.read(&end) {
            Content::Absent => continue,
            Content::Unknown(_) => {
                add_file(items, view, &end, "git runs the program in it");
                continue;
            }
            Content::Bytes(content) => git_settings(&content),
        };
        let Some(found) = found else {
            add_file(items, view, &end, "it cannot be parsed as git's configuration");
            continue;
        };
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for setting in found {
            if setting.runs_nothing() || leads_into_the_workspace(view, repository, &setting) {
                continue;
            }
            let name = setting.name();
            let text = format!("{name}={}", setting.value);
            let count = seen.entry(text.clone()).or_default();
            *count += 1;
            let why = format!("it sets `{name}`, which may run a program");
            items.insert((end.clone(), format!("{text} {count}")), why);
        }
    }
}

/// Returns the items of one file of configuration that make git run something, without those of
/// included files.
pub(super) fn items_of_settings(view: &View<'_>, file: &Path) -> Items {
    let mut items = Items::new();
    add_settings(&mut items, view, Path::new(""), file, &mut Vec::new());
    items.retain(|(at, _), _| at == file);
    items
}

/// Returns true if a setting only names the working tree of a submodule.
fn leads_into_the_workspace(view: &View<'_>, repository: &Path, setting: &GitSetting) -> bool {
    let is_submodule = repository.iter().any(|name| name == "modules") && is_named_as_one(repository);
    (setting.section.as_str(), setting.key.as_str()) == ("core", "worktree")
        && is_submodule
        && view.follow(&repository.join(&setting.value)).end.is_some_and(|end| end.is_relative())
}

/// Adds a file that counts whatever its content.
fn add_file(items: &mut Items, view: &View<'_>, file: &Path, why: &str) {
    items.insert((file.to_owned(), identity(view, file)), why.to_owned());
}

/// Returns a text that distinguishes an entry from another one at the same path.
pub(super) fn identity(view: &View<'_>, path: &Path) -> String {
    match view.kind(path) {
        None => String::new(),
        Some(Kind::Folder) => "folder".to_owned(),
        Some(Kind::Link) => format!("link to {:?}", view.link(path)),
        Some(Kind::File) => match view.read(path) {
            Content::Absent => String::new(),
            Content::Unknown(identity) => identity,
            Content::Bytes(content) => {
                format!("{} {}", view.is_executable(path), blake3::hash(&content).to_hex())
            }
        },
    }
}

/// Adds the programs that a todo list would run.
fn add_steps(items: &mut Items, view: &View<'_>, list: &Path) {
    let content = match view.read(list) {
        Content::Absent => return,
        Content::Unknown(_) => return add_file(items, view, list, "git runs the commands in it"),
        Content::Bytes(content) => content,
    };
    let text = String::from_utf8_lossy(&content);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let step = line.split_whitespace().next().unwrap_or_default();
        if !STEPS.contains(&step) {
            items.insert(
                (list.to_owned(), line.to_owned()),
                format!("git runs a command in it: `{}`", tool::visible(line)),
            );
        }
    }
}

/// Returns the drivers to which settings assign programs, as pairs of a kind (`filter`, `diff` or
/// `merge`) and a name.
pub(super) fn drivers(settings: &[GitSetting]) -> BTreeSet<(String, String)> {
    let has_program = |setting: &&GitSetting| {
        matches!(
            (setting.section.as_str(), setting.key.as_str()),
            ("filter", "clean" | "smudge" | "process")
                | ("diff", "command" | "textconv")
                | ("merge", "driver")
        )
    };
    let named = settings.iter().filter(has_program);
    named.filter_map(|setting| Some((setting.section.clone(), setting.subsection.clone()?))).collect()
}

/// Returns an attribute that newly names a driver with a program, directly or by one of these macros.
pub(super) fn new_driver(
    old: &[u8],
    new: &[u8],
    drivers: &BTreeSet<(String, String)>,
    macros: &BTreeSet<String>,
) -> Option<String> {
    let lines = |text: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(text).lines().map(|line| line.trim().to_owned()).collect()
    };
    let known: BTreeSet<String> = lines(old).into_iter().collect();
    let new = lines(new);
    let mut tokens =
        new.iter().filter(|line| !known.contains(*line)).flat_map(|line| line.split_whitespace());
    let names_one = |token: &&str| {
        let driver = token
            .split_once('=')
            .is_some_and(|(kind, name)| drivers.contains(&(kind.to_owned(), name.to_owned())));
        driver || macros.contains(*token)
    };
    tokens.find(names_one).map(str::to_owned)
}

/// Returns the macros that a file of attributes defines with a driver that has a program.
pub(super) fn macros(text: &[u8], drivers: &BTreeSet<(String, String)>) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("[attr]"));
    let with_driver = lines.filter_map(|line| {
        let (name, rest) = line.split_once(char::is_whitespace)?;
        new_driver(b"", rest.as_bytes(), drivers, &BTreeSet::new()).map(|_| name.to_owned())
    });
    with_driver.collect()
}

/// Returns the last component of a path as text, for comparison with plain names. Returns an empty
/// text for names that are not UTF-8.
pub(super) fn last_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}
