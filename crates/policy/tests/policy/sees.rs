//! Part of the workspace that commands see, if the profile lists it.

use policy::{CommandsSee, Dialect, Policy, Sees};
use tool::Level;

use crate::setting::*;

fn sees(policy: &Policy, path: &str) -> &'static str {
    let entry: std::path::PathBuf = in_workspace(path).components().collect();
    match policy.sees(&entry, path.ends_with('/')) {
        Sees::All => "all",
        Sees::Part => "part",
        Sees::Nothing => "nothing",
    }
}

fn listed(profile: &str) -> Policy {
    compile(&[user(&format!(r#"{{"normal": {{"commands_see": "listed", {profile}}}}}"#))], "normal")
}

#[test]
fn commands_see_what_the_read_list_names_and_the_names_that_lead_there() {
    let policy = listed(r#""allowed_read_paths": ["./src", "docs/public/*.md", "/srv/data"]"#);
    for (path, expected) in [
        ("./", "part"),
        ("src/", "all"),
        ("src/deep/", "all"),
        ("src/deep/a", "all"),
        ("docs/", "part"),
        ("docs/public/", "part"),
        ("docs/public/a.md", "all"),
        ("docs/public/a.txt", "nothing"),
        ("docs/d.md", "nothing"),
        ("docs/other/", "nothing"),
        ("README.md", "nothing"),
        (".git/", "nothing"),
        // Files that programs need to run at all.
        (".venv/bin/pytest", "all"),
        ("node_modules/", "all"),
        ("venv/bin/pytest", "all"),
        ("Makefile", "all"),
        ("Makefile/", "nothing"),
        ("/srv/data/", "all"),
        ("/srv/", "part"),
    ] {
        assert_eq!(sees(&policy, path), expected, "{path}");
    }
    let policy = listed(r#""allowed_read_paths": ["./src", "!src/private", "*.md"]"#);
    for (path, expected) in [
        ("src/", "part"),
        ("src/a", "all"),
        ("src/private/", "part"),
        ("src/private/a", "nothing"),
        ("src/private/a.md", "all"),
        ("other/deep/", "part"),
        ("other/deep/a.md", "all"),
        ("other/deep/a", "nothing"),
    ] {
        assert_eq!(sees(&policy, path), expected, "{path}");
    }
}

#[test]
fn nothing_is_hidden_without_the_key_or_without_a_list() {
    let without_key = compile(&[user(r#"{"normal": {"allowed_read_paths": ["./src"]}}"#)], "normal");
    for policy in [without_key, listed(r#""allowed_write_paths": ["./src"]"#)] {
        assert_eq!([sees(&policy, "docs/"), sees(&policy, "docs/a")], ["all", "all"]);
    }
}

#[test]
fn a_dialect_hides_where_its_profile_names_a_list_and_the_key_says_otherwise_nowhere() {
    let dialect = Dialect { commands_see: CommandsSee::Listed, ..Dialect::default() };
    for (profile, expected) in [
        (r#"{"allowed_read_paths": ["./src"]}"#, "nothing"),
        (r#"{"allowed_read_paths": ["./src"], "commands_see": "workspace"}"#, "all"),
        (r#"{"allowed_write_paths": ["./src"]}"#, "all"),
        ("{}", "all"),
    ] {
        let sources = [user(&format!(r#"{{"normal": {profile}}}"#))];
        let policy = compile_as(&sources, "normal", None, dialect).unwrap();
        assert_eq!(sees(&policy, "docs/a"), expected, "{profile}");
    }
}

#[test]
fn a_call_also_sees_what_it_is_about() {
    let policy = listed(r#""allowed_read_paths": ["./src"], "allowed_exec_command": ["pytest"]"#);
    let more =
        |policy: &Policy, line: &str, approved: bool| policy.seeing_more(&[run(line).into()], approved);
    assert!(more(&policy, "cat docs/a", false).is_none());
    assert!(more(&policy, "git status", false).is_none(), "git is not listed");
    let seeing = more(&policy, "cat docs/a && sh tools/x.sh", true).unwrap();
    for (path, expected) in [
        ("docs/a", "all"),
        ("docs/", "part"),
        ("docs/b", "nothing"),
        ("tools/x.sh", "all"),
        ("tools/y.sh", "nothing"),
    ] {
        assert_eq!(sees(&seeing, path), expected, "{path}");
    }
    assert_eq!(sees(&more(&policy, "ls", true).unwrap(), "docs/a"), "all");
    // The call that was asked about is decided as before.
    let decision = decide(&seeing, Level::Safe, read("docs/a"));
    assert_eq!(short(&decision), "check 6");
    let git = listed(r#""allowed_read_paths": ["./src"], "allowed_exec_command": ["git"]"#);
    assert_eq!(sees(&more(&git, "git add -A && git commit -m x", false).unwrap(), "docs/a"), "all");
    assert!(more(&git, "git status; cat docs/a", false).is_none());
}
