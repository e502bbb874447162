//! One call at a connection to a server, and what its server asks for meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use tokio::sync::watch;
use tool::{CallerForms, InnerCalls};

/// Call that runs at a connection.
pub(crate) struct RunningCall {
    /// Calls within this one, by which a model is asked.
    pub(crate) inner: Option<Arc<dyn InnerCalls>>,
    /// True if the caller's program offers a model.
    pub(crate) offers_model: bool,
    /// Forms of the caller's program.
    pub(crate) forms: Option<Arc<dyn CallerForms>>,
    /// Number of requests to a model.
    samples: AtomicU32,
    /// Number of requests to show a form.
    asked: AtomicU32,
    /// Number of requests of the server that wait for an answer.
    waiting: AtomicUsize,
    ended: watch::Sender<bool>,
}

/// Mark that a request of the server waits for an answer, until it is dropped.
pub(crate) struct Waiting(Arc<RunningCall>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl std::ops::Deref for Waiting {
    type Target = RunningCall;

    fn deref(&self) -> &RunningCall {
        &self.0
    }
}

impl RunningCall {
    /// Creates a call.
    pub(crate) fn new(
        inner: Option<Arc<dyn InnerCalls>>,
        offers_model: bool,
        forms: Option<Arc<dyn CallerForms>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            offers_model,
            forms,
            samples: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            ended: watch::Sender::new(false),
        })
    }

    /// Marks that a request of the server waits for an answer.
    pub(crate) fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self.clone())
    }

    /// Returns true if a request of the server waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Counts a request to a model. Returns the number of earlier ones.
    pub(crate) fn count_sample(&self) -> u32 {
        self.samples.fetch_add(1, Ordering::SeqCst)
    }

    /// Counts a request to show a form. Returns the number of earlier ones.
    pub(crate) fn count_form(&self) -> u32 {
        self.asked.fetch_add(1, Ordering::SeqCst)
    }

    /// Ends what the server still asks for: the call needs no answer any longer.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Waits for an answer, or returns `None` as soon as the call has ended.
    pub(crate) async fn unless_ended<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let mut ended = self.ended.subscribe();
        tokio::select! {
            biased;
            // The sender lives in this value.
            _ = ended.wait_for(|has_ended| *has_ended) => None,
            answer = answer => Some(answer),
        }
    }

    /// Returns warnings about what the server asked for, without its name.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let samples = self.samples.load(Ordering::SeqCst);
        if samples > 0 {
            warnings.push(format!("asked for a model {samples} times"));
        }
        if self.asked.load(Ordering::SeqCst) > 0 {
            warnings.push(
                match self.forms {
                    Some(_) => "asked to show forms to the user",
                    None => {
                        "wanted to show a form, which the caller's program cannot show, so it was cancelled"
                    }
                }
                .to_owned(),
            );
        }
        warnings
    }
}
