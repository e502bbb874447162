//! Vectors from a server with `OpenAI`'s `/v1/embeddings`: that service itself, or one of one's own that speaks like it.
//!
//! Every text that is embedded is sent there, so nothing comes this way unless its user's configuration names the server.
//! It reads no configuration and no environment, and keeps nothing on disk.

mod answer;
mod worker;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use embed::{Embedder, Failure, Model};
use fetch::{HeaderName, HeaderValue, Uri};

use crate::worker::{Job, Worker};

/// Texts of one request.
const BATCH: usize = 32;

/// Bytes of one text: a token has at least one byte, and such models take 8,192 tokens; servers refuse what is longer.
const LONGEST_TEXT: usize = 8_000;

/// How often it is asked whether to stop while a request is under way.
const LOOK: Duration = Duration::from_millis(20);

/// Which server, and what it is asked for.
#[derive(Clone)]
pub struct Settings {
    /// Where it takes texts, as in `https://api.example.com/v1/embeddings`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The numbers of a vector; the server is asked for so many. Without it, as many as the server gives.
    pub dimensions: Option<usize>,
    /// What is sent as `Authorization: Bearer`.
    pub key: Option<String>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, model, dimensions, key } = self;
        let key = key.as_ref().map(|_| "***");
        write!(formatter, "{model} ({dimensions:?}) at {url} with {key:?}")
    }
}

/// A model on a server.
pub struct Remote {
    settings: Settings,
    model: Model,
    worker: Worker,
}

impl Remote {
    /// The model that these settings name. Where they do not say how long its vectors are, the server is asked once.
    ///
    /// # Errors
    /// [`Failure`] where the settings name no server that a key may go to, or where the server does not answer.
    pub fn open(settings: Settings, stop: &dyn Fn() -> bool) -> Result<Self, Failure> {
        let worker = Worker::start(&address(&settings)?, headers(&settings)?)?;
        let model = Model { name: settings.model.clone(), hash: [0; 32], dimensions: 0 };
        let mut remote = Self { settings, model, worker };
        let dimensions = match remote.settings.dimensions {
            Some(dimensions) => dimensions,
            None => remote.ask(&["dimensions"], stop)?.first().map_or(0, Vec::len),
        };
        if dimensions == 0 {
            return Err(remote.failed("its vectors have no numbers"));
        }
        remote.model.dimensions = dimensions;
        remote.model.hash = remote.hash();
        Ok(remote)
    }

    /// What its vectors depend on, as far as anyone here can tell.
    fn hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.settings.url, &self.settings.model, &self.model.dimensions.to_string()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    fn failed(&self, why: &str) -> Failure {
        // Servers repeat what they do not like, and this goes to whoever asked.
        let why = match &self.settings.key {
            Some(key) if !key.is_empty() => why.replace(key.as_str(), "***"),
            _ => why.to_owned(),
        };
        Failure::Failed(format!("{}: {why}", self.settings.url))
    }

    /// One request.
    fn ask(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
        // An empty text is refused by some servers; a space means as little.
        let cut: Vec<&str> = texts.iter().map(|text| if text.is_empty() { " " } else { cut(text) }).collect();
        let mut body =
            serde_json::json!({"model": self.settings.model, "input": cut, "encoding_format": "float"});
        if let Some(dimensions) = self.settings.dimensions {
            body["dimensions"] = dimensions.into();
        }
        let (said, hears) = channel();
        // The request ends where this goes.
        let (_waits, gone) = tokio::sync::oneshot::channel();
        self.worker.take(Job { body: body.to_string().into_bytes(), said, gone })?;
        let told = wait(&hears, stop);
        let vectors = told?.and_then(|body| answer::vectors(&body, texts.len()));
        vectors.map_err(|why| self.failed(&why))
    }
}

fn wait(
    hears: &Receiver<Result<Vec<u8>, String>>,
    stop: &dyn Fn() -> bool,
) -> Result<Result<Vec<u8>, String>, Failure> {
    loop {
        match hears.recv_timeout(LOOK) {
            Ok(told) => return Ok(told),
            Err(RecvTimeoutError::Disconnected) => return Ok(Err("the request broke off".to_owned())),
            Err(RecvTimeoutError::Timeout) if stop() => return Err(Failure::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl Embedder for Remote {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
        let mut all = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            if stop() {
                return Err(Failure::Stopped);
            }
            all.extend(self.ask(batch, stop)?);
        }
        match all.iter().find(|vector| vector.len() != self.model.dimensions) {
            Some(other) => Err(self.failed(&format!(
                "a vector has {} numbers in place of {}; if the model there has changed, index anew",
                other.len(),
                self.model.dimensions
            ))),
            None => Ok(all),
        }
    }
}

/// The beginning of a text, cut between characters.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or(text)
}

/// A key and texts go over TLS, or stay on this machine.
fn address(settings: &Settings) -> Result<Uri, Failure> {
    let failed = |why: &str| Failure::Failed(format!("`{}` {why}", settings.url));
    let url: Uri = settings.url.parse().map_err(|_| failed("is no URL"))?;
    let host = url.host().ok_or_else(|| failed("has no host"))?;
    let is_here = match fetch::address::Host::parse(host) {
        Ok(fetch::address::Host::Address(address)) => address.is_loopback(),
        Ok(host) => host.is_localhost(),
        Err(_) => false,
    };
    match url.scheme_str() {
        Some("https") => Ok(url),
        Some("http") if is_here || settings.key.is_none() => Ok(url),
        Some("http") => Err(failed("would carry the key in clear: use https, or a server on this machine")),
        _ => Err(failed("begins with neither https:// nor http://")),
    }
}

fn headers(settings: &Settings) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let mut headers = vec![(fetch::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    if let Some(key) = &settings.key {
        let header = fetch::header("authorization", &format!("Bearer {key}"));
        let unfit = || Failure::Failed("the key holds characters that no header may have".to_owned());
        headers.push(header.ok_or_else(unfit)?);
    }
    Ok(headers)
}
