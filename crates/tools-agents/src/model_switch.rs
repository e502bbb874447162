//! `model_switch`: lets an agent go on with another model.

use std::sync::Arc;

use llm::TaskType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::agents::Agents;
use crate::create_agent::named;
use crate::models::Models;
use crate::routing::candidates;

/// The `model_switch` tool.
pub struct ModelSwitch(pub(crate) Arc<Models>);

/// Arguments of `model_switch`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// `PROVIDER/MODEL`.
    model_name: String,
}

/// Result of `model_switch`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Model from the next request on.
    model_name: String,
    /// Model before.
    previous: String,
    /// Profile that holds in addition from now on, because the model's provider is bound to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
}

impl Tool for ModelSwitch {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "model_switch",
        title: "Switch the model",
        description: "Go on with another model that the user configured, from your next request on.",
        example: Example {
            files: &[],
            arguments: r#"{"model_name": "local/large"}"#,
            result: r#"{"model_name": "local/large", "previous": "local/small"}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: true, open_world: true },
        timeout: Timeout::fixed(60),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let candidates = candidates(&self.0, TaskType::Coding, Some(&args.model_name))
            .map_err(|error| named(error, "model_name"))?;
        let (effects, login) = Models::effects(&candidates);
        Ok(Plan { login, ..Plan::of(effects) })
    }

    fn only_waits(&self, _args: &Args) -> bool {
        true
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let switched = context.service::<Agents>()?.0.switch(context, &args.model_name).await;
        let switched = switched.map_err(|error| named(error, "model_name"))?;
        Ok(Output { model_name: switched.model, previous: switched.before, profile: switched.profile })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Code, ErasedTool};

    use super::*;
    use crate::tests::{local, refused, two_providers};

    #[test]
    fn refuses_a_model_of_no_provider_by_the_name_of_the_field() {
        let error =
            refused(&ErasedTool::tool(ModelSwitch(two_providers())), json!({"model_name": "other/large"}));
        assert_eq!(error.code, Code::Validation, "{}", error.message);
        assert!(error.message.contains("`model_name`"), "{}", error.message);
        let empty = refused(
            &ErasedTool::tool(ModelSwitch(local("http://127.0.0.1:9", None))),
            json!({"model_name": ""}),
        );
        assert_eq!(empty.code, Code::Validation, "{}", empty.message);
    }
}
