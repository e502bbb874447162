//! Denied files: a command never sees them, under any name, in any form, by any attempt.
//!
//! Each test searches the whole response for the text of the secret. Each control shows that the
//! same attempt finds the secret if no rule denies it. The policy would refuse most of these lines
//! for the names in them. The lines are therefore written in a form that the policy does not read:
//! the cell alone protects the files here.

use std::fs::{hard_link, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::harness::{Fixture, eventually, unread};
use crate::security::ordinary_user::Ordinary;
use crate::server::Server;

const SECRET: &str = "s3cr3t-text";

/// Returns the whole responses to the command under the built-in rules, first for the user of the
/// tests and then for an ordinary one. `prepare` makes further files in each workspace.
fn answers(files: &[(&str, &str)], prepare: impl Fn(&Fixture), command: &str) -> [String; 2] {
    let fixture = Fixture::with_files(files);
    prepare(&fixture);
    let own = fixture.call("shell_execute", json!({ "command": unread(command) }));
    let ordinary = Ordinary::new(files);
    prepare(&ordinary.fixture);
    ordinary.give_all();
    let other = ordinary.call("shell_execute", json!({ "command": unread(command) }));
    [own, other].map(|answer| {
        // A command that moved a hidden file has run, but none of its changes is in the workspace.
        let error = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            answer["ok"] == true
                || ["hidden from commands", "reading the existing file is denied"]
                    .iter()
                    .any(|word| error.contains(word)),
            "{answer:#}"
        );
        answer.to_string()
    })
}

/// Asserts that the command sees nothing of the secret, and sees it if the rules are lifted.
fn hidden(files: &[(&str, &str)], prepare: impl Fn(&Fixture), command: &str) {
    for answer in answers(files, &prepare, command) {
        assert!(!answer.contains(SECRET), "{command}: {answer}");
    }
    let lifted = |fixture: &Fixture| {
        prepare(fixture);
        let configuration = fixture.home().join(".config/handfast");
        std::fs::create_dir_all(&configuration).unwrap();
        std::fs::write(
            configuration.join("config.yaml"),
            "sandbox_config:\n  normal:\n    deny_read_paths: []\n",
        )
        .unwrap();
    };
    for answer in answers(files, lifted, command) {
        assert!(answer.contains(SECRET), "the control found nothing, {command}: {answer}");
    }
}

const NOTHING: fn(&Fixture) = |_| {};

#[test]
fn a_file_stays_hidden_when_it_or_a_folder_above_it_is_renamed_linked_or_copied() {
    let files = [("a/b/.env", SECRET), ("a/plain", "plain")];
    for attempt in [
        "cat a/b/.env",
        "mv a x; cat x/b/.env a/b/.env",
        "mv a/b y; cat y/.env a/b/.env",
        "mv a/b/.env a/b/z; cat a/b/z a/b/.env",
        "ln a/b/.env l; cat l a/b/.env",
        "ln -s a/b/.env l; cat l",
        "cp -l a/b/.env l; cat l a/b/.env",
        "cp -a a c; cat c/b/.env",
        "tar c a | tar xO",
        "cat /proc/self/root$PWD/a/b/.env",
        "cat /proc/$$/cwd/a/b/.env",
        "exec 3<a/b; cat /proc/self/fd/3/.env",
        "python3 -c 'import os; print(os.read(os.open(\"a/b/.env\", os.O_RDWR), 99))' || cat a/b/.env",
        "rm -f a/plain; cat a/b/.env",
        "chmod 644 a/b/.env; cat a/b/.env",
        "cp --reflink=auto a/b/.env r; cat r a/b/.env",
        "mv a/b/.env z; mv z a/b/.env; cat a/b/.env",
        "(sleep 0.1; cat a/b/.env) & wait",
        "unshare -rm cat a/b/.env || cat a/b/.env",
        "cat /proc/1/root$PWD/a/b/.env || cat a/b/.env",
        "python3 -c 'import ctypes, os\nlibc = ctypes.CDLL(None)\nopen(\"mine\", \"w\").write(\"x\")\n\
         def show(*paths):\n for path in paths:\n  try: print(open(path).read())\n  except OSError: pass\n\
         show(\"a/b/.env\")\nlibc.renameat2(-100, b\"a/b/.env\", -100, b\"mine\", 2)\nshow(\"a/b/.env\", \"mine\")\n\
         libc.renameat2(-100, b\"a/b/.env\", -100, b\"white\", 4)\nshow(\"a/b/.env\", \"white\")\n\
         os.mkdir(\"n\")\nlibc.renameat2(-100, b\"a/b\", -100, b\"n\", 2)\nshow(\"n/.env\", \"a/b/.env\")'",
        "grep -r . .",
        "find . -type f -exec cat {} +",
    ] {
        hidden(&files, NOTHING, &format!("{{ {attempt}; }} 2>&1; true"));
    }
}

#[test]
fn a_file_that_was_removed_stays_hidden_whatever_comes_in_its_place() {
    let files = [("a/b/.env", SECRET), ("c/.env", "other"), ("a/plain", "plain")];
    for attempt in [
        "rm a/b/.env; cat a/b/.env",
        "rm -rf a; mkdir -p a/b; ls -A a/b; cat a/b/.env",
        "rm a/b/.env; rmdir a/b; mv c a/b; cat a/b/.env",
        "rm a/b/.env; ln -s /dev/fd/3 a/b/.env; exec 3<a/b; cat a/b/.env",
        "exec 3<a/b/.env; rm -rf a; cat <&3; cat /proc/self/fd/3",
        "rm a/b/.env; python3 -c 'import os; fd = os.open(\"a/b\", os.O_TMPFILE | os.O_RDWR, 0o600); \
         os.link(f\"/proc/self/fd/{fd}\", \"a/b/.env\"); print(open(\"a/b/.env\").read())'",
    ] {
        for answer in answers(&files, NOTHING, &format!("{{ {attempt}; }} 2>&1; true")) {
            assert!(!answer.contains(SECRET), "{attempt}: {answer}");
        }
    }
}

#[test]
fn what_git_tracks_and_a_rule_hides_is_not_read_from_the_tree() {
    let secret = format!("{SECRET} that has changed since\n");
    let prepare = |fixture: &Fixture| {
        let git = |words: &[&str]| {
            let mut command = std::process::Command::new("git");
            command
                .args(["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "safe.directory=*"])
                .args(words);
            let done = command.current_dir(fixture.workspace()).env("HOME", fixture.home()).status().unwrap();
            assert!(done.success());
        };
        fixture.write("tests/server.pem", &"x".repeat(secret.len()));
        git(&["init", "-q"]);
        git(&["add", "-A"]);
        git(&["commit", "-qm", "one"]);
        // The history shows committed content. The secret is never committed, so it must appear
        // nowhere.
        fixture.write("tests/server.pem", &secret);
    };
    for attempt in [
        "cat tests/server.pem",
        "git diff",
        "git stash -q; git stash show -p; cat tests/server.pem",
        "git add -A; git diff --cached; git show :tests/server.pem",
        "git hash-object -w --no-filters tests/server.pem | xargs git cat-file blob",
        "tar cf - tests | tar xOf -; cp -r tests copy; cat copy/server.pem",
    ] {
        hidden(&[("plain", "plain")], prepare, &format!("{{ {attempt}; }} 2>&1; true"));
    }
}

#[test]
fn a_further_name_of_a_denied_file_is_hidden_too() {
    let files = [("deep/.env", SECRET), ("secrets.key/inner", SECRET), ("a/plain", "plain")];
    let link = |fixture: &Fixture| {
        let at = |path: &str| fixture.workspace().join(path);
        hard_link(at("deep/.env"), at("notes.txt")).unwrap();
        hard_link(at("secrets.key/inner"), at("a/copy")).unwrap();
    };
    hidden(&files, link, "cat notes.txt; true");
    hidden(&files, link, "cat a/copy; true");
}

#[test]
fn a_denied_link_hides_what_it_leads_to_and_links_to_denied_files_lead_nowhere() {
    let files = [("config/dev", SECRET), ("real/.env", SECRET)];
    let link = |fixture: &Fixture| {
        let at = |path: &str| fixture.workspace().join(path);
        symlink("config/dev", at(".env")).unwrap();
        symlink("real", at("other")).unwrap();
        symlink("..", at("real/up")).unwrap();
        symlink("/usr/bin", at("bin.key")).unwrap();
    };
    for attempt in ["cat config/dev", "cat .env", "cat other/.env", "cat real/up/real/up/real/.env"] {
        hidden(&files, link, &format!("{attempt}; true"));
    }
    // A link that leads out of the workspace hides no system files.
    for answer in answers(&files, link, "ls /usr/bin/env") {
        assert!(answer.contains("/usr/bin/env"), "{answer}");
    }
}

#[test]
fn folders_sockets_and_fifos_are_hidden() {
    let prepare = |fixture: &Fixture| {
        let at = |path: &str| fixture.workspace().join(path);
        std::os::unix::net::UnixListener::bind(at("agent.key")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("pipe.pem")).status().unwrap();
        assert!(made.success());
    };
    hidden(&[("tls.pem/inner/deep", SECRET)], prepare, "ls -R tls.pem; cat tls.pem/inner/deep; true");
    let attempt = "test -S agent.key && echo socket; test -p pipe.pem && echo fifo; true";
    for answer in answers(&[], prepare, attempt) {
        assert!(!answer.contains("socket\\n") && !answer.contains("fifo\\n"), "{answer}");
    }
}

#[test]
fn a_folder_that_was_closed_hides_what_is_in_it_from_its_owner() {
    let files = [("closed/.env", SECRET), ("names/.env", SECRET), ("plain", "plain")];
    let ordinary = Ordinary::new(&files);
    for (path, mode) in [("closed", 0o000), ("names", 0o400)] {
        set_permissions(ordinary.fixture.workspace().join(path), PermissionsExt::from_mode(mode)).unwrap();
    }
    let command = "chmod 700 closed names; cat plain closed/.env names/.env; true";
    let answer = ordinary.call("shell_execute", json!({ "command": unread(command) }));
    assert_eq!(answer["data"]["stdout"], "plain", "{answer:#}");
    for path in ["closed", "names"] {
        set_permissions(ordinary.fixture.workspace().join(path), PermissionsExt::from_mode(0o700)).unwrap();
    }
}

#[test]
fn what_comes_between_two_commands_of_one_server_is_hidden_from_the_second() {
    let fixture = Fixture::with_files(&[("a/plain", "plain")]);
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    let run = |server: &mut Server, command: &str| {
        server.call("shell_execute", json!({ "command": unread(command) })).to_string()
    };
    assert!(run(&mut server, "cat a/plain").contains("plain"));
    fixture.write("a/b/c/.env", SECRET);
    fixture.write("tree/x", SECRET);
    std::fs::rename(fixture.workspace().join("tree"), fixture.workspace().join("a/tree.key")).unwrap();
    fixture.write("a/other", SECRET);
    let answer = run(&mut server, "cat a/b/c/.env a/tree.key/x; echo end");
    assert!(answer.contains("end") && !answer.contains(SECRET), "{answer}");
    assert!(run(&mut server, "cat a/other").contains(SECRET), "the control");
}

#[test]
fn case_is_no_way_around_a_rule_where_the_profile_ignores_it() {
    const RULES: &str = "deny_read_paths: [\"*.pem\", \"Straße\"]\n    deny_write_paths: [\"*.lock\"]";
    let files = [("a/Server.PEM", SECRET), ("STRASSE/x", SECRET), ("plain", "plain")];
    let answers = |rules: &str| {
        let fixture = Fixture::with_files(&files);
        let folder = fixture.home().join(".config/handfast");
        std::fs::create_dir_all(&folder).unwrap();
        let rules = format!("sandbox_config:\n  normal:\n    mode: full_auto\n    {rules}\n");
        std::fs::write(folder.join("config.yaml"), rules).unwrap();
        let call = |tool: &str, arguments| fixture.call(tool, arguments);
        let cat = |path: &str| json!({ "command": unread(&format!("cat {path}; true")) });
        let shown = [
            call("shell_execute", cat("a/Server.PEM")),
            call("shell_execute", cat("STRASSE/x")),
            call("file_read", json!({"path": "a/Server.PEM"})),
            call("file_read", json!({"path": "STRASSE/x"})),
            call("file_search", json!({"pattern": SECRET})),
        ];
        let written = [
            call("shell_execute", json!({ "command": unread("echo new > Cargo.Lock") })),
            call("file_write", json!({"path": "a.LOCK", "content": "new"})),
        ];
        (
            shown.map(|answer| answer["data"].to_string().contains(SECRET)),
            written.map(|answer| answer["ok"] == true),
        )
    };
    assert_eq!(answers(RULES), ([true; 5], [true; 2]), "the control");
    assert_eq!(answers(&format!("{RULES}\n    deny_ignore_case: true")), ([false; 5], [false; 2]));
}

/// Waits until a process of the host has this argument.
fn wait_for_process_with(argument: &str) {
    eventually(argument, || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
    });
}

/// Returns the audit row of a call, which names what the sandbox enforced.
fn enforced(fixture: &Fixture, received: &serde_json::Value) -> String {
    let call = received["result"]["_meta"]["handfast/meta"]["call_id"].as_str().unwrap();
    fixture.run(&["audit", "show", call]).stdout
}

#[test]
fn what_comes_while_a_command_of_a_server_runs_is_hidden_from_it() {
    let root = Fixture::with_files(&[("deep/er/plain", "plain")]);
    let ordinary = Ordinary::new(&[("deep/er/plain", "plain")]);
    let mut of_ordinary = ordinary.command();
    of_ordinary.args(["--no-input", "--mode", "full_auto"]);
    let servers = [
        (&root, Server::start(&root, &["--mode", "full_auto"])),
        (&ordinary.fixture, Server::of(of_ordinary)),
    ];
    for (number, (fixture, mut server)) in servers.into_iter().enumerate() {
        let marker = format!("7777.{}{number}", std::process::id());
        // The command lists the folder, because an overlay caches the absence of a name that is
        // looked up too early.
        let appears = |name: &str| format!("until ls -A deep/er | grep -qx {name}; do sleep 0.01; done");
        let command = unread(&format!(
            "sleep {marker} & {}; for i in $(seq 3000); do cat deep/er/.env >/dev/null 2>&1 || {{ echo hidden; break; }}; \
             sleep 0.01; done; cat deep/er/.env; {}; cat deep/er/other",
            appears(".env"),
            appears("other"),
        ));
        let call = server.begin("shell_execute", json!({"command": command, "timeout": 120}));
        wait_for_process_with(&marker);
        fixture.write("deep/er/.env", SECRET);
        std::fs::write(fixture.workspace().join("deep/er/other"), "the control").unwrap();
        set_permissions(fixture.workspace().join("deep/er/.env"), PermissionsExt::from_mode(0o644)).unwrap();
        let received = server.received(call);
        let answer = received.to_string();
        assert!(answer.contains("hidden") && !answer.contains(SECRET), "{answer}");
        assert!(answer.contains("the control"), "{answer}");
        let enforced = enforced(fixture, &received);
        assert!(enforced.contains("denied_files:watched"), "{enforced}");
    }
}

#[test]
fn what_is_mounted_below_a_workspace_on_an_overlay_hides_and_guards_what_comes_too() {
    let fixture = Fixture::with_files(&[("sub/x", ""), ("plain", "plain")]);
    // A mount in the server's own namespace, which the test reaches through /proc.
    let plain = fixture.command();
    let mut command = std::process::Command::new("unshare");
    command
        .args([
            "--mount",
            "sh",
            "-c",
            "mount -t tmpfs -o mode=777 none sub && echo x >sub/x && exec \"$@\"",
            "sh",
        ])
        .arg(plain.get_program())
        .args(plain.get_args())
        .args(["--mode", "full_auto"])
        .current_dir(fixture.workspace());
    for (key, value) in plain.get_envs() {
        command.env(key, value.unwrap_or_default());
    }
    let mut server = Server::of(command);
    let sub = std::path::PathBuf::from(format!("/proc/{}/root", server.process().id()))
        .join(fixture.workspace().strip_prefix("/").unwrap())
        .join("sub");
    let marker = format!("7778.{}", std::process::id());
    let line = format!(
        "sleep {marker} & until [ -e sub/.env ]; do sleep 0.01; done; \
         for i in $(seq 3000); do cat sub/.env >/dev/null 2>&1 || {{ echo hidden; break; }}; sleep 0.01; done; \
         cat sub/.env sub/other; echo evil > sub/.envrc; echo fine > sub/new; echo fine > .envrc.md"
    );
    let call = server.begin("shell_execute", json!({ "command": unread(&line), "timeout": 120 }));
    wait_for_process_with(&marker);
    std::fs::write(sub.join("other"), "the control").unwrap();
    std::fs::write(sub.join(".env"), SECRET).unwrap();
    let received = server.received(call);
    let answer = received.to_string();
    assert!(answer.contains("hidden") && !answer.contains(SECRET), "{answer}");
    assert!(answer.contains("the control"), "{answer}");
    let enforced = enforced(&fixture, &received);
    assert!(enforced.contains("workspace:overlay"), "{enforced}");
    // A mount is in no snapshot, but the command's writes there are judged all the same.
    assert_eq!(std::fs::read_to_string(sub.join("new")).unwrap(), "fine\n");
    assert!(!sub.join(".envrc").exists(), "{answer}");
    assert!(answer.contains("direnv runs it"), "{answer}");
}
