//! Listed hosts, on a machine that refuses namespaces.

use serde_json::{Value, json};
use testkit::web::{Reply, Server};

use super::Refusing;

#[test]
fn a_listed_host_is_out_of_reach_for_commands_there_and_the_agent_is_told_why() {
    let own = Refusing::new(&[]);
    let server = Server::http(|_| Reply::of(200, &[], "answered"));
    let folder = own.fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = "sandbox_config:\n  normal:\n    allowed_hosts: [localhost]\n";
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    own.give();
    let line = format!("curl -sS -m 20 {0} || python3 -c 'import socket; socket.socket()'", server.url("/"));
    let result = own.call(&line);
    assert_eq!(result["meta"]["sandbox"][0], "degraded:landlock", "{result:#}");
    assert_ne!(result["data"]["exit_code"], 0, "{result:#}");
    let told = result["meta"]["warnings"].to_string();
    assert!(
        told.contains("no host can be reached from this command: this machine refuses namespaces"),
        "{told}"
    );
    assert!(told.contains("handfast doctor"), "{told}");
    assert!(server.seen().is_empty());
    // A tool that connects from outside any cell still reaches the host.
    let arguments = json!({"url": server.url("/")}).to_string();
    let output = own.handfast().args(["call", "fetch_url", &arguments]).output().unwrap();
    let fetched: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(fetched["data"]["data"], "answered", "{fetched:#}");
    assert_eq!(own.outside(&format!("curl -sS {}", server.url("/"))), "answered", "the control");
}

#[test]
fn doctor_says_that_no_host_is_reached_and_what_to_do() {
    let output = Refusing::new(&[]).handfast().args(["doctor", "--json"]).output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let way_out = findings.as_array().unwrap().iter().find(|it| it["name"] == "host-listed").unwrap();
    assert!(way_out["detail"].as_str().unwrap().contains("reach no host"), "{way_out:#}");
    assert!(way_out["hint"].as_str().unwrap().contains("fetch_url"), "{way_out:#}");
}
