//! Tools that models of agents are offered.

use std::collections::BTreeSet;
use std::sync::Arc;

use dialects::{CatalogueKind, Dialect};
use door_mcp::model_tool;
use engine::Engine;
use llm::ToolDefinition;

/// Tools that a model is offered. Agents that are offered the same ones share them.
pub(crate) struct OfferedTools {
    pub(crate) definitions: Vec<ToolDefinition>,
    pub(crate) reading: BTreeSet<String>,
    /// Canonical names of the offered tools, and of those that only Handfast itself calls.
    pub(crate) callable: Arc<BTreeSet<String>>,
    /// The dialect's names of the tools that notes mention.
    pub(crate) restore: Option<String>,
    pub(crate) read: Option<String>,
}

impl OfferedTools {
    /// Offers the tools of a catalogue, or those that are named; in both cases none beyond those of `above`.
    ///
    /// # Errors
    /// If a name is none of a tool, with the nearest one.
    pub(crate) fn of(
        engine: &Engine,
        (dialect, catalogue): (Dialect, CatalogueKind),
        named: Option<&[String]>,
        above: Option<&BTreeSet<String>>,
    ) -> Result<Self, String> {
        let all = engine.tools();
        if let Some(unknown) =
            named.unwrap_or_default().iter().find(|name| !all.iter().any(|tool| tool.name() == **name))
        {
            let near = tool::nearest(unknown, all.iter().map(|tool| tool.name()));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(format!("there is no tool `{unknown}`{near}"));
        }
        let is_offered = |tool: &&Arc<dyn tool::AnyTool>| match named {
            Some(named) => named.iter().any(|name| name == tool.name()),
            None => catalogue.lists(tool.as_ref()),
        };
        let is_allowed =
            |tool: &&Arc<dyn tool::AnyTool>| above.is_none_or(|above| above.contains(tool.spec().name));
        let offered: Vec<_> = all.iter().filter(is_offered).filter(is_allowed).cloned().collect();
        let callable = offered.iter().map(|tool| tool.spec().name).chain(engine.registry().unlisted_names());
        let callable = callable.map(str::to_owned).collect();
        let definitions = offered.iter().map(|tool| {
            let shown = model_tool(tool.as_ref(), dialect);
            ToolDefinition { name: shown.name, description: shown.description, schema: shown.schema }
        });
        let definitions = definitions.collect();
        let reading = offered.iter().filter(|tool| tool.spec().class.reads_only);
        let reading = reading.map(|tool| tool.name().to_owned()).collect();
        let name_of = |canonical: &str| {
            all.iter().find(|tool| tool.spec().name == canonical).map(|tool| tool.name().to_owned())
        };
        let (restore, read) = (name_of("checkpoint_restore"), name_of("output_read"));
        Ok(Self { definitions, reading, callable: Arc::new(callable), restore, read })
    }
}
