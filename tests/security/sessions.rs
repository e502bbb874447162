//! Network of one session's background commands: the session's own commands reach their servers.
//! Other sessions and the host do not, and commands do not reach the host.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;

use crate::harness::Fixture;
use crate::server::Server;

const FREE: [&str; 2] = ["--mode", "full_auto"];

/// A program that serves one line to every client, and prints its port.
const SERVE: &str = "python3 -u -c '
import socket
s = socket.socket(); s.bind((\"127.0.0.1\", PORT)); s.listen(16)
print(\"port\", s.getsockname()[1])
while True:
    c, _ = s.accept(); c.sendall(b\"SECRET-OF-THE-SESSION\"); c.close()'";

/// Returns a line that prints the bytes from the port, or the error's name.
fn fetch(port: u16) -> String {
    format!(
        "python3 -c 'import socket\ntry:\n    print(socket.create_connection((\"127.0.0.1\", {port}), 5).recv(100).decode())\nexcept OSError as e:\n    print(type(e).__name__)'"
    )
}

fn said(server: &mut Server, command: &str) -> String {
    let output = server.data("shell_execute", json!({ "command": command }));
    assert_eq!(output["stderr"], "", "{output:#}");
    output["stdout"].as_str().unwrap().trim().to_owned()
}

/// Starts the server in the background, on a port that the kernel chooses.
fn serve(server: &mut Server) -> (String, u16) {
    let id = server.background(&SERVE.replace("PORT", "0"), false);
    server.expect(&id, 0, "^port ");
    let read = server.data("shell_session", json!({"action": "read", "session_id": id}));
    let port = read["content"].as_str().unwrap().trim().trim_start_matches("port ").parse().unwrap();
    (id, port)
}

#[test]
fn a_server_of_a_session_is_reached_by_that_session_alone_and_the_hosts_loopback_by_none() {
    let (mine, other) = (Fixture::new(), Fixture::new());
    let (mut mine, mut other) = (Server::start(&mine, &FREE), Server::start(&other, &FREE));
    let (_, port) = serve(&mut mine);
    // The control: its own session reaches the server, from a foreground and from a background command.
    assert_eq!(said(&mut mine, &fetch(port)), "SECRET-OF-THE-SESSION");
    let again = mine.background(&fetch(port), false);
    mine.expect(&again, 0, "SECRET-OF-THE-SESSION");
    assert_eq!(said(&mut other, &fetch(port)), "ConnectionRefusedError");
    // A program of the host does not reach it either. Another program may listen at this port of the host.
    if let Ok(mut connection) = std::net::TcpStream::connect(("127.0.0.1", port)) {
        connection.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        let mut answer = Vec::new();
        // A stranger may refuse the request, or say nothing.
        let _ = connection.write_all(b"GET / HTTP/1.0\r\n\r\n");
        let _ = connection.take(4_096).read_to_end(&mut answer);
        assert!(!String::from_utf8_lossy(&answer).contains("SECRET-OF-THE-SESSION"));
    }

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = listener.local_addr().unwrap().port();
    // The control: outside a cell, the host's server can be reached.
    std::net::TcpStream::connect(("127.0.0.1", hosts)).unwrap();
    assert_eq!(said(&mut mine, &fetch(hosts)), "ConnectionRefusedError");
    for server in [mine, other] {
        server.end();
    }
}

#[test]
fn closing_one_session_leaves_the_network_to_the_others() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &FREE);
    let (first, _) = serve(&mut server);
    let (_, port) = serve(&mut server);
    server.data("shell_session", json!({"action": "close", "session_id": first}));
    assert_eq!(said(&mut server, &fetch(port)), "SECRET-OF-THE-SESSION");
    server.end();
}

#[test]
fn a_session_of_somebody_else_is_not_found() {
    let (mine, other) = (Fixture::new(), Fixture::new());
    let (mut mine, mut other) = (Server::start(&mine, &FREE), Server::start(&other, &FREE));
    let id = mine.background("exec sleep 1000", false);
    let read = json!({"action": "read", "session_id": id});
    assert_ne!(mine.call("shell_session", read.clone())["isError"], true);
    let refused = other.call("shell_session", read);
    assert!(refused["content"][0]["text"].as_str().unwrap().starts_with("ENOTFOUND"), "{refused:#}");
    assert_eq!(other.data("shell_session", json!({"action": "list"}))["sessions"], json!([]));
    for server in [mine, other] {
        server.end();
    }
}

#[test]
fn nothing_of_the_shared_network_can_be_changed_from_inside() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &FREE);
    let attempt = "python3 -c '
import socket
for what in (lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW), lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
             lambda: open(\"/proc/sys/net/ipv4/ip_forward\", \"w\")):
    try: what(); print(\"done\")
    except OSError as e: print(\"refused\")'";
    assert_eq!(said(&mut server, attempt), "refused\nrefused\nrefused");
    server.end();
}
