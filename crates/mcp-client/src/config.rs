//! Servers from a configuration in the shape of Claude Code's `.mcp.json`.
//!
//! The shape is read as it is: what works there works here. A key that means nothing here is named in a
//! note and not in an error, because the file belongs to other programs too.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::expand::Template;

/// Maximum number of servers in one file.
pub const MOST_SERVERS: usize = 200;

/// Maximum length of a server's key, in bytes.
pub const LONGEST_KEY: usize = 64;

/// Servers of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServersConfig {
    /// Servers by their keys.
    pub servers: BTreeMap<String, ServerConfig>,
    /// Faults of servers that are left out. One of them does not take the others along.
    pub faults: Vec<ConfigError>,
    /// Notes about keys that mean nothing here, in sentences for a human.
    pub notes: Vec<String>,
}

/// Server of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerConfig {
    /// Program that speaks over its standard input and output.
    Stdio(StdioConfig),
    /// Server that speaks streamable HTTP.
    Http(HttpConfig),
    /// Server that speaks the transport of 2024-11-05 (`sse`).
    EventStream(HttpConfig),
}

/// Program that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioConfig {
    /// Program.
    pub command: Template,
    /// Arguments of the program.
    pub args: Vec<Template>,
    /// Environment variables of the program, beyond those of its cell.
    pub env: BTreeMap<String, Template>,
    /// Working directory, if it is given.
    pub cwd: Option<Template>,
}

/// Server behind a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// URL of the endpoint.
    pub url: Template,
    /// Headers of every request.
    pub headers: BTreeMap<String, Template>,
}

/// Fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is no JSON.
    #[error("it is not valid JSON: {0}")]
    Json(String),
    /// The object `mcpServers` is missing.
    #[error("it has no object `mcpServers`")]
    NoServers,
    /// The file names too many servers.
    #[error("it names {found} servers, and {limit} are the most")]
    TooMany {
        /// Number of servers in the file.
        found: usize,
        /// Maximum number.
        limit: usize,
    },
    /// The key of a server cannot be used.
    #[error(
        "the server key {key:?} is not usable: it needs 1 to {LONGEST_KEY} letters, digits, `_`, `-` or `.`"
    )]
    Key {
        /// Key in the file.
        key: String,
    },
    /// The entry of a server is no object.
    #[error("`mcpServers.{server}` must be an object")]
    NoObject {
        /// Key of the server.
        server: String,
    },
    /// A field has the wrong type.
    #[error("`mcpServers.{server}.{field}` must be {expected}")]
    Type {
        /// Key of the server.
        server: String,
        /// Path of the field.
        field: String,
        /// Expected type, in words.
        expected: &'static str,
    },
    /// A server has neither a program nor a URL.
    #[error("`mcpServers.{server}` has neither `command` nor `url`")]
    Nothing {
        /// Key of the server.
        server: String,
    },
    /// A server has both a program and a URL, and no type that chooses.
    #[error("`mcpServers.{server}` has both `command` and `url`; `type` must choose one")]
    Both {
        /// Key of the server.
        server: String,
    },
    /// A field that the type of the server needs is missing.
    #[error("`mcpServers.{server}` is of type `{kind}` and has no `{field}`")]
    Missing {
        /// Key of the server.
        server: String,
        /// Type of the server.
        kind: String,
        /// Field that is missing.
        field: &'static str,
    },
    /// The type is not supported.
    #[error("`mcpServers.{server}.type` is `{kind}`; supported are `stdio`, `http` and `sse`")]
    Kind {
        /// Key of the server.
        server: String,
        /// Type in the file.
        kind: String,
    },
}

/// Parses a file with `mcpServers`.
///
/// # Errors
/// [`ConfigError`], if the file as a whole cannot be used.
pub fn parse_config(text: &str) -> Result<ServersConfig, ConfigError> {
    let file: Value = serde_json::from_str(text).map_err(|error| ConfigError::Json(error.to_string()))?;
    let servers = file.get("mcpServers").and_then(Value::as_object).ok_or(ConfigError::NoServers)?;
    parse_servers(servers)
}

/// Parses the object `mcpServers` itself.
///
/// # Errors
/// [`ConfigError::TooMany`].
pub fn parse_servers(servers: &Map<String, Value>) -> Result<ServersConfig, ConfigError> {
    if servers.len() > MOST_SERVERS {
        return Err(ConfigError::TooMany { found: servers.len(), limit: MOST_SERVERS });
    }
    let mut config = ServersConfig::default();
    for (key, server) in servers {
        match parse_server(key, server, &mut config.notes) {
            Ok(server) => drop(config.servers.insert(key.clone(), server)),
            Err(fault) => config.faults.push(fault),
        }
    }
    Ok(config)
}

fn parse_server(key: &str, server: &Value, notes: &mut Vec<String>) -> Result<ServerConfig, ConfigError> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(is_valid) {
        return Err(ConfigError::Key { key: key.to_owned() });
    }
    match server.as_object() {
        Some(fields) => Entry { server: key, fields }.parse(notes),
        None => Err(ConfigError::NoObject { server: key.to_owned() }),
    }
}

/// Entry of one server.
struct Entry<'a> {
    server: &'a str,
    fields: &'a Map<String, Value>,
}

impl Entry<'_> {
    fn parse(&self, notes: &mut Vec<String>) -> Result<ServerConfig, ConfigError> {
        let has = |field: &str| self.fields.get(field).is_some_and(|value| !value.is_null());
        let server = || self.server.to_owned();
        let kind = match self.fields.get("type") {
            Some(Value::String(kind)) => Some(kind.as_str()),
            None | Some(Value::Null) => None,
            Some(_) => return Err(self.wrong("type", "text")),
        };
        let (config, known): (ServerConfig, &[&str]) = match kind {
            Some("stdio") => (self.stdio()?, &["command", "args", "env", "cwd"]),
            Some("http" | "streamable-http" | "streamable_http") => {
                (ServerConfig::Http(self.http()?), &["url", "headers"])
            }
            Some("sse") => (ServerConfig::EventStream(self.http()?), &["url", "headers"]),
            None => match (has("command"), has("url")) {
                (true, false) => (self.stdio()?, &["command", "args", "env", "cwd"]),
                (false, true) => (ServerConfig::Http(self.http()?), &["url", "headers"]),
                (false, false) => return Err(ConfigError::Nothing { server: server() }),
                (true, true) => return Err(ConfigError::Both { server: server() }),
            },
            Some(kind) => return Err(ConfigError::Kind { server: server(), kind: kind.to_owned() }),
        };
        for field in self.fields.keys().filter(|field| *field != "type" && !known.contains(&field.as_str())) {
            notes.push(format!("`mcpServers.{}.{field}` is not used here", self.server));
        }
        Ok(config)
    }

    fn stdio(&self) -> Result<ServerConfig, ConfigError> {
        let command = self.text("command")?.ok_or_else(|| self.missing("stdio", "command"))?;
        let args = match self.fields.get("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => {
                let argument = |(index, value): (usize, &Value)| match value {
                    Value::String(text) => Ok(Template::parse(text)),
                    _ => Err(self.wrong(&format!("args[{index}]"), "text")),
                };
                values.iter().enumerate().map(argument).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(self.wrong("args", "a list of texts")),
        };
        Ok(ServerConfig::Stdio(StdioConfig { command, args, env: self.map("env")?, cwd: self.text("cwd")? }))
    }

    fn http(&self) -> Result<HttpConfig, ConfigError> {
        let url = self.text("url")?.ok_or_else(|| self.missing("http", "url"))?;
        Ok(HttpConfig { url, headers: self.map("headers")? })
    }

    fn text(&self, field: &str) -> Result<Option<Template>, ConfigError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(Template::parse(text))),
            Some(_) => Err(self.wrong(field, "text that is not empty")),
        }
    }

    fn map(&self, field: &str) -> Result<BTreeMap<String, Template>, ConfigError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(BTreeMap::new()),
            Some(Value::Object(values)) => {
                let entry = |(name, value): (&String, &Value)| {
                    let text = match value {
                        Value::String(text) => text.clone(),
                        // Numbers and truth values are common in `env`, and have one spelling.
                        Value::Number(_) | Value::Bool(_) => value.to_string(),
                        _ => return Err(self.wrong(&format!("{field}.{name}"), "text")),
                    };
                    Ok((name.clone(), Template::parse(&text)))
                };
                values.iter().map(entry).collect()
            }
            Some(_) => Err(self.wrong(field, "an object of texts")),
        }
    }

    fn wrong(&self, field: &str, expected: &'static str) -> ConfigError {
        ConfigError::Type { server: self.server.to_owned(), field: field.to_owned(), expected }
    }

    fn missing(&self, kind: &str, field: &'static str) -> ConfigError {
        ConfigError::Missing { server: self.server.to_owned(), kind: kind.to_owned(), field }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_claude_code_is_read_as_it_is() {
        let text = r#"{"mcpServers": {
            "filesystem": {"command": "npx", "args": ["-y", "server-filesystem", "${ROOT:-.}"], "env": {"A": "${A}", "N": 1}},
            "remote": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
                       "alwaysLoad": true}
        }, "other": 1}"#;
        let config = parse_config(text).unwrap();
        let ServerConfig::Stdio(stdio) = &config.servers["filesystem"] else { panic!("a program") };
        assert_eq!(stdio.command.plain(), Some("npx"));
        assert_eq!(stdio.args[2].expand(|_| None).as_deref(), Ok("."));
        assert_eq!(stdio.env["N"].plain(), Some("1"));
        let ServerConfig::Http(http) = &config.servers["remote"] else { panic!("a URL") };
        assert_eq!(http.headers["Authorization"].variables().collect::<Vec<_>>(), ["TOKEN"]);
        assert_eq!(config.notes, ["`mcpServers.remote.alwaysLoad` is not used here"]);
    }

    #[test]
    fn faults_are_named_with_their_place() {
        let message = |text: &str| parse_config(text).unwrap_err().to_string();
        assert!(message("{").starts_with("it is not valid JSON: "));
        assert_eq!(message("{}"), "it has no object `mcpServers`");
        for (entry, expected) in [
            (r#"{"command": "x", "args": ["a", 1]}"#, "`mcpServers.s.args[1]` must be text"),
            (r#"{"command": ""}"#, "`mcpServers.s.command` must be text that is not empty"),
            (r#"{"type": "stdio"}"#, "`mcpServers.s` is of type `stdio` and has no `command`"),
            (
                r#"{"url": "a", "command": "b"}"#,
                "`mcpServers.s` has both `command` and `url`; `type` must choose one",
            ),
            ("{}", "`mcpServers.s` has neither `command` nor `url`"),
            ("5", "`mcpServers.s` must be an object"),
            (r#"{"command": "x", "env": {"A": []}}"#, "`mcpServers.s.env.A` must be text"),
            (
                r#"{"type": "ws", "url": "x"}"#,
                "`mcpServers.s.type` is `ws`; supported are `stdio`, `http` and `sse`",
            ),
        ] {
            let config =
                parse_config(&format!(r#"{{"mcpServers": {{"s": {entry}, "good": {{"command": "x"}}}}}}"#))
                    .unwrap();
            assert_eq!(config.faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
            assert_eq!(
                config.servers.keys().collect::<Vec<_>>(),
                ["good"],
                "one fault does not take the others along"
            );
        }
        let config =
            parse_config(r#"{"mcpServers": {"s": {"type": "sse", "url": "x"}, "a b": {}}}"#).unwrap();
        assert!(matches!(config.servers["s"], ServerConfig::EventStream(_)));
        assert_eq!(config.faults, [ConfigError::Key { key: "a b".to_owned() }]);
    }
}
