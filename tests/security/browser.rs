//! Pages that try to leave the network of their session.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::harness::Fixture;
use crate::server::Server;

/// Starts a server on this machine that counts connections. Returns its port and the counter.
fn counting() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let counter = Arc::new(AtomicUsize::new(0));
    let counted = counter.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, counter)
}

#[test]
fn a_page_reaches_no_server_of_this_machine_and_no_host_on_no_list() {
    let (port, connections) = counting();
    let fixture = Fixture::new();
    fixture.write(
        "index.html",
        &format!(
            r#"<title>start</title><img src="http://127.0.0.1:{port}/a"><script>
            const tries = ['http://127.0.0.1:{port}/b', 'http://[::1]:{port}/c', 'https://unlisted.example/', 'https://169.254.169.254/'];
            const asked = tries.map(url => fetch(url, {{mode: 'no-cors'}}).then(() => 'reached ' + url, () => 'failed'));
            const socket = new Promise(done => {{
                const socket = new WebSocket('ws://127.0.0.1:{port}/d');
                socket.onopen = () => done('reached socket'); socket.onerror = () => done('failed');
            }});
            Promise.all([...asked, socket]).then(all => {{ document.title = all.join(' '); }});
            </script>"#
        ),
    );
    let mut server = Server::start(&fixture, &["--mode", "full_auto", "--catalogue", "full"]);
    let id = server.background("exec python3 -u -m http.server --bind 127.0.0.1 3000", false);
    server.expect(&id, 0, "Serving HTTP");
    server.call("browser_navigate", json!({"url": "http://127.0.0.1:3000/"}));
    let waited = server.call(
        "browser_interact",
        json!({"tab_id": 1, "action": "wait", "selector": "xpath://title[contains(text(),'failed')]", "timeout": 1}),
    );
    let tabs = server.data("browser_tabs", json!({"action": "list"}));
    assert_eq!(tabs["tabs"][0]["title"], "failed failed failed failed failed", "{waited:#}");
    let recorded = fixture.recorded();
    for host in ["unlisted.example", "169.254.169.254"] {
        let refused = recorded.iter().any(|row| {
            row["tool"] == "cell_connect" && row["decision"] == "deny" && row.to_string().contains(host)
        });
        assert!(refused, "{host}: {recorded:#?}");
    }
    // Opened directly, it is not reached either.
    let direct = server.call("browser_navigate", json!({"url": format!("http://127.0.0.1:{port}/")}));
    assert!(direct["content"][0]["text"].as_str().unwrap().contains("ERR_CONNECTION_REFUSED"), "{direct:#}");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    // The control: this machine reaches the server.
    drop(std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    crate::harness::eventually("the connection is counted", || connections.load(Ordering::SeqCst) == 1);
    server.end();
}

#[test]
fn a_browser_sees_no_file_of_the_user() {
    let fixture = Fixture::with_files(&[("secret.txt", "the secret of the workspace")]);
    let mut server = Server::start(&fixture, &["--mode", "full_auto", "--catalogue", "full"]);
    server.call("browser_connect", json!({}));
    let folder = std::fs::read_dir(fixture.state().join("browsers")).unwrap().next().unwrap().unwrap().path();
    let inside = std::fs::read_dir("/proc").unwrap().flatten().find(|entry| {
        std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder)
            && std::fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|line| {
                line.contains("--type=renderer") || line.contains("--remote-debugging-pipe")
            })
    });
    let root = inside.expect("a process of the browser").path().join("root");
    assert!(root.join("usr/bin").is_dir(), "the control: the root of the cell can be looked into");
    let workspace = fixture.workspace();
    let seen = root.join(workspace.strip_prefix("/").unwrap()).join("secret.txt");
    assert!(!seen.exists(), "{}", seen.display());
    server.end();
}
