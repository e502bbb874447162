//! The agent clients: where each keeps its configuration, and the form of an entry in it.
//!
//! Sources: the clients' own documentation and, where marked in `docs/CLIENTS.md`, their behaviour.

use std::path::{Path, PathBuf};

use config_edit::{Edit, Format, Key};
use serde_json::{Map, Value, json};

use crate::cli_attach::{AttachScope, ClientName};

/// Name of the entry in every client.
pub(super) const ENTRY: &str = "handfast";

/// Environment variable that a shared configuration names in place of a token.
pub(super) const TOKEN_VARIABLE: &str = "HANDFAST_TOKEN";

/// Seconds that a client waits for the answer of a call. A call may wait ten minutes for an approval.
const CALL_SECONDS: u64 = 900;

/// Folders that clients keep their configuration in.
#[derive(Debug)]
pub(super) struct Folders {
    pub(super) home: PathBuf,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub(super) config: PathBuf,
    pub(super) workspace: PathBuf,
    /// `$CODEX_HOME`, if it is set.
    pub(super) codex: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`, if it is set.
    pub(super) claude: Option<PathBuf>,
}

/// The way from a client to Handfast.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// The client starts this program.
    Stdio { program: String, arguments: Vec<String> },
    /// The client sends requests to this address.
    Http {
        url: String,
        /// Agents' token, or `None` for one that needs none.
        token: Option<String>,
    },
}

/// A request to attach a client.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) scope: AttachScope,
    pub(super) way: &'a Way,
    pub(super) only_handfast: bool,
}

/// A file of a client, and its edits.
#[derive(Debug)]
pub(super) struct FileEdits {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    pub(super) edits: Vec<Edit>,
}

/// The outcome of planning: files to edit, and remarks for the user.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) files: Vec<FileEdits>,
    pub(super) notes: Vec<String>,
}

impl Plan {
    fn edit(&mut self, path: PathBuf, format: Format, edits: Vec<Edit>) {
        self.files.push(FileEdits { path, format, edits });
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// Facts about a client.
pub(super) struct Client {
    /// Name for people.
    pub(super) title: &'static str,
    /// Program on the search path.
    pub(super) program: &'static str,
    /// Arguments of the client's own check, if it has one.
    pub(super) check: Option<&'static [&'static str]>,
}

/// Returns the facts about a client.
pub(super) fn client(name: ClientName) -> Client {
    let (title, program, check): (_, _, Option<&'static [&'static str]>) = match name {
        ClientName::Claude => ("Claude Code", "claude", Some(&["mcp", "get", ENTRY])),
        ClientName::Codex => ("Codex", "codex", Some(&["mcp", "get", ENTRY])),
        ClientName::Vscode => ("VS Code", "code", None),
        ClientName::Cursor => ("Cursor", "cursor", None),
        ClientName::Gemini => ("Gemini CLI", "gemini", Some(&["mcp", "list"])),
        ClientName::Opencode => ("OpenCode", "opencode", Some(&["mcp", "list"])),
        ClientName::Qwen => ("Qwen Code", "qwen", Some(&["mcp", "list"])),
        ClientName::Continue => ("Continue", "cn", None),
        ClientName::Zed => ("Zed", "zed", None),
        ClientName::Goose => ("Goose", "goose", None),
    };
    Client { title, program, check }
}

/// Returns the folder that exists where the client was ever used by this user.
pub(super) fn own_folder(name: ClientName, folders: &Folders) -> PathBuf {
    let home = |name: &str| folders.home.join(name);
    match name {
        ClientName::Claude => folders.claude.clone().unwrap_or_else(|| home(".claude")),
        ClientName::Codex => folders.codex.clone().unwrap_or_else(|| home(".codex")),
        ClientName::Vscode => folders.config.join("Code"),
        ClientName::Cursor => home(".cursor"),
        ClientName::Gemini => home(".gemini"),
        ClientName::Opencode => folders.config.join("opencode"),
        ClientName::Qwen => home(".qwen"),
        ClientName::Continue => home(".continue"),
        ClientName::Zed => folders.config.join("zed"),
        ClientName::Goose => folders.config.join("goose"),
    }
}

/// Plans the edits that attach a client.
///
/// # Errors
/// The reason, in words, why the client cannot be attached in this way.
pub(super) fn plan(name: ClientName, folders: &Folders, request: &Request<'_>) -> Result<Plan, String> {
    let mut plan = Plan::default();
    let project = request.scope == AttachScope::Project;
    let own = own_folder(name, folders);
    let workspace = &folders.workspace;
    match name {
        ClientName::Claude => claude(&mut plan, folders, &own, request),
        ClientName::Codex => codex(&mut plan, &if project { workspace.join(".codex") } else { own }, request),
        ClientName::Vscode => {
            let path = if project { workspace.join(".vscode/mcp.json") } else { own.join("User/mcp.json") };
            let entry = typed(&in_open_folder(request), "${env:HANDFAST_TOKEN}", project);
            plan.edit(path, Format::Json, vec![set(&["servers", ENTRY], entry)]);
            not_closed(&mut plan, request, "VS Code", "the tools button of its chat view")?;
        }
        ClientName::Cursor => {
            let base = if project { workspace.join(".cursor") } else { own };
            let entry = typed(&in_open_folder(request), "${env:HANDFAST_TOKEN}", project);
            plan.edit(base.join("mcp.json"), Format::Json, vec![set(&["mcpServers", ENTRY], entry)]);
            not_closed(&mut plan, request, "Cursor", "the settings of its agent")?;
        }
        ClientName::Gemini => {
            let path = if project { workspace.join(".gemini") } else { own }.join("settings.json");
            gemini(&mut plan, path, request, &GEMINI_TOOLS, None);
            plan.note("Gemini CLI starts no server in a folder that it does not trust; it asks when it is started there");
        }
        ClientName::Qwen => {
            let path = if project { workspace.join(".qwen") } else { own }.join("settings.json");
            // Otherwise the model sees none of the tools until it searches for them.
            gemini(&mut plan, path, request, &QWEN_TOOLS, Some("alwaysLoadTools"));
            if project {
                plan.note("Qwen Code starts a server of a project only after you have permitted it in Qwen Code, or with `qwen mcp approve handfast`");
            }
        }
        ClientName::Opencode => opencode(&mut plan, if project { workspace } else { &own }, request),
        ClientName::Continue => continue_dev(&mut plan, folders, &own, request),
        ClientName::Zed => zed(&mut plan, &if project { workspace.join(".zed") } else { own }, request)?,
        ClientName::Goose => {
            if project {
                return Err("Goose has no configuration in a project; use `--scope user`".to_owned());
            }
            goose(&mut plan, &own, request);
        }
    }
    Ok(plan)
}

fn set(path: &[&str], value: Value) -> Edit {
    Edit::Set { path: Key::fields(path), value }
}

fn add(path: &[&str], texts: &[&str]) -> Edit {
    Edit::Add { path: Key::fields(path), texts: texts.iter().map(|text| (*text).to_owned()).collect() }
}

/// Returns the value of the header with the token. A shared configuration names a variable.
fn authorization(token: &str, variable: &str, shared: bool) -> String {
    format!("Bearer {}", if shared { variable } else { token })
}

/// Returns an entry with `type`, as most clients have it.
fn typed(way: &Way, variable: &str, shared: bool) -> Value {
    match way {
        Way::Stdio { program, arguments } => json!({"type": "stdio", "command": program, "args": arguments}),
        Way::Http { url, token } => {
            let mut entry = json!({"type": "http", "url": url});
            if let Some(token) = token {
                entry["headers"] = json!({"Authorization": authorization(token, variable, shared)});
            }
            entry
        }
    }
}

/// Names the open folder as the workspace, for clients that start a user's servers elsewhere.
fn in_open_folder(request: &Request<'_>) -> Way {
    let mut way = request.way.clone();
    if let Way::Stdio { arguments, .. } = &mut way
        && !arguments.iter().any(|argument| argument == "--workspace")
    {
        arguments.extend(["--workspace".to_owned(), "${workspaceFolder}".to_owned()]);
    }
    way
}

/// Refuses to switch off the tools of a client that has no setting for it.
fn not_closed(plan: &mut Plan, request: &Request<'_>, title: &str, place: &str) -> Result<(), String> {
    if request.only_handfast {
        return Err(format!(
            "{title} has no setting that switches its own shell and file tools off; switch them off in \
             {place}, and leave out `--only-handfast`"
        ));
    }
    plan.note(format!("{title} can still go around Handfast with its own tools; switch them off in {place}"));
    Ok(())
}

fn can_go_around(plan: &mut Plan, title: &str) {
    plan.note(format!(
        "{title} can still go around Handfast with its own shell and file tools; `--only-handfast` switches them off"
    ));
}

const CLAUDE_TOOLS: [&str; 8] = ["Bash", "Edit", "Glob", "Grep", "Monitor", "NotebookEdit", "Read", "Write"];

fn claude(plan: &mut Plan, folders: &Folders, own: &Path, request: &Request<'_>) {
    let project = request.scope == AttachScope::Project;
    let mut entry = typed(request.way, "${HANDFAST_TOKEN}", project);
    // Otherwise the model sees none of the tools until it searches for them.
    entry["alwaysLoad"] = json!(true);
    let servers = vec![set(&["mcpServers", ENTRY], entry)];
    let permission = format!("mcp__{ENTRY}");
    let mut settings = vec![add(&["permissions", "allow"], &[&permission])];
    if request.only_handfast {
        settings.push(add(&["permissions", "deny"], &CLAUDE_TOOLS));
    } else {
        can_go_around(plan, "Claude Code");
    }
    if project {
        settings.push(add(&["enabledMcpjsonServers"], &[ENTRY]));
        plan.edit(folders.workspace.join(".mcp.json"), Format::Json, servers);
        // The file of this user alone: a permission is no property of the project.
        plan.edit(folders.workspace.join(".claude/settings.local.json"), Format::Json, settings);
    } else {
        let base = folders.claude.as_ref().unwrap_or(&folders.home);
        plan.edit(base.join(".claude.json"), Format::Json, servers);
        plan.edit(own.join("settings.json"), Format::Json, settings);
    }
}

fn codex(plan: &mut Plan, folder: &Path, request: &Request<'_>) {
    let project = request.scope == AttachScope::Project;
    let mut entry = match request.way {
        Way::Stdio { program, arguments } => json!({"command": program, "args": arguments}),
        Way::Http { url, token: None } => json!({"url": url}),
        Way::Http { url, token: Some(_) } if project => {
            json!({"url": url, "bearer_token_env_var": TOKEN_VARIABLE})
        }
        Way::Http { url, token: Some(token) } => {
            json!({"url": url, "http_headers": {"Authorization": authorization(token, "", false)}})
        }
    };
    // Codex asks nobody under `codex exec`, and then makes no call. Handfast asks itself.
    entry["default_tools_approval_mode"] = json!("approve");
    entry["tool_timeout_sec"] = json!(CALL_SECONDS);
    // Otherwise the model sees none of the tools until it searches for them.
    entry["omit_tools_from"] = json!(["deferred"]);
    let mut edits = vec![set(&["mcp_servers", ENTRY], entry)];
    if request.only_handfast {
        edits.push(set(&["features", "shell_tool"], json!(false)));
        edits.push(set(&["features", "unified_exec"], json!(false)));
        edits.push(set(&["sandbox_mode"], json!("read-only")));
        plan.note("Codex keeps its tool for patches; `sandbox_mode = \"read-only\"` lets it change no file by itself");
    } else {
        can_go_around(plan, "Codex");
    }
    if project {
        plan.note(
            "Codex reads the configuration of a project only after you have trusted the project in Codex",
        );
    }
    plan.edit(folder.join("config.toml"), Format::Toml, edits);
}

const GEMINI_TOOLS: [&str; 9] = [
    "run_shell_command",
    "write_file",
    "replace",
    "read_file",
    "read_many_files",
    "list_directory",
    "glob",
    "grep_search",
    "search_file_content",
];

const QWEN_TOOLS: [&str; 11] = [
    "run_shell_command",
    "monitor",
    "exec",
    "write_file",
    "edit",
    "notebook_edit",
    "read_file",
    "read_many_files",
    "list_directory",
    "glob",
    "grep_search",
];

/// Plans the edits for Gemini CLI and for Qwen Code, which descends from it. `set_true` is a further
/// field of the entry.
fn gemini(plan: &mut Plan, path: PathBuf, request: &Request<'_>, own_tools: &[&str], set_true: Option<&str>) {
    let project = request.scope == AttachScope::Project;
    let mut entry = match request.way {
        Way::Stdio { program, arguments } => json!({"command": program, "args": arguments}),
        Way::Http { url, token } => {
            let mut entry = json!({"httpUrl": url});
            if let Some(token) = token {
                entry["headers"] =
                    json!({"Authorization": authorization(token, "${HANDFAST_TOKEN}", project)});
            }
            entry
        }
    };
    entry["timeout"] = json!(CALL_SECONDS * 1_000);
    // Handfast asks about calls itself.
    entry["trust"] = json!(true);
    if let Some(field) = set_true {
        entry[field] = json!(true);
    }
    let mut edits = vec![set(&["mcpServers", ENTRY], entry)];
    if request.only_handfast {
        edits.push(add(&["tools", "exclude"], own_tools));
    } else {
        can_go_around(plan, "it");
    }
    plan.edit(path, Format::Json, edits);
}

const OPENCODE_TOOLS: [&str; 8] = ["bash", "edit", "write", "patch", "read", "grep", "glob", "list"];

fn opencode(plan: &mut Plan, folder: &Path, request: &Request<'_>) {
    let project = request.scope == AttachScope::Project;
    let entry = match request.way {
        Way::Stdio { program, arguments } => {
            let command: Vec<&String> = std::iter::once(program).chain(arguments).collect();
            json!({"type": "local", "command": command, "enabled": true})
        }
        Way::Http { url, token } => {
            let mut entry = json!({"type": "remote", "url": url, "enabled": true});
            if let Some(token) = token {
                entry["headers"] =
                    json!({"Authorization": authorization(token, "{env:HANDFAST_TOKEN}", project)});
            }
            entry
        }
    };
    let mut edits = vec![set(&["mcp", ENTRY], entry)];
    if request.only_handfast {
        edits.extend(OPENCODE_TOOLS.map(|tool| set(&["tools", tool], json!(false))));
    } else {
        can_go_around(plan, "OpenCode");
    }
    let commented = folder.join("opencode.jsonc");
    let path = if commented.exists() { commented } else { folder.join("opencode.json") };
    plan.edit(path, Format::Json, edits);
}

const CONTINUE_TOOLS: [&str; 7] = ["Bash", "Edit", "List", "MultiEdit", "Read", "Search", "Write"];

fn continue_dev(plan: &mut Plan, folders: &Folders, own: &Path, request: &Request<'_>) {
    let project = request.scope == AttachScope::Project;
    let mut entry = match request.way {
        Way::Stdio { program, arguments } => {
            json!({"name": ENTRY, "type": "stdio", "command": program, "args": arguments})
        }
        Way::Http { url, token } => {
            let mut entry = json!({"name": ENTRY, "type": "streamable-http", "url": url});
            if let Some(token) = token {
                let header = authorization(token, "${{ secrets.HANDFAST_TOKEN }}", project);
                entry["requestOptions"] = json!({"headers": {"Authorization": header}});
            }
            entry
        }
    };
    entry["connectionTimeout"] = json!(20_000);
    let way = vec![Key::Field("mcpServers".to_owned()), Key::Named(ENTRY.to_owned())];
    let mut edits = vec![Edit::Set { path: way, value: entry }];
    let path = if project {
        let heads = [("name", "Handfast"), ("version", "0.0.1"), ("schema", "v1")];
        edits.splice(0..0, heads.map(|(key, value)| set(&[key], json!(value))));
        plan.note(
            "Continue reads this in an editor; its command line `cn` reads no configuration of a project",
        );
        folders.workspace.join(".continue/mcpServers/handfast.yaml")
    } else {
        own.join("config.yaml")
    };
    plan.edit(path, Format::Yaml, edits);
    if request.only_handfast {
        plan.edit(own.join("permissions.yaml"), Format::Yaml, vec![add(&["exclude"], &CONTINUE_TOOLS)]);
        plan.note(
            "Continue obeys this in its command line `cn`; in an editor, switch the tools off in its chat",
        );
    } else {
        can_go_around(plan, "Continue");
    }
}

fn zed(plan: &mut Plan, folder: &Path, request: &Request<'_>) -> Result<(), String> {
    let project = request.scope == AttachScope::Project;
    let entry = match request.way {
        Way::Stdio { program, arguments } => {
            json!({"source": "custom", "command": program, "args": arguments, "env": {}})
        }
        Way::Http { token: Some(_), .. } if project => {
            return Err(
                "Zed takes a token only as text, and a project is no place for one; use `--stdio` or \
                        `--scope user`"
                    .to_owned(),
            );
        }
        Way::Http { url, token } => {
            let mut entry = json!({"url": url});
            if let Some(token) = token {
                entry["headers"] = json!({"Authorization": authorization(token, "", false)});
            }
            entry
        }
    };
    let mut edits = vec![set(&["context_servers", ENTRY], entry)];
    match (request.only_handfast, project) {
        (true, true) => {
            return Err(
                "Zed reads its agent's profile from the user's settings alone; use `--scope user`".to_owned()
            );
        }
        (true, false) => {
            let profile = json!({"name": "Handfast", "tools": {}, "enable_all_context_servers": true});
            edits.push(set(&["agent", "profiles", ENTRY], profile));
            edits.push(set(&["agent", "default_profile"], json!(ENTRY)));
        }
        (false, _) => can_go_around(plan, "Zed"),
    }
    plan.edit(folder.join("settings.json"), Format::Json, edits);
    Ok(())
}

fn goose(plan: &mut Plan, folder: &Path, request: &Request<'_>) {
    let mut entry: Map<String, Value> = Map::new();
    entry.insert("enabled".to_owned(), json!(true));
    entry.insert("name".to_owned(), json!(ENTRY));
    entry.insert("timeout".to_owned(), json!(CALL_SECONDS));
    let rest = match request.way {
        Way::Stdio { program, arguments } => {
            json!({"type": "stdio", "cmd": program, "args": arguments, "envs": {}})
        }
        Way::Http { url, token } => {
            let headers =
                token.as_ref().map(|token| json!({"Authorization": authorization(token, "", false)}));
            json!({"type": "streamable_http", "uri": url, "headers": headers.unwrap_or_else(|| json!({}))})
        }
    };
    if let Value::Object(rest) = rest {
        entry.extend(rest);
    }
    let mut edits = vec![set(&["extensions", ENTRY], Value::Object(entry))];
    if request.only_handfast {
        let developer = json!({"enabled": false, "type": "builtin", "name": "developer", "timeout": 300, "bundled": true});
        edits.push(set(&["extensions", "developer"], developer));
    } else {
        can_go_around(plan, "Goose");
    }
    plan.edit(folder.join("config.yaml"), Format::Yaml, edits);
}
