//! Command lines and their decisions, as data in `commands.txt`.

use policy::{Mode, Policy};

use crate::setting::*;

const TABLE: &str = include_str!("commands.txt");

fn policy_of(name: &str) -> Policy {
    match name {
        "built-in smart_auto" => normal("{}", Mode::SmartAuto),
        "built-in full_auto" => normal("{}", Mode::FullAuto),
        "lists smart_auto" => normal(
            r#"{"allowed_exec_command": ["cargo test", "npm run test:*", "git"], "deny_exec_command": ["git rm", "rm -rf *", "npm publish"], "deny_read_paths": [".env", "./private/"]}"#,
            Mode::SmartAuto,
        ),
        "lists full_auto" => {
            normal(r#"{"deny_exec_command": ["git rm", "rm -rf *", "npm publish"]}"#, Mode::FullAuto)
        }
        "tools smart_auto" => normal(
            r#"{"allowed_exec_command": ["pytest", "python3", "ruff", "black", "mypy", "npm", "yarn", "pip", "uv", "cargo", "go", "mvn", "eslint", "prettier", "jest", "vitest", "cmake", "git", "curl"], "undoable": "table"}"#,
            Mode::SmartAuto,
        ),
        other => panic!("commands.txt names no known policy: {other}"),
    }
}

#[test]
fn every_line_of_the_table_is_decided_as_it_says() {
    let mut policy = None;
    let mut wrong = Vec::new();
    let mut count = 0;
    for (number, row) in TABLE.lines().enumerate().map(|(index, row)| (index + 1, row)) {
        if let Some(name) = row.strip_prefix("== ") {
            policy = Some(policy_of(name));
        } else if !row.is_empty() && !row.starts_with("-- ") {
            let (expected, line) = row.split_once(" | ").unwrap_or_else(|| panic!("line {number} is no row"));
            let line = spelled(line);
            let found = answer(policy.as_ref().expect("a policy comes first"), &line);
            if found != expected.trim() {
                wrong.push(format!("{number}: {line}: {found}, not {expected}"));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 400, "the table holds only {count} lines");
}

#[test]
fn a_program_without_a_shell_is_decided_on_by_its_words() {
    let policy = policy_of("lists smart_auto");
    let ask = |words: &[&str]| {
        let command = tool::CommandLine::Argv(words.iter().map(|word| (*word).to_owned()).collect());
        let effect = tool::Effect::Run { command, directory: WORKSPACE.into() };
        short(&decide(&policy, tool::Level::Destructive, effect))
    };
    assert_eq!(ask(&["ls", "-l", "a b; $c"]), "pass 7");
    assert_eq!(ask(&["cat", ".env"]), "deny 1");
    assert_eq!(ask(&["/usr/bin/git", "rm", "x"]), "deny 1");
    assert_eq!(ask(&["sh", "-c", "true; rm -rf /"]), "deny 1");
    assert_eq!(ask(&["rm", "-r", "/"]), "deny 2");
    assert_eq!(ask(&[]), "check 5");
}

#[test]
fn the_decision_names_the_part_and_what_would_help() {
    let policy = policy_of("lists smart_auto");
    let decision = decide(&policy, tool::Level::Destructive, run("ls | sudo git -C x rm y"));
    assert_eq!(decision.rule.entry, "git rm");
    assert!(decision.reason.starts_with("`git"), "{}", decision.reason);
    let decision = decide(&policy, tool::Level::Destructive, run("make install"));
    assert!(decision.hint.unwrap().contains("allowed_exec_command"));
}

#[test]
fn a_long_hostile_line_is_decided_with_bounded_work() {
    // A step that compared all pairs of words would not end before the test does.
    let policy = normal(r#"{"deny_exec_command": ["git rm x", "rm -rf *"]}"#, Mode::SmartAuto);
    let words = ["git ", "rm -r ", "env sh -c ", "$(", "a{b,", ":(){", "/*", "sudo env ", "curl x | ", "-e "];
    for word in words {
        let line = word.repeat(60_000 / word.len());
        assert_ne!(&answer(&policy, &line)[..4], "pass", "{word}");
        assert_ne!(&answer(&policy, &format!("{line};"))[..4], "pass", "{word}");
    }
}

const HOSTILE: &str = include_str!("hostile.txt");

/// Replaces the names of characters in a table by the characters.
fn spelled(line: &str) -> String {
    [
        ("<newline>", "\n"),
        ("<return>", "\r"),
        ("<escape>", "\u{1b}"),
        ("<nul>", "\0"),
        ("<bidi>", "\u{202e}"),
        ("<space>", "\u{2003}"),
        ("<zero>", "\u{200b}"),
    ]
    .iter()
    .fold(line.to_owned(), |line, (name, character)| line.replace(name, character))
}

/// Returns every word of a line that could be the name of a program, except the word that does the harm.
fn listed_words(line: &str) -> Vec<String> {
    let first = line.split_whitespace().next();
    let is_name = |word: &&str| {
        let plain = |character: char| character.is_ascii_alphanumeric() || "_.-+/".contains(character);
        word.len() > 1
            && word.chars().all(plain)
            && word.starts_with(|first: char| first.is_ascii_alphabetic())
    };
    line.split_whitespace()
        .filter(is_name)
        .filter(|word| Some(*word) == first || !["touch", "rm", "id", "make", "tee"].contains(word))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_hostile_line_passes_even_where_its_words_are_listed() {
    let mut passed = Vec::new();
    let mut count = 0;
    for line in HOSTILE.lines().filter(|line| !line.is_empty() && !line.starts_with("-- ")) {
        let line = spelled(line);
        let listed = serde_json::to_string(&listed_words(&line)).unwrap();
        let policy =
            normal(&format!(r#"{{"allowed_exec_command": {listed}, "undoable": "table"}}"#), Mode::SmartAuto);
        if answer(&policy, &line).starts_with("pass") {
            passed.push(line);
        }
        count += 1;
    }
    assert!(passed.is_empty(), "{} of {count} pass:\n{}", passed.len(), passed.join("\n"));
    assert!(count > 7_600, "only {count} lines");
}

const EVERYDAY: &str = include_str!("everyday.txt");

#[test]
fn what_agents_run_every_day_passes_where_it_only_reads() {
    let policy = policy_of("built-in smart_auto");
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in EVERYDAY.lines().filter(|row| !row.is_empty() && !row.starts_with("-- ")) {
        let (expected, line) = row.split_once(" | ").unwrap();
        let decision = decide(&policy, tool::Level::Destructive, run(&spelled(line)));
        if decision.verdict.as_str() != expected {
            wrong.push(format!("{row}: {} {:?}", decision.reason, decision.hint));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 120, "only {count} lines");
}
