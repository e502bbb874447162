//! Sizes and times of snapshots and actions, with a real Chromium: `cargo run --release --example page_figures`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program for the developer, which starts a browser outside of any cell"
)]

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use browser::{
    Browser, ClickOptions, Page, ReadOptions, Selector, Session, Settings, SnapshotOptions, Typing, World,
};
use tokio::net::unix::pipe::{Receiver, Sender};

/// Script that moves its own input and output to the descriptors of the protocol.
const START: &str = r#"for program in chromium-headless-shell chromium; do
    if command -v "$program" >/dev/null; then exec "$program" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null; fi
done
exit 127"#;
const LIMIT: Duration = Duration::from_secs(30);
const RUNS: usize = 15;

#[tokio::main]
async fn main() {
    let profile = tempfile::tempdir().unwrap();
    let settings = Settings::new(profile.path().to_string_lossy());
    let mut child = Command::new("sh")
        .args(["-c", START, "sh"])
        .args(settings.arguments())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let writer = Sender::from_owned_fd(OwnedFd::from(child.stdin.take().unwrap())).unwrap();
    let reader = Receiver::from_owned_fd(OwnedFd::from(child.stdout.take().unwrap())).unwrap();
    let browser = Browser::connect(reader, writer, settings).await.unwrap();
    let session = browser.new_session().await.unwrap();
    measure(&session).await;
    browser.close().await;
    child.wait().unwrap();
    if let Ok(load) = std::fs::read_to_string(Path::new("/proc/loadavg")) {
        println!("load: {}", load.trim());
    }
}

async fn measure(session: &Session) {
    let small = "<h1>Sign in</h1><form><label>Email <input></label><label>Password <input type=password></label>\
                 <button type=button onclick='count.textContent++'>Sign in</button></form><p id=count>0</p>";
    let mut rows =
        String::from("<h1>Users</h1><table><tr><th>Select<th>Id<th>Name<th>Mail<th>State<th>Actions</tr>");
    for row in 0..1000 {
        let _ = write!(
            rows,
            "<tr><td><input type=checkbox aria-label='Select {row}'><td>{row}<td><a href='/u/{row}'>User Number {row}</a>\
             <td>user{row}@example.com<td>Active<td><button>Edit</button> <button>Delete</button></tr>"
        );
    }
    rows.push_str("</table>");
    for (name, html) in [("small page", small), ("1,000 rows", rows.as_str())] {
        let mut first = Vec::new();
        let mut page = open(session, html).await;
        for _ in 0..5 {
            page = open(session, html).await;
            let start = Instant::now();
            page.snapshot(&SnapshotOptions::default()).await.unwrap();
            first.push(start.elapsed());
        }
        let (mut whole, mut inside) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let start = Instant::now();
            let snapshot = page.snapshot(&SnapshotOptions::default()).await.unwrap();
            whole.push(start.elapsed());
            inside.push(snapshot.in_page);
        }
        let snapshot = page.snapshot(&SnapshotOptions::default()).await.unwrap();
        println!(
            "{name}: first snapshot {}, later {}, of which in the page {}; {} lines, {} characters, {} tokens",
            shown(first),
            shown(whole),
            shown(inside),
            snapshot.lines,
            snapshot.text.chars().count(),
            snapshot.tokens
        );
        let mut clicks = Vec::new();
        let mut texts = Vec::new();
        let button = Selector::parse("xpath:(//button)[1]").unwrap();
        for _ in 0..RUNS {
            let start = Instant::now();
            page.click(&button, ClickOptions::default(), LIMIT).await.unwrap();
            clicks.push(start.elapsed());
            let start = Instant::now();
            page.read_text(&ReadOptions::default()).await.unwrap();
            texts.push(start.elapsed());
        }
        println!("{name}: click {}, text {}", shown(clicks), shown(texts));
    }
    let page = open(session, small).await;
    let mut types = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        page.type_text(
            &Selector::parse("css:form label:first-child input").unwrap(),
            &Typing::new("a@b.test"),
            LIMIT,
        )
        .await
        .unwrap();
        types.push(start.elapsed());
    }
    println!("small page: type {}", shown(types));
}

async fn open(session: &Session, html: &str) -> Page {
    for tab in session.tabs().await {
        session.close(tab.tab).await.unwrap();
    }
    let navigated = session.create("about:blank", LIMIT).await.unwrap();
    let tab = session.tab(navigated.tab).unwrap();
    let argument = serde_json::json!(html).into();
    let draw = "html => { document.documentElement.innerHTML = html; return document.body.offsetHeight }";
    tab.main_frame().evaluate::<f64>(World::Page, draw, vec![argument]).await.unwrap();
    Page::new(tab)
}

/// Returns the median and the least of some times.
fn shown(mut times: Vec<Duration>) -> String {
    times.sort();
    let milliseconds = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    format!("{:.1} ms (least {:.1})", milliseconds(times.get(times.len() / 2)), milliseconds(times.first()))
}
