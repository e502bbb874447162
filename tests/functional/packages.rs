//! Packages through the whole program: what they bring, what they may not bring, and what is left of them.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, eventually};
use crate::server::Server;

const PLUGIN: &str = "description: A plugin of a test.\ncommand: [sh, main.sh]\ninput_schema: {type: object, properties: {}}\n\
    output_schema: {type: object, properties: {said: {type: string}}}\nexample: {arguments: {}, result: {}}\n";

/// Writes a package with every kind of part, beside the workspace.
fn package(fixture: &Fixture) -> PathBuf {
    let folder = fixture.outside().join("sources/tidy");
    for (path, text) in [
        ("skills/tidying/SKILL.md", "---\ndescription: How to tidy.\n---\nTidy up.\n"),
        ("agents/tidier.md", "---\ndescription: Tidies.\n---\nYou tidy up.\n"),
        ("plugins/say/plugin.yaml", &*format!("name: say\n{PLUGIN}")),
        ("plugins/say/main.sh", "echo '{\"ok\": true, \"data\": {\"said\": \"one\"}}'\n"),
        (".mcp.json", "{\"mcpServers\": {\"notes\": {\"command\": \"notes-server\"}}}"),
        ("package.yaml", "description: Tidies\\e[31m.\nrules: {deny_read_paths: [hidden.txt]}\n"),
        ("src/unrelated.txt", "not copied"),
    ] {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn listed(fixture: &Fixture) -> Value {
    fixture.run(&["packages", "--json"]).json()
}

fn skills(fixture: &Fixture) -> String {
    fixture.data("skill_list", json!({})).to_string()
}

fn add(fixture: &Fixture, source: &str) -> (i32, String) {
    let run = fixture.run(&["add", source, "--yes"]);
    (run.code, run.stderr)
}

#[test]
fn a_package_brings_its_parts_is_updated_and_leaves_nothing() {
    let fixture = Fixture::with_files(&[("hidden.txt", "a secret"), ("plain.txt", "plain")]);
    let source = package(&fixture);
    let text = source.to_str().unwrap();
    // Without a terminal and without --yes, nobody has said yes. A dry run only shows.
    let refused = fixture.run(&["add", text]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    for part in [
        "skill tidying",
        "agent tidier",
        "plugin say, a tool of level safe: does not see the workspace, has no network",
        "  runs sh main.sh",
        "MCP server notes: {\"command\":\"notes-server\"}",
        "rule deny_read_paths: [\"hidden.txt\"]",
    ] {
        assert!(refused.stdout.contains(part), "{part}: {}", refused.stdout);
    }
    assert!(!refused.stdout.contains('\u{1b}'), "{}", refused.stdout);
    assert_eq!(fixture.run(&["add", text, "--yes", "--dry-run"]).code, 0);
    assert_eq!(listed(&fixture), json!([]));
    assert!(!skills(&fixture).contains("tidying"));

    assert_eq!(add(&fixture, text).0, 0);
    let all = listed(&fixture);
    assert_eq!((&all[0]["name"], &all[0]["problem"]), (&json!("tidy"), &Value::Null), "{all:#}");
    assert!(skills(&fixture).contains("tidying"));
    let read = fixture.data("skill_read", json!({"skill_name": "tidying"})).to_string();
    assert!(read.contains("Tidy up.") && read.contains("package that the user has added"), "{read}");
    assert_eq!(fixture.data("say", json!({}))["said"], "one");
    let denied = fixture.error("file_read", json!({"path": "hidden.txt"}));
    assert_eq!(denied["code"], "EPERMISSION");
    assert!(denied["hint"].as_str().unwrap().contains("remove the package"), "{denied}");
    assert!(!fixture.run(&["status"]).stdout.contains("not trusted"));
    assert_eq!(fixture.call("file_read", json!({"path": "plain.txt"}))["ok"], true);
    let servers = fixture.data("mcp_servers", json!({})).to_string();
    assert!(servers.contains("\"notes\""), "{servers}");
    let near = fixture.run(&["run", "--agent", "tidierr", "tidy"]);
    assert!(near.stderr.contains("tidier"), "{}", near.stderr);
    let shown = fixture.run(&["policy", "show"]).stdout;
    assert!(shown.contains("hidden.txt"), "{shown}");
    assert!(fixture.run(&["plugin", "list", "--json"]).stdout.contains("\"say\""));

    // The source changes, and nothing of it counts until the update.
    std::fs::write(
        source.join("plugins/say/main.sh"),
        "echo '{\"ok\": true, \"data\": {\"said\": \"two\"}}'\n",
    )
    .unwrap();
    std::fs::create_dir_all(source.join("skills/more")).unwrap();
    std::fs::write(source.join("skills/more/SKILL.md"), "---\ndescription: More.\n---\n").unwrap();
    assert_eq!(fixture.data("say", json!({}))["said"], "one");
    let asked = fixture.run(&["update"]);
    assert_eq!(asked.code, 1);
    for part in ["+ skill more", "~ plugins/say/main.sh", "+ skills/more/SKILL.md"] {
        assert!(asked.stdout.contains(part), "{part}: {}", asked.stdout);
    }
    assert_eq!(fixture.run(&["update", "tidy", "--yes", "--dry-run"]).code, 0);
    assert_eq!(fixture.data("say", json!({}))["said"], "one");
    assert_eq!(fixture.run(&["update", "tidy", "--yes"]).code, 0);
    assert_eq!(fixture.data("say", json!({}))["said"], "two");
    assert!(skills(&fixture).contains("more"));
    assert!(fixture.run(&["update"]).stderr.contains("tidy is current"));

    assert_eq!(fixture.run(&["remove", "tidy", "--yes", "--dry-run"]).code, 0);
    assert_eq!(fixture.run(&["remove", "tidy"]).code, 1);
    assert_eq!(listed(&fixture)[0]["name"], "tidy");
    assert_eq!(fixture.run(&["remove", "tidy", "--yes"]).code, 0);
    assert_eq!(listed(&fixture), json!([]));
    assert!(!skills(&fixture).contains("tidying"));
    assert_eq!(fixture.error("say", json!({}))["code"], "ENOTFOUND");
    assert_eq!(fixture.call("file_read", json!({"path": "hidden.txt"}))["ok"], true);
    let left: Vec<_> = std::fs::read_dir(fixture.state().join("packages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [".lock"]);
    assert!(!std::fs::read_to_string(fixture.state().join("plugins/plugins.json")).unwrap().contains("say"));
    let unknown = fixture.run(&["remove", "tidy", "--yes"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
}

/// Change of a package that makes it a wrong one.
type Spoil = fn(&Fixture, &Path);

#[test]
fn what_no_package_may_bring_is_refused_and_changes_nothing() {
    let fixture = Fixture::new();
    let spoils: [(&str, Spoil); 9] = [
        ("regular files", |fixture, folder| symlink(fixture.outside(), folder.join("skills/out")).unwrap()),
        ("regular files", |_, folder| symlink("/etc/passwd", folder.join("skills/tidying/passwd")).unwrap()),
        ("bytes", |_, folder| {
            std::fs::File::create(folder.join("skills/tidying/large")).unwrap().set_len(1 << 30).unwrap();
        }),
        ("too deep", |_, folder| {
            std::fs::create_dir_all(folder.join("skills/tidying").join("x/".repeat(40))).unwrap();
        }),
        ("files", |_, folder| {
            for number in 0..600 {
                std::fs::write(folder.join(format!("skills/tidying/{number}")), "").unwrap();
            }
        }),
        ("allowed_hosts", |_, folder| {
            std::fs::write(folder.join("package.yaml"), "rules: {allowed_hosts: [example.com]}\n").unwrap();
        }),
        ("another tool is named file_read", |_, folder| {
            std::fs::rename(folder.join("plugins/say"), folder.join("plugins/file_read")).unwrap();
            std::fs::write(
                folder.join("plugins/file_read/plugin.yaml"),
                format!("name: file_read\n{PLUGIN}"),
            )
            .unwrap();
        }),
        ("another tool is named self_apply", |_, folder| {
            std::fs::rename(folder.join("plugins/say"), folder.join("plugins/self_apply")).unwrap();
            std::fs::write(
                folder.join("plugins/self_apply/plugin.yaml"),
                format!("name: self_apply\n{PLUGIN}"),
            )
            .unwrap();
        }),
        ("is no name", |_, folder| {
            std::fs::write(folder.join("package.yaml"), "name: ../x\n").unwrap();
        }),
    ];
    for (named, spoil) in spoils {
        let folder = package(&fixture);
        spoil(&fixture, &folder);
        let (code, told) = add(&fixture, folder.to_str().unwrap());
        assert!(code == 2 && told.contains(named), "{named}: {code} {told}");
        assert_eq!(listed(&fixture), json!([]), "{named}");
        std::fs::remove_dir_all(folder).unwrap();
    }
    // A folder is meant from the place where the command runs, as in every other program.
    std::fs::create_dir_all(fixture.outside().join("else")).unwrap();
    let from = |place: &str| {
        let mut command = fixture.command();
        command.args(["add", "./tidy", "--dry-run"]).current_dir(fixture.outside().join(place));
        Fixture::run_command(command, b"").code
    };
    let folder = package(&fixture);
    assert_eq!((from("sources"), from("else")), (0, 2));
    // A package in itself is the state's own folder.
    assert_eq!(add(&fixture, folder.to_str().unwrap()).0, 0);
    let own = fixture.state().join("packages/tidy/content");
    let (code, told) = add(&fixture, own.to_str().unwrap());
    assert!(code == 2 && told.contains("own state"), "{told}");
    let (code, told) = add(&fixture, folder.to_str().unwrap());
    assert!(code == 2 && told.contains("there is a package tidy already"), "{told}");
    // A file that changes after it was pinned takes the whole package out of use.
    std::fs::write(own.join("skills/tidying/SKILL.md"), "---\ndescription: Changed.\n---\n").unwrap();
    std::fs::write(own.join("plugins/say/main.sh"), "echo changed").unwrap();
    let run = fixture.run(&["call", "--yes", "skill_list", "{}"]);
    assert!(!run.stdout.contains("tidying") && run.stderr.contains("files have changed"), "{}", run.stderr);
    assert_eq!(fixture.error("say", json!({}))["code"], "ENOTFOUND");
    assert!(listed(&fixture)[0]["problem"].as_str().unwrap().contains("files have changed"));
    // An update brings it back.
    assert_eq!(fixture.run(&["update", "--yes"]).code, 0);
    assert_eq!(fixture.data("say", json!({}))["said"], "one");
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

#[test]
fn a_repository_is_copied_without_hooks_links_submodules_or_other_protocols() {
    let fixture = Fixture::new();
    let folder = package(&fixture);
    git(&folder, &["init", "-q", "-b", "main"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-q", "-m", "first"]);
    let address = format!("file://{}", folder.display());
    // A hook of the user's own template and a filter would run in a plain clone.
    let evidence = fixture.outside().join("evidence");
    let template = fixture.outside().join("template");
    std::fs::create_dir_all(template.join("hooks")).unwrap();
    let hook = template.join("hooks/post-checkout");
    std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", evidence.display())).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(
        fixture.home().join(".gitconfig"),
        format!("[init]\n\ttemplateDir = {}\n", template.display()),
    )
    .unwrap();
    let plain = fixture
        .command()
        .get_envs()
        .find(|(name, _)| *name == "HOME")
        .and_then(|(_, home)| home.map(PathBuf::from));
    let home = plain.unwrap_or_else(|| fixture.home());
    let control = Command::new("git")
        .args(["clone", "-q", &address, "control"])
        .current_dir(fixture.outside())
        .env("HOME", &home)
        .env_remove("GIT_CONFIG_GLOBAL")
        .status()
        .unwrap();
    assert!(control.success() && evidence.exists(), "the control: a plain clone runs the hook");
    std::fs::remove_file(&evidence).unwrap();
    let (code, told) = add(&fixture, &address);
    assert_eq!(code, 0, "{told}");
    assert!(!evidence.exists());
    let all = listed(&fixture);
    assert_eq!(
        (all[0]["commit"].as_str().unwrap().len(), &all[0]["source"]),
        (40, &json!(address)),
        "{all:#}"
    );
    assert_eq!(fixture.data("say", json!({}))["said"], "one");

    std::fs::write(
        folder.join("plugins/say/main.sh"),
        "echo '{\"ok\": true, \"data\": {\"said\": \"two\"}}'\n",
    )
    .unwrap();
    git(&folder, &["commit", "-q", "-a", "-m", "second"]);
    let updated = fixture.run(&["update", "--yes"]);
    assert!(updated.stdout.contains("~ plugins/say/main.sh"), "{}{}", updated.stdout, updated.stderr);
    assert_eq!(fixture.data("say", json!({}))["said"], "two");

    symlink("/etc/passwd", folder.join("skills/tidying/passwd")).unwrap();
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-q", "-m", "a link"]);
    let refused = fixture.run(&["update", "--yes"]);
    assert!(refused.code == 2 && refused.stderr.contains("is a link"), "{}", refused.stderr);
    assert_eq!(fixture.data("say", json!({}))["said"], "two");
    let command = format!("ext::sh -c 'touch {}'", evidence.display());
    for address in
        [command.as_str(), "http://127.0.0.1:9/a", "git://127.0.0.1/a", "-u@x:y", "https://a:b@127.0.0.1/x"]
    {
        let run = fixture.run(&["add", "--yes", "--", address]);
        assert_eq!(run.code, 2, "{address}: {}", run.stderr);
    }
    assert!(!evidence.exists());
}

#[test]
fn a_kill_at_any_step_leaves_a_package_as_a_whole_or_not_at_all() {
    let fixture = Fixture::new();
    let folder = package(&fixture);
    let place = fixture.state().join("packages");
    let drafts = || {
        let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains(".draft-"))
            .collect::<Vec<_>>()
    };
    let states = || std::fs::read_to_string(fixture.state().join("plugins/plugins.json")).unwrap_or_default();
    // The steps of a change, each of which is a moment for a kill.
    let steps: [&dyn Fn() -> bool; 7] = [
        &|| fixture.state().join("handfast.db").exists(),
        &|| place.exists(),
        &|| !drafts().is_empty(),
        &|| drafts().iter().any(|draft| draft.join("package.json").exists()),
        &|| place.join("tidy").exists(),
        &|| !place.join("tidy").exists() && !drafts().is_empty(),
        &|| states().contains("say"),
    ];
    let (mut with, mut without) = (0, 0);
    for (round, step) in steps.iter().cycle().take(35).enumerate() {
        let source = folder.to_str().unwrap();
        let arguments: &[&str] = if place.join("tidy").exists() && round % 2 == 0 {
            &["remove", "tidy", "--yes"]
        } else {
            &["add", source, "--yes"]
        };
        let quiet = std::process::Stdio::null;
        let mut child = fixture.command().args(arguments).stdout(quiet()).stderr(quiet()).spawn().unwrap();
        while !step() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let all = listed(&fixture);
        let said = fixture.call("say", json!({}));
        if all == json!([]) {
            without += 1;
            assert_eq!(said["error"]["code"], "ENOTFOUND", "{said:#}");
        } else {
            with += 1;
            assert_eq!(
                (&all[0]["problem"], &said["data"]["said"]),
                (&Value::Null, &json!("one")),
                "{all:#} {said:#}"
            );
        }
        assert_eq!(drafts(), Vec::<PathBuf>::new(), "the next start has removed them");
    }
    assert!(with > 0 && without > 0, "{with} {without}");
}

/// Writes a package of these files beside the workspace.
fn package_of(fixture: &Fixture, name: &str, files: &[(&str, &str)]) -> String {
    let folder = fixture.outside().join("sources").join(name);
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn a_server_of_a_package_runs_the_files_that_were_allowed() {
    let fixture = Fixture::with_files(&[("note.txt", "a note\n")]);
    fixture.configure("mode: full_auto\n");
    let server = json!({"mcpServers": {"own": {
        "command": "/usr/bin/python3", "args": ["${PACKAGE_FOLDER}/servers/own.py"]
    }}});
    let script = crate::functional::mcp_servers::SCRIPT;
    let source =
        package_of(&fixture, "served", &[(".mcp.json", &server.to_string()), ("servers/own.py", script)]);
    let shown = fixture.run(&["add", &source]).stdout;
    assert!(shown.contains("file of MCP servers: servers/own.py"), "{shown}");
    assert_eq!(add(&fixture, &source).0, 0);
    // The source now has other content than was allowed.
    std::fs::write(std::path::Path::new(&source).join("servers/own.py"), "raise SystemExit(1)\n").unwrap();
    let library = fixture.library();
    let listed = library.call("mcp_servers", json!({"server": "own"}));
    assert_eq!(listed["data"]["servers"][0]["state"], "running (1)", "{listed:#}");
    let note = library.call("own__note", json!({}));
    assert_eq!(note["data"]["text"], "a note\n", "{note:#}");
    drop(library);
}

#[test]
fn a_configuration_cannot_name_a_folder_as_that_of_a_package() {
    let fixture = Fixture::new();
    let stolen = fixture.state().display().to_string();
    fixture.configure(&format!(
        "mode: full_auto\nmcp_servers:\n  thief:\n    command: /usr/bin/python3\n    args: [\"${{PACKAGE_FOLDER}}/x\"]\n    \
         package: {{folder: {stolen}, hash: x}}\n"
    ));
    let library = fixture.library();
    let refused = library.call("mcp_servers", json!({"server": "thief"})).to_string();
    assert!(refused.contains("PACKAGE_FOLDER") && !refused.contains("running"), "{refused}");
}

#[test]
fn a_server_that_runs_takes_rules_skills_and_agents_of_a_package_at_once() {
    let fixture = Fixture::with_files(&[("hidden.txt", "a secret")]);
    let mut server = Server::start(&fixture, &["--catalogue", "full"]);
    let reads = |server: &mut Server| {
        server.call("file_read", json!({"path": "hidden.txt"})).to_string().contains("a secret")
    };
    assert!(reads(&mut server), "the control");
    let source = package(&fixture);
    assert_eq!(add(&fixture, source.to_str().unwrap()).0, 0);
    eventually("the rule", || !reads(&mut server));
    let skills = server.call("skill_list", json!({})).to_string();
    assert!(skills.contains("tidying"), "{skills}");
    assert_eq!(fixture.run(&["remove", "tidy", "--yes"]).code, 0);
    eventually("the end of the rule", || reads(&mut server));
    let skills = server.call("skill_list", json!({})).to_string();
    assert!(!skills.contains("tidying"), "{skills}");
    server.end();
}

#[test]
fn without_the_rules_of_a_damaged_package_nothing_starts_until_it_is_removed() {
    let fixture = Fixture::with_files(&[("hidden.txt", "a secret")]);
    let source = package(&fixture);
    assert_eq!(add(&fixture, source.to_str().unwrap()).0, 0);
    let folder = fixture.state().join("packages/tidy");
    // The rules are in the record, too.
    std::fs::write(folder.join("content/package.yaml"), "description: Other.\n").unwrap();
    let run = fixture.run(&["call", "file_read", "{\"path\": \"hidden.txt\"}"]);
    assert!(run.stdout.contains("EPERMISSION"), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stderr.contains("have changed") && run.stderr.contains("rules stay in force"),
        "{}",
        run.stderr
    );
    std::fs::write(folder.join("package.json"), "{").unwrap();
    let run = fixture.run(&["call", "file_read", "{\"path\": \"hidden.txt\"}"]);
    assert!(run.code != 0 && !run.stdout.contains("a secret"), "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("remove tidy"), "{}", run.stderr);
    assert!(fixture.run(&["packages"]).stdout.contains("damaged"));
    let removed = fixture.run(&["remove", "tidy", "--yes"]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    assert_eq!(fixture.call("file_read", json!({"path": "hidden.txt"}))["ok"], true, "the control");
}

#[test]
fn a_source_that_is_not_there_is_refused_with_what_to_name() {
    let fixture = Fixture::new();
    for source in ["/nowhere", "/etc/passwd"] {
        let run = fixture.run(&["add", source]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains("name the folder of a package, or the address"), "{}", run.stderr);
    }
}
