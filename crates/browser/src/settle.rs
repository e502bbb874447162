//! Settling after an action: two frames of animation, and the end of what the action has begun.

use std::time::Duration;

use tokio::time::Instant;

use crate::frame::World;
use crate::limits;
use crate::report::ActionMark;
use crate::tab::Tab;

/// Function that ends once the page has drawn two frames. What an event handler schedules has begun
/// by then.
const TWO_FRAMES: &str =
    "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";

impl Tab {
    /// Waits until the page has settled after an action: it has drawn two frames, and the
    /// navigations and requests that began since the mark have ended, also those that these cause.
    ///
    /// Waits at most `limit`, and never longer than [`limits::SETTLE`]. Returns false if something
    /// was still under way then. Streams and web sockets are not waited for.
    pub async fn settle(&self, action: &ActionMark, limit: Duration) -> bool {
        let deadline = Instant::now() + limit.min(limits::SETTLE);
        loop {
            let before = self.read(|state| state.requests.mark());
            self.two_frames(deadline).await;
            self.caught_up().await;
            let (is_quiet, after) = self.read(|state| (state.is_quiet(action), state.requests.mark()));
            if is_quiet && before == after || self.is_closed() {
                return true;
            }
            let quiet = self.wait(deadline, |state| state.is_quiet(action).then_some(())).await;
            if quiet.is_none() || Instant::now() >= deadline {
                return self.is_closed();
            }
        }
    }

    /// Waits until the page has drawn two frames, as far as it draws any.
    async fn two_frames(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now()).min(limits::TWO_FRAMES);
        let drawing = self.main_frame();
        let drawn = drawing.evaluate_within::<bool>(World::Isolated, TWO_FRAMES, Vec::new(), left * 2);
        // A page that navigates, crashes or is busy draws nothing, and that is no error here.
        let _ = tokio::time::timeout(left, drawn).await;
    }
}
