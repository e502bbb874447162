//! Untrusted workspace files: whatever they say, they allow nothing that is not allowed without them.

use std::sync::Arc;

use policy::{LeasePattern, Policy, Source, Trust};
use serde_json::{Map, Value, json};
use tool::{Effect, Level};

use crate::ceilings::Answers;
use crate::random_lines::Random;
use crate::setting::*;

fn untrusted(json: &str) -> Source {
    workspace(json, Trust::Untrusted)
}

/// Compiles a user's profile together with an untrusted file's.
fn beside(own: &str, theirs: &str) -> Policy {
    let named = |profile: &str| format!(r#"{{"normal": {profile}}}"#);
    compile(&[user(&named(own)), untrusted(&named(theirs))], "normal")
}

fn ask(policy: &Policy, effect: Effect) -> String {
    let level = if matches!(effect, Effect::Connect { .. }) { Level::Safe } else { Level::Moderate };
    short(&decide(policy, level, effect))
}

/// Returns a request that only asks a host for data.
fn get(host: &str) -> Effect {
    Effect::Connect { host: host.to_owned(), port: 443, method: None, only_asks: true }
}

#[test]
fn narrower_lists_of_paths_count_before_the_file_is_trusted() {
    let policy = beside("{}", r#"{"allowed_read_paths": ["./src"], "allowed_write_paths": ["./src"]}"#);
    for (effect, expected) in [
        (read("src/a"), "pass 7"),
        (read("docs/a"), "check 6"),
        (run("cat src/a"), "pass 7"),
        (run("cat docs/a"), "check 6"),
        // The user has not allowed this write without a question.
        (write("src/a"), "check 9"),
        (write("docs/a"), "check 6"),
        (delete("docs/a"), "check 6"),
    ] {
        assert_eq!(ask(&policy, effect.clone()), expected, "{effect:?}");
    }
    // The first list counts in full, so there is no warning; the second one would also let a call pass.
    let told: Vec<String> = policy.warnings().iter().map(ToString::to_string).collect();
    let [told] = told.as_slice() else { panic!("{told:?}") };
    assert!(told.contains("`allowed_write_paths` can only narrow permissions"), "{told}");

    let listed = r#"{"allowed_read_paths": [".", "/srv"], "allowed_write_paths": [".", "/srv"]}"#;
    let policy = beside(listed, r#"{"allowed_read_paths": ["."], "allowed_write_paths": ["./src", "/etc"]}"#);
    for (effect, expected) in [
        (read("docs/a"), "pass 7"),
        (read("/srv/a"), "check 6"),
        (read("/etc/a"), "check 6"),
        (write("src/a"), "pass 7"),
        (write("docs/a"), "check 6"),
        (write("/srv/a"), "check 6"),
        (write("/etc/a"), "check 6"),
    ] {
        assert_eq!(ask(&policy, effect.clone()), expected, "{effect:?}");
    }
    assert_eq!(policy.roots().len(), 1);
}

#[test]
fn narrower_lists_of_everything_else_count_too() {
    let own = r#"{"allowed_exec_command": ["make", "pytest"], "allowed_hosts": ["docs.rs", "*.crates.io"],
        "allowed_secrets": ["token", "key"], "allowed_database_statements": ["insert", "update"]}"#;
    let theirs = r#"{"allowed_exec_command": ["pytest", "npm"], "allowed_hosts": ["static.crates.io", "evil.org"],
        "allowed_secrets": ["key", "other"], "allowed_database_statements": ["insert", "drop"]}"#;
    let policy = beside(own, theirs);
    let statement = |statement: &str| Effect::DatabaseWrite { statement: statement.into() };
    let secret = |name: &str| Effect::UseSecret { name: name.into(), host: "static.crates.io".into() };
    for (effect, expected) in [
        (run("pytest"), "pass 7"),
        (run("make"), "check 9"),
        (run("npm"), "check 9"),
        (statement("insert"), "pass 7"),
        (statement("update"), "check 9"),
        (statement("drop"), "check 9"),
        (secret("key"), "pass 7"),
        (secret("token"), "check 9"),
        (secret("other"), "check 9"),
        (get("static.crates.io"), "pass 7"),
        (get("docs.rs"), "check 6"),
        (get("index.crates.io"), "check 6"),
        (get("evil.org"), "check 6"),
    ] {
        assert_eq!(ask(&policy, effect.clone()), expected, "{effect:?}");
    }
    for (host, expected) in [("static.crates.io", true), ("docs.rs", false), ("evil.org", false)] {
        assert_eq!(policy.host_verdict(host, 443).is_ok(), expected, "{host}");
    }
    // An empty list is the narrowest.
    let policy = beside(own, r#"{"allowed_exec_command": []}"#);
    assert_eq!(ask(&policy, run("pytest")), "check 9");
    assert_eq!(ask(&policy, run("ls")), "pass 7");
}

#[test]
fn stricter_settings_count_and_laxer_ones_do_not() {
    let lax = r#"{"dangerous": "ask", "undoable": "pass", "mode": "full_auto"}"#;
    let strict = r#"{"dangerous": "deny", "undoable": "table"}"#;
    assert_eq!(answer(&beside(lax, strict), "rm -rf /"), "deny 2");
    assert!(beside(lax, "{}").passes_undoable() && !beside(lax, strict).passes_undoable());
    assert_eq!(answer(&beside(strict, lax), "rm -rf /"), "deny 2");
    assert!(!beside(strict, lax).passes_undoable());
}

#[test]
fn a_list_that_another_profile_inherits_counts_for_that_one() {
    let own = user(r#"{"normal": {}, "child": {"inherit": "normal", "allowed_read_paths": ["/srv"]}}"#);
    let theirs = untrusted(r#"{"normal": {"allowed_read_paths": ["./src"]}}"#);
    let policy = compile(&[own.clone(), theirs], "child");
    assert_eq!(ask(&policy, read("src/a")), "pass 7");
    assert_eq!(ask(&policy, read("/srv/a")), "pass 7");
    assert_eq!(ask(&policy, read("docs/a")), "check 6");
    // Control: a profile that is not in use changes nothing.
    let other = untrusted(r#"{"other": {"allowed_read_paths": ["./src"]}}"#);
    assert_eq!(ask(&compile(&[own, other], "child"), read("docs/a")), "pass 7");
}

#[test]
fn what_a_human_leases_counts_whatever_such_a_file_lists() {
    let policy = beside("{}", r#"{"allowed_write_paths": ["./src"], "deny_write_paths": ["docs/x"]}"#);
    let pattern = LeasePattern::Write("docs/**".to_owned());
    let leased = policy.with_leases(&[(Arc::from("id"), pattern)]);
    assert_eq!(ask(&leased, write("docs/a")), "pass 7");
    assert_eq!(ask(&leased, write("docs/x")), "deny 1");
    assert_eq!(ask(&leased, write("other/a")), "check 6");
}

/// Entries of each list, some of which contain others.
const ENTRIES: [(&str, &[&str]); 14] = [
    ("allowed_read_paths", &[".", "./src", "docs", "!src/secret", "*.md", "/srv", "/srv/data", "~/x"]),
    ("allowed_write_paths", &[".", "./src", "docs", "!src/secret", "/srv/data", "~/x"]),
    ("deny_read_paths", &[".env", "docs", "!docs/b", "*.pem"]),
    ("deny_write_paths", &["src", "*.lock"]),
    ("allowed_exec_command", &["make", "pytest", "git", "ls"]),
    ("moderate_exec_command", &["make", "pytest"]),
    ("deny_exec_command", &["git rm", "make"]),
    ("allowed_hosts", &["docs.rs", "*", "evil.org"]),
    ("deny_hosts", &["evil.org"]),
    ("allowed_secrets", &["token", "*"]),
    ("deny_secrets", &["token"]),
    ("allowed_database_statements", &["insert"]),
    ("deny_database_statements", &["insert"]),
    ("deny_tools", &["x"]),
];

/// Values of each setting.
const SETTINGS: [(&str, &[&str]); 5] = [
    ("mode", &[r#""full_auto""#, r#""smart_auto""#, r#""ask_always""#]),
    ("dangerous", &[r#""ask""#, r#""deny""#]),
    ("undoable", &[r#""pass""#, r#""table""#]),
    ("strict", &["true", "false"]),
    ("limits", &[r#"{"cpus": 1}"#, r#"{"cpus": 64}"#]),
];

/// Generates the keys of a profile.
pub(crate) fn any_profile(random: &mut Random) -> Value {
    let mut profile = Map::new();
    for (key, entries) in ENTRIES {
        if random.below(4) == 0 {
            let chosen: Vec<&str> = entries.iter().filter(|_| random.below(2) == 0).copied().collect();
            profile.insert(key.to_owned(), json!(chosen));
        }
    }
    for (key, values) in SETTINGS {
        if random.below(5) == 0 {
            profile.insert(key.to_owned(), serde_json::from_str(random.one_of(values)).unwrap());
        }
    }
    profile.into()
}

/// Generates the profiles of a file: the one that is in use, possibly with a parent.
pub(crate) fn any_file(random: &mut Random) -> Value {
    let mut normal = any_profile(random);
    if random.below(4) == 0 {
        normal["inherit"] = json!("base");
    }
    json!({"normal": normal, "base": any_profile(random)})
}

#[test]
fn a_file_that_nobody_trusts_never_allows_what_is_not_allowed_without_it() {
    let mut random = Random(5);
    let (mut stricter, mut laxer_as_written) = (0_usize, 0_usize);
    for round in 0..400 {
        let (own, theirs) = (any_file(&mut random), any_file(&mut random));
        let what = format!("round {round}: {own} beside {theirs}");
        let (own, theirs) = (user(&own.to_string()), untrusted(&theirs.to_string()));
        let without = Answers::of(&compile(std::slice::from_ref(&own), "normal"));
        let with = Answers::of(&compile(&[own.clone(), theirs.clone()], "normal"));
        with.are_as_narrow(&without, &what);
        let believed = Source { trust: Trust::Trusted, ..theirs };
        let as_written = Answers::of(&compile(&[believed, own], "normal"));
        stricter += usize::from(!without.is_as_narrow(&with));
        laxer_as_written += usize::from(!as_written.is_as_narrow(&without));
    }
    // Positive control: many files tighten something, and many would have loosened something.
    assert!(stricter > 100 && laxer_as_written > 100, "{stricter} {laxer_as_written}");
}

#[test]
fn a_file_with_lists_that_allow_is_at_least_as_strict_as_it_is_written() {
    let mut random = Random(7);
    for round in 0..200 {
        let own = user(&json!({ "normal": any_profile(&mut random) }).to_string());
        let mut profile = any_profile(&mut random);
        profile["allowed_write_paths"] = json!(["./src"]);
        let what = format!("round {round}: {:?} beside {profile}", own.profiles);
        let theirs = untrusted(&json!({ "normal": profile }).to_string());
        let believed = Source { trust: Trust::Trusted, ..theirs.clone() };
        let as_written = Answers::of(&compile(&[believed, own.clone()], "normal"));
        Answers::of(&compile(&[own, theirs], "normal")).are_as_narrow(&as_written, &what);
    }
}
