//! The home of a workspace's commands: the files that later commands find in it.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::harness::{Fixture, program};
use crate::server::Server;

const FREE: [&str; 2] = ["--mode", "full_auto"];

fn output(fixture: &Fixture, line: &str) -> String {
    fixture.data("shell_execute", json!({"command": line}))["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn caches_are_kept_from_call_to_call_through_every_door_and_in_the_background() {
    let fixture = Fixture::new();
    let result = fixture.call("shell_execute", json!({"command": "echo call > ~/.npm/one"}));
    assert!(result["meta"]["sandbox"].to_string().contains("home:caches_kept"), "{result:#}");
    assert!(result["meta"]["changes"].is_null(), "a cache is no change of the workspace: {result:#}");
    let mut server = Server::start(&fixture, &FREE);
    let seen = server.data("shell_execute", json!({"command": "cat ~/.npm/one && echo mcp > ~/.npm/two"}));
    assert_eq!(seen["stdout"], "call\n");
    let session = server.background(
        "cat ~/.npm/two && echo background > ~/.npm/three && echo written; exec sleep 1000",
        false,
    );
    server.expect(&session, 0, "^written$");
    // Another process reads the files while the background command runs.
    assert_eq!(output(&fixture, "cat ~/.npm/one ~/.npm/two ~/.npm/three"), "call\nmcp\nbackground\n");
    server.end();
}

#[test]
fn two_workspaces_of_one_state_share_no_cache() {
    let fixture = Fixture::new();
    output(&fixture, "echo mark > ~/.npm/mark");
    let other = fixture.outside().join("other");
    std::fs::create_dir(&other).unwrap();
    let call = |workspace: &std::path::Path| {
        let run = Command::new(program())
            .args(["--workspace".as_ref(), workspace.as_os_str()])
            .args(["--state".as_ref(), fixture.state().as_os_str()])
            .args(["--no-input", "call", "--yes", "shell_execute"])
            .arg(json!({"command": "find -L ~ -name mark"}).to_string())
            .env("HOME", fixture.home())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let result: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        result["data"]["stdout"].as_str().unwrap().to_owned()
    };
    assert!(call(&fixture.workspace()).contains("mark"), "the control");
    assert_eq!(call(&other), "");
}

#[test]
fn npm_installs_the_second_time_without_a_network() {
    let fixture = Fixture::new();
    let line = r#"mkdir -p registry/t package && cd package &&
        echo '{"name": "p", "version": "1.0.0", "main": "i.js"}' > package.json && echo 'console.log("from p")' > i.js &&
        tar czf ../registry/t/p-1.0.0.tgz -C .. package && cd .. &&
        echo '{"name": "p", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "p", "version": "1.0.0",
            "dist": {"tarball": "http://127.0.0.1:4873/t/p-1.0.0.tgz"}}}}' > registry/p && echo '{}' > package.json"#;
    output(&fixture, line);
    let mut server = Server::start(&fixture, &FREE);
    let registry = "exec python3 -u -m http.server 4873 --bind 127.0.0.1 --directory registry";
    let registry = server.background(registry, false);
    server.expect(&registry, 0, "^Serving HTTP");
    let install = "npm install --no-audit --no-fund --registry http://127.0.0.1:4873 p";
    let first = format!("{install} && node -e 'require(\"p\")'");
    let first = server.data("shell_execute", json!({"command": first, "timeout": 300}));
    assert_eq!(first["exit_code"], 0, "{first:#}");
    server.end();
    // The registry has ended with its server.
    let again = format!(
        "rm -r node_modules package-lock.json registry; {install} --offline && node -e 'require(\"p\")'"
    );
    let again = fixture.data("shell_execute", json!({"command": again, "timeout": 300}));
    assert_eq!(again["exit_code"], 0, "{again:#}");
    assert!(again["stdout"].as_str().unwrap().ends_with("from p\n"), "{again:#}");
    // The control: a package that is not in the cache cannot be installed.
    let other = install.replace(" p", " q") + " --offline";
    assert_ne!(fixture.data("shell_execute", json!({"command": other, "timeout": 300}))["exit_code"], 0);
}

#[test]
fn many_at_once_use_the_same_caches() {
    let fixture = Fixture::new();
    let calls: Vec<_> = (0..4)
        .map(|number| {
            let line = format!("for i in $(seq 50); do echo x > ~/.cache/pip/{number}-$i; done");
            fixture
                .command()
                .args(["call", "--yes", "shell_execute"])
                .arg(json!({"command": line}).to_string())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut call in calls {
        assert!(call.wait().unwrap().success());
    }
    assert_eq!(output(&fixture, "ls ~/.cache/pip | wc -l"), "200\n");
}

#[test]
fn caches_beyond_the_limit_are_gone_for_the_next_call() {
    let limited = |bytes: &str| {
        let fixture = Fixture::new();
        fixture.write(
            "handfast.yaml",
            &format!("sandbox_config:\n  normal:\n    limits:\n      home_bytes: {bytes}\n"),
        );
        output(&fixture, "head -c 3000000 /dev/zero > ~/.npm/large && echo x > ~/.cache/pip/small");
        output(&fixture, "ls ~/.npm ~/.cache/pip/ | grep -v : | tr '\\n' ' '")
    };
    assert_eq!(limited("1000000").trim(), "small");
    assert_eq!(limited("10000000"), "small  large ", "the control");
    assert_eq!(limited("0").trim(), "");
}

#[test]
fn a_root_in_the_place_of_a_cache_is_shown_there() {
    let fixture = Fixture::new();
    fixture.write(
        "handfast.yaml",
        "sandbox_config:\n  normal:\n    allowed_read_paths: [., /home/agent/.npm, /home/agent/.m2]\n",
    );
    fixture.run(&["trust"]);
    // A host with a user of the same name as the cells' user.
    let script = r#"mount -t tmpfs none /home && mkdir -p /home/agent/.npm /home/agent/.m2/repository &&
        echo host > /home/agent/.npm/file && echo host > /home/agent/.m2/repository/file && exec "$@""#;
    let own = fixture.command();
    let run = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(own.get_program())
        .args(own.get_args())
        .args(["call", "--yes", "shell_execute"])
        .arg(json!({"command": "cd && cat .npm/file .m2/repository/file && echo x > .cache/pip/x && cat .cache/pip/x"}).to_string())
        .env("HOME", fixture.home())
        .output()
        .unwrap();
    let result: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(result["data"]["stdout"], "host\nhost\nx\n", "{result:#}");
}
