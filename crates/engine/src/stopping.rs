use tool::{Stop, StopReason};

/// Waits until a stop is requested.
pub(crate) async fn requested(stop: &Stop) -> StopReason {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    stop.on_request(move |reason| {
        // Nobody listens any more: then nobody needs to know.
        let _ = sender.send(reason);
    });
    match receiver.await {
        Ok(reason) => reason,
        // The signal itself is gone, so it will never be given.
        Err(_) => std::future::pending().await,
    }
}

/// Requests a stop when dropped, unless it was disarmed: a caller that goes away takes its call along.
pub(crate) struct StopOnDrop(pub(crate) Option<Stop>);

impl StopOnDrop {
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.request(StopReason::Cancelled);
        }
    }
}
