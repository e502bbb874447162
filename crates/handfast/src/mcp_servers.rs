//! Other MCP servers of this runtime: their configuration, what is stored about them, and their tools in the
//! registry.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dialects::Dialect;
use engine::{Registry, TokioTimer};
use fetch::web::Web;
use serde_json::{Map, Value};
use store_api::{Hash, Store};
use tool::AnyTool;
use tools_mcp::{McpServers, PACKAGE_KEY, ServersParts, ServersSettings, Shelf, ToolGroups};
use vault::Vault;

use crate::config;
use crate::failure::Failure;
use crate::places::create_private;
use crate::report::Warn;

/// Name of the file with a project's servers, in the shape that other programs use.
pub(crate) const PROJECT_FILE: &str = ".mcp.json";
/// Key of the servers in that file.
pub(crate) const PROJECT_KEY: &str = "mcpServers";
/// Folder of the state for the processes of servers, and for what is stored about them.
const FOLDER: &str = "mcp";

/// Keys of a server that count in a configuration of Handfast alone, because they give a server more.
const OWN_KEYS: [&str; 7] =
    ["level", "trust_annotations", "shared", "workspace", "shows", "sampling", "elicitation"];

/// Returns the servers of a project's file, if the user trusts it in its present form.
fn of_project(workspace: &Path, store: &dyn Store, warn: Warn) -> Result<Map<String, Value>, Failure> {
    let path = workspace.join(PROJECT_FILE);
    let text = match config::text(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Map::new()),
        Err(problem) => {
            // The file may be meant for other programs, and nobody has trusted it in this form.
            warn(&format!("the MCP servers of {} are not used: {problem}", path.display()));
            return Ok(Map::new());
        }
    };
    let real = path.canonicalize()?;
    if store.trust().trusted_hash(&real)? != Some(Hash::of(text.as_bytes())) {
        // Most projects with such a file mean other programs, so nothing is said unless it was trusted once.
        if store.trust().trusted_hash(&real)?.is_some() {
            warn(&format!(
                "the MCP servers of {} are not used, because it has changed; `handfast trust {PROJECT_FILE}` makes it trusted",
                path.display()
            ));
        }
        return Ok(Map::new());
    }
    let file: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("{} is not valid JSON: {error}", path.display())))?;
    let mut servers = file.get(PROJECT_KEY).and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, server) in &mut servers {
        let Some(entry) = server.as_object_mut() else { continue };
        for key in OWN_KEYS {
            if entry.shift_remove(key).is_some() {
                warn(&format!(
                    "`{key}` of the MCP server {} is left out: it counts only in a configuration of Handfast",
                    tool::visible(name)
                ));
            }
        }
    }
    Ok(servers)
}

/// Returns the servers of the trusted configuration files, the most important one last, and of the project's own
/// file. The most important file that names a server decides about it.
pub(crate) fn merged(
    of_files: impl Iterator<Item = Map<String, Value>>,
    workspace: &Path,
    store: &dyn Store,
    warn: Warn,
) -> Result<Map<String, Value>, Failure> {
    let mut servers = of_project(workspace, store, warn)?;
    servers.extend(of_files.flatten());
    for entry in servers.values_mut().filter_map(Value::as_object_mut) {
        // Otherwise a file could name any folder as that of a package.
        entry.shift_remove(PACKAGE_KEY);
    }
    Ok(servers)
}

/// Makes the servers of a runtime, and starts none. `None` if the configuration has none, or the dialect no tools of
/// others.
pub(crate) fn servers(
    entries: &Map<String, Value>,
    dialect: Dialect,
    (state, registry, web, vault): (&Path, &Registry, Arc<Web>, Arc<Vault>),
    warn: Warn,
) -> Result<Option<Arc<McpServers>>, Failure> {
    if entries.is_empty() || !matches!(dialect, Dialect::Handfast | Dialect::Csp1) {
        return Ok(None);
    }
    let ServersSettings { mut servers, problems } = ServersSettings::read(entries);
    for problem in &problems {
        warn(problem);
    }
    if dialect == Dialect::Csp1 {
        // The source closes the memories of other servers to this dialect.
        servers.retain(|server| !server.key.contains("memory") && !server.key.contains("graph"));
    }
    let folder = state.join(FOLDER);
    create_private(&folder)?;
    sandbox::remove_left_folders(&folder.join("processes"));
    let parts = ServersParts {
        servers,
        folder: folder.join("processes"),
        shelf: Arc::new(Files(folder)),
        timer: Arc::new(TokioTimer),
        web,
        vault: Some(vault),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        reserved: registry.tools().iter().map(|tool| tool.name().to_owned()).collect(),
    };
    tools_mcp::servers(parts).map(Some).map_err(Failure::from)
}

/// Registry whose groups come and go.
pub(crate) struct Groups(pub(crate) Arc<Registry>);

impl ToolGroups for Groups {
    fn replace(&self, group: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), String> {
        self.0.replace_group(group, tools).map_err(|error| error.to_string())
    }
}

/// Files of the state folder.
struct Files(PathBuf);

impl Shelf for Files {
    fn load(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.0.join(name)).ok()
    }

    fn save(&self, name: &str, text: &str) -> Result<(), String> {
        let write = || {
            // Another process of the same state may write at the same time, and the last one counts.
            let unfinished = self.0.join(format!("{name}.{}", std::process::id()));
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            std::fs::rename(&unfinished, self.0.join(name))
        };
        write().map_err(|error| error.to_string())
    }
}
