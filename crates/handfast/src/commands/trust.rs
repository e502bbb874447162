//! `handfast trust`: permits the workspace's own configuration to loosen rules, as long as it stays
//! unchanged.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use store_api::{Hash, StoreError};
use tool::{Clock, Code};

use super::Failure;
use super::check::quoted;
use crate::cli::Global;
use crate::clock::SystemClock;
use crate::config::{self, ConfigFile, WORKSPACE_FILE};
use crate::host_environment::HostEnvironment;
use crate::mcp_servers;
use crate::places::{open_store, workspace};
use crate::report::{note, warn};

/// Number of servers that a description of a file shows, and of characters of each.
const MOST_SHOWN: usize = 50;
const LONGEST_LINE: usize = 500;

pub(super) fn run(global: &Global, file: Option<PathBuf>) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let workspace = workspace(&global.run_options(), &host_environment, &warn)?;
    let path = match file {
        Some(file) => std::path::absolute(file)?,
        None => workspace.join(WORKSPACE_FILE),
    };
    let is_project_file = path.file_name().is_some_and(|name| name == mcp_servers::PROJECT_FILE);
    let mut servers = Vec::new();
    let hash = if is_project_file {
        let text = config::text(&path).map_err(Failure::usage)?;
        if let Some(text) = &text {
            servers = describe_project(text)
                .map_err(|error| Failure::usage(format!("{} is not valid JSON: {error}", path.display())))?;
        }
        text.map(|text| Hash::of(text.as_bytes()))
    } else {
        let read = ConfigFile::read(&path).map_err(|error| error.without_what_lies_outside(&workspace));
        read.map_err(Failure::usage)?.map(|file| file.hash)
    };
    let Some(hash) = hash else {
        return Err(Failure::usage(format!(
            "there is no {}; `handfast init` writes one with every setting explained",
            path.display()
        )));
    };
    let real = path.canonicalize()?;
    let store = open_store(&global.run_options(), &host_environment)?;
    let arguments = json!({"path": real.to_string_lossy(), "hash": hash.to_string()});
    let runtime = |_: &StoreError| Code::Runtime;
    engine::by_hand((store.as_ref(), &SystemClock), "trust", &arguments, runtime, || {
        store.trust().trust(&real, &hash, SystemClock.now())
    })?;
    for line in &servers {
        note(line);
    }
    note(&format!(
        "{} is trusted in its present form (BLAKE3 {}); any change to it ends the trust",
        real.display(),
        hash
    ));
    Ok(ExitCode::SUCCESS)
}

/// Describes what the servers of a project's file run or reach, a line each. The values of variables and headers,
/// which may be secrets, are left out.
fn describe_project(text: &str) -> serde_json::Result<Vec<String>> {
    let file: Value = serde_json::from_str(text)?;
    let servers = file.get(mcp_servers::PROJECT_KEY).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut lines: Vec<String> =
        servers.iter().take(MOST_SHOWN).map(|(name, server)| describe(name, server)).collect();
    if servers.len() > MOST_SHOWN {
        lines.push(format!("and {} more MCP servers", servers.len() - MOST_SHOWN));
    }
    Ok(lines)
}

fn describe(name: &str, server: &Value) -> String {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let names = |key: &str, words: &str| {
        let named = server.get(key).and_then(Value::as_object).filter(|named| !named.is_empty());
        let named: Vec<&str> = named.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        if named.is_empty() { String::new() } else { format!(", {words} {}", named.join(", ")) }
    };
    let mut does = match (text("command"), text("url")) {
        (Some(command), _) => {
            let given = server.get("args").and_then(Value::as_array).into_iter().flatten();
            let words = std::iter::once(command).chain(given.map(|word| word.as_str().unwrap_or("?")));
            let line = words.map(quoted).collect::<Vec<_>>().join(" ");
            format!("runs {line}{}", names("env", "with the variables"))
        }
        (None, Some(url)) => format!("connects to {url}{}", names("headers", "with the headers")),
        (None, None) => "has neither a command nor a URL".to_owned(),
    };
    if let Some((at, _)) = does.char_indices().nth(LONGEST_LINE) {
        does.truncate(at);
        does.push('…');
    }
    format!("MCP server {}: {}", tool::visible(name), tool::visible(&does))
}
