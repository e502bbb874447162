//! Plugins whose enabling is killed at any point: each is allowed as a whole or not at all.

use serde_json::json;

use crate::durability::every_point::stride;
use crate::durability::killed::{Ended, kill_at};
use crate::functional::plugins::write;
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
