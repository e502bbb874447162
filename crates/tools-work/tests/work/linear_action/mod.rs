//! `linear_action` against a test server that behaves like Linear.

mod failures;
mod once;
mod schema;
mod work;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::fakes::linear::{KEY, Linear as Server};
use fetch::web::Web;
use serde_json::{Value, json};
use testkit::{Workspace, run_in};
use tool::{Code, Context, Effect, Hosts, Level, ToolError};
use tools_work::{Endpoints, Gmail, Linear};
use vault::{Change, HostRule, Keys, Vault};

/// A policy that allows connections to this machine, or none.
pub(crate) struct Rules {
    pub(crate) may_dial: bool,
}

impl Hosts for Rules {
    fn may_also(&self, _level: Level, _effects: &[Effect]) -> Result<(), ToolError> {
        Err(ToolError::new(Code::Permission, "nothing beside the plan"))
    }

    fn may_dial(&self, _host: &str, address: IpAddr, _port: u16) -> Option<bool> {
        Some(self.may_dial && address.is_loopback())
    }
}

/// A server, and a workspace whose vault has the key for it.
pub(crate) struct Fixture {
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
    pub(crate) server: Server,
    pub(crate) workspace: Workspace,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(KEY, "localhost", Rules { may_dial: true })
    }

    /// Creates a fixture whose vault has another key, bound to another host.
    pub(crate) fn with(key: &str, host: &str, rules: Rules) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = workspace(folder.path(), key, host, rules);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { runtime, _folder: folder, server: Server::new(), workspace }
    }

    pub(crate) fn context(&self) -> Context {
        self.workspace.context()
    }

    pub(crate) fn call(&self, action: &str, params: Value) -> Result<Value, ToolError> {
        self.call_in(&self.context(), json!({"action": action, "params": params}))
    }

    pub(crate) fn call_in(&self, context: &Context, arguments: Value) -> Result<Value, ToolError> {
        let _entered = self.runtime.enter();
        let linear = Linear::at(&self.server.endpoint(), Linear::SECRET).unwrap();
        let gmail = Gmail::at(Endpoints::default()).unwrap();
        run_in(tools_work::tools(linear, &gmail)[0].as_ref(), context, arguments)
    }

    /// Returns the error of a call that fails.
    pub(crate) fn error(&self, action: &str, params: Value) -> ToolError {
        let answer = self.call(action, params.clone());
        answer.map_or_else(|error| error, |answer| panic!("{action} {params}: {answer:#}"))
    }

    /// Returns the variables of the last mutation.
    pub(crate) fn sent(&self) -> Value {
        let mut questions = self.server.questions();
        questions.retain(|(document, _)| document.starts_with("mutation"));
        questions.pop().unwrap().1
    }
}

fn workspace(folder: &std::path::Path, key: &str, host: &str, rules: Rules) -> Workspace {
    let key_file = folder.join("key");
    vault::make_key_file(&key_file).unwrap();
    let vault = Vault::new(folder.join("vault"), Keys { key_file: Some(key_file), ..Keys::default() });
    let hosts = Some(HostRule::parse_all([host]).unwrap());
    let change = Change { hosts, ..Change::named(Linear::SECRET).unwrap() };
    vault.set(&change, key.as_bytes(), jiff::Timestamp::UNIX_EPOCH).unwrap();
    let rules: Arc<dyn Hosts> = Arc::new(rules);
    Workspace::new()
        .with_service(Arc::new(rules))
        .with_service(Arc::new(Web::default()))
        .with_service(Arc::new(vault))
}

/// Returns a context with this timeout.
pub(crate) fn within(fixture: &Fixture, seconds: f64) -> Context {
    let mut context = fixture.context();
    context.timeout = Duration::from_secs_f64(seconds);
    context
}
