//! The browser tools, compared with `@playwright/mcp` on the same Chromium and the same pages.
//!
//! A server in this process has the pages. Handfast reaches it through its way out, as a listed host, with
//! policy and audit; the peer reaches it directly.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::handfast;
use crate::bench::measure::Durations;
use crate::bench::server::{Answer, Call, Kind, Server};
use crate::command::{Failure, Result, write};
use crate::repository::Repository;
use crate::setup;

/// Address of the pages' server: a loopback address that no test server of a session has.
const ADDRESS: &str = "127.0.0.2:0";
/// Rows of the large page.
const ROWS: usize = 1_000;
/// Program of the browser for the peer. Handfast prefers the same one.
const CHROMIUM: &str = "/usr/bin/chromium-headless-shell";

/// Number of samples per measurement.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    pub(super) starts: usize,
    pub(super) actions: usize,
}

/// Figures of one server.
#[derive(Default)]
pub(super) struct Figures {
    /// Time from the start of the server to the elements of its first page.
    pub(super) cold: Durations,
    /// Navigation to a small page, with its elements.
    pub(super) navigate: Durations,
    pub(super) click: Durations,
    /// Elements of a page with 1,000 rows.
    pub(super) large: Durations,
    /// Characters of that answer, divided by four.
    pub(super) large_tokens: usize,
    /// Characters of the schemas of all browser tools, divided by four.
    pub(super) schema_tokens: usize,
    /// Memory of the server without its browser, before and after its use, in KiB.
    pub(super) before_kib: u64,
    pub(super) after_kib: u64,
}

/// Measures both servers, in turns.
pub(super) fn all(
    repository: &Repository,
    folder: &Path,
    binary: &Path,
    samples: Samples,
) -> Result<[Figures; 2]> {
    let modules = setup::install_browser_peer(repository)?;
    let address = serve()?;
    let workspace = folder.join("workspace");
    write(&workspace.join("empty.txt"), "")?;
    let allowed = format!("sandbox_config: {{normal: {{allowed_hosts: [\"{address}\"]}}}}\n");
    write(&folder.join("config/handfast/config.yaml"), &allowed)?;
    let own = handfast(folder, &workspace, binary);
    let kinds = [full(own), peer(folder, &modules.join("@playwright/mcp/cli.js"))];
    let mut figures = [Figures::default(), Figures::default()];
    eprintln!("starting each server and its browser {} times", samples.starts);
    for _ in 0..samples.starts {
        for (place, kind) in kinds.iter().enumerate() {
            let began = Instant::now();
            let mut server = Server::start(kind)?;
            navigate(&mut server, place, address, "small")?;
            figures[place].cold.add(began.elapsed());
            server.stop()?;
        }
    }
    let mut servers = [Server::start(&kinds[0])?, Server::start(&kinds[1])?];
    for (server, figures) in servers.iter_mut().zip(&mut figures) {
        figures.schema_tokens = schemas(&server.request("tools/list", &json!({}))?)?;
        // A server finishes its start after its first answer.
        thread::sleep(Duration::from_millis(500));
        figures.before_kib = server.resident_without("chrom")?;
    }
    eprintln!("opening a page and clicking {} times", samples.actions);
    for _ in 0..samples.actions {
        for (place, server) in servers.iter_mut().enumerate() {
            figures[place].navigate.add(navigate(server, place, address, "small")?.0);
        }
        for (place, server) in servers.iter_mut().enumerate() {
            let call = match place {
                0 => ("browser_interact", json!({"action": "click", "selector": "css:button"})),
                _ => ("browser_click", json!({"target": "button"})),
            };
            let answer = server.call(call)?;
            // The peer's answer only says that it has clicked.
            let sign = if place == 0 { "clicked" } else { ".click()" };
            if !answer.line.contains(sign) {
                return Err(Failure(format!("the click did nothing: {:.400}", answer.line)));
            }
            figures[place].click.add(answer.took);
        }
    }
    eprintln!("reading a page of {ROWS} rows {} times", samples.actions);
    for (place, server) in servers.iter_mut().enumerate() {
        navigate(server, place, address, "large")?;
    }
    for _ in 0..samples.actions {
        for (place, server) in servers.iter_mut().enumerate() {
            let answer = server.call(snapshot(place))?;
            figures[place].large_tokens = text_of(&answer)?.chars().count() / 4;
            figures[place].large.add(answer.took);
        }
    }
    for (server, figures) in servers.iter().zip(&mut figures) {
        figures.after_kib = server.resident_without("chrom")?;
    }
    for server in servers {
        server.stop()?;
    }
    Ok(figures)
}

/// Opens a page in the active tab, and returns the time until its elements are known.
fn navigate(
    server: &mut Server,
    place: usize,
    address: SocketAddr,
    page: &str,
) -> Result<(Duration, String)> {
    let url = format!("http://{address}/{page}");
    if place == 0 {
        // The first call opens the tab.
        let answer = match server.call(("browser_navigate", json!({"url": url, "tab_id": 1}))) {
            Ok(answer) => answer,
            Err(_no_tab) => server.call(("browser_navigate", json!({"url": url})))?,
        };
        return Ok((answer.took, answer.line));
    }
    let opened = server.call(("browser_navigate", json!({"url": url})))?;
    let shown = server.call(snapshot(place))?;
    Ok((opened.took + shown.took, shown.line))
}

fn snapshot(place: usize) -> Call {
    match place {
        0 => ("browser_read_page", json!({"mode": "accessibility_tree"})),
        _ => ("browser_snapshot", json!({})),
    }
}

fn text_of(answer: &Answer) -> Result<String> {
    let message: Value =
        serde_json::from_str(&answer.line).map_err(|error| Failure(format!("no JSON: {error}")))?;
    let blocks = message.pointer("/result/content").and_then(Value::as_array);
    let texts = blocks.into_iter().flatten().filter_map(|block| block["text"].as_str());
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// Returns the characters of the schemas of the browser tools, divided by four.
fn schemas(list: &Answer) -> Result<usize> {
    let message: Value =
        serde_json::from_str(&list.line).map_err(|error| Failure(format!("no JSON: {error}")))?;
    let tools = message.pointer("/result/tools").and_then(Value::as_array);
    let of_browser = |tool: &&Value| tool["name"].as_str().is_some_and(|name| name.starts_with("browser_"));
    let characters: usize = tools
        .into_iter()
        .flatten()
        .filter(of_browser)
        .map(|tool| {
            let shown = json!({"name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"]});
            shown.to_string().chars().count()
        })
        .sum();
    Ok(characters / 4)
}

/// Returns Handfast with all its tools listed.
fn full(own: Kind) -> Kind {
    let command = own.command;
    Kind {
        command: Box::new(move || {
            let mut command = command();
            command.args(["--catalogue", "full"]);
            command
        }),
        ..own
    }
}

fn peer(folder: &Path, script: &Path) -> Kind {
    let (script, place) = (script.to_owned(), folder.to_owned());
    let none = || -> Box<dyn Fn(&str) -> Call> { Box::new(|_| ("none", Value::Null)) };
    Kind {
        name: "@playwright/mcp",
        log: folder.join("playwright.log"),
        command: Box::new(move || {
            let mut command = Command::new("node");
            command.current_dir(&place).arg(&script);
            command.args(["--headless", "--isolated", "--no-sandbox", "--executable-path", CHROMIUM]);
            command
        }),
        read: none(),
        list_names: none(),
        list_details: none(),
        edit: Box::new(|_, _, _| ("none", Value::Null)),
    }
}

/// Starts the server of the pages on a thread that ends with this process.
fn serve() -> Result<SocketAddr> {
    let failed = |error: std::io::Error| Failure(format!("cannot serve pages: {error}"));
    let listener = TcpListener::bind(ADDRESS).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let Ok(other) = stream.try_clone() else { return };
                let mut lines = BufReader::new(other).lines();
                while let Some(Ok(first)) = lines.next() {
                    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                    let body = match first.split(' ').nth(1) {
                        Some("/small") => SMALL.to_owned(),
                        Some("/large") => large(),
                        _ => String::new(),
                    };
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    );
                    // A browser that has closed the connection gets no answer.
                    if stream
                        .write_all(head.as_bytes())
                        .and_then(|()| stream.write_all(body.as_bytes()))
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    Ok(address)
}

const SMALL: &str = "<!doctype html><title>Small</title><h1>Small</h1><p>A page with some text.</p>\
<label>Name <input name=name></label><a href=/large>a link</a>\
<button onclick=\"this.textContent = 'clicked ' + (window.times = (window.times || 0) + 1)\">Add</button>";

fn large() -> String {
    let rows: String = (1..=ROWS)
        .map(|row| {
            format!("<tr><td>{row}</td><td>customer {row}</td><td><a href=/small?{row}>open order {row}</a></td><td><button>delete {row}</button></td></tr>")
        })
        .collect();
    format!("<!doctype html><title>Large</title><h1>Orders</h1><table>{rows}</table>")
}
