//! Programs that a profile denies, under every spelling, through every other program, and as copies.

use serde_json::{Value, json};

use crate::harness::Fixture;

const PROFILE: &str = "sandbox_config:\n  normal:\n    mode: full_auto\n    deny_exec_command: [PROGRAM]\n";

/// Lines that run `touch OUT`, and that the policy may not recognize. `OUT` is a path that a
/// working line creates.
const WAYS: &[&str] = &[
    "linux64 touch OUT",
    "setarch -R touch OUT",
    "env -vS 'touch OUT'",
    "choom -n 0 -- touch OUT",
    "ssh-agent touch OUT",
    "dbus-run-session -- touch OUT",
    "IFS=_; c=touch_OUT; $c",
    "hash -p /usr/bin/touch t; t OUT",
    "cp /usr/bin/touch t; ./t OUT",
    "cat /usr/bin/touch > t; chmod +x t; ./t OUT",
    "ln -s /usr/bin/touch t; ./t OUT",
    "$(echo /lib*/ld-linux*.so*) /usr/bin/touch OUT",
    "$(echo /lib64/ld-linux*.so*) $(command -v tou\"\"ch) OUT",
    "echo x | sed '1e touch OUT'",
    "printf 'all:\\n\\ttouch OUT\\n' > Makefile; make",
    "tar cf x.tar --checkpoint=1 --checkpoint-action=exec='touch OUT' /etc/passwd",
    "git -c alias.t='!touch OUT' t",
    "echo 'touch OUT' > rc; BASH_ENV=rc bash -c :",
    "python3 -c 'import os; os.execv(\"/usr/bin/touch\", [\"x\", \"OUT\"])'",
    "perl -e 'exec {\"/usr/bin/touch\"} \"x\", \"OUT\"'",
    "awk 'BEGIN { system(\"touch OUT\") }'",
    "find /etc/passwd -exec touch OUT ';'",
    "exec -a x /usr/bin/touch OUT",
    "echo OUT | xargs touch",
    "busybox touch OUT",
    "T=/usr/bin/touch; \"$T\" OUT",
    "printf 'dG91Y2ggT1VU' | base64 -d | sh",
];

fn fixture(denied: &str) -> Fixture {
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), PROFILE.replace("PROGRAM", denied)).unwrap();
    fixture
}

/// Runs the line as a script, which the policy does not read. Returns true if it creates `OUT`.
fn leaves(fixture: &Fixture, way: &str) -> bool {
    fixture.write("way.sh", way);
    let result = call(fixture, "bash way.sh 2>&1");
    let there = fixture.workspace().join("OUT").exists();
    for name in ["OUT", "t", "rc", "Makefile", "x.tar"] {
        let path = fixture.workspace().join(name);
        if path.symlink_metadata().is_ok() {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(result["ok"], true, "{way}: {result}");
    there
}

fn call(fixture: &Fixture, line: &str) -> Value {
    fixture.run(&["call", "shell_execute", &json!({ "command": line }).to_string()]).json()
}

#[test]
fn a_denied_program_runs_by_no_spelling_loader_copy_or_other_program() {
    let (denied, control) = (fixture("touch"), fixture("no-such-program"));
    let (mut ran, mut tried) = (Vec::new(), 0);
    for way in WAYS {
        // Not every machine has every program.
        if leaves(&control, way) {
            tried += 1;
            if leaves(&denied, way) {
                ran.push(way);
            }
        }
    }
    assert_eq!(ran, [] as [&&str; 0]);
    assert!(tried > WAYS.len() / 2, "only {tried} ways work here");
    // Other programs are unaffected, and the content of the denied program cannot be read.
    let result = call(&denied, "bash -c 'ls /etc/passwd'; cat /usr/bin/touch");
    assert_eq!(result["data"]["stdout"], "/etc/passwd\n", "{result}");
}

#[test]
fn the_line_is_still_read_first_and_says_which_rule_denies() {
    let denied = fixture("touch");
    let result = call(&denied, "touch OUT");
    assert_eq!(result["error"]["code"], "EPERMISSION", "{result}");
}

#[test]
fn check_says_how_each_rule_holds() {
    let denied = fixture("touch, git push, absent-program");
    let checked = denied.run(&["check", "shell_execute", &json!({ "command": "ls" }).to_string()]).json();
    let told: Vec<&str> =
        checked["denied_commands"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    let line = |rule: &str| told.iter().find(|line| line.contains(rule)).copied().unwrap();
    assert!(line("touch").contains("is blocked in the sandbox"), "{told:?}");
    assert!(line("git push").contains("only checked in the command line"), "{told:?}");
    assert!(line("absent-program").contains("no file of that name"), "{told:?}");
}
