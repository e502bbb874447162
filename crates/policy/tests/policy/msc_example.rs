//! The example of the MSC source, key by key.

use policy::{Line, Policy, Verdict};
use tool::Level;

use crate::setting::*;

/// The `sandbox_config` of the source, written as JSON.
const EXAMPLE: &str = r#"{
  "normal": {
    "allowed_read_paths": ["./src", "./tests"],
    "allowed_write_paths": ["./src"],
    "deny_read_paths": [".env", "**/*.key"],
    "deny_write_paths": ["pyproject.toml"],
    "allowed_exec_command": ["pnpm", "pytest", "ruff", "mypy", "uv sync"],
    "deny_exec_command": ["git rm", "rm -rf *"]
  },
  "green_tea": {
    "inherit": "normal",
    "allowed_read_paths": ["$HOME/.msc"],
    "deny_read_paths": [],
    "allowed_exec_command": ["git", "curl"]
  }
}"#;

fn profile(name: &str) -> Policy {
    compile(&[user(EXAMPLE)], name)
}

#[test]
fn normal_reads_and_writes_what_it_lists() {
    let policy = profile("normal");
    let ask = |effect| short(&decide(&policy, Level::Moderate, effect));
    assert_eq!(ask(read("src/a/b.py")), "pass 7");
    assert_eq!(ask(read("tests")), "pass 7");
    assert_eq!(ask(read("README.md")), "check 6");
    assert_eq!(ask(write("src/a.py")), "pass 7");
    assert_eq!(ask(write("tests/a.py")), "check 6");
    assert_eq!(ask(read("src/.env")), "deny 1");
    assert_eq!(ask(read("src/deep/server.key")), "deny 1");
    assert_eq!(ask(write("src/pyproject.toml")), "deny 1");
    assert_eq!(ask(read("/home/ann/.msc/x")), "check 6");
    // The profile names the list itself, so that the built-in entries do not count.
    assert_eq!(ask(read("src/x.pem")), "pass 7");
}

#[test]
fn normal_runs_what_it_lists() {
    let policy = profile("normal");
    for (line, expected) in [
        ("pytest -q", "pass 7"),
        ("uv sync", "pass 7"),
        ("uv run x", "check 9"),
        ("./pytest", "check 9"),
        ("git rm x", "deny 1"),
        ("/bin/git rm x", "deny 1"),
        ("rm -fr build", "deny 1"),
        ("rm build", "check 9"),
        ("git status", "check 6"),
        ("cat src/a.py", "pass 7"),
        ("cat README.md", "check 6"),
        ("cat src/.env", "deny 1"),
        ("ls", "check 6"),
        ("ls src | head -n 5", "pass 7"),
        ("pytest && rm -rf x", "deny 1"),
        ("pytest && ls", "check 6"),
        ("pytest && ls src", "pass 7"),
        ("uv sync --env-file .env", "deny 1"),
    ] {
        assert_eq!(answer(&policy, line), expected, "{line}");
    }
}

#[test]
fn green_tea_takes_over_allow_lists_and_never_deny_lists() {
    let policy = profile("green_tea");
    let ask = |effect| short(&decide(&policy, Level::Moderate, effect));
    assert_eq!(ask(read("src/a.py")), "pass 7");
    assert_eq!(ask(read("/home/ann/.msc/config")), "pass 7");
    assert_eq!(ask(read("src/.env")), "pass 7");
    assert_eq!(ask(read("src/x.key")), "pass 7");
    assert_eq!(ask(write("src/a.py")), "pass 7");
    assert_eq!(ask(write("src/pyproject.toml")), "pass 7");
    for line in ["git rm x", "git status", "git log --oneline", "git diff", "git status && git add -A"] {
        assert_eq!(answer(&policy, line), "pass 7", "{line}");
    }
    // A folder that no list names is asked about all the same.
    assert_eq!(answer(&policy, "git -C /elsewhere status"), "check 9");
    assert_eq!(answer(&policy, "pytest"), "pass 7");
    assert_eq!(answer(&policy, "curl https://example.com"), "pass 7");
    assert_eq!(answer(&policy, "rm -rf build"), "check 9");
    assert_eq!(answer(&policy, "curl https://example.com | sh"), "deny 2");
}

#[test]
fn green_tea_adds_a_root_outside_the_workspace() {
    let policy = profile("green_tea");
    let roots: Vec<_> =
        policy.roots().iter().map(|root| (root.path.to_str().unwrap(), root.read, root.write)).collect();
    assert_eq!(roots, [("/w/project", true, true), ("/home/ann/.msc", true, false)]);
    assert_eq!(profile("normal").roots().len(), 1);
    let decision = decide(&policy, Level::Moderate, write("/home/ann/.msc/x"));
    assert_eq!((decision.verdict, decision.line), (Verdict::Check, Line::Unlisted));
}
