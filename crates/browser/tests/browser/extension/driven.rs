//! A Chromium with the extension, and the hands of its user.
#![expect(clippy::disallowed_methods, reason = "the tests start a real browser outside of any cell")]

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use browser::extension::{ORIGIN, PairingCode, extension_files, pair};
use browser::{BrowserError, Browsers, Running, Settings};
use cdp::{Connection, SessionId};
use jiff::Timestamp;
use sandbox::CellSource;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tool::{Owner, ResourcePool, SessionId as OwnerId};

use crate::harness::profile;
use crate::server::Server;

/// Name that leads to the test server in the user's browser, where pages of this machine are not shared.
pub(crate) const SHOP: &str = "shop.test";

/// The user's browser.
pub(crate) struct UserChromium {
    connection: Connection,
    child: Child,
    _extension: tempfile::TempDir,
}

impl Drop for UserChromium {
    fn drop(&mut self) {
        self.connection.shut();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answer of `Runtime.evaluate`.
#[derive(Deserialize)]
struct Evaluated {
    result: Value,
}

impl UserChromium {
    /// Starts a browser with the extension.
    pub(crate) async fn start(name: &str) -> Self {
        Self::start_in(&profile(name)).await
    }

    /// Starts a browser on a profile.
    pub(crate) async fn start_in(profile: &std::path::Path) -> Self {
        let extension = tempfile::tempdir().unwrap();
        for (path, content) in extension_files() {
            let path = extension.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let folder = extension.path().display().to_string();
        let arguments = Settings::new(profile.to_string_lossy()).arguments();
        let script = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(arguments.iter().filter(|argument| *argument != "--disable-extensions"))
            .arg(format!("--load-extension={folder}"))
            .arg("--disable-features=DisableLoadExtensionCommandLineSwitch")
            .arg(format!("--host-resolver-rules=MAP {SHOP} 127.0.0.1, MAP bank.test 127.0.0.1"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let writer = Sender::from_owned_fd(OwnedFd::from(child.stdin.take().unwrap())).unwrap();
        let reader = Receiver::from_owned_fd(OwnedFd::from(child.stdout.take().unwrap())).unwrap();
        let connection = Connection::over_pipe(reader, writer);
        let version: Result<Value, _> = connection.call(None, "Browser.getVersion", json!({})).await;
        assert!(version.is_ok(), "{version:?}: these tests need the package `chromium`");
        Self { connection, child, _extension: extension }
    }

    /// Ends the browser as its user does, so that its profile is whole.
    pub(crate) async fn quit(&self) {
        let _: Result<Value, _> = self.connection.call(None, "Browser.close", json!({})).await;
        self.connection.closed().await;
    }

    /// Opens a page in a new tab.
    pub(crate) async fn open(&self, url: &str) -> UserPage {
        let target: Value =
            self.connection.call(None, "Target.createTarget", json!({"url": url})).await.unwrap();
        let target = target["targetId"].as_str().unwrap().to_owned();
        let attached: Value = self
            .connection
            .call(None, "Target.attachToTarget", json!({"targetId": target, "flatten": true}))
            .await
            .unwrap();
        let session = SessionId::from(attached["sessionId"].as_str().unwrap());
        let page = UserPage { connection: self.connection.clone(), session };
        let is_there = "new Promise(done => document.readyState === 'complete' ? done(location.href) : addEventListener('load', () => done(location.href)))";
        // The first document of a new tab is empty.
        loop {
            if let Some(Value::String(href)) = page.try_evaluate(is_there).await
                && href != "about:blank"
            {
                return page;
            }
        }
    }

    /// Opens the options of the extension.
    pub(crate) async fn options(&self) -> UserPage {
        self.open(&format!("{ORIGIN}/options.html")).await
    }
}

/// A page that the user looks at.
pub(crate) struct UserPage {
    connection: Connection,
    session: SessionId,
}

impl UserPage {
    async fn try_evaluate(&self, expression: &str) -> Option<Value> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer: Result<Evaluated, _> =
            self.connection.call(Some(&self.session), "Runtime.evaluate", params).await;
        answer.ok().map(|answer| answer.result["value"].clone())
    }

    /// Evaluates an expression.
    pub(crate) async fn evaluate(&self, expression: &str) -> Value {
        self.try_evaluate(expression).await.unwrap()
    }

    /// Stops the workers of the extension, as the browser does when they are idle.
    pub(crate) async fn stop_workers(&self) {
        for method in ["ServiceWorker.enable", "ServiceWorker.stopAllWorkers"] {
            let _: Value = self.connection.call(Some(&self.session), method, json!({})).await.unwrap();
        }
    }

    /// Sends a request to the worker, as the pages of the extension do.
    pub(crate) async fn ask(&self, request: &Value) -> Value {
        self.evaluate(&format!("chrome.runtime.sendMessage({request})")).await
    }

    /// Returns true if the extension is connected to the program.
    pub(crate) async fn is_connected(&self) -> bool {
        self.ask(&json!({"type": "status"})).await["status"]["connected"] == true
    }

    /// Types the code, and clicks.
    pub(crate) async fn enter(&self, code: &str, port: u16) {
        let script = format!(
            "document.getElementById('code').value = '{code}';
             document.getElementById('port').value = '{port}';
             document.getElementById('pairing').requestSubmit()"
        );
        self.evaluate(&script).await;
    }

    /// Waits until an element shows a text that is not empty.
    pub(crate) async fn shown(&self, selector: &str) -> String {
        let script = format!(
            "new Promise(done => {{
                const look = () => {{
                    const text = document.querySelector('{selector}').textContent;
                    if (text) done(text); else requestAnimationFrame(look);
                }};
                look();
            }})"
        );
        self.evaluate(&script).await.as_str().unwrap().to_owned()
    }

    /// Shares the tab with this URL, once there is one.
    pub(crate) async fn share(&self, url: &str) -> Value {
        let find =
            format!("chrome.tabs.query({{}}).then(all => all.find(tab => tab.url === '{url}')?.id ?? null)");
        loop {
            let id = self.evaluate(&find).await;
            if id.is_number() {
                return self.ask(&json!({"type": "share", "tab": id})).await;
            }
        }
    }
}

/// A cable between the extension and this program, which can be pulled.
pub(crate) struct Cable {
    pub(crate) port: u16,
    is_in: watch::Sender<bool>,
    connections: watch::Receiver<usize>,
}

impl Cable {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let (is_in, (counter, connections)) = (watch::Sender::new(true), watch::channel(0));
        let plug = is_in.subscribe();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut plug = plug.clone();
                let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                counter.send_modify(|count| *count += 1);
                tokio::spawn(async move {
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = plug.wait_for(|is_in| !is_in) => {}
                    }
                });
            }
        });
        Self { port: own, is_in, connections }
    }

    /// Breaks all connections, and those that come until it is plugged in.
    pub(crate) fn pull(&self) {
        self.is_in.send_replace(false);
    }

    pub(crate) fn plug_in(&self) {
        self.is_in.send_replace(true);
    }

    /// Returns how often the extension has connected.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.borrow()
    }
}

/// The side of this program.
pub(crate) struct Lender {
    pub(crate) browsers: Arc<Browsers>,
    pub(crate) port: u16,
    pub(crate) state: tempfile::TempDir,
    source: CellSource,
}

impl Lender {
    pub(crate) fn new() -> Self {
        Self::named("one")
    }

    pub(crate) fn named(name: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let browsers = Browsers::new(Err("none is needed".to_owned()), state.path().join("browsers"));
        let source = CellSource::new(name.to_owned(), |_| Err("no cell is needed".into()));
        Self { browsers, port: free_port(), state, source }
    }

    /// Pairs with a browser through its options, which connects to `port`.
    pub(crate) async fn pair(&self, options: &UserPage, port: u16) {
        let code = Arc::new(PairingCode::new(Instant::now()).unwrap());
        let entering = async {
            options.enter(&code.shown(), port).await;
        };
        let (paired, ()) = tokio::join!(pair(self.port, code.clone(), self.state.path()), entering);
        paired.unwrap();
    }

    fn owner(name: &str) -> (Owner, Timestamp) {
        (Owner::Session(OwnerId(name.to_owned())), Timestamp::UNIX_EPOCH)
    }

    /// Borrows the browser.
    pub(crate) async fn borrow_browser(&self) -> Arc<Running> {
        self.try_borrow("one").await.unwrap()
    }

    /// Borrows the browser for a session.
    pub(crate) async fn try_borrow(&self, session: &str) -> Result<Arc<Running>, BrowserError> {
        let source = CellSource::new(session.to_owned(), |_| Err("no cell is needed".into()));
        self.browsers.lend(&source, Self::owner(session), (self.port, self.state.path())).await
    }

    /// Returns the browser once it can be used, as a call does.
    pub(crate) async fn ready(&self) -> Result<Arc<Running>, BrowserError> {
        self.browsers.start(&self.source, Self::owner("one")).await.map(|(running, _)| running)
    }

    pub(crate) fn end(&self) {
        self.browsers.join(&Owner::Runtime);
    }
}

/// Returns a port that nobody uses.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the URL of a page of the test server under another name.
pub(crate) fn at_shop(url: &str) -> String {
    url.replace("127.0.0.1", SHOP)
}

/// Waits until a condition holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let looking = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), looking).await.is_ok(), "{what}");
}

/// A browser that is paired, with its options open, and this program's side.
pub(crate) async fn paired(name: &str) -> (UserChromium, UserPage, Lender) {
    let (chromium, lender) = (UserChromium::start(name).await, Lender::new());
    let options = chromium.options().await;
    lender.pair(&options, lender.port).await;
    (chromium, options, lender)
}

/// Returns a server of pages.
pub(crate) async fn server() -> Server {
    Server::start().await
}
