//! Programs to which the user's own `PATH` leads, as commands find and run them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Fixture, Run};

/// Puts a program into the home.
pub(crate) fn program(fixture: &Fixture, path: &str, content: &str) -> PathBuf {
    let path = file(fixture, path, content);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Puts a file into the home.
pub(crate) fn file(fixture: &Fixture, path: &str, content: &str) -> PathBuf {
    let path = fixture.home().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

pub(crate) fn configure(fixture: &Fixture, content: &str) {
    file(fixture, ".config/handfast/config.yaml", content);
}

/// Returns a `PATH` of these folders of the home, before the system's.
pub(crate) fn path_of(fixture: &Fixture, folders: &[&str]) -> String {
    let own = folders.iter().map(|folder| fixture.home().join(folder).display().to_string());
    own.chain(["/usr/bin".to_owned(), "/bin".to_owned()]).collect::<Vec<_>>().join(":")
}

pub(crate) fn shell(fixture: &Fixture, variables: &[(&str, &str)], line: &str) -> Value {
    let arguments = json!({ "command": line }).to_string();
    let run: Run = fixture.run_with(variables, &["call", "--yes", "shell_execute", &arguments]);
    run.json()
}

/// Returns the output of a command with this `PATH`.
#[track_caller]
pub(crate) fn output(fixture: &Fixture, path: &str, line: &str) -> String {
    let result = shell(fixture, &[("PATH", path)], line);
    assert_eq!(result["ok"], true, "{result:#}");
    let text = |name: &str| result["data"][name].as_str().unwrap().to_owned();
    text("stdout") + &text("stderr")
}

/// Builds a home with an installation as a user unpacks it: a program that finds its library from its
/// real place.
fn installed() -> Fixture {
    let fixture = Fixture::new();
    program(
        &fixture,
        "tools/demo-1.2/bin/demo",
        "#!/bin/sh\nhere=$(dirname \"$(readlink -f \"$0\")\")\n. \"$here/../lib/demo/greet.sh\"\ngreet \"$1\"\n",
    );
    file(&fixture, "tools/demo-1.2/lib/demo/greet.sh", "greet() { echo \"demo greets $1\"; }\n");
    file(&fixture, "tools/demo-1.2/etc/demo.conf", "loud\n");
    fixture
}

#[test]
fn a_program_runs_with_the_files_of_its_installation_and_only_if_path_leads_there() {
    let fixture = installed();
    let path = path_of(&fixture, &["tools/demo-1.2/bin"]);
    let place = fixture.home().join("tools/demo-1.2");
    assert_eq!(output(&fixture, &path, "demo you"), "demo greets you\n");
    assert_eq!(output(&fixture, &path, "command -v demo"), format!("{}/bin/demo\n", place.display()));
    assert_eq!(output(&fixture, &path, &format!("cat {}/etc/demo.conf", place.display())), "loud\n");
    // The folder is read-only.
    let written = output(&fixture, &path, &format!("echo x > {}/bin/new || echo no", place.display()));
    assert!(written.contains("Read-only") && written.contains("no\n"), "{written}");
    assert!(!place.join("bin/new").exists());
    // The control: without the entry of `PATH` nothing of it is there.
    let result = shell(&fixture, &[("PATH", "/usr/bin:/bin")], &format!("ls {}; demo you", place.display()));
    assert_eq!(result["data"]["exit_code"], 127, "{result:#}");
    assert_eq!(result["data"]["stdout"], "", "{result:#}");
}

#[test]
fn links_and_interpreters_are_followed_to_where_a_program_really_lies() {
    let fixture = installed();
    let home = fixture.home();
    // A link over two folders, to a program whose interpreter lies in a third one.
    program(
        &fixture,
        "apps/chain-2/bin/chain",
        &format!("#!{}\nfrom the chain\n", home.join("python/bin/interpreter").display()),
    );
    file(&fixture, "apps/chain-2/lib/x", "");
    program(
        &fixture,
        "python/real/bin/interpreter-3",
        "#!/bin/sh\necho \"$(cat \"$1\" | tail -n 1), $(cat \"$(dirname \"$0\")/../lib/version\")\"\n",
    );
    file(&fixture, "python/real/lib/version", "version 3\n");
    fs::create_dir_all(home.join("python/bin")).unwrap();
    symlink("../real/bin/interpreter-3", home.join("python/bin/interpreter")).unwrap();
    fs::create_dir_all(home.join(".local/opt")).unwrap();
    fs::create_dir_all(home.join(".local/bin")).unwrap();
    symlink(home.join("apps/chain-2/bin/chain"), home.join(".local/opt/chain")).unwrap();
    symlink("../opt/chain", home.join(".local/bin/chain")).unwrap();
    // A program without an installation, and the diary next to it.
    program(&fixture, "downloads/single", "#!/bin/sh\necho single\n");
    file(&fixture, "downloads/diary", "dear diary");
    symlink(home.join("downloads/single"), home.join(".local/bin/single")).unwrap();
    let path = path_of(&fixture, &[".local/bin"]);
    let said = output(&fixture, &path, "chain");
    assert!(said.starts_with("from the chain, "), "{said}");
    assert_eq!(output(&fixture, &path, "single"), "single\n");
    let listed = output(&fixture, &path, &format!("ls {}", home.join("downloads").display()));
    assert_eq!(listed, "single\n");
}

#[test]
fn a_folder_that_path_names_through_links_is_there_under_its_name() {
    let fixture = installed();
    let home = fixture.home();
    symlink("tools/demo-1.2", home.join("current")).unwrap();
    fs::create_dir(home.join("elsewhere")).unwrap();
    symlink("../tools/demo-1.2/bin", home.join("elsewhere/programs")).unwrap();
    for (entry, program) in [
        ("current/bin", "current/bin/demo"),
        ("elsewhere/programs", "elsewhere/programs/demo"),
        ("./tools//demo-1.2/bin/", "tools/demo-1.2/bin/demo"),
        ("elsewhere/../current/bin", "tools/demo-1.2/bin/demo"),
    ] {
        let path = path_of(&fixture, &[entry]);
        let found = output(&fixture, &path, "demo me; command -v demo");
        assert_eq!(found, format!("demo greets me\n{}\n", home.join(program).display()), "{entry}");
    }
    let path = path_of(&fixture, &["current/bin"]);
    let beside = output(&fixture, &path, &format!("cat {}", home.join("current/etc/demo.conf").display()));
    assert_eq!(beside, "loud\n");
}

#[test]
fn variables_that_name_a_shown_installation_are_passed_and_no_others() {
    let fixture = installed();
    let home = fixture.home();
    file(&fixture, "private/lib/x", "");
    let path = path_of(&fixture, &["tools/demo-1.2/bin"]);
    let [demo, private] = ["tools/demo-1.2", "private"].map(|folder| home.join(folder).display().to_string());
    let variables = [
        ("PATH", &*path),
        ("DEMO_HOME", &demo),
        ("DEMO_LIB_DIR", &format!("{demo}/lib")),
        ("JAVA_HOME", "/usr/lib"),
        ("PRIVATE_HOME", &private),
        ("ABSENT_HOME", "/no/such/folder"),
        ("DEMO_TOKEN_DIR", &demo),
        ("GIT_DIR", &demo),
        ("LD_LIBRARY_PATH", &demo),
    ];
    let result = shell(&fixture, &variables, "env | cut -d= -f1 | grep -E 'HOME|DIR|LD_' | sort");
    let names: Vec<&str> = result["data"]["stdout"].as_str().unwrap().lines().collect();
    let passed: Vec<&&str> =
        names.iter().filter(|name| variables.iter().any(|(known, _)| known == *name)).collect();
    assert_eq!(passed, [&"DEMO_HOME", &"DEMO_LIB_DIR", &"JAVA_HOME"], "{result:#}");
    let told = shell(&fixture, &variables, "cat $DEMO_HOME/etc/demo.conf");
    assert_eq!(told["data"]["stdout"], "loud\n", "{told:#}");
}

#[test]
fn a_listed_folder_is_shown_and_its_programs_are_found_without_path() {
    let fixture = installed();
    configure(&fixture, "toolchains: [~/tools/demo-1.2, ~/absent]\n");
    assert_eq!(output(&fixture, "/usr/bin:/bin", "demo list"), "demo greets list\n");
    // An invalid name is an error of the configuration, and one of the workspace's file is ignored.
    configure(&fixture, "toolchains: [tools/demo-1.2]\n");
    let wrong = fixture.run(&["call", "shell_execute", r#"{"command": "true"}"#]);
    assert!(
        wrong.stderr.contains("`toolchains`: tools/demo-1.2 must be an absolute path"),
        "{}",
        wrong.stderr
    );
    configure(&fixture, "{}\n");
    let listed = format!("toolchains: ['{}']\n", fixture.home().join("tools/demo-1.2").display());
    fixture.write("handfast.yaml", &listed);
    fixture.run(&["trust", "--yes"]);
    let result = shell(&fixture, &[("PATH", "/usr/bin:/bin")], "demo list");
    assert_eq!(result["data"]["exit_code"], 127, "{result:#}");
}

/// Returns the warnings of a command with this `PATH`.
fn warnings(fixture: &Fixture, path: &str, line: &str) -> Vec<String> {
    let result = shell(fixture, &[("PATH", path)], line);
    let warnings = result["meta"]["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_first_missing_program_of_a_call_is_told_with_what_shows_it() {
    let fixture = Fixture::new();
    let home = fixture.home();
    program(&fixture, "open/bin/tool", "#!/bin/sh\n");
    fs::set_permissions(home.join("open/bin"), fs::Permissions::from_mode(0o777)).unwrap();
    program(&fixture, ".cargo/bin/late", "#!/bin/sh\n");
    fixture.write("own/bin/mine", "#!/bin/sh\n");
    let mine = fixture.workspace().join("own/bin/mine");
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o755)).unwrap();
    let path =
        format!("{}:{}", fixture.workspace().join("own/bin").display(), path_of(&fixture, &["open/bin"]));
    let told = warnings(&fixture, &path, "tool | cat; mine");
    assert_eq!(told.len(), 1, "{told:?}");
    let open = home.join("open/bin").display().to_string();
    assert!(told[0].starts_with(&format!("`tool` is in {open} of `PATH`")), "{told:?}");
    assert!(told[0].contains("every user") && told[0].contains("chmod o-w"), "{told:?}");
    let told = warnings(&fixture, &path, "env mine");
    assert!(told[0].contains("because calls can write there; name its programs by their paths"), "{told:?}");
    let told = warnings(&fixture, &path, "late");
    assert!(told[0].contains(&format!("but {} is", home.join(".cargo/bin/late").display())), "{told:?}");
    // A command without a shell has the advice as the hint of its error.
    let arguments = json!({ "command": "tool", "argv": ["x"] }).to_string();
    let result = fixture.run_with(&[("PATH", &path)], &["call", "--yes", "shell_execute", &arguments]).json();
    assert!(result["error"]["hint"].as_str().unwrap().contains("chmod o-w"), "{result:#}");
    // The controls: a program that exists nowhere, and one that is found, are not told.
    assert_eq!(warnings(&fixture, &path, "nowhere-at-all"), [] as [String; 0]);
    assert_eq!(warnings(&fixture, &path, "ls"), [] as [String; 0]);
}

#[test]
fn doctor_says_which_folders_of_path_commands_see_and_what_shows_the_others() {
    let fixture = installed();
    let home = fixture.home();
    program(&fixture, "open/bin/tool", "#!/bin/sh\n");
    fs::set_permissions(home.join("open/bin"), fs::Permissions::from_mode(0o777)).unwrap();
    program(&fixture, "plain/bin/tool", "#!/bin/sh\n");
    file(&fixture, "plain/diary", "");
    let path = format!("relative:{}", path_of(&fixture, &["tools/demo-1.2/bin", "open/bin", "plain/bin"]));
    let finding = |path: &str| {
        let findings = fixture.run_with(&[("PATH", path)], &["doctor", "--json"]).json();
        findings.as_array().unwrap().iter().find(|finding| finding["name"] == "search-path").unwrap().clone()
    };
    let found = finding(&path);
    assert_eq!(
        (&found["verdict"], &found["promise"]),
        (&json!("holds"), &json!("search-path-shown")),
        "{found:#}"
    );
    let detail = found["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("commands see 4 folders of `PATH`; left out: relative (it is relative"),
        "{detail}"
    );
    let open = home.join("open/bin").display().to_string();
    assert!(detail.contains(&format!("{open} (every user of this machine can write there)")), "{detail}");
    let plain = home.join("plain").display().to_string();
    assert!(detail.contains(&format!("without the files around them: {plain}/bin")), "{detail}");
    let hint = found["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("{open}: take the right to write")), "{hint}");
    assert!(hint.contains(&format!("`toolchains: [{plain}]` in")), "{hint}");
    // The control: nothing is said about an ordinary path.
    let found = finding("/usr/bin:/bin");
    assert_eq!(
        (&found["detail"], &found["hint"]),
        (&json!("commands see 2 folders of `PATH`"), &Value::Null)
    );
}

#[test]
fn known_places_keep_working_where_path_names_a_part_of_them() {
    let fixture = Fixture::new();
    program(
        &fixture,
        ".nvm/versions/node/v22/bin/nodelike",
        "#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/x\"\n",
    );
    file(&fixture, ".nvm/versions/node/v22/lib/x", "library\n");
    file(&fixture, ".nvm/.npmrc", "token");
    let path = path_of(&fixture, &[".nvm/versions/node/v22/bin"]);
    assert_eq!(
        output(&fixture, &path, "nodelike; echo $NVM_DIR"),
        format!("library\n{}\n", fixture.home().join(".nvm").display())
    );
    let hidden =
        output(&fixture, &path, &format!("cat {} || echo no", fixture.home().join(".nvm/.npmrc").display()));
    assert!(hidden.starts_with("no\n"), "{hidden}");
}
