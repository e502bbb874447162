//! `browser_events`: the console, the errors and the requests of a tab.

use browser::{LogEntry, LogFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::session::{self, open};
use crate::untrusted::marked;

/// Entries in an answer, unless the caller names another number.
const ENTRIES: usize = 50;

/// The `browser_events` tool.
pub struct BrowserEvents;

/// Arguments of `browser_events`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Tab, default the active one.
    tab_id: Option<u32>,
    /// Kind of entries, default all.
    kind: Option<EntryKind>,
    /// Restriction to errors, and requests that failed or have a status from 400.
    #[serde(default)]
    failures: bool,
    /// Text that entries contain.
    query: Option<String>,
    /// Number of an entry: only later ones.
    after: Option<u64>,
    /// Number of entries, the newest; default 50.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum EntryKind {
    Console,
    Error,
    Request,
}

/// Result of `browser_events`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Entries, one a line, oldest first: number, kind, and what happened.
    events: String,
    /// Number of the last entry shown; 0 if there is none.
    last: u64,
    /// Number of entries that match.
    matching: usize,
    /// Number of old entries that made room for new ones.
    #[serde(skip_serializing_if = "is_zero")]
    forgotten: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Tool for BrowserEvents {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Read a page's console and requests",
        example: Example { files: &[], arguments: r#"{"failures": true}"#, result: r#"{"matching": 0}"# },
        class: Class { open_world: true, ..Class::READ },
        timeout: Timeout::fixed(30),
        lane: Lane::Browser,
        text: TextCap::ByArguments,
        presentation: Presentation::Text { field: "events" },
        ..Spec::reading("browser_events", "Read the console, the errors and the network requests of a tab.")
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(Vec::new()))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let running = open(context)?;
        let page = session::page(&running, args.tab_id, None)?;
        let log = page.tab().events(&LogFilter {
            console: args.kind == Some(EntryKind::Console),
            page_errors: args.kind == Some(EntryKind::Error),
            requests: args.kind == Some(EntryKind::Request),
            only_failures: args.failures,
            contains: args.query,
            after: args.after.unwrap_or(0),
            limit: args.limit.unwrap_or(ENTRIES),
        });
        let lines: Vec<String> = log.entries.iter().map(LogEntry::line).collect();
        let text = if lines.is_empty() { "no entry".to_owned() } else { lines.join("\n") };
        Ok(Output {
            events: marked(&text, &context.call),
            last: log.entries.last().map_or(0, |entry| entry.number),
            matching: log.matching,
            forgotten: log.forgotten,
        })
    }
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserEvents), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"kind": "websocket"}), "kind"),
            (serde_json::json!({"after": -1}), "after"),
            (serde_json::json!({"tab": 1}), "tab"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
