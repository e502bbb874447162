//! Start of Chromium over pipes, and what the tests share.
#![expect(clippy::disallowed_methods, reason = "the tests start a real browser outside of any cell")]

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use browser::{Browser, FrameHandle, Navigated, Session, Settings, Tab, World};
use cdp::protocol::input::{DispatchMouseEvent, MouseButton, MouseEventKind};
use serde::de::DeserializeOwned;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::server::Server;

/// Time limit of what a test does, far above what it takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Runtime of all tests, which outlives each of them.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});
static BROWSER: OnceCell<Browser> = OnceCell::const_new();
static SERVER: OnceCell<Server> = OnceCell::const_new();

/// Ground that a test stands on.
pub(crate) struct Ground {
    pub(crate) browser: Browser,
    pub(crate) session: Session,
    pub(crate) server: Server,
}

/// Runs a test in a session of its own.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Ground) -> F) {
    RUNTIME.block_on(async {
        let browser = BROWSER.get_or_init(async || start(&settings()).await.0).await.clone();
        let server = SERVER.get_or_init(Server::start).await.clone();
        let session = browser.new_session().await.unwrap();
        in_time(test(Ground { browser, session, server })).await;
    });
}

/// Runs a test without a browser.
pub(crate) fn run_alone<F: Future<Output = ()>>(test: F) {
    RUNTIME.block_on(in_time(test));
}

/// Ends a test that waits for something that does not come.
async fn in_time(test: impl Future<Output = ()>) {
    assert!(tokio::time::timeout(LIMIT * 2, test).await.is_ok(), "the test did not end");
}

/// Returns settings with a profile of this process.
pub(crate) fn settings() -> Settings {
    Settings { download_limit: 1 << 20, ..Settings::new(profile("shared").to_string_lossy()) }
}

/// Returns a new folder for a profile. Those of processes that have ended are removed.
pub(crate) fn profile(name: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser-profiles");
    std::fs::create_dir_all(&all).unwrap();
    for old in std::fs::read_dir(&all).unwrap().flatten() {
        let process = old.file_name().to_string_lossy().split('-').next().unwrap_or_default().to_owned();
        if !Path::new("/proc").join(process).exists() {
            let _ = std::fs::remove_dir_all(old.path());
        }
    }
    let own = all.join(format!("{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&own);
    std::fs::create_dir_all(&own).unwrap();
    own
}

/// Script that moves its own input and output to the descriptors of the protocol.
const START: &str = r#"for program in chromium-headless-shell chromium; do
    if command -v "$program" >/dev/null; then exec "$program" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null; fi
done
exit 127"#;

/// Starts a browser and connects to it.
pub(crate) async fn start(settings: &Settings) -> (Browser, Child) {
    let mut child = Command::new("sh")
        .args(["-c", START, "sh"])
        .args(settings.arguments())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let writer = Sender::from_owned_fd(OwnedFd::from(child.stdin.take().unwrap())).unwrap();
    let reader = Receiver::from_owned_fd(OwnedFd::from(child.stdout.take().unwrap())).unwrap();
    match Browser::connect(reader, writer, settings.clone()).await {
        Ok(browser) => (browser, child),
        Err(error) => panic!(
            "no browser ({error}): these tests need `chromium-headless-shell` or `chromium` in PATH; install the \
             package `chromium-headless-shell`"
        ),
    }
}

impl Ground {
    /// Opens a page with this HTML in a new tab.
    pub(crate) async fn open(&self, html: &str) -> Tab {
        let navigated = self.visit(&self.server.page(html)).await;
        assert!(navigated.loaded, "{navigated:?}");
        self.session.tab(navigated.tab).unwrap()
    }

    /// Opens a URL in a new tab.
    pub(crate) async fn visit(&self, url: &str) -> Navigated {
        self.session.navigate(None, url, None, LIMIT).await.unwrap()
    }
}

/// Evaluates an expression in the page's own context.
pub(crate) async fn page<T: DeserializeOwned>(tab: &Tab, expression: &str) -> T {
    in_frame(&tab.main_frame(), expression).await
}

/// Evaluates an expression in the own context of a frame's page.
pub(crate) async fn in_frame<T: DeserializeOwned>(frame: &FrameHandle, expression: &str) -> T {
    let function = format!("async () => {{ return {expression}; }}");
    frame.evaluate(World::Page, &function, Vec::new()).await.unwrap()
}

/// HTML of a button in the upper left corner, with this handler.
pub(crate) fn button(onclick: &str) -> String {
    format!(
        "<!doctype html><button style='position:fixed;left:0;top:0;width:100px;height:50px' onclick=\"{onclick}\">go</button>"
    )
}

/// Clicks into the upper left corner.
pub(crate) async fn click(tab: &Tab) {
    click_at(tab, 20.0, 20.0).await;
}

/// Clicks at a point of the viewport, once the page is drawn: Chromium ignores input before that.
pub(crate) async fn click_at(tab: &Tab, x: f64, y: f64) {
    let drawn = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";
    assert!(page::<bool>(tab, drawn).await);
    let event = |kind, buttons| DispatchMouseEvent {
        kind,
        x,
        y,
        button: MouseButton::Left,
        buttons,
        click_count: 1,
        ..DispatchMouseEvent::default()
    };
    tab.client().run(event(MouseEventKind::MousePressed, 1)).await.unwrap();
    tab.client().run(event(MouseEventKind::MouseReleased, 0)).await.unwrap();
}
