//! The content of a package: what it brings, and what no package may have.

use std::collections::BTreeMap;
use std::path::Path;

use agents::AgentDefinition;
use plugins::{FolderError, MANIFEST_FILE, Manifest, PluginFolder};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Names of the parts.
pub(crate) const SKILLS: &str = "skills";
pub(crate) const AGENTS: &str = "agents";
pub(crate) const PLUGINS: &str = "plugins";
pub(crate) const MANIFEST: &str = "package.yaml";
const SERVERS: &str = ".mcp.json";
/// Folder with files that the MCP servers of the package run or read.
const SERVER_FILES: &str = "servers";

/// Lists that a package may add to: each of them only denies.
const RULES: [&str; 8] = [
    "deny_read_paths",
    "deny_write_paths",
    "deny_exec_command",
    "deny_hosts",
    "deny_secrets",
    "deny_database_statements",
    "deny_handfast_changes",
    "deny_tools",
];
/// Keys of a server that give it more, and so count in the user's own configuration alone.
const OF_THE_USER: [&str; 8] = [
    "level",
    "trust_annotations",
    "shared",
    "workspace",
    "shows",
    "sampling",
    "elicitation",
    tools_mcp::PACKAGE_KEY,
];
/// Maximum number of entries of a list of rules, and of servers.
const MOST_ENTRIES: usize = 100;
/// Maximum length of a line about a part, in characters. A longer one could hide its end from the human.
const LONGEST_LINE: usize = 2_000;

/// Returns true if an entry of a folder belongs to a package.
pub(crate) fn is_part(name: &str) -> bool {
    let is_text = ["README.md", "LICENSE"].contains(&name) || name.starts_with("LICENSE-");
    is_text || [SKILLS, AGENTS, PLUGINS, MANIFEST, SERVERS, SERVER_FILES].contains(&name)
}

/// Returns what is wrong with a folder, in the words of packages.
pub(crate) fn said(error: &FolderError) -> String {
    match error {
        FolderError::NotRegular { path } => {
            format!("{path} is a link or a special file; a package has regular files alone")
        }
        FolderError::TooMany => format!("it has more than {} files", plugins::MOST_FILES),
        FolderError::TooLarge => format!("it has more than {} bytes", plugins::LARGEST_FOLDER),
        other => other.to_string(),
    }
}

/// The file `package.yaml`, which a package need not have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    name: Option<String>,
    description: Option<String>,
    mcp_servers: Map<String, Value>,
    rules: Map<String, Value>,
}

/// A plugin of a package.
#[derive(Debug, Clone)]
pub(crate) struct BroughtPlugin {
    /// Name of its folder.
    pub(crate) folder: String,
    pub(crate) hash: String,
    pub(crate) manifest: Manifest,
}

/// Parts of a package.
#[derive(Debug, Clone, Default)]
pub(crate) struct Brings {
    /// Name that the package gives itself.
    pub(crate) name: Option<String>,
    pub(crate) description: String,
    pub(crate) skills: Vec<String>,
    pub(crate) agents: Vec<String>,
    pub(crate) plugins: Vec<BroughtPlugin>,
    pub(crate) servers: Map<String, Value>,
    /// Paths of the files that its MCP servers run or read.
    pub(crate) server_files: Vec<String>,
    /// Lists of a profile.
    pub(crate) rules: Map<String, Value>,
}

impl Brings {
    /// Reads the parts of a content.
    ///
    /// # Errors
    /// The first problem, in words.
    pub(crate) fn of(content: &PluginFolder) -> Result<Self, String> {
        let written: Written = match content.files.get(MANIFEST) {
            Some(file) => {
                let text = text_of(MANIFEST, &file.content)?;
                serde_saphyr::from_str(text).map_err(|error| format!("{MANIFEST}: {error}"))?
            }
            None => Written::default(),
        };
        let mut brings = Self {
            name: written.name,
            description: written.description.unwrap_or_default(),
            skills: names_below(content, SKILLS)?,
            servers: written.mcp_servers,
            server_files: content
                .files
                .keys()
                .filter(|path| {
                    path.starts_with(SERVER_FILES) && path.as_bytes().get(SERVER_FILES.len()) == Some(&b'/')
                })
                .cloned()
                .collect(),
            rules: checked_rules(written.rules)?,
            ..Self::default()
        };
        for skill in &brings.skills {
            if !content.files.contains_key(&format!("{SKILLS}/{skill}/SKILL.md")) {
                return Err(format!("the skill {} has no SKILL.md", tool::visible(skill)));
            }
        }
        brings.agents = agents_of(content)?;
        for folder in names_below(content, PLUGINS)? {
            brings.plugins.push(plugin_of(content, folder)?);
        }
        if let Some(file) = content.files.get(SERVERS) {
            let read: Value = serde_json::from_slice(&file.content)
                .map_err(|error| format!("{SERVERS} is not valid JSON: {error}"))?;
            let named = read.get("mcpServers").and_then(Value::as_object).cloned();
            let named = named.ok_or_else(|| format!("{SERVERS} has no object `mcpServers`"))?;
            if let Some(name) = named.keys().find(|name| brings.servers.contains_key(*name)) {
                return Err(format!("the MCP server {} is there twice", tool::visible(name)));
            }
            brings.servers.extend(named);
        }
        brings.check_servers()?;
        if let Some(line) = brings.lines().iter().find(|line| line.chars().count() > LONGEST_LINE + 100) {
            let begin: String = line.chars().take(60).collect();
            return Err(format!(
                "a part has more than {LONGEST_LINE} characters, too long to be shown: {begin}..."
            ));
        }
        let is_empty = brings.skills.is_empty()
            && brings.agents.is_empty()
            && brings.plugins.is_empty()
            && brings.servers.is_empty()
            && brings.rules.is_empty();
        if is_empty {
            return Err(format!(
                "it brings nothing: a package has `{SKILLS}/`, `{AGENTS}/`, `{PLUGINS}/`, `{SERVERS}` or a `{MANIFEST}` with servers or rules"
            ));
        }
        Ok(brings)
    }

    fn check_servers(&self) -> Result<(), String> {
        if self.servers.len() > MOST_ENTRIES {
            return Err(format!("{MOST_ENTRIES} MCP servers are the most"));
        }
        for (name, server) in &self.servers {
            let name = tool::visible(name);
            let entry = server.as_object().ok_or_else(|| format!("the MCP server {name} is no object"))?;
            if let Some(key) = OF_THE_USER.iter().find(|key| entry.contains_key(**key)) {
                return Err(format!(
                    "`{key}` of the MCP server {name} would give it more; only your own configuration may say so"
                ));
            }
        }
        Ok(())
    }

    /// Counts the parts, for a list.
    #[cfg(feature = "cli")]
    pub(crate) fn summary(&self) -> String {
        let counted = [
            (self.skills.len(), "skill"),
            (self.agents.len(), "agent"),
            (self.plugins.len(), "plugin"),
            (self.servers.len(), "MCP server"),
            (self.rules.len(), "rule"),
        ];
        let words = counted
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Describes the parts for the human who decides, one a line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.description.trim().is_empty() {
            lines.push(self.description.trim().chars().take(LONGEST_LINE).collect());
        }
        lines.extend(self.skills.iter().map(|name| format!("skill {name}")));
        lines.extend(self.agents.iter().map(|name| format!("agent {name}")));
        for BroughtPlugin { manifest, .. } in &self.plugins {
            lines.push(format!(
                "plugin {}, a tool of level {}: {}",
                manifest.name,
                manifest.least_level(),
                manifest.effects.described().join(", ")
            ));
            lines.push(format!("  runs {}", manifest.command.join(" ")));
        }
        for (name, server) in &self.servers {
            lines.push(format!("MCP server {name}: {server}"));
        }
        lines.extend(self.server_files.iter().map(|path| format!("  file of MCP servers: {path}")));
        for (list, entries) in &self.rules {
            lines.push(format!("rule {list}: {entries}"));
        }
        lines.iter().map(|line| tool::visible(line)).collect()
    }
}

fn text_of<'a>(path: &str, content: &'a [u8]) -> Result<&'a str, String> {
    std::str::from_utf8(content).map_err(|_| format!("{} is not UTF-8", tool::visible(path)))
}

/// Returns the names of the folders in a part. A file beside them is refused.
fn names_below(content: &PluginFolder, part: &str) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for path in content.files.keys() {
        let Some(inside) = path.strip_prefix(part).and_then(|rest| rest.strip_prefix('/')) else { continue };
        let Some((name, _)) = inside.split_once('/') else {
            return Err(format!("{} lies beside the folders of `{part}/`", tool::visible(path)));
        };
        if !is_name(name) {
            return Err(format!(
                "{} is no name: it has letters, digits, `_`, `-` and `.`",
                tool::visible(path)
            ));
        }
        if names.last().is_none_or(|last| last != name) && !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Returns true if a text can be the name of a part or of a package.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (1..=60).contains(&name.len()) && !name.starts_with(['.', '-']) && name.chars().all(is_plain)
}

fn agents_of(content: &PluginFolder) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for (path, file) in &content.files {
        let Some(inside) = path.strip_prefix(AGENTS).and_then(|rest| rest.strip_prefix('/')) else {
            continue;
        };
        let shown = tool::visible(path);
        let name = inside.strip_suffix(".md").filter(|name| agents::is_agent_name(name));
        let name = name.ok_or_else(|| format!("{shown} is no agent: an agent is a file NAME.md"))?;
        AgentDefinition::parse(name, text_of(path, &file.content)?)
            .map_err(|error| format!("{shown}: {}", error.fault))?;
        names.push(name.to_owned());
    }
    Ok(names)
}

fn plugin_of(content: &PluginFolder, folder: String) -> Result<BroughtPlugin, String> {
    let begin = format!("{PLUGINS}/{folder}/");
    let files: BTreeMap<_, _> = content
        .files
        .iter()
        .filter_map(|(path, file)| Some((path.strip_prefix(&begin)?.to_owned(), file.clone())))
        .collect();
    let own = PluginFolder::of_files(Path::new(&folder), files);
    let manifest = own.manifest().map_err(|error| format!("{begin}{MANIFEST_FILE}: {error}"))?;
    if manifest.name != folder {
        return Err(format!("the plugin in {begin} is named {}; both names must be the same", manifest.name));
    }
    Ok(BroughtPlugin { folder, hash: own.hash, manifest })
}

/// Checks that rules only deny.
pub(super) fn checked_rules(rules: Map<String, Value>) -> Result<Map<String, Value>, String> {
    for (list, entries) in &rules {
        let shown = tool::visible(list);
        if !RULES.contains(&list.as_str()) {
            return Err(format!(
                "the rule `{shown}` could allow something; a package may only deny, with {}",
                RULES.join(", ")
            ));
        }
        let entries = entries.as_array().ok_or_else(|| format!("the rule `{shown}` must be a list"))?;
        let is_denial =
            |entry: &Value| entry.as_str().is_some_and(|text| !text.trim_start().starts_with('!'));
        if entries.len() > MOST_ENTRIES || !entries.iter().all(is_denial) {
            return Err(format!(
                "the rule `{shown}` must be a list of at most {MOST_ENTRIES} texts, and an entry with `!` could allow something"
            ));
        }
    }
    let text = serde_json::json!({"sandbox_config": {"normal": &rules}}).to_string();
    crate::config::parse_profiles(&text).map_err(|problem| format!("rules: {problem}"))?;
    Ok(rules)
}
