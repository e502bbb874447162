//! A model of language in a file, run on this machine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use llm::{
    ChatRequest, Effort, Model, ModelError, ModelInfo, Part, Price, Response, Sink, StreamFault,
    ThinkingControl, ToolCall, ToolChoice, Usage,
};
use parking_lot::{Mutex, MutexGuard};
use simd::Level;
use tool::{BoxFuture, Stop, StopReason};

use crate::OpenError;
use crate::forward::{Cache, Room, logits, pass};
use crate::gguf::Gguf;
use crate::grammar::{self, Grammar, SchemaFault};
use crate::guide::Rules;
use crate::run::{Order, Predictor, RunError, run};
use crate::template::{Template, invalid, must_call};
use crate::tokens::Vocabulary;
use crate::wait::{Writer, channel};
use crate::weights::Network;

/// Number of tokens of a request that are read between two looks at the stop.
const TOKENS_AT_ONCE: usize = 16;
/// Time between two looks at the stop while another answer is written.
const LOOK: Duration = Duration::from_millis(50);

/// Model of language that runs on this machine.
///
/// It writes one answer at a time, on a thread of its own; other requests wait. The tokens that a request
/// has in common with the one before are not computed again, and count as [`Usage::cached`].
///
/// Without a temperature it takes the likeliest token, so that equal requests have equal answers. Stop
/// texts end free text alone, and neither calls nor texts with a format.
#[derive(Clone)]
pub struct LocalModel {
    parts: Arc<Parts>,
    seed: u64,
}

/// Parts of a model, which its threads share.
struct Parts {
    info: ModelInfo,
    network: Network,
    vocabulary: Vocabulary,
    template: Template,
    level: Level,
    session: Mutex<Session>,
}

/// Tokens that the network has read, with what it remembers of them.
#[derive(Default)]
struct Session {
    tokens: Vec<u32>,
    cache: Cache,
    room: Room,
    logits: Vec<f32>,
}

/// Session that reads for one answer.
struct Reading<'a> {
    parts: &'a Parts,
    session: MutexGuard<'a, Session>,
}

impl std::fmt::Debug for LocalModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LocalModel").field("info", &self.parts.info).finish_non_exhaustive()
    }
}

impl LocalModel {
    /// Opens the GGUF file at a path. Its weights are read into memory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::of(&Gguf::open(path)?)
    }

    /// Opens a GGUF file that is in memory.
    ///
    /// # Errors
    /// [`OpenError`], but never for the reading of a file.
    pub fn of_bytes(bytes: Vec<u8>) -> Result<Self, OpenError> {
        Self::of(&Gguf::of_bytes(bytes)?)
    }

    fn of(file: &Gguf) -> Result<Self, OpenError> {
        let vocabulary = Vocabulary::read(file)?;
        let template = Template::read(file, &vocabulary)?;
        let network = Network::read(file)?;
        let context = u32::try_from(network.sizes.context).ok();
        let info = ModelInfo {
            name: file.text("general.name").unwrap_or("local model").to_owned(),
            price: Some(Price::FREE),
            context,
            max_output: context,
            image_tokens: 0,
            vision: false,
            tools: true,
            structured_output: true,
            temperature: true,
            thinking: ThinkingControl::Never,
        };
        let session = Mutex::default();
        let parts = Parts { info, network, vocabulary, template, level: Level::best(), session };
        Ok(Self { parts: Arc::new(parts), seed: 0 })
    }

    /// Returns the model with another seed for the answers to requests with a temperature.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the tokens of a text.
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        self.parts.vocabulary.encode(text, &mut tokens);
        tokens
    }

    /// Returns the tokens of a request, as the network reads them.
    ///
    /// # Errors
    /// [`ModelError::Invalid`].
    pub fn prompt(&self, request: &ChatRequest) -> Result<Vec<u32>, ModelError> {
        check(request)?;
        self.parts.template.tokens(request, &self.parts.vocabulary)
    }

    /// Returns the score of every token to come after these. `None` if there are no tokens, more than the
    /// context takes, or unknown ones.
    pub fn scores(&self, tokens: &[u32]) -> Option<Vec<f32>> {
        let known = u32::try_from(self.parts.vocabulary.len()).unwrap_or(u32::MAX);
        let fits = (1..=self.parts.network.sizes.context).contains(&tokens.len());
        if !fits || tokens.iter().any(|token| *token >= known) {
            return None;
        }
        let mut reading = Reading { parts: &self.parts, session: self.parts.session.lock() };
        reading.keep_shared(tokens);
        let rest = tokens.get(reading.session.tokens.len()..).unwrap_or_default();
        reading.read(rest, &|| None).ok().map(<[f32]>::to_vec)
    }
}

impl Model for LocalModel {
    fn info(&self) -> &ModelInfo {
        &self.parts.info
    }

    fn most_input(&self, request: &ChatRequest) -> u64 {
        match self.prompt(request) {
            Ok(tokens) => u64::try_from(tokens.len()).unwrap_or(u64::MAX),
            Err(_) => llm::estimate::most_input(request, self.info()),
        }
    }

    fn chat<'a>(
        &'a self,
        request: &'a ChatRequest,
        sink: &'a mut dyn Sink,
        stop: &'a Stop,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(async move {
            let (writer, reader) = channel(sink);
            let (parts, request, stop, seed) =
                (Arc::clone(&self.parts), request.clone(), stop.clone(), self.seed);
            let thread = std::thread::Builder::new().name("local model".to_owned());
            let started = thread.spawn(move || {
                let result = parts.answer(&request, seed, &writer, &stop);
                writer.result(result);
            });
            started.map_err(|error| ModelError::Unreachable { message: format!("no thread: {error}") })?;
            reader.await
        })
    }
}

impl Parts {
    fn answer(
        &self,
        request: &ChatRequest,
        seed: u64,
        writer: &Writer,
        stop: &Stop,
    ) -> Result<Response, ModelError> {
        let stopped = || stop.requested().or_else(|| writer.is_abandoned().then_some(StopReason::Cancelled));
        check(request)?;
        let context = self.network.sizes.context;
        // A text that is far too long is not even made tokens.
        let bytes = usize::try_from(bytes_of(request)).unwrap_or(usize::MAX);
        if bytes / self.vocabulary.longest().max(1) > context {
            return Err(too_long(format!("{bytes} bytes do not fit into {context} tokens")));
        }
        let prompt = self.template.tokens(request, &self.vocabulary)?;
        if prompt.len() >= context {
            let tokens = prompt.len();
            return Err(too_long(format!(
                "it has {tokens} tokens, and the context {context} with the answer"
            )));
        }
        let order = Order {
            rules: rules(request)?,
            most: request.max_tokens.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX),
            context,
            temperature: request.temperature.unwrap_or(0.0),
            seed,
            stops: &request.stop,
            prompt,
        };
        let input = u64::try_from(order.prompt.len()).unwrap_or(u64::MAX);
        let mut usage = Usage { input, ..Usage::default() };
        let session = loop {
            if let Some(reason) = stopped() {
                return Err(ModelError::Cancelled { reason, usage: Usage::default() });
            }
            if let Some(session) = self.session.try_lock_for(LOOK) {
                break session;
            }
        };
        let mut reading = Reading { parts: self, session };
        reading.keep_shared(&order.prompt);
        let cached = reading.session.tokens.len();
        usage.cached = u64::try_from(cached).unwrap_or(0);
        let mut predictor = SkipRead { reading, skip: cached };
        let emit = &mut |piece| writer.piece(piece);
        let outcome = run(&mut predictor, &self.vocabulary, &order, emit, &stopped);
        let mut spent = |tokens: usize| {
            usage.output = u64::try_from(tokens).unwrap_or(u64::MAX);
            usage
        };
        let outcome = outcome.map_err(|error| match error {
            RunError::ContextTooLong(shortest) => too_long(format!(
                "the shortest answer of {shortest} tokens does not fit after {input} tokens"
            )),
            RunError::TooFewTokens(shortest) => {
                invalid(format!("`max_tokens` is less than the {shortest} tokens of the shortest answer"))
            }
            RunError::Stopped(reason, tokens) => ModelError::Cancelled { reason, usage: spent(tokens) },
            RunError::NoScores(tokens) => {
                let fault = StreamFault::Malformed("the model returned no numbers".to_owned());
                ModelError::Broken { fault, usage: spent(tokens) }
            }
        })?;
        let mut parts = Vec::new();
        if !outcome.text.is_empty() {
            parts.push(Part::Text(outcome.text));
        }
        if let Some((name, arguments)) = outcome.call {
            let id = format!("call_{}", calls_of(request));
            parts.push(Part::ToolCall(ToolCall {
                id,
                name,
                arguments,
                signature: None,
                model: self.info.name.clone(),
            }));
        }
        Ok(Response {
            model: self.info.name.clone(),
            parts,
            finish: outcome.finish,
            usage: spent(outcome.tokens),
            omitted: if matches!(request.thinking, Effort::Default | Effort::Off) {
                vec![]
            } else {
                vec!["thinking"]
            },
        })
    }
}

impl Reading<'_> {
    /// Keeps of what was read before what these tokens begin with, and leaves at least one of them to read.
    fn keep_shared(&mut self, tokens: &[u32]) {
        let before = self.session.tokens.iter();
        let common = before.zip(tokens).take_while(|(one, other)| one == other).count();
        let common = common.min(tokens.len().saturating_sub(1));
        self.session.tokens.truncate(common);
        self.session.cache.truncate(common, &self.parts.network.sizes);
    }
}

impl Predictor for Reading<'_> {
    fn read(
        &mut self,
        tokens: &[u32],
        stopped: &dyn Fn() -> Option<StopReason>,
    ) -> Result<&[f32], StopReason> {
        let Session { tokens: before, cache, room, logits: scores } = &mut *self.session;
        let (network, level) = (&self.parts.network, self.parts.level);
        for some in tokens.chunks(TOKENS_AT_ONCE) {
            if let Some(reason) = stopped() {
                return Err(reason);
            }
            pass(network, level, some, cache, room);
            before.extend_from_slice(some);
        }
        logits(network, level, room, scores);
        Ok(scores)
    }
}

/// Session that has read the first tokens already.
struct SkipRead<'a> {
    reading: Reading<'a>,
    skip: usize,
}

impl Predictor for SkipRead<'_> {
    fn read(
        &mut self,
        tokens: &[u32],
        stopped: &dyn Fn() -> Option<StopReason>,
    ) -> Result<&[f32], StopReason> {
        let skip = std::mem::take(&mut self.skip);
        self.reading.read(tokens.get(skip..).unwrap_or_default(), stopped)
    }
}

/// Returns the rules of the answer to a request.
fn rules(request: &ChatRequest) -> Result<Rules, ModelError> {
    let refused = |name: &str, fault: &SchemaFault| invalid(format!("`{name}` cannot be called: {fault}"));
    let offered = request.tools.iter().filter(|tool| match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::Required => true,
        ToolChoice::Never => false,
        ToolChoice::Named(name) => tool.name == *name,
    });
    let tools: Vec<_> = offered.map(|tool| (tool.name.as_str(), &tool.schema)).collect();
    let (grammar, call) = if tools.is_empty() {
        (Grammar::new(), None)
    } else {
        let (grammar, call) = grammar::call(tools).map_err(|(name, fault)| refused(&name, &fault))?;
        (grammar, Some(call))
    };
    let must_call = must_call(request);
    let (grammar, format) = match &request.format {
        Some(wanted) if !must_call => {
            let (grammar, format) = grammar::format(grammar, &wanted.schema).map_err(|fault| {
                invalid(format!("the format `{}` cannot be kept to: {fault}", wanted.name))
            })?;
            (grammar, Some(format))
        }
        _ => (grammar, None),
    };
    Ok(Rules { grammar, call, format, must_call })
}

/// Checks what no model could make sense of.
fn check(request: &ChatRequest) -> Result<(), ModelError> {
    if request.messages.iter().all(|message| message.parts.is_empty()) {
        return Err(invalid("there is no message"));
    }
    if request.max_tokens == Some(0) {
        return Err(invalid("`max_tokens` is 0"));
    }
    if request.temperature.is_some_and(|degree| !(0.0..=2.0).contains(&degree)) {
        return Err(invalid("`temperature` is not between 0 and 2"));
    }
    let is_name = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=64).contains(&name.len()) && name.bytes().all(fits)
    };
    if !request.tools.iter().all(|tool| is_name(&tool.name)) {
        return Err(invalid("the name of a tool is not of 1 to 64 letters, digits, `_` and `-`"));
    }
    match &request.tool_choice {
        ToolChoice::Named(name) if !request.tools.iter().any(|tool| tool.name == *name) => {
            Err(invalid("the tool that the model should call is not offered"))
        }
        ToolChoice::Required if request.tools.is_empty() => {
            Err(invalid("the model must call a tool, and none is offered"))
        }
        _ => Ok(()),
    }
}

fn too_long(message: String) -> ModelError {
    ModelError::ContextTooLong { message }
}

/// Returns the number of bytes of a request that surely become tokens.
fn bytes_of(request: &ChatRequest) -> u64 {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let bytes = parts.map(|part| match part {
        Part::Text(text) => text.len(),
        Part::ToolResult(result) => result.text.len(),
        Part::ToolCall(call) => call.arguments.len(),
        Part::Image(_) | Part::Thinking(_) => 0,
    });
    let system = request.system.as_ref().map_or(0, String::len);
    bytes.chain([system]).map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
}

/// Returns the number of calls in the conversation so far.
fn calls_of(request: &ChatRequest) -> usize {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    parts.filter(|part| matches!(part, Part::ToolCall(_))).count()
}
