//! From the end of a call to the collector.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc as std_mpsc};
use std::time::Duration;

use engine::{CallTrace, TraceFigures, Tracer};
use fetch::Client;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::{Options, TracesError, spans};

/// How often a batch is tried in all.
const ATTEMPTS: u32 = 5;
/// How long is waited before it is tried again; twice as long each further time.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest wait that a collector may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Sends the traces of calls.
pub struct Exporter {
    shared: Arc<Shared>,
    /// None once it is closed.
    queue: Mutex<Option<mpsc::Sender<Followed>>>,
    closing: watch::Sender<bool>,
    ended: Mutex<std_mpsc::Receiver<()>>,
}

struct Shared {
    options: Options,
    sent: AtomicU64,
    dropped: AtomicU64,
    /// Whether the user knows that nothing arrives at the moment.
    told: AtomicBool,
}

/// A call on its way.
struct Followed {
    call: CallTrace,
    trace: [u8; 16],
}

/// What became of one attempt.
enum Tried {
    /// The collector took all but so many.
    Taken { refused: u64, why: String },
    /// It may take them later.
    Later { why: String, after: Option<Duration> },
    /// It never will.
    Never { why: String },
}

impl Exporter {
    /// Begins to wait for calls. It connects when there is something to send.
    ///
    /// # Errors
    /// Where the options cannot be right.
    pub fn start(options: Options) -> Result<Self, TracesError> {
        let malformed = || TracesError::Endpoint(options.endpoint.clone());
        let url: fetch::Uri = options.endpoint.parse().map_err(|_| malformed())?;
        if url.host().is_none() || !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(malformed());
        }
        let mut headers = vec![("content-type".to_owned(), "application/x-protobuf".to_owned())];
        headers.extend(options.headers.iter().cloned());
        for (name, value) in &headers {
            fetch::header(name, value).ok_or_else(|| TracesError::Header(name.clone()))?;
        }
        let client = Client::new(url).map_err(TracesError::Certificates)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(TracesError::Thread)?;
        let (queue, calls) = mpsc::channel(options.queue.max(1));
        let (closing, closed) = watch::channel(false);
        let (end, ended) = std_mpsc::channel();
        let told = AtomicBool::default();
        let shared =
            Arc::new(Shared { options, sent: AtomicU64::default(), dropped: AtomicU64::default(), told });
        let worker = Worker { shared: shared.clone(), client, headers, calls, closed };
        std::thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || {
                runtime.block_on(worker.work());
                // Nobody may wait for it.
                let _ = end.send(());
            })
            .map_err(TracesError::Thread)?;
        Ok(Self { shared, queue: Mutex::new(Some(queue)), closing, ended: Mutex::new(ended) })
    }

    /// Sends what is still there, as far as the collector takes it in this time. What ends later is dropped.
    pub fn close(&self, patience: Duration) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.closing.send_replace(true);
        // Whether it came to its end or not, nothing is waited for any more.
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(patience);
    }
}

impl Tracer for Exporter {
    fn ended(&self, call: CallTrace) {
        let (parent, options) = (call.parent.as_ref(), &self.shared.options);
        let trace = parent.map_or_else(random, |parent| parent.trace);
        if !options.sampler.takes(parent, trace) {
            return;
        }
        let count = 1 + call.stages.len() as u64;
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = queue.as_ref().is_some_and(|queue| queue.try_send(Followed { call, trace }).is_ok());
        if !taken {
            self.shared.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn figures(&self) -> TraceFigures {
        TraceFigures {
            sent: self.shared.sent.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    fn warn_once(&self, problem: &str) {
        if !self.told.swap(true, Ordering::Relaxed) {
            (self.options.on_warning)(&format!(
                "traces do not arrive at {}: {problem}; calls are not held up, and this is said once until they arrive again",
                self.options.endpoint
            ));
        }
    }
}

/// Random bytes. Without the system's random source a trace has no number, and the collector refuses it.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

/// What runs on the thread.
struct Worker {
    shared: Arc<Shared>,
    client: Client,
    headers: Vec<(String, String)>,
    calls: mpsc::Receiver<Followed>,
    closed: watch::Receiver<bool>,
}

impl Worker {
    async fn work(mut self) {
        let options = self.shared.options.clone();
        let most = options.batch.max(1);
        while let Some(first) = self.calls.recv().await {
            let mut batch = vec![first];
            let full = Instant::now() + options.delay;
            while batch.len() < most {
                // The queue ends where it is closed, and then nothing is waited for.
                match tokio::time::timeout_at(full, self.calls.recv()).await {
                    Ok(Some(call)) => batch.push(call),
                    Ok(None) | Err(_) => break,
                }
            }
            let spans: Vec<Span> =
                batch.iter().flat_map(|followed| spans::of(&followed.call, followed.trace, random)).collect();
            self.send(spans).await;
        }
    }

    async fn send(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        let body = spans::message(&self.shared.options, spans).encode_to_vec();
        let mut pause = PAUSE;
        let mut attempt = 1;
        let lost = loop {
            match self.attempt(body.clone()).await {
                Tried::Taken { refused, why } => {
                    if refused == 0 {
                        self.shared.told.store(false, Ordering::Relaxed);
                    } else {
                        self.shared.warn_once(&format!("{refused} spans were refused: {why}"));
                    }
                    break refused.min(count);
                }
                Tried::Never { why } => {
                    self.shared.warn_once(&why);
                    break count;
                }
                Tried::Later { why, after } => {
                    self.shared.warn_once(&why);
                    if attempt == ATTEMPTS || *self.closed.borrow() {
                        break count;
                    }
                    let wait = after.unwrap_or(pause).min(LONGEST_PAUSE);
                    // Who closes lets what is there be tried once more.
                    let _ = tokio::time::timeout(wait, self.closed.wait_for(|closed| *closed)).await;
                    attempt += 1;
                    pause *= 2;
                }
            }
        };
        self.shared.sent.fetch_add(count - lost, Ordering::Relaxed);
        self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
    }

    async fn attempt(&self, body: Vec<u8>) -> Tried {
        let headers: Vec<_> =
            self.headers.iter().filter_map(|(name, value)| fetch::header(name, value)).collect();
        let timeout = self.shared.options.timeout;
        let later = |why: String| Tried::Later { why, after: None };
        let answer = match tokio::time::timeout(timeout, self.client.post(headers, body)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return later(error.to_string()),
            Err(_) => return later(format!("nothing was answered within {} ms", timeout.as_millis())),
        };
        let why = format!("it answered {}", answer.status);
        match answer.status {
            200..=299 => {
                let said = ExportTraceServiceResponse::decode(answer.body.as_slice()).unwrap_or_default();
                let partly = said.partial_success.unwrap_or_default();
                let why: String =
                    partly.error_message.chars().filter(|sign| !sign.is_control()).take(200).collect();
                Tried::Taken { refused: u64::try_from(partly.rejected_spans).unwrap_or_default(), why }
            }
            // Those that the specification of OTLP lets be tried again.
            429 | 502 | 503 | 504 => Tried::Later { why, after: answer.retry_after.map(Duration::from_secs) },
            _ => Tried::Never { why },
        }
    }
}
