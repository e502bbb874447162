//! The browser through the real MCP door, with a real Chromium: pages of the session's own servers.

use serde_json::{Value, json};

use crate::functional::csp_browser::pages;
use crate::harness::{Fixture, eventually};
use crate::server::Server;

const FREE: [&str; 4] = ["--mode", "full_auto", "--catalogue", "full"];

const PAGE: &str = r#"<!doctype html><title>Shop</title><h1>Shop</h1>
<label>Query <input name=q></label><a href="next.html">next page</a>
<form action="/go" method="post"><button>Order</button></form>
<button onclick="document.body.append('added ' + document.querySelector('input').value)">Add</button>"#;

/// Starts a session whose own server offers the page, and opens it. Returns the server and the address.
fn opened(fixture: &Fixture, arguments: &[&str]) -> (Server, String) {
    fixture.write("index.html", PAGE);
    fixture.write("next.html", "<title>Next</title><p>the next page");
    let mut server = Server::start(fixture, arguments);
    let id = server.background("exec python3 -u -m http.server --bind 127.0.0.1 3000", false);
    server.expect(&id, 0, "Serving HTTP");
    let url = "http://127.0.0.1:3000/".to_owned();
    let opened = text(&server.call("browser_navigate", json!({"url": url})));
    assert!(opened.contains("\"loaded\":true") && opened.contains("button \"Add\""), "{opened}");
    (server, url)
}

/// Returns the texts of an answer.
fn text(answer: &Value) -> String {
    let blocks = answer["content"].as_array().unwrap();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_page_of_the_sessions_own_server_is_read_typed_into_and_clicked() {
    let fixture = Fixture::new();
    let (mut server, url) = opened(&fixture, &FREE);
    let act = |server: &mut Server, arguments: Value| text(&server.call("browser_interact", arguments));
    let typed =
        act(&mut server, json!({"tab_id": 1, "action": "type", "selector": "input", "value": "shoes"}));
    assert!(typed.contains("\"success\":true"), "{typed}");
    let clicked =
        act(&mut server, json!({"tab_id": 1, "action": "click", "selector": "xpath://button[text()='Add']"}));
    assert!(clicked.contains("added shoes") && clicked.contains("untrusted"), "{clicked}");
    let read = text(&server.call("browser_read_page", json!({"tab_id": 1, "mode": "text"})));
    assert!(read.contains("added shoes"), "{read}");
    let shot = server.call("browser_screenshot", json!({"tab_id": 1}));
    let picture = shot["content"].as_array().unwrap().iter().find(|block| block["type"] == "image").unwrap();
    assert!(picture["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "a PNG");
    let bytes = shot["_meta"]["handfast/meta"]["browser_bytes"].as_u64();
    assert!(bytes.is_some_and(|bytes| (20 << 20..4 << 30).contains(&bytes)), "{bytes:?}");
    let followed = act(&mut server, json!({"tab_id": 1, "action": "click", "selector": "a"}));
    assert!(followed.contains(&format!("\"new_url\":\"{url}next.html\"")), "{followed}");
    let missing =
        act(&mut server, json!({"tab_id": 1, "action": "click", "selector": "#nothing", "timeout": 0.2}));
    assert!(missing.starts_with("ENOTFOUND: ") && missing.contains("matches 0 elements"), "{missing}");
    let gone = act(&mut server, json!({"tab_id": 7, "action": "click", "selector": "a"}));
    assert!(gone.starts_with("ENOTFOUND: there is no tab 7; open tabs: 1"), "{gone}");
    server.end();
}

#[test]
fn a_file_of_the_workspace_is_uploaded_and_no_other() {
    let fixture = Fixture::new();
    fixture.write("report.txt", "quarterly figures");
    fixture.write(".env", "KEY=hidden");
    let (mut server, _) = opened(&fixture, &FREE);
    fixture.write(
        "upload.html",
        r#"<title>Upload</title><label>Report <input type=file id=direct></label>
<button onclick="behind.click()">Choose</button><input type=file id=behind style="display:none">
<button onclick="1">Idle</button><form action=/go><button>Send</button></form><p id=out></p>
<script>for (const input of [direct, behind]) input.onchange = async () =>
  out.append(input.id + ' ' + input.files[0].name + ': ' + await input.files[0].text());</script>"#,
    );
    server.call("browser_navigate", json!({"url": "http://127.0.0.1:3000/upload.html", "tab_id": 1}));
    let act = |server: &mut Server, selector: &str, file: &str| {
        let arguments = json!({"action": "upload", "selector": selector, "value": file, "timeout": 2});
        text(&server.call("browser_interact", arguments))
    };
    let direct = act(&mut server, "#direct", "report.txt");
    assert!(direct.contains("direct report.txt: quarterly figures"), "{direct}");
    let chosen = act(&mut server, "xpath://button[.='Choose']", "report.txt");
    assert!(chosen.contains("behind report.txt: quarterly figures"), "{chosen}");
    for (selector, file, expected) in [
        ("#direct", ".env", "EPERMISSION: "),
        ("#direct", "/etc/hostname", "EAPPROVAL: "),
        ("#direct", "nothing.txt", "ENOTFOUND: "),
        ("xpath://button[.='Idle']", "report.txt", "ERUNTIME: "),
        ("xpath://button[.='Send']", "report.txt", "ERUNTIME: "),
        ("h1", "report.txt", "ENOTFOUND: "),
    ] {
        let refused = act(&mut server, selector, file);
        assert!(refused.starts_with(expected), "{selector} {file}: {refused}");
    }
    let read = text(&server.call("browser_read_page", json!({"mode": "text"})));
    assert!(!read.contains("KEY="), "{read}");
    server.end();
}

#[test]
fn a_question_about_a_page_names_a_picture_and_the_text_to_type() {
    let fixture = Fixture::new();
    let (mut server, url) = opened(&fixture, &FREE);
    fixture.write(
        "far.html",
        r#"<form action="http://elsewhere.example/go"><label>Name <input name=who></label><button>Send</button></form>"#,
    );
    server.call("browser_navigate", json!({"url": format!("{url}far.html"), "tab_id": 1}));
    let asked = text(&server.call(
        "browser_interact",
        json!({"action": "type", "selector": "input", "value": "Ada\nLovelace", "press": "Enter"}),
    ));
    assert!(asked.starts_with("EAPPROVAL: "), "{asked}");
    let id = asked.split("approvals approve ").nth(1).unwrap().split('`').next().unwrap();
    let shown = fixture.run(&["approvals", "show", id]).stdout;
    assert!(shown.contains("Ada") && shown.contains("Lovelace"), "{shown}");
    let line =
        shown.lines().find_map(|line| line.split_once("picture of the page, with the element framed: "));
    let path = line.unwrap_or_else(|| panic!("{shown}")).1.trim();
    assert!(std::fs::read(path).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"), "{path}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // An action that needs no question takes no picture.
    let pictures = || std::fs::read_dir(std::path::Path::new(path).parent().unwrap()).unwrap().count();
    let passed = text(&server.call("browser_interact", json!({"action": "hover", "selector": "input"})));
    assert!(passed.contains("\"success\":true") && pictures() == 1, "{passed}");
    server.end();
}

#[test]
fn logins_are_sealed_in_the_vault_and_loaded_into_another_session() {
    let fixture = Fixture::new().with_vault();
    let (mut server, url) = opened(&fixture, &FREE);
    fixture.write(
        "login.html",
        "<p id=out></p><script>out.append('state: ' + document.cookie + ' ' + localStorage.token); \
         if (location.hash) { document.cookie = 'sid=cookie-value-7713; max-age=9999'; localStorage.token = 'stored-value-8821' }</script>",
    );
    server.call("browser_navigate", json!({"url": format!("{url}login.html#in"), "tab_id": 1}));
    let none = text(
        &server.call("browser_state", json!({"action": "save", "name": "shop", "domain": "shop.example"})),
    );
    assert!(none.starts_with("ENOTFOUND: "), "{none}");
    let missing = text(&server.call("browser_state", json!({"action": "load", "name": "shop"})));
    assert!(missing.starts_with("ENOTFOUND: the vault has no state named shop"), "{missing}");
    let saved = server.data("browser_state", json!({"action": "save", "name": "shop"}));
    assert_eq!(saved, json!({"hosts": ["127.0.0.1"], "cookies": 1, "origins": 1}));
    server.end();
    let mut server = Server::start(&fixture, &FREE);
    let id = server.background("exec python3 -u -m http.server --bind 127.0.0.1 3000", false);
    server.expect(&id, 0, "Serving HTTP");
    let read = |server: &mut Server| {
        server.call("browser_navigate", json!({"url": format!("{url}login.html")}));
        text(&server.call("browser_read_page", json!({"mode": "text"})))
    };
    assert!(read(&mut server).contains("state: undefined"), "the control");
    let loaded = server.data("browser_state", json!({"action": "load", "name": "shop"}));
    assert_eq!(loaded, saved);
    let after = read(&mut server);
    assert!(after.contains("state: sid=cookie-value-7713 stored-value-8821"), "{after}");
    server.end();
    // A rule about the exact origin of a page holds for its login too.
    fixture.configure("sandbox_config: {normal: {browser: {deny: [\"http://127.0.0.1:3000\"]}}}");
    let mut server = Server::start(&fixture, &FREE);
    let denied = text(&server.call("browser_state", json!({"action": "load", "name": "shop"})));
    assert!(denied.starts_with("EPERMISSION: "), "{denied}");
    server.end();
    // The values are in the vault alone, and no tool sends them anywhere.
    let listed = fixture.run(&["vault", "list"]).stdout;
    assert!(listed.contains("browser_state_shop"), "{listed}");
    let recorded = format!("{listed}{saved}{:?}", fixture.recorded());
    let secret = recorded.contains("cookie-value-7713") || recorded.contains("stored-value-8821");
    assert!(recorded.contains("browser_state") && !secret, "{recorded}");
}

#[test]
fn a_trace_is_a_page_with_steps_pictures_and_logs_and_without_secrets() {
    let fixture = Fixture::new().with_vault();
    let secret = "a-very-secret-word";
    let stored = fixture.run_with_input(&["vault", "set", "word", "--host", "localhost"], secret.as_bytes());
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    let (mut server, url) = opened(&fixture, &FREE);
    let early = text(&server.call("browser_trace", json!({"action": "stop", "save_path": "trace.html"})));
    assert!(early.starts_with("ENOTFOUND: no trace"), "{early}");
    assert_eq!(server.data("browser_trace", json!({"action": "start"})), json!({"recording": true}));
    let again = text(&server.call("browser_trace", json!({"action": "start"})));
    assert!(again.starts_with("ECONFLICT: "), "{again}");
    fixture.write(
        "shown.html",
        &format!("<title>Shown</title><h1>hi</h1><button disabled>No</button><script>console.log('{secret}')</script>"),
    );
    server.call("browser_navigate", json!({"url": format!("{url}shown.html"), "tab_id": 1}));
    server.call("browser_interact", json!({"action": "click", "selector": "button", "timeout": 0.2}));
    let outside =
        text(&server.call("browser_trace", json!({"action": "stop", "save_path": "/etc/trace.zip"})));
    assert!(outside.starts_with('E'), "{outside}");
    let stopped = server.data("browser_trace", json!({"action": "stop", "save_path": "trace.html"}));
    assert_eq!(stopped, json!({"recording": false, "steps": 2, "path": "trace.html"}));
    let page = fixture.read("trace.html");
    for part in [
        "1. open http://127.0.0.1:3000/shown.html",
        "data:image/jpeg;base64,",
        "console log: [SECRET",
        "2. click button",
        "disabled",
    ] {
        assert!(page.contains(part), "{part}: {}", &page[..page.len().min(3_000)]);
    }
    assert!(!page.contains(secret) && !page.contains("<script"));
    server.data("browser_trace", json!({"action": "start"}));
    server.data("browser_trace", json!({"action": "stop", "save_path": "trace.zip"}));
    assert!(std::fs::read(fixture.workspace().join("trace.zip")).unwrap().starts_with(b"PK"));
    server.end();
}

#[test]
fn console_errors_and_requests_are_listed_and_a_page_is_printed() {
    let fixture = Fixture::new();
    fixture.write(
        "log.html",
        "<title>Log</title><script>console.log('hello', {a: 1}); console.error('bad\\nnews'); \
         fetch('/missing.json'); setTimeout(() => { throw new Error('thrown') })</script><p>text",
    );
    let (mut server, url) = opened(&fixture, &FREE);
    server.call("browser_navigate", json!({"url": format!("{url}log.html"), "tab_id": 1}));
    let events = |server: &mut Server, arguments: Value| text(&server.call("browser_events", arguments));
    let all = events(&mut server, json!({}));
    for part in
        ["console log: hello", "console error: bad | news", "error: Error: thrown", "log.html 200 (Document"]
    {
        assert!(all.contains(part), "{part}: {all}");
    }
    let failed = events(&mut server, json!({"kind": "request", "failures": true}));
    assert!(failed.contains("missing.json 404 (Fetch") && !failed.contains("log.html"), "{failed}");
    let found = events(&mut server, json!({"query": "HELLO", "limit": 1}));
    assert!(found.contains("hello") && found.contains("\"matching\":1"), "{found}");
    let printed = text(&server.call("browser_pdf", json!({"save_path": "out/page.pdf"})));
    assert!(printed.contains("\"path\":\"out/page.pdf\""), "{printed}");
    let file = std::fs::read(fixture.workspace().join("out/page.pdf")).unwrap();
    assert!(file.starts_with(b"%PDF-") && file.len() > 1_000);
    let outside = text(&server.call("browser_pdf", json!({"save_path": "/etc/page.pdf"})));
    assert!(outside.starts_with("EPERMISSION: ") || outside.starts_with("EAPPROVAL: "), "{outside}");
    server.end();
    // The file can be taken back, as any other.
    assert_eq!(fixture.run(&["undo", "--last"]).code, 0);
    assert!(!fixture.workspace().join("out/page.pdf").exists());
}

#[test]
fn pages_of_the_session_need_no_question_and_others_are_asked_about_or_refused() {
    let fixture = Fixture::new();
    fixture.configure("sandbox_config: {normal: {browser: {deny: [\"http://denied.example\"]}}}");
    let (mut server, _) = opened(&fixture, &FREE);
    let asked = text(&server.call(
        "browser_interact",
        json!({"tab_id": 1, "action": "click", "selector": "xpath://button[text()='Order']"}),
    ));
    // A page of the session's own network needs no question.
    assert!(asked.contains("\"success\":true"), "{asked}");
    let unlisted = text(&server.call("browser_navigate", json!({"url": "https://shop.example/"})));
    assert!(
        unlisted.starts_with("EAPPROVAL: ") && unlisted.contains("shop.example is not listed"),
        "{unlisted}"
    );
    let denied = text(&server.call("browser_navigate", json!({"url": "http://denied.example/"})));
    assert!(denied.starts_with("EPERMISSION: "), "{denied}");
    for url in [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "chrome://version",
        "view-source:http://a",
    ] {
        let refused = text(&server.call("browser_navigate", json!({"url": url})));
        assert!(refused.starts_with("EVALIDATION: `url`"), "{url}: {refused}");
    }
    server.end();
}

#[test]
fn no_browser_outlives_its_session_or_a_killed_program() {
    for kill in [false, true] {
        let fixture = Fixture::new();
        let mut server = Server::start(&fixture, &FREE);
        server.call("browser_connect", json!({}));
        let browsers = fixture.state().join("browsers");
        assert!(processes_in(&browsers) > 1, "the control finds the browser");
        if kill {
            server.process().kill().unwrap();
            server.process().wait().unwrap();
        } else {
            server.end();
        }
        eventually("every process of the browser ends", || processes_in(&browsers) == 0);
    }
}

/// Returns the number of processes that work in a folder below this one.
fn processes_in(folder: &std::path::Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let works_there = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    };
    processes.filter(works_there).count()
}

#[test]
fn a_cancelled_navigation_lets_the_next_call_use_the_browser() {
    let fixture = Fixture::new();
    fixture.write(
        "silent.py",
        "import socket\nserver = socket.create_server(('127.0.0.1', 3000))\nprint('listening', flush=True)\n\
         kept = []\nwhile True:\n    kept.append(server.accept())\n    print('asked', flush=True)\n",
    );
    let mut server = Server::start(&fixture, &FREE);
    let id = server.background("exec python3 silent.py", false);
    let at = server.expect(&id, 0, "^listening$");
    server.call("browser_connect", json!({}));
    let begun = server.begin("browser_navigate", json!({"url": "http://127.0.0.1:3000/", "timeout": 119}));
    server.expect(&id, at, "^asked$");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": begun}});
    server.answers_to(format!("{cancel}\n").as_bytes());
    // Without an end of the wait, this would reach its own limit of 60 seconds.
    let tabs = server.data("browser_tabs", json!({"action": "list"}));
    assert_eq!(tabs["tabs"].as_array().unwrap().len(), 1);
    server.end();
}

/// Page with a login, which tells how long the password is and repeats it.
const LOGIN: &str = r#"<!doctype html><title>Login</title><form onsubmit="return false">
<input id=user><input id=password type=password></form><p id=told></p><script>
password.oninput = () => { told.textContent = password.value.length + ' characters: ' + password.value; }
</script>"#;

#[test]
fn a_secret_is_typed_into_a_password_field_of_its_host_and_is_seen_nowhere() {
    let fixture = Fixture::new().with_vault();
    let secret = "correct-horse-battery-staple";
    let stored = fixture.run_with_input(
        &["vault", "set", "shop_password", "--host", "localhost", "--in", "body"],
        secret.as_bytes(),
    );
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    fixture.configure(
        "sandbox_config: {normal: {allowed_hosts: [localhost], allowed_secrets: [\"shop_password at localhost\"]}}",
    );
    fixture.write("index.html", LOGIN);
    let mut server = Server::start(&fixture, &FREE);
    let id = server.background("exec python3 -u -m http.server --bind 127.0.0.1 3000", false);
    server.expect(&id, 0, "Serving HTTP");
    let mut typed = |host: &str, field: &str, value: &str| {
        let opened = server.data("browser_navigate", json!({"url": format!("http://{host}:3000/")}));
        let tab = opened["tab_id"].as_u64().unwrap();
        let arguments = json!({"tab_id": tab, "action": "type", "selector": field, "value": value});
        let answer = text(&server.call("browser_interact", arguments));
        let shown = text(&server.call("browser_read_page", json!({"tab_id": tab, "mode": "text"})));
        let picture = text(&server.call("browser_screenshot", json!({"tab_id": tab})));
        (answer, shown, picture)
    };
    let named = "{{secret:shop_password}}";
    let (answer, shown, picture) = typed("localhost", "#password", named);
    assert!(answer.contains("\"success\":true"), "{answer}");
    assert!(shown.contains(&format!("{} characters: ", secret.len())), "the page has it: {shown}");
    assert!(picture.starts_with("EPERMISSION: the page shows a password in plain text"), "{picture}");
    for (host, field, refusal) in [
        ("localhost", "#user", "EPERMISSION: the secret shop_password is not typed: the element is no field"),
        ("127.0.0.1", "#password", "EAPPROVAL: this call needs approval: 127.0.0.1 is not listed"),
    ] {
        let (refused, shown, picture) = typed(host, field, named);
        assert!(refused.starts_with(refusal), "{host} {field}: {refused}");
        assert!(!shown.contains("characters"), "{shown}");
        assert!(!picture.starts_with('E'), "the control: {picture}");
    }
    // A field that the secret's entry names takes it too, and is a field for a secret from then on.
    let named_field = ["vault", "set", "shop_password", "--field", "user"];
    assert_eq!(fixture.run_with_input(&named_field, secret.as_bytes()).code, 0);
    let (answer, shown, picture) = typed("localhost", "#user", named);
    assert!(answer.contains("\"success\":true") && !shown.contains(secret), "{answer} {shown}");
    assert!(picture.starts_with("EPERMISSION: the page shows a password in plain text"), "{picture}");
    let (unknown, ..) = typed("localhost", "#password", "{{secret:other}}");
    assert!(unknown.starts_with("EPERMISSION: the secret other is not stored"), "{unknown}");
    let everything = format!("{answer}{shown}{:?}", fixture.recorded());
    assert!(everything.contains(named) && !everything.contains(secret), "{everything}");
    server.end();
}

#[test]
fn the_level_of_each_action_is_that_of_the_source() {
    let fixture = Fixture::new();
    let html = r#"<title>Levels</title><a href=next>link</a><button onclick="1">plain</button><input name=q>
<select><option>one<option>two</select><form action=/go><input name=f><button>send</button></form>"#;
    let url = pages(&fixture, &[("/levels", html.to_owned()), ("/next", "<title>Next</title>".to_owned())]);
    let mut server = Server::start(&fixture, &["--mode", "ask_always", "--catalogue", "full"]);
    let file = json!({"url": format!("{url}next"), "save_path": "copy.html"});
    for (tool, arguments, level) in [
        ("browser_connect", json!({}), "safe"),
        ("browser_navigate", json!({"url": format!("{url}levels")}), "moderate"),
        ("browser_read_page", json!({"mode": "text"}), "safe"),
        ("browser_read_page", json!({"mode": "html"}), "safe"),
        ("browser_read_page", json!({"mode": "screenshot"}), "safe"),
        ("browser_read_page", json!({"mode": "accessibility_tree"}), "safe"),
        ("browser_interact", json!({"action": "wait", "selector": "a"}), "safe"),
        ("browser_interact", json!({"action": "type", "selector": "[name=q]", "value": "x"}), "moderate"),
        ("browser_interact", json!({"action": "scroll"}), "moderate"),
        ("browser_interact", json!({"action": "hover", "selector": "a"}), "moderate"),
        ("browser_interact", json!({"action": "select", "selector": "select", "value": "two"}), "moderate"),
        ("browser_interact", json!({"action": "click", "selector": "xpath://button[.='plain']"}), "moderate"),
        // Enter in a field of a form submits it.
        (
            "browser_interact",
            json!({"action": "type", "selector": "[name=f]", "value": "x", "press": "Enter"}),
            "destructive",
        ),
        ("browser_navigate", json!({"url": format!("{url}levels"), "tab_id": 1}), "moderate"),
        ("browser_interact", json!({"action": "submit", "selector": "[name=f]"}), "destructive"),
        ("browser_navigate", json!({"url": format!("{url}levels"), "tab_id": 1}), "moderate"),
        (
            "browser_interact",
            json!({"action": "click", "selector": "xpath://button[.='send']"}),
            "destructive",
        ),
        ("browser_navigate", json!({"url": format!("{url}levels"), "tab_id": 1}), "moderate"),
        ("browser_interact", json!({"action": "click", "selector": "a"}), "destructive"),
        ("browser_tabs", json!({"action": "list"}), "safe"),
        ("browser_tabs", json!({"action": "create", "url": format!("{url}next")}), "moderate"),
        ("browser_tabs", json!({"action": "switch", "tab_id": 1}), "moderate"),
        ("browser_tabs", json!({"action": "close", "tab_id": 2}), "destructive"),
        ("browser_cookies", json!({"domain": "127.0.0.2"}), "destructive"),
        ("browser_download", file, "destructive"),
        ("browser_screenshot", json!({}), "safe"),
    ] {
        let asked = text(&server.call(tool, arguments.clone()));
        let id = asked.split("approvals approve ").nth(1).and_then(|rest| rest.split('`').next());
        let found = id.filter(|_| asked.starts_with("EAPPROVAL: ")).map(|id| {
            let level = fixture.run(&["approvals", "show", id, "--json"]).json()["level"].clone();
            assert_eq!(fixture.run(&["approvals", "approve", id]).code, 0);
            let done = text(&server.call(tool, arguments.clone()));
            assert!(!done.starts_with("EAPPROVAL"), "{tool} {arguments}: {done}");
            level.as_str().unwrap().to_owned()
        });
        // Safe actions pass without a question, even where everything else is asked about.
        assert_eq!(found.as_deref().unwrap_or("safe"), level, "{tool} {arguments}: {asked}");
    }
    server.end();
}
