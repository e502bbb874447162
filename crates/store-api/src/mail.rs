//! Mail between agents, shared by all processes of a state.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::StoreError;
use crate::schedules::as_text;

/// Maximum number of bytes of a mail's body.
pub const MAIL_BYTES_MAX: usize = 1024 * 1024;

/// A mail as it is sent. The body must have passed the redaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMail {
    /// Workspace of both agents.
    pub workspace: PathBuf,
    /// Sender.
    pub from: String,
    /// Receiver. Whether there is one is not the store's question.
    pub to: String,
    /// Priority.
    pub priority: Priority,
    /// Text.
    pub body: String,
    /// Id of the mail that it answers.
    pub in_reply_to: Option<i64>,
    /// Time of the sending.
    pub sent_at: Timestamp,
    /// Time from which it is not delivered any more.
    pub deadline: Option<Timestamp>,
}

/// A mail. All times are kept in whole microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MailRow {
    /// Id, which rises with every mail of the store.
    pub id: i64,
    /// Workspace of both agents.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Priority.
    pub priority: Priority,
    /// Text.
    pub body: String,
    /// Id of the mail that it answers.
    pub in_reply_to: Option<i64>,
    /// Time of the sending.
    pub sent_at: Timestamp,
    /// Time from which it is not delivered any more.
    pub deadline: Option<Timestamp>,
    /// State of the mail.
    pub state: MailState,
    /// End of the claim's lease, while the mail is claimed.
    pub claimed_until: Option<Timestamp>,
    /// Fence: each claim has a higher one, and voids those before it. 0 before the first claim.
    pub epoch: u32,
    /// Reason why it is dead.
    pub dead_reason: Option<String>,
}

/// Priority of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Standard.
    Standard,
    /// High: it is handed out before all standard ones.
    High,
}

/// State of a mail. The first two are open: the receiver does not have the mail yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MailState {
    /// Waiting for a claim.
    Waiting,
    /// Claimed, and not acknowledged. When the lease ends, it is handed out again.
    Claimed,
    /// Delivered to its receiver.
    Delivered,
    /// Delivered and answered.
    Answered,
    /// Never delivered.
    Dead,
}

/// Outcome of sending a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The mail with this id waits.
    Sent(i64),
    /// The receiver has its maximum of open mails, from all senders or from this one; nothing was changed.
    Full,
}

impl Priority {
    /// Returns the word stored in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::High => "high",
        }
    }
}

impl FromStr for Priority {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Standard, Self::High].into_iter().find(|priority| priority.as_str() == text).ok_or(())
    }
}

impl MailState {
    /// Returns the word stored in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Claimed => "claimed",
            Self::Delivered => "delivered",
            Self::Answered => "answered",
            Self::Dead => "dead",
        }
    }
}

impl FromStr for MailState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Waiting, Self::Claimed, Self::Delivered, Self::Answered, Self::Dead]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(())
    }
}

/// The mail of a store. A mailbox is a receiver in a workspace.
///
/// The mails of one sender to one receiver with one priority form a lane. Only the first open mail of a
/// lane is handed out, so that no crash changes their order.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait MailStore: Send + Sync {
    /// Sends a mail, unless the receiver has its maximum of open mails: `most_waiting_per_receiver` in all,
    /// and `most_waiting_per_sender_and_receiver` of this sender.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] if the body has more than [`MAIL_BYTES_MAX`] bytes.
    fn send(
        &self,
        new: &NewMail,
        most_waiting_per_receiver: u32,
        most_waiting_per_sender_and_receiver: u32,
    ) -> Result<SendOutcome, StoreError>;

    /// Claims the first open mail of each lane of a mailbox, those of high priority first, and otherwise in
    /// the order of their ids. A claimed one is left out until its lease ends, and with it the rest of its
    /// lane. Mails past their deadline become dead first. Among all callers in all processes, one claims a
    /// mail at a time.
    fn claim(
        &self,
        to: &str,
        workspace: &Path,
        now: Timestamp,
        lease: SignedDuration,
        most: u32,
    ) -> Result<Vec<MailRow>, StoreError>;

    /// Acknowledges that the receiver has a claimed mail. A lease that has ended is no obstacle while nobody
    /// else has claimed the mail. Returns false if the claim is void, or was acknowledged before.
    fn delivered(&self, id: i64, epoch: u32) -> Result<bool, StoreError>;

    /// Answers a delivered mail: sends the reply to its sender, with its priority and without a deadline, and
    /// returns the reply's id. Returns `None`, and changes nothing, if the mail is not a delivered one to
    /// `from`, or was answered before. No maximum applies, since every reply has a mail that was sent.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] as for [`send`](Self::send).
    fn answer(&self, id: i64, from: &str, body: &str, now: Timestamp) -> Result<Option<i64>, StoreError>;

    /// Returns one mail.
    fn find(&self, id: i64) -> Result<Option<MailRow>, StoreError>;

    /// Returns the first reply to a mail, whatever its state is.
    fn replies(&self, in_reply_to: i64) -> Result<Option<MailRow>, StoreError>;

    /// Delivers the first reply to a mail that is addressed to `to`, if it is still open, out of the order of
    /// its lane: also if earlier mails of the lane wait, if somebody has claimed it, and past its deadline.
    /// Its claim is void, and the rest of the lane keeps its order. Among all callers in all processes, one
    /// gets a reply, and so it does from [`delivered`](Self::delivered). Returns `None`, and changes nothing,
    /// if there is no such reply, or if it is not open.
    fn take_reply(&self, in_reply_to: i64, to: &str) -> Result<Option<MailRow>, StoreError>;

    /// Buries the open mails past their deadline, with the reason `deadline`, except those that are claimed
    /// under a lease that has not ended. Returns their number.
    fn expire(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Buries all open mails of a mailbox whose receiver has ended, also those that are claimed. Returns
    /// their number.
    fn kill_of(&self, workspace: &Path, receiver: &str, reason: &str) -> Result<u64, StoreError>;

    /// Lists the dead mails of a workspace, the newest first.
    fn dead(&self, workspace: &Path, limit: u32) -> Result<Vec<MailRow>, StoreError>;

    /// Returns the number of open mails of a mailbox.
    fn waiting(&self, workspace: &Path, to: &str) -> Result<u64, StoreError>;

    /// Deletes the mails sent before a time that are not open. Returns their number.
    fn purge(&self, before: Timestamp) -> Result<u64, StoreError>;
}
