//! Tokens of an identity provider, through the real program: the routes that they open, and those
//! that they do not.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::{Response, Up, bearer};

const RESOURCE: &str = "https://tools.example/mcp";

/// A provider on this machine, which serves its public key until the test has ended.
struct Provider {
    issuer: String,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        // The public half of the key below (RFC 8032, section 7.1, the first test).
        let key = json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "k", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        let keys = json!({"keys": [key]}).to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let head = BufReader::new(stream.try_clone().unwrap()).lines();
                let _head: Vec<String> =
                    head.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let length = keys.len();
                let _gone = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{keys}"
                );
            }
        });
        Self { issuer }
    }

    fn token(&self, subject: &str, scope: &str, audience: &str) -> String {
        let mut key = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let private = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        key.extend((0..32).map(|byte| u8::from_str_radix(&private[2 * byte..2 * byte + 2], 16).unwrap()));
        let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 600;
        let claims =
            json!({"iss": self.issuer, "aud": audience, "sub": subject, "scope": scope, "exp": expires});
        let header = Header { kid: Some("k".to_owned()), ..Header::new(Algorithm::EdDSA) };
        encode(&header, &claims, &EncodingKey::from_ed_der(&key)).unwrap()
    }

    fn configuration(&self) -> String {
        format!(
            "oauth:\n  issuer: {0}\n  resource: {RESOURCE}\n  keys: {0}/keys\n  scopes: {{agent: hands, user: eyes}}\n",
            self.issuer
        )
    }
}

fn prepared(provider: &Provider) -> Fixture {
    let fixture = Fixture::with_files(&[("a.txt", "a")]).asking();
    let file = fixture.home().join(".config/handfast/config.yaml");
    let asking = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, asking + &provider.configuration()).unwrap();
    fixture
}

fn challenge(response: &Response) -> &str {
    response.header("www-authenticate").unwrap_or_default()
}

#[test]
fn a_token_of_the_provider_opens_what_its_scope_says_and_nothing_else() {
    let provider = Provider::start();
    let fixture = prepared(&provider);
    let up = Up::start(&fixture, &[]);
    let metadata = "https://tools.example/.well-known/oauth-protected-resource/mcp";
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let told = up.request("GET", path, &[], b"").json();
        assert_eq!(
            (&told["resource"], &told["authorization_servers"][0]),
            (&json!(RESOURCE), &json!(provider.issuer))
        );
    }
    let call = json!({"tool": "file_read", "arguments": {"path": "a.txt"}});
    let nobody = up.request("POST", "/v1/call", &[], b"{}");
    assert_eq!(nobody.status, 401);
    assert!(
        challenge(&nobody).contains(&format!("resource_metadata=\"{metadata}\"")),
        "{}",
        challenge(&nobody)
    );
    // The control.
    let ada = provider.token("ada", "openid hands", RESOURCE);
    assert_eq!(up.post(&ada, "/v1/call", &call).json()["data"]["content"], "a");
    assert_eq!(up.call("file_read", json!({"path": "a.txt"}))["ok"], true, "its own tokens are good as ever");
    let elsewhere = up.post(&provider.token("ada", "hands", "https://other.example/mcp"), "/v1/call", &call);
    assert_eq!(elsewhere.status, 401);
    assert!(challenge(&elsewhere).contains("error=\"invalid_token\""), "{}", challenge(&elsewhere));
    let eyes = provider.token("ada", "eyes", RESOURCE);
    for (what, token, path) in [
        ("another scope", provider.token("ada", "openid", RESOURCE), "/v1/call"),
        ("who answers", eyes.clone(), "/v1/call"),
        ("who asks", ada.clone(), "/v1/approvals/x/approve"),
        ("both", provider.token("ada", "hands eyes", RESOURCE), "/v1/call"),
    ] {
        let refused = up.post(&token, path, &call);
        assert_eq!(refused.status, 403, "{what}: {refused:?}");
        assert!(challenge(&refused).contains("insufficient_scope"), "{what}: {}", challenge(&refused));
    }
    // The result names the user who approved.
    let write = json!({"tool": "file_write", "arguments": {"path": "b.txt", "content": "b"}});
    let asked = up.post(&ada, "/v1/call", &write).json();
    let yes = format!("/v1/approvals/{}/approve", asked["error"]["approval_id"].as_str().unwrap());
    let approved = up.post(&provider.token("grace", "eyes", RESOURCE), &yes, &json!({}));
    assert_eq!(approved.status, 200, "{approved:?}");
    assert_eq!(up.post(&ada, "/v1/call", &write).json()["meta"]["approved_by"], "grace, over HTTP");
}

#[test]
fn whom_the_provider_tells_apart_reach_nothing_of_each_other() {
    let provider = Provider::start();
    let fixture = prepared(&provider);
    let up = Up::start(&fixture, &[]);
    let [ada, eve] = ["ada", "eve"].map(|name| provider.token(name, "hands", RESOURCE));
    let post = |token: &str, session: &str, message: Value| {
        let (token, kind) = (bearer(token), "content-type: application/json");
        let accept = "accept: application/json, text/event-stream";
        up.request("POST", "/mcp", &[&token, kind, accept, session], message.to_string().as_bytes())
    };
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let opened = post(&ada, "x: y", hello);
    let session = format!("mcp-session-id: {}", opened.header("mcp-session-id").unwrap());
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    assert_eq!(post(&ada, &session, list.clone()).status, 200);
    for stranger in [&eve, &up.agent] {
        assert_eq!(post(stranger, &session, list.clone()).status, 404);
        assert_eq!(up.request("DELETE", "/mcp", &[&bearer(stranger), &session], b"").status, 404);
    }
    // An approval for the session applies to the user who asked.
    let write = |token: &str, name: &str| {
        let call = json!({"tool": "file_write", "arguments": {"path": name, "content": "x"}});
        up.post(token, "/v1/call", &call).json()
    };
    let asked = write(&ada, "a.txt");
    let id = asked["error"]["approval_id"].as_str().unwrap();
    let approved = up.post(&up.user, &format!("/v1/approvals/{id}/approve"), &json!({"scope": "session"}));
    assert_eq!(approved.status, 200, "{approved:?}");
    assert_eq!(write(&ada, "a.txt")["ok"], true);
    assert_eq!(write(&ada, "a.txt")["ok"], true);
    assert_eq!(write(&eve, "a.txt")["error"]["code"], "EAPPROVAL");
}

#[test]
fn a_workspace_names_no_provider_and_a_provider_over_plain_http_is_refused() {
    let provider = Provider::start();
    let fixture = Fixture::with_files(&[("handfast.yaml", &provider.configuration())]);
    assert_eq!(fixture.run(&["trust"]).code, 0);
    let up = Up::start(&fixture, &[]);
    let call = json!({"tool": "file_list", "arguments": {}});
    assert_eq!(up.post(&provider.token("ada", "hands", RESOURCE), "/v1/call", &call).status, 401);
    assert_eq!(up.request("GET", "/.well-known/oauth-protected-resource", &[], b"").status, 404);
    let other = Fixture::new().asking();
    let plain =
        "oauth: {issuer: 'http://id.example', resource: 'https://tools.example', keys: /etc/keys.json}\n";
    std::fs::write(other.home().join(".config/handfast/config.yaml"), plain).unwrap();
    let refused = other.run(&["up", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("oauth.issuer"), "{}", refused.stderr);
}
