//! The vault while its key is rotated, killed at any point: its secrets stay, and it can be opened.

use serde_json::json;

use crate::durability::every_point::stride;
use crate::durability::killed::{Ended, kill_at};
use crate::harness::Fixture;

const VALUE: &str = "value-of-the-vault-0123456789";

fn prepared() -> Fixture {
    let fixture = Fixture::with_files(&[("told", VALUE)]).with_vault();
    fixture.store("api_key", VALUE);
    fixture
}

/// Returns true if the vault opens: a value that the vault knows is then redacted.
fn opens(fixture: &Fixture) -> bool {
    let read = fixture.call("file_read", json!({"path": "told"}));
    read["data"]["content"].as_str().unwrap().contains("[SECRET:api_key]")
}

#[test]
fn a_rotation_that_is_killed_leaves_every_secret_and_a_key_that_opens_it() {
    let line = ["vault", "rotate"];
    let run = |fixture: &Fixture, point: usize| {
        let mut command = fixture.command();
        command.args(line);
        kill_at(&command, point)
    };
    let fixture = prepared();
    assert!(opens(&fixture), "the control");
    let Ended::ByItself { points, code: 0 } = run(&fixture, usize::MAX) else { panic!("it fails") };
    let (mut killed, mut all) = (0, false);
    for point in (1..2 * points).step_by(stride()) {
        let fixture = prepared();
        let Ended::Killed(change) = run(&fixture, point) else {
            all = true;
            break;
        };
        killed += 1;
        let at = format!("point {point} of about {points}, {change}");
        assert!(opens(&fixture), "{at}");
        let listed = fixture.run(&["vault", "list", "--json"]);
        assert!(listed.code == 0 && listed.stdout.contains("api_key"), "{at}: {}", listed.stderr);
        // No leftover stands in the way of the next rotation.
        let again = fixture.run(&line);
        assert_eq!(again.code, 0, "{at}: {}", again.stderr);
        fixture.store("another", "another-value-0123456789");
        assert!(opens(&fixture), "{at}");
        assert_eq!(fixture.run(&["audit", "verify"]).code, 0, "{at}");
    }
    assert!(all && killed > 3, "of about {points} points, {killed} were come to");
}
