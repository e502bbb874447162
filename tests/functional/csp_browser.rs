//! The operation `browser` of CSP/1 through the real program, with a real Chromium and a server on a listed
//! host.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::Up;
use crate::specialist::{Answer, Specialist, text};

const FREE: [&str; 2] = ["--mode", "full_auto"];

const PAGE: &str = r#"<!doctype html><title>Shop, cheap</title><h1>Shop</h1>
<label>Query <input class=query></label><a href="/next">next page</a>
<button onclick="document.body.append('added ' + document.querySelector('input').value)">Add</button>"#;

/// Starts a server with these pages on a host of its own, and lists the host. Returns its address.
pub(crate) fn pages(fixture: &Fixture, pages: &[(&'static str, String)]) -> String {
    let listener = TcpListener::bind(("127.0.0.2", 0)).unwrap();
    let host = listener.local_addr().unwrap();
    let pages = pages.to_vec();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = head.next().and_then(Result::ok).unwrap_or_default();
            while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let path = first.split(' ').nth(1).unwrap_or_default();
            let path = path.split('?').next().unwrap_or_default();
            let body = pages.iter().find(|(page, _)| *page == path).map_or("", |(_, body)| body);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    fixture.configure(&format!(
        "sandbox_config: {{normal: {{unlisted_hosts: deny, allowed_hosts: [\"{host}\"]}}}}"
    ));
    format!("http://{host}/")
}

fn shop(fixture: &Fixture) -> String {
    let next = format!("<title>Next</title><p>{}</p>", "a long text. ".repeat(200));
    pages(fixture, &[("/", PAGE.to_owned()), ("/next", next)])
}

fn request(action: &str, lines: &str) -> String {
    format!("TASK REQ:browser IN:TOOL OUT:BROWSER_RESULT\nACTION {action}\n{lines}\n")
}

fn act(specialist: &mut Specialist, action: &str, lines: &str) -> Answer {
    specialist.send(request(action, lines).as_bytes());
    specialist.answer().unwrap()
}

#[test]
fn the_five_actions_work_on_one_page_and_a_picture_is_a_file() {
    let fixture = Fixture::new();
    let url = shop(&fixture);
    let mut specialist = Specialist::start(&fixture, &FREE);
    let early = act(&mut specialist, "click", "SELECTOR css:a\n");
    assert_eq!(
        (early["STATUS"].as_str(), early["ERROR"].as_str()),
        ("FAIL", "browser_failed:no page is open")
    );
    let opened = act(&mut specialist, "navigate", &format!("TARGET_URL {url}\nID 1\n"));
    assert_eq!((opened["STATUS"].as_str(), opened["SCOPE"].as_str()), ("OK", "[browser]"), "{opened:?}");
    assert_eq!(opened["DATA"], format!("action:navigate,loaded:true,url:{url},title:\"Shop, cheap\""));
    assert!(opened["EXEC_TIME"].parse::<u64>().is_ok() && opened["ID"] == "1");
    // Actions are done in the order of their requests, however fast those come.
    let typed = request("type", "SELECTOR css:.query\nVALUE \"red shoes\"\nID a\n");
    let clicked = request("click", "SELECTOR xpath://button\nID b\n");
    let read = request("extract", &format!("TARGET_URL {url}\nID c\n"));
    specialist.send(format!("{typed}{clicked}{read}").as_bytes());
    let answers = [(); 3].map(|()| specialist.answer().unwrap());
    assert_eq!(answers.each_ref().map(|answer| answer["ID"].as_str()), ["a", "b", "c"]);
    assert_eq!(answers[1]["DATA"], "action:click,page_changed:true", "{answers:?}");
    assert!(text(&answers[2]["TEXT_SUMMARY"]).contains("added red shoes"), "{answers:?}");
    let shot = act(&mut specialist, "screenshot", "");
    let path = &shot["SCREENSHOT_REF"];
    assert!(path.starts_with("memory/exec-logs/") && path.contains(".png"), "{shot:?}");
    let picture = std::fs::read(fixture.workspace().join(path)).unwrap();
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture.len() > 1_000);
    let followed = act(&mut specialist, "click", "SELECTOR css:a\n");
    assert_eq!(followed["DATA"], format!("action:click,page_changed:true,url:{url}next"), "{followed:?}");
    let elsewhere = act(&mut specialist, "extract", &format!("TARGET_URL {url}\n"));
    assert!(elsewhere["ERROR"].starts_with("browser_failed:the tab shows"), "{elsewhere:?}");
    let long = act(&mut specialist, "extract", "");
    assert!(text(&long["TEXT_SUMMARY"]).chars().count() <= 500, "{long:?}");
    assert!(fixture.read(&long["LOG_REF"]).matches("a long text.").count() == 200, "{long:?}");
    for (action, lines, error) in [
        ("navigate", "TARGET_URL http://unlisted.example/\n", "permission_denied:"),
        ("navigate", "TARGET_URL file:///etc/passwd\n", "invalid_request:"),
        ("navigate", "", "invalid_request:"),
        ("fly", "", "invalid_request:"),
        ("click", "SELECTOR css:.nothing\n", "browser_failed:"),
        ("click", "SELECTOR css:a\nVALUE x\n", "invalid_request:"),
    ] {
        let refused = act(&mut specialist, action, lines);
        assert_eq!(refused["STATUS"], "FAIL", "{action} {lines}: {refused:?}");
        assert!(refused["ERROR"].starts_with(error), "{action} {lines}: {refused:?}");
    }
    assert_eq!(specialist.end(), Some(0));
    let rows: Vec<Value> = fixture
        .run(&["audit", "export"])
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Rules and the audit know the canonical tools.
    for tool in ["browser_navigate", "browser_interact", "browser_read_page", "browser_screenshot"] {
        assert!(rows.iter().any(|row| row["tool"] == tool && row["outcome"] == "ok"), "{tool}: {rows:#?}");
    }
}

#[test]
fn the_operation_is_a_tool_of_its_dialect_at_every_door_and_its_parts_are_not_listed() {
    let fixture = Fixture::new();
    let url = shop(&fixture);
    let tools = fixture.run(&["tools", "--dialect", "csp1", "--json"]).json();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["exec", "browser", "cron"]);
    let up = Up::start(&fixture, &["--dialect", "csp1", "--mode", "full_auto"]);
    let opened = up.call("browser", json!({"ACTION": "navigate", "TARGET_URL": url}));
    assert_eq!(opened["data"]["title"], "Shop, cheap", "{opened:#}");
    let shot = up.call("browser", json!({"ACTION": "screenshot"}));
    assert!(shot["data"]["screenshot_ref"].as_str().unwrap().contains(".png"), "{shot:#}");
    assert_eq!(shot["data"]["image_base64"], Value::Null);
    let refused = up.call("browser", json!({"ACTION": "click", "SELECTOR": "css:.nothing"}));
    assert_eq!(refused["error"]["code"], "ENOTFOUND", "{refused:#}");
}
