//! The real model of 135 million weights, which `cargo xtask test` fetches.
//!
//! Its figures are those of an own forward pass in `NumPy` (32 bits, the norm in 64) over the weights as
//! the package `gguf` 0.19.0 makes them floats, and of the tokenizer of Hugging Face's `tokenizers` with the
//! file's vocabulary, in November 2026.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it is")]

use std::path::Path;
use std::sync::OnceLock;

use llm::{
    ChatRequest, Delta, Finish, Message, Model, OutputFormat, Part, Role, ToolChoice, ToolDefinition,
    ToolResult,
};
use llm_local::LocalModel;
use serde_json::{Map, Value, json};
use tool::Stop;

/// Path of the weights below the repository.
const WEIGHTS: &str = "target/test-tools/model/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf";

/// Figures of the reference for one prompt.
struct Golden {
    prompt: &'static str,
    /// Tokens of the request.
    tokens: &'static [u32],
    /// Scores of some tokens to come after it.
    scores: &'static [(usize, f32)],
    /// Likeliest tokens, one after the other.
    greedy: &'static [u32],
}

const GOLDEN: [Golden; 3] = [
    Golden {
        prompt: "What is the capital of France?",
        tokens: &[
            1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407,
            19712, 8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531,
            198,
        ],
        scores: &[
            (504, 25.3254),
            (60, 25.2433),
            (15319, 24.9424),
            (2219, 24.4017),
            (100, 16.5195),
            (5000, 9.9482),
            (40000, 5.3179),
        ],
        greedy: &[504, 3575, 282, 4649, 314, 7042, 30, 2],
    },
    Golden {
        prompt: "Write a haiku about the sea.",
        tokens: &[
            1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407,
            19712, 8182, 2, 198, 1, 4093, 198, 19161, 253, 421, 30614, 563, 260, 3426, 30, 2, 198, 1, 520,
            9531, 198,
        ],
        scores: &[
            (504, 24.8551),
            (788, 24.7442),
            (49, 24.3347),
            (60, 23.4466),
            (100, 15.785),
            (5000, 2.5629),
            (40000, 4.939),
        ],
        greedy: &[504, 6147, 282, 260, 3426, 28, 253, 13879, 6122, 28],
    },
    Golden {
        prompt: "Explain in one sentence what a hash table is.",
        tokens: &[
            1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407,
            19712, 8182, 2, 198, 1, 4093, 198, 36971, 281, 582, 6330, 732, 253, 15345, 3252, 314, 30, 2, 198,
            1, 520, 9531, 198,
        ],
        scores: &[
            (49, 34.3879),
            (37519, 30.729),
            (1589, 29.9913),
            (504, 29.5495),
            (100, 19.1845),
            (5000, 10.3029),
            (40000, 11.0394),
        ],
        greedy: &[49, 15345, 3252, 314, 253, 940, 2678, 804, 281, 2583],
    },
];

const TOKENS: [(&str, &[u32]); 9] = [
    ("Hello world", &[19556, 905]),
    ("  two  spaces\n\n\nand\tlines  \n", &[216, 827, 216, 5600, 1116, 198, 397, 197, 5110, 32057]),
    ("x12 345, 6.7e-8", &[104, 33, 34, 216, 35, 36, 37, 28, 216, 38, 30, 39, 85, 29, 40]),
    ("don't we'll I'M", &[12420, 982, 392, 3060, 339, 23, 61]),
    (
        "é naïve Straße 中文字 🦀🦀",
        &[2756, 15486, 46494, 19144, 34878, 85, 216, 28589, 29184, 36518, 15107, 116, 218, 10813, 116, 218],
    ),
    (
        "fn main() { println!(\"{}\", 0x7f); }",
        &[7853, 1085, 1000, 1662, 1628, 34115, 17, 43331, 1002, 216, 32, 104, 39, 86, 4258, 4029],
    ),
    (" \n 1  a", &[3717, 216, 33, 216, 253]),
    ("a\u{a0}b\u{3000}c", &[81, 15442, 82, 12109, 218, 83]),
    ("½ ² Ⅷ ٣", &[16738, 216, 19133, 216, 173, 223, 117, 216, 164, 113]),
];

fn model() -> LocalModel {
    static MODEL: OnceLock<LocalModel> = OnceLock::new();
    let open = || {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(WEIGHTS);
        assert!(path.exists(), "{WEIGHTS} is missing: `cargo xtask test --step set-up` fetches it");
        LocalModel::open(&path).unwrap()
    };
    MODEL.get_or_init(open).clone()
}

fn ask(request: &ChatRequest) -> (llm::Response, String) {
    let mut told = String::new();
    let mut sink = |delta: Delta<'_>| match delta {
        Delta::Text(text) | Delta::CallArguments { text, .. } => told.push_str(text),
        Delta::CallStarted { name, .. } => told.push_str(&format!("[{name}]")),
        other => panic!("{other:?}"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let response = runtime.block_on(model().chat(request, &mut sink, &Stop::default())).unwrap();
    (response, told)
}

fn user(text: &str) -> ChatRequest {
    ChatRequest { messages: vec![Message::user(text)], ..ChatRequest::default() }
}

fn schema(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn weather() -> ToolDefinition {
    ToolDefinition {
        name: "get_weather".to_owned(),
        description: "Tells the weather of a city.".to_owned(),
        schema: schema(&json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 40},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
        })),
    }
}

#[test]
fn tokens_are_those_of_the_reference() {
    for (text, tokens) in TOKENS {
        assert_eq!(model().tokens(text), tokens, "{text:?}");
    }
    assert!(!model().tokens("<|im_start|>").contains(&1), "a text is never a mark of the conversation");
    // A word without end costs no more than its length.
    assert!(model().tokens(&"a".repeat(100_000)).len() > 1_000);
}

#[test]
fn scores_and_likeliest_tokens_are_those_of_the_reference() {
    let model = model();
    for golden in &GOLDEN {
        let prompt = model.prompt(&user(golden.prompt)).unwrap();
        assert_eq!(prompt, golden.tokens);
        let mut tokens = prompt;
        let scores = model.scores(&tokens).unwrap();
        for (token, score) in golden.scores {
            assert!((scores[*token] - score).abs() < 0.02, "{token}: {} and not {score}", scores[*token]);
        }
        for right in golden.greedy {
            let scores = model.scores(&tokens).unwrap();
            let best = (0_u32..).zip(&scores).max_by(|one, other| one.1.total_cmp(other.1)).unwrap().0;
            assert_eq!(best, *right, "{}: after {tokens:?}", golden.prompt);
            tokens.push(best);
        }
    }
}

#[test]
fn a_question_is_answered_and_its_tokens_are_counted() {
    let (response, told) = ask(&user("What is the capital of France?"));
    assert_eq!(response.text(), "The capital of France is Paris.");
    assert_eq!(told, response.text());
    assert_eq!(response.finish, Finish::Complete);
    assert_eq!((response.usage.input, response.usage.output), (37, 8));
    assert!(!response.usage.is_estimate);
}

#[test]
fn a_tool_is_called_and_its_result_is_read() {
    let mut request = user("What is the weather in Paris in celsius?");
    request.tools = vec![weather()];
    request.tool_choice = ToolChoice::Required;
    let (response, told) = ask(&request);
    assert_eq!(response.finish, Finish::ToolCalls);
    let calls: Vec<_> = response.calls().cloned().collect();
    let [call] = calls.as_slice() else { panic!("{response:?}") };
    assert_eq!(told, format!("[get_weather]{}", call.arguments));
    let arguments = call.check(&request.tools).unwrap();
    let validator = jsonschema::validator_for(&Value::Object(weather().schema)).unwrap();
    assert!(validator.is_valid(&Value::Object(arguments.clone())), "{arguments:?}");
    assert!(arguments["city"].as_str().unwrap().contains("Paris"), "{arguments:?}");
    let result = ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        text: "18 degrees, sunny".to_owned(),
        images: Vec::new(),
        is_error: false,
    };
    request.messages.push(response.into_message());
    request.messages.push(Message { role: Role::User, parts: vec![Part::ToolResult(result)] });
    request.tool_choice = ToolChoice::Never;
    request.max_tokens = Some(16);
    let (response, _) = ask(&request);
    assert!(response.text().contains("18"), "{response:?}");
}

#[test]
fn an_answer_keeps_to_its_format() {
    let wanted = json!({
        "type": "object",
        "properties": {"capital": {"type": "string", "maxLength": 20}, "is_large": {"type": "boolean"}},
        "required": ["capital", "is_large"],
        "additionalProperties": false,
    });
    let mut request = user("What is the capital of France, and is it large?");
    request.format = Some(OutputFormat { name: "capital".to_owned(), schema: schema(&wanted) });
    let (response, told) = ask(&request);
    let value: Value = serde_json::from_str(&response.text()).unwrap();
    assert_eq!(told, response.text());
    assert!(jsonschema::validator_for(&wanted).unwrap().is_valid(&value), "{value}");
    assert!(value["capital"].as_str().unwrap().contains("Paris"), "{value}");
}
