//! Whatever git would run for the user because of what an agent wrote, the agent's call is held.
//!
//! Each case plants a canary in one place that git reads. Planted by hand, the canary fires when the user runs git: that is the
//! positive control, and it is git itself that says where it looks. Planted by calls, through every door, it must not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Server;
use crate::harness::{Fixture, unread};

const FREE: [&str; 2] = ["--mode", "full_auto"];

/// One step of a plant; the steps are calls of their own.
#[derive(Clone, Copy)]
enum Step {
    /// Write these files, executable where they are scripts.
    Files(&'static [(&'static str, &'static str)]),
    /// Run this line.
    Line(&'static str),
}

use Step::{Files, Line};

struct Case {
    name: &'static str,
    /// What the user has done before, as a shell line in the workspace.
    setup: &'static str,
    plant: &'static [Step],
    /// What the user does afterwards.
    trigger: &'static str,
}

/// Stands for the canary in texts: a command that leaves a file behind.
const CANARY: &str = "@CANARY@";

const REPOSITORY: &str = "git init -q . && echo one > file && git add file && git commit -qm one";
const MIDST_OF_REBASE: &str = "git init -q . && for n in 1 2 3; do echo $n > f$n && git add . && git commit -qm $n; done && \
     GIT_SEQUENCE_EDITOR=\"sed -i '1s/^pick/edit/'\" git rebase -q -i HEAD~2";
const SUBMODULE: &str = "git init -q ../lib && git -C ../lib commit -q --allow-empty -m one && git init -q . && \
     git submodule --quiet add ../lib sub && git commit -qm one";
const WORKTREE: &str =
    "git init -q . && echo one > file && git add file && git commit -qm one && git worktree add -q wt";
const HOOK: &str = "#!/bin/sh\n@CANARY@\n";
const MONITOR: &str = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"@CANARY@;:\"\n";
/// A folder that would be a repository by itself, and says which folder is its worktree.
const STANDALONE: &str =
    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"@CANARY@;:\"\n";
/// Configuration that counts in a repository without a worktree too.
const HELPER: &str = "[core]\n\trepositoryformatversion = 0\n[credential]\n\thelper = \"!@CANARY@;:\"\n";
const ASK_HELPER: &str =
    "cd x; printf 'protocol=https\nhost=h\n\n' | GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=true git credential fill";
const HEAD: &str = "ref: refs/heads/main\n";

const CASES: &[Case] = &[
    Case {
        name: "a hook",
        setup: REPOSITORY,
        plant: &[Files(&[(".git/hooks/post-index-change", HOOK)])],
        trigger: "echo 2 > file; git add file",
    },
    Case {
        name: "configuration in the place of configuration",
        setup: REPOSITORY,
        plant: &[Files(&[(".git/config", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "the configuration of one worktree",
        setup: "git init -q . && git config extensions.worktreeConfig true",
        plant: &[Files(&[(".git/config.worktree", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "a worktree that becomes a repository of its own",
        setup: WORKTREE,
        plant: &[
            Files(&[(".git/worktrees/wt/config", MONITOR)]),
            Files(&[(".git/worktrees/wt/objects/x", ""), (".git/worktrees/wt/refs/x", "")]),
            Files(&[(".git/worktrees/wt/commondir", ".\n")]),
        ],
        trigger: "git -C wt status",
    },
    Case {
        name: "hooks of a worktree that has no common folder any more",
        setup: WORKTREE,
        plant: &[
            Files(&[(".git/worktrees/wt/hooks/post-index-change", HOOK)]),
            Line("cp -r .git/objects .git/refs .git/worktrees/wt && rm .git/worktrees/wt/commondir"),
        ],
        trigger: "cd wt; echo 2 > file; git add file",
    },
    Case {
        name: "the worktree of a user leads to another common folder",
        setup: WORKTREE,
        plant: &[
            Files(&[("far/config", MONITOR), ("far/objects/x", ""), ("far/refs/x", "")]),
            Files(&[(".git/worktrees/wt/commondir", "../../../far\n")]),
        ],
        trigger: "git -C wt status",
    },
    Case {
        name: "the common folder is the workspace",
        setup: REPOSITORY,
        plant: &[
            Files(&[("config", MONITOR)]),
            Line("mkdir -p objects refs"),
            Files(&[(".git/commondir", "..\n")]),
        ],
        trigger: "git status",
    },
    Case {
        name: "a pointer to what looks like a submodule",
        setup: REPOSITORY,
        plant: &[
            Files(&[(".git/modules/m/config", MONITOR)]),
            Line("mkdir -p .git/modules/m/objects .git/modules/m/refs"),
            Files(&[(".git/modules/m/HEAD", HEAD)]),
            Files(&[("sub/.git", "gitdir: ../.git/modules/m\n")]),
        ],
        trigger: "git -C sub status",
    },
    Case {
        name: "a pointer to a repository in the workspace",
        setup: "true",
        plant: &[
            Files(&[("b/config", MONITOR), ("b/objects/x", ""), ("b/refs/x", "")]),
            Files(&[("b/HEAD", HEAD)]),
            Files(&[("sub/.git", "gitdir: ../b\n")]),
        ],
        trigger: "git -C sub status",
    },
    Case {
        name: "a folder becomes a repository by several calls",
        setup: "true",
        plant: &[
            Files(&[("x/config", STANDALONE)]),
            Files(&[("x/refs/heads/empty", "")]),
            Files(&[("x/objects/info/empty", "")]),
            Files(&[("x/HEAD", HEAD)]),
        ],
        trigger: "git -C x status",
    },
    Case {
        name: "the same in another order",
        setup: "true",
        plant: &[
            Files(&[("x/HEAD", HEAD)]),
            Files(&[("x/config", STANDALONE)]),
            Files(&[("x/objects/info/empty", "")]),
            Files(&[("x/refs/heads/empty", "")]),
        ],
        trigger: "git -C x status",
    },
    Case {
        name: "a folder is moved to where it is a repository",
        setup: "true",
        plant: &[
            Line("mkdir -p y/objects y/refs"),
            Files(&[("y/config", STANDALONE)]),
            Files(&[("head", HEAD)]),
            Line("mv y x; mv head x/HEAD"),
        ],
        trigger: "git -C x status",
    },
    Case {
        name: "HEAD and objects in different folders",
        setup: "true",
        plant: &[
            Files(&[("x/HEAD", HEAD)]),
            Files(&[("y/config", HELPER), ("y/objects/info/empty", ""), ("y/refs/heads/empty", "")]),
            Files(&[("x/commondir", "../y\n")]),
        ],
        trigger: ASK_HELPER,
    },
    Case {
        name: "configuration where a user's own pointers lead",
        setup: "git init -q y && cp y/.git/HEAD . && mkdir x && mv HEAD x && mv y/.git/* y && rmdir y/.git && echo ../y > x/commondir && rm y/HEAD",
        plant: &[Files(&[("y/config", HELPER)])],
        trigger: ASK_HELPER,
    },
    Case {
        name: "HEAD is a link",
        setup: "true",
        plant: &[
            Files(&[("x/config", STANDALONE), ("x/objects/info/empty", ""), ("x/refs/heads/empty", "")]),
            Line("ln -s refs/heads/main x/HEAD"),
        ],
        trigger: "git -C x status",
    },
    Case {
        name: "the configuration of a bare repository of the user",
        setup: "git init -q --bare bare",
        plant: &[Files(&[("bare/config", STANDALONE)])],
        trigger: "git -C bare status",
    },
    Case {
        name: "a hook of a bare repository of the user",
        setup: "git init -q --bare bare && git init -q . && git commit -q --allow-empty -m one",
        plant: &[Files(&[("bare/hooks/update", HOOK)])],
        trigger: "git push bare HEAD:refs/heads/x",
    },
    Case {
        name: "the layout with a bare repository beside a pointer",
        setup: "git init -q --bare .bare && echo 'gitdir: ./.bare' > .git && git config core.bare false",
        plant: &[Files(&[(".bare/hooks/post-index-change", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "what a rebase still has to do",
        setup: MIDST_OF_REBASE,
        plant: &[Files(&[(".git/rebase-merge/git-rebase-todo", "exec @CANARY@\n")])],
        trigger: "git rebase --continue",
    },
    Case {
        name: "what a rebase still has to do, in a short form among others",
        setup: MIDST_OF_REBASE,
        plant: &[Line("printf ' \\tx @CANARY@\\n' >> .git/rebase-merge/git-rebase-todo")],
        trigger: "git rebase --continue",
    },
    Case {
        name: "what a rebase in a worktree still has to do",
        setup: "git init -q . && for n in 1 2 3; do echo $n > f$n && git add . && git commit -qm $n; done && git worktree add -q wt && \
                cd wt && GIT_SEQUENCE_EDITOR=\"sed -i '1s/^pick/edit/'\" git rebase -q -i HEAD~2",
        plant: &[Files(&[(".git/worktrees/wt/rebase-merge/git-rebase-todo", "x @CANARY@\n")])],
        trigger: "cd wt; git rebase --continue",
    },
    Case {
        name: "configuration that a user's own includes",
        setup: "git init -q . && git config include.path ../team.inc",
        plant: &[Files(&[("team.inc", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "configuration that a user's own includes on a condition, two steps on",
        setup: "git init -q . && git config 'includeIf.gitdir:**.path' ../a.inc && printf '[include]\\npath = conf/b.inc\\n' > a.inc",
        plant: &[Files(&[("conf/b.inc", MONITOR)])],
        trigger: "git status",
    },
    Case {
        name: "the user's own folder of hooks",
        setup: "git init -q . && git config core.hooksPath tools/on-commit",
        plant: &[Files(&[("tools/on-commit/post-index-change", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "the user's own folder of hooks, named in the user's own configuration",
        setup: "git init -q . && git config --global core.hooksPath tools/on-commit",
        plant: &[Files(&[("tools/on-commit/post-index-change", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "a hook that is a link",
        setup: "git init -q . && mkdir scripts && echo '#!/bin/sh' > scripts/hook && chmod +x scripts/hook && \
                ln -s ../../scripts/hook .git/hooks/post-index-change",
        plant: &[Files(&[("scripts/hook", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "a link on the way from a hook",
        setup: "git init -q . && mkdir -p old && echo '#!/bin/sh' > old/hook && chmod +x old/hook && ln -s old scripts && \
                ln -s ../../scripts/hook .git/hooks/post-index-change",
        plant: &[Files(&[("new/hook", HOOK)]), Line("ln -sfn new scripts")],
        trigger: "echo 1 > new-file; git add new-file",
    },
    Case {
        name: "a script that a hook runs",
        setup: "git init -q . && mkdir scripts && echo ':' > scripts/check.sh && \
                printf '#!/bin/sh\\n. ./scripts/check.sh\\n' > .git/hooks/post-index-change && chmod +x .git/hooks/post-index-change",
        plant: &[Files(&[("scripts/check.sh", HOOK)])],
        trigger: "echo 1 > new; git add new",
    },
    Case {
        name: "a program that the user's configuration names",
        setup: "git init -q . && mkdir tools && echo '#!/bin/sh' > tools/watch && chmod +x tools/watch && \
                git config core.fsmonitor ./tools/watch",
        plant: &[Files(&[("tools/watch", HOOK)])],
        trigger: "git status",
    },
    Case {
        name: "attributes that name a filter of the user",
        setup: "git init -q . && git config filter.f.clean 'sh %f'",
        plant: &[Files(&[(".gitattributes", "*.x filter=f\n"), ("new.x", HOOK)])],
        trigger: "git add new.x",
    },
    Case {
        name: "attributes beside the repository's own files",
        setup: "git init -q . && git config filter.f.clean 'sh %f'",
        plant: &[Files(&[(".git/info/attributes", "*.x filter=f\n"), ("new.x", HOOK)])],
        trigger: "git add new.x",
    },
    Case {
        name: "attributes that name a conversion of the user",
        setup: "git init -q . && echo 1 > new.x && git add . && git commit -qm one && git config diff.d.textconv sh",
        plant: &[Files(&[("deep/.gitattributes", "*.x diff=d\n"), ("deep/new.x", HOOK)])],
        trigger: "git add . && git diff --cached --textconv",
    },
    Case {
        name: "the configuration of a submodule",
        setup: SUBMODULE,
        plant: &[Files(&[(
            ".git/modules/sub/config",
            "[core]\n\trepositoryformatversion = 0\n\tworktree = ../../../sub\n\tfsmonitor = \"@CANARY@;:\"\n",
        )])],
        trigger: "git status",
    },
    Case {
        name: "a submodule leads to another repository",
        setup: SUBMODULE,
        plant: &[
            Files(&[("evil/config", MONITOR), ("evil/objects/x", ""), ("evil/refs/x", "")]),
            Files(&[("evil/HEAD", HEAD)]),
            Files(&[("sub/.git", "gitdir: ../evil\n")]),
        ],
        trigger: "git status; git -C sub status",
    },
    Case {
        name: "scripts of a package that a hook runs",
        setup: "git init -q . && printf '{\"scripts\": {\"precommit\": \"true\"}}' > package.json && git add . && \
                printf '#!/bin/sh\\nnpm run --silent precommit\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
        plant: &[Files(&[("package.json", "{\"scripts\": {\"precommit\": \"@CANARY@\"}}")])],
        trigger: "git commit -qm one",
    },
];

/// Git as the user runs it.
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
    // What git says to it does not matter, only what it ran.
    let _said = user(fixture, trigger).output().unwrap();
    canary(fixture).exists()
}

fn write(fixture: &Fixture, path: &str, content: &str) {
    fixture.write(path, &filled(fixture, content));
    if content.starts_with("#!") {
        fs::set_permissions(fixture.workspace().join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A shell line that makes the files of a step.
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

/// By which way an agent plants.
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
            // What is taken away may make the rest of the line fail, and that is no matter.
            let line = unread(&format!("{{ {}; }}; echo end", line(fixture, step)));
            let id = server.background(&line, false);
            server.expect(&id, 0, "^end$");
            // The end of the command is settled before it is told.
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

/// Each case whose canary fires although calls planted it through this door.
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
        let is_done = result["structuredContent"]["exit_code"] == 0;
        if result["isError"] == Value::Bool(true) || !is_done {
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
