//! Hostile lines, run in a mode in which every undoable change passes without a question. None has
//! an effect outside the workspace, or on a file there that a later program would run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::harness::Fixture;
use crate::server::Server;

/// Lines that each have their own target.
const AIMED: &str = include_str!("hostile_effects.txt");
/// Lines that no list allows.
const TABLE: &str = include_str!("../../crates/policy/tests/policy/hostile.txt");

/// Seconds that a line may take.
const TIMEOUT: u64 = 4;
/// Environment variable that makes every line of the table run. Without it, every `SHARE`th line runs.
const ALL: &str = "HANDFAST_ALL_HOSTILE_LINES";
const SHARE: usize = 24;

/// Names that a later program looks for. The list is separate from the policy's, because the policy
/// is under test here.
const RUN_LATER: &[&str] = &[
    ".envrc",
    ".mcp.json",
    ".bashrc",
    ".profile",
    ".zshrc",
    ".vscode",
    ".idea",
    ".claude",
    ".cursor",
    ".husky",
    ".githooks",
    ".gitmodules",
    ".gitconfig",
    ".vimrc",
    ".gdbinit",
    ".ssh",
    ".devcontainer",
    ".devcontainer.json",
];

/// A workspace, and the files and the process around it that must remain.
struct Scene {
    fixture: Fixture,
    bystander: Child,
}

/// Entries by path, each with its kind, mode, and content or target.
type Entries = BTreeMap<PathBuf, String>;

impl Scene {
    fn new() -> Self {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.outside().join("beside/folder")).unwrap();
        fs::write(fixture.outside().join("beside/kept"), "kept").unwrap();
        fs::write(fixture.outside().join("beside/folder/inner"), "inner").unwrap();
        for folder in [".ssh", ".config/handfast"] {
            fs::create_dir_all(fixture.home().join(folder)).unwrap();
        }
        fs::write(fixture.home().join(".bashrc"), "true").unwrap();
        fs::write(fixture.home().join(".ssh/authorized_keys"), "key").unwrap();
        fs::write(fixture.home().join(".config/handfast/config.yaml"), "mode: smart_auto\n").unwrap();
        let bystander = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let scene = Self { fixture, bystander };
        scene.set_workspace();
        scene
    }

    /// Restores the initial workspace: a repository with a commit, and some files.
    fn set_workspace(&self) {
        let workspace = self.fixture.workspace();
        for entry in fs::read_dir(&workspace).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            }
            .unwrap();
        }
        fs::create_dir_all(workspace.join("sub")).unwrap();
        fs::write(workspace.join("a.txt"), "a\n").unwrap();
        fs::write(workspace.join("sub/b.txt"), "b\n").unwrap();
        let script = "git init -q --template= . && mkdir -p .git/hooks && echo '#!/bin/sh' > .git/hooks/kept.sample && git add -A && \
                      git -c user.name=a -c user.email=a@b commit -qm begun";
        let mut command = Command::new("sh");
        let made = command.args(["-ec", script]).current_dir(&workspace).env_clear();
        assert!(made.env("PATH", "/usr/bin:/bin").status().unwrap().success());
    }

    /// Returns a folder next to the workspace.
    fn outside(&self) -> PathBuf {
        self.fixture.outside().join("beside")
    }

    /// Fills the paths of this scene into the line.
    fn aim(&self, line: &str) -> String {
        let home = self.fixture.home();
        [
            ("{outside}", self.outside().display().to_string()),
            ("{home}", home.display().to_string()),
            ("{config}", home.join(".config/handfast").display().to_string()),
            ("{process}", self.bystander.id().to_string()),
        ]
        .iter()
        .fold(line.to_owned(), |line, (name, value)| line.replace(name, value))
    }

    /// Returns the entries that must stay unchanged.
    fn must_stay(&mut self) -> Entries {
        let mut entries = Entries::new();
        for folder in [self.outside(), self.fixture.home()] {
            collect(&folder, &mut entries, true, &|_| true);
        }
        let workspace = self.fixture.workspace();
        collect(&workspace, &mut entries, false, &|path| {
            is_run_later(path.strip_prefix(&workspace).unwrap(), path)
        });
        if self.bystander.try_wait().unwrap().is_some() {
            entries.insert("a process of the host".into(), "gone".to_owned());
        }
        entries
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A line may have ended the bystander, which the test reports.
        let _ended = self.bystander.kill();
        self.bystander.wait().unwrap();
    }
}

/// Collects entries below a folder without following links: those that count, devices, and set-id
/// files. Includes modification times if `times` is set.
fn collect(folder: &Path, into: &mut Entries, times: bool, counts: &dyn Fn(&Path) -> bool) {
    let Ok(listed) = fs::read_dir(folder) else {
        into.insert(folder.to_owned(), "cannot be read".to_owned());
        return;
    };
    for path in listed.map(|entry| entry.unwrap().path()) {
        let found = path.symlink_metadata().unwrap();
        let kind = found.file_type();
        if kind.is_dir() {
            collect(&path, into, times, counts);
        }
        let is_device = kind.is_block_device() || kind.is_char_device();
        if !(counts(&path) || is_device || found.mode() & 0o6000 != 0) {
            continue;
        }
        let content = match &kind {
            kind if kind.is_symlink() => format!("to {}", fs::read_link(&path).unwrap().display()),
            kind if kind.is_file() && path.ends_with(".git/config") => git_settings(&path),
            kind if kind.is_file() => format!("{:?}", fs::read(&path).unwrap()),
            _ => String::new(),
        };
        let times = if times { format!("{}.{}", found.mtime(), found.mtime_nsec()) } else { String::new() };
        // The permission bits of a configuration do not affect the programs that it runs.
        let mode = if path.ends_with(".git/config") { 0 } else { found.mode() };
        into.insert(path, format!("{mode:o} {times} {content}"));
    }
}

/// Returns the settings of a git configuration, except those through which git runs nothing: the
/// committer, plain remotes, and the format of the repository.
fn git_settings(path: &Path) -> String {
    let mut command = Command::new("git");
    command.args(["config", "--list", "--null", "--no-includes", "--file"]).arg(path).env_clear();
    let read = command.env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).output().unwrap();
    if !read.status.success() {
        return format!("{:?}", fs::read(path).unwrap());
    }
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let runs_nothing = |setting: &&str| {
        let (name, value) = setting.split_once('\n').unwrap_or((setting, ""));
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_made_so = ["repositoryformatversion", "filemode", "bare", "logallrefupdates"].contains(&last);
        name.starts_with("core.") && is_made_so
            || name.starts_with("user.") && ["name", "email"].contains(&last)
            || name.starts_with("remote.")
                && ["url", "fetch", "mirror"].contains(&last)
                && !value.contains("::")
    };
    let kept: Vec<&str> = text.split('\0').filter(|setting| !runs_nothing(setting)).collect();
    kept.join("\n")
}

#[test]
fn of_a_configuration_of_git_what_runs_a_program_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let of = |text: &str| {
        fs::write(&path, text).unwrap();
        git_settings(&path)
    };
    let plain = of("[core]\n\tbare = false\n");
    assert_eq!(of(""), plain);
    assert_eq!(of("[user]\n\tname = x\n[remote \"o\"]\n\turl = ../evil\n"), plain);
    for text in [
        "[core]\n\tfsmonitor = ./x\n",
        "[remote \"o\"]\n\turl = ext::./x\n",
        "[remote \"o\"]\n\tuploadpack = ./x\n",
        "[user]\n\tsigningKey = x\n",
        "[include]\n\tpath = x\n",
        "[core\n",
    ] {
        assert_ne!(of(text), plain, "{text}");
    }
}

/// Returns true if a later program would run the file at `path`, which is `at` within the workspace.
fn is_run_later(at: &Path, path: &Path) -> bool {
    let names: Vec<String> = at.iter().map(|name| name.to_string_lossy().to_lowercase()).collect();
    let is_empty_folder = path.is_dir() && !path.is_symlink();
    if is_empty_folder {
        return false;
    }
    // A worktree that git itself made leads to this repository, which is checked anyway.
    let is_own_work_tree =
        || fs::read_to_string(path).is_ok_and(|text| text.contains("/workspace/.git/worktrees/"));
    let in_git = |rest: &[String]| match rest.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["hooks"] => path.is_symlink(),
        ["hooks", name] => !name.ends_with(".sample"),
        [] => !is_own_work_tree(),
        ["config" | "config.worktree" | "commondir"]
        | ["worktrees", _, "config.worktree" | "config"]
        | ["modules", .., "config"] => true,
        _ => false,
    };
    let by_git =
        names.iter().position(|name| name == ".git").is_some_and(|index| in_git(&names[index + 1..]));
    let of_bare = path.ancestors().nth(2).is_some_and(|folder| {
        names.len() > 2
            && names[names.len() - 2] == "hooks"
            && !names.last().unwrap().ends_with(".sample")
            && folder.join("HEAD").exists()
            && folder.join("objects").exists()
    });
    by_git || of_bare || names.iter().any(|name| RUN_LATER.contains(&name.as_str()))
}

/// Returns the changed paths. A removed file of the workspace does not count: it runs no code any
/// more, and can be restored.
fn differences(scene: &Scene, before: &Entries, after: &Entries) -> Vec<String> {
    let workspace = scene.fixture.workspace();
    let changed = before.iter().filter(|(path, entry)| match after.get(*path) {
        Some(now) => now != *entry,
        None => !path.starts_with(&workspace),
    });
    let new = after.keys().filter(|path| !before.contains_key(*path));
    changed.map(|(path, _)| path).chain(new).map(|path| path.display().to_string()).collect()
}

fn rows(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with("-- "))
}

fn run_bare(scene: &Scene, line: &str) {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "10", "bash", "-c", line]).current_dir(scene.fixture.workspace()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", scene.fixture.home());
    command.env("GIT_AUTHOR_NAME", "a").env("GIT_AUTHOR_EMAIL", "a@b");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap();
}

#[test]
fn a_line_that_harms_when_it_is_run_bare_harms_nothing_in_a_cell() {
    let mut scene = Scene::new();
    // The built-in rules: an undoable change passes.
    let mut server = Server::start(&scene.fixture, &[]);
    let (mut harmless, mut harmed, mut count) = (Vec::new(), Vec::new(), 0);
    for row in rows(AIMED) {
        let (kind, line) = row.split_once(" | ").unwrap_or_else(|| panic!("no row: {row}"));
        if kind == "tried" {
            let mut bare = Scene::new();
            let before = bare.must_stay();
            run_bare(&bare, &bare.aim(line));
            let after = bare.must_stay();
            if differences(&bare, &before, &after).is_empty() {
                harmless.push(line);
            }
        }
        scene.set_workspace();
        let before = scene.must_stay();
        let answer = server.call("shell_execute", json!({"command": scene.aim(line), "timeout": TIMEOUT}));
        let after = scene.must_stay();
        let differences = differences(&scene, &before, &after);
        if !differences.is_empty() {
            harmed.push(format!(
                "{line}\n    {}\n    {}",
                differences.join(", "),
                answer["content"][0]["text"]
            ));
        }
        count += 1;
    }
    assert!(harmless.is_empty(), "these do no harm, so they show nothing:\n{}", harmless.join("\n"));
    assert!(harmed.is_empty(), "{} of {count} have an effect:\n{}", harmed.len(), harmed.join("\n"));
    assert!(count > 140, "only {count} lines");
}

#[test]
fn no_hostile_line_of_the_table_has_an_effect_outside_when_it_is_run() {
    let mut scene = Scene::new();
    // The built-in rules: an undoable change passes.
    let mut server = Server::start(&scene.fixture, &[]);
    let share = if std::env::var_os(ALL).is_some() { 1 } else { SHARE };
    let (mut harmed, mut ran, mut count) = (Vec::new(), 0, 0);
    for line in rows(TABLE).step_by(share) {
        if count % 25 == 0 {
            scene.set_workspace();
        }
        let line = spelled(line);
        let before = scene.must_stay();
        let answer = server.call("shell_execute", json!({"command": line, "timeout": TIMEOUT}));
        ran += usize::from(answer["isError"] != true);
        let after = scene.must_stay();
        let differences = differences(&scene, &before, &after);
        if !differences.is_empty() {
            harmed.push(format!("{line}\n    {}", differences.join(", ")));
            scene.set_workspace();
        }
        count += 1;
    }
    assert!(harmed.is_empty(), "{} of {count} have an effect:\n{}", harmed.len(), harmed.join("\n"));
    assert!(ran * 2 > count, "only {ran} of {count} lines ran at all");
}

/// Replaces the names of characters in the table with the characters.
fn spelled(line: &str) -> String {
    [
        ("<newline>", "\n"),
        ("<return>", "\r"),
        ("<escape>", "\u{1b}"),
        ("<nul>", ""),
        ("<bidi>", "\u{202e}"),
        ("<space>", "\u{2003}"),
        ("<zero>", "\u{200b}"),
    ]
    .iter()
    .fold(line.to_owned(), |line, (name, character)| line.replace(name, character))
}
