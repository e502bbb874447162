//! Tools for models, and for work that goes on without the caller. Each tool is one file; this file is only the list.

mod answers;
mod llm_call;
mod model_transport;
mod models;
mod runtime;
mod schedule_history;
mod schedule_list;
mod schedule_task;
mod schedule_update;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use llm_call::LlmCall;
pub use models::{ModelLimits, ModelProvider, Models};
pub use runtime::JobRuntime;
pub use schedule_history::ScheduleHistory;
pub use schedule_list::ScheduleList;
pub use schedule_task::ScheduleTask;
pub use schedule_update::ScheduleUpdate;

/// Returns the tools of this family, in listing order.
pub fn tools(models: &Arc<Models>) -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(LlmCall(models.clone())),
        ErasedTool::tool(ScheduleTask),
        ErasedTool::tool(ScheduleList),
        ErasedTool::tool(ScheduleUpdate),
        ErasedTool::tool(ScheduleHistory),
    ]
}

#[cfg(test)]
mod tests;
