//! Placeholders: a program in a cell uses a secret and never has it. The placeholder is replaced on
//! the way out, only for the secret's hosts and places, and responses have the secret redacted.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::https::Https;
use crate::security::secrets::{everything_below, leaked};
use crate::server::Server;

pub(crate) const SECRET: &str = "sk-live-0123456789-abcdef";

/// Host that the secret belongs to, followed by another reachable one.
pub(crate) const OWN: &str = "api.localhost";
const OTHER: &str = "other.localhost";

/// Makes the user trust this authority, lists both hosts at the port, and stores a secret for one.
pub(crate) fn configure(fixture: &Fixture, authority: &str, port: u16, places: &[&str]) {
    std::fs::write(fixture.outside().join("authority.crt"), authority).unwrap();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let profile = format!(
        "sandbox_config:\n  normal:\n    allowed_hosts: [\"{OWN}:{port}\", \"{OTHER}:{port}\"]\n    \
         allowed_secrets: [\"api_key at {OWN}\"]\n"
    );
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
    let mut arguments = vec!["vault", "set", "api_key", "--host", OWN];
    for place in places {
        arguments.extend(["--in", place]);
    }
    let stored = fixture.run_with_input(&arguments, SECRET.as_bytes());
    assert_eq!(stored.code, 0, "{}", stored.stderr);
}

/// Returns the program, which trusts the test's authority like one of the system.
pub(crate) fn trusting(fixture: &Fixture) -> Command {
    let mut command = fixture.command();
    command.env("SSL_CERT_FILE", fixture.outside().join("authority.crt"));
    command
}

struct World {
    fixture: Fixture,
    https: Https,
}

impl World {
    /// Builds a world with a secret that is allowed in these places of a request.
    fn with(places: &[&str]) -> Self {
        let fixture = Fixture::new().with_vault();
        let served = fixture.outside().join("served");
        std::fs::create_dir_all(served.join("git")).unwrap();
        std::fs::write(served.join("file"), "content\n").unwrap();
        let https = Https::serving(&served, &[OWN, OTHER]);
        configure(&fixture, &https.authority, https.port, places);
        Self { fixture, https }
    }

    fn command(&self) -> Command {
        trusting(&self.fixture)
    }

    /// Returns the result of one call.
    fn shell(&self, line: &str) -> Value {
        let port = self.https.port;
        let line = format!("OWN=https://{OWN}:{port} OTHER=https://{OTHER}:{port}; {line}");
        let arguments = json!({"command": line, "timeout": 120}).to_string();
        let ran = self.command().args(["call", "--yes", "shell_execute", &arguments]).output().unwrap();
        let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(result["ok"], true, "{result:#}");
        result
    }

    fn out(&self, line: &str) -> String {
        self.shell(line)["data"]["stdout"].as_str().unwrap().to_owned()
    }

    /// Returns true if the server has received the secret in clear text.
    fn was_sent(&self) -> bool {
        let received = std::mem::take(&mut *self.https.received.lock());
        received.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
    }

    fn has_received(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.https.received.lock()).contains(text)
    }
}

pub(crate) fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

#[test]
fn a_placeholder_in_a_header_is_swapped_and_the_value_that_comes_back_is_covered() {
    let world = World::with(&[]);
    // `rev` reverses the response, because the redaction of output would otherwise cover it. The
    // secret must not even enter the cell.
    let said = world.out("curl -sS -i -H \"Authorization: Bearer $api_key\" $OWN/echo | rev");
    assert!(world.was_sent());
    assert!(said.contains(&backwards("[SECRET:api_key]")), "{said}");
    assert!(!said.contains(&backwards(SECRET)), "{said}");
    assert!(
        said.contains(&backwards("x-echo: Bearer [SECRET:api_key]")),
        "the headers are covered too: {said}"
    );
    let said = world.out("curl -sS -H \"X-Api-Key: $api_key\" $OWN/pieces | rev");
    assert!(world.was_sent());
    assert!(said.contains(&backwards("[SECRET:api_key]")) && !said.contains(&backwards(SECRET)), "{said}");
}

#[test]
fn a_placeholder_within_a_user_and_password_is_swapped() {
    let world = World::with(&[]);
    let said = world.out("curl -sS -u \"me:$api_key\" $OWN/echo | rev");
    // `me:` and the secret in base64.
    assert!(world.has_received("authorization: Basic bWU6c2stbGl2ZS0wMTIzNDU2Nzg5LWFiY2RlZg=="), "{said}");
    assert!(!said.contains(&backwards("c2stbGl2ZS0wMTIzNDU2Nzg5LWFiY2RlZg")), "{said}");
}

#[test]
fn a_placeholder_elsewhere_goes_nowhere_and_the_agent_is_told() {
    let world = World::with(&[]);
    for (line, why) in [
        ("curl -sS \"$OWN/echo?key=$api_key\"", "query"),
        ("curl -sS -d \"key=$api_key\" $OWN/echo", "body"),
        ("curl -sS $OWN/echo/$api_key", "path"),
        ("curl -sS -H \"X-$api_key: 1\" $OWN/echo", "name of a header"),
        (
            "curl -sS -H \"Authorization: Bearer handfast_secret_00112233445566778899aabbccddeeff\" $OWN/echo",
            "does not belong to this session",
        ),
        (
            "curl -sS --noproxy '*' -H \"X-Key: $api_key\" http://${OWN#https://}/echo",
            "only on TLS connections",
        ),
        (
            "curl -sS -x http://127.0.0.1:880 -d \"$api_key\" http://${OWN#https://}/echo",
            "only on TLS connections",
        ),
    ] {
        let result = world.shell(line);
        let warnings = result["meta"]["warnings"].to_string();
        assert!(warnings.contains("was refused") && warnings.contains(why), "{line}: {result:#}");
        assert!(result["data"]["stdout"].as_str().unwrap().contains("handfast: "), "{line}: {result:#}");
        assert!(!world.has_received("handfast_secret_") && !world.was_sent(), "{line}");
    }
    // A reachable host without a claim to the secret receives the placeholder itself, which is
    // useless to anybody.
    let line = "curl -sS --cacert $SSL_CERT_FILE -H \"Authorization: Bearer $api_key\" $OTHER/echo > answer; grep -c handfast_secret_ answer";
    assert_eq!(world.out(line), "1\n");
    assert!(!world.was_sent());
}

#[test]
fn a_query_and_a_body_are_places_where_the_vault_says_so() {
    let world = World::with(&["query", "body"]);
    world.out("curl -sS \"$OWN/echo?key=$api_key&x=y\"");
    assert!(world.has_received(&format!("GET /echo?key={SECRET}&x=y HTTP/1.1")));
    world
        .out("curl -sS -H 'Content-Type: application/json' -d \"{\\\"key\\\": \\\"$api_key\\\"}\" $OWN/echo");
    assert!(world.has_received(&format!("{{\"key\": \"{SECRET}\"}}")));
    assert!(world.was_sent());
    // In pieces: a body of unknown length, with the placeholder across its chunks.
    let line = "python3 -c 'import os, sys, time; key = os.environ[\"api_key\"]\n\
                [(sys.stdout.write(part), sys.stdout.flush(), time.sleep(0.05)) for part in (\"a\" * 70000 + key[:7], key[7:30], key[30:] + \"z\")]' \
                | curl -sS -T - $OWN/echo | tail -c 60 | rev";
    let said = world.out(line);
    assert!(world.was_sent(), "{said}");
    assert!(!said.contains(&backwards(SECRET)), "{said}");
    // A header is not one of these places.
    assert!(world.out("curl -sS -H \"X-Key: $api_key\" $OWN/echo").contains("handfast: "));
}

#[test]
fn the_placeholder_of_one_session_means_nothing_in_another() {
    let world = World::with(&[]);
    let start = || {
        let mut command = world.command();
        command.args(["--mode", "full_auto"]);
        Server::of(command)
    };
    let (mut first, mut second) = (start(), start());
    let placeholder = |server: &mut Server| {
        let printed = server.data("shell_execute", json!({"command": "touch made; echo $api_key"}));
        printed["stdout"].as_str().unwrap().trim().to_owned()
    };
    let (one, other) = (placeholder(&mut first), placeholder(&mut second));
    assert!(one.starts_with("handfast_secret_") && one != other, "{one} {other}");
    assert_eq!(placeholder(&mut first), one, "it is the same for the whole session");
    let ask = |key: &str| json!({"command": format!("curl -sS -H 'X-Key: {key}' https://{OWN}:{}/echo", world.https.port)});
    let refused = second.data("shell_execute", ask(&one));
    assert!(refused["stdout"].as_str().unwrap().contains("does not belong to this session"), "{refused:#}");
    assert!(!world.was_sent());
    first.data("shell_execute", ask(&one));
    assert!(world.was_sent(), "the control");
    first.end();
    second.end();
}

#[test]
fn real_programs_trust_the_authority_of_their_session() {
    let world = World::with(&[]);
    let made = Command::new("git")
        .args(["init", "-q", "--bare", "one.git"])
        .current_dir(world.fixture.outside().join("served/git"))
        .status();
    assert!(made.unwrap().success());
    for line in [
        "curl -sS -H \"X-Key: $api_key\" $OWN/file",
        "git -c http.extraHeader=\"X-Key: $api_key\" ls-remote $OWN/git/one.git && echo content",
        "python3 -c 'import os, urllib.request as r; q = r.Request(\"'$OWN'/file\", headers={\"X-Key\": os.environ[\"api_key\"]}); print(r.urlopen(q).read().decode().strip())'",
        "node -e 'fetch(\"'$OWN'/file\", {headers: {\"X-Key\": process.env.api_key}}).then(a => a.text()).then(t => process.stdout.write(t))'",
        "npm config set //${OWN#https://}/:_authToken $api_key && npm view --registry $OWN/ p; echo content",
        "python3 -m pip download -q --no-cache-dir --index-url https://me:$api_key@${OWN#https://}/simple/ p; echo content",
    ] {
        let result = world.shell(line);
        assert_eq!(
            result["data"]["stdout"].as_str().unwrap().lines().last(),
            Some("content"),
            "{line}: {result:#}"
        );
        let received = String::from_utf8_lossy(&world.https.received.lock()).into_owned();
        let in_base64 = received.contains("bWU6c2stbGl2ZS0wMTIzNDU2Nzg5LWFiY2RlZg");
        assert!(world.was_sent() || in_base64, "{line}: {received} {result:#}");
    }
    // A program that trusts another authority is refused, and the error names the reason.
    let refused = world
        .shell("SSL_CERT_FILE= CURL_CA_BUNDLE= curl -sS --cacert /dev/null -H \"X-Key: $api_key\" $OWN/file");
    assert_ne!(refused["data"]["exit_code"], 0, "{refused:#}");
    assert!(!world.was_sent());
}

#[test]
fn an_answer_that_cannot_be_looked_through_is_not_passed_on() {
    let world = World::with(&[]);
    let said = world.out("curl -sS $OWN/compressed");
    assert!(said.contains("handfast: the server's response cannot be searched for secrets"), "{said}");
}

#[test]
fn a_server_with_another_certificate_gets_nothing() {
    let world = World::with(&[]);
    // Without the test's authority, the proxy trusts only the authorities of the system.
    let arguments = json!({"command": format!("curl -sS -H \"X-Key: $api_key\" https://{OWN}:{}/echo", world.https.port)});
    let result = world.fixture.call("shell_execute", arguments);
    let said = result["data"]["stdout"].as_str().unwrap();
    assert!(
        said.contains("handfast: cannot connect to api.localhost: invalid peer certificate"),
        "{result:#}"
    );
    assert!(!world.was_sent());
}

#[test]
fn nothing_of_a_secret_that_was_used_lies_anywhere() {
    let world = World::with(&["header", "query", "body"]);
    let line = "curl -sS -H \"X-Key: $api_key\" -d \"key=$api_key\" \"$OWN/echo?key=$api_key\"; env; cat /proc/*/environ";
    let result = world.shell(line);
    assert!(world.was_sent());
    assert_eq!(leaked(result.to_string().as_bytes(), SECRET), None);
    let audit = world.fixture.run(&["audit", "export"]).stdout;
    assert!(audit.contains("use_secret"), "{audit}");
    let mut everything = everything_below(&world.fixture.state());
    everything.extend(everything_below(&world.fixture.workspace()));
    assert_eq!(leaked(&everything, SECRET), None);
    // The certificate that programs trusted is removed with the session, and its key never was a file.
    assert_eq!(std::fs::read_dir(world.fixture.state().join("certificates")).unwrap().count(), 0);
    assert!(!String::from_utf8_lossy(&everything).contains("PRIVATE KEY"));
}
