//! Plugins through the whole program: made, tested, allowed by content, called, changed and removed.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::functional::egress::plain;
use crate::harness::{Fixture, Run, eventually, repository};
use crate::server::Server;

/// Returns the folder of the user's plugin with this name.
pub(crate) fn folder(fixture: &Fixture, name: &str) -> PathBuf {
    fixture.home().join(".config/handfast/plugins").join(name)
}

/// Writes a plugin of the user that is a script for the shell.
pub(crate) fn write(fixture: &Fixture, name: &str, script: &str, more: &str) {
    let folder = folder(fixture, name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("main.sh"), script).unwrap();
    let manifest = format!(
        "name: {name}\ndescription: A plugin of a test.\ncommand: [sh, main.sh]\n\
         input_schema: {{type: object, properties: {{}}}}\n\
         output_schema: {{type: object, properties: {{said: {{type: string}}}}}}\n\
         example: {{arguments: {{}}, result: {{}}}}\n{more}\n"
    );
    std::fs::write(folder.join("plugin.yaml"), manifest).unwrap();
}

/// Script that answers with what a command prints.
pub(crate) fn saying(command: &str) -> String {
    format!(
        "said=$({command} 2>&1 | tr -d '\"\\\\' | tr '\\n' ' ')\n\
         printf '{{\"ok\":true,\"data\":{{\"said\":\"%s\"}}}}\\n' \"$said\"\n"
    )
}

pub(crate) fn enable(fixture: &Fixture, name: &str) -> Run {
    let run = fixture.run(&["plugin", "enable", name, "--yes"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run
}

fn status(fixture: &Fixture, name: &str) -> Value {
    let listed = fixture.run(&["plugin", "list", "--json"]).json();
    let found = listed.as_array().unwrap().iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {listed:#}")).clone()
}

#[test]
fn a_new_plugin_passes_its_tests_and_is_a_tool_once_it_is_enabled() {
    let fixture = Fixture::new();
    let made = fixture.run(&["plugin", "new", "word_count", "--language", "shell"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(made.stdout.trim(), folder(&fixture, "word_count").to_str().unwrap());
    let tested = fixture.run(&["plugin", "test", "word_count", "--json"]);
    assert_eq!((tested.code, &tested.json()["passed"]), (0, &json!(3)), "{}", tested.stdout);
    assert_eq!(status(&fixture, "word_count")["status"], "new");
    assert_eq!(fixture.error("word_count", json!({"text": "a b"}))["code"], "ENOTFOUND");
    // Without a terminal and without --yes, nobody has said yes.
    let asked = fixture.run(&["plugin", "enable", "word_count"]);
    assert_eq!(asked.code, 1);
    assert!(asked.stdout.contains("has no network"), "{}", asked.stdout);
    assert_eq!(fixture.error("word_count", json!({"text": "a b"}))["code"], "ENOTFOUND");
    enable(&fixture, "word_count");
    assert_eq!(fixture.data("word_count", json!({"text": "a b"}))["words"], 2);
    assert_eq!(fixture.error("word_count", json!({"txt": "a"}))["code"], "EVALIDATION");
    let rows = fixture.recorded();
    assert!(rows.iter().any(|row| row["tool"] == "word_count"), "a call is recorded like any other");
    assert!(rows.iter().any(|row| row["tool"] == "plugin enable"), "{rows:#?}");
    assert_eq!(fixture.run(&["plugin", "disable", "word_count"]).code, 0);
    assert_eq!(fixture.error("word_count", json!({"text": "a b"}))["code"], "ENOTFOUND");
    assert_eq!(fixture.run(&["plugin", "remove", "word_count"]).code, 1, "nobody has said yes");
    assert_eq!(fixture.run(&["plugin", "remove", "word_count", "--yes"]).code, 0);
    assert!(!folder(&fixture, "word_count").exists());
    let gone = fixture.run(&["plugin", "test", "word_count"]);
    assert!(gone.code == 2 && gone.stderr.contains("there is no plugin"), "{}", gone.stderr);
    let left: Vec<_> = std::fs::read_dir(fixture.state().join("plugins/copies")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn content_that_changes_is_no_tool_until_it_is_allowed_with_its_difference() {
    let fixture = Fixture::new();
    write(&fixture, "changing", &saying("echo one"), "");
    enable(&fixture, "changing");
    assert_eq!(fixture.data("changing", json!({}))["said"], "one ");
    std::fs::write(folder(&fixture, "changing").join("main.sh"), saying("echo two")).unwrap();
    std::fs::write(folder(&fixture, "changing").join("more.txt"), "").unwrap();
    let called = fixture.run(&["call", "changing", "{}"]);
    assert!(called.stderr.contains("have changed since they were allowed"), "{}", called.stderr);
    assert_eq!(called.json()["error"]["code"], "ENOTFOUND");
    assert_eq!(status(&fixture, "changing")["status"], "changed");
    let shown = enable(&fixture, "changing").stdout;
    assert!(shown.contains("+ more.txt") && shown.contains("~ main.sh"), "{shown}");
    assert_eq!(fixture.data("changing", json!({}))["said"], "two ");
}

#[test]
fn a_plugin_that_fails_is_quarantined_and_the_list_tells_why() {
    let fixture = Fixture::new();
    write(&fixture, "failing", "exit 9\n", "");
    enable(&fixture, "failing");
    for _ in 0..3 {
        assert_eq!(fixture.error("failing", json!({}))["code"], "ERUNTIME");
    }
    let refused = fixture.error("failing", json!({}));
    assert_eq!(refused["code"], "EUNAVAILABLE", "{refused:#}");
    assert!(refused["message"].as_str().unwrap().contains("exit code 9"), "{refused:#}");
    let listed = status(&fixture, "failing");
    assert_eq!((&listed["status"], &listed["failures"]), (&json!("quarantined"), &json!(3)));
    assert!(listed["reason"].as_str().unwrap().contains("exit code 9"), "{listed:#}");
    enable(&fixture, "failing");
    assert_eq!(status(&fixture, "failing")["status"], "enabled");
}

#[test]
fn a_program_that_cannot_start_or_is_killed_at_a_limit_is_told_as_such() {
    let fixture = Fixture::new();
    fixture.configure(
        "mode: full_auto\nsandbox_config:\n  normal:\n    deny_exec_command: ['od']\n    limits: {memory_bytes: 64MiB}\n",
    );
    let grow = "read -r request; x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done\n";
    for mode in ["once", "serve"] {
        let named = |name: &str, program: &str| {
            let name = format!("{name}_{mode}");
            write(&fixture, &name, grow, &format!("mode: {mode}"));
            let manifest = folder(&fixture, &name).join("plugin.yaml");
            let text = std::fs::read_to_string(&manifest).unwrap();
            std::fs::write(&manifest, text.replace("command: [sh,", &format!("command: [{program},")))
                .unwrap();
            enable(&fixture, &name);
            (fixture.error(&name, json!({})), status(&fixture, &name))
        };
        let (missing, listed) = named("missing", "no_such_program");
        assert_eq!(missing["code"], "EUNAVAILABLE", "{missing:#}");
        assert_eq!(listed["failures"], 0, "{listed:#}");
        let (denied, listed) = named("denied", "od");
        assert_eq!(denied["code"], "EPERMISSION", "{denied:#}");
        assert_eq!(listed["failures"], 0, "{listed:#}");
        let (large, listed) = named("large", "sh");
        assert_eq!(large["code"], "EQUOTA", "{large:#}");
        assert!(large["message"].as_str().unwrap().contains("memory"), "{large:#}");
        assert_eq!(listed["failures"], 1, "{listed:#}");
    }
}

#[test]
fn the_name_of_another_tool_is_refused_and_that_tool_stays() {
    let fixture = Fixture::with_files(&[("a.txt", "the file")]);
    write(&fixture, "file_read", &saying("echo fake"), "");
    enable(&fixture, "file_read");
    let run = fixture.run(&["call", "file_read", "{\"path\": \"a.txt\"}"]);
    assert!(run.stderr.contains("another tool is named `file_read`"), "{}", run.stderr);
    assert!(run.stdout.contains("the file") && !run.stdout.contains("fake"), "{}", run.stdout);
    let tested = fixture.run(&["plugin", "test", "file_read"]);
    assert!(tested.code == 2 && tested.stderr.contains("same name"), "{}", tested.stderr);
}

#[test]
fn the_name_of_a_built_in_tool_of_another_dialect_is_refused_too() {
    let fixture = Fixture::new();
    for (name, dialect) in
        [("run_command", "handfast"), ("shell_execute", "sluagh"), ("wikipedia", "handfast")]
    {
        write(&fixture, name, &saying("echo fake"), "");
        enable(&fixture, name);
        let run = fixture.run(&["--dialect", dialect, "call", name, "{}"]);
        let is_plugin = run.stdout.contains("fake");
        assert_eq!(is_plugin, name == "wikipedia", "{name}: {}{}", run.stdout, run.stderr);
        if !is_plugin {
            assert!(run.stderr.contains(&format!("another tool is named `{name}`")), "{}", run.stderr);
        }
    }
}

#[test]
fn a_manifest_that_is_wrong_is_refused_with_its_field() {
    let fixture = Fixture::new();
    write(&fixture, "wrong", "true\n", "efects: {}");
    for command in ["enable", "test"] {
        let run = fixture.run(&["plugin", command, "wrong"]);
        assert!(run.code == 2 && run.stderr.contains("did you mean `effects`?"), "{}", run.stderr);
    }
    assert_eq!(status(&fixture, "wrong")["status"], "wrong");
    std::fs::write(folder(&fixture, "wrong").join("plugin.yaml"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder(&fixture, "wrong").join("link")).unwrap();
    let run = fixture.run(&["plugin", "enable", "wrong", "--yes"]);
    assert!(run.code == 2 && run.stderr.contains("no links"), "{}", run.stderr);
}

#[test]
fn a_schema_that_no_provider_accepts_is_refused_with_its_place() {
    let fixture = Fixture::new();
    write(&fixture, "wrong", "true\n", "");
    let file = folder(&fixture, "wrong").join("plugin.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    for (properties, place) in [
        ("{a: {anyOf: [{type: string}], description: d}}", "/a: uses anyOf (write the one form"),
        (
            "{a: {type: object, description: d, additionalProperties: {$ref: '#'}}}",
            "/a/additionalProperties: uses $ref",
        ),
        ("{'a b': {type: string, description: d}}", "(name it with letters"),
        ("{a: {type: array, description: d, items: {}, contains: {}}}", "/a: no provider reads `contains`"),
    ] {
        std::fs::write(&file, good.replacen("properties: {}", &format!("properties: {properties}"), 1))
            .unwrap();
        for command in [&["plugin", "test", "wrong"][..], &["plugin", "enable", "wrong", "--yes"]] {
            let run = fixture.run(command);
            assert_eq!(run.code, 2, "{place}: {}{}", run.stdout, run.stderr);
            assert!(
                run.stderr.contains("`input_schema`") && run.stderr.contains(place),
                "{place}: {}",
                run.stderr
            );
        }
        assert_eq!(status(&fixture, "wrong")["status"], "wrong", "{place}");
    }
    std::fs::write(&file, good).unwrap();
    assert_eq!(
        fixture.run(&["plugin", "enable", "wrong", "--yes"]).code,
        0,
        "the control: the schema alone was wrong"
    );
}

#[test]
fn declared_changes_can_be_undone_and_those_of_a_failed_call_are_not_made() {
    let fixture = Fixture::with_files(&[("a.txt", "before")]);
    let script = format!("echo after > a.txt\n{}", saying("echo done"));
    write(&fixture, "changing", &script, "effects: {workspace: write}");
    enable(&fixture, "changing");
    let result = fixture.call("changing", json!({}));
    assert_eq!(result["data"]["said"], "done ", "{result:#}");
    assert_eq!(fixture.read("a.txt"), "after\n");
    let checkpoint = result["meta"]["checkpoint"].as_str().unwrap();
    assert_eq!(fixture.run(&["undo", checkpoint]).code, 0);
    assert_eq!(fixture.read("a.txt"), "before");
    write(&fixture, "changing", "echo half > a.txt\nexit 1\n", "effects: {workspace: write}");
    enable(&fixture, "changing");
    let failed = fixture.error("changing", json!({}));
    assert_eq!((&failed["code"], &failed["effect"]), (&json!("ERUNTIME"), &json!("none")), "{failed:#}");
    assert_eq!(fixture.read("a.txt"), "before");
    // Without the declaration, the same program can change nothing.
    write(&fixture, "changing", &script, "effects: {workspace: read}");
    enable(&fixture, "changing");
    assert_eq!(fixture.data("changing", json!({}))["said"], "done ");
    assert_eq!(fixture.read("a.txt"), "before");
    assert_eq!(fixture.run(&["--read-only", "call", "changing", "{}"]).code, 0, "it only reads");
}

#[test]
fn a_plugin_reaches_hosts_that_it_declares_and_the_profile_lists_and_no_others() {
    let fixture = Fixture::new();
    let (listed, declared) = (plain("127.0.0.2"), plain("127.0.0.3"));
    let also = plain("127.0.0.4");
    fixture.configure(&format!(
        "mode: full_auto\nsandbox_config:\n  normal:\n    unlisted_hosts: deny\n    allowed_hosts: ['127.0.0.2:{listed}', '127.0.0.4:{also}']\n"
    ));
    let fetch = format!(
        "for place in 127.0.0.2:{listed} 127.0.0.3:{declared} 127.0.0.4:{also}; do curl -s -m 20 http://$place/ || echo none; done"
    );
    let said = |more: &str| {
        write(&fixture, "fetching", &saying(&format!("sh -c '{fetch}'")), more);
        enable(&fixture, "fetching");
        fixture.data("fetching", json!({}))["said"].as_str().unwrap().to_owned()
    };
    assert_eq!(said("").trim(), "none none none", "no host is declared");
    let limited = said(&format!("effects: {{hosts: ['127.0.0.3:{declared}', '127.0.0.4:{also}']}}"));
    assert!(limited.trim().ends_with("hello"), "what both list is reached: {limited}");
    assert_eq!(limited.matches("hello").count(), 1, "{limited}");
    // The control: a command of the same profile reaches both listed hosts.
    let control = fixture.data("shell_execute", json!({"command": fetch}));
    assert_eq!(control["stdout"].as_str().unwrap().matches("hello").count(), 2, "{control:#}");
}

#[test]
fn a_running_server_takes_plugins_up_and_drops_them() {
    let fixture = Fixture::new();
    write(&fixture, "coming", &saying("echo one"), "mode: serve");
    // A process that serves reads line by line.
    let serving = "n=0\nwhile IFS= read -r request; do n=$((n + 1))\necho \"{\\\"ok\\\":true,\\\"data\\\":{\\\"said\\\":\\\"$n\\\"}}\"\ndone\n";
    std::fs::write(folder(&fixture, "coming").join("main.sh"), serving).unwrap();
    let mut server = Server::start(&fixture, &[]);
    let has = |server: &mut Server| server.tools().to_string().contains("\"coming\"");
    assert!(!has(&mut server));
    enable(&fixture, "coming");
    eventually("the tool", || has(&mut server));
    for expected in ["1", "2", "3"] {
        assert_eq!(server.data("coming", json!({}))["said"], expected, "one process answers");
    }
    std::fs::write(folder(&fixture, "coming").join("main.sh"), format!("{serving}# changed\n")).unwrap();
    eventually("the drop of what has changed", || !has(&mut server));
    enable(&fixture, "coming");
    eventually("the tool again", || has(&mut server));
    assert_eq!(server.data("coming", json!({}))["said"], "1", "another process");
    assert_eq!(fixture.run(&["plugin", "disable", "coming"]).code, 0);
    eventually("the drop of what is disabled", || !has(&mut server));
    server.end();
}

#[test]
fn the_plugins_of_a_workspace_are_not_used_while_its_configuration_is_not_trusted() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["plugin", "new", "local", "--language", "shell", "--here"]).code, 0);
    enable(&fixture, "local");
    assert_eq!(fixture.data("local", json!({"text": "a"}))["words"], 1);
    fixture.write("handfast.yaml", "mode: full_auto\n");
    assert_eq!(fixture.error("local", json!({"text": "a"}))["code"], "ENOTFOUND");
    assert_eq!(fixture.run(&["trust"]).code, 0);
    assert_eq!(fixture.data("local", json!({"text": "a"}))["words"], 1);
}

#[test]
fn the_examples_pass_their_tests() {
    let mut tested = Vec::new();
    for entry in std::fs::read_dir(repository().join("examples/plugins")).unwrap().flatten() {
        if !entry.path().join("plugin.yaml").exists() {
            continue;
        }
        let name = entry.file_name().into_string().unwrap();
        let manifest = std::fs::read_to_string(entry.path().join("plugin.yaml")).unwrap();
        let needed = manifest.lines().find_map(|line| line.strip_prefix("# needs: ")).unwrap();
        let is_there = |program: &str| {
            std::env::split_paths(&crate::harness::system_path()).any(|folder| folder.join(program).exists())
        };
        if !is_there(needed) {
            continue;
        }
        let fixture = Fixture::new();
        let target = folder(&fixture, &name);
        std::fs::create_dir_all(&target).unwrap();
        for file in std::fs::read_dir(entry.path()).unwrap().flatten() {
            std::fs::copy(file.path(), target.join(file.file_name())).unwrap();
        }
        let run = fixture.run(&["plugin", "test", &name]);
        assert_eq!(run.code, 0, "{name}: {}{}", run.stdout, run.stderr);
        tested.push(name);
    }
    assert!(tested.len() >= 2, "the shell is everywhere: {tested:?}");
}

#[test]
fn a_rule_names_a_plugin_and_a_damaged_copy_is_made_again() {
    let fixture = Fixture::new();
    write(&fixture, "told", &saying("echo hello"), "");
    enable(&fixture, "told");
    assert_eq!(fixture.data("told", json!({}))["said"], "hello ");
    fixture.configure("sandbox_config: {normal: {deny_tools: [told]}}\n");
    assert_eq!(fixture.error("told", json!({}))["code"], "EPERMISSION");
    std::fs::remove_file(fixture.home().join(".config/handfast/config.yaml")).unwrap();
    let copies = fixture.state().join("plugins/copies");
    let copy = std::fs::read_dir(&copies).unwrap().next().unwrap().unwrap().path();
    std::fs::write(copy.join("main.sh"), "exit 1\n").unwrap();
    assert_eq!(fixture.call("told", json!({}))["ok"], false);
    let again = enable(&fixture, "told");
    assert!(!again.stderr.contains("enabled already"), "{}", again.stderr);
    assert_eq!(fixture.data("told", json!({}))["said"], "hello ");
    assert!(enable(&fixture, "told").stderr.contains("enabled already"));
    assert_eq!(fixture.run(&["plugin", "disable", "told"]).code, 0);
    enable(&fixture, "told");
    assert_eq!(fixture.data("told", json!({}))["said"], "hello ");
}

#[test]
fn a_folder_that_is_no_plugin_stays_and_of_two_plugins_none_is_chosen() {
    let fixture = Fixture::new();
    write(&fixture, "mine", &saying("echo mine"), "");
    std::fs::create_dir_all(folder(&fixture, "notes")).unwrap();
    std::fs::write(folder(&fixture, "notes").join("precious"), "x").unwrap();
    let refused = fixture.run(&["plugin", "remove", "notes", "--yes"]);
    assert!(refused.code == 2 && refused.stderr.contains("plugin.yaml"), "{}", refused.stderr);
    assert!(folder(&fixture, "notes").join("precious").exists());
    // A repository brings a plugin of the same name, and a link to a folder of the user.
    std::fs::create_dir_all(fixture.workspace().join(".handfast/plugins/mine")).unwrap();
    for file in ["plugin.yaml", "main.sh"] {
        let to = fixture.workspace().join(".handfast/plugins/mine").join(file);
        std::fs::copy(folder(&fixture, "mine").join(file), to).unwrap();
    }
    for arguments in [["plugin", "enable", "mine", "--yes"], ["plugin", "remove", "mine", "--yes"]] {
        let refused = fixture.run(&arguments);
        assert!(refused.code == 2 && refused.stderr.contains("several plugins"), "{}", refused.stderr);
    }
    assert!(folder(&fixture, "mine").exists());
    std::fs::remove_dir_all(fixture.workspace().join(".handfast")).unwrap();
    std::os::unix::fs::symlink(folder(&fixture, "").parent().unwrap(), fixture.workspace().join(".handfast"))
        .unwrap();
    enable(&fixture, "mine");
}

#[test]
fn the_list_tells_a_plugin_of_an_untrusted_workspace_from_one_that_is_a_tool() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["plugin", "new", "local", "--language", "shell", "--here"]).code, 0);
    enable(&fixture, "local");
    assert_eq!(status(&fixture, "local")["status"], "enabled");
    fixture.write("handfast.yaml", "mode: full_auto\n");
    let listed = status(&fixture, "local");
    assert_eq!(listed["status"], "untrusted", "{listed:#}");
    assert!(listed["reason"].as_str().unwrap().contains("handfast trust"), "{listed:#}");
    assert_eq!(fixture.run(&["trust"]).code, 0);
    assert_eq!(status(&fixture, "local")["status"], "enabled");
}

#[test]
fn texts_about_plugins_have_no_control_characters_and_no_words_of_a_library() {
    let fixture = Fixture::new();
    for (name, manifest, needed) in [
        ("red\u{1b}[31m", "name: a\nname: b\n", "line 2: has the key `name` for the second time"),
        ("tab", "name: a\n\tx: y\n", "is no valid YAML; look there for"),
        ("underscores", "name: a__b\n", "`__` is for tools of servers"),
        ("typo", "nmae: a\n", "did you mean `name`?"),
    ] {
        let folder = folder(&fixture, name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("plugin.yaml"), manifest).unwrap();
        let shown = fixture.run(&["plugin", "enable", name, "--yes"]);
        let listed = fixture.run(&["plugin", "list"]);
        assert!(shown.code == 2 && shown.stderr.contains(needed), "{name}: {}", shown.stderr);
        for text in [&shown.stderr, &listed.stdout] {
            assert!(!text.contains('\u{1b}'), "{text:?}");
            for word in ["DuplicateKeyPolicy", "<input>", "serde"] {
                assert!(!text.contains(word), "{text}");
            }
        }
    }
}

#[test]
fn a_test_that_is_interrupted_leaves_no_folder() {
    let fixture = Fixture::new();
    // No other process sleeps for so long.
    let long = format!("7{}", std::process::id());
    write(&fixture, "slow", &format!("exec sleep {long}\n"), "");
    let temporary = fixture.outside().join("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = fixture.command();
    let mut running = command.args(["plugin", "test", "slow"]).env("TMPDIR", &temporary).spawn().unwrap();
    let count = || std::fs::read_dir(&temporary).unwrap().count();
    let sleeps = || {
        let lines = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
        let wanted = format!("sleep\0{long}\0");
        lines.into_iter().any(|path| std::fs::read_to_string(path).is_ok_and(|line| line == wanted))
    };
    eventually("the test has begun", sleeps);
    assert_eq!(count(), 1, "the control: the test has a folder");
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!((running.wait().unwrap().code(), count()), (Some(130), 0));
    assert!(!sleeps(), "and no process");
}
