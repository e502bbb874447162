//! `handfast doctor`: it reports the guarantees that hold on this machine, in the words of the
//! pages that promise them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Fixture, repository};

/// Guarantees of `docs/GUARANTEES.md` about commands that no single attempt can try, because the
/// guarantees concern elapsed time, other users, rules, or whole toolchains. Other tests check them.
const NOT_TRIED: [&str; 27] = [
    "auto-run-git",
    "auto-run-held",
    "auto-run-led",
    "auto-run-watched",
    "command-any-user",
    "command-bad-input",
    "command-ends-with-handfast",
    "command-toolchains",
    "denied-files-kept-known",
    "denied-files-of-system",
    "denied-files-watched",
    "denied-program-closed",
    "doctor-tries",
    "git-beside-hidden-files",
    "held-named",
    "hidden-files-told",
    "home-bounded",
    "hosts-bounded",
    "hosts-held",
    "hosts-held-bounded",
    "hosts-one-name",
    "hosts-public",
    "hosts-reached",
    "no-group-left",
    "no-network-said",
    "programs-work",
    "search-path-keeps-out",
];

/// Returns the names of the guarantees, of all sections or of one.
fn promises(section: Option<&str>) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("docs/GUARANTEES.md")).unwrap();
    let mut heading = "";
    let mut names = Vec::new();
    for line in text.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let name = line.strip_prefix("| `").and_then(|rest| rest.split_once("` | "));
        if let Some((name, _)) = name.filter(|_| section.is_none_or(|section| section == heading)) {
            names.push(name.to_owned());
        }
    }
    names
}

fn findings(fixture: &Fixture) -> (i32, Vec<Value>) {
    let run = fixture.run(&["doctor", "--json"]);
    assert!(!run.stdout.contains(r"\t"), "a control character in a finding: {}", run.stdout);
    (run.code, run.json().as_array().unwrap().clone())
}

#[test]
fn doctor_finds_the_promises_kept_on_a_machine_that_can() {
    let (code, findings) = findings(&Fixture::new());
    for finding in findings.iter().filter(|finding| !finding["promise"].is_null()) {
        assert_eq!(finding["verdict"], "holds", "{finding:#}");
    }
    assert_eq!(code, 0);
    assert!(findings.len() > 25, "{findings:#?}");
}

#[test]
fn doctor_and_the_page_of_guarantees_speak_of_the_same_promises() {
    let all = promises(None);
    let names: BTreeSet<&String> = all.iter().collect();
    assert_eq!(names.len(), all.len(), "a name stands twice on the page");
    let (_, findings) = findings(&Fixture::new());
    let tried: BTreeSet<String> =
        findings.iter().filter_map(|finding| Some(finding["promise"].as_str()?.to_owned())).collect();
    for promise in &tried {
        assert!(names.contains(promise), "`{promise}` is not on the page");
    }
    let commands: BTreeSet<String> = promises(Some("Commands")).into_iter().collect();
    let expected: BTreeSet<String> =
        commands.into_iter().filter(|name| !NOT_TRIED.contains(&name.as_str())).collect();
    let missing: Vec<_> = expected.difference(&tried).collect();
    assert!(missing.is_empty(), "promised of commands, and not tried: {missing:?}");
}

#[test]
fn doctor_names_the_change_whose_saved_files_are_damaged() {
    let fixture = Fixture::with_files(&[("a", "one"), ("b", "two")]);
    let result = fixture.call("shell_execute", json!({"command": "rm a b"}));
    let id = result["meta"]["checkpoint"].as_str().unwrap();
    let saved = |fixture: &Fixture| {
        let (code, findings) = findings(fixture);
        (code, findings.into_iter().find(|finding| finding["name"] == "saved-files").unwrap())
    };
    let (_, whole) = saved(&fixture);
    assert_eq!(whole["verdict"], "holds", "{whole:#}");
    assert!(whole["detail"].as_str().unwrap().starts_with("2 saved files"), "{whole:#}");
    let blobs = fixture.state().join("blobs");
    let files = std::fs::read_dir(blobs)
        .unwrap()
        .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let packs: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
        .collect();
    assert_eq!(packs.len(), 1);
    std::fs::write(&packs[0], "damaged").unwrap();
    let (code, damaged) = saved(&fixture);
    assert_eq!((code, &damaged["verdict"]), (1, &json!("fails")), "{damaged:#}");
    assert!(damaged["detail"].as_str().unwrap().contains(&format!("{id} (2)")), "{damaged:#}");
}

#[test]
fn doctor_fails_where_no_cell_can_be_had_and_leaves_nothing_behind() {
    let fixture = Fixture::new();
    // A user namespace in which no further one can be made simulates a host that forbids them.
    let script = r#"echo 0 > /proc/sys/user/max_user_namespaces && exec "$@""#;
    let folder = fixture.outside().join("temporary");
    std::fs::create_dir(&folder).unwrap();
    let doctor = |wrapper: &[&str]| {
        let own = fixture.command();
        let (program, arguments) = wrapper.split_first().unwrap();
        std::process::Command::new(program)
            .args(arguments)
            .arg(own.get_program())
            .args(own.get_args())
            .args(["doctor", "--json"])
            .env("TMPDIR", &folder)
            .env("HOME", fixture.home())
            .output()
            .unwrap()
    };
    let output = doctor(&["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"]);
    assert_eq!(output.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cell = findings.as_array().unwrap().iter().find(|finding| finding["name"] == "cell").unwrap();
    assert_eq!(cell["verdict"], "fails");
    assert!(cell["hint"].as_str().unwrap().contains("user.max_user_namespaces"), "{cell:#}");
    // The control: the same check where namespaces are available.
    assert_eq!(doctor(&["env"]).status.code(), Some(0));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn doctor_marks_each_test_and_says_what_is_not_promised() {
    let run = Fixture::new().run(&["doctor"]);
    let marks = |name: &str| {
        run.stdout.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let mark = words.next()?;
            (words.next() == Some(name)).then_some(mark)
        })
    };
    assert_eq!(marks("host-loopback"), Some("ok"), "{}", run.stdout);
    // A missing property that is not promised is reported, and is no failure.
    assert_eq!(marks("denied-file-other-name"), Some("no"), "{}", run.stdout);
    assert!(run.stdout.contains("denied-file-other-name: this is not promised"), "{}", run.stdout);
    assert_eq!(run.code, 0);
}
