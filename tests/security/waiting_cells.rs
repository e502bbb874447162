//! Cells that a server prepares for the next call of a plugin and for the next script: one call each, and no call gets
//! anything of another one.

use serde_json::json;

use crate::functional::plugins::{enable, folder, saying, write};
use crate::harness::{Fixture, eventually};
use crate::server::Server;

/// Returns the number of cells that wait in a mount namespace in which this text is the path of a mount.
fn waiting(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |entry: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let mounts = std::fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
        name.trim() == "handfast-cell" && mounts.contains(text)
    };
    processes.filter(has).count()
}

#[test]
fn each_call_of_a_plugin_has_a_cell_of_its_own_and_what_was_allowed_last() {
    let fixture = Fixture::new();
    let marks = "for place in /tmp /dev/shm \"$HOME\"; do \
                 if [ -e $place/mark ]; then echo old; else echo new; fi; touch $place/mark; done";
    write(&fixture, "marking", &saying(&format!("eval '{marks}'")), "");
    enable(&fixture, "marking");
    let copies = fixture.state().join("plugins/copies");
    let mut server = Server::start(&fixture, &[]);
    for turn in 0..4 {
        assert_eq!(server.data("marking", json!({}))["said"], "new new new ", "turn {turn}");
        eventually("the cell of the next call", || waiting(copies.to_str().unwrap()) == 1);
    }
    write(&fixture, "marking", &saying("echo changed"), "");
    enable(&fixture, "marking");
    let says = |server: &mut Server| server.call("marking", json!({})).to_string();
    eventually("the new content", || says(&mut server).contains("changed"));
    server.end();
    eventually("the end of all cells", || waiting(copies.to_str().unwrap()) == 0);
}

#[test]
fn plugins_without_hosts_do_not_reach_each_other_nor_the_servers_of_their_session() {
    let fixture = Fixture::new();
    fixture.configure("mode: full_auto\n");
    let python = |name: &str, body: &str| {
        let head = "import json, socket, sys, time\njson.loads(sys.stdin.readline())\n";
        let end = "print(json.dumps({'ok': True, 'data': {'said': said}}))\n";
        write(&fixture, name, "", "");
        std::fs::write(folder(&fixture, name).join("main.py"), format!("{head}{body}{end}")).unwrap();
        let manifest = folder(&fixture, name).join("plugin.yaml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        std::fs::write(&manifest, text.replace("[sh, main.sh]", "[python3, main.py]")).unwrap();
        enable(&fixture, name);
    };
    let listen = "listener = socket.create_server(('127.0.0.1', 4711))\nlistener.settimeout(6)\n";
    let visit = "try:\n    socket.create_connection(('127.0.0.1', 4711), 2).close()\n    said = 'reached'\n\
                 except OSError:\n    said = 'refused'\n";
    let accept =
        "try:\n    listener.accept()\n    said = 'visited'\nexcept TimeoutError:\n    said = 'alone'\n";
    python("hosting", &format!("{listen}{accept}"));
    python("visiting", &format!("time.sleep(2)\n{visit}"));
    python("both", &format!("{listen}{visit}"));
    let mut server = Server::start(&fixture, &["--catalogue", "full"]);
    // The first calls make the networks, in which the cells of the next calls wait.
    assert_eq!(server.data("both", json!({}))["said"], "reached", "the control");
    assert_eq!(server.data("visiting", json!({}))["said"], "refused");
    let hosting = server.begin("hosting", json!({}));
    assert_eq!(server.data("visiting", json!({}))["said"], "refused");
    let heard = server.received(hosting).to_string();
    assert!(heard.contains("alone"), "{heard}");
    let session = server.background("/usr/bin/python3 -m http.server 4711 --bind 127.0.0.1", false);
    assert!(!session.is_empty());
    let own = json!({"command": "sleep 2; python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 4711), 5); print(\"reached\")'"});
    let reached = server.call("shell_execute", own).to_string();
    assert!(reached.contains("reached"), "the control: {reached}");
    assert_eq!(server.data("visiting", json!({}))["said"], "refused");
    server.end();
}

#[test]
fn each_script_has_a_cell_of_its_own_and_no_folder_is_left() {
    let fixture = Fixture::with_files(&[("a.txt", "x\n")]);
    let scripts = fixture.state().join("scripts");
    let code = "\
        import os\n\
        places = ['/tmp', '/dev/shm', os.environ['HOME'], os.path.dirname(__file__)]\n\
        print([os.path.exists(place + '/mark') for place in places], tools.file_read(path='a.txt')['content'].strip())\n\
        for place in places: open(place + '/mark', 'w').close()\n";
    let mut server = Server::start(&fixture, &["--catalogue", "full"]);
    for turn in 0..4 {
        let answer = server.call("run_code", json!({ "code": code })).to_string();
        assert!(answer.contains("[False, False, False, False] x"), "turn {turn}: {answer}");
        eventually("the cell of the next script", || waiting(scripts.to_str().unwrap()) == 1);
    }
    server.end();
    eventually("the end of the cell", || waiting(scripts.to_str().unwrap()) == 0);
    assert_eq!(std::fs::read_dir(&scripts).unwrap().count(), 0);
}
