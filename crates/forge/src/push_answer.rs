//! Git's own answer to a push that is refused, which git prints with the reason.

use crate::pkt_line;
use crate::push::Push;

/// Content type of the answer.
const TYPE: &str = "application/x-git-receive-pack-result";

/// Channels of the side band: data, and messages for the user.
const DATA: u8 = 1;
const MESSAGE: u8 = 2;

/// Maximum number of bytes of data in one line of the side band that every client takes.
const PART: usize = 990;

impl Push {
    /// Returns the type and the body of an answer that refuses every ref of the push. Returns
    /// `None` if the client did not ask for a report.
    pub fn refusal(&self, reason: &str) -> Option<(&'static str, Vec<u8>)> {
        let can = |name: &str| self.capabilities.iter().any(|capability| capability == name);
        if !can("report-status") && !can("report-status-v2") {
            return None;
        }
        let reason: String =
            reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let has_messages = can("side-band-64k") || can("side-band");
        let why = if has_messages { "refused by handfast" } else { reason.as_str() };
        let mut report = Vec::new();
        pkt_line::write(b"unpack ok\n", &mut report);
        for command in &self.commands {
            pkt_line::write(format!("ng {} {why}\n", command.name).as_bytes(), &mut report);
        }
        report.extend_from_slice(b"0000");
        if !has_messages {
            return Some((TYPE, report));
        }
        let mut body = Vec::new();
        let mut send = |channel: u8, data: &[u8]| {
            for part in data.chunks(PART) {
                pkt_line::write(&[&[channel], part].concat(), &mut body);
            }
        };
        send(MESSAGE, format!("handfast: {reason}\n").as_bytes());
        send(DATA, &report);
        body.extend_from_slice(b"0000");
        Some((TYPE, body))
    }
}
