//! The tools of an agent: each call of the model is a call of the engine.

use std::sync::Arc;

use agents::{AgentTools, ToolOutput};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dialects::Dialect;
use door_mcp::{ModelView, model_view};
use engine::{CallRequest, Engine};
use llm::{Image, ImageFormat, ToolDefinition};
use serde_json::{Map, Value};
use tool::{BoxFuture, NoteTools, Stop};

use crate::agent_runtime::asker::ParentQuestions;
use crate::agent_runtime::identity::AgentIdentity;
use crate::agent_runtime::offered::OfferedTools;

/// The tools of an agent.
pub(crate) struct EngineTools {
    engine: Arc<Engine>,
    identity: Arc<AgentIdentity>,
    questions: Option<ParentQuestions>,
    dialect: Dialect,
    offered: Arc<OfferedTools>,
}

impl EngineTools {
    /// Offers tools to an agent.
    pub(crate) fn new(
        engine: Arc<Engine>,
        identity: Arc<AgentIdentity>,
        questions: Option<ParentQuestions>,
        dialect: Dialect,
        offered: Arc<OfferedTools>,
    ) -> Self {
        Self { engine, identity, questions, dialect, offered }
    }
}

impl AgentTools for EngineTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.offered.definitions.clone()
    }

    fn reads_only(&self, name: &str) -> bool {
        self.offered.reading.contains(name)
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
            let notes =
                NoteTools { restore: self.offered.restore.as_deref(), read: self.offered.read.as_deref() };
            let ModelView { text, pictures, is_error } = model_view(result, self.dialect, notes);
            let images = pictures.iter().filter_map(|(bytes, kind)| {
                let format = ImageFormat::of_media_type(kind)?;
                Some(Image { format, bytes: STANDARD.decode(bytes).ok()?.into() })
            });
            ToolOutput { images: images.collect(), text, is_error, meta }
        })
    }
}
