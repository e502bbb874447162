//! The Gmail tools against a test server that behaves like Gmail.

mod discovery;
mod failures;
mod logins;
mod once;
mod work;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::fakes::gmail::{ACCOUNT, CLIENT_ID, CLIENT_SECRET, Gmail as Server};
use crate::fakes::linear::{KEY, Linear as LinearServer};
use fetch::web::Web;
use serde_json::{Value, json};
use testkit::{FixedClock, Workspace, check_family, run_in};
use tool::{Clock, Code, Context, Effect, Hosts, Level, ToolError};
use tools_work::oauth::{self, Client, Grant, Login};
use tools_work::{Endpoints, Gmail, Linear};
use vault::{Change, HostRule, Keys, SecretBytes, Vault};

/// A policy that allows connections to this machine, and nothing else.
struct Rules;

impl Hosts for Rules {
    fn may_also(&self, _level: Level, _effects: &[Effect]) -> Result<(), ToolError> {
        Err(ToolError::new(Code::Permission, "nothing beside the plan"))
    }

    fn may_dial(&self, _host: &str, address: IpAddr, _port: u16) -> Option<bool> {
        Some(address.is_loopback())
    }
}

/// A server, and a workspace whose vault has a login for it.
pub(crate) struct Fixture {
    runtime: tokio::runtime::Runtime,
    folder: tempfile::TempDir,
    pub(crate) server: Server,
    pub(crate) workspace: Workspace,
}

impl Fixture {
    /// Creates a fixture with a login for reading and sending, and a token that is valid for an
    /// hour.
    pub(crate) fn new() -> Self {
        let fixture = Self::without_login();
        fixture.log_in(&oauth::SCOPES, 3_600);
        fixture
    }

    pub(crate) fn without_login() -> Self {
        Self::in_workspace(Workspace::new())
    }

    pub(crate) fn in_workspace(workspace: Workspace) -> Self {
        let folder = tempfile::tempdir().unwrap();
        vault::make_key_file(&folder.path().join("key")).unwrap();
        let workspace = with_services(workspace, folder.path());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { runtime, folder, server: Server::new(), workspace }
    }

    /// Opens the vault as another program would.
    pub(crate) fn vault(&self) -> Vault {
        open(self.folder.path())
    }

    pub(crate) fn gmail(&self) -> Gmail {
        gmail(&self.server)
    }

    /// Stores a login in the vault whose token is valid for this number of seconds.
    pub(crate) fn log_in(&self, scopes: &[&str], seconds: i64) {
        let (access, refresh) = self.server.log_in(scopes);
        keep(&self.vault(), &self.gmail(), (&access, &refresh), seconds);
    }

    pub(crate) fn context(&self) -> Context {
        self.workspace.context()
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        self.call_in(&self.context(), tool, arguments)
    }

    pub(crate) fn call_in(
        &self,
        context: &Context,
        tool: &str,
        arguments: Value,
    ) -> Result<Value, ToolError> {
        let _entered = self.runtime.enter();
        let linear = Linear::at(Linear::ENDPOINT, Linear::SECRET).unwrap();
        let tools = tools_work::tools(linear, &self.gmail());
        let tool = tools.iter().find(|one| one.name() == tool).unwrap();
        run_in(tool.as_ref(), context, arguments)
    }

    /// Returns the data of a call that succeeds.
    #[track_caller]
    pub(crate) fn data(&self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Returns the error of a call that fails.
    #[track_caller]
    pub(crate) fn error(&self, tool: &str, arguments: Value) -> ToolError {
        let answer = self.call(tool, arguments.clone());
        answer.map_or_else(|error| error, |answer| panic!("{tool} {arguments}: {answer:#}"))
    }

    /// Returns a context with this timeout.
    pub(crate) fn within(&self, seconds: f64) -> Context {
        let mut context = self.context();
        context.timeout = Duration::from_secs_f64(seconds);
        context
    }
}

pub(crate) fn gmail(server: &Server) -> Gmail {
    let url = |path: &str| Some(server.server.url(path));
    let endpoints = Endpoints {
        api: url("/"),
        authorization: url("/auth"),
        token: url("/token"),
        revocation: url("/revoke"),
    };
    Gmail::at(endpoints).unwrap()
}

fn keep(vault: &Vault, gmail: &Gmail, (access, refresh): (&str, &str), seconds: i64) {
    let now = FixedClock::default().now();
    let locked = |text: &str| SecretBytes::copy_of(text.as_bytes());
    let client = Client { id: CLIENT_ID.to_owned(), secret: Some(locked(CLIENT_SECRET)) };
    let login =
        Login { client_id: CLIENT_ID.to_owned(), account: Some(ACCOUNT.to_owned()), scopes: String::new() };
    login.keep(vault, gmail, &client, now).unwrap();
    let ends = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    let grant = Grant {
        access: locked(access),
        refresh: Some(locked(refresh)),
        expires_at: Some(ends),
        scopes: None,
    };
    grant.keep(vault, gmail, now).unwrap();
}

fn open(folder: &Path) -> Vault {
    Vault::new(folder.join("vault"), Keys { key_file: Some(folder.join("key")), ..Keys::default() })
}

fn with_services(workspace: Workspace, folder: &Path) -> Workspace {
    let rules: Arc<dyn Hosts> = Arc::new(Rules);
    workspace
        .with_service(Arc::new(rules))
        .with_service(Arc::new(Web::default()))
        .with_service(Arc::new(open(folder)))
}

#[test]
fn every_tool_of_the_family_fulfils_what_all_must() {
    let (fixture, linear_server) = (Fixture::new(), LinearServer::new());
    let _entered = fixture.runtime.enter();
    let linear = Linear::at(&linear_server.endpoint(), Linear::SECRET).unwrap();
    let hosts = Some(HostRule::parse_all(["localhost"]).unwrap());
    let key = Change { hosts, ..Change::named(Linear::SECRET).unwrap() };
    fixture.vault().set(&key, KEY.as_bytes(), jiff::Timestamp::UNIX_EPOCH).unwrap();
    check_family(&tools_work::tools(linear, &fixture.gmail()), || {
        with_services(Workspace::new(), fixture.folder.path())
    });
}

/// Returns the subjects of the messages or results in an answer.
pub(crate) fn subjects(answer: &Value) -> Vec<&str> {
    let list = answer.get("results").or(answer.get("messages")).and_then(Value::as_array).unwrap();
    list.iter().map(|one| one["subject"].as_str().unwrap()).collect()
}

pub(crate) fn to_grace() -> Value {
    json!({"to": "Grace Hopper <grace@example.com>", "subject": "Notes", "body": "Here they are.\n"})
}
