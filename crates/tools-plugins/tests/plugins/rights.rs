//! The rights of plugins in their cells: those that they declare.

use std::os::unix::net::UnixListener;

use crate::place::Place;

/// Script that answers with what a command prints.
fn seen(command: &str) -> String {
    format!(
        "seen=$({command} 2>&1 | tr -d '\"\\\\' | head -c 200 | tr '\\n' ' ')\nprintf '{{\"ok\":true,\"data\":{{\"seen\":\"%s\"}}}}\\n' \"$seen\"\n"
    )
}

fn said(place: &Place, command: &str, uses: &str) -> String {
    let tool = place.plugin(&seen(command), &format!("effects: {{workspace: {uses}}}"));
    place.call(&tool).unwrap()["seen"].as_str().unwrap().to_owned()
}

#[test]
fn the_workspace_is_seen_and_changed_as_declared_and_not_otherwise() {
    let place = Place::new();
    let file = place.path("workspace/notes.txt");
    std::fs::write(&file, "the notes").unwrap();
    let read = format!("cat {}", file.display());
    assert!(!said(&place, &read, "none").contains("the notes"));
    assert_eq!(said(&place, &read, "read"), "the notes");
    let write = format!("sh -c 'echo changed > {} && echo done'", file.display());
    for uses in ["none", "read"] {
        assert!(!said(&place, &write, uses).contains("done"), "{uses}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "the notes", "{uses}");
    }
    // The control: a declared write is made.
    assert!(said(&place, &write, "write").contains("done"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed\n");
}

#[test]
fn nothing_outside_is_written_whatever_is_declared() {
    let place = Place::new();
    let outside = place.path("outside.txt");
    std::fs::write(&outside, "before").unwrap();
    for uses in ["none", "read", "write"] {
        // The cell has a private folder of that name, so a write may succeed there.
        said(&place, &format!("sh -c 'echo x > {}'", outside.display()), uses);
        for target in ["$PLUGIN_FOLDER/main.sh", "/etc/handfast-test"] {
            let shown = said(&place, &format!("sh -c \"echo x > {target} && echo done\""), uses);
            assert!(!shown.contains("done"), "{uses} {target}: {shown}");
        }
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "before");
        let state = place.store.all().unwrap().pop().unwrap().state;
        let copy = plugins::PluginFolder::read(&place.store.copy_of(&state.hash)).unwrap();
        assert_eq!(copy.hash, state.hash, "the copy is as it was allowed");
    }
    assert!(said(&place, "sh -c 'echo x > $HOME/f && echo done'", "none").contains("done"), "the control");
}

#[test]
fn a_socket_outside_such_as_that_of_a_vault_is_not_there() {
    let place = Place::new();
    let (outside, inside) = (place.path("state/vault.sock"), place.path("workspace/own.sock"));
    let _listeners = [UnixListener::bind(&outside).unwrap(), UnixListener::bind(&inside).unwrap()];
    let look =
        |path: &std::path::Path| format!("sh -c '[ -S {} ] && echo there || echo absent'", path.display());
    for uses in ["none", "read", "write"] {
        assert_eq!(said(&place, &look(&outside), uses).trim(), "absent", "{uses}");
    }
    assert_eq!(said(&place, &look(&inside), "read").trim(), "there", "the control");
}

#[test]
fn without_a_declared_host_there_is_no_network() {
    let place = Place::new();
    let interfaces = said(
        &place,
        "sh -c 'ls /sys/class/net 2>/dev/null || tail -n +3 /proc/net/dev | cut -d: -f1'",
        "none",
    );
    assert_eq!(interfaces.replace("lo", "").trim(), "", "{interfaces}");
}
