//! Layer that answers reading calls from the cache, for callers that opted in.

use std::sync::Arc;
use std::time::Instant;

use tool::{AnyTool, Data, ToolError};

use crate::cache::Answers;
use crate::call::Call;
use crate::digest::digest;
use crate::fingerprint::Fingerprint;
use crate::{Engine, fingerprint};

/// Conditions that an answer from the cache must meet.
pub(super) struct Lookup {
    /// Digest of the call and everything that it meets except the files that it reads.
    key: String,
    /// State of these files.
    looked: Fingerprint,
    /// Cached answers of the time before these files are read.
    answers: Arc<Answers>,
}

impl Lookup {
    /// Returns the cached answer to the call.
    pub(super) fn recall(&self, call: &mut Call, now: Instant) -> Option<Data> {
        let answer = self.answers.get(&self.key, self.looked, now)?;
        call.cached = true;
        Some(answer)
    }
}

impl Engine {
    /// Inspects everything that the answer could depend on, if it may come from the cache.
    pub(super) async fn look(
        self: &Arc<Self>,
        call: &Call,
        tool: &Arc<dyn AnyTool>,
    ) -> Result<Option<Lookup>, ToolError> {
        let is_plain = call.leased.is_none() && call.approved_by.is_none() && !call.background;
        let reads = tool.spec().class.reads_only || call.passed_as_reading();
        if !call.may_be_recalled() || !is_plain || !reads || self.has_background_commands(call) {
            return Ok(None);
        }
        let met = self.bind(call).await?.plan;
        let rules = (self.policy.profile(), self.policy.mode().as_str());
        let key = digest(&(call.dialect, &call.tool, call.owner(), rules, met));
        let answers = self.cache.answers();
        Ok(self.look_around().await.map(|looked| Lookup { key, looked, answers }))
    }

    async fn look_around(self: &Arc<Self>) -> Option<Fingerprint> {
        let engine = self.clone();
        // If the task panics, nothing is known.
        tokio::task::spawn_blocking(move || fingerprint::look(&engine.policy)).await.ok().flatten()
    }

    /// Caches the answer if nothing has changed since before it was read.
    pub(super) async fn remember(self: &Arc<Self>, call: &Call, answer: &Data, before: Lookup) {
        let nothing_done = call.changes.is_none() && call.checkpoint.is_none();
        if call.truncated || !nothing_done || !before.looked.is_settled {
            return;
        }
        let now = self.look_around().await;
        if now.is_some_and(|now| now.is_as(&before.looked)) {
            before.answers.put(before.key, answer, before.looked, self.timer.now());
        }
    }

    /// Returns true if background commands run: they may change results without changing files.
    fn has_background_commands(&self, call: &Call) -> bool {
        let Some(sessions) = &self.sessions else { return false };
        sessions
            .of(&call.owner())
            .list()
            .iter()
            .any(|listed| !matches!(listed.session.status().phase, sandbox::Phase::Ended(_)))
    }
}
