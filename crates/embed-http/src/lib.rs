//! Vectors from a server with the `/v1/embeddings` interface of `OpenAI`: that service, or a
//! compatible server.
//!
//! The server receives every text that is embedded, so this crate is used only if the user's
//! configuration names a server. The crate reads no configuration and no environment variable, and
//! writes nothing to disk.

mod answer;
mod worker;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use fetch::{HeaderName, HeaderValue, Uri};
use retrieval::embedder::{Embedder, Failure, Model, TextExtent};

use crate::worker::{Job, Worker};

/// Maximum number of texts in one request.
const BATCH: usize = 32;

/// Maximum length of one text, in bytes. A token has at least one byte, and these models take 8,192
/// tokens. Servers refuse a longer text.
const LONGEST_TEXT: usize = 8_000;

/// Interval at which a waiting request checks whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Address of the server, and the model that is requested from it.
#[derive(Clone)]
pub struct Settings {
    /// URL that takes texts, for example `https://api.example.com/v1/embeddings`.
    pub url: String,
    /// Name of the model on the server.
    pub model: String,
    /// Number of components of a vector, which is sent with each request. If it is `None`, the
    /// server chooses.
    pub dimensions: Option<usize>,
    /// Key, which is sent as `Authorization: Bearer`.
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
    /// Opens the model that `settings` name. If the settings do not give the number of dimensions,
    /// one request to the server finds it out.
    ///
    /// # Errors
    /// Returns [`Failure`] if the settings name no server to which a key may be sent, or if the
    /// server does not answer.
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

    /// Returns the hash of everything known here that the vectors depend on: URL, model name and dimensions.
    fn hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.settings.url, &self.settings.model, &self.model.dimensions.to_string()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    fn failed(&self, why: &str) -> Failure {
        // Servers repeat parts of a rejected request, and this message reaches the caller.
        let why = match &self.settings.key {
            Some(key) if !key.is_empty() => why.replace(key.as_str(), "***"),
            _ => why.to_owned(),
        };
        Failure::Failed(format!("{}: {why}", self.settings.url))
    }

    /// Sends one request.
    fn ask(&self, texts: &[&str], stop: &dyn Fn() -> bool) -> Result<Vec<Vec<f32>>, Failure> {
        // Some servers refuse an empty text. A space carries as little meaning.
        let cut: Vec<&str> = texts.iter().map(|text| if text.is_empty() { " " } else { cut(text) }).collect();
        let mut body =
            serde_json::json!({"model": self.settings.model, "input": cut, "encoding_format": "float"});
        if let Some(dimensions) = self.settings.dimensions {
            body["dimensions"] = dimensions.into();
        }
        let (said, hears) = channel();
        // The worker cancels the request when `_waits` is dropped.
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
            Err(RecvTimeoutError::Disconnected) => return Ok(Err("the request failed".to_owned())),
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
                "a vector has {} numbers instead of {}; if the model has changed, rebuild the index",
                other.len(),
                self.model.dimensions
            ))),
            None => Ok(all),
        }
    }

    fn extent(&self, text: &str) -> TextExtent {
        TextExtent { tokens: None, is_cut: cut(text).len() < text.len() }
    }
}

/// Returns the beginning of a text, cut at a character boundary.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or(text)
}

/// Parses the URL. A key may be sent only over TLS or to this machine.
fn address(settings: &Settings) -> Result<Uri, Failure> {
    let failed = |why: &str| Failure::Failed(format!("`{}` {why}", settings.url));
    let url: Uri = settings.url.parse().map_err(|_| failed("is not a URL"))?;
    let host = url.host().ok_or_else(|| failed("has no host"))?;
    let is_here = match fetch::address::Host::parse(host) {
        Ok(fetch::address::Host::Address(address)) => address.is_loopback(),
        Ok(host) => host.is_localhost(),
        Err(_) => false,
    };
    match url.scheme_str() {
        Some("https") => Ok(url),
        Some("http") if is_here || settings.key.is_none() => Ok(url),
        Some("http") => Err(failed("would send the key unencrypted: use https, or a server on this machine")),
        _ => Err(failed("begins with neither https:// nor http://")),
    }
}

fn headers(settings: &Settings) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let mut headers = vec![(fetch::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    if let Some(key) = &settings.key {
        let header = fetch::header("authorization", &format!("Bearer {key}"));
        let unfit = || Failure::Failed("the key has characters that are invalid in headers".to_owned());
        headers.push(header.ok_or_else(unfit)?);
    }
    Ok(headers)
}
