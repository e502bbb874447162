//! Precedence, inheritance, trust, and malformed profiles.

use policy::{Dialect, Isolation, Limits, Mode, Origin, Policy, PolicyError, Source, Trust};
use tool::Level;

use crate::setting::*;

fn refused(json: &str, profile: &str) -> PolicyError {
    compile_as(&[user(json)], profile, None, Dialect::default()).unwrap_err()
}

#[test]
fn normal_exists_without_any_file() {
    let policy = compile(&[], "normal");
    assert_eq!((policy.profile(), policy.mode()), ("normal", Mode::SmartAuto));
    for path in [".env", "a/.env.local", "x.pem", "a/b.key", ".netrc"] {
        assert_eq!(short(&decide(&policy, Level::Safe, read(path))), "deny 1", "{path}");
    }
    assert_eq!(short(&decide(&policy, Level::Safe, read(".env.example"))), "pass 7");
}

#[test]
fn errors_name_profile_key_and_entry() {
    let unknown = refused("{}", "nowhere");
    assert_eq!(unknown.to_string(), "unknown profile `nowhere`; defined profiles: normal");
    let file = "/home/ann/.config/handfast/config.yaml";
    let parent = refused(r#"{"a": {"inherit": "b"}}"#, "a");
    assert_eq!(
        parent.to_string(),
        format!("profile `a`: `inherit` names `b`, which is not defined ({file})")
    );
    let cycle = refused(r#"{"a": {"inherit": "b"}, "b": {"inherit": "a"}}"#, "a");
    assert_eq!(cycle.to_string(), format!("profile `a`: `inherit` leads back to it: a -> b -> a ({file})"));
    for (key, entry) in [
        ("allowed_read_paths", "~bob/x"),
        ("deny_write_paths", "a[b"),
        ("allowed_write_paths", "/*/x"),
        ("deny_exec_command", "a | b"),
        ("allowed_exec_command", ""),
        ("allowed_hosts", "a b"),
    ] {
        let error = refused(&format!(r#"{{"p": {{"{key}": ["{entry}"]}}}}"#), "p").to_string();
        assert!(
            error.contains("`p`") && error.contains(key) && error.contains(&format!("{entry:?}")),
            "{error}"
        );
    }
}

#[test]
fn a_relative_workspace_is_refused() {
    let setup = policy::Setup {
        sources: &[],
        profile: "normal",
        mode: None,
        dialect: Dialect::default(),
        workspace: "project".as_ref(),
        home: None,
        protected: &[],
        closed: &[],
        programs: policy::Programs::Presumed,
        tools: &[],
    };
    assert!(matches!(Policy::compile(&setup), Err(PolicyError::NotAbsolute { .. })));
}

#[test]
fn allow_lists_are_inherited_through_all_parents_and_the_default_too() {
    let policy = compile(
        &[user(
            r#"{"a": {"allowed_read_paths": ["/one"]}, "b": {"inherit": "a"}, "c": {"inherit": "b", "allowed_read_paths": ["/two"]}}"#,
        )],
        "c",
    );
    let ask = |policy: &Policy, path: &str| short(&decide(policy, Level::Safe, read(path)));
    assert_eq!(
        [ask(&policy, "/one/x"), ask(&policy, "/two/x"), ask(&policy, "x")],
        ["pass 7", "pass 7", "check 6"]
    );
    let child = compile(&[user(r#"{"c": {"inherit": "normal", "allowed_read_paths": ["/two"]}}"#)], "c");
    assert_eq!(
        [ask(&child, "x"), ask(&child, "/two/x"), ask(&child, "/one")],
        ["pass 7", "pass 7", "check 6"]
    );
    let none = compile(&[user(r#"{"c": {"allowed_read_paths": []}}"#)], "c");
    assert_eq!(ask(&none, "x"), "check 6");
}

#[test]
fn an_earlier_file_beats_a_later_one_and_denials_add_up() {
    let sources = [
        managed(
            r#"{"normal": {"deny_write_paths": ["one"], "allowed_exec_command": ["make"], "limits": {"cpus": 2}}}"#,
        ),
        user(
            r#"{"normal": {"deny_write_paths": ["two", "!one"], "allowed_exec_command": ["npm"], "limits": {"cpus": 8, "processes": 9}}}"#,
        ),
        workspace(r#"{"normal": {"deny_write_paths": ["three"]}}"#, Trust::Trusted),
    ];
    let policy = compile(&sources, "normal");
    for path in ["one", "two", "three"] {
        assert_eq!(short(&decide(&policy, Level::Moderate, write(path))), "deny 1", "{path}");
    }
    assert_eq!(answer(&policy, "make"), "pass 7");
    assert_eq!(answer(&policy, "npm test"), "check 9");
    assert_eq!(policy.limits(), Limits { cpus: Some(2), processes: Some(9), ..Limits::default() });
}

#[test]
fn the_chosen_mode_beats_the_profile_but_no_stricter_managed_one() {
    let mode = |sources: &[Source], chosen| {
        compile_as(sources, "normal", chosen, Dialect::default()).unwrap().mode()
    };
    let user = user(r#"{"normal": {"mode": "ask_always"}}"#);
    assert_eq!(mode(std::slice::from_ref(&user), None), Mode::AskAlways);
    assert_eq!(mode(&[user], Some(Mode::FullAuto)), Mode::FullAuto);
    let managed = managed(r#"{"normal": {"mode": "smart_auto"}}"#);
    assert_eq!(mode(std::slice::from_ref(&managed), Some(Mode::FullAuto)), Mode::SmartAuto);
    assert_eq!(mode(&[managed], Some(Mode::AskAlways)), Mode::AskAlways);
}

#[test]
fn a_mode_for_the_whole_run_makes_no_profile_laxer() {
    let mode = |sources: &[Source], chosen| {
        compile_as(sources, "normal", chosen, Dialect::default()).unwrap().mode()
    };
    let whole = |source: Source, mode| Source { mode: Some((mode, Origin::BuiltIn)), ..source };
    let strict = || user(r#"{"normal": {"mode": "ask_always"}}"#);
    let none = r"{}";
    for lax in [Mode::FullAuto, Mode::SmartAuto] {
        assert_eq!(mode(&[whole(managed(none), lax), strict()], None), Mode::AskAlways);
        assert_eq!(mode(&[strict(), whole(workspace(none, Trust::Untrusted), lax)], None), Mode::AskAlways);
    }
    // The built-in mode counts like a profile's mode, even if no file names one.
    assert_eq!(mode(&[whole(managed(none), Mode::FullAuto)], None), Mode::SmartAuto);
    assert_eq!(mode(&[whole(workspace(none, Trust::Untrusted), Mode::FullAuto)], None), Mode::SmartAuto);
    // Controls: a stricter mode counts, whatever was chosen; so does a laxer one that an
    // administrator writes into the profile.
    assert_eq!(mode(&[whole(managed(none), Mode::AskAlways)], Some(Mode::FullAuto)), Mode::AskAlways);
    let asking = whole(workspace(none, Trust::Untrusted), Mode::AskAlways);
    assert_eq!(mode(&[asking], Some(Mode::FullAuto)), Mode::AskAlways);
    assert_eq!(mode(&[managed(r#"{"normal": {"mode": "full_auto"}}"#)], None), Mode::FullAuto);
    let both = whole(managed(r#"{"normal": {"mode": "smart_auto"}}"#), Mode::FullAuto);
    assert_eq!(mode(&[both], None), Mode::SmartAuto);
}

const WORKSPACE_FILE: &str = r#"{
  "normal": {
    "allowed_read_paths": ["/"], "allowed_write_paths": ["/"], "allowed_exec_command": ["rm"], "allowed_hosts": ["*"],
    "deny_read_paths": ["private/", "!.env"], "deny_write_paths": ["*.lock"], "deny_exec_command": ["npm publish"],
    "deny_hosts": ["evil.org"], "mode": "ask_always", "dangerous": "ask", "undoable": "pass", "strict": true, "isolation": "landlock",
    "deny_ignore_case": true, "limits": {"cpus": 1, "processes": 100}
  },
  "loose": {"inherit": "normal", "strict": false, "deny_ignore_case": false}
}"#;

#[test]
fn an_untrusted_workspace_file_can_only_tighten() {
    let own = r#"{"normal": {"limits": {"cpus": 4, "processes": 10}}}"#;
    let sources = [user(own), workspace(WORKSPACE_FILE, Trust::Untrusted)];
    let policy = compile_as(&sources, "normal", Some(Mode::FullAuto), Dialect::default()).unwrap();
    assert_eq!(policy.mode(), Mode::AskAlways);
    assert!(policy.strict());
    assert_eq!(policy.isolation(), Isolation::Auto);
    assert_eq!((policy.limits().cpus, policy.limits().processes), (Some(1), Some(10)));
    // A limit that the user's own files do not name has its built-in value, and another file cannot
    // raise it.
    let limits = |processes| Limits { processes, ..Limits::default() };
    let own = r#"{"normal": {"limits": {"cpus": 4}}}"#;
    for (built_in, holds) in [(50, 50), (500, 100)] {
        let sources = [user(own), workspace(WORKSPACE_FILE, Trust::Untrusted)];
        let policy = compile_as(&sources, "normal", None, Dialect::default()).unwrap();
        assert_eq!(policy.limits_over(limits(Some(built_in))).processes, Some(holds));
    }
    for effect in [
        read("private/x"),
        read(".env"),
        read("x.pem"),
        write("a.lock"),
        read("Private/x"),
        write("A.LOCK"),
        run("npm publish"),
        connect("evil.org"),
    ] {
        assert_eq!(short(&decide(&policy, Level::Moderate, effect.clone())), "deny 1", "{effect:?}");
    }
    assert_eq!(answer(&policy, "rm -rf /"), "deny 2");
    assert_eq!(policy.roots().len(), 1);
    let keys: Vec<&str> = policy.warnings().iter().map(|warning| warning.key).collect();
    assert_eq!(
        keys,
        [
            "inherit",
            "strict",
            "deny_ignore_case",
            "allowed_read_paths",
            "allowed_write_paths",
            "allowed_exec_command",
            "allowed_hosts",
            "dangerous",
            "undoable",
            "isolation"
        ]
    );
    assert!(policy.warnings()[0].to_string().contains("/w/project/handfast.yaml"));
    let chosen = compile_as(&sources, "loose", None, Dialect::default());
    assert!(matches!(chosen, Err(PolicyError::UnknownProfile { .. })));
}

#[test]
fn an_isolation_counts_if_its_file_is_trusted_or_if_it_is_the_strictest() {
    let named = |isolation: &str| {
        format!(r#"{{"normal": {{"isolation": "{isolation}", "allowed_read_paths": ["./src"]}}}}"#)
    };
    let of = |sources: &[Source]| compile(sources, "normal").isolation();
    assert_eq!(of(&[]), Isolation::Auto);
    for isolation in Isolation::ALL {
        let name = named(isolation.as_str());
        assert_eq!(of(&[user(&name)]), isolation);
        assert_eq!(of(&[managed(&name)]), isolation);
        assert_eq!(of(&[workspace(&name, Trust::Trusted)]), isolation);
        let untrusted = workspace(&name, Trust::Untrusted);
        let counts = isolation == Isolation::Namespaces;
        for own in Isolation::ALL {
            let sources = [user(&named(own.as_str())), untrusted.clone()];
            assert_eq!(of(&sources), if counts { isolation } else { own }, "{own:?} and {isolation:?}");
            // The administrator's choice counts if it is stricter.
            assert_eq!(of(&[managed(&name), user(&named(own.as_str()))]), own.max(isolation));
        }
        let warnings = compile(&[untrusted], "normal").warnings().to_vec();
        let told = warnings.iter().any(|warning| warning.key == "isolation" && !warning.narrows);
        assert_eq!(told, !counts, "{warnings:?}");
    }
}

#[test]
fn the_same_file_counts_once_it_is_trusted() {
    let policy = compile(&[workspace(WORKSPACE_FILE, Trust::Trusted)], "normal");
    assert_eq!(policy.warnings(), []);
    assert_eq!(answer(&policy, "rm -rf /"), "check 2");
    assert!(policy.allows_hosts());
    assert_eq!(policy.roots().len(), 2);
}

#[test]
fn an_untrusted_laxer_mode_or_limit_changes_nothing() {
    let lax = r#"{"normal": {"mode": "full_auto", "limits": {"cpus": 64}}}"#;
    let own = r#"{"normal": {"mode": "smart_auto", "limits": {"cpus": 2}}}"#;
    let policy = compile(&[user(own), workspace(lax, Trust::Untrusted)], "normal");
    assert_eq!((policy.mode(), policy.limits().cpus), (Mode::SmartAuto, Some(2)));
}
