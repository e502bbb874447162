//! `memory`: texts that an agent stores for later sessions, found by words and by meaning.

use ::memory::{AgentMemory, MemoryError, MemoryVersion};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Retry, Spec, TextCap,
    Timeout, Tool, ToolError,
};

/// Maximum length of a key in characters, and of a text in bytes.
const LONGEST_KEY: usize = 200;
const LONGEST_TEXT: usize = 64 * 1024;

/// Entries per answer: default and maximum.
const ENTRIES: (u32, u32) = (20, 100);

/// Characters of each text in a list; `read` returns the whole text.
const SHOWN: usize = 300;

/// The `memory` tool.
pub struct Memory;

/// Arguments of `memory`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Operation; `history` returns the versions of one entry, `audit` of all, with agent, time and call.
    action: Action,
    /// Text of the entry; for `search` a question or words, for `list` and `audit` a key prefix.
    #[serde(default)]
    message: String,
    /// Key or id of the entry; a new entry without a key gets its id.
    #[serde(default)]
    key: String,
    /// Share a new entry with all agents of the workspace.
    #[serde(default)]
    shared: bool,
    /// Version that `update` and `delete` require; any other version is refused.
    version: Option<u64>,
    /// Maximum number of entries, default 20.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    /// Number of entries to skip: `next_offset` of an earlier result.
    #[serde(default)]
    offset: u64,
    /// Show the change without making it.
    #[serde(default)]
    dry_run: bool,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// An operation on the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Action {
    Create,
    Read,
    Update,
    Delete,
    List,
    Search,
    History,
    Audit,
}

/// Result of `memory`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Output {
    /// Entries that were created, read, changed or found.
    entries: Vec<MemoryEntry>,
    /// Versions of the entries; for `history` and `audit`.
    versions: Vec<MemoryChange>,
    /// `offset` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Kind of search: `hybrid` by words and meaning, `keyword` by words only.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// Confidence of a search that any entry answers the question, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    /// Number of entries without a vector yet, which a search by meaning finds only by their words.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u64>,
    /// Change as a diff; only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

/// Memory entry.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct MemoryEntry {
    /// Stable id.
    id: String,
    /// Key of the entry.
    key: String,
    /// Text; in a list only its beginning.
    content: String,
    /// Version number, increased by 1 with each change.
    version: u64,
    /// True if all agents of the workspace share the entry.
    shared: bool,
    /// Agent that created the entry.
    agent: String,
    /// Time of creation.
    #[schemars(with = "String")]
    created_at: Timestamp,
    /// Time of the last change.
    #[schemars(with = "String")]
    changed_at: Timestamp,
    /// Score of a search result, from 0 to 1; higher is better. Results are sorted by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity_score: Option<f64>,
}

/// One version of a memory entry.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct MemoryChange {
    /// Version number, starting at 1.
    version: u64,
    /// created, updated or deleted.
    what: String,
    /// Text of this version.
    content: String,
    /// Time of the change.
    #[schemars(with = "String")]
    at: Timestamp,
    /// Agent that made the change.
    agent: String,
    /// Session of the change.
    session: String,
    /// Call that made the change.
    call: String,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Search => "search",
            Self::History => "history",
            Self::Audit => "audit",
        }
    }

    fn level(self) -> Level {
        match self {
            Self::Create | Self::Update => Level::Moderate,
            Self::Delete => Level::Destructive,
            Self::Read | Self::List | Self::Search | Self::History | Self::Audit => Level::Safe,
        }
    }
}

impl Args {
    /// Returns the number of entries to skip and the maximum number to return.
    fn page(&self) -> (u64, u32) {
        (self.offset, self.limit.unwrap_or(ENTRIES.0).clamp(1, ENTRIES.1))
    }

    fn check(&self) -> Result<(), ToolError> {
        let needs_key =
            matches!(self.action, Action::Read | Action::Update | Action::Delete | Action::History);
        let needs_text = matches!(self.action, Action::Create | Action::Update | Action::Search);
        if needs_key && self.key.is_empty() {
            return Err(ToolError::validation("key", format!("{} requires it", self.action.as_str())));
        }
        if needs_text && self.message.trim().is_empty() {
            return Err(ToolError::validation("message", format!("{} requires it", self.action.as_str())));
        }
        if self.key.chars().count() > LONGEST_KEY || self.key.contains(char::is_control) {
            let problem = format!("must have at most {LONGEST_KEY} characters, all visible");
            return Err(ToolError::validation("key", problem));
        }
        if self.message.len() > LONGEST_TEXT {
            return Err(ToolError::validation("message", format!("must have at most {LONGEST_TEXT} bytes"))
                .hint("store the text in a file, and remember its path"));
        }
        Ok(())
    }
}

impl Tool for Memory {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "memory",
        title: "Remember",
        description: "Remember texts across sessions: create, read, update, delete, list, search, history, audit.",
        example: Example {
            files: &[],
            arguments: r#"{"action": "create", "key": "style", "message": "Four spaces, no tabs."}"#,
            result: r#"{"entries": [{"key": "style", "content": "Four spaces, no tabs.", "version": 1, "shared": false}]}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        args.check()?;
        let level = args.action.level();
        let changes = level > Level::Safe;
        // The effect is named as a statement, so that `allowed_database_statements: [memory]`
        // allows an agent to remember without approval.
        let effect =
            changes.then(|| Effect::DatabaseWrite { statement: format!("memory {}", args.action.as_str()) });
        let plan = Plan { level: Some(level), ..Plan::of(effect.into_iter().collect()) };
        Ok(plan.only_tried(args.dry_run && changes))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let memory = context.service::<AgentMemory>()?;
        let now = context.clock.now();
        let key = &args.key;
        let failed = |error| failed(key, "read it, then repeat the change with its version", error);
        let one = |memory| Output { entries: vec![entry(memory)], ..Output::default() };
        let old = match args.action {
            Action::Update | Action::Delete if args.dry_run => {
                Some(memory.read(key).map_err(failed)?.content)
            }
            _ => None,
        };
        let shown = |memory: ::memory::Memory| {
            let new = (args.action != Action::Delete).then_some(memory.content.as_str());
            let diff = args.dry_run.then(|| difference(old.as_deref(), new));
            Output { diff, ..one(memory) }
        };
        match args.action {
            Action::Create => {
                let created = memory.create(key, &args.message, args.shared, now);
                created
                    .map(shown)
                    .map_err(|error| self::failed(key, "`update` changes an existing entry", error))
            }
            Action::Read => memory.read(key).map(one).map_err(failed),
            Action::Update => memory.update(key, &args.message, args.version, now).map(shown).map_err(failed),
            Action::Delete => memory.delete(key, args.version, now).map(shown).map_err(failed),
            Action::History => Ok(Output { versions: history(&memory, key)?, ..Output::default() }),
            Action::Audit if !key.is_empty() => {
                Ok(Output { versions: history(&memory, key)?, ..Output::default() })
            }
            Action::Search => search(context, &args, &memory),
            Action::List => listed(&args, &memory),
            Action::Audit => {
                let found = listed(&args, &memory)?;
                let mut versions = Vec::new();
                for entry in &found.entries {
                    versions.extend(history(&memory, &entry.id)?.into_iter().map(|mut change| {
                        change.content = tool::beginning(&change.content, SHOWN);
                        change
                    }));
                }
                Ok(Output { versions, ..found })
            }
        }
    }
}

fn search(context: &Context, args: &Args, memory: &AgentMemory) -> Result<Output, ToolError> {
    let found = memory.search(&args.message, args.page(), &|| context.stop.requested().is_some());
    context.stop.check()?;
    let found = found.map_err(|error| failed(&args.key, "", error))?;
    if let Some(why) = &found.without_model {
        context.warn(format!("found by words alone, because the model cannot be used: {why}"));
    }
    let rounded = |number: f64| (number * 10_000.0).round() / 10_000.0;
    let entries = found
        .memories
        .into_iter()
        .map(|(memory, score)| MemoryEntry { similarity_score: Some(rounded(score)), ..entry(memory) });
    Ok(Output {
        mode: Some(if found.by_meaning { "hybrid" } else { "keyword" }.to_owned()),
        confidence: Some(rounded(found.confidence)),
        waiting: found.by_meaning.then_some(found.waiting),
        ..page(args, entries.collect(), found.has_more)
    })
}

fn listed(args: &Args, memory: &AgentMemory) -> Result<Output, ToolError> {
    let (skip, limit) = args.page();
    let (found, has_more) =
        memory.list(&args.message, skip, limit).map_err(|error| failed(&args.key, "", error))?;
    Ok(page(args, found.into_iter().map(entry).collect(), has_more))
}

fn history(memory: &AgentMemory, key: &str) -> Result<Vec<MemoryChange>, ToolError> {
    let versions = memory.history(key).map_err(|error| failed(key, "", error))?;
    Ok(versions.into_iter().map(change).collect())
}

fn page(args: &Args, mut entries: Vec<MemoryEntry>, has_more: bool) -> Output {
    let next = args.offset + entries.len() as u64;
    for entry in &mut entries {
        entry.content = tool::beginning(&entry.content, SHOWN);
    }
    Output { entries, next_offset: has_more.then_some(next), ..Output::default() }
}

fn entry(memory: ::memory::Memory) -> MemoryEntry {
    let ::memory::Memory { id, key, content, version, shared, agent, created_at, changed_at } = memory;
    MemoryEntry { id, key, content, version, shared, agent, created_at, changed_at, similarity_score: None }
}

fn change(version: MemoryVersion) -> MemoryChange {
    let MemoryVersion { version, what, content, at, agent, session, call } = version;
    MemoryChange { version, what, content, at, agent, session, call }
}

/// Converts an error for the memory under `key`; `hint` resolves a conflict.
fn failed(key: &str, hint: &str, error: MemoryError) -> ToolError {
    match error {
        MemoryError::Unknown => {
            ToolError::new(Code::NotFound, format!("there is no memory entry `{}`", tool::visible(key)))
                .hint("use `list` or `search` to find entries")
        }
        MemoryError::Conflict(there) => {
            let message =
                format!("`{}` already exists with version {}", tool::visible(&there.key), there.version);
            ToolError::new(Code::Conflict, message).hint(hint).retry(Retry::Never)
        }
        MemoryError::Full => {
            ToolError::new(Code::Quota, error.to_string()).hint("delete entries that are no longer needed")
        }
        MemoryError::Stopped => ToolError::new(Code::Cancelled, error.to_string()),
        MemoryError::Store(error) => {
            ToolError::new(Code::Runtime, format!("the memory cannot be read or written: {error}"))
                .because(error)
        }
    }
}

/// Returns all lines of the old text after `-`, then all lines of the new text after `+`.
fn difference(old: Option<&str>, new: Option<&str>) -> String {
    let side = |sign, text: Option<&str>| {
        text.into_iter().flat_map(str::lines).map(|line| format!("{sign}{line}\n")).collect::<String>()
    };
    side('-', old) + &side('+', new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn the_level_is_that_of_the_action_and_wrong_arguments_are_refused_by_name() {
        let place = testkit::Workspace::new().place();
        let planned =
            |arguments| ErasedTool::tool(Memory).prepare(arguments, &place).map(|prepared| prepared.plan);
        for (action, level) in [
            ("create", Level::Moderate),
            ("update", Level::Moderate),
            ("delete", Level::Destructive),
            ("read", Level::Safe),
            ("list", Level::Safe),
            ("search", Level::Safe),
            ("history", Level::Safe),
            ("audit", Level::Safe),
        ] {
            let plan = planned(json!({"action": action, "key": "k", "message": "m"})).unwrap();
            assert_eq!(plan.level, Some(level), "{action}");
            let statement = format!("memory {action}");
            let expected =
                if level > Level::Safe { vec![Effect::DatabaseWrite { statement }] } else { vec![] };
            assert_eq!(plan.effects, expected, "{action}");
        }
        for (arguments, field) in [
            (json!({"action": "read"}), "key"),
            (json!({"action": "create", "message": " "}), "message"),
            (json!({"action": "create", "message": "m", "key": "a\nb"}), "key"),
            (json!({"action": "create", "message": "m".repeat(LONGEST_TEXT + 1)}), "message"),
            (json!({"action": "forget"}), "action"),
        ] {
            let error = planned(arguments).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains(&format!("`{field}`")), "{}", error.message);
        }
    }
}
