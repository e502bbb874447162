//! Everything that a server sends: answers, notifications, and requests of its own.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Core, Failure, answer_message};
use crate::error::{CloseReason, line};
use crate::message::{Message, RpcError, decode};
use crate::requests::{self, Notice, ProgressReport, Refusal, ServerRequests};
use crate::revision::Revision;
use crate::text;

impl Core {
    /// Takes a message from the wire. Returns the ids of the requests that it answers.
    ///
    /// # Errors
    /// A reason to close the connection, which the wire does.
    pub(crate) fn take(self: &Arc<Self>, bytes: &[u8]) -> Result<Vec<u64>, CloseReason> {
        let batches = self.revision().is_some_and(Revision::has_batches);
        let mut answered = Vec::new();
        for message in decode(bytes, batches)? {
            match message {
                Message::Answer { id, outcome } => answered.extend(self.take_answer(id, outcome)?),
                Message::Request { id, method, params } => self.take_request(&id, method, params)?,
                Message::Notification { method, params } => {
                    self.take_notification(&method, params.as_deref())?;
                }
            }
        }
        Ok(answered)
    }

    /// Takes a line of a server's output that is no message.
    pub(crate) fn take_noise(&self, noise: &[u8]) -> Result<(), CloseReason> {
        let lines = {
            let mut state = self.state.lock();
            state.noise = state.noise.saturating_add(1);
            state.noise
        };
        if lines > self.limits.noise {
            return Err(CloseReason::Noise { lines });
        }
        let noise = noise.get(..noise.len().min(text::LONGEST_TITLE)).unwrap_or_default();
        self.listener.notice(Notice::Noise { text: line(&String::from_utf8_lossy(noise)) });
        Ok(())
    }

    fn take_answer(
        &self,
        id: Option<u64>,
        outcome: Result<Box<RawValue>, RpcError>,
    ) -> Result<Option<u64>, CloseReason> {
        let mut state = self.state.lock();
        if let Some(id) = id {
            if let Some(pending) = state.pending.remove(&id) {
                state.last_used = self.timer.now();
                drop(state);
                // The request may have been dropped in this moment.
                let _ = pending.answer.send(outcome.map_err(Failure::Error));
                return Ok(Some(id));
            }
            if let Some(index) = state.withdrawn.iter().position(|withdrawn| *withdrawn == id) {
                state.withdrawn.remove(index);
                return Ok(None);
            }
        }
        state.stray_answers = state.stray_answers.saturating_add(1);
        let count = state.stray_answers;
        if count > self.limits.stray_answers { Err(CloseReason::StrayAnswers { count }) } else { Ok(None) }
    }

    fn take_notification(&self, method: &str, params: Option<&RawValue>) -> Result<(), CloseReason> {
        if !self.allow_notification()? {
            return Ok(());
        }
        // Parameters that cannot be read belong to a notification that means nothing.
        let params: Value =
            params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null);
        let field = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
        let notice = match method {
            "notifications/progress" => {
                self.take_progress(&params);
                return Ok(());
            }
            "notifications/tools/list_changed" => Notice::ToolsChanged,
            "notifications/prompts/list_changed" => Notice::PromptsChanged,
            "notifications/resources/list_changed" => Notice::ResourcesChanged,
            "notifications/resources/updated" => {
                Notice::ResourceUpdated { uri: text::clean_line(field("uri"), text::LONGEST_DESCRIPTION) }
            }
            "notifications/message" => {
                let said = match params.get("data") {
                    Some(Value::String(text)) => line(text),
                    Some(data) => line(&data.to_string()),
                    None => return Ok(()),
                };
                Notice::Log { level: text::clean_line(field("level"), text::LONGEST_TITLE), text: said }
            }
            _ => return Ok(()),
        };
        self.listener.notice(notice);
        Ok(())
    }

    fn take_progress(&self, params: &Value) {
        let Some(progress) = params.get("progress").and_then(Value::as_f64) else { return };
        let sink = {
            let mut state = self.state.lock();
            let token = params.get("progressToken").and_then(Value::as_u64);
            let Some(pending) = token.and_then(|token| state.pending.get_mut(&token)) else { return };
            // The protocol demands that it grows; a server that ignores this tells nothing.
            if pending.reached.is_some_and(|reached| progress <= reached) {
                return;
            }
            pending.reached = Some(progress);
            pending.progress.clone()
        };
        if let Some(sink) = sink {
            let message = params.get("message").and_then(Value::as_str).map(line);
            sink.progress(ProgressReport {
                progress,
                total: params.get("total").and_then(Value::as_f64),
                message,
            });
        }
    }

    /// Returns false if a notification comes too fast and is dropped.
    fn allow_notification(&self) -> Result<bool, CloseReason> {
        let now = self.timer.now();
        match self.state.lock().notifications.take(now) {
            Ok(()) => Ok(true),
            Err(count) if count > self.limits.flood => Err(CloseReason::Flood { count }),
            Err(_) => Ok(false),
        }
    }

    fn take_request(
        self: &Arc<Self>,
        id: &RawValue,
        method: String,
        params: Option<Box<RawValue>>,
    ) -> Result<(), CloseReason> {
        if method == "ping" {
            if self.allow_notification()? {
                self.wire.post(self, answer_message(id, &Ok(json!({}))));
            }
            return Ok(());
        }
        let refusal = {
            let mut state = self.state.lock();
            state.server_requests = state.server_requests.saturating_add(1);
            let count = state.server_requests;
            if count > self.limits.server_requests.saturating_mul(4) {
                return Err(CloseReason::TooManyServerRequests { count });
            }
            let is_idle = state.pending.values().all(|pending| pending.is_background);
            if count > self.limits.server_requests {
                Some("too many requests during one call")
            } else if is_idle && method != "roots/list" {
                Some("nobody calls this server now")
            } else if state.handled_now >= self.limits.server_requests_at_once {
                Some("too many requests at the same time")
            } else {
                state.handled_now += 1;
                None
            }
        };
        if let Some(refusal) = refusal {
            self.wire.post(self, answer_message(id, &Err(Refusal::new(refusal))));
            return Ok(());
        }
        let (core, id) = (self.clone(), id.to_owned());
        let params = params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_else(|| json!({}));
        let is_started = self.tasks.start(async move {
            let answer = core.answer_within_time(&*core.requests, &method, params).await;
            core.state.lock().handled_now -= 1;
            // Waits for the wire only as long as the request itself could have lasted.
            tokio::select! {
                _ = core.wire.send(&core, answer_message(&id, &answer)) => {}
                () = core.timer.sleep(core.limits.server_request) => {}
            }
        });
        if !is_started {
            self.state.lock().handled_now -= 1;
        }
        Ok(())
    }

    /// Answers a request of the server within its time.
    pub(crate) async fn answer_within_time(
        &self,
        requests: &dyn ServerRequests,
        method: &str,
        params: Value,
    ) -> Result<Value, Refusal> {
        tokio::select! {
            biased;
            answer = requests::answer(requests, method, params) => answer,
            () = self.timer.sleep(self.limits.server_request) => Err(Refusal::new("nobody answered in time")),
        }
    }

    /// Counts requests of the server that came within a result.
    pub(crate) fn count_inputs(&self, more: usize) -> Result<(), CloseReason> {
        let mut state = self.state.lock();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        state.server_requests = state.server_requests.saturating_add(more);
        let count = state.server_requests;
        if count > self.limits.server_requests {
            Err(CloseReason::TooManyServerRequests { count })
        } else {
            Ok(())
        }
    }
}
