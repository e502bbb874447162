//! Export of the traces of calls to a collector: OTLP over HTTP, in protobuf.
//!
//! [`Exporter`] has its own thread and a queue that is bounded in the number of calls. A slow or
//! unreachable collector costs spans and never delays a call. Lost spans are counted, and each
//! outage is reported once.
//!
//! This crate reads no environment variable and no configuration. The engine decides what a span
//! may contain.

mod export;
mod sampler;
mod spans;

use std::sync::Arc;
use std::time::Duration;

pub use export::Exporter;
pub use sampler::{Sampler, Share};

/// Destination of the traces, and limits of the export.
#[derive(Clone)]
pub struct Options {
    /// URL of the collector.
    pub endpoint: String,
    /// Headers that are added to every request, for example for authentication.
    pub headers: Vec<(String, String)>,
    /// Attributes of the program, by the names of OpenTelemetry's conventions; at least `service.name`.
    pub resource: Vec<(String, String)>,
    /// Version of the program.
    pub version: &'static str,
    /// Rule that selects the calls that are sampled.
    pub sampler: Sampler,
    /// Timeout of one request to the collector.
    pub timeout: Duration,
    /// Time for which spans wait for others to be sent with them.
    pub delay: Duration,
    /// Maximum number of calls that wait to be sent. Further calls are dropped.
    pub queue: usize,
    /// Maximum number of calls that are sent together.
    pub batch: usize,
    /// Receives each warning, as one sentence.
    pub on_warning: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// Returns options with the default values of OpenTelemetry's specification.
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

/// The reason why traces cannot be sent with the given options.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is not an http or https URL.
    #[error("`{0}` is no http or https URL, so no traces are sent")]
    Endpoint(String),
    /// A header cannot be sent.
    #[error("the header `{0}` cannot be sent, so no traces are")]
    Header(String),
    /// The certificates of this system cannot be used.
    #[error("the certificates of this system cannot be used, so no traces are sent")]
    Certificates(#[source] std::io::Error),
    /// The thread that sends traces cannot be started.
    #[error("what sends traces cannot be started")]
    Thread(#[source] std::io::Error),
}
