//! Progress notifications of one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::time::Instant;
use tool::{ByteReservation, Progress, visible};

use crate::active_request::ActiveRequest;
use crate::id::Id;
use crate::outbox::{Message, Outbox};

/// Minimum interval between two notifications of one call: four per second are as many as a person
/// can follow.
const LEAST_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of the heartbeats of a call without own reports: well below the 60 seconds after which
/// the official clients give up a silent call.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);

/// Increment of a heartbeat after a tool's own report: progress must increase even without real progress.
const STEP: f64 = 0.001;

/// Maximum number of characters of a message.
const LONGEST_MESSAGE: usize = 500;

/// Sends the progress of one call, until it is closed.
pub(crate) struct Reporter {
    token: Id,
    outbox: Outbox,
    started: Instant,
    state: Mutex<State>,
    unwritten: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    last: Option<f64>,
    sent: Option<Instant>,
    reported: bool,
    closed: bool,
}

impl Reporter {
    pub(crate) fn new(token: Id, outbox: Outbox) -> Self {
        let unwritten = Arc::new(AtomicBool::new(false));
        Self { token, outbox, started: Instant::now(), state: Mutex::default(), unwritten }
    }

    /// Returns the reporter of a request, if its client asks for progress.
    pub(crate) fn of(turn: &ActiveRequest) -> Option<Arc<Self>> {
        let token = turn.progress.clone()?;
        Some(Arc::new(Self::new(token, turn.line.outbox.clone())))
    }

    /// Reports that the call is still running.
    pub(crate) fn beat(&self) {
        let mut state = self.state();
        let elapsed = self.started.elapsed();
        if state.reported {
            let next = state.last.unwrap_or_default() + STEP;
            self.send(&mut state, next, None, None);
        } else {
            let message = format!("running for {} s", elapsed.as_secs());
            self.send(&mut state, elapsed.as_secs_f64().floor(), None, Some(&message));
        }
    }

    /// Stops all further notifications. Notifications sent before this returns precede later
    /// messages in the outbox.
    pub(crate) fn close(&self) {
        self.state().closed = true;
    }

    fn send(&self, state: &mut State, done: f64, total: Option<u64>, message: Option<&str>) {
        let increased = state.last.is_none_or(|last| done > last);
        let due = state.sent.is_none_or(|sent| sent.elapsed() >= LEAST_INTERVAL);
        // Send no further notification while the previous one is unread.
        if state.closed || !increased || !due || self.unwritten.load(Ordering::Acquire) {
            return;
        }
        state.last = Some(done);
        state.sent = Some(Instant::now());
        let mut params = json!({"progress": done});
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        if let Some(message) = message {
            params["message"] = Value::String(visible(message).chars().take(LONGEST_MESSAGE).collect());
        }
        let notification = Message::of_progress(&params, self.token.clone());
        self.unwritten.store(true, Ordering::Release);
        let written = ByteReservation(Some(Box::new(WriteMark(self.unwritten.clone()))));
        self.outbox.put(notification, written);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Progress for Reporter {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        let mut state = self.state();
        state.reported = true;
        #[expect(clippy::cast_precision_loss, reason = "beyond 2^53 nobody tells two steps apart")]
        let done = done as f64;
        let message = Some(message).filter(|message| !message.is_empty());
        self.send(&mut state, done, total, message);
    }
}

/// Clears the flag of an unwritten notification on drop.
struct WriteMark(Arc<AtomicBool>);

impl Drop for WriteMark {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader, Lines};

    use super::*;

    type Sent = Lines<BufReader<tokio::io::DuplexStream>>;

    fn reporter() -> (Reporter, Sent) {
        let (outbox, mail) = crate::outbox::outbox();
        let (client, server) = tokio::io::duplex(10_000);
        tokio::spawn(mail.deliver(server, |_| None));
        let token = Id::read(serde_json::value::to_raw_value("t").unwrap()).unwrap().unwrap();
        (Reporter::new(token, outbox), BufReader::new(client).lines())
    }

    async fn all(reporter: Reporter, mut sent: Sent) -> Vec<String> {
        drop(reporter);
        let mut found = Vec::new();
        while let Some(line) = sent.next_line().await.unwrap() {
            let message: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], "t");
            let text = message["params"]["message"].as_str().unwrap_or("-");
            found.push(format!("{} {text}", message["params"]["progress"]));
        }
        found
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_call_says_that_it_runs() {
        let (reporter, sent) = reporter();
        for _ in 0..3 {
            tokio::time::advance(HEARTBEAT).await;
            reporter.beat();
            tokio::task::yield_now().await;
        }
        assert_eq!(
            all(reporter, sent).await,
            ["5.0 running for 5 s", "10.0 running for 10 s", "15.0 running for 15 s"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn progress_only_grows_and_is_not_sent_more_than_four_times_a_second() {
        let (reporter, sent) = reporter();
        for step in 0..1000 {
            reporter.report(step, Some(1000), "step");
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        tokio::time::advance(LEAST_INTERVAL).await;
        reporter.report(3, None, "backwards");
        reporter.beat();
        tokio::task::yield_now().await;
        assert_eq!(
            all(reporter, sent).await,
            ["0.0 step", "250.0 step", "500.0 step", "750.0 step", "750.001 -"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_after_the_end() {
        let (reporter, sent) = reporter();
        reporter.report(1, None, "\x1b[2K\u{202e}");
        reporter.close();
        tokio::time::advance(HEARTBEAT).await;
        reporter.report(2, None, "");
        reporter.beat();
        assert_eq!(all(reporter, sent).await, [r"1.0 \u{1b}[2K\u{202e}"], "and nothing in a message acts");
    }
}
