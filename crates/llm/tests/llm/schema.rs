//! Schemas that the providers publish.

use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use llm::WireFormat;
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

fn text(wire: WireFormat) -> &'static str {
    match wire {
        WireFormat::OpenAi | WireFormat::OpenAiCompatible => include_str!("schemas/openai.json"),
        WireFormat::Anthropic => include_str!("schemas/anthropic.json"),
        WireFormat::Gemini => include_str!("schemas/gemini.json"),
        WireFormat::Ollama => include_str!("schemas/ollama.json"),
    }
}

type Validators = Vec<((WireFormat, Shape), Arc<Validator>)>;

/// Validators so far: one takes longer than hundreds of answers.
static VALIDATORS: LazyLock<Mutex<Validators>> = LazyLock::new(Mutex::default);

fn validator(wire: WireFormat, shape: Shape) -> Arc<Validator> {
    let mut validators = VALIDATORS.lock();
    if let Some((_, validator)) = validators.iter().find(|(key, _)| *key == (wire, shape)) {
        return validator.clone();
    }
    let made = Arc::new(made(wire, shape));
    validators.push(((wire, shape), made.clone()));
    made
}

fn made(wire: WireFormat, shape: Shape) -> Validator {
    let whole: Value = serde_json::from_str(text(wire)).unwrap();
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
pub(crate) fn hold<'a>(wire: WireFormat, shape: Shape, values: impl IntoIterator<Item = &'a Value>) {
    let validator = validator(wire, shape);
    for value in values {
        let faults: Vec<String> =
            validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{wire:?} {shape:?} {value:#}\n{}", faults.join("\n"));
    }
}

#[test]
fn the_schemas_refuse_what_the_providers_do() {
    use serde_json::json;
    let bad = [
        (WireFormat::OpenAi, Shape::Request, json!({"model": "m", "messages": [{"role": "user"}]})),
        (WireFormat::OpenAi, Shape::Event, json!({"object": "chat.completion.chunk", "choices": [{}]})),
        (WireFormat::Anthropic, Shape::Request, json!({"model": "m", "messages": []})),
        (WireFormat::Anthropic, Shape::Event, json!({"type": "content_block_delta", "index": 0})),
        (
            WireFormat::Gemini,
            Shape::Request,
            json!({"contents": [{"role": "assistant", "parts": [{"text": ""}]}]}),
        ),
        (WireFormat::Gemini, Shape::Event, json!({"candidates": [{"finishReason": "stop"}]})),
        (
            WireFormat::Ollama,
            Shape::Request,
            json!({"model": "m", "messages": [{"role": "user", "text": "x"}]}),
        ),
        (WireFormat::Ollama, Shape::Event, json!({"done": "yes"})),
    ];
    for (wire, shape, value) in bad {
        assert!(!validator(wire, shape).is_valid(&value), "{wire:?} {shape:?} {value}");
    }
}
