//! Client for the official test suite of the protocol: it does what a caller of this crate does, against the
//! server of one scenario. `tests/mcp_client/conformance.rs` runs the suite with it.
//!
//! The scenario comes in `MCP_CONFORMANCE_SCENARIO` and its data in `MCP_CONFORMANCE_CONTEXT`, as the suite defines it;
//! the last argument is the URL of the server.

#![allow(clippy::disallowed_methods, reason = "the suite speaks to this program through its environment")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a program of a test fails by panicking")]

mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use mcp_client::oauth::{
    Challenge, Identity, Login, Reach, RegisteredClient, Tokens, discover, identify, parse_challenge,
};
use mcp_client::{
    Abilities, Client, ClientError, ClientName, FirstContact, HttpEndpoint, HttpMethod, HttpRequest,
    HttpTransport, Limits, NoListener, Options, Refusal, ServerRequests, ToolCall,
};
use serde_json::{Map, Value, json};
use tool::{BoxFuture, Timer};
use transport::LocalTransport;

/// URL of the document that the suite expects.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// URL to which the browser would return. Nothing listens there: the redirection is read and not followed.
const REDIRECT: &str = "http://127.0.0.1:8976/callback";

/// Number of logins after which the client gives up.
const MOST_LOGINS: u32 = 3;

/// Number of the next login, which keeps their random bytes apart.
static LOGIN: AtomicU8 = AtomicU8::new(1);

struct RuntimeTimer;

impl Timer for RuntimeTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(moment.into()))
    }
}

/// Human who accepts every form with its defaults.
struct Human;

impl ServerRequests for Human {
    fn abilities(&self) -> Abilities {
        Abilities { sampling: true, forms: true, urls: false, roots: true }
    }

    fn sample(&self, _: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        let answer =
            json!({"role": "assistant", "model": "none", "content": {"type": "text", "text": "hello"}});
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn elicit(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        let fields = params.pointer("/requestedSchema/properties").and_then(Value::as_object);
        let content: Map<String, Value> = fields
            .into_iter()
            .flatten()
            .map(|(name, schema)| {
                (name.clone(), schema.get("default").cloned().unwrap_or_else(|| value_of(schema)))
            })
            .collect();
        Box::pin(std::future::ready(Ok(json!({"action": "accept", "content": content}))))
    }
}

/// Returns a value of a schema's type.
fn value_of(schema: &Value) -> Value {
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("test"),
    }
}

/// Connection that logs in when the server wants it.
struct Caller {
    url: String,
    context: Value,
    tokens: Option<Tokens>,
    logins: u32,
    client: Option<Client>,
}

impl Caller {
    async fn connect(&mut self) -> Result<(), ClientError> {
        loop {
            let token = self.tokens.as_ref().map(|tokens| format!("Bearer {}", tokens.access.reveal()));
            let headers = token.map(|token| ("authorization".to_owned(), token)).into_iter().collect();
            let endpoint =
                HttpEndpoint { url: self.url.clone(), headers, transport: Arc::new(LocalTransport) };
            let options = Options {
                name: ClientName { name: "handfast-conformance".to_owned(), version: "1".to_owned() },
                first: FirstContact::Discover,
                limits: Limits { answer: Duration::from_secs(20), ..Limits::default() },
                timer: Arc::new(RuntimeTimer),
                requests: Arc::new(Human),
                listener: Arc::new(NoListener),
                wants_notices: false,
            };
            match Client::over_http(endpoint, options).await {
                Ok(client) => {
                    self.client = Some(client);
                    return Ok(());
                }
                Err(ClientError::Unauthorized { challenge, .. }) if self.logins < MOST_LOGINS => {
                    self.log_in(challenge.as_deref()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes a request, and logs in where the server wants it.
    async fn with_login<T>(
        &mut self,
        request: impl AsyncFn(&Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        loop {
            let done = request(self.client.as_ref().unwrap()).await;
            match done {
                Err(ClientError::Unauthorized { challenge, .. }) if self.logins < MOST_LOGINS => {
                    self.log_in(challenge.as_deref()).await;
                    self.connect().await?;
                }
                done => return done,
            }
        }
    }

    async fn log_in(&mut self, challenge: Option<&str>) {
        self.logins += 1;
        let reach = Reach { transport: &LocalTransport, timer: &RuntimeTimer };
        let challenge = challenge.map_or_else(Challenge::default, parse_challenge);
        let mut discovery =
            discover(reach, &self.url, &challenge).await.unwrap_or_else(|error| panic!("{error}"));
        let granted = self.tokens.as_ref().and_then(|tokens| tokens.scope.clone());
        if let Some(scope) = granted.filter(|_| challenge.error.as_deref() == Some("insufficient_scope")) {
            discovery.add_scope(&scope);
        }
        let text = |field: &str| self.context.get(field).and_then(Value::as_str).map(ToOwned::to_owned);
        let registered = text("client_id")
            .zip(text("issuer"))
            .map(|(id, issuer)| (issuer, RegisteredClient { id, secret: text("client_secret"), auth: None }));
        let identity = Identity {
            registered,
            document: Some(DOCUMENT.to_owned()),
            name: "Handfast".to_owned(),
            redirect: REDIRECT.to_owned(),
        };
        let client =
            identify(reach, &discovery.server, &identity).await.unwrap_or_else(|error| panic!("{error}"));
        let random = [LOGIN.fetch_add(1, Ordering::Relaxed); mcp_client::oauth::RANDOM_BYTES];
        let login =
            Login::begin(discovery, client, REDIRECT, &random).unwrap_or_else(|error| panic!("{error}"));
        let request = HttpRequest {
            method: HttpMethod::Get,
            url: login.url().to_owned(),
            headers: Vec::new(),
            body: bytes::Bytes::new(),
        };
        let redirection = LocalTransport.send(request).await.unwrap();
        let location = redirection.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        let location = location.unwrap_or_else(|| panic!("no redirection, but HTTP {}", redirection.status));
        let query = location.1.split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
        let tokens = login.finish(reach, &query).await.unwrap_or_else(|error| panic!("{error}"));
        self.tokens = Some(tokens);
    }
}

async fn run() -> Result<(), ClientError> {
    let url = std::env::args().next_back().unwrap();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let mut caller = Caller { url, context, tokens: None, logins: 0, client: None };
    caller.connect().await?;
    let listing = caller.with_login(async |client| client.list_tools().await).await?;
    eprintln!(
        "tools: {:?}, faults: {:?}",
        listing.entries.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        listing.faults
    );
    let focal = listing.entries.first().map(mcp_client::definition::ToolDefinition::input_schema_value);
    for tool in &listing.entries {
        let schema = tool.input_schema_value();
        let prepared = caller.context.get("toolCalls").and_then(Value::as_array).cloned().unwrap_or_default();
        let prepared =
            prepared.iter().find(|call| call["name"] == tool.name).map(|call| call["arguments"].clone());
        let arguments = prepared.and_then(|arguments| arguments.as_object().cloned()).unwrap_or_else(|| {
            let fields = schema.get("properties").and_then(Value::as_object);
            let value = |(name, property): (&String, &Value)| {
                // The suite looks at a schema that came back as it was given.
                let echoed = focal.clone().filter(|_| name == "schema");
                (name.clone(), echoed.unwrap_or_else(|| value_of(property)))
            };
            fields.into_iter().flatten().map(value).collect()
        });
        let answer = caller
            .with_login(async |client| {
                let arguments = arguments.clone();
                let call = ToolCall {
                    tool: &tool.name,
                    arguments,
                    input_schema: Some(&schema),
                    timeout: None,
                    progress: None,
                    requests: None,
                };
                client.call_tool(call).await
            })
            .await?;
        eprintln!("{}: {answer:?}", tool.name);
    }
    if let Some(client) = &caller.client {
        if client.facts().offers.prompts {
            for prompt in client.list_prompts().await?.entries {
                eprintln!("{:?}", client.get_prompt(&prompt.name, Map::new()).await);
            }
        }
        if client.facts().offers.resources {
            for resource in client.list_resources().await?.entries {
                eprintln!("{:?}", client.read_resource(&resource.uri).await);
            }
        }
    }
    if let Some(client) = caller.client.take() {
        client.end(Duration::from_secs(2)).await;
    }
    Ok(())
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Err(error) = runtime.block_on(run()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
