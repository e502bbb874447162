//! Tests of tokens from an identity provider.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{EncodingKey, Header, encode};

use tool::BoxFuture;

use super::*;

/// Ed25519 test key: the private seed and the public key from the examples of RFC 8032.
const FIRST: ([u8; 32], &str) = (
    [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44,
        0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
    ],
    "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
);
const SECOND: [u8; 32] = [7; 32];

fn private(seed: [u8; 32]) -> EncodingKey {
    let prefix = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    EncodingKey::from_ed_der(&[&prefix[..], &seed].concat())
}

fn set(id: &str) -> Value {
    json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": id, "x": FIRST.1}]})
}

/// A source of keys that counts its reads.
struct CountedSource(Value, AtomicU32);

impl KeySource for CountedSource {
    fn read(&self) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(self.0.to_string().into_bytes()) })
    }
}

fn provider(source: Arc<CountedSource>) -> Provider {
    let scopes = vec![(Role::Agent, "hands.call".to_owned()), (Role::User, "hands.answer".to_owned())];
    Provider::with("https://id.example", "https://tools.example/mcp", source, scopes)
}

#[expect(clippy::disallowed_methods, reason = "the library that reads tokens has no other clock")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn unheard() -> Warn {
    Arc::new(|_| {})
}

fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": ["https://tools.example/mcp"], "sub": "ada", "exp": now() + 600, "scope": "openid hands.call"})
}

fn signed(kid: &str, seed: [u8; 32], claims: &Value) -> String {
    let header =
        Header { kid: Some(kid.to_owned()), typ: Some("at+jwt".to_owned()), ..Header::new(Algorithm::EdDSA) };
    encode(&header, claims, &private(seed)).unwrap()
}

#[tokio::test]
async fn a_token_for_this_server_is_its_scopes_role_and_every_other_is_refused() {
    let provider = provider(Arc::new(CountedSource(set("a"), AtomicU32::new(0))));
    let warn = unheard();
    let good = signed("a", FIRST.0, &claims());
    let ada = Subject { role: Role::Agent, name: "ada".to_owned() };
    assert_eq!(provider.subject(&good, &warn).await, Ok(ada));
    let with = |field: &str, value: Value| {
        let mut changed = claims();
        changed[field] = value;
        signed("a", FIRST.0, &changed)
    };
    let without = |field: &str| {
        let mut changed = claims();
        changed.as_object_mut().unwrap().remove(field);
        signed("a", FIRST.0, &changed)
    };
    let unsigned = |header: Value| {
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(&header), part(&claims()))
    };
    // A token with extra header fields and a valid signature.
    let extended = |more: Value| {
        let mut header = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": "a"});
        header.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims()));
        let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &private(FIRST.0), Algorithm::EdDSA);
        format!("{signed}.{}", signature.unwrap())
    };
    // Control: a token with harmless extra fields is accepted.
    assert!(provider.subject(&extended(json!({"b64": true, "x": 1})), &warn).await.is_ok());
    let as_secret = Header { kid: Some("a".to_owned()), ..Header::new(Algorithm::HS256) };
    let public = BASE64_URL_SAFE_NO_PAD.decode(FIRST.1).unwrap();
    let (head, signature) = good.rsplit_once('.').unwrap();
    for (what, token) in [
        ("another issuer", with("iss", json!("https://evil.example"))),
        ("this issuer among others", with("iss", json!(["https://id.example", "https://evil.example"]))),
        ("this issuer in a list", with("iss", json!(["https://id.example"]))),
        ("nobody's name", with("sub", json!(""))),
        ("a blank name", with("sub", json!(" \t"))),
        ("no text as a name", with("sub", json!(["ada"]))),
        ("what must be understood", extended(json!({"crit": ["exp"]}))),
        ("nothing that must be understood", extended(json!({"crit": []}))),
        ("what must be understood, as null's opposite", extended(json!({"crit": "b64", "b64": true}))),
        ("claims that are not encoded", extended(json!({"b64": false}))),
        ("claims that are encoded in another way", extended(json!({"b64": "false"}))),
        ("no issuer", without("iss")),
        ("another server's", with("aud", json!("https://other.example/mcp"))),
        ("this server's name alone", with("aud", json!("https://tools.example"))),
        ("nobody's", without("aud")),
        ("expired", with("exp", json!(now() - 120))),
        ("without an end", without("exp")),
        ("nobody's in particular", without("sub")),
        ("not yet good", with("nbf", json!(now() + 600))),
        ("another key's signature", signed("a", SECOND, &claims())),
        ("an unknown key", signed("b", FIRST.0, &claims())),
        (
            "the public key as a secret",
            encode(&as_secret, &claims(), &EncodingKey::from_secret(&public)).unwrap(),
        ),
        ("unsigned", unsigned(json!({"alg": "none", "kid": "a"}))),
        ("its signature cut", head.to_owned() + "."),
        (
            "another's claims",
            format!("{}.{signature}", with("sub", json!("eve")).rsplit_once('.').unwrap().0),
        ),
        ("nothing", String::new()),
        ("dots", "..".to_owned()),
    ] {
        assert!(matches!(provider.subject(&token, &warn).await, Err(TokenRejection::Token(_))), "{what}");
    }
    let login =
        Header { typ: Some("id+jwt".to_owned()), kid: Some("a".to_owned()), ..Header::new(Algorithm::EdDSA) };
    let login = encode(&login, &claims(), &private(FIRST.0)).unwrap();
    assert!(matches!(provider.subject(&login, &warn).await, Err(TokenRejection::Token(_))));
    assert_eq!(provider.subject(&with("scope", json!("openid")), &warn).await, Err(TokenRejection::Scope));
    assert_eq!(
        provider.subject(&with("scope", json!("hands.call hands.answer")), &warn).await,
        Err(TokenRejection::Several)
    );
    let listed = signed(
        "a",
        FIRST.0,
        &json!({"scp": ["hands.answer"], "sub": "x", "iss": "https://id.example", "aud": "https://tools.example/mcp", "exp": now() + 9}),
    );
    assert_eq!(
        provider.subject(&listed, &warn).await,
        Ok(Subject { role: Role::User, name: "x".to_owned() })
    );
}

#[tokio::test]
async fn keys_are_read_once_and_made_up_ones_do_not_have_the_provider_asked_each_time() {
    let source = Arc::new(CountedSource(set("a"), AtomicU32::new(0)));
    let provider = provider(source.clone());
    let warn = unheard();
    for _ in 0..5 {
        assert!(provider.subject(&signed("a", FIRST.0, &claims()), &warn).await.is_ok());
        assert!(provider.subject(&signed("made-up", SECOND, &claims()), &warn).await.is_err());
    }
    assert_eq!(source.1.load(Ordering::SeqCst), 1);
}

/// A provider that answers once and is silent afterwards.
struct SilentProvider(AtomicU32);

impl KeySource for SilentProvider {
    fn read(&self) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move {
            if !first {
                std::future::pending::<()>().await;
            }
            let mut all = set("a");
            all["keys"].as_array_mut().unwrap().push(json!({"kty": "from-the-future", "kid": "z"}));
            Ok(all.to_string().into_bytes())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_answer_holds_up_nobody_whose_key_is_known() {
    let source = Arc::new(SilentProvider(AtomicU32::new(0)));
    let provider = Provider::with(
        "https://id.example",
        "https://tools.example/mcp",
        source.clone(),
        vec![(Role::Agent, "hands.call".to_owned())],
    );
    let (warn, token) = (unheard(), signed("a", FIRST.0, &claims()));
    assert!(provider.subject(&token, &warn).await.is_ok());
    tokio::time::advance(FRESH).await;
    assert!(provider.subject(&token, &warn).await.is_ok());
    tokio::task::yield_now().await;
    assert_eq!(source.0.load(Ordering::SeqCst), 2, "it is asked anew");
    assert!(provider.subject(&token, &warn).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_taken_back_is_good_for_a_quarter_of_an_hour_at_most_whatever_the_provider_does() {
    /// A source that returns its key once, and then another one or an error.
    struct TakenBack(AtomicU32, bool);
    impl KeySource for TakenBack {
        fn read(&self) -> BoxFuture<'_, io::Result<Vec<u8>>> {
            let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
            Box::pin(async move {
                match (first, self.1) {
                    (true, _) => Ok(set("a").to_string().into_bytes()),
                    (false, true) => Ok(set("b").to_string().into_bytes()),
                    (false, false) => Err(io::Error::other("gone")),
                }
            })
        }
    }
    for (answers, refused) in [
        (true, TokenRejection::Token("it is not signed with a key of the provider".to_owned())),
        (false, TokenRejection::Keys),
    ] {
        let source = Arc::new(TakenBack(AtomicU32::new(0), answers));
        let scopes = vec![(Role::Agent, "hands.call".to_owned())];
        let provider = Provider::with("https://id.example", "https://tools.example/mcp", source, scopes);
        let (warn, token) = (unheard(), signed("a", FIRST.0, &claims()));
        assert!(provider.subject(&token, &warn).await.is_ok());
        // After a night without requests, a client presents a key that was revoked meanwhile.
        tokio::time::advance(STALE).await;
        assert_eq!(provider.subject(&token, &warn).await, Err(refused));
    }
}

#[tokio::test]
async fn keys_that_cannot_be_had_are_said_to_who_runs_the_server() {
    struct Gone;
    impl KeySource for Gone {
        fn read(&self) -> BoxFuture<'_, io::Result<Vec<u8>>> {
            Box::pin(async { Err(io::Error::other("no such file")) })
        }
    }
    let provider =
        Provider::with("https://id.example", "https://tools.example/mcp", Arc::new(Gone), Vec::new());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let warn: Warn = {
        let heard = heard.clone();
        Arc::new(move |text: &str| heard.lock().push(text.to_owned()))
    };
    assert_eq!(provider.subject(&signed("a", FIRST.0, &claims()), &warn).await, Err(TokenRejection::Keys));
    assert_eq!(*heard.lock(), ["cannot get the identity provider's keys: no such file"]);
}

#[test]
fn clients_are_told_where_the_provider_is() {
    let provider = provider(Arc::new(CountedSource(set("a"), AtomicU32::new(0))));
    assert_eq!(provider.metadata_url(), "https://tools.example/.well-known/oauth-protected-resource/mcp");
    let told = provider.metadata();
    assert_eq!(told["resource"], "https://tools.example/mcp");
    assert_eq!(told["authorization_servers"], json!(["https://id.example"]));
    assert_eq!(told["scopes_supported"], json!(["hands.call", "hands.answer"]));
}
