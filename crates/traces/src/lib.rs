//! Sends what traces tell of calls to a collector: OTLP over HTTP, in protobuf.
//!
//! [`Exporter`] has a thread of its own, and a queue that is bounded in the number of calls: a collector that is slow, or not there,
//! costs spans and never a call. What is lost is counted, and each outage is told of once.
//!
//! It reads no environment and no configuration; what a span may say is decided in the engine.

mod export;
mod sampler;
mod spans;

use std::sync::Arc;
use std::time::Duration;

pub use export::Exporter;
pub use sampler::{Sampler, Share};

/// Where traces go, and how.
#[derive(Clone)]
pub struct Options {
    /// The URL that takes them.
    pub endpoint: String,
    /// What every request to it says beside, such as who sends it.
    pub headers: Vec<(String, String)>,
    /// What the program is, by the names of OpenTelemetry's conventions; `service.name` at least.
    pub resource: Vec<(String, String)>,
    /// The version of the program.
    pub version: &'static str,
    /// Which calls are followed.
    pub sampler: Sampler,
    /// How long the collector may take for one request.
    pub timeout: Duration,
    /// How long spans wait for others to be sent with.
    pub delay: Duration,
    /// Calls that may wait to be sent; what more there are is dropped.
    pub queue: usize,
    /// Calls that are sent together at most.
    pub batch: usize,
    /// Hears what goes wrong, in one sentence.
    pub on_warning: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// The values that OpenTelemetry's specification has where nothing else is said.
    pub fn new(endpoint: String) -> Self {
        Self {
            endpoint,
            headers: Vec::new(),
            resource: vec![("service.name".to_owned(), "handfast".to_owned())],
            version: "",
            sampler: Sampler::default(),
            timeout: Duration::from_secs(10),
            delay: Duration::from_secs(5),
            queue: 2048,
            batch: 512,
            on_warning: Arc::new(|_| {}),
        }
    }
}

/// Why traces cannot be sent as is said.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// the endpoint is no URL
    #[error("`{0}` is no http or https URL, so no traces are sent")]
    Endpoint(String),
    /// a header cannot be sent
    #[error("the header `{0}` cannot be sent, so no traces are")]
    Header(String),
    /// the certificates of this system cannot be used
    #[error("the certificates of this system cannot be used, so no traces are sent")]
    Certificates(#[source] std::io::Error),
    /// the thread that sends them cannot be started
    #[error("what sends traces cannot be started")]
    Thread(#[source] std::io::Error),
}
