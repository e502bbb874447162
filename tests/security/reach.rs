//! File tools reach exactly the roots, under every spelling of a path and with every change meanwhile.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::harness::Fixture;
use crate::server::Server;

#[test]
fn a_link_that_is_swapped_while_calls_run_never_leads_one_out() {
    let fixture = Fixture::with_files(&[("real/secret.txt", "inside")]);
    std::fs::create_dir(fixture.outside().join("other")).unwrap();
    std::fs::write(fixture.outside().join("other/secret.txt"), "OUTSIDE").unwrap();
    let (workspace, outside) = (fixture.workspace(), fixture.outside().join("other"));
    let done = AtomicBool::new(false);
    let mut inside = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (link, spare) = (workspace.join("link"), workspace.join("spare"));
            let mut turn = 0_u32;
            while !done.load(Ordering::Relaxed) {
                turn += 1;
                let target =
                    if turn.is_multiple_of(2) { outside.as_path() } else { std::path::Path::new("real") };
                let _ = std::fs::remove_file(&spare);
                symlink(target, &spare).unwrap();
                std::fs::rename(&spare, &link).unwrap();
            }
        });
        for _ in 0..60 {
            let run = fixture.run(&["call", "file_read", r#"{"path": "link/secret.txt"}"#]);
            assert!(!run.stdout.contains("OUTSIDE"), "{}", run.stdout);
            inside += u32::from(run.stdout.contains("\"inside\""));
        }
        done.store(true, Ordering::Relaxed);
    });
    // The control: the race took place, and the link was readable while it led inside.
    assert!(inside > 0, "no read ever succeeded, so nothing was raced");
}

#[test]
fn a_listing_and_a_search_show_nothing_that_is_denied() {
    let fixture =
        Fixture::with_files(&[(".env", "needle"), ("sub/a.key", "needle"), ("sub/b.txt", "needle")]);
    let listed = fixture
        .data("file_list", json!({"path": ".", "recursive": true, "include_hidden": true}))
        .to_string();
    assert!(listed.contains("b.txt"), "{listed}");
    assert!(!listed.contains(".env") && !listed.contains("a.key"), "{listed}");
    let found = fixture.data("file_search", json!({"pattern": "needle", "include_hidden": true})).to_string();
    assert!(found.contains("b.txt"), "{found}");
    assert!(!found.contains(".env") && !found.contains("a.key"), "{found}");
}

#[test]
fn a_denied_file_is_not_read_under_another_of_its_names() {
    let files = [(".env", "needle"), ("tls.key/inner", "needle"), ("plain", "needle in plain")];
    let fixture = Fixture::with_files(&files);
    let at = |path: &str| fixture.workspace().join(path);
    for (from, to) in [(".env", "notes.txt"), ("tls.key/inner", "inner.txt"), ("plain", "also-plain")] {
        std::fs::hard_link(at(from), at(to)).unwrap();
    }
    for name in ["notes.txt", "inner.txt"] {
        let denied = fixture.error("file_read", json!({ "path": name }));
        assert_eq!(denied["code"], "EPERMISSION", "{denied:#}");
        assert!(denied["message"].as_str().unwrap().contains("hard link"), "{denied:#}");
    }
    let found = fixture.data("file_search", json!({"pattern": "needle"})).to_string();
    assert!(!found.contains("notes.txt") && !found.contains("inner.txt"), "{found}");
    // The control: a file with two names, neither of which is denied.
    assert!(found.contains("also-plain"), "{found}");
    let read = fixture.data("file_read", json!({"path": "also-plain"}));
    assert_eq!(read["content"], "needle in plain");
    // A server that has already looked sees a name that was added since.
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    let read =
        |server: &mut Server, path: &str| server.call("file_read", json!({ "path": path })).to_string();
    assert!(read(&mut server, "also-plain").contains("needle"));
    std::fs::hard_link(at(".env"), at("later.txt")).unwrap();
    assert!(!read(&mut server, "later.txt").contains("needle"));
    std::fs::remove_file(at(".env")).unwrap();
    std::fs::remove_file(at("notes.txt")).unwrap();
    assert!(read(&mut server, "later.txt").contains("needle"), "it is a plain file now");
}

#[test]
fn a_denied_file_is_never_taken_along() {
    let fixture =
        Fixture::with_files(&[("folder/.env", "secret"), ("folder/a.txt", "a"), ("plain/a.txt", "a")]);
    let denied = fixture.error("file_delete", json!({"path": "folder", "recursive": true}));
    assert_eq!(
        (denied["code"].as_str(), denied["effect"].as_str()),
        (Some("EPERMISSION"), Some("none")),
        "{denied:#}"
    );
    let denied = fixture.error("file_move", json!({"source": "folder", "destination": "elsewhere"}));
    assert_eq!(denied["code"], "EPERMISSION", "{denied:#}");
    assert_eq!(fixture.read("folder/a.txt"), "a");
    fixture.data("file_move", json!({"source": "plain", "destination": "moved"}));
    fixture.data("file_delete", json!({"path": "moved", "recursive": true}));
}
