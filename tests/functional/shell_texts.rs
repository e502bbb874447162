//! Completions and man pages: they offer what the command line accepts, and nothing else.

use std::process::{Command, Stdio};

use crate::harness::Fixture;

/// Returns what bash would offer for the last word of a line.
fn offered(completions: &str, line: &[&str]) -> Vec<String> {
    let script = r#"
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _handfast handfast "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), completions).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]).arg(file.path()).arg("handfast").args(line);
    let output = bash.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_offers_the_commands_the_options_that_a_command_accepts_and_their_values() {
    let run = Fixture::new().run(&["completions", "bash"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let offers = |line: &[&str]| offered(&run.stdout, line);
    let commands = offers(&[""]);
    for command in ["up", "call", "undo", "completions"] {
        assert!(commands.iter().any(|offered| offered == command), "{command}: {commands:?}");
    }
    for hidden in ["enter-cell", "probe-attempt", "openapi", "man-pages"] {
        assert!(commands.iter().all(|offered| offered != hidden), "{hidden}: {commands:?}");
    }
    let has = |line: &[&str], option: &str| offers(line).iter().any(|offered| offered == option);
    assert!(has(&["call", "--"], "--dry-run"));
    assert!(!has(&["trust", "--"], "--dry-run"), "`trust` refuses it");
    assert!(has(&["trust", "--"], "--state"));
    assert_eq!(offers(&["--mode", ""]), ["ask_always", "smart_auto", "full_auto"]);
    assert_eq!(offers(&["call", "--catalogue", "c"]), ["core", "compact"]);
    assert_eq!(offers(&["approvals", "approve", "--scope", ""]), ["once", "session", "project", "always"]);
}

#[test]
fn every_shell_has_completions_and_an_unknown_one_is_refused_with_those_that_exist() {
    let fixture = Fixture::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = fixture.run(&["completions", shell]);
        assert!(run.code == 0 && run.stdout.contains("checkpoints"), "{shell}: {}", run.stderr);
    }
    let refused = fixture.run(&["completions", "tcsh"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("bash, elvish, fish, powershell, zsh"), "{}", refused.stderr);
}

#[test]
fn every_command_that_help_lists_has_a_man_page() {
    let fixture = Fixture::new();
    let folder = fixture.outside().join("pages");
    let refused = fixture.run(&["man-pages", folder.to_str().unwrap()]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("name an existing folder"), "{}", refused.stderr);
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(fixture.run(&["man-pages", folder.to_str().unwrap()]).code, 0);
    let help = fixture.run(&["--help"]).stdout;
    let listed = help.split("\nOptions:").next().unwrap();
    let mut count = 0;
    for command in listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()) {
        if !command.is_empty() && command != "help" {
            let page = std::fs::read_to_string(folder.join(format!("handfast-{command}.1"))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{command}");
            count += 1;
        }
    }
    assert!(count > 15, "{listed}");
    assert!(folder.join("handfast.1").exists());
    assert!(!folder.join("handfast-enter-cell.1").exists(), "hidden commands have no page");
}
