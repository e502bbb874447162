//! Bounds on what a page can make this program hold, wait for or do.

use std::time::Duration;

/// Maximum number of open tabs of a session.
pub const TABS: usize = 20;
/// Maximum number of frames that are known of a tab.
pub const FRAMES: usize = 500;
/// Maximum number of dialogs in one action. A page that opens more is stopped.
pub const DIALOGS: u32 = 50;
/// Number of entries that the log of a tab keeps.
pub const LOG_ENTRIES: usize = 1000;
/// Number of happenings that a tab keeps for reports.
pub const HAPPENINGS: usize = 200;
/// Number of downloads that a session remembers.
pub const DOWNLOADS: usize = 200;
/// Number of loads of the main frame that a tab remembers.
pub const LOADS: usize = 50;
/// Number of requests in flight that a tab keeps track of.
pub const REQUESTS: usize = 2000;

/// Maximum size of a title in bytes.
pub const TITLE: usize = 500;
/// Maximum size of a URL in bytes, as it is kept and reported.
pub const URL: usize = 2000;
/// Maximum size of a text of a console, an error or a dialog in bytes.
pub const TEXT: usize = 2000;
/// Maximum size of the name of a file or a frame in bytes.
pub const NAME: usize = 255;

/// Time in which a new tab is set up.
pub const SETUP: Duration = Duration::from_secs(15);
/// Time in which a tab closes.
pub const CLOSING: Duration = Duration::from_secs(5);
/// Time in which a page is unloaded before its tab closes. Chromium itself gives it 500 ms
/// (`kUnloadTimeout` of its `render_frame_host_impl.cc`).
pub const UNLOADING: Duration = Duration::from_secs(1);
/// Time after a document that a page has opened by itself in which it may open the next one.
pub const RESTLESS: Duration = Duration::from_secs(1);
/// Time in which the process of a page ends, before that is asked for again.
pub const CRASH: Duration = Duration::from_millis(200);
/// Maximum time to settle after an action.
pub const SETTLE: Duration = Duration::from_secs(5);
/// Maximum time for two frames of animation. A hidden or busy page draws none.
pub const TWO_FRAMES: Duration = Duration::from_millis(500);
/// Maximum time that a navigation waits for requests in flight after the document has loaded.
pub const QUIET_AFTER_LOAD: Duration = Duration::from_secs(2);
/// Time in which a script must answer that only looks at the page.
pub const SCRIPT: Duration = Duration::from_secs(10);
/// Time in which a picture or a print must be ready.
pub const PICTURE: Duration = Duration::from_mins(1);
/// Maximum height of a picture in CSS pixels. Chromium draws no larger surface.
pub const PICTURE_HEIGHT: f64 = 16_384.0;

/// Cuts a text to at most `limit` bytes, at the boundary of a character, and marks the cut.
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("äöüäöü", 8), "äö…");
        assert!(cut(&"€".repeat(1000), 100).len() <= 100);
    }
}
