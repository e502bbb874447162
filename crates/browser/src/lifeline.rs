//! The end of a connection with the last handle of its browser.

use cdp::Connection;

/// Owner of a connection, shared by the handles of a browser and its sessions. When the last of
/// them is dropped, the streams are closed, and the browser ends.
#[derive(Debug)]
pub(crate) struct Lifeline(pub(crate) Connection);

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.0.shut();
    }
}
