//! The call of a model of EloPhanto.

use tool::Example;

use crate::table::{DEFAULTS, ExternalTool, Kind, Need, ValueSource, field, gives, text};

const TASKS: &[&str] = &["planning", "coding", "analysis", "simple", "embedding"];

pub(crate) const CALL: ExternalTool = ExternalTool {
    name: "llm_call",
    canonical: "llm_call",
    title: "Ask a language model",
    description: "Makes an LLM inference call through the router.",
    takes: &[
        field("prompt", Kind::Any, Need::Required, "A text, or an array of messages with role and content"),
        text("model", Need::Optional, "If omitted, the router selects by task type"),
        field("task_type", Kind::OneOf(TASKS), Need::Default("\"simple\""), "Type of the task"),
        field("max_tokens", Kind::Integer(1, 10_000_000), Need::Optional, "Tokens of the answer"),
        field("temperature", Kind::Number, Need::Optional, "Randomness, from 0 to 2"),
        text("system_prompt", Need::Optional, "Instructions above the prompt"),
    ],
    gives: &[
        gives("response", ValueSource::Text("response"), "The answer."),
        gives("model_used", ValueSource::Text("model_used"), "Model that answered."),
        gives("tokens_used", ValueSource::Any("tokens_used"), "input and output."),
        gives(
            "cost_estimate",
            ValueSource::OptionalAny("cost_estimate"),
            "US dollars, if the price is known.",
        ),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"prompt": "Say hello.", "task_type": "simple"}"#,
        result: r#"{"response": "Hello.", "model_used": "local/small"}"#,
    },
    ..DEFAULTS
};
