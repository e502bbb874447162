//! A server for the official test suite of MCP: the fixtures that the suite expects, through the
//! handler, the sessions and the streams of `handfast up`.
//!
//! Its engine has no tool, and no fixture reads a file or runs a command. The server listens on a
//! free port of this machine, and prints its address as one line of JSON. With an argument, clients
//! need this token.
//! `tests/functional/conformance.rs` runs the suite against it.

#![allow(clippy::print_stdout, reason = "the address is this program's only output")]

mod asking;
mod content;
mod fixtures;
#[path = "../../src/mounts/mcp.rs"]
mod mcp;
mod tasks;
mod tools;

use std::error::Error;
use std::sync::Arc;

use door_http::{Credential, Role};
use engine::{CellSetup, Engine, Parts, Redactor, Registry};
use policy::{Policy, Programs, Setup};
use serde_json::json;
use store_sqlite::SqliteStore;
use tokio::signal::unix::{SignalKind, signal};
use tool::{Catalogue, Clock, Place, SessionId};

/// The clock of this machine.
struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> jiff::Timestamp {
        #[expect(
            clippy::disallowed_methods,
            reason = "this program composes an engine, and so hands the clock in"
        )]
        jiff::Timestamp::now()
    }
}

/// Builds an engine without a tool, for the parts of the server that every request passes.
fn engine(folder: &std::path::Path) -> Result<Engine, Box<dyn Error>> {
    let (workspace, state) = (folder.join("workspace"), folder.join("state"));
    let spool = state.join("spool");
    for needed in [&workspace, &spool] {
        std::fs::create_dir_all(needed)?;
    }
    let policy = Policy::compile(&Setup {
        sources: &[],
        profile: "normal",
        mode: None,
        dialect: policy::Dialect::default(),
        workspace: &workspace,
        home: None,
        protected: std::slice::from_ref(&state),
        closed: &[],
        programs: Programs::Presumed,
        tools: &[],
    })?;
    Ok(Engine::new(Parts {
        place: Place::at(workspace),
        policy: Arc::new(policy),
        store: Arc::new(SqliteStore::open(&state)?),
        registry: Arc::new(Registry::new([])?),
        catalogue: Catalogue::default(),
        clock: Arc::new(WallClock),
        cell: CellSetup { spool_directory: spool, ..CellSetup::default() },
        redactor: Redactor::new([]),
        vault: None,
        databases: None,
        embeddings: None,
        sessions: None,
        tracer: None,
        program: engine::Program::default(),
        summarizer: None,
        question_pictures: None,
        user: None,
        services: tool::Services::default(),
        resources: Vec::new(),
        agents: None,
        timer: Arc::new(engine::TokioTimer),
    })?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let session = SessionId("conformance".to_owned());
    let offered = door_mcp::Options::new("handfast", env!("CARGO_PKG_VERSION"), session.clone());
    let endpoint = door_mcp::Endpoint::with(offered, |_, notices| {
        Ok(Arc::new(fixtures::Conformance::new(notices.clone())?))
    })?;
    let mut options = door_http::Options::new(session);
    options.mounts = vec![mcp::mount(endpoint)];
    let listener = door_http::Listener::bind(([127, 0, 0, 1], 0).into())?;
    let mut ended = signal(SignalKind::terminate())?;
    let token = std::env::args().nth(1);
    options.credentials = token.iter().map(|token| Credential::new(Role::Agent, token)).collect();
    println!("{}", json!({"address": listener.address(), "agent_token": token}));
    let engine = Arc::new(engine(&folder.path().canonicalize()?)?);
    door_http::serve(engine, options, listener, async { ended.recv().await }).await?;
    // The exit code of a process that SIGTERM has ended, as of `handfast up`.
    folder.close()?;
    std::process::exit(143)
}
