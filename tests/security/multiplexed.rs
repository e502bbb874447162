//! Real programs in a cell use a secret with an HTTP/2 server that it belongs to, and never have
//! the secret.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::https::certified;
use crate::security::placeholders::{OWN, SECRET, backwards, configure, trusting};

/// Node's own server, which speaks only HTTP/2. The server stores each request, and returns it in a
/// header, byte for byte, and in a trailer.
const SERVER: &str = r#"
const [key, certificate, log] = process.argv.slice(1);
const fs = require("fs");
const server = require("http2").createSecureServer({ key: fs.readFileSync(key), cert: fs.readFileSync(certificate) });
server.on("stream", (stream, headers) => {
  let body = "";
  stream.on("error", () => {});
  stream.on("data", (data) => (body += data));
  stream.on("end", () => {
    fs.appendFileSync(log, JSON.stringify({ headers, body }) + "\n");
    const said = headers["x-key"] || "";
    stream.respond({ ":status": 200, "x-echo": said }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "x-late": said }));
    for (const letter of said + body) stream.write(letter);
    stream.end();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"#;

struct World {
    fixture: Fixture,
    server: Child,
    port: u16,
}

impl World {
    fn new(places: &[&str]) -> Self {
        let fixture = Fixture::new().with_vault();
        let (authority, certificate, key) = certified(&[OWN]);
        let at = |name: &str| fixture.outside().join(name);
        std::fs::write(at("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(at("certificate.pem"), certificate.pem()).unwrap();
        let mut server = Command::new("node")
            .args(["-e", SERVER])
            .args([at("key.pem"), at("certificate.pem"), at("log")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let port = port.trim().parse().unwrap();
        configure(&fixture, &authority, port, places);
        Self { fixture, server, port }
    }

    fn shell(&self, line: &str) -> Value {
        let line = format!("export OWN=https://{OWN}:{}; {line}", self.port);
        let arguments = json!({"command": line, "timeout": 120}).to_string();
        let ran =
            trusting(&self.fixture).args(["call", "--yes", "shell_execute", &arguments]).output().unwrap();
        let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(result["ok"], true, "{result:#}");
        result
    }

    fn out(&self, line: &str) -> String {
        self.shell(line)["data"]["stdout"].as_str().unwrap().to_owned()
    }

    /// Returns the requests that the server received since the previous look.
    fn received(&self) -> Vec<Value> {
        let log = self.fixture.outside().join("log");
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let _none = std::fs::remove_file(log);
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ended = self.server.kill();
        let _ended = self.server.wait();
    }
}

#[test]
fn curl_speaks_http_2_and_has_the_secret_covered_in_headers_body_and_trailers() {
    let world = World::new(&["header", "body"]);
    let line = "curl -sS --http2 -o said -D heads -w '%{http_version}' -H \"X-Key: $api_key\" -d \"<$api_key>\" $OWN/a; \
                cat heads said | rev";
    let said = world.out(line);
    let received = world.received();
    assert_eq!(
        (&received[0]["headers"]["x-key"], &received[0]["body"]),
        (&json!(SECRET), &json!(format!("<{SECRET}>")))
    );
    assert!(said.starts_with('2'), "{said}");
    assert_eq!(said.matches(&backwards("[SECRET:api_key]")).count(), 4, "{said}");
    assert!(said.contains(&backwards("x-late: [SECRET:api_key]")), "{said}");
    assert!(!said.contains(&backwards(SECRET)), "{said}");
    // Many requests at once, on one connection.
    let many = "curl -sS --http2 -Z -H \"X-Key: $api_key\" \"$OWN/[1-50]\" | rev";
    assert_eq!(world.out(many).matches(&backwards("[SECRET:api_key]")).count(), 50);
    assert_eq!(world.received().len(), 50);
}

#[test]
fn a_request_that_writes_at_a_forge_asks_over_http_2_too() {
    let world = World::new(&[]);
    let mark = ["vault", "set", "api_key", "--login", "github", "--user", "me"];
    assert_eq!(world.fixture.run_with_input(&mark, SECRET.as_bytes()).code, 0);
    let (key, kind) = ("-H \"X-Key: $api_key\"", "-H 'Content-Type: application/json'");
    let own = format!("https://{OWN}:{}", world.port);
    let call = |line: &str| {
        let arguments = json!({"command": line, "timeout": 120}).to_string();
        let ran = trusting(&world.fixture).args(["call", "shell_execute", &arguments]).output().unwrap();
        serde_json::from_slice::<Value>(&ran.stdout).unwrap()
    };
    let reading = format!("curl -sS --http2 -w '%{{http_code}}' -o /dev/null {key} {own}/repos");
    assert_eq!(call(&reading)["data"]["stdout"], "200");
    let query = format!(
        "curl -sS --http2 -w '%{{http_code}}' -o /dev/null {key} {kind} -d '{{\"query\": \"{{ a }}\"}}' {own}/graphql"
    );
    assert_eq!(call(&query)["data"]["stdout"], "200");
    let received = world.received();
    assert_eq!((received.len(), &received[1]["headers"]["x-key"]), (2, &json!(SECRET)));
    let refused = call(&format!("curl -sS --http2 -w '%{{http_code}}' {key} -d x {own}/repos"));
    let said = refused["data"]["stdout"].as_str().unwrap();
    assert!(said.contains("POST /repos") && said.ends_with("403"), "{refused:#}");
    assert!(refused["meta"]["warnings"].to_string().contains(" approvals approve "), "{refused:#}");
    assert!(world.received().is_empty());
}

#[test]
fn nodes_client_of_http_2_gets_what_it_may_and_the_agent_is_told_of_the_rest() {
    let world = World::new(&[]);
    let client = r#"
        const client = require("http2").connect(process.env.OWN);
        const ask = (headers, body) => new Promise((done, fail) => {
          const stream = client.request(headers, { endStream: !body });
          let said = "", late;
          stream.on("response", (answer) => (said += answer[":status"] + " " + (answer["x-echo"] || "") + " "));
          stream.on("data", (data) => (said += data));
          stream.on("trailers", (trailers) => (late = trailers["x-late"]));
          stream.on("end", () => done(said.trim() + " " + late));
          stream.on("error", fail);
          if (body) { for (const letter of body) stream.write(letter); stream.end(); }
        });
        const key = process.env.api_key, backwards = (text) => [...text].reverse().join("");
        Promise.all([
          ask({ ":path": "/a", "x-key": key }),
          ask({ ":path": "/?key=" + key }),
          ask({ ":path": "/b", ":method": "POST" }, "<" + key + ">"),
          ask({ ":path": "/c", ":authority": "other.localhost" }),
        ]).then((all) => { console.log(all.map(backwards).join("\n")); client.close(); });"#;
    world.fixture.write("client.js", client);
    let result = world.shell("node client.js");
    let said: Vec<String> = result["data"]["stdout"].as_str().unwrap().lines().map(backwards).collect();
    assert_eq!(said[0], "200 [SECRET:api_key] [SECRET:api_key] [SECRET:api_key]", "{result:#}");
    for (at, why) in [(1, "in the query"), (2, "in the body"), (3, "its request is for other.localhost")] {
        assert!(said[at].starts_with("403  handfast: ") && said[at].contains(why), "{said:#?}");
    }
    let warnings = result["meta"]["warnings"].to_string();
    assert!(warnings.contains("in the query") && warnings.contains("in the body"), "{warnings}");
    let received = world.received();
    let whole: Vec<_> = received.iter().filter(|asked| asked["headers"][":path"] != "/b").collect();
    assert_eq!((whole.len(), &whole[0]["headers"]["x-key"]), (1, &json!(SECRET)), "{received:#?}");
    assert!(!json!(received).to_string().contains("handfast_secret_"));
}
