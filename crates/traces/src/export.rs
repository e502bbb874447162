//! Path of a trace from the end of its call to the collector.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{CallTrace, TraceFigures, Tracer};
use fetch::Client;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::{Options, TracesError, spans};

/// Maximum number of attempts to send a batch.
const ATTEMPTS: u32 = 5;
/// Pause before the first retry. Each further pause is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause that a collector may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Sender of the traces of calls.
pub struct Exporter {
    shared: Arc<Shared>,
    /// Sending half of the queue, `None` after `close`.
    queue: Mutex<Option<mpsc::Sender<QueuedCall>>>,
    closing: watch::Sender<bool>,
    ended: Mutex<std_mpsc::Receiver<()>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    options: Options,
    sent: AtomicU64,
    dropped: AtomicU64,
    /// True if the user was warned and no batch has been fully accepted since.
    told: AtomicBool,
}

/// A call in the queue.
struct QueuedCall {
    call: CallTrace,
    trace: [u8; 16],
}

/// Outcome of one attempt.
enum AttemptOutcome {
    /// The collector accepted all spans except `refused`.
    Taken { refused: u64, why: String },
    /// The collector may accept the spans later.
    Later { why: String, after: Option<Duration> },
    /// The collector will never accept the spans.
    Never { why: String },
}

impl Exporter {
    /// Starts the thread that waits for calls. The thread connects when there is something to send.
    ///
    /// # Errors
    /// Returns an error if the options are invalid, the certificates cannot be used or the thread
    /// cannot be started.
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
        let thread = std::thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || {
                runtime.block_on(worker.work());
                // A name that is being resolved by the system cannot be interrupted.
                runtime.shutdown_background();
                // The receiver may have gone.
                let _ = end.send(());
            })
            .map_err(TracesError::Thread)?;
        let (ended, thread) = (Mutex::new(ended), Mutex::new(Some(thread)));
        Ok(Self { shared, queue: Mutex::new(Some(queue)), closing, ended, thread })
    }

    /// Sends the queued spans, as far as the collector accepts them within `patience`. Later spans
    /// are dropped.
    pub fn close(&self, patience: Duration) {
        self.queue.lock().take();
        self.closing.send_replace(true);
        let ended = self.ended.lock().recv_timeout(patience);
        // If the thread did not finish in time, it ends with its present request.
        if ended != Err(std_mpsc::RecvTimeoutError::Timeout) {
            let thread = self.thread.lock().take();
            // The system has printed the message of a panic.
            let _ = thread.map(JoinHandle::join);
        }
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
        let queue = self.queue.lock();
        let taken = queue.as_ref().is_some_and(|queue| queue.try_send(QueuedCall { call, trace }).is_ok());
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

/// Returns random bytes. Without the system's random source all bytes are zero, which makes an
/// invalid trace identifier that the collector refuses.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

/// The part of the exporter that runs on the thread.
struct Worker {
    shared: Arc<Shared>,
    client: Client,
    headers: Vec<(String, String)>,
    calls: mpsc::Receiver<QueuedCall>,
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
                // A closed queue ends the wait at once.
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
                AttemptOutcome::Taken { refused, why } => {
                    if refused == 0 {
                        self.shared.told.store(false, Ordering::Relaxed);
                    } else {
                        self.shared.warn_once(&format!("{refused} spans were refused: {why}"));
                    }
                    break refused.min(count);
                }
                AttemptOutcome::Never { why } => {
                    self.shared.warn_once(&why);
                    break count;
                }
                AttemptOutcome::Later { why, after } => {
                    self.shared.warn_once(&why);
                    if attempt == ATTEMPTS || *self.closed.borrow() {
                        break count;
                    }
                    let wait = after.unwrap_or(pause).min(LONGEST_PAUSE);
                    // `close` ends the pause, and the batch is tried once more.
                    let _ = tokio::time::timeout(wait, self.closed.wait_for(|closed| *closed)).await;
                    attempt += 1;
                    pause *= 2;
                }
            }
        };
        self.shared.sent.fetch_add(count - lost, Ordering::Relaxed);
        self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
    }

    async fn attempt(&self, body: Vec<u8>) -> AttemptOutcome {
        let headers: Vec<_> =
            self.headers.iter().filter_map(|(name, value)| fetch::header(name, value)).collect();
        let timeout = self.shared.options.timeout;
        let later = |why: String| AttemptOutcome::Later { why, after: None };
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
                AttemptOutcome::Taken {
                    refused: u64::try_from(partly.rejected_spans).unwrap_or_default(),
                    why,
                }
            }
            // The OTLP specification allows a retry after these status codes.
            429 | 502 | 503 | 504 => {
                AttemptOutcome::Later { why, after: answer.retry_after.map(Duration::from_secs) }
            }
            _ => AttemptOutcome::Never { why },
        }
    }
}
