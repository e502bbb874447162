//! URIs of resources: `handfast://KIND/NAME?OPTION=VALUE`.

use dialects::content_tools::{self, ContentTool};
use rmcp::model::{Resource, ResourceTemplate};
use serde_json::{Map, Value, json};
use tool::split_foreign_uri;

/// Resource that lists the changes that can be undone.
pub(crate) const CHECKPOINTS: &str = "handfast://checkpoints";

/// Resource that lists the calls of this session.
pub(crate) const CALLS: &str = "handfast://calls";

pub(crate) const FILE: &str = "handfast://file/{+path}{?offset,max_bytes}";
pub(crate) const CHECKPOINT: &str = "handfast://checkpoint/{id}";
pub(crate) const CALL: &str = "handfast://call/{id}";
pub(crate) const OUTPUT: &str = "handfast://output/{id}{?offset,limit,regex}";

/// The way in which a resource is read.
#[derive(Debug, PartialEq)]
pub(crate) enum Address {
    /// A call of this tool with these arguments.
    Tool(&'static str, Value),
    /// A resource of another server.
    Foreign,
    /// The audit log of this session, or of one of its calls.
    Audit(Option<String>),
}

impl Address {
    /// Parses a URI; `None` if no resource has this URI.
    pub(crate) fn of(uri: &str) -> Option<Self> {
        match uri {
            CHECKPOINTS => {
                return Some(Self::Tool(content_tools::CHECKPOINT_LIST, json!({"limit": 100})));
            }
            CALLS => return Some(Self::Audit(None)),
            _ if split_foreign_uri(uri).is_some() => return Some(Self::Foreign),
            _ => {}
        }
        let (kind, rest) = uri.strip_prefix("handfast://")?.split_once('/')?;
        let (name, options) = rest.split_once('?').unwrap_or((rest, ""));
        let name = decoded(name).filter(|name| !name.is_empty())?;
        let ContentTool { name: tool, argument, options: known } = match kind {
            "file" => content_tools::FILE,
            "output" => content_tools::OUTPUT,
            "checkpoint" => content_tools::CHECKPOINT,
            "call" if options.is_empty() => return Some(Self::Audit(Some(name))),
            _ => return None,
        };
        let mut arguments = Map::from_iter([(argument.to_owned(), Value::String(name))]);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=')?;
            let value = decoded(value)?;
            // A value that is not a number stays text, so that the tool reports which argument is wrong.
            let value = match value.parse::<u64>() {
                Ok(number) if key != "regex" => json!(number),
                _ => Value::String(value),
            };
            if !known.contains(&key) || arguments.insert(key.to_owned(), value).is_some() {
                return None;
            }
        }
        Some(Self::Tool(tool, Value::Object(arguments)))
    }
}

/// Returns the URI of the full text of a truncated output.
pub(crate) fn output(id: &str) -> String {
    format!("handfast://output/{id}")
}

/// Returns the resources with fixed URIs.
pub(crate) fn resources() -> Vec<Resource> {
    vec![
        Resource::new(CHECKPOINTS, "checkpoints")
            .with_description("Changes that can be undone, newest first.")
            .with_mime_type("application/json"),
        Resource::new(CALLS, "calls")
            .with_description("The newest calls of this session, from the audit.")
            .with_mime_type("application/json"),
    ]
}

/// Returns the templates of resources with variable URIs.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = |uri: &str, name: &str, description: &str| {
        ResourceTemplate::new(uri, name).with_description(description)
    };
    vec![
        template(FILE, "file", "A file, by its path in the workspace."),
        template(CHECKPOINT, "checkpoint", "The changes of one call, as a unified diff.")
            .with_mime_type("text/x-diff"),
        template(CALL, "call", "A call of this session, from the audit.").with_mime_type("application/json"),
        template(
            OUTPUT,
            "output",
            "The full text of a shortened output, a part of it, or its matching lines.",
        )
        .with_mime_type("text/plain"),
    ]
}

/// Decodes percent-encoded text; `None` if the encoding is invalid.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_argument_of_the_tool_that_reads_it() {
        let tool = |name, arguments| Some(Address::Tool(name, arguments));
        for (uri, address) in [
            ("handfast://file/src/a%20b.rs", tool("file_read", json!({"path": "src/a b.rs"}))),
            (
                "handfast://file/a?offset=3&max_bytes=9",
                tool("file_read", json!({"path": "a", "offset": 3, "max_bytes": 9})),
            ),
            ("handfast://file/%2e%2e/b", tool("file_read", json!({"path": "../b"}))),
            ("handfast://file/a%3Fb", tool("file_read", json!({"path": "a?b"}))),
            (
                "handfast://output/o1?regex=a%26b",
                tool("output_read", json!({"output_ref": "o1", "regex": "a&b"})),
            ),
            (
                "handfast://output/o1?regex=12&offset=x",
                tool("output_read", json!({"output_ref": "o1", "regex": "12", "offset": "x"})),
            ),
            ("handfast://checkpoint/c1", tool("checkpoint_diff", json!({"id": "c1"}))),
            ("handfast://call/c1", Some(Address::Audit(Some("c1".to_owned())))),
            (CALLS, Some(Address::Audit(None))),
            ("handfast-mcp://s/handfast://file/a", Some(Address::Foreign)),
        ] {
            assert_eq!(Address::of(uri), address, "{uri}");
        }
    }

    #[test]
    fn what_is_no_address_of_ours_is_none() {
        for uri in [
            "",
            "a",
            "file:///etc/passwd",
            "handfast://",
            "handfast://file",
            "handfast://file/",
            "handfast://files/a",
            "handfast://checkpoint/c1?path=a",
            "handfast://call/c1?a=b",
            "handfast://file/a?offset",
            "handfast://file/a?path=b",
            "handfast://file/a?offset=1&offset=2",
            "handfast://file/%",
            "handfast://file/%zz",
            "handfast://file/%+1",
            "handfast://file/%ff",
            "HANDFAST://file/a",
            "handfast://calls/",
            "handfast://checkpoints?limit=9",
        ] {
            assert_eq!(Address::of(uri), None, "{uri}");
        }
    }
}
