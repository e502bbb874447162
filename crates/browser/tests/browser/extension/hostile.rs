//! Others at the port, pages that try to reach it, and a program that wants more from the extension than
//! it gives. Each attempt has a control that works.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use browser::BrowserError;
use browser::extension::ORIGIN;
use futures_util::{SinkExt, StreamExt};
use ring::hmac;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::driven::{Lender, UserChromium, at_shop, paired, server, until};
use crate::harness::{LIMIT, run_alone};

/// Sends a request, and returns the first line of the answer; empty if the connection ends without one.
async fn first_line(port: u16, head: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(head.replace('\n', "\r\n").as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).await.unwrap_or(0);
    let text = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(!text.contains("nonce") || text.contains("101"), "{text}");
    text.lines().next().unwrap_or_default().to_owned()
}

fn upgrade(port: u16, path: &str, lines: &str) -> String {
    let lines = lines.replace("PORT", &port.to_string());
    format!(
        "GET {path} HTTP/1.1\n{lines}Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n"
    )
}

#[test]
fn only_the_extension_gets_through_the_door() {
    run_alone(async {
        let (_chromium, _options, lender) = paired("door").await;
        let running = lender.borrow_browser().await;
        let port = lender.port;
        let right = format!("Host: 127.0.0.1:PORT\nOrigin: {ORIGIN}\n");
        for (what, path, lines) in [
            ("a missing Origin", "/extension", "Host: 127.0.0.1:PORT\n".to_owned()),
            ("a page's Origin", "/extension", "Host: 127.0.0.1:PORT\nOrigin: https://shop.test\n".to_owned()),
            ("the Origin null", "/extension", "Host: 127.0.0.1:PORT\nOrigin: null\n".to_owned()),
            (
                "another extension",
                "/extension",
                "Host: 127.0.0.1:PORT\nOrigin: chrome-extension://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
                    .to_owned(),
            ),
            ("two Origins", "/extension", format!("{right}Origin: https://shop.test\n")),
            ("a rebound name", "/extension", format!("Host: evil.example:PORT\nOrigin: {ORIGIN}\n")),
            ("no Host", "/extension", format!("Origin: {ORIGIN}\n")),
            ("two Hosts", "/extension", format!("Host: evil.example\n{right}")),
            ("another path", "/", right.clone()),
            ("a query", "/extension?key=x", right.clone()),
        ] {
            let line = first_line(port, &upgrade(port, path, &lines)).await;
            assert!(line.is_empty() || line.starts_with("HTTP/1.1 403"), "{what}: {line}");
        }
        for request in [
            "GET /extension HTTP/1.1\nHost: 127.0.0.1\n\n".to_owned(),
            format!("POST /extension HTTP/1.1\nHost: 127.0.0.1\nOrigin: {ORIGIN}\nContent-Length: 2\n\n{{}}"),
            "\0\x01\x02 not http\n\n".to_owned(),
        ] {
            let line = first_line(port, &request).await;
            assert!(!line.contains("101") && !line.contains("200"), "{request}: {line}");
        }
        let line = first_line(port, &upgrade(port, "/extension", &right)).await;
        assert!(line.starts_with("HTTP/1.1 101"), "the control: {line}");
        let six = TcpStream::connect(("::1", port)).await;
        assert!(six.is_ok() || std::net::TcpListener::bind("[::1]:0").is_err(), "it listens on [::1] too");
        // The extension is connected all the while.
        running.session().navigate(None, "about:blank", None, LIMIT).await.unwrap();
        lender.end();
    });
}

#[test]
fn many_idle_connections_cost_little_and_a_closed_listener_answers_nobody() {
    run_alone(async {
        let (_chromium, _options, lender) = paired("idle").await;
        let running = lender.borrow_browser().await;
        let mut idle = Vec::new();
        for _ in 0..200 {
            idle.push(TcpStream::connect(("127.0.0.1", lender.port)).await.unwrap());
        }
        running.session().navigate(None, "about:blank", None, LIMIT).await.unwrap();
        drop(running);
        lender.end();
        until("nobody listens any more", || async {
            TcpStream::connect(("127.0.0.1", lender.port)).await.is_err()
        })
        .await;
    });
}

#[test]
fn a_page_of_the_browser_gets_nothing_from_the_port() {
    run_alone(async {
        let server = server().await;
        let (chromium, options, lender) = paired("page").await;
        let running = lender.borrow_browser().await;
        let attempts = |port: u16| {
            format!(
                "Promise.all([
                    fetch('http://127.0.0.1:{port}/extension').then(answer => 'answered ' + answer.status, () => 'failed'),
                    fetch('http://127.0.0.1:{port}/extension', {{mode: 'no-cors', method: 'POST', body: 'x'}}).then(answer => answer.status ? 'read' : 'opaque', () => 'failed'),
                    new Promise(done => {{ const image = new Image(); image.onload = () => done('loaded'); image.onerror = () => done('failed'); image.src = 'http://127.0.0.1:{port}/extension'; }}),
                    new Promise(done => {{ const socket = new WebSocket('ws://127.0.0.1:{port}/extension'); socket.onmessage = () => done('heard'); socket.onopen = () => done('opened'); socket.onerror = () => done('failed'); }}),
                    new Promise(done => {{ const socket = new WebSocket('ws://localhost:{port}/extension'); socket.onmessage = () => done('heard'); socket.onopen = () => done('opened'); socket.onerror = () => done('failed'); }}),
                ])"
            )
        };
        let page = chromium.open(&at_shop(&server.page("<title>Attacker</title>"))).await;
        let got = page.evaluate(&attempts(lender.port)).await;
        for outcome in got.as_array().unwrap() {
            assert!(outcome == "failed" || outcome == "opaque", "{got}");
        }
        // The control: another port of this machine is reached by the same page.
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = open.local_addr().unwrap().port();
        let reaching = format!(
            "fetch('http://127.0.0.1:{port}/', {{mode: 'no-cors', signal: AbortSignal.timeout(3000)}}).catch(() => 0)"
        );
        let (reached, _) = tokio::join!(open.accept(), page.evaluate(&reaching));
        assert!(reached.is_ok());
        // A page cannot speak to the extension either.
        let spoken = page.evaluate("typeof chrome.runtime?.sendMessage").await;
        assert_eq!(spoken, "undefined");
        assert_eq!(options.ask(&json!({"type": "status"})).await["status"]["connected"], true);
        running.session().navigate(None, "about:blank", None, LIMIT).await.unwrap();
        lender.end();
    });
}

#[test]
fn a_second_browser_is_refused_and_told_why() {
    run_alone(async {
        let (_chromium, _options, lender) = paired("first").await;
        let running = lender.borrow_browser().await;
        let second = UserChromium::start("second").await;
        let options = second.options().await;
        options.enter("ABCD-2345", lender.port).await;
        let told = options.shown("#problem").await;
        assert!(told.contains("another browser is paired") && told.contains("unpair"), "{told}");
        running.session().navigate(None, "about:blank", None, LIMIT).await.unwrap();
        // A second session of this program is refused too.
        assert!(matches!(lender.try_borrow("two").await, Err(BrowserError::Lent)));
        drop(running);
        lender.browsers.give_back("one").await;
        let lent = lender.try_borrow("two").await.unwrap();
        drop(lent);
        lender.end();
    });
}

#[test]
fn nothing_is_lent_without_a_pairing_and_a_wrong_code_pairs_nobody() {
    run_alone(async {
        let lender = Lender::new();
        assert!(matches!(lender.try_borrow("one").await, Err(BrowserError::NotPaired)));
        let chromium = UserChromium::start("unpaired").await;
        let options = chromium.options().await;
        let code =
            std::sync::Arc::new(browser::extension::PairingCode::new(std::time::Instant::now()).unwrap());
        let pairing = browser::extension::pair(lender.port, code.clone(), lender.state.path());
        let entering = async {
            options.enter("2222-2222", lender.port).await;
            let told = options.shown("#problem").await;
            assert!(told.contains("the code is another one"), "{told}");
            options.enter(&code.shown(), lender.port).await;
        };
        let (paired, ()) = tokio::join!(pairing, entering);
        paired.unwrap();
        lender.borrow_browser().await;
        lender.end();
    });
}

/// A program at the port that has the key, and is not bound to the list of methods.
struct Impostor {
    socket: WebSocketStream<TcpStream>,
    id: u64,
    tab: Value,
}

impl Impostor {
    /// Waits for the extension, and proves itself with this key.
    async fn meet(listener: &TcpListener, key: &[u8]) -> Option<Self> {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.ok()?;
        let server = STANDARD.encode([7; 32]);
        let challenge = json!({"type": "challenge", "protocol": 1, "nonce": server});
        socket.send(Message::text(challenge.to_string())).await.ok()?;
        let prove = hear(&mut socket).await?;
        let text = format!(
            "handfast-connection/1\nserver\n{server}\n{}\n{ORIGIN}",
            prove["nonce"].as_str().unwrap()
        );
        let proof = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
        let proved = json!({"type": "proved", "proof": STANDARD.encode(proof), "instance": "impostor"});
        socket.send(Message::text(proved.to_string())).await.ok()?;
        let hello = hear(&mut socket).await?;
        Some(Self { socket, id: 0, tab: hello["tabs"][0]["tab"].clone() })
    }

    async fn call(&mut self, method: &str, tab: &Value, params: Value) -> Value {
        self.id += 1;
        let call = json!({"type": "call", "id": self.id, "method": method, "tab": tab, "params": params});
        self.socket.send(Message::text(call.to_string())).await.unwrap();
        loop {
            let answer = hear(&mut self.socket).await.unwrap();
            if answer["type"] == "answer" && answer["id"] == self.id {
                return answer;
            }
        }
    }
}

async fn hear(socket: &mut WebSocketStream<TcpStream>) -> Option<Value> {
    loop {
        if let Message::Text(text) = socket.next().await?.ok()? {
            return Some(serde_json::from_str(&text).unwrap());
        }
    }
}

/// Returns the key that a pairing has left.
fn key_of(lender: &Lender) -> Vec<u8> {
    let text = std::fs::read_to_string(lender.state.path().join("browser-extension.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    STANDARD.decode(file["key"].as_str().unwrap()).unwrap()
}

#[test]
fn the_extension_itself_refuses_methods_levels_tabs_and_everything_while_it_is_paused() {
    run_alone(async {
        let server = server().await;
        let (shop, private) = (at_shop(&server.page("shop")), at_shop(&server.page("private")));
        let (chromium, options, lender) = paired("impostor").await;
        let (_shop, _private) = (chromium.open(&shop).await, chromium.open(&private).await);
        options.share(&shop).await;
        let listener = TcpListener::bind(("127.0.0.1", lender.port)).await.unwrap();
        assert!(Impostor::meet(&listener, b"another key").await.is_none(), "no tab without a proof");
        let mut program = Impostor::meet(&listener, &key_of(&lender)).await.unwrap();
        let tab = program.tab.clone();
        let evaluate = json!({"expression": "location.href", "returnByValue": true});
        let control = program.call("Runtime.evaluate", &tab, evaluate.clone()).await;
        assert_eq!(control["result"]["result"]["value"], shop, "the control: {control}");
        for method in [
            "Page.crash",
            "Network.getAllCookies",
            "Target.getTargets",
            "Browser.close",
            "DOM.setFileInputFiles",
            "toString",
        ] {
            let refused = program.call(method, &tab, json!({})).await;
            assert_eq!(refused["error"]["code"], -33_003, "{method}: {refused}");
        }
        for method in ["Network.getCookies", "tabs.close"] {
            let refused = program.call(method, &tab, json!({})).await;
            assert!(refused["error"]["message"].as_str().unwrap().contains("destructive"), "{refused}");
        }
        for url in [
            "http://127.0.0.1:1/",
            "http://localhost/",
            "http://[::1]/",
            "http://0x7f.1/",
            "file:///etc/passwd",
            "chrome://settings",
            "javascript:1",
        ] {
            for method in ["Page.navigate", "tabs.create"] {
                let refused = program.call(method, &tab, json!({"url": url})).await;
                assert_eq!(refused["error"]["code"], -33_003, "{url}: {refused}");
            }
        }
        let other = options
            .evaluate(&format!(
                "chrome.tabs.query({{}}).then(all => all.find(tab => tab.url === '{private}').id)"
            ))
            .await;
        let outside = program.call("Runtime.evaluate", &other, evaluate.clone()).await;
        assert_eq!(outside["error"]["message"], "the tab is not shared");
        options.ask(&json!({"type": "pause", "paused": true})).await;
        let paused = program.call("Runtime.evaluate", &tab, evaluate.clone()).await;
        assert_eq!(paused["error"]["code"], -33_002, "{paused}");
        options.ask(&json!({"type": "pause", "paused": false})).await;
        options.ask(&json!({"type": "level", "level": "destructive"})).await;
        let cookies = program.call("Network.getCookies", &tab, json!({})).await;
        assert!(cookies["result"]["cookies"].is_array(), "the control: {cookies}");
        assert!(program.call("Runtime.evaluate", &tab, evaluate).await["result"].is_object());
    });
}

#[test]
fn a_paused_browser_says_so_and_a_page_of_this_machine_leaves_the_group() {
    run_alone(async {
        let server = server().await;
        let shop = at_shop(&server.page("shop"));
        let here = server.page("a server of this machine");
        let (chromium, options, lender) = paired("paused").await;
        let tab = chromium.open(&shop).await;
        options.share(&shop).await;
        let running = lender.borrow_browser().await;
        let popup = chromium.open(&format!("{ORIGIN}/popup.html")).await;
        assert_eq!(popup.shown("#state").await, "An agent is connected.");
        assert_eq!(popup.evaluate("document.getElementById('share').disabled").await, true, "its own page");
        popup.evaluate("document.getElementById('pause').click()").await;
        until("the pause is known", || async { matches!(lender.ready().await, Err(BrowserError::Paused)) })
            .await;
        until("the popup offers to go on", || async { popup.shown("#pause").await == "Go on" }).await;
        popup.evaluate("document.getElementById('pause').click()").await;
        until("it goes on", || async { lender.ready().await.is_ok() }).await;
        let local = running.session().navigate(None, &here, None, LIMIT).await.unwrap_err();
        assert!(matches!(local, BrowserError::NotShared { .. }), "{local}");
        tab.evaluate(&format!("location.href = '{here}'")).await;
        until("the tab is gone", || async { !running.session().tabs().await.iter().any(|tab| tab.tab == 1) })
            .await;
        let shared = options.share(&here).await;
        assert!(shared["error"].as_str().unwrap().contains("this machine"), "{shared}");
        lender.end();
    });
}
