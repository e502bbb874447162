//! Thread that sends the requests. The caller may or may not run in an async runtime, and checks
//! meanwhile whether to stop.

use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use fetch::{Client, HeaderName, HeaderValue, Uri};
use retrieval::embedder::Failure;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::answer;

/// Maximum size of a response, in bytes: 32 vectors of 3,072 numbers, each written with all its digits.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of requests for one batch if the server is busy, and maximum pause between two of them.
const ATTEMPTS: u32 = 5;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// One request, with the channel for its response.
pub(crate) struct Job {
    pub(crate) body: Vec<u8>,
    pub(crate) said: Sender<Result<Vec<u8>, String>>,
    /// Closed when the caller no longer waits.
    pub(crate) gone: oneshot::Receiver<()>,
}

/// Handle of the thread. The drop of this handle ends the thread and waits for it: no caller is
/// left then, so no request is either.
pub(crate) struct Worker {
    /// Queue of the thread, `None` once it has to end.
    jobs: Option<UnboundedSender<Job>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(url: &Uri, headers: Vec<(HeaderName, HeaderValue)>) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::Failed(format!("{url}: {error}"));
        let client = Client::new(url.clone()).map_err(failed)?.taking(LARGEST_ANSWER);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (jobs, mut waiting) = unbounded_channel();
        let work = async move {
            let asking = RequestSender { client, headers };
            asking.all(&mut waiting).await;
        };
        let thread = thread::Builder::new().name("embeddings".to_owned());
        let work = move || {
            runtime.block_on(work);
            // A name that is being resolved by the system cannot be interrupted.
            runtime.shutdown_background();
        };
        let thread = thread.spawn(work).map_err(failed)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(crate) fn take(&self, job: Job) -> Result<(), Failure> {
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent { Ok(()) } else { Err(Failure::Failed("the request thread has ended".to_owned())) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs.take();
        // The system has printed the message of a panic.
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

struct RequestSender {
    client: Client,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl RequestSender {
    async fn all(&self, waiting: &mut UnboundedReceiver<Job>) {
        while let Some(job) = waiting.recv().await {
            tokio::select! {
                // Poll this branch first, so that no request is sent for a caller that has gone.
                biased;
                _ = job.gone => {}
                told = self.one(job.body) => {
                    // A caller that has just gone needs no response.
                    let _ = job.said.send(told);
                }
            }
        }
    }

    async fn one(&self, body: Vec<u8>) -> Result<Vec<u8>, String> {
        let mut pause = Duration::from_millis(500);
        for attempt in 1.. {
            let asked = tokio::time::timeout(TIMEOUT, self.client.post(self.headers.clone(), body.clone()));
            let answer = match asked.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err(format!("no response within {} seconds", TIMEOUT.as_secs())),
            };
            match answer.status {
                200..=299 => return Ok(answer.body),
                429 | 503 if attempt < ATTEMPTS => {
                    let wanted = answer.retry_after.map_or(pause, Duration::from_secs);
                    tokio::time::sleep(wanted.min(LONGEST_PAUSE)).await;
                    pause *= 2;
                }
                status => return Err(refused(status, &answer.body)),
            }
        }
        Err("the server is overloaded".to_owned())
    }
}

fn refused(status: u16, body: &[u8]) -> String {
    let hint = match status {
        401 | 403 => "; check the key",
        404 => "; check the address and the model name",
        300..=399 => "; redirects are not followed: use the final URL",
        429 | 503 => "; try again later",
        _ => "",
    };
    format!("the server answered {status}: {}{hint}", answer::words(body))
}
