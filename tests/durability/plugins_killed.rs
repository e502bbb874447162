//! Plugins whose enabling or making is killed at any point: each is allowed as a whole or not at all.

use serde_json::{Value, json};

use crate::durability::every_point::stride;
use crate::durability::killed::{Ended, kill_at};
use crate::functional::plugins::write;
use crate::functional::self_development::{assert_nothing_left, example, git};
use crate::harness::Fixture;

const SCRIPT: &str = "echo '{\"ok\":true,\"data\":{\"said\":\"one\"}}'\n";

#[test]
fn a_plugin_whose_enabling_is_killed_is_a_tool_or_none_and_can_be_enabled_again() {
    let enable = |fixture: &Fixture, point: usize| {
        let mut command = fixture.command();
        command.args(["plugin", "enable", "tried", "--yes"]);
        kill_at(&command, point)
    };
    let prepared = || {
        let fixture = Fixture::new();
        fixture.data("file_list", json!({"path": "."}));
        write(&fixture, "tried", SCRIPT, "");
        fixture
    };
    let Ended::ByItself { points, code: 0 } = enable(&prepared(), usize::MAX) else { panic!("it fails") };
    let (mut tools, mut none) = (0, 0);
    for point in (1..2 * points).step_by(stride()) {
        let fixture = prepared();
        let at = match enable(&fixture, point) {
            Ended::Killed(change) => format!("point {point} of about {points}, {change}"),
            Ended::ByItself { .. } => break,
        };
        let called = fixture.call("tried", json!({}));
        if called["ok"] == true {
            assert_eq!(called["data"]["said"], "one", "{at}: {called:#}");
            tools += 1;
        } else {
            assert_eq!(called["error"]["code"], "ENOTFOUND", "{at}: {called:#}");
            none += 1;
        }
        let again = fixture.run(&["plugin", "enable", "tried", "--yes"]);
        assert_eq!(again.code, 0, "{at}: {}", again.stderr);
        assert_eq!(fixture.data("tried", json!({}))["said"], "one", "{at}");
        let copies = std::fs::read_dir(fixture.state().join("plugins/copies")).unwrap().count();
        assert_eq!(copies, 1, "{at}: nothing is left");
    }
    assert!(tools > 0 && none > 0, "{tools} {none}");
}

/// Files of a plugin that answers with a number.
fn two() -> Value {
    let manifest = "name: two\ndescription: Returns the number two.\ncommand: [sh, main.sh]\n\
                    input_schema: {type: object, properties: {}}\n\
                    output_schema: {type: object, properties: {number: {type: integer}}}\n\
                    example: {arguments: {}, result: {number: 2}}\n";
    let program = "echo '{\"ok\": true, \"data\": {\"number\": 2}}'\n";
    json!({
        "name": "two", "description": "Returns the number two.", "goal": "a number",
        "files": [{"path": "plugin.yaml", "content": manifest}, {"path": "main.sh", "content": program}],
    })
}

#[test]
fn a_new_plugin_of_a_project_that_is_killed_at_its_commit_is_finished_or_leaves_nothing() {
    let create = |fixture: &Fixture, point: usize| {
        let mut command = fixture.command();
        command.args(["call", "--yes", "self_create_plugin", &two().to_string()]);
        kill_at(&command, point)
    };
    let prepared = || {
        let fixture = example();
        fixture.data("file_list", json!({"path": "."}));
        fixture
    };
    let head = |fixture: &Fixture| git(fixture, &["rev-parse", "HEAD"]);
    // True if a human's yes is recorded, and the plugin is no tool yet.
    let is_pending = |fixture: &Fixture| {
        let state = std::fs::read_to_string(fixture.state().join("plugins/plugins.json")).unwrap_or_default();
        serde_json::from_str(&state).is_ok_and(|state: Value| {
            state["plugins"].as_object().is_some_and(|all| all.values().any(|one| one["is_pending"] == true))
        })
    };
    let Ended::ByItself { points, code: 0 } = create(&prepared(), usize::MAX) else { panic!("it fails") };
    let (mut finished, mut between, mut none) = (0, 0, 0);
    // The commit and the enabling are the last steps, so the points are tried from the end until some of them lie
    // before both. Their number varies between runs.
    for point in (1..points).rev().step_by(stride()) {
        let fixture = prepared();
        let before = head(&fixture);
        let Ended::Killed(change) = create(&fixture, point) else { continue };
        let at = format!("point {point} of about {points}, {change}");
        let was_pending = is_pending(&fixture);
        fixture.data("file_list", json!({"path": "."}));
        assert!(!is_pending(&fixture), "{at}: the next start settles it");
        let called = fixture.call("two", json!({}));
        assert_nothing_left(&fixture);
        assert_eq!(git(&fixture, &["status", "--porcelain"]), "", "{at}");
        if head(&fixture) == before {
            assert_eq!(called["error"]["code"], "ENOTFOUND", "{at}: {called:#}");
            assert!(!fixture.workspace().join("plugins").exists(), "{at}");
            let made = fixture.data("self_create_plugin", two());
            assert_eq!(made["registered"], true, "{at}: {made:#}");
            none += 1;
        } else {
            assert_eq!(called["data"]["number"], 2, "{at}: {called:#}");
            between += u32::from(was_pending);
            finished += 1;
        }
        assert_eq!(fixture.data("two", json!({}))["number"], 2, "{at}");
        let back = json!({"action": "revert", "commit_hash": head(&fixture)});
        fixture.data("self_rollback", back);
        assert_eq!(fixture.error("two", json!({}))["code"], "ENOTFOUND", "{at}: taken back as a whole");
        if none == 4 {
            break;
        }
    }
    println!("{finished} were finished, {between} of them by the next start, and {none} left nothing");
    assert!(between > 0 && none > 0, "{finished} {between} {none}");
}
