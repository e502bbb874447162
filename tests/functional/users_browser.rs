//! The user's own browser through the real program: the extension that the program writes, its pairing on
//! the command line, and the tools over MCP.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::functional::csp_browser::pages;
use crate::harness::{Fixture, eventually};
use crate::server::Server;

const PAGE: &str = r#"<!doctype html><title>Shop</title><h1>Shop</h1>
<label>Query <input></label>
<button onclick="document.body.append('added ' + document.querySelector('input').value)">Add</button>"#;

/// Origin of the extension.
const EXTENSION: &str = "chrome-extension://jggmcdgcllniboifkkdcobdjdhghjcge";

/// A Chromium with the extension, driven as its user would.
struct Chromium {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    last: u64,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Chromium {
    fn start(extension: &std::path::Path, profile: &std::path::Path) -> Self {
        let script = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut process = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(["--headless", "--no-sandbox", "--no-first-run", "--remote-debugging-pipe"])
            .arg("--disable-features=DisableLoadExtensionCommandLineSwitch")
            .arg("--host-resolver-rules=MAP *.test 127.0.0.2")
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--load-extension={}", extension.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, commands, answers, last: 0 }
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.answers.read_until(0, &mut bytes).unwrap();
            bytes.pop();
            let message: Value = serde_json::from_slice(&bytes)
                .unwrap_or_else(|error| panic!("no browser ({error}): these tests need `chromium`"));
            if message["id"] == self.last {
                return message["result"].clone();
            }
        }
    }

    /// Opens a page, and returns its session.
    fn open(&mut self, url: &str) -> String {
        let target = self.call(None, "Target.createTarget", &json!({"url": url}))["targetId"].clone();
        let attached =
            self.call(None, "Target.attachToTarget", &json!({"targetId": target, "flatten": true}));
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        eventually("the page is there", || {
            self.evaluate(&session, "document.readyState + location.href") == format!("complete{url}")
        });
        session
    }

    fn evaluate(&mut self, session: &str, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        self.call(Some(session), "Runtime.evaluate", &params)["result"]["value"].clone()
    }
}

fn text(answer: &Value) -> String {
    let blocks = answer["content"].as_array().unwrap();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_users_browser_is_lent_to_the_tools_within_the_policy() {
    let fixture = Fixture::new();
    // The hosts of the other fixture are not listed in this one.
    let served = pages(&Fixture::new(), &[("/", PAGE.to_owned())]);
    let shop = served.replace("127.0.0.2", "shop.test");
    let origin = shop.trim_end_matches('/');
    fixture.configure(&format!(
        "sandbox_config: {{normal: {{allowed_hosts: [shop.test], browser: {{submit: [\"{origin}\"]}}}}}}"
    ));
    let extension = fixture.outside().join("extension");
    let folder = extension.display().to_string();
    assert_eq!(fixture.run(&["browser", "extension", "--out", &folder]).code, 0);
    let (port, mut server) =
        (free_port(), Server::start(&fixture, &["--mode", "full_auto", "--catalogue", "full"]));
    let connect = json!({"port": port});
    let unpaired = text(&server.call("browser_connect", connect.clone()));
    assert!(unpaired.starts_with("EUNAVAILABLE: no browser of the user is paired"), "{unpaired}");
    assert!(
        unpaired.contains("two steps for the user: 1. ") && unpaired.contains(" browser pair`"),
        "{unpaired}"
    );
    // The user pairs the browser, and shares a tab.
    let mut chromium = Chromium::start(&extension, &fixture.outside().join("profile"));
    let options = chromium.open(&format!("{EXTENSION}/options.html"));
    let mut pairing = fixture
        .command()
        .args(["browser", "pair", "--port", &port.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut code = String::new();
    BufReader::new(pairing.stdout.take().unwrap()).read_line(&mut code).unwrap();
    let code = code.trim();
    let ask = |chromium: &mut Chromium, request: Value| {
        chromium.evaluate(&options, &format!("chrome.runtime.sendMessage({request})"))
    };
    let mut paired = Value::Null;
    eventually("it is paired", || {
        // The program may not listen yet.
        paired = ask(&mut chromium, json!({"type": "pair", "code": code, "port": port}));
        paired["status"]["paired"] == true
    });
    assert!(pairing.wait().unwrap().success());
    let again = fixture.run(&["browser", "pair"]);
    assert!(again.code == 2 && again.stderr.contains("paired already"), "{}", again.stderr);
    chromium.open(&shop);
    let share = format!(
        "chrome.tabs.query({{}}).then(all => chrome.runtime.sendMessage({{type: 'share', tab: all.find(tab => tab.url === '{shop}').id}}))"
    );
    assert_eq!(chromium.evaluate(&options, &share)["status"]["shared"], true);
    // The tools use it from now on.
    let connected = server.data("browser_connect", connect.clone());
    assert_eq!((&connected["connected"], &connected["tabs"][0]["url"]), (&json!(true), &json!(shop)));
    assert_eq!(connected["tabs"].as_array().unwrap().len(), 1, "{connected:#}");
    assert!(connected["browser_version"].as_str().unwrap().contains("Chrome/"), "{connected:#}");
    let act = |server: &mut Server, arguments: Value| text(&server.call("browser_interact", arguments));
    let typed =
        act(&mut server, json!({"tab_id": 1, "action": "type", "selector": "input", "value": "shoes"}));
    assert!(typed.contains("\"success\":true"), "{typed}");
    let clicked = act(&mut server, json!({"tab_id": 1, "action": "click", "selector": "xpath://button"}));
    assert!(clicked.contains("added shoes"), "{clicked}");
    let shot = server.call("browser_screenshot", json!({"tab_id": 1}));
    assert!(shot["content"].as_array().unwrap().iter().any(|block| block["type"] == "image"), "{shot}");
    let opened = text(&server.call("browser_navigate", json!({"url": shop})));
    assert!(opened.contains("\"tab_id\":2") && opened.contains("button \"Add\""), "{opened}");
    // The policy holds for what is opened, and pages of this machine are not.
    for (url, refusal) in [
        (shop.replace("shop.test", "bank.test"), "EAPPROVAL: "),
        (served.clone(), "EPERMISSION: "),
        ("file:///etc/passwd".to_owned(), "EVALIDATION: "),
    ] {
        let refused = text(&server.call("browser_navigate", json!({"url": url})));
        assert!(refused.starts_with(refusal), "{url}: {refused}");
    }
    let download = text(&server.call("browser_download", json!({"url": shop, "save_path": "x"})));
    assert!(download.starts_with("EUNAVAILABLE: ") && download.contains("without `port`"), "{download}");
    let cookies = text(&server.call("browser_cookies", json!({"domain": "shop.test"})));
    assert!(!cookies.contains("\"cookies\""), "{cookies}");
    ask(&mut chromium, json!({"type": "pause", "paused": true}));
    let paused = act(&mut server, json!({"tab_id": 1, "action": "click", "selector": "xpath://button"}));
    assert!(paused.starts_with("EUNAVAILABLE: the user has paused"), "{paused}");
    ask(&mut chromium, json!({"type": "pause", "paused": false}));
    // Without the port, the session has a browser of its own again.
    let own = server.data("browser_connect", json!({}));
    assert_eq!(own["tabs"], json!([]));
    eventually("the browser is given back", || {
        ask(&mut chromium, json!({"type": "status"}))["status"]["connected"] == false
    });
    // A session that ends detaches the debugger, and leaves the tabs: the shop twice, and an empty one.
    let attached = "chrome.debugger.getTargets().then(all => all.filter(one => one.attached && one.url.includes('shop.test')).length)";
    server.data("browser_connect", connect);
    assert_eq!(chromium.evaluate(&options, attached), 2);
    server.end();
    eventually("the debugger is detached", || chromium.evaluate(&options, attached) == 1);
    assert_eq!(
        chromium.evaluate(
            &options,
            "chrome.tabs.query({}).then(all => all.filter(tab => tab.groupId >= 0).length)"
        ),
        3
    );
    let key = std::fs::read_to_string(fixture.state().join("browser-extension.json")).unwrap();
    let key: Value = serde_json::from_str(&key).unwrap();
    let recorded = json!(fixture.recorded()).to_string();
    assert!(recorded.contains("browser pair") && !recorded.contains(code), "the code is in no row");
    assert!(!recorded.contains(key["key"].as_str().unwrap()));
    assert_eq!(fixture.run(&["browser", "unpair"]).code, 0);
    assert!(!fixture.state().join("browser-extension.json").exists());
}
