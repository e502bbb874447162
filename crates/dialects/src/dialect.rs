//! The dialects, and the settings of each source.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::{AnyTool, CallResult};

use crate::CatalogueKind;
use crate::adapter::Adapter;
use crate::csp1_browser;
use crate::csp1_cron;
use crate::table::ExternalTool;
use crate::{csp1, elophanto, msc, sage, sluagh};

/// Returns the names of the command line programs that commands can find at the moment of the call.
pub type Programs = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// A set of tool names and schemas that a caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// The canonical names and schemas.
    #[default]
    Handfast,
    /// The tool reference of EloPhanto.
    Elophanto,
    /// The toolset of Sluagh.
    Sluagh,
    /// The minimal tool set of MSC.
    Msc,
    /// The tools foundation of SAGE.
    Sage,
    /// The operations of CSP/1.
    Csp1,
}

/// Policy settings of a source that apply where a profile is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// True if the built-in profile allows calls that can be undone.
    pub undoable_passes: bool,
    /// True if a dangerous command requires an approval in every mode instead of being denied.
    pub dangerous_asks: bool,
    /// True if every call beyond reading requires an approval, unless the user's own lists allow it.
    pub asks_unless_reading: bool,
    /// Paths that no tool may read or write, as patterns of a deny list.
    pub denied_paths: &'static [&'static str],
    /// Reason given for a denied call on these paths.
    pub denied_reason: Option<&'static str>,
    /// Hint given for a denied call on these paths.
    pub denied_hint: Option<&'static str>,
    /// True if the removal of a folder by any absolute path counts as dangerous.
    pub any_absolute_removal: bool,
    /// True if a tool call with a path outside the workspace is refused, regardless of lists and
    /// approvals.
    pub only_workspace: bool,
    /// True if commands see only the readable paths that the profile lists, and no other part of
    /// the workspace. Without a list in the profile, the setting has no effect.
    pub commands_see_listed: bool,
    /// Resource limits of one command.
    pub limits: SettledLimits,
}

/// Resource limits that a source sets for one command, or `None` where the source is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SettledLimits {
    /// Memory of each process in bytes.
    pub process_memory: Option<u64>,
    /// Number of processor cores.
    pub cpus: Option<u64>,
    /// Maximum number of processes and threads at a time.
    pub processes: Option<u64>,
    /// Maximum number of processes at a time.
    pub process_count: Option<u64>,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 6] =
        [Self::Handfast, Self::Elophanto, Self::Sluagh, Self::Msc, Self::Sage, Self::Csp1];

    /// Returns the name used in options, in the configuration and in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handfast => "handfast",
            Self::Elophanto => "elophanto",
            Self::Sluagh => "sluagh",
            Self::Msc => "msc",
            Self::Sage => "sage",
            Self::Csp1 => "csp1",
        }
    }

    /// Returns the dialect with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }

    /// Returns the policy settings of the dialect's source.
    pub fn settings(self) -> Settings {
        match self {
            Self::Handfast => Settings { undoable_passes: true, ..Settings::default() },
            Self::Elophanto => Settings { dangerous_asks: true, ..Settings::default() },
            Self::Sluagh => Settings::default(),
            // Third principle of the source: access is denied unless listed.
            Self::Msc => Settings { commands_see_listed: true, ..Settings::default() },
            Self::Sage => {
                // `validatePath` of the source throws for paths outside the workspace and for `.sage`.
                let denied_paths = &[".sage"];
                Settings {
                    asks_unless_reading: true,
                    only_workspace: true,
                    denied_paths,
                    denied_reason: Some("Access to .sage directory denied"),
                    ..Settings::default()
                }
            }
            Self::Csp1 => Settings {
                // Calls that can be undone run without an approval: `exec npm test` is the first
                // example of the source, and no human is present to answer.
                undoable_passes: true,
                denied_paths: &csp1::MEMORY,
                denied_hint: Some(csp1::DELEGATE),
                any_absolute_removal: true,
                limits: SettledLimits {
                    process_memory: Some(512 * 1024 * 1024),
                    cpus: Some(1),
                    processes: Some(csp1::PROCESSES * csp1::THREADS),
                    process_count: Some(csp1::PROCESSES),
                },
                ..Settings::default()
            },
        }
    }

    /// Returns the tools of the dialect in the order of its table, without those that have no
    /// canonical tool.
    ///
    /// `programs` supplies program names for descriptions that end in a colon.
    pub fn tools(self, canonical: &[Arc<dyn AnyTool>], programs: &Programs) -> Vec<Arc<dyn AnyTool>> {
        let Some(table) = self.table() else { return canonical.to_vec() };
        let canonical_of =
            |outside: &ExternalTool| canonical.iter().find(|tool| tool.spec().name == outside.canonical);
        let there: Vec<&'static ExternalTool> =
            table.iter().filter(|outside| canonical_of(outside).is_some()).collect();
        let adapted = |outside: &&'static ExternalTool| {
            let inner = canonical_of(outside)?.clone();
            Some(Adapter::tool(outside, inner, programs.clone(), &there, canonical))
        };
        let mut tools: Vec<_> = there.iter().filter_map(adapted).collect();
        let has = |part: &ExternalTool| there.iter().any(|outside| outside.name == part.name);
        if has(&csp1_browser::NAVIGATE) {
            tools.push(csp1_browser::operation());
        }
        if has(&csp1_cron::LIST) {
            tools.push(csp1_cron::operation());
        }
        tools
    }

    /// Returns the names of the tools of every dialect, whether a runtime has them or not. No tool of a stranger takes
    /// one of them: it would stand in for the tool in a runtime of another dialect, or under rules that name it.
    pub fn all_names() -> impl Iterator<Item = &'static str> {
        let of_tables = Self::ALL.into_iter().filter_map(Self::table).flatten();
        let operations = [csp1_browser::operation(), csp1_cron::operation()].map(|tool| tool.spec().name);
        of_tables.flat_map(|outside| [outside.name, outside.canonical]).chain(operations)
    }

    /// Returns true if the dialect shows the tool. Only the default dialect shows the tools that
    /// find others.
    pub fn shows(self, tool: &dyn AnyTool) -> bool {
        tool.is_listed() && (self == Self::Handfast || CatalogueKind::Full.lists(tool))
    }

    /// Returns the function that turns a command line for the shell into the name of the dialect's tool
    /// that runs it, and the tool's arguments.
    pub fn command_call(self) -> fn(&str) -> (&'static str, Value) {
        match self {
            Self::Handfast | Self::Elophanto => |command| ("shell_execute", json!({"command": command})),
            Self::Sluagh => |command| ("run_command", json!({"command": "sh", "args": ["-c", command]})),
            Self::Msc => |command| ("execute", json!({"command": command})),
            Self::Sage => |command| ("Bash", json!({"command": command})),
            Self::Csp1 => |command| ("exec", json!({"COMMAND": command})),
        }
    }

    /// Returns the full description of a tool, with a version if the source gives versions to tools.
    pub fn described(self, tool: &dyn AnyTool) -> Value {
        let mut described = tool::described(tool);
        if self == Self::Sage {
            described["version"] = sage::VERSION.into();
            // Name of the schema in the source's `getToolSchemas`.
            described["parameters"] = described["input_schema"].clone();
        }
        described
    }

    /// Returns the answer in the form of the source, or `None` if the source defines no form of its own.
    pub fn answer(self, result: &CallResult) -> Option<Value> {
        (self == Self::Sage).then(|| sage::answer(result))
    }

    /// Returns the schema of [`Dialect::answer`] for a tool with data of the schema `data`.
    pub fn answer_schema(self, data: &Value) -> Option<Value> {
        (self == Self::Sage).then(|| sage::answer_schema(data))
    }

    fn table(self) -> Option<&'static [ExternalTool]> {
        match self {
            Self::Handfast => None,
            Self::Elophanto => Some(elophanto::TOOLS),
            Self::Sluagh => Some(sluagh::TOOLS),
            Self::Msc => Some(msc::TOOLS),
            Self::Sage => Some(sage::TOOLS),
            Self::Csp1 => Some(csp1::TOOLS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dialect_has_a_name_that_leads_to_it() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::named(dialect.as_str()), Some(dialect));
            assert_eq!(serde_json::to_value(dialect).unwrap(), dialect.as_str());
        }
        assert_eq!(Dialect::named("csp"), None);
    }
}
