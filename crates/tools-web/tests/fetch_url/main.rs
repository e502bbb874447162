//! `fetch_url` against servers on this machine that misbehave as real ones do.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test program")]

mod answers;
mod asking;
mod connections;
mod covering;
mod files;
mod resuming;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fetch::address::Host;
use fetch::web::Web;
use serde_json::{Value, json};
use testkit::web::{Authority, Reply, Request, Server};
use testkit::{TestSecrets, Workspace, check_family, run_in};
use tool::{Code, Context, Effect, ErasedTool, Hosts, Level, ToolError};
use tools_web::FetchUrl;
use vault::{Change, HostRule, Keys, RequestParts, Vault};

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A policy that allows connections to this machine by default, and denies redirects to the listed
/// hosts.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) only_public: bool,
    /// True if every address may be dialled.
    pub(crate) any: bool,
    pub(crate) denied: Vec<&'static str>,
}

impl Hosts for Rules {
    fn may_also(&self, _level: Level, effects: &[Effect]) -> Result<(), ToolError> {
        let denied = effects.iter().find_map(|effect| match effect {
            Effect::Connect { host, .. } => self.denied.iter().find(|denied| *denied == host),
            _ => None,
        });
        denied.map_or(Ok(()), |host| Err(ToolError::new(Code::Permission, format!("{host} is denied"))))
    }

    fn may_dial(&self, _host: &str, address: IpAddr, _port: u16) -> Option<bool> {
        (self.any || !self.only_public && address.is_loopback()).then_some(true)
    }
}

pub(crate) const SECRET: &str = "sk-live-0123456789";
/// A secret with characters that Markdown escapes.
pub(crate) const MARKED: &str = "sk_test_*0123*_[456]";

/// Creates a vault with one secret, for `localhost` only and at these places only.
pub(crate) fn vault(folder: &std::path::Path, places: RequestParts) -> Arc<Vault> {
    let key_file = folder.join("key");
    vault::make_key_file(&key_file).unwrap();
    let vault = Vault::new(folder.join("vault"), Keys { key_file: Some(key_file), ..Keys::default() });
    for (name, hosts) in [
        ("API_KEY", ["localhost", "a.example"]),
        // Hosts that are addresses, so no name is resolved.
        ("LITERAL", ["1.1.1.1", "2606:4700::1111"]),
    ] {
        let hosts = Some(HostRule::parse_all(hosts).unwrap());
        let change = Change { hosts, places: Some(places), ..Change::named(name).unwrap() };
        vault.set(&change, SECRET.as_bytes(), jiff::Timestamp::UNIX_EPOCH).unwrap();
    }
    Arc::new(vault)
}

pub(crate) struct Fixture {
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
    pub(crate) workspace: Workspace,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Rules::default(), Web::default())
    }

    pub(crate) fn with(rules: Rules, web: Web) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules: Arc<dyn Hosts> = Arc::new(rules);
        let vault = vault(folder.path(), RequestParts::default());
        let workspace = Workspace::new()
            .covering(TestSecrets::of(&[("API_KEY", SECRET), ("MARKED", MARKED)]))
            .with_service(Arc::new(rules))
            .with_service(Arc::new(web))
            .with_service(vault);
        Self { runtime: runtime(), _folder: folder, workspace }
    }

    pub(crate) fn fetch(&self, arguments: Value) -> Result<Value, ToolError> {
        let mut context = self.workspace.context();
        if let Some(seconds) = arguments["timeout"].as_f64() {
            context.timeout = Duration::from_secs_f64(seconds);
        }
        self.fetch_in(&context, arguments)
    }

    pub(crate) fn fetch_in(&self, context: &Context, arguments: Value) -> Result<Value, ToolError> {
        let _entered = self.runtime.enter();
        run_in(ErasedTool::tool(FetchUrl).as_ref(), context, arguments)
    }
}

/// Returns the request as JSON.
pub(crate) fn echo(request: &Request) -> Reply {
    let headers: BTreeMap<_, _> = request.headers.iter().cloned().collect();
    let body = String::from_utf8_lossy(&request.body);
    let said = json!({"method": request.method, "path": request.path, "headers": headers, "body": body});
    Reply::json(&said.to_string())
}

#[test]
fn every_tool_of_the_family_fulfils_what_all_must() {
    let runtime = runtime();
    let _entered = runtime.enter();
    let authority = Authority::new();
    let server = Server::https(&authority, "api.example.com", |request| match request.path.as_str() {
        "/issues/1" => Reply::json(r#"{"id": 1}"#),
        _ => Reply::status(404),
    });
    check_family(&tools_web::tools(), || {
        let host = Host::parse("api.example.com").unwrap();
        let web = Web::trusting(vec![authority.certificate()]).connecting(host, 443, server.address);
        let hosts: Arc<dyn Hosts> = Arc::new(Rules::default());
        Workspace::new().with_service(Arc::new(web)).with_service(Arc::new(hosts))
    });
}
