//! Git canaries: a call that writes something which git would later run for the user is stopped
//! until a human decides.
//!
//! Each case plants a canary in one place that git reads. Planted by hand, the canary fires when
//! the user runs git. With this positive control, git itself shows where it looks. Planted by
//! calls, through every door, the canary must not fire.

mod cases;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, unread};
use crate::server::Server;
use crate::shown::data_of;

use Step::{Files, Line};
use cases::{CANARY, CASES, REPOSITORY, Step};

const FREE: [&str; 2] = ["--mode", "full_auto"];

/// Builds the command with which the user runs git.
fn user(fixture: &Fixture, line: &str) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", line])
        .current_dir(fixture.workspace())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", fixture.home())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true");
    command
}

fn prepared(setup: &str) -> Fixture {
    let fixture = Fixture::new();
    let global = "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n\
                  [protocol \"file\"]\n\tallow = always\n";
    fs::write(fixture.home().join(".gitconfig"), global).unwrap();
    let done = user(&fixture, setup).output().unwrap();
    assert!(done.status.success(), "{setup}: {}", String::from_utf8_lossy(&done.stderr));
    fixture
}

fn filled(fixture: &Fixture, text: &str) -> String {
    text.replace(CANARY, &format!("touch {}", canary(fixture).display()))
}

fn canary(fixture: &Fixture) -> std::path::PathBuf {
    fixture.outside().join("canary")
}

fn fires(fixture: &Fixture, trigger: &str) -> bool {
    // The output of git does not matter, but the commands that it ran.
    let _said = user(fixture, trigger).output().unwrap();
    canary(fixture).exists()
}

fn write(fixture: &Fixture, path: &str, content: &str) {
    fixture.write(path, &filled(fixture, content));
    if content.starts_with("#!") {
        fs::set_permissions(fixture.workspace().join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Returns a shell line that makes the files of a step.
fn line(fixture: &Fixture, step: Step) -> String {
    match step {
        Line(line) => filled(fixture, line),
        Files(files) => {
            let write = |(path, content): &(&str, &str)| {
                let folder = Path::new(path).parent().unwrap().display().to_string();
                let folder = if folder.is_empty() { ".".to_owned() } else { folder };
                let content = filled(fixture, content).replace('\'', "'\\''");
                let mode = if content.starts_with("#!") { "755" } else { "644" };
                format!("mkdir -p {folder} && printf %s '{content}' > {path} && chmod {mode} {path}")
            };
            files.iter().map(write).collect::<Vec<_>>().join(" && ")
        }
    }
}

/// The door through which an agent plants.
#[derive(Clone, Copy, Debug)]
enum Door {
    Commands,
    Background,
    FileTools,
    Patches,
}

fn plant(server: &mut Server, fixture: &Fixture, step: Step, door: Door) {
    match (door, step) {
        (Door::Background, step) => {
            // Handfast may remove a file at once, so the rest of the line may fail, which does not
            // matter.
            let line = unread(&format!("{{ {}; }}; echo end", line(fixture, step)));
            let id = server.background(&line, false);
            server.expect(&id, 0, "^end$");
            // The close returns after the end of the command is settled.
            server.data("shell_session", json!({"action": "close", "session_id": id}));
        }
        (Door::FileTools, Files(files)) => {
            for (path, content) in files {
                server.call("file_write", json!({"path": path, "content": filled(fixture, content)}));
            }
        }
        (Door::Patches, Files(files)) => {
            let one = |(path, content): &(&str, &str)| {
                let content = filled(fixture, content);
                let lines = content.lines().count();
                let mode = if content.starts_with("#!") { "100755" } else { "100644" };
                let (old, kind) = match fs::read_to_string(fixture.workspace().join(path)) {
                    Ok(old) => (old, String::new()),
                    Err(_) => (String::new(), format!("new file mode {mode}\n")),
                };
                let from = if kind.is_empty() { format!("a/{path}") } else { "/dev/null".to_owned() };
                let removed: String = old.lines().map(|line| format!("-{line}\n")).collect();
                let added: String = content.lines().map(|line| format!("+{line}\n")).collect();
                let first = |count: usize| usize::from(count > 0);
                let (before, ends) = (
                    old.lines().count(),
                    if content.ends_with('\n') || lines == 0 { "" } else { "\\ No newline at end of file\n" },
                );
                let header = format!("diff --git a/{path} b/{path}\n{kind}");
                if lines == 0 {
                    return header;
                }
                let hunk = format!("@@ -{},{before} +{},{lines} @@\n", first(before), first(lines));
                format!("{header}--- {from}\n+++ b/{path}\n{hunk}{removed}{added}{ends}")
            };
            let patch: String = files.iter().map(one).collect();
            server.call("file_patch", json!({ "patch": patch }));
        }
        (_, step) => {
            server.call("shell_execute", json!({"command": unread(&line(fixture, step))}));
        }
    }
}

/// Returns each case whose canary fires although calls planted it through this door.
fn fired(door: Door) -> Vec<String> {
    let (mut fired, mut broken) = (Vec::new(), Vec::new());
    for case in CASES {
        let control = prepared(case.setup);
        assert!(!fires(&control, case.trigger), "{}: it fires unplanted", case.name);
        let control = prepared(case.setup);
        for step in case.plant {
            match step {
                Files(files) => files.iter().for_each(|(path, content)| write(&control, path, content)),
                Line(line) => {
                    let done = user(&control, &filled(&control, line)).status().unwrap();
                    assert!(done.success(), "{}: {line}", case.name);
                }
            }
        }
        if !fires(&control, case.trigger) {
            broken.push(case.name);
        }
        let fixture = prepared(case.setup);
        let mut server = Server::start(&fixture, &FREE);
        for step in case.plant {
            plant(&mut server, &fixture, *step, door);
        }
        server.end();
        if fires(&fixture, case.trigger) {
            fired.push(format!("{door:?}: {}", case.name));
        }
    }
    assert_eq!(broken, Vec::<&str>::new(), "the controls do not fire");
    fired
}

#[test]
fn what_git_would_run_for_the_user_is_held_where_a_command_plants_it() {
    assert_eq!(fired(Door::Commands), Vec::<String>::new());
}

#[test]
fn what_git_would_run_for_the_user_is_taken_away_where_a_background_command_plants_it() {
    assert_eq!(fired(Door::Background), Vec::<String>::new());
}

#[test]
fn what_git_would_run_for_the_user_is_asked_about_where_file_tools_plant_it() {
    assert_eq!(fired(Door::FileTools), Vec::<String>::new());
}

#[test]
fn what_git_would_run_for_the_user_is_held_where_patches_plant_it() {
    assert_eq!(fired(Door::Patches), Vec::<String>::new());
}

#[test]
fn plain_work_with_git_is_not_held() {
    let fixture = prepared(&format!(
        "{REPOSITORY} && mkdir tools && printf '#!/bin/sh\\n' > tools/hook && chmod +x tools/hook && \
         ln -s ../../tools/hook .git/hooks/pre-commit && git config alias.st status && git config filter.f.clean cat && \
         git init -q --bare ../other && git -C ../other config core.hooksPath x"
    ));
    let mut server = Server::start(&fixture, &FREE);
    let git = "export GIT_SEQUENCE_EDITOR=: GIT_EDITOR=: ; git config --global user.name A && git config --global user.email a@b && \
               git config --global protocol.file.allow always";
    let mut stopped = Vec::new();
    for line in [
        "git init -q new && git -C new commit -q --allow-empty -m one",
        "git init -q --bare bare && git clone -q bare cloned",
        "echo 2 > file && git commit -qam two && git tag -am t t1",
        "git remote add origin https://example.org/x.git && git branch side && git checkout -q side",
        "echo 3 > file && git commit -qam three && git checkout -q main && git merge -q --no-edit side",
        "git worktree add -q wt && echo 4 > wt/file && git -C wt commit -qam four",
        "git worktree list && git worktree remove --force wt",
        "git -c protocol.file.allow=always submodule --quiet add \"file://$PWD/new\" sub && git commit -qm sub",
        "git submodule update --init && git submodule deinit -f sub && git submodule update --init",
        "git checkout -q -b topic HEAD~1 && echo t > topic && git add topic && git commit -qm topic && git rebase -q main",
        "echo conflict > topic && git commit -qam c1 && git checkout -q -b other HEAD~1 && echo theirs > topic && git commit -qam c2; \
         git rebase -q topic; test -e .git/rebase-merge/git-rebase-todo",
        "git rebase --abort && git stash list && echo x > file && git stash -q && git stash pop -q && git checkout -q file",
        "git cherry-pick topic; git cherry-pick --abort; git bisect start && git bisect reset",
        "git sparse-checkout set tools && git sparse-checkout disable && git gc -q && git pack-refs --all",
        "printf '*.rs text eol=lf diff=rust\\n*.bin binary\\n' > .gitattributes && git add .gitattributes && git commit -qm attributes",
        "mkdir -p app/config app/hooks app/refs && echo x > app/config/main && echo x > app/hooks/start && echo x > app/HEAD.md",
        "git update-index --refresh; git reset -q --hard HEAD~1 && git reflog expire --all && git remote remove origin",
    ] {
        let result = server.call("shell_execute", json!({"command": unread(&format!("{git}; {line}"))}));
        if result["isError"] == Value::Bool(true) || data_of("shell_execute", &result)["exit_code"] != 0 {
            stopped.push(format!("{line}: {result:#}"));
        }
    }
    for (path, content) in
        [("app/config/other", "x"), ("app/objects/a", "x"), ("HEAD.txt", "x"), ("info", "x")]
    {
        let result = server.call("file_write", json!({"path": path, "content": content}));
        if result["isError"] == Value::Bool(true) {
            stopped.push(format!("{path}: {result:#}"));
        }
    }
    assert!(stopped.is_empty(), "{}", stopped.join("\n"));
    server.end();
    assert!(!fixture.run(&["changes", "list"]).stdout.contains("shell_execute"));
}
