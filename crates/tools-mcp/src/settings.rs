//! Servers of a configuration: the shape of Claude Code's `.mcp.json`, and a few keys of this runtime.

use std::path::PathBuf;

use mcp_client::config::{ServerConfig, parse_servers};
use mcp_client::level::AnnotationTrust;
use sandbox::WorkspaceView;
use serde::Deserialize;
use serde_json::{Map, Value};
use tool::Level;

/// Keys of a server that the shape of `.mcp.json` does not have.
const OWN_KEYS: [&str; 8] =
    ["level", "trust_annotations", "shared", "workspace", "shows", "sampling", "elicitation", PACKAGE_KEY];

/// Key of the package that has brought a server. Only this runtime writes it: whoever hands in entries that others have
/// written removes it.
pub const PACKAGE_KEY: &str = "package";

/// Servers of a configuration.
#[derive(Debug, Default)]
pub struct ServersSettings {
    /// Servers in the order of their keys.
    pub servers: Vec<ServerSettings>,
    /// Problems for the user, in sentences. A faulty server does not take the others along.
    pub problems: Vec<String>,
}

/// Server of a configuration.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Key of the server.
    pub key: String,
    /// Way to reach the server.
    pub config: ServerConfig,
    /// Least level of its tools.
    pub level: Level,
    /// Weight of its claims about its tools.
    pub trust: AnnotationTrust,
    /// True if one process serves every session.
    pub is_shared: bool,
    /// View of the workspace in its cell.
    pub workspace: WorkspaceView,
    /// Further files and folders that its cell shows, read-only.
    pub shows: Vec<PathBuf>,
    /// True if it may ask the model of the caller's program.
    pub may_sample: bool,
    /// True if it may show forms to the user of the caller's program.
    pub may_elicit: bool,
    /// Package that has brought it.
    pub package: Option<PackageOfServer>,
    /// Hash of the whole entry, by which another server under the same key is recognised.
    pub identity: String,
}

/// Package that has brought a server. The server may read the package's files, and run them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageOfServer {
    /// Folder with the content that the user has allowed, absolute.
    pub folder: PathBuf,
    /// Hash of the content. It makes the server another one when the content changes.
    pub hash: String,
}

/// Keys of this runtime in an entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OwnKeys {
    level: Option<Level>,
    trust_annotations: bool,
    shared: bool,
    workspace: View,
    shows: Vec<PathBuf>,
    sampling: bool,
    elicitation: bool,
    package: Option<PackageOfServer>,
}

/// View of the workspace, as the configuration writes it.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum View {
    #[default]
    Read,
    Write,
    None,
}

impl ServersSettings {
    /// Reads the object `mcp_servers` or `mcpServers`.
    pub fn read(entries: &Map<String, Value>) -> Self {
        let mut settings = Self::default();
        let mut plain = Map::new();
        let mut own = Vec::new();
        for (key, entry) in entries {
            let mut entry = entry.clone();
            let identity = blake3::hash(entry.to_string().as_bytes()).to_hex().to_string();
            let mut taken = Map::new();
            if let Some(fields) = entry.as_object_mut() {
                taken.extend(OWN_KEYS.iter().filter_map(|name| fields.shift_remove_entry(*name)));
            }
            plain.insert(key.clone(), entry);
            match serde_json::from_value::<OwnKeys>(Value::Object(taken)) {
                Ok(keys) => own.push((key, keys, identity)),
                Err(error) => settings.problems.push(format!("`mcp_servers.{key}` is left out: {error}")),
            }
        }
        let parsed = match parse_servers(&plain) {
            Ok(parsed) => parsed,
            Err(error) => {
                settings.problems.push(format!("no MCP server is used: {error}"));
                return settings;
            }
        };
        settings
            .problems
            .extend(parsed.faults.iter().map(|fault| format!("an MCP server is left out: {fault}")));
        settings.problems.extend(parsed.notes);
        let mut servers = parsed.servers;
        for (key, keys, identity) in own {
            let Some(config) = servers.remove(key) else { continue };
            let trust =
                if keys.trust_annotations { AnnotationTrust::MayLower } else { AnnotationTrust::RaiseOnly };
            settings.servers.push(ServerSettings {
                key: key.clone(),
                config,
                level: keys.level.unwrap_or(Level::Moderate),
                trust,
                is_shared: keys.shared,
                workspace: match keys.workspace {
                    View::Read => WorkspaceView::ReadOnly,
                    View::Write => WorkspaceView::Writable,
                    View::None => WorkspaceView::Hidden,
                },
                shows: keys.shows,
                may_sample: keys.sampling,
                may_elicit: keys.elicitation,
                package: keys.package,
                identity,
            });
        }
        settings.servers.sort_by(|one, other| one.key.cmp(&other.key));
        settings
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> ServersSettings {
        ServersSettings::read(value.as_object().unwrap())
    }

    #[test]
    fn own_keys_are_read_beside_those_of_the_usual_shape() {
        let read = read(&json!({
            "plain": {"command": "x"},
            "own": {"command": "x", "level": "safe", "shared": true, "workspace": "write", "trust_annotations": true},
        }));
        assert_eq!(read.problems, Vec::<String>::new());
        let [own, plain] = read.servers.as_slice() else { panic!("{read:?}") };
        assert_eq!((own.level, own.is_shared, own.workspace), (Level::Safe, true, WorkspaceView::Writable));
        assert_eq!(own.trust, AnnotationTrust::MayLower);
        assert_eq!((plain.level, plain.workspace), (Level::Moderate, WorkspaceView::ReadOnly));
        assert_ne!(own.identity, plain.identity);
    }

    #[test]
    fn a_faulty_server_is_refused_alone_with_its_reason() {
        let read = read(&json!({
            "good": {"command": "x"}, "level": {"command": "x", "level": "harmless"}, "bad": {"args": []}, "b c": {"command": "x"},
        }));
        assert_eq!(read.servers.iter().map(|server| server.key.as_str()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(read.problems.len(), 3, "{:?}", read.problems);
    }
}
