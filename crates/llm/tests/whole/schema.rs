//! Schemas that the providers publish.

use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use llm::Dialect;
use parking_lot::Mutex;
use serde_json::Value;

/// Part of a provider's schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Body of a request.
    Request,
    /// Event of an answer.
    Event,
    /// Body of a failure.
    Error,
}

fn text(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAi | Dialect::OpenAiCompatible => include_str!("schemas/openai.json"),
        Dialect::Anthropic => include_str!("schemas/anthropic.json"),
        Dialect::Gemini => include_str!("schemas/gemini.json"),
        Dialect::Ollama => include_str!("schemas/ollama.json"),
    }
}

type Validators = Vec<((Dialect, Shape), Arc<Validator>)>;

/// Validators so far: one takes longer than hundreds of answers.
static VALIDATORS: LazyLock<Mutex<Validators>> = LazyLock::new(Mutex::default);

fn validator(dialect: Dialect, shape: Shape) -> Arc<Validator> {
    let mut validators = VALIDATORS.lock();
    if let Some((_, validator)) = validators.iter().find(|(key, _)| *key == (dialect, shape)) {
        return validator.clone();
    }
    let made = Arc::new(made(dialect, shape));
    validators.push(((dialect, shape), made.clone()));
    made
}

fn made(dialect: Dialect, shape: Shape) -> Validator {
    let whole: Value = serde_json::from_str(text(dialect)).unwrap();
    let name = match shape {
        Shape::Request => "request",
        Shape::Event => "event",
        Shape::Error => "error",
    };
    let mut schema = whole[name].clone();
    schema["$defs"] = whole["$defs"].clone();
    jsonschema::draft202012::new(&schema).unwrap()
}

/// Fails the test unless the values have the published shape.
pub(crate) fn hold<'a>(dialect: Dialect, shape: Shape, values: impl IntoIterator<Item = &'a Value>) {
    let validator = validator(dialect, shape);
    for value in values {
        let faults: Vec<String> =
            validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{dialect:?} {shape:?} {value:#}\n{}", faults.join("\n"));
    }
}

#[test]
fn the_schemas_refuse_what_the_providers_do() {
    use serde_json::json;
    let bad = [
        (Dialect::OpenAi, Shape::Request, json!({"model": "m", "messages": [{"role": "user"}]})),
        (Dialect::OpenAi, Shape::Event, json!({"object": "chat.completion.chunk", "choices": [{}]})),
        (Dialect::Anthropic, Shape::Request, json!({"model": "m", "messages": []})),
        (Dialect::Anthropic, Shape::Event, json!({"type": "content_block_delta", "index": 0})),
        (
            Dialect::Gemini,
            Shape::Request,
            json!({"contents": [{"role": "assistant", "parts": [{"text": ""}]}]}),
        ),
        (Dialect::Gemini, Shape::Event, json!({"candidates": [{"finishReason": "stop"}]})),
        (Dialect::Ollama, Shape::Request, json!({"model": "m", "messages": [{"role": "user", "text": "x"}]})),
        (Dialect::Ollama, Shape::Event, json!({"done": "yes"})),
    ];
    for (dialect, shape, value) in bad {
        assert!(!validator(dialect, shape).is_valid(&value), "{dialect:?} {shape:?} {value}");
    }
}
