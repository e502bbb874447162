//! Wire formats of the providers. Each is one file, which renders requests and decodes events apart from
//! each other, and does neither input nor output.

mod anthropic;
mod failure;
mod gemini;
mod ollama;
mod openai;

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::assembly::Assembly;
use crate::error::{ModelError, invalid};
use crate::info::{ModelInfo, ThinkingControl};
use crate::message::{ChatRequest, Effort, Part};
use crate::sse::Event;
use crate::transport::KeyHeader;

pub(crate) use failure::of_response;

/// Maximum length of the name of a tool, and of an id, that all providers take.
const LONGEST_NAME: usize = 64;

/// Wire format of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireFormat {
    /// Chat completions of `OpenAI`.
    OpenAi,
    /// Chat completions as other servers have them.
    OpenAiCompatible,
    /// Messages of Anthropic.
    Anthropic,
    /// `generateContent` of Gemini.
    Gemini,
    /// Chat of Ollama.
    Ollama,
}

/// Division of a stream into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value on each line.
    Lines,
}

/// Request in a wire format.
pub(crate) struct Rendered {
    /// Path below the address of the provider, with its query.
    pub(crate) path: String,
    /// Body.
    pub(crate) body: Map<String, Value>,
    /// Fields of the request that were left out.
    pub(crate) omitted: Vec<&'static str>,
}

/// Decoder of the events of one answer.
pub(crate) trait Decoder: Send {
    /// Takes one event.
    ///
    /// # Errors
    /// A failure that the event reports, or a fault of the stream.
    fn event(&mut self, event: Event<'_>, answer: &mut Assembly<'_>) -> Result<(), ModelError>;

    /// Returns true if nothing that follows matters.
    fn is_done(&self) -> bool;

    /// Ends the answer, at the end of the stream or when nothing that follows matters.
    ///
    /// # Errors
    /// [`StreamFault::Ended`](crate::StreamFault) if the stream ended before the answer, or a refusal.
    fn end(&mut self, answer: &mut Assembly<'_>) -> Result<(), ModelError>;
}

impl WireFormat {
    /// Returns the address of the provider's own service. `None` for compatible servers, which have no
    /// common one.
    pub fn usual_base(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("https://api.openai.com/v1"),
            Self::OpenAiCompatible => None,
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
            Self::Ollama => Some("http://127.0.0.1:11434"),
        }
    }

    /// Returns the header that carries the key.
    pub fn key_header(self) -> KeyHeader {
        match self {
            Self::OpenAi | Self::OpenAiCompatible | Self::Ollama => {
                KeyHeader { name: "authorization", prefix: "Bearer " }
            }
            Self::Anthropic => KeyHeader { name: "x-api-key", prefix: "" },
            Self::Gemini => KeyHeader { name: "x-goog-api-key", prefix: "" },
        }
    }

    /// Returns the headers of every request, besides that of the key.
    pub(crate) fn headers(self) -> Vec<(&'static str, &'static str)> {
        let accept = match self.framing() {
            Framing::Events => "text/event-stream",
            Framing::Lines => "application/x-ndjson",
        };
        let mut headers = vec![("content-type", "application/json"), ("accept", accept)];
        if self == Self::Anthropic {
            headers.push(("anthropic-version", anthropic::VERSION));
        }
        headers
    }

    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::Ollama => Framing::Lines,
            _ => Framing::Events,
        }
    }

    /// Renders a request.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] if no such request can be made to the model.
    pub(crate) fn render(self, request: &ChatRequest, info: &ModelInfo) -> Result<Rendered, ModelError> {
        request.check()?;
        check_name(&info.name)?;
        check_abilities(request, info)?;
        match self {
            Self::OpenAi => Ok(openai::render(request, info, openai::Server::Own)),
            Self::OpenAiCompatible => Ok(openai::render(request, info, openai::Server::Compatible)),
            Self::Anthropic => anthropic::render(request, info),
            Self::Gemini => gemini::render(request, info),
            Self::Ollama => Ok(ollama::render(request, info)),
        }
    }

    /// Creates the decoder of an answer.
    pub(crate) fn decoder(self) -> Box<dyn Decoder> {
        match self {
            Self::OpenAi | Self::OpenAiCompatible => Box::<openai::Chunks>::default(),
            Self::Anthropic => Box::<anthropic::MessageEvents>::default(),
            Self::Gemini => Box::<gemini::Chunks>::default(),
            Self::Ollama => Box::<ollama::Chunks>::default(),
        }
    }
}

/// Refuses a name that would change the URL, or that is none.
fn check_name(name: &str) -> Result<(), ModelError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@".contains(&byte);
    let parts = || name.split('/');
    if name.len() > 200 || !name.bytes().all(fits) || parts().any(|part| part.is_empty() || part == "..") {
        return Err(invalid("the name of the model has characters that no model has"));
    }
    Ok(())
}

pub(crate) fn check_abilities(request: &ChatRequest, info: &ModelInfo) -> Result<(), ModelError> {
    if !info.tools && !request.tools.is_empty() {
        return Err(invalid(format!("the model `{}` calls no tools", info.name)));
    }
    let has_image = |part: &Part| match part {
        Part::Image(_) => true,
        Part::ToolResult(result) => !result.images.is_empty(),
        _ => false,
    };
    if !info.vision && request.messages.iter().any(|message| message.parts.iter().any(has_image)) {
        return Err(invalid(format!("the model `{}` takes no pictures", info.name)));
    }
    Ok(())
}

/// Returns the temperature for a model, and notes one that it does not take.
fn temperature(request: &ChatRequest, info: &ModelInfo, omitted: &mut Vec<&'static str>) -> Option<f64> {
    if request.temperature.is_some() && !info.temperature {
        omitted.push("temperature");
        return None;
    }
    request.temperature
}

/// Returns the effort that a model is told; `None` for its default. Notes an effort that it does not take.
pub(crate) fn effort(
    request: &ChatRequest,
    info: &ModelInfo,
    omitted: &mut Vec<&'static str>,
) -> Option<Effort> {
    match (request.thinking, info.thinking) {
        (Effort::Default, _) | (Effort::Off, ThinkingControl::Never) => None,
        (_, ThinkingControl::Never) => {
            omitted.push("thinking");
            None
        }
        (Effort::Off, ThinkingControl::Level { off: false }) => Some(Effort::Low),
        (effort, _) => Some(effort),
    }
}

/// Returns the schema of the answer, unless the model keeps to none, which is noted.
pub(crate) fn format<'a>(
    request: &'a ChatRequest,
    info: &ModelInfo,
    omitted: &mut Vec<&'static str>,
) -> Option<&'a crate::message::OutputFormat> {
    if request.format.is_some() && !info.structured_output {
        omitted.push("format");
        return None;
    }
    request.format.as_ref()
}

/// Returns a name or id that a model wrote, in characters that all providers take, so that one call of nonsense
/// does not make a whole conversation invalid.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    let fits = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let replaced = name.chars().map(|character| if fits(character) { character } else { '_' });
    let plain: String = replaced.take(LONGEST_NAME).collect();
    Cow::Owned(if plain.is_empty() { "_".to_owned() } else { plain })
}

/// Returns the bytes of a picture in base64.
pub(crate) fn base64_of(image: &crate::message::Image) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(&image.bytes)
}

/// Returns an object as a map.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Parses the data of an event.
fn parse<'a, T: serde::Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(data).map_err(|error| crate::error::malformed(error.to_string()))
}
