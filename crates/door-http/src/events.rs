//! Approval requests as they arrive and are answered: `/v1/events`, as server-sent events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{ApprovalError, Approvals, StoredQuestion};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tool::{Code, Retry, ToolError};

use crate::body::{self, Event};
use crate::reply::{self, Reply};
use crate::state::ServerState;

/// Polling interval for changes: short enough that people notice no delay.
const LOOK: Duration = Duration::from_millis(200);

/// `GET /v1/events`: first all pending approval requests, then each new or changed one. While a
/// client listens, calls wait for their answers.
pub(crate) fn follow(shared: &Arc<ServerState>) -> Reply {
    let Ok(place) = shared.followers.clone().try_acquire_owned() else {
        let full = ToolError::new(Code::Quota, "too many event listeners are connected");
        return reply::failure(&full.retry(Retry::AfterMs(1000)));
    };
    let approvals = crate::approvals::of(shared);
    let begun = approvals
        .pay_attention(shared.engine.workspace())
        .and_then(|attention| Ok((attention, approvals.watch()?)));
    let (attention, watch) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            return reply::failure(&ToolError::new(Code::Runtime, error.to_string()).because(error));
        }
    };
    let (events, reply) = reply::events(attention);
    tokio::spawn(tell(shared.clone(), approvals, watch, events, place));
    reply
}

async fn tell(
    shared: Arc<ServerState>,
    approvals: Approvals,
    mut watch: engine::Watch,
    events: mpsc::Sender<Event>,
    _place: OwnedSemaphorePermit,
) {
    let mut known: HashMap<String, &'static str> = HashMap::new();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut beat = Instant::now();
    let mut changed = true;
    loop {
        if changed {
            let (approvals, first) = (approvals.clone(), known.is_empty());
            // The first time only pending requests; later also those that were answered meanwhile.
            let listed = tokio::task::spawn_blocking(move || approvals.list(first)).await;
            match listed {
                Ok(Ok(asked)) => {
                    for asked in news(&mut known, asked, first) {
                        if events.send(asked.into()).await.is_err() {
                            return;
                        }
                    }
                }
                Ok(Err(error)) => return say(&events, &error).await,
                Err(_) => return,
            }
        }
        tokio::select! {
            _ = look.tick() => {}
            () = events.closed() => return,
        }
        if *shared.stopping.borrow() {
            return;
        }
        if beat.elapsed() >= body::HEARTBEAT_INTERVAL {
            beat = Instant::now();
            // A client that has not read the previous events needs no heartbeat.
            drop(events.try_send(body::HEARTBEAT.into()));
        }
        changed = watch.has_changed().unwrap_or(true);
    }
}

/// Returns events for new and changed approval requests, the oldest first.
fn news(
    known: &mut HashMap<String, &'static str>,
    asked: Vec<StoredQuestion>,
    first: bool,
) -> Vec<hyper::body::Bytes> {
    let mut told = Vec::new();
    for asked in asked.into_iter().rev() {
        let (id, state) = (asked.question.id.clone(), asked.state.as_str());
        let before = known.insert(id, state);
        // A request that was answered before this stream began is not news.
        let is_news = before != Some(state) && (first || before.is_some() || state == "waiting");
        if is_news && let Ok(text) = serde_json::to_vec(&asked) {
            told.push(body::event("approval", &text));
        }
    }
    told
}

async fn say(events: &mpsc::Sender<Event>, error: &ApprovalError) {
    let text = json!({ "message": error.to_string() }).to_string();
    // If the client has gone, there is no receiver for the error.
    let _ = events.send(body::event("error", text.as_bytes()).into()).await;
}
