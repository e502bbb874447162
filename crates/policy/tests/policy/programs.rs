//! Lookup of the programs of a line: a rule for a name covers the program that the search path
//! leads to, and no other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{Dialect, Mode, Origin, Policy, ProgramFile, Programs, Setup};

use crate::setting::*;

/// Creates a policy with a search path in which `/opt/tools` is a folder that commands write, and
/// `bin` of the workspace comes first.
fn policy(json: &str) -> Policy {
    let find = |name: &str, of_project: &[PathBuf]| {
        // Programs of the project, one of which has the name of a reader.
        if let Some(folder) = of_project.first().filter(|_| ["pytest", "wc"].contains(&name)) {
            let path = folder.join(name);
            return Some(ProgramFile { path, in_writable_place: true, of_project: true, is_launcher: false });
        }
        let (folder, in_writable_place) = match name {
            "ls" | "cat" | "env" | "timeout" | "xargs" | "find" | "git" | "bash" | "head" => {
                ("/usr/bin", false)
            }
            "python3" => ("/home/user/.asdf/shims", false),
            "nice" | "grep" => ("/w/project/bin", false),
            "sort" | "stdbuf" | "protoc" => ("/opt/tools", true),
            _ => return None,
        };
        let is_launcher = name == "python3";
        let path = Path::new(folder).join(name);
        Some(ProgramFile { path, in_writable_place, of_project: false, is_launcher })
    };
    let source = user(&format!(r#"{{"normal": {json}}}"#));
    Policy::compile(&Setup {
        sources: &[source],
        profile: "normal",
        mode: Some((Mode::SmartAuto, Origin::CommandLine)),
        dialect: Dialect::default(),
        workspace: Path::new(WORKSPACE),
        home: Some(Path::new(HOME)),
        protected: &[PathBuf::from(STATE)],
        closed: &[],
        programs: Programs::Found(Arc::new(find)),
        tools: &[],
    })
    .unwrap()
}

#[test]
fn a_rule_for_a_name_covers_the_program_of_the_search_path_alone() {
    let policy =
        policy(r#"{"allowed_exec_command": ["protoc", "ls", "grep", "absent"], "undoable": "table"}"#);
    for line in [
        "ls -l",
        "/usr/bin/ls -l",
        "timeout 5 cat x",
        "env LANG=C ls",
        "find . -name '*.rs' | xargs cat",
        "git status",
    ] {
        assert_eq!(answer(&policy, line), "pass 7", "{line}");
    }
    for line in [
        "./ls",
        "bin/ls",
        "/bin/ls",
        "/usr/bin/../bin/ls",
        "/w/project/ls",
        // The workspace comes before the system in the search path.
        "grep x y",
        "nice ls",
        "cat x | grep y",
        "find . -name '*.rs' -exec grep x {} +",
        "find . -name '*.rs' | xargs grep x",
        // A folder that commands write is in the search path.
        "sort x",
        "protoc lint",
        "stdbuf -oL ls",
        "timeout 5 stdbuf -oL ls",
        "bash -c 'sort x'",
        // There is no program with this name.
        "absent",
        "nohup ls",
        "timeout 5 time ls",
        "tail x",
    ] {
        assert_eq!(answer(&policy, line), "check 9", "{line}");
    }
    assert_eq!(answer(&policy, "time ls"), "pass 7");
}

#[test]
fn a_launcher_is_no_reader_because_files_of_the_folder_say_what_it_runs() {
    let policy = policy(r#"{"undoable": "table"}"#);
    for line in ["python3 --version", "cat x && python3 -V", "find . -name x -exec python3 -V ;"] {
        assert_eq!(answer(&policy, line), "check 9", "{line}");
    }
    // Control: the same program is a reader if it lies in the system itself.
    assert_eq!(answer(&normal(r#"{"undoable": "table"}"#, Mode::SmartAuto), "python3 --version"), "pass 7");
}

#[test]
fn a_denial_of_a_name_covers_that_program_wherever_it_lies() {
    let policy = policy(r#"{"deny_exec_command": ["protoc wipe"], "undoable": "table"}"#);
    for line in [
        "protoc wipe",
        "./protoc wipe x",
        "/opt/tools/protoc wipe",
        "/anywhere/else/protoc wipe",
        "nice stdbuf -oL ./protoc wipe",
        "rtk protoc wipe",
    ] {
        assert_eq!(answer(&policy, line), "deny 1", "{line}");
    }
    assert_eq!(answer(&policy, "protoc lint"), "check 9");
}

#[test]
fn no_beginning_of_a_program_in_a_writable_place_is_leased() {
    let policy = policy("{}");
    let refused = |words: &str| policy.may_lease(&policy::LeasePattern::Command(words.to_owned())).is_err();
    for words in ["protoc lint", "sort", "grep x", "./ls", "absent x"] {
        assert!(refused(words), "{words}");
    }
    assert!(!refused("head -n"));
}

#[test]
fn a_program_of_the_project_passes_by_a_rule_that_lists_it_and_by_nothing_else() {
    let rules = r#"{"allowed_exec_command": ["pytest", "bash"], "undoable": "table"}"#;
    let listed = policy(rules);
    for line in ["pytest -q", "cd sub && pytest", "timeout 5 pytest"] {
        assert_eq!(answer(&listed, line), "pass 7", "{line}");
    }
    // A path is not the name.
    for line in [".venv/bin/pytest", "bin/pytest", "./pytest"] {
        assert_eq!(answer(&listed, line), "check 9", "{line}");
    }
    let unlisted = policy(r#"{"undoable": "table"}"#);
    for line in ["pytest --version", "wc x"] {
        assert_eq!(answer(&unlisted, line), "check 9", "{line}");
    }
    let decision = decide(&unlisted, tool::Level::Destructive, run("wc x"));
    assert!(decision.hint.unwrap().contains("program of the project"));
    let denied = policy(r#"{"deny_exec_command": ["pytest"], "undoable": "table"}"#);
    assert_eq!(answer(&denied, "pytest"), "deny 1");
}

#[test]
fn what_a_program_of_the_project_could_be_is_listed_nearest_first() {
    let line = tool::CommandLine::Shell("pytest -q".to_owned());
    let runs = policy("{}").runs(&line, Path::new("/w/project/packages/a"));
    let folders = ["/w/project/packages/a", "/w/project/packages", "/w/project"];
    let expected: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| {
            [".venv/bin", "venv/bin", "node_modules/.bin"].map(|part| Path::new(folder).join(part))
        })
        .map(|folder| folder.join("pytest"))
        .collect();
    assert_eq!(runs.files.get(..expected.len()), Some(expected.as_slice()));
    // A program of the machine runs, whatever the project has.
    let line = tool::CommandLine::Shell("ls".to_owned());
    assert_eq!(policy("{}").runs(&line, Path::new("/w/project")).files, [Path::new("/usr/bin/ls")]);
    assert_eq!(policy::project_folders(Path::new("/elsewhere"), Path::new("/w/project")), [] as [PathBuf; 0]);
}
