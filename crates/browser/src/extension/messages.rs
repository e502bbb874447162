//! Messages between the extension and this program: JSON in text frames.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::extension::methods::MethodLevel;

/// A message of the extension before it is admitted.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Greeting {
    /// Proves that it has the key.
    Prove { nonce: String, proof: String },
    /// Asks to pair, and says its public key.
    Pair { nonce: String, public: String },
    /// Proves that its user has typed the code.
    Confirm { proof: String },
}

/// A message to the extension before it is admitted.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Welcome<'a> {
    /// Asks for a proof.
    Challenge { protocol: u32, nonce: &'a str },
    /// Answers a proof by the own one. `instance` is new at each listener: the extension attaches its debugger anew for another one.
    Proved { proof: &'a str, instance: &'a str },
    /// Answers the wish to pair by the own public key, with the proof that this program has the code.
    Offer { public: &'a str, proof: &'a str },
    /// Says that the extension is paired.
    Paired,
    /// Says why the extension is not admitted. The connection ends.
    Refused { reason: Refusal, message: &'a str },
}

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Refusal {
    /// No browser is paired.
    NotPaired,
    /// Another browser is paired.
    Paired,
    /// There is no code, or it serves no more.
    NoCode,
    /// The proof is wrong.
    WrongProof,
    /// The message is none of these.
    Message,
}

/// First message of an admitted extension, and every one after its state has changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Hello {
    /// Name and version of the browser, for example `Chrome/156.0.0.0`.
    pub(super) browser: String,
    /// True if the user has paused it.
    pub(super) paused: bool,
    /// Level up to which the user lets methods pass.
    pub(super) level: MethodLevel,
}

/// A tab that the extension shows.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SharedTab {
    /// Number of the tab in the browser.
    pub(super) tab: i64,
    /// Id of the debugger's attachment, new at each.
    pub(super) attachment: String,
    /// Id of the main frame.
    pub(super) target: String,
    /// URL.
    pub(super) url: String,
    /// Title.
    #[serde(default)]
    pub(super) title: String,
    /// Tab whose page has opened this one.
    #[serde(default)]
    pub(super) opener: Option<i64>,
    /// Sessions of the frames in other processes.
    #[serde(default)]
    pub(super) frames: Vec<SharedFrame>,
}

/// A frame in another process.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SharedFrame {
    /// Session of the frame.
    pub(super) session: String,
    /// Description of the target, as the protocol has it.
    pub(super) info: serde_json::Value,
}

/// A message of an admitted extension.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum FromExtension {
    /// State of the extension, and all tabs that it shows.
    Hello {
        #[serde(flatten)]
        hello: Hello,
        tabs: Vec<SharedTab>,
    },
    /// New state of the extension.
    State {
        #[serde(flatten)]
        hello: Hello,
    },
    /// A tab is shown, or has another URL or title.
    Tab { shown: SharedTab },
    /// A tab is shown no more.
    TabGone { tab: i64 },
    /// Answer to a ping.
    Pong,
}

/// Head of a message that carries raw JSON, which the other parser cannot keep.
#[derive(Debug, Deserialize)]
pub(super) struct RawMessage<'a> {
    /// `answer` or `event`.
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    /// Number of the call that is answered.
    #[serde(default)]
    pub(super) id: Option<u64>,
    /// Result of the call.
    #[serde(default, borrow)]
    pub(super) result: Option<&'a RawValue>,
    /// Error of the call.
    #[serde(default)]
    pub(super) error: Option<CallError>,
    /// Tab of the event.
    #[serde(default)]
    pub(super) tab: Option<i64>,
    /// Session of the event below the tab.
    #[serde(default)]
    pub(super) session: Option<String>,
    /// Name of the event.
    #[serde(default)]
    pub(super) method: Option<String>,
    /// Parameters of the event.
    #[serde(default, borrow)]
    pub(super) params: Option<&'a RawValue>,
}

/// Error of a call, as the protocol of the browser has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CallError {
    pub(super) code: i64,
    pub(super) message: String,
}

/// A message to an admitted extension.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToExtension<'a> {
    /// Calls a method of the list.
    Call {
        id: u64,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tab: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a RawValue>,
    },
    /// Keeps its worker alive.
    Ping,
    /// Says that a tab shows what is not shared, and is to be shown no more.
    Unshare { tab: i64 },
    /// Says that the browser is used no more, so that the debugger is detached.
    Bye,
}
