//! Path patterns and the questions that guards ask.

use std::path::Path;

use policy::{Mode, PathVerdict, Policy};
use tool::{Access, Level};

use crate::setting::*;

fn denying(patterns: &str) -> Policy {
    normal(&format!(r#"{{"deny_read_paths": {patterns}}}"#), Mode::SmartAuto)
}

fn is_denied(policy: &Policy, path: &str) -> bool {
    matches!(policy.path_verdict(Access::Read, &in_workspace(path)), PathVerdict::Denied(_))
}

#[test]
fn a_pattern_without_inner_slash_matches_at_any_depth_and_all_below() {
    let policy = denying(r#"["secrets", "*.key"]"#);
    for path in
        ["secrets", "a/secrets", "a/secrets/b/c", "x.key", "a/b.key", "d.key/inside", "/srv/secrets/x"]
    {
        assert!(is_denied(&policy, path), "{path}");
    }
    for path in ["secrets2", "asecrets", "x.keys", "key", "."] {
        assert!(!is_denied(&policy, path), "{path}");
    }
}

#[test]
fn an_anchored_pattern_matches_at_its_place_alone() {
    let policy = denying(r#"["./top", "a/b", "/etc/shadow", "~/.ssh", "docs/**/x", "one/*.txt"]"#);
    for path in
        ["top", "top/x", "a/b/c", "/etc/shadow", "/home/ann/.ssh/id", "docs/x", "docs/p/q/x", "one/a.txt"]
    {
        assert!(is_denied(&policy, path), "{path}");
    }
    for path in ["x/top", "x/a/b", "a", "/etc", "/home/bob/.ssh", "one/two/a.txt"] {
        assert!(!is_denied(&policy, path), "{path}");
    }
}

#[test]
fn the_last_entry_that_matches_decides() {
    let policy = denying(r#"["*.env", "!good.env", "sub/good.env"]"#);
    assert!(is_denied(&policy, "x.env"));
    assert!(!is_denied(&policy, "good.env"));
    assert!(is_denied(&policy, "sub/good.env"));
}

#[test]
fn case_is_ignored_where_the_profile_says_so_and_only_in_what_is_denied() {
    let profile = |ignore: bool| {
        let text = format!(
            r#"{{"deny_read_paths": ["*.pem", "Straße", "!ok.pem", "./A/b", "/srv/Keys", "[a-c]1"],
                "allowed_read_paths": [".", "/srv"], "deny_ignore_case": {ignore}}}"#
        );
        normal(&text, Mode::SmartAuto)
    };
    let (exact, ignoring) = (profile(false), profile(true));
    for path in
        ["x.PEM", "d/STRASSE/x", "a/B", "/srv/KEYS/x", "OK.PEM", "B1", "\u{fb01}le.PeM", "x.p\u{200b}em"]
    {
        assert!(!is_denied(&exact, path), "{path}");
        assert!(is_denied(&ignoring, path), "{path}");
        let cat = format!("cat '{}'", in_workspace(path).display());
        // The parsers do not read an invisible character, so a human is asked.
        let expected = if path.contains('\u{200b}') { "check 9" } else { "deny 1" };
        assert_eq!(answer(&ignoring, &cat), expected, "{cat}");
    }
    for path in ["ok.pem", "x.pen", "strase", "d1", "/Srv/x"] {
        assert!(!is_denied(&ignoring, path), "{path}");
    }
    // The list also covers paths that a shell's glob could stand for, the names in a folder, and
    // removals of a folder.
    let keys = r#"{"deny_read_paths": ["*.pem"], "deny_ignore_case": true}"#;
    assert_eq!(answer(&denying(r#"["*.pem"]"#), "cat *.PE?"), "pass 7");
    assert_eq!(answer(&normal(keys, Mode::SmartAuto), "cat *.PE?"), "check 9");
    assert!(!ignoring.readable_names(&in_workspace("d")).is_allowed("k.PEM".as_ref()));
    assert!(ignoring.readable_names(&in_workspace("d")).is_allowed("k.txt".as_ref()));
    assert_eq!(short(&decide(&ignoring, Level::Destructive, delete("/SRV"))), "deny 1");
    // An allowed path in another case is not allowed.
    let verdict = ignoring.path_verdict(Access::Read, Path::new("/SRV/x"));
    assert_eq!(verdict, PathVerdict::Outside);
}

#[test]
fn a_final_slash_means_folders() {
    let policy = denying(r#"["build/"]"#);
    let denied = policy.denied_reads();
    assert!(denied.is_denied(&in_workspace("build"), true));
    assert!(denied.is_denied(&in_workspace("a/build/x"), false));
    assert!(!denied.is_denied(&in_workspace("build"), false));
    // If the kind is unknown, the stricter reading counts.
    assert!(is_denied(&policy, "build"));
}

#[test]
fn floating_patterns_do_not_look_above_the_workspace() {
    let setup = policy::Setup {
        sources: &[user(r#"{"normal": {"deny_read_paths": ["w", "*.key"]}}"#)],
        profile: "normal",
        mode: None,
        dialect: policy::Dialect::default(),
        workspace: Path::new("/w/my.key"),
        home: None,
        protected: &[],
        closed: &[],
        programs: policy::Programs::Presumed,
        tools: &[],
    };
    let policy = Policy::compile(&setup).unwrap();
    let verdict = |path: &str| policy.path_verdict(Access::Read, Path::new(path));
    assert_eq!(verdict("/w/my.key/src/x"), PathVerdict::Workspace);
    assert!(matches!(verdict("/w/my.key/src/w"), PathVerdict::Denied(_)));
}

#[test]
fn an_allowed_floating_pattern_stays_in_the_workspace() {
    let policy = normal(r#"{"allowed_write_paths": ["src"]}"#, Mode::SmartAuto);
    let verdict = |path: &str| policy.path_verdict(Access::Write, &in_workspace(path));
    assert!(matches!(verdict("a/src/x"), PathVerdict::Listed(_)));
    assert_eq!(verdict("/srv/src/x"), PathVerdict::Outside);
    assert_eq!(policy.roots().len(), 1);
}

#[test]
fn roots_are_the_literal_beginnings_with_their_rights() {
    let json = r#"{"allowed_read_paths": ["~/docs", "/data/*.csv", "./src", "../side"], "allowed_write_paths": ["~/docs", "/out/**"]}"#;
    let policy = normal(json, Mode::SmartAuto);
    let roots: Vec<_> = policy
        .roots()
        .iter()
        .map(|root| (root.path.to_str().unwrap(), root.read, root.write, root.whole))
        .collect();
    assert_eq!(
        roots,
        [
            ("/w/project", true, true, true),
            ("/home/ann/docs", true, true, true),
            ("/data", true, false, false),
            ("/w/side", true, false, true),
            ("/out", false, true, false),
        ]
    );
}

#[test]
fn names_that_are_no_text_are_matched_too() {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"a\xff.key");
    let policy = denying(r#"["*.key"]"#);
    assert!(matches!(
        policy.path_verdict(Access::Read, &Path::new(WORKSPACE).join(name)),
        PathVerdict::Denied(_)
    ));
}

#[test]
fn a_pattern_with_escaped_characters_means_them() {
    let policy = denying(r#"["./a[*]b", "./[?]"]"#);
    assert!(is_denied(&policy, "a*b"));
    assert!(is_denied(&policy, "?"));
    assert!(!is_denied(&policy, "axb"));
}

#[test]
fn a_workspace_below_a_system_folder_is_no_system_folder() {
    let setup = policy::Setup {
        sources: &[user(r#"{"normal": {"allowed_read_paths": ["./src"]}}"#)],
        profile: "normal",
        mode: None,
        dialect: policy::Dialect::default(),
        workspace: Path::new("/tmp/project"),
        home: None,
        protected: &[],
        closed: &[],
        programs: policy::Programs::Presumed,
        tools: &[],
    };
    let policy = Policy::compile(&setup).unwrap();
    let ask = |line: &str| {
        let command = tool::CommandLine::Shell(line.to_owned());
        let effect = tool::Effect::Run { command, directory: "/tmp/project".into() };
        short(&decide(&policy, tool::Level::Destructive, effect))
    };
    assert_eq!(ask("cat /tmp/project/README.md"), "check 6");
    assert_eq!(ask("cat /tmp/project/src/x"), "pass 7");
    assert_eq!(ask("cat /tmp/other"), "pass 7");
}
