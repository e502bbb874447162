//! `handfast attach` and `detach`: the entry in each client's configuration, everything else kept.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Fixture, Run};
use crate::http::Up;

/// Clients with the file of a user's entry and the file of a project's entry. Goose has no project's.
const CLIENTS: [(&str, &str, Option<&str>); 10] = [
    ("claude", ".claude.json", Some(".mcp.json")),
    ("codex", ".codex/config.toml", Some(".codex/config.toml")),
    ("vscode", ".config/Code/User/mcp.json", Some(".vscode/mcp.json")),
    ("cursor", ".cursor/mcp.json", Some(".cursor/mcp.json")),
    ("gemini", ".gemini/settings.json", Some(".gemini/settings.json")),
    ("opencode", ".config/opencode/opencode.json", Some("opencode.json")),
    ("qwen", ".qwen/settings.json", Some(".qwen/settings.json")),
    ("continue", ".continue/config.yaml", Some(".continue/mcpServers/handfast.yaml")),
    ("zed", ".config/zed/settings.json", Some(".zed/settings.json")),
    ("goose", ".config/goose/config.yaml", None),
];

/// Runs the program where no client is on the search path, whatever this machine has.
fn run(fixture: &Fixture, words: &[&str]) -> Run {
    fixture.run_with(&[("PATH", fixture.outside().to_str().unwrap())], words)
}

/// Attaches a client, although it is not installed.
fn attach(fixture: &Fixture, words: &[&str]) -> Run {
    run(fixture, &[&["attach"], words, &["--force"]].concat())
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all files below the folder with their contents.
fn all(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push((path.clone(), read(&path)));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn each_client_is_attached_checked_and_detached_without_a_trace() {
    let fixture = Fixture::new();
    for (client, user, project) in CLIENTS {
        for (scope, base, file) in
            [("user", fixture.home(), Some(user)), ("project", fixture.workspace(), project)]
        {
            let before = all(&base);
            let done = attach(&fixture, &[client, "--scope", scope]);
            let Some(file) = file else {
                assert_eq!(done.code, 2, "{client}: {}", done.stderr);
                assert!(done.stderr.contains("no configuration in a project"), "{}", done.stderr);
                continue;
            };
            assert_eq!(done.code, 0, "{client} {scope}: {}{}", done.stdout, done.stderr);
            assert!(done.stdout.contains("works: 12 tools in "), "{client}: {}", done.stdout);
            assert!(done.stdout.contains("\n+"), "the difference is shown: {}", done.stdout);
            let entry = read(&base.join(file));
            assert!(entry.contains("handfast") && entry.contains("mcp"), "{entry}");
            let listed = run(&fixture, &["attach", "--json"]).json();
            let row = listed.as_array().unwrap().iter().find(|row| row["client"] == client).unwrap();
            assert_eq!(row["attached"], json!([scope]), "{row}");
            let again = attach(&fixture, &[client, "--scope", scope]);
            assert!(again.stderr.contains("was attached already"), "{client}: {}", again.stderr);
            assert_eq!(read(&base.join(file)), entry);
            let gone = fixture.run(&["detach", client, "--scope", scope]);
            assert_eq!(gone.code, 0, "{}", gone.stderr);
            assert_eq!(all(&base), before, "{client} {scope}");
        }
    }
}

#[test]
fn a_dry_run_shows_the_difference_and_writes_nothing() {
    let fixture = Fixture::new();
    let tried = attach(&fixture, &["claude", "--dry-run", "--only-handfast"]);
    assert_eq!(tried.code, 0, "{}", tried.stderr);
    assert!(tried.stdout.contains("mcpServers") && tried.stdout.contains("Bash"), "{}", tried.stdout);
    assert_eq!(all(&fixture.home()), []);
    assert_eq!(attach(&fixture, &["claude"]).code, 0);
    let attached = all(&fixture.home());
    assert_eq!(fixture.run(&["detach", "claude", "--dry-run"]).code, 0);
    assert_eq!(all(&fixture.home()), attached);
}

#[test]
fn what_the_user_wrote_stays_and_comes_back() {
    let fixture = Fixture::new();
    let settings = fixture.home().join(".claude/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let mine = "{\n  // mine\n  \"model\": \"opus\",\n  \"permissions\": { \"deny\": [\"Bash\", \"Read(.env)\"] }\n}\n";
    std::fs::write(&settings, mine).unwrap();
    let done = attach(&fixture, &["claude", "--only-handfast"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let attached = read(&settings);
    for part in ["// mine", "\"opus\"", "\"Read(.env)\"", "\"Edit\"", "\"mcp__handfast\""] {
        assert!(attached.contains(part), "{part} is missing: {attached}");
    }
    let copies = fixture.state().join("attach-copies");
    let copy = std::fs::read_dir(&copies).unwrap().next().unwrap().unwrap().path();
    assert_eq!(read(&copy), mine);
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fixture.run(&["detach", "claude"]).code, 0);
    let detached = read(&settings);
    assert!(detached.contains("// mine"), "{detached}");
    let values: Value = serde_json::from_str(&detached.replace("// mine", "")).unwrap();
    assert_eq!(values, json!({"model": "opus", "permissions": {"deny": ["Bash", "Read(.env)"]}}));
}

#[test]
fn a_configuration_that_cannot_be_edited_is_left_alone_and_the_entry_is_shown() {
    let fixture = Fixture::new();
    let file = fixture.home().join(".gemini/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (text, reason) in [
        ("{\"mcpServers\": ", "is not valid JSON"),
        ("[]", "is not a map"),
        ("{\"mcpServers\": \"none\"}", "`mcpServers` in it is not a map"),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = attach(&fixture, &["gemini"]);
        assert_eq!(refused.code, 1, "{text}: {}", refused.stderr);
        assert!(refused.stderr.contains(reason), "{text}: {}", refused.stderr);
        assert!(refused.stderr.contains("add the entry by hand: {\"mcpServers\":"), "{}", refused.stderr);
        assert_eq!(read(&file), text);
    }
    std::fs::write(&file, "{}").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).unwrap();
    let refused = attach(&fixture, &["gemini"]);
    assert!(refused.code == 1 && refused.stderr.contains("it is read-only"), "{}", refused.stderr);
    assert_eq!(read(&file), "{}");
    std::fs::remove_file(&file).unwrap();
    let target = fixture.home().join("dotfiles.json");
    std::fs::write(&target, "{\"theme\": 1}\n").unwrap();
    symlink(&target, &file).unwrap();
    assert_eq!(attach(&fixture, &["gemini"]).code, 0);
    assert!(file.is_symlink() && read(&target).contains("handfast"));
}

#[test]
fn a_client_that_is_not_there_is_attached_only_when_forced() {
    let fixture = Fixture::new();
    let refused = run(&fixture, &["attach", "codex"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("Codex is not installed here"), "{}", refused.stderr);
    assert_eq!(all(&fixture.home()), []);
    std::fs::create_dir(fixture.home().join(".codex")).unwrap();
    assert_eq!(run(&fixture, &["attach", "codex"]).code, 0, "it was used here before");
    for client in ["vscode", "cursor"] {
        let refused = attach(&fixture, &[client, "--only-handfast"]);
        assert_eq!(refused.code, 2);
        assert!(refused.stderr.contains("has no setting"), "{}", refused.stderr);
    }
    let unknown = fixture.run(&["attach", "emacs"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("claude"), "{}", unknown.stderr);
}

#[test]
fn the_options_of_attach_are_those_of_the_server_that_the_client_starts() {
    let fixture = Fixture::new();
    let done = attach(&fixture, &["codex", "--dialect", "msc", "--mode", "ask_always"]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let entry = read(&fixture.home().join(".codex/config.toml"));
    let state = fixture.state();
    for word in ["\"--dialect\", \"msc\"", "\"--mode\", \"ask_always\"", state.to_str().unwrap()] {
        assert!(entry.contains(word), "{word} is missing: {entry}");
    }
    assert!(entry.contains("default_tools_approval_mode = \"approve\""), "{entry}");
}

#[test]
fn a_client_that_hides_tools_until_they_are_searched_for_shows_those_of_handfast_at_once() {
    let fixture = Fixture::new();
    let fields = [
        ("claude", ".claude.json", ".mcp.json", "\"alwaysLoad\": true"),
        ("codex", ".codex/config.toml", ".codex/config.toml", "omit_tools_from = [\"deferred\"]"),
        ("qwen", ".qwen/settings.json", ".qwen/settings.json", "\"alwaysLoadTools\": true"),
    ];
    for (client, user, project, field) in fields {
        for (scope, file) in
            [("user", fixture.home().join(user)), ("project", fixture.workspace().join(project))]
        {
            for options in [&["--stdio"][..], &["--http"]] {
                let done = attach(&fixture, &[&[client, "--scope", scope], options].concat());
                assert_eq!(done.code, 0, "{client}: {}", done.stderr);
                let entry = read(&file);
                assert!(entry.contains(field), "{client} {scope} {options:?}: {entry}");
            }
        }
    }
    assert_eq!(attach(&fixture, &["gemini"]).code, 0);
    assert!(!read(&fixture.home().join(".gemini/settings.json")).contains("alwaysLoad"));
}

#[test]
fn a_tool_of_the_client_that_runs_commands_under_another_name_is_switched_off_too() {
    let fixture = Fixture::new();
    for (client, file, tools) in [
        ("claude", ".claude/settings.json", &["Bash", "Monitor", "NotebookEdit"][..]),
        ("qwen", ".qwen/settings.json", &["run_shell_command", "monitor", "exec", "notebook_edit"]),
    ] {
        let done = attach(&fixture, &[client, "--only-handfast"]);
        assert_eq!(done.code, 0, "{client}: {}", done.stderr);
        let settings = read(&fixture.home().join(file));
        for tool in tools {
            assert!(settings.contains(&format!("\"{tool}\"")), "{client}: {tool} is missing: {settings}");
        }
    }
}

#[test]
fn a_token_goes_into_the_users_own_file_and_into_no_project() {
    let fixture = Fixture::new();
    let offline = attach(&fixture, &["claude", "--http"]);
    assert_eq!(offline.code, 0, "{}", offline.stderr);
    assert!(offline.stdout.contains("nothing listens there yet"), "{}", offline.stdout);
    let up = Up::start(&fixture, &[]);
    let done = attach(&fixture, &["claude", "--http"]);
    assert!(done.stdout.contains("works: 12 tools in "), "{}{}", done.stdout, done.stderr);
    assert!(!done.stdout.contains(&up.agent), "the difference shows no token: {}", done.stdout);
    let entry = read(&fixture.home().join(".claude.json"));
    assert!(entry.contains(&up.agent) && entry.contains(&up.address.to_string()), "{entry}");
    for (client, _, file) in CLIENTS {
        let Some(file) = file.filter(|_| client != "zed") else { continue };
        let done = attach(&fixture, &[client, "--http", "--scope", "project"]);
        assert_eq!(done.code, 0, "{client}: {}", done.stderr);
        let shared = all(&fixture.workspace());
        assert!(shared.iter().all(|(_, text)| !text.contains(&up.agent)), "{client}: {shared:?}");
        let entry = read(&fixture.workspace().join(file));
        assert!(entry.contains("HANDFAST_TOKEN"), "{client}: {entry}");
        assert!(done.stderr.contains("export HANDFAST_TOKEN=$(cat "), "{client}: {}", done.stderr);
    }
    let refused = attach(&fixture, &["zed", "--http", "--scope", "project"]);
    assert!(refused.code == 2 && refused.stderr.contains("no place for one"), "{}", refused.stderr);
}

#[test]
fn a_record_that_cannot_be_read_is_an_error_and_nothing_is_written() {
    let fixture = Fixture::new();
    assert_eq!(attach(&fixture, &["claude"]).code, 0);
    let record = fixture.state().join("attached.json");
    let (home, whole) = (all(&fixture.home()), read(&record));
    let refuses = |text: &str| {
        for words in [&["attach", "codex", "--force"][..], &["detach", "claude"]] {
            let refused = run(&fixture, words);
            assert_eq!(refused.code, 1, "{text}: {words:?}: {}{}", refused.stdout, refused.stderr);
            for part in ["attached.json", "nothing was changed", "move it away", "attach-copies"] {
                assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
            }
            assert_eq!(all(&fixture.home()), home, "{text}: {words:?}");
        }
    };
    for text in ["", "{\"files\": [", "[]", "{\"files\": [{\"client\": \"claude\"}]}"] {
        std::fs::write(&record, text).unwrap();
        refuses(text);
        assert_eq!(read(&record), text);
    }
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    refuses("a folder");
    std::fs::remove_dir(&record).unwrap();
    std::fs::write(&record, whole).unwrap();
    assert_eq!(run(&fixture, &["detach", "claude"]).code, 0);
    assert_eq!(all(&fixture.home()), []);
}

#[test]
fn the_clients_own_check_needs_no_other_program_on_the_search_path() {
    let fixture = Fixture::new();
    let client = fixture.outside().join("gemini");
    std::fs::write(&client, "#!/bin/sh\necho \"handfast: $* - Connected\"\n").unwrap();
    std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).unwrap();
    let done = run(&fixture, &["attach", "gemini"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let expected = "`gemini mcp list` says: handfast: mcp list - Connected";
    assert!(done.stderr.contains(expected), "{}", done.stderr);
}
