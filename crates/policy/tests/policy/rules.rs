//! Rules about secrets, statements, changes of Handfast and tools; examples of rules; rules that
//! can never decide.

use std::path::Path;

use policy::{Ceiling, Dialect, Lines, Mode, Origin, PolicyError, Programs, Setup, Source, Trust, Verdict};
use tool::{Effect, Level};

use crate::setting::*;

fn secret(name: &str, host: &str) -> Effect {
    Effect::UseSecret { name: name.to_owned(), host: host.to_owned() }
}

fn statement(kind: &str) -> Effect {
    Effect::DatabaseWrite { statement: kind.to_owned() }
}

fn change(what: &str) -> Effect {
    Effect::ChangeHandfast { what: what.to_owned() }
}

#[test]
fn secrets_statements_and_changes_have_lists_like_paths() {
    let policy = normal(
        r#"{"allowed_hosts": ["api.example.com", "b.org"], "allowed_secrets": ["token at api.example.com", "any_*"],
            "deny_secrets": ["root", "any_* at b.org"], "allowed_database_statements": ["insert", "update"],
            "deny_database_statements": ["drop", "update users"], "deny_handfast_changes": ["policy"]}"#,
        Mode::SmartAuto,
    );
    for (effect, expected) in [
        (secret("token", "API.example.com"), "pass 7"),
        (secret("token", "b.org"), "check 9"),
        (secret("token", "elsewhere.org"), "check 6"),
        (secret("any_key", "api.example.com"), "pass 7"),
        (secret("any_key", "b.org"), "deny 1"),
        (secret("root", "api.example.com"), "deny 1"),
        (statement("insert"), "pass 7"),
        (statement("INSERT"), "pass 7"),
        (statement("delete"), "check 9"),
        (statement("drop table"), "deny 1"),
        (statement("update users"), "deny 1"),
        (statement("TRUNCATE users"), "deny 2"),
        (statement("truncated"), "check 9"),
        (change("policy"), "deny 1"),
        (change("plugin x"), "check 3"),
    ] {
        assert_eq!(short(&decide(&policy, Level::Moderate, effect.clone())), expected, "{effect:?}");
    }
}

#[test]
fn dropping_a_database_and_emptying_a_table_are_dangerous_in_every_mode() {
    for (setting, expected) in [("deny", "deny 2"), ("ask", "check 2")] {
        let policy = normal(
            &format!(r#"{{"dangerous": "{setting}", "allowed_database_statements": ["*"]}}"#),
            Mode::FullAuto,
        );
        for kind in ["truncate", "drop database", "Drop  Database main"] {
            assert_eq!(short(&decide(&policy, Level::Destructive, statement(kind))), expected, "{kind}");
        }
        // Control.
        assert_eq!(short(&decide(&policy, Level::Destructive, statement("drop table t"))), "pass 7");
    }
}

#[test]
fn a_denied_tool_is_denied_whatever_it_would_do() {
    let policy = normal(r#"{"deny_tools": ["a_*"]}"#, Mode::FullAuto);
    let decision = decide(&policy, Level::Safe, read("a"));
    assert_eq!(short(&decision), "deny 1");
    assert_eq!(decision.rule.key, "deny_tools");
    assert_eq!(short(&decide_all(&policy, Level::Safe, &[])), "deny 1");
    let other = normal(r#"{"deny_tools": ["b"]}"#, Mode::FullAuto);
    assert_eq!(short(&decide(&other, Level::Safe, read("a"))), "pass 7");
}

#[test]
fn a_listed_command_is_of_level_moderate_and_lets_nothing_else_along() {
    let lists = r#"{"moderate_exec_command": ["touch", "npm run build"], "allowed_exec_command": ["make"]}"#;
    let listed = normal(lists, Mode::SmartAuto);
    let ceiling = Ceiling { level: Level::Moderate, ..Ceiling::default() };
    let under = listed.under(&ceiling);
    for (line, level, verdict, bounded) in [
        ("touch a", Level::Moderate, "check 9", "check 9"),
        ("touch a && cat a | wc -l", Level::Moderate, "check 9", "check 9"),
        ("npm run build", Level::Moderate, "check 9", "check 9"),
        ("touch a && make", Level::Moderate, "check 9", "check 9"),
        ("npm run other", Level::Destructive, "check 9", "deny 1"),
        ("touch a; rm a", Level::Destructive, "check 9", "deny 1"),
        ("touch $(rm a)", Level::Destructive, "check 9", "deny 1"),
        ("./touch a", Level::Destructive, "check 9", "deny 1"),
        ("touch a > b", Level::Destructive, "check 9", "deny 1"),
        ("sh -c 'touch a; rm a'", Level::Destructive, "check 9", "deny 1"),
        ("touch a; rm -rf /", Level::Destructive, "deny 2", "deny 2"),
        // A command that needs no entry of the list has the level that its tool states.
        ("make", Level::Destructive, "pass 7", "deny 1"),
        ("ls", Level::Destructive, "pass 7", "deny 1"),
    ] {
        let decision = decide(&listed, Level::Destructive, run(line));
        assert_eq!((decision.level, short(&decision).as_str()), (level, verdict), "{line}");
        assert_eq!(short(&decide(&under, Level::Destructive, run(line))), bounded, "{line}");
    }
    // No other level is lowered, and only a trusted file may lower one.
    assert_eq!(decide(&listed, Level::Critical, run("touch a")).level, Level::Critical);
    assert_eq!(decide(&listed, Level::Destructive, delete("a")).level, Level::Destructive);
    let untrusted = workspace(&format!(r#"{{"normal": {lists}}}"#), Trust::Untrusted);
    let decision = decide(&compile(&[untrusted], "normal"), Level::Destructive, run("touch a"));
    assert_eq!(decision.level, Level::Destructive);
}

fn setup(sources: &[Source]) -> Setup<'_> {
    Setup {
        sources,
        profile: "normal",
        mode: None,
        dialect: Dialect::default(),
        workspace: Path::new(WORKSPACE),
        home: Some(Path::new(HOME)),
        protected: &[],
        closed: &[],
        programs: Programs::Unknown,
        tools: &["file_read", "shell_execute"],
    }
}

#[test]
fn a_rule_about_an_unknown_tool_is_refused_with_its_line() {
    let mut source = user(r#"{"normal": {"deny_tools": ["file_*", "shel_execute"]}}"#);
    source.lines.note("normal", "deny_tools", 3, vec![4, 5]);
    let error = policy::Policy::compile(&setup(&[source])).unwrap_err().to_string();
    assert_eq!(
        error,
        "profile `normal`: `deny_tools`: \"shel_execute\": unknown tool; `handfast tools` lists them \
         (/home/ann/.config/handfast/config.yaml:5)"
    );
}

/// Creates a source with one entry of a list, with examples.
fn with_examples(list: &str, rule: &str, matches: &[&str], not_matches: &[&str]) -> Source {
    let entry = serde_json::json!({"rule": rule, "match": matches, "not_match": not_matches});
    user(&serde_json::json!({"other": {list: [entry]}}).to_string())
}

#[test]
fn examples_are_tried_by_the_engine_that_decides() {
    for (list, rule, matches, not_matches) in [
        ("deny_read_paths", "*.key", &["a/b.key", "~/x.key", "/srv/y.key"][..], &["key", "a.key.pub"][..]),
        ("deny_read_paths", "!.env.example", &["a/.env.example"], &[".env"]),
        ("deny_write_paths", "build/", &["build/", "build/x"], &["build"]),
        ("allowed_write_paths", "./src", &["src/a.rs"], &["srcs/a.rs", "a/src"]),
        (
            "deny_exec_command",
            "git rm",
            &["git rm x", "sudo git -C y rm x", "sh -c 'git rm x'"],
            &["git log"],
        ),
        (
            "allowed_exec_command",
            "cargo test",
            &["cargo test -p x", "cd a && cargo test"],
            &["cargo test; rm x"],
        ),
        ("moderate_exec_command", "cargo test", &["cargo test -p x"], &["cargo build", "cargo test; rm x"]),
        ("allowed_exec_command", "git", &["git log"], &["git push --exec=x", "sudo git log"]),
        ("deny_hosts", "*.evil.org", &["a.evil.org", "b.evil.org:80"], &["evil.org"]),
        ("allowed_hosts", "a.org:443", &["a.org:443"], &["a.org:80", "a.org"]),
        ("deny_secrets", "aws_* at *", &["aws_x at b.org"], &["token at b.org"]),
        ("deny_database_statements", "drop", &["DROP TABLE"], &["insert"]),
        ("deny_handfast_changes", "plugin", &["plugin x"], &["policy"]),
        ("deny_tools", "file_*", &["file_read"], &["shell_execute"]),
        ("auto_run_paths", "*.startup", &["a/b.startup"], &["a/b.stop"]),
    ] {
        let sources = [with_examples(list, rule, matches, not_matches)];
        let tried = policy::examples(&setup(&sources)).unwrap();
        assert_eq!(tried.len(), matches.len() + not_matches.len());
        for example in tried {
            assert!(example.holds(), "{example:?}");
        }
        // Positive control: with swapped examples each of them fails.
        let sources = [with_examples(list, rule, not_matches, matches)];
        for example in policy::examples(&setup(&sources)).unwrap() {
            assert!(!example.holds(), "{example:?}");
        }
    }
}

#[test]
fn a_failing_example_is_an_error_in_every_profile_with_file_and_line() {
    let mut source = with_examples("deny_exec_command", "git rm", &["git remote rm x"], &[]);
    source.lines.note("other", "deny_exec_command", 2, vec![3]);
    let error = policy::Policy::compile(&setup(&[source])).unwrap_err();
    assert!(matches!(error, PolicyError::Entry { .. }));
    assert_eq!(
        error.to_string(),
        "profile `other`: `deny_exec_command`: \"git rm\": \"git remote rm x\" is listed under `match`, but the rule does not \
         match it (/home/ann/.config/handfast/config.yaml:3)"
    );
    let wrong = with_examples("deny_hosts", "a.org", &["no host"], &[]);
    let error = policy::Policy::compile(&setup(&[wrong])).unwrap_err().to_string();
    assert!(error.contains("cannot be tried"), "{error}");
}

#[track_caller]
fn finds(profile: &str, expected: &[&str]) {
    let sources = [user(&format!(r#"{{"normal": {profile}}}"#))];
    let own = [Path::new(WORKSPACE).join("handfast.yaml")];
    let found = policy::findings(&Setup { protected: &own, ..setup(&sources) }).unwrap();
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), expected.len(), "{profile}: {shown:#?}");
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.contains(expected), "{profile}: {shown}");
    }
}

#[test]
fn what_can_never_decide_is_found() {
    for (profile, expected) in [
        (r#"{"deny_read_paths": ["a", "b", "a"]}"#, "\"a\" can never decide: it is already listed"),
        (r#"{"deny_read_paths": ["!a", "b"]}"#, "no earlier entry"),
        (r#"{"deny_read_paths": ["*.key", "!*.key"]}"#, "revokes it"),
        (r#"{"allowed_read_paths": [".env", "."]}"#, "deny_read_paths: .env "),
        (r#"{"allowed_read_paths": ["./secret/a", "."], "deny_read_paths": ["secret"]}"#, "denies all of it"),
        (r#"{"allowed_write_paths": ["./gen/**", "."], "deny_write_paths": ["./gen/"]}"#, "denies all of it"),
        (r#"{"allowed_write_paths": ["./handfast.yaml"]}"#, "belongs to Handfast"),
        (
            r#"{"allowed_exec_command": ["git push origin"], "deny_exec_command": ["git push"]}"#,
            "denies all of it",
        ),
        (r#"{"allowed_exec_command": ["nc"]}"#, "write a whole command"),
        (r#"{"allowed_hosts": ["a.evil.org"], "deny_hosts": ["*.evil.org"]}"#, "denies all of it"),
        (r#"{"allowed_hosts": ["*.evil.org"], "deny_hosts": ["*"]}"#, "denies all of it"),
        (r#"{"allowed_secrets": ["a at b.org"], "deny_secrets": ["a"]}"#, "denies all of it"),
        (
            r#"{"allowed_database_statements": ["drop table"], "deny_database_statements": ["drop"]}"#,
            "denies all of it",
        ),
    ] {
        finds(profile, &[expected]);
    }
}

#[test]
fn what_can_decide_is_left_alone() {
    for profile in [
        "{}",
        r#"{"undoable": "pass", "allowed_hosts": ["a.org"]}"#,
        r#"{"deny_read_paths": [".env", ".env.*", "!.env.example", "*.pem", "*.key", ".netrc"]}"#,
        r#"{"allowed_read_paths": ["./secret", "."], "deny_read_paths": ["secret", "!keep"]}"#,
        r#"{"allowed_exec_command": ["git", "git push"], "deny_exec_command": ["git push --force"]}"#,
        r#"{"allowed_exec_command": ["cargo test", "./run.sh", "nc -z localhost 80", "make"]}"#,
        r#"{"allowed_hosts": ["*.a.org", "b.org"], "deny_hosts": ["x.a.org", "b.org:80"]}"#,
        r#"{"allowed_database_statements": ["drop"], "deny_database_statements": ["drop table"]}"#,
    ] {
        finds(profile, &[]);
    }
}

#[test]
fn the_administrators_rules_hold_under_a_profile_of_another_name() {
    let sources = [
        managed(
            r#"{"normal": {"deny_read_paths": ["private"], "deny_exec_command": ["npm publish"], "mode": "smart_auto",
                "dangerous": "deny", "strict": true, "undoable": "table", "limits": {"cpus": 2}}}"#,
        ),
        user(
            r#"{"mine": {"deny_read_paths": [], "deny_exec_command": [], "mode": "full_auto", "dangerous": "ask", "strict": false,
                "undoable": "pass", "limits": {"cpus": 8}}}"#,
        ),
    ];
    let policy = compile_as(&sources, "mine", Some(Mode::FullAuto), Dialect::default()).unwrap();
    assert_eq!(short(&decide(&policy, Level::Safe, read("private/x"))), "deny 1");
    assert_eq!(answer(&policy, "npm publish"), "deny 1");
    assert_eq!(answer(&policy, "rm -rf /"), "deny 2");
    assert_eq!((policy.mode(), policy.strict(), policy.limits().cpus), (Mode::SmartAuto, true, Some(2)));
    // The profile named its own list, and the administrator's does not bring the built-in entries back.
    assert_eq!(short(&decide(&policy, Level::Safe, read(".env"))), "pass 7");

    // A stricter setting of the user counts in addition to the administrator's.
    let strict = user(r#"{"mine": {"mode": "ask_always", "limits": {"cpus": 1}}}"#);
    let policy = compile(&[sources[0].clone(), strict], "mine");
    assert_eq!((policy.mode(), policy.limits().cpus), (Mode::AskAlways, Some(1)));
}

#[test]
fn a_decision_names_the_line_of_its_rule() {
    let mut lines = Lines::default();
    lines.note("normal", "deny_write_paths", 4, vec![5, 6]);
    lines.note("normal", "mode", 2, Vec::new());
    let json = r#"{"normal": {"mode": "ask_always", "deny_write_paths": ["a", "b"]}}"#;
    let origin = Origin::User(Path::new("/c.yaml").into());
    let source = Source { lines, ..Source::new(origin, Trust::Trusted, profiles(json)) };
    let policy = compile(&[source], "normal");
    let decision = decide(&policy, Level::Moderate, write("b"));
    assert_eq!(decision.verdict, Verdict::Deny);
    assert_eq!(decision.rule.to_string(), "deny_write_paths: b (profile normal, /c.yaml:6)");
    let asked = decide(&policy, Level::Safe, read("x"));
    assert_eq!(asked.rule.to_string(), "mode: ask_always (profile normal, /c.yaml:2)");
}

#[test]
fn what_stops_a_call_is_named_with_what_would_help_for_every_kind_of_effect() {
    let policies = [
        compile(&[user(r#"{"normal": {"deny_exec_command": ["git rm"]}}"#)], "normal"),
        compile_as(&[], "normal", Some(Mode::AskAlways), Dialect::default()).unwrap(),
    ];
    for (effect, named) in [
        (read("/home/ann/x"), "read /home/ann/x"),
        (read(".env"), "read /w/project/.env"),
        (write("a"), "write /w/project/a"),
        (delete("a"), "delete /w/project/a"),
        (write(".envrc"), "write /w/project/.envrc"),
        (run("ls | pathchk a"), "pathchk a"),
        (run("make"), "make"),
        (run("git rm x"), "git rm x"),
        (run("$X"), "$X"),
        (connect("docs.rs"), "connect docs.rs:443"),
        (secret("token", "docs.rs"), "use secret token at docs.rs"),
        (statement("insert"), "database insert"),
        (change("policy"), "change policy"),
    ] {
        let [by_lists, by_mode] =
            policies.each_ref().map(|policy| decide(policy, Level::Safe, effect.clone()));
        assert_ne!(by_lists.verdict, Verdict::Pass, "{effect:?}");
        assert!(by_lists.part.as_ref().is_some_and(|part| part.contains(named)), "{effect:?}: {by_lists:?}");
        assert!(by_lists.hint.is_some() && by_mode.hint.is_some(), "{effect:?}: {by_lists:?} {by_mode:?}");
        assert!(!by_lists.rule.to_string().is_empty() && !by_lists.reason.is_empty());
    }
}

#[test]
fn what_would_make_a_call_pass_is_tried_and_never_a_program_that_runs_others() {
    let policy = normal(r#"{"allowed_write_paths": ["./src"]}"#, Mode::SmartAuto);
    let suggested = |effect: Effect| {
        let parts = [policy::Part::from(effect)];
        let request = policy::Request {
            tool: "t",
            level: Level::Destructive,
            parts: &parts,
            undoable_in_force: false,
            background: false,
        };
        let entries = policy.would_pass_with(&request).unwrap_or_default();
        entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    };
    for (effect, expected) in [
        (run("some-tool -x"), "\"some-tool\" in `allowed_exec_command`"),
        (run("cargo test -p x"), "\"cargo test\" in `allowed_exec_command`"),
        (run("cd src && cargo test 2>&1 | tail"), "\"cargo test\" in `allowed_exec_command`"),
        (run("git commit -m x"), "\"git commit -m x\" in `allowed_exec_command`"),
        (run("python3 x.py"), "\"python3 x.py\" in `allowed_exec_command`"),
        (run("some-tool > src/a"), "\"some-tool\" in `allowed_exec_command`"),
        (run("echo a > out"), "\"./out\" in `allowed_write_paths`"),
        (
            run("some-tool > out"),
            "\"./out\" in `allowed_write_paths` and \"some-tool\" in `allowed_exec_command`",
        ),
        (write("out"), "\"./out\" in `allowed_write_paths`"),
        (secret("a", "b.org"), "\"b.org\" in `allowed_hosts` and \"a at b.org\" in `allowed_secrets`"),
        (statement("insert"), "\"insert\" in `allowed_database_statements`"),
        // Calls that pass, calls that are denied, and calls that no list changes.
        (read("src/a"), ""),
        (read(".env"), ""),
        (run("rm -rf /"), ""),
        (run("ls $(some-tool)"), ""),
        (run("bash"), ""),
        (run("some-tool $X"), ""),
        (change("policy"), ""),
    ] {
        assert_eq!(suggested(effect.clone()), expected, "{effect:?}");
    }
}

#[test]
fn a_command_takes_nothing_away_that_holds_what_is_denied() {
    let policy = normal(
        r#"{"allowed_exec_command": ["rm", "mv", "cp"], "deny_write_paths": ["config/prod.toml"], "undoable": "table"}"#,
        Mode::SmartAuto,
    );
    for line in [
        "rm -rf config",
        "mv config x",
        "cd sub && rm -r ../config",
        "rm config/prod.toml",
        "mv handfast.yaml x",
    ] {
        assert!(answer(&policy, line).starts_with("deny 1"), "{line}: {}", answer(&policy, line));
    }
    for line in ["rm -rf other", "mv other x", "cp -r config x", "rm config/other.toml"] {
        assert_eq!(answer(&policy, line), "pass 7", "{line}");
    }
    // Files that would run later are asked about at their destination.
    for line in ["cp evil/.envrc sub", "mv evil/.vscode sub", "cp -r x/.git sub"] {
        assert_eq!(answer(&policy, line), "check 6", "{line}");
    }
}

#[test]
fn asking_a_listed_host_for_what_it_has_is_a_read_and_anything_else_is_not() {
    let ask = |method: &str, host: &str| Effect::Connect {
        host: host.to_owned(),
        port: 443,
        method: Some(method.to_owned()),
        only_asks: false,
    };
    let question = |host: &str| Effect::Connect {
        host: host.to_owned(),
        port: 443,
        method: Some("POST".to_owned()),
        only_asks: true,
    };
    let lists = r#"{"allowed_hosts": ["docs.rs"], "allowed_secrets": ["token at docs.rs"], "deny_hosts": ["x.docs.rs"]}"#;
    let policy = normal(lists, Mode::SmartAuto);
    for (level, effects, expected) in [
        (Level::Safe, vec![ask("GET", "docs.rs")], "pass 7"),
        (Level::Safe, vec![ask("HEAD", "DOCS.rs.")], "pass 7"),
        (Level::Safe, vec![ask("GET", "docs.rs"), secret("token", "docs.rs")], "pass 7"),
        (Level::Safe, vec![ask("GET", "docs.rs"), secret("other", "docs.rs")], "check 9"),
        (Level::Moderate, vec![ask("POST", "docs.rs")], "check 9"),
        (Level::Moderate, vec![ask("POST", "docs.rs"), secret("token", "docs.rs")], "check 9"),
        (Level::Safe, vec![question("docs.rs"), secret("token", "docs.rs")], "pass 7"),
        (Level::Safe, vec![question("docs.rs"), secret("other", "docs.rs")], "check 9"),
        (Level::Safe, vec![ask("POST", "docs.rs"), secret("token", "docs.rs")], "check 9"),
        // A call only asks if its tool also states that it is safe.
        (Level::Moderate, vec![question("docs.rs"), secret("token", "docs.rs")], "check 9"),
        (Level::Safe, vec![question("crates.io")], "check 6"),
        (Level::Safe, vec![question("x.docs.rs")], "deny 1"),
        (Level::Safe, vec![ask("GET", "crates.io")], "check 6"),
        (Level::Safe, vec![ask("GET", "x.docs.rs")], "deny 1"),
        (Level::Safe, vec![ask("get", "docs.rs")], "pass 9"),
    ] {
        assert_eq!(short(&decide_all(&policy, level, &effects)), expected, "{effects:?}");
    }
    let asked = decide(&normal(lists, Mode::AskAlways), Level::Safe, ask("GET", "docs.rs"));
    assert_eq!(short(&asked), "check 4");
}

#[test]
fn an_address_counts_as_named_where_a_list_names_it_and_not_a_wildcard() {
    use policy::AddressVerdict::{Denied, Named, Unnamed};
    let policy = normal(
        r#"{"allowed_hosts": ["*", "10.0.0.1", "[fd00::1]:443", "localhost:80"], "deny_hosts": ["10.0.0.2", "[::1]:80"]}"#,
        Mode::SmartAuto,
    );
    for (host, address, port, expected) in [
        ("a.example", "10.0.0.1", 1, Named),
        ("a.example", "::ffff:10.0.0.1", 1, Named),
        ("a.example", "10.0.0.2", 1, Denied),
        ("a.example", "::ffff:10.0.0.2", 1, Denied),
        ("a.example", "10.0.0.3", 1, Unnamed),
        ("a.example", "fd00::1", 443, Named),
        ("a.example", "fd00::1", 80, Unnamed),
        ("localhost", "127.0.0.1", 80, Named),
        ("localhost", "::1", 80, Denied),
        ("localhost", "127.0.0.1", 81, Unnamed),
        ("localhost", "10.0.0.3", 80, Unnamed),
        ("a.example", "127.0.0.1", 80, Unnamed),
    ] {
        let found = policy.address_verdict(host, address.parse().unwrap(), port, false);
        assert_eq!(found, expected, "{host} {address} {port}");
    }
}
