//! Tools and results as a model sees them, for a loop within this program: the same as through a client.

use dialects::{CatalogueKind, Dialect};
use rmcp::model::ContentBlock;
use serde_json::{Map, Value};
use tool::{AnyTool, CallResult, NoteTools};

use crate::present::{self, View};

/// Tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelTool {
    /// Name.
    pub name: String,
    /// Description, with an example.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub schema: Map<String, Value>,
}

/// Result as a model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelView {
    /// Text.
    pub text: String,
    /// Pictures in Base64, each with its media type.
    pub pictures: Vec<(String, String)>,
    /// True if the call failed.
    pub is_error: bool,
}

/// Returns a tool as a model sees it.
pub fn model_tool(tool: &dyn AnyTool, dialect: Dialect) -> ModelTool {
    let entry = crate::list::entry(tool, dialect, CatalogueKind::Core, None);
    ModelTool {
        name: entry.name.into_owned(),
        description: entry.description.unwrap_or_default().into_owned(),
        schema: entry.input_schema.as_ref().clone(),
    }
}

/// Returns a result as a model sees it.
pub fn model_view(result: CallResult, dialect: Dialect, tools: NoteTools<'_>) -> ModelView {
    let shown = present::result(result, View { dialect, structured: false, tools }).result;
    let mut view =
        ModelView { text: String::new(), pictures: Vec::new(), is_error: shown.is_error == Some(true) };
    for block in shown.content {
        match block {
            ContentBlock::Text(block) => {
                if !view.text.is_empty() && !view.text.ends_with('\n') {
                    view.text.push('\n');
                }
                view.text.push_str(&block.text);
            }
            ContentBlock::Image(block) => view.pictures.push((block.data, block.mime_type)),
            // Results of tools have no other kinds.
            _ => {}
        }
    }
    view
}
