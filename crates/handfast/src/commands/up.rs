//! `handfast up`: serves agents over HTTP until it is asked to end.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use dialects::Dialect;
use door_http::{Credential, HttpError, Listener, Role};
use rustix::process::{Resource, getrlimit};
use serde_json::json;

use super::serving::{prepare, present, start_spawner};
use super::{Failure, print, tokio_runtime};
use crate::cli::{Global, UpArgs};
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::identity::OAuth;
use crate::listening::in_the_way;
use crate::mcp_options::NoInput;
use crate::mounts::mounts;
use crate::reload;
use crate::report::{command, note, warn};
use crate::scheduler::Scheduler;
use crate::signals::Signals;
use crate::tokens::{Token, token};

/// Average number of open files per connection, including those of its call.
const FILES_A_CONNECTION: u64 = 4;

pub(super) fn run(global: &Global, arguments: &UpArgs) -> Result<ExitCode, Failure> {
    if arguments.no_token && !arguments.listen.ip().is_loopback() {
        return Err(Failure::usage(HttpError::Unguarded { address: arguments.listen }));
    }
    let spawner = start_spawner();
    let composed = compose(RuntimeOptions::serving(global, spawner))?;
    let roles = Role::ALL.into_iter().filter(|role| !(arguments.no_token && *role == Role::Agent));
    let tokens = roles.map(|role| token(&composed.state, role)).collect::<Result<Vec<_>, _>>()?;
    let mut options = door_http::Options::new(composed.session.clone());
    options.credentials = tokens.iter().map(|token| Credential::new(token.role, &token.text)).collect();
    options.provider = composed.oauth.as_ref().map(OAuth::provider).transpose().map_err(Failure::usage)?;
    options.hosts.clone_from(&arguments.allow_host);
    options.origins.clone_from(&arguments.allow_origin);
    options.dialect = composed.toolset.dialect;
    options.drain = arguments.drain;
    options.patience = arguments.patience;
    options.connections = options.connections.min(connections());
    options.on_warning = Arc::new(warn);
    let runtime = tokio_runtime()?;
    prepare(&runtime, &composed.engine);
    composed.engine.listen_to_questions(Box::new(|question| {
        let text = |key: &str| question[key].as_str().unwrap_or_default().to_owned();
        note(&format!("a question waits: {}; `{}`", text("headline"), text("show")));
    }));
    reload::keep_current(&composed.engine, &composed.store, composed.reload.clone());
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let listener = Listener::bind(arguments.listen)
            .map_err(|error| not_listening(error, &composed.state, &composed.workspace))?;
        let _listening = present(&composed, Some(listener.address()));
        options.mounts = mounts(&composed, NoInput(global.no_input))?;
        super::knowledge_watcher::keep_up(&composed);
        super::code_watcher::keep_up(&composed);
        let scheduler = Scheduler::start(&composed);
        print(&greeting(&composed, listener.address(), &tokens, arguments.json))?;
        if !listener.address().ip().is_loopback() {
            warn(
                "tokens and answers are sent unencrypted; put a proxy with TLS in front, and block \
                 this port for others",
            );
        }
        let serving = door_http::serve(composed.engine.clone(), options, listener, async {
            let code = signals.next().await;
            tokio::spawn(async move {
                // A second signal ends the process at once.
                std::process::exit(i32::from(signals.next().await));
            });
            code
        });
        let ended = serving.await.map_err(Failure::from);
        scheduler.end().await;
        ended
    });
    runtime.shutdown_background();
    composed.store.close()?;
    composed.close_traces();
    ended.map(ExitCode::from)
}

/// Explains which process already uses the address, and what to do.
fn not_listening(error: HttpError, state: &Path, workspace: &Path) -> Failure {
    let address = match &error {
        HttpError::Listen { address, source } if source.kind() == ErrorKind::AddrInUse => *address,
        _ => return Failure::from(error),
    };
    let elsewhere = SocketAddr::new(address.ip(), 0);
    let other = format!("`handfast up --listen {elsewhere}` uses a free port");
    Failure::from(match in_the_way(state, address) {
        Some(server) if server.workspace == workspace => format!(
            "{address} is in use: `handfast up` (process {}) already serves this folder there; use \
             that server, or {other}",
            server.process
        ),
        Some(server) => format!(
            "{address} is in use: `handfast up` (process {}) serves {} there; {other}",
            server.process,
            server.workspace.display()
        ),
        None => format!(
            "{address} is in use by another program, or by a `handfast up` with another state folder; {other}"
        ),
    })
}

/// Returns the number of connections that the system's limit on open files permits.
fn connections() -> usize {
    let files = getrlimit(Resource::Nofile).current;
    usize::try_from(files.unwrap_or(u64::MAX) / FILES_A_CONNECTION).unwrap_or(usize::MAX).max(16)
}

/// Returns the greeting: the address of the server, and the settings that a client needs.
fn greeting(composed: &Composed, address: SocketAddr, tokens: &[Token], as_json: bool) -> String {
    let base = format!("http://{}", reached_at(address));
    let of = |role: Role| tokens.iter().find(|token| token.role == role);
    if as_json {
        let path = |role| of(role).map(|token| tool::path_text(&token.path));
        let line = json!({
            "address": address,
            "url": base,
            "workspace": tool::path_text(&composed.workspace),
            "agent_token": of(Role::Agent).map(|token| &token.text),
            "user_token_file": path(Role::User),
            "observer_token_file": path(Role::Observer),
        });
        return format!("{line}\n");
    }
    let agent = of(Role::Agent);
    let mut text = format!("Handfast serves {} at {base}\n", composed.workspace.display());
    text.push_str(&match agent {
        Some(token) => format!("agents' token: {}\n  (in {})\n", token.text, token.path.display()),
        None => "agents need no token: everybody on this machine can make calls\n".to_owned(),
    });
    if let Some(user) = of(Role::User) {
        text.push_str(&format!(
            "answer questions with `{}`, or with the user's token, which no agent may have:\n  {}\n",
            command("approvals"),
            user.path.display()
        ));
    }
    let token = agent.map(|token| token.text.as_str());
    text.push_str(&configurations(&base, token, &first_request(composed)));
    text
}

/// Returns the address at which a client on this machine reaches the server.
fn reached_at(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Returns the end of a `curl` line: a call that changes nothing, or the list of tools if this
/// server does not have the tool of that call.
fn first_request(composed: &Composed) -> (&'static str, String) {
    let (tool, arguments) = match composed.toolset.dialect {
        Dialect::Handfast | Dialect::Elophanto => ("file_list", json!({"path": "."})),
        Dialect::Sluagh => ("run_command", json!({"command": "ls", "args": []})),
        Dialect::Msc => ("list_files", json!({"path": ".", "recursive": false})),
        Dialect::Sage => ("Bash", json!({"command": "ls"})),
        Dialect::Csp1 => ("exec", json!({"COMMAND": "ls"})),
    };
    if composed.engine.tools().iter().any(|served| served.name() == tool) {
        ("/v1/call", format!(" -d '{}'", json!({"tool": tool, "arguments": arguments})))
    } else {
        ("/v1/tools", String::new())
    }
}

/// Returns the configuration of common clients, each in its own format.
fn configurations(base: &str, token: Option<&str>, (path, body): &(&str, String)) -> String {
    let bearer = token.map(|token| format!("Authorization: Bearer {token}"));
    let option = bearer.as_ref().map(|bearer| format!(" --header \"{bearer}\"")).unwrap_or_default();
    let headers = token.map(|token| format!(", \"headers\": {{\"Authorization\": \"Bearer {token}\"}}"));
    let headers = headers.unwrap_or_default();
    let codex = token
        .map(|token| format!("\n    http_headers = {{ Authorization = \"Bearer {token}\" }}"))
        .unwrap_or_default();
    let curl = bearer.map(|bearer| format!(" -H '{bearer}'")).unwrap_or_default();
    format!(
        "\nClaude Code:\n    claude mcp add --transport http handfast {base}/mcp{option}\n\
         Codex, in ~/.codex/config.toml:\n    [mcp_servers.handfast]\n    url = \"{base}/mcp\"{codex}\n    \
         # Handfast asks for approvals; without this line, `codex exec` makes no call with changes.\n    \
         default_tools_approval_mode = \"approve\"\n\
         VS Code, in .vscode/mcp.json:\n    \
         {{\"servers\": {{\"handfast\": {{\"type\": \"http\", \"url\": \"{base}/mcp\"{headers}}}}}}}\n\
         by hand:\n    curl {base}{path}{curl}{body}\n"
    )
}
