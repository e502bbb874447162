//! Logins at scripted authorization servers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mcp_client::oauth::{
    Challenge, Identity, Login, OAuthError, RANDOM_BYTES, Reach, RegisteredClient, Secret, discover,
    identify, refresh,
};
use mcp_client::{HttpAnswer, HttpBody, HttpFailure, HttpMethod, HttpRequest, HttpTransport};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tool::BoxFuture;

use crate::fake::RuntimeTimer;

const SERVER: &str = "https://tools.example/mcp";
const REDIRECT: &str = "http://127.0.0.1:7/back";

struct Body(Option<Bytes>);

impl HttpBody for Body {
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, HttpFailure>> {
        Box::pin(std::future::ready(Ok(self.0.take())))
    }
}

/// Web of documents by URL.
#[derive(Default)]
struct Web {
    documents: BTreeMap<String, Value>,
    requests: Mutex<Vec<HttpRequest>>,
}

impl HttpTransport for Web {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpFailure>> {
        let found = self.documents.get(&request.url);
        let status = if found.is_some() { 200 } else { 404 };
        let body = Box::new(Body(Some(found.map(Value::to_string).unwrap_or_default().into())));
        self.requests.lock().push(request);
        Box::pin(std::future::ready(Ok(HttpAnswer { status, headers: Vec::new(), body })))
    }
}

impl Web {
    fn new() -> Self {
        let mut web = Self::default();
        web.put(
            "https://tools.example/.well-known/oauth-protected-resource/mcp",
            json!({"resource": SERVER, "authorization_servers": ["https://as.example/tenant"], "scopes_supported": ["read"]}),
        );
        web.put(
            "https://as.example/.well-known/oauth-authorization-server/tenant",
            json!({
                "issuer": "https://as.example/tenant",
                "authorization_endpoint": "https://as.example/authorize",
                "token_endpoint": "https://as.example/token",
                "registration_endpoint": "https://as.example/register",
                "code_challenge_methods_supported": ["plain", "S256"],
                "scopes_supported": ["offline_access"],
            }),
        );
        web.put("https://as.example/register", json!({"client_id": "me & you", "client_secret": "s:1", "token_endpoint_auth_method": "client_secret_basic"}));
        web.put(
            "https://as.example/token",
            json!({"access_token": "a1", "token_type": "Bearer", "refresh_token": "r1", "expires_in": 60}),
        );
        web
    }

    fn put(&mut self, url: &str, document: Value) {
        self.documents.insert(url.to_owned(), document);
    }

    fn change(&mut self, url: &str, field: &str, value: Value) {
        self.documents.get_mut(url).unwrap()[field] = value;
    }

    fn reach(&self) -> Reach<'_> {
        Reach { transport: self, timer: &RuntimeTimer }
    }

    /// Returns the fields of the newest form.
    fn form(&self) -> BTreeMap<String, String> {
        let requests = self.requests.lock();
        let body = &requests.last().unwrap().body;
        url::form_urlencoded::parse(body).into_owned().collect()
    }
}

const AS: &str = "https://as.example/.well-known/oauth-authorization-server/tenant";
const RESOURCE: &str = "https://tools.example/.well-known/oauth-protected-resource/mcp";

fn identity() -> Identity {
    Identity { registered: None, document: None, name: "Handfast".to_owned(), redirect: REDIRECT.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn a_login_goes_from_the_refusal_to_tokens_and_their_renewal() {
    let web = Web::new();
    let discovery = discover(web.reach(), SERVER, &Challenge::default()).await.unwrap();
    assert_eq!(discovery.scope.as_deref(), Some("read offline_access"));
    let client = identify(web.reach(), &discovery.server, &identity()).await.unwrap();
    assert!(!format!("{client:?}").contains("s:1"), "{client:?}");
    let login = Login::begin(discovery.clone(), client.clone(), REDIRECT, &[3; RANDOM_BYTES]).unwrap();
    let url = url::Url::parse(login.url()).unwrap();
    let asked: BTreeMap<String, String> = url.query_pairs().into_owned().collect();
    assert_eq!((asked["client_id"].as_str(), asked["resource"].as_str()), ("me & you", SERVER));
    let tokens = login.finish(web.reach(), &format!("code=c1&state={}", asked["state"])).await.unwrap();
    assert_eq!((tokens.access.reveal(), tokens.expires_in), ("a1", Some(Duration::from_mins(1))));
    let form = web.form();
    assert_eq!(
        (form["code"].as_str(), form["resource"].as_str(), form["redirect_uri"].as_str()),
        ("c1", SERVER, REDIRECT)
    );
    assert_eq!(form["code_verifier"].len(), 43);
    assert!(!form.contains_key("client_secret"));
    {
        let requests = web.requests.lock();
        let basic =
            requests.last().unwrap().headers.iter().find(|(name, _)| name == "authorization").unwrap();
        // Both parts are encoded as in a form before they are put together.
        assert_eq!(basic.1, "Basic bWUrJTI2K3lvdTpzJTNBMQ==");
        assert_eq!(requests.iter().filter(|request| request.method == HttpMethod::Post).count(), 2);
    }
    let renewed = refresh(web.reach(), &discovery, &client, &tokens.refresh.unwrap()).await.unwrap();
    assert_eq!(renewed.access.reveal(), "a1");
    assert_eq!(web.form()["refresh_token"], "r1");
}

#[tokio::test(start_paused = true)]
async fn metadata_that_could_lead_a_token_astray_is_refused() {
    let fault = async |change: &dyn Fn(&mut Web)| {
        let mut web = Web::new();
        change(&mut web);
        discover(web.reach(), SERVER, &Challenge::default()).await.unwrap_err()
    };
    let other = fault(&|web| web.change(RESOURCE, "resource", json!("https://evil.example/mcp"))).await;
    assert_eq!(other, OAuthError::OtherResource { found: "https://evil.example/mcp".to_owned() });
    let issuer = fault(&|web| web.change(AS, "issuer", json!("https://evil.example"))).await;
    assert!(matches!(issuer, OAuthError::OtherIssuer { .. }), "{issuer}");
    assert_eq!(
        fault(&|web| web.change(AS, "code_challenge_methods_supported", json!(["plain"]))).await,
        OAuthError::NoPkce
    );
    for endpoint in ["javascript:alert(1)", "http://as.example/authorize", "file:///etc/passwd"] {
        let plain = fault(&|web| web.change(AS, "authorization_endpoint", json!(endpoint))).await;
        assert!(matches!(plain, OAuthError::Url { .. }), "{plain}");
    }
    let nowhere = fault(&|web| drop(web.documents.remove(AS))).await;
    assert!(matches!(nowhere, OAuthError::NotFound { .. }), "{nowhere}");
    let none = fault(&|web| web.change(RESOURCE, "authorization_servers", json!([]))).await;
    assert!(matches!(none, OAuthError::Document { .. }), "{none}");
    let named = Challenge {
        resource_metadata: Some("http://169.254.169.254/latest".to_owned()),
        ..Challenge::default()
    };
    let web = Web::new();
    assert!(matches!(discover(web.reach(), SERVER, &named).await, Err(OAuthError::Url { .. })));
    assert_eq!(web.requests.lock().len(), 0, "nothing is sent there");
}

#[tokio::test(start_paused = true)]
async fn a_client_is_used_at_its_own_issuer_alone() {
    let web = Web::new();
    let discovery = discover(web.reach(), SERVER, &Challenge::default()).await.unwrap();
    let own = RegisteredClient { id: "own".to_owned(), secret: Some("secret".to_owned()), auth: None };
    let at = |issuer: &str| Identity { registered: Some((issuer.to_owned(), own.clone())), ..identity() };
    let same = identify(web.reach(), &discovery.server, &at("https://as.example/tenant")).await.unwrap();
    assert_eq!(same, own);
    let other = identify(web.reach(), &discovery.server, &at("https://as.example")).await.unwrap();
    assert_eq!(other.id, "me & you", "another issuer never sees the client of the first");
    let mut closed = discovery.server.clone();
    closed.registration_endpoint = None;
    assert_eq!(identify(web.reach(), &closed, &identity()).await, Err(OAuthError::NoIdentity));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_its_code() {
    let mut web = Web::new();
    let discovery = discover(web.reach(), SERVER, &Challenge::default()).await.unwrap();
    web.documents.remove("https://as.example/token");
    let client = RegisteredClient { id: "me".to_owned(), secret: None, auth: None };
    let error = refresh(web.reach(), &discovery, &client, &Secret::new("old")).await.unwrap_err();
    assert_eq!(error, OAuthError::Refused { error: "HTTP 404".to_owned(), description: String::new() });
    assert_eq!(web.form()["client_id"], "me");
}
