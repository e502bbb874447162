//! The tools of an agent: each call of the model is a call of the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use agents::{AgentTools, ToolOutput};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dialects::{CatalogueKind, Dialect};
use door_mcp::{ModelView, model_tool, model_view};
use engine::{CallRequest, Engine};
use llm::{Image, ImageFormat, ToolDefinition};
use serde_json::{Map, Value};
use tool::{BoxFuture, NoteTools, Stop};

use crate::agent_runtime::asker::ParentQuestions;
use crate::agent_runtime::identity::AgentIdentity;

/// The tools of an agent.
pub(crate) struct EngineTools {
    engine: Arc<Engine>,
    identity: Arc<AgentIdentity>,
    questions: Option<ParentQuestions>,
    dialect: Dialect,
    definitions: Vec<ToolDefinition>,
    reading: BTreeSet<String>,
    /// The dialect's names of the tools that notes mention.
    restore: Option<String>,
    read: Option<String>,
}

impl EngineTools {
    /// Offers the tools of a catalogue, or those that are named.
    ///
    /// # Errors
    /// If a name is none of a tool, with the nearest one.
    pub(crate) fn new(
        engine: Arc<Engine>,
        identity: Arc<AgentIdentity>,
        questions: Option<ParentQuestions>,
        dialect: Dialect,
        catalogue: CatalogueKind,
        named: Option<&[String]>,
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
        let offered: Vec<_> = all.iter().filter(is_offered).cloned().collect();
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
        Ok(Self { engine, identity, questions, dialect, definitions, reading, restore, read })
    }
}

impl AgentTools for EngineTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.definitions.clone()
    }

    fn reads_only(&self, name: &str) -> bool {
        self.reading.contains(name)
    }

    fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        stop: &'a Stop,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let (mut principal, arguments) = (self.identity.principal(), Value::Object(arguments));
            if let Some(questions) = &self.questions {
                principal.asker = questions.about(&principal, name, &arguments);
            }
            let mut call = CallRequest::new(principal, name, arguments);
            call.stop = stop.clone();
            let result = self.engine.call(call).await;
            let meta = Some(Box::new(result.meta.clone()));
            let notes = NoteTools { restore: self.restore.as_deref(), read: self.read.as_deref() };
            let ModelView { text, pictures, is_error } = model_view(result, self.dialect, notes);
            let images = pictures.iter().filter_map(|(bytes, kind)| {
                let format = ImageFormat::of_media_type(kind)?;
                Some(Image { format, bytes: STANDARD.decode(bytes).ok()?.into() })
            });
            ToolOutput { images: images.collect(), text, is_error, meta }
        })
    }
}
