//! Upper bounds for the tokens of a request, before it is sent.
//!
//! Only a provider can count its tokens exactly. Tokenizers of today's models work on bytes, so no text has
//! more tokens than bytes, and usual text has a third or a quarter of that. A budget that must not be overrun
//! needs the bound; [`likely_input`] is the usual number, for everything that only plans.

use crate::info::ModelInfo;
use crate::message::{ChatRequest, Message, Part, ToolDefinition};

/// Bytes of usual text in one token: English has about 4, code and other languages have less.
const USUAL_BYTES: u64 = 3;

/// Tokens around a message, a call or a result. `OpenAI` documents 3 to 4 for a message.
const AROUND_ITEM: u64 = 16;

/// Tokens that a provider adds to a request, and that it adds for tools. Anthropic documents up to 804
/// tokens of instructions for tools, depending on the model.
const AROUND_REQUEST: u64 = 1_024;

/// Returns an upper bound for the input tokens of a request. It is no bound for what a server adds beyond
/// 1,024 tokens, such as a chat template of a local model.
pub fn most_input(request: &ChatRequest, info: &ModelInfo) -> u64 {
    let counted = count(request);
    counted.bytes.saturating_add(counted.fixed(info))
}

/// Returns the usual number of input tokens of such a request.
pub fn likely_input(request: &ChatRequest, info: &ModelInfo) -> u64 {
    let counted = count(request);
    counted.bytes.div_ceil(USUAL_BYTES).saturating_add(counted.fixed(info))
}

/// Returns an upper bound for the output tokens of a request; `None` if neither the request nor the model
/// has a limit.
pub fn most_output(request: &ChatRequest, info: &ModelInfo) -> Option<u64> {
    let own = request.max_tokens.map(u64::from);
    let model = info.max_output.or(info.context).map(u64::from);
    match (own, model) {
        (Some(own), Some(model)) => Some(own.min(model)),
        (own, model) => own.or(model),
    }
}

/// Contents of a request.
#[derive(Default)]
struct Contents {
    bytes: u64,
    items: u64,
    images: u64,
}

impl Contents {
    fn fixed(&self, info: &ModelInfo) -> u64 {
        let images = self.images.saturating_mul(u64::from(info.image_tokens));
        AROUND_REQUEST.saturating_add(self.items.saturating_mul(AROUND_ITEM)).saturating_add(images)
    }

    fn add(&mut self, texts: &[&str]) {
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.items = self.items.saturating_add(1);
    }
}

fn count(request: &ChatRequest) -> Contents {
    let mut counted = Contents::default();
    counted.add(&[request.system.as_deref().unwrap_or_default()]);
    for Message { parts, .. } in &request.messages {
        counted.add(&[]);
        for part in parts {
            match part {
                Part::Text(text) => counted.add(&[text]),
                Part::Image(_) => counted.images = counted.images.saturating_add(1),
                Part::Thinking(thought) => {
                    counted.add(&[&thought.text, thought.signature.as_deref().unwrap_or_default()]);
                }
                Part::ToolCall(call) => {
                    counted.add(&[
                        &call.id,
                        &call.name,
                        &call.arguments,
                        call.signature.as_deref().unwrap_or_default(),
                    ]);
                }
                Part::ToolResult(result) => {
                    counted.add(&[&result.call_id, &result.name, &result.text]);
                    let images = u64::try_from(result.images.len()).unwrap_or(u64::MAX);
                    counted.images = counted.images.saturating_add(images);
                }
            }
        }
    }
    for ToolDefinition { name, description, schema } in &request.tools {
        counted.add(&[name, description, &serde_json::to_string(schema).unwrap_or_default()]);
    }
    if let Some(format) = &request.format {
        counted.add(&[&format.name, &serde_json::to_string(&format.schema).unwrap_or_default()]);
    }
    counted
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::message::{Image, ImageFormat, Role, ToolResult};

    #[test]
    fn every_byte_and_every_picture_of_a_request_counts() {
        let info = ModelInfo::unknown("m", 5_000);
        let mut request = ChatRequest { messages: vec![Message::user("a")], ..ChatRequest::default() };
        let least = most_input(&request, &info);
        request.messages = vec![Message::user("a".repeat(1_001))];
        assert_eq!(most_input(&request, &info), least + 1_000);
        assert!(likely_input(&request, &info) < most_input(&request, &info));

        let image = Image { format: ImageFormat::Png, bytes: Bytes::from_static(b"x") };
        let result = ToolResult {
            call_id: "c".into(),
            name: "n".into(),
            text: String::new(),
            images: vec![image.clone(); 2],
            is_error: false,
        };
        let before = most_input(&request, &info);
        let parts = vec![Part::Image(image), Part::ToolResult(result)];
        request.messages.push(Message { role: Role::User, parts });
        assert!(most_input(&request, &info) >= before + 15_000);
    }

    #[test]
    fn the_output_is_bounded_by_the_request_and_the_model() {
        let mut info = ModelInfo::unknown("m", 0);
        let mut request = ChatRequest::default();
        assert_eq!(most_output(&request, &info), None);
        info.context = Some(900);
        assert_eq!(most_output(&request, &info), Some(900));
        info.max_output = Some(500);
        request.max_tokens = Some(700);
        assert_eq!(most_output(&request, &info), Some(500));
        request.max_tokens = Some(70);
        assert_eq!(most_output(&request, &info), Some(70));
    }
}
