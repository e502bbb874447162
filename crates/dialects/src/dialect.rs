//! The dialects, and what each source settles.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{AnyTool, CallResult};

use crate::CatalogueKind;
use crate::adapter::Adapter;
use crate::table::Outside;
use crate::{csp1, elophanto, msc, sage, sluagh};

/// The command line programs that commands find at this moment, whenever it is asked.
pub type Programs = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// The names and shapes that a caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// The canonical names and shapes.
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

/// What a source settles about decisions, where a profile is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// What can be undone passes under the built-in profile.
    pub undoable_passes: bool,
    /// A dangerous command is asked about in every mode, and not denied.
    pub dangerous_asks: bool,
    /// Whatever does more than read is asked about, unless the user's own lists let it pass.
    pub asks_unless_reading: bool,
    /// What no tool reads or writes, in the form of a pattern of a deny list.
    pub denied_paths: &'static [&'static str],
    /// What is said of a call that wants it.
    pub denied_reason: Option<&'static str>,
    /// Who is to be asked for what lies there.
    pub denied_hint: Option<&'static str>,
    /// The removal of a folder by any absolute path is dangerous.
    pub any_absolute_removal: bool,
    /// Whether a tool that is given a path outside the workspace is refused, whatever lists or humans say.
    pub only_workspace: bool,
    /// Commands see what the profile lists to be read, where it lists that, and nothing else of the workspace.
    pub commands_see_listed: bool,
    /// What one command may use.
    pub limits: SettledLimits,
}

/// What a source lets one command use; none where it is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SettledLimits {
    /// Bytes of memory of each of its processes.
    pub process_memory: Option<u64>,
    /// Processor cores.
    pub cpus: Option<u64>,
    /// Processes and threads at once.
    pub processes: Option<u64>,
    /// Processes at once.
    pub process_count: Option<u64>,
}

impl Dialect {
    /// Each of them.
    pub const ALL: [Self; 6] =
        [Self::Handfast, Self::Elophanto, Self::Sluagh, Self::Msc, Self::Sage, Self::Csp1];

    /// The name in options, in the configuration and in the audit.
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

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }

    /// What its source settles about decisions.
    pub fn settings(self) -> Settings {
        match self {
            Self::Handfast => Settings { undoable_passes: true, ..Settings::default() },
            Self::Elophanto => Settings { dangerous_asks: true, ..Settings::default() },
            Self::Sluagh => Settings::default(),
            // Its third principle: what is not listed is denied.
            Self::Msc => Settings { commands_see_listed: true, ..Settings::default() },
            Self::Sage => {
                // `validatePath` of the source throws for both.
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
                // What can be undone is run: `exec npm test` is the first example of the source, and nobody is there to be asked.
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

    /// The tools as it has them, in its order: those of its source that there is a canonical tool for.
    ///
    /// `programs` are for the descriptions that name them, which end in a colon.
    pub fn tools(self, canonical: &[Arc<dyn AnyTool>], programs: &Programs) -> Vec<Arc<dyn AnyTool>> {
        let Some(table) = self.table() else { return canonical.to_vec() };
        let canonical_of =
            |outside: &Outside| canonical.iter().find(|tool| tool.spec().name == outside.canonical);
        let there: Vec<&'static Outside> =
            table.iter().filter(|outside| canonical_of(outside).is_some()).collect();
        let adapted = |outside: &&'static Outside| {
            let inner = canonical_of(outside)?.clone();
            Some(Adapter::tool(outside, inner, programs.clone(), &there, canonical))
        };
        there.iter().filter_map(adapted).collect()
    }

    /// Whether a tool is one of its own: in all but the default one, those that find others are not.
    pub fn shows(self, tool: &dyn AnyTool) -> bool {
        self == Self::Handfast || CatalogueKind::Full.lists(tool)
    }

    /// All that is to be said about a tool, with its version where the source gives tools one.
    pub fn described(self, tool: &dyn AnyTool) -> Value {
        let mut described = tool::described(tool);
        if self == Self::Sage {
            described["version"] = sage::VERSION.into();
            // `getToolSchemas` of the source calls it so.
            described["parameters"] = described["input_schema"].clone();
        }
        described
    }

    /// The whole answer in the form of its source, where that has one of its own.
    pub fn answer(self, result: &CallResult) -> Option<Value> {
        (self == Self::Sage).then(|| sage::answer(result))
    }

    /// The schema of [`Dialect::answer`] for a tool whose data has this schema.
    pub fn answer_schema(self, data: &Value) -> Option<Value> {
        (self == Self::Sage).then(|| sage::answer_schema(data))
    }

    fn table(self) -> Option<&'static [Outside]> {
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
