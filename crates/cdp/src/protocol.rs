//! The commands and events in use, a module for each domain of the protocol.
//!
//! A struct has the fields that this project uses; others are ignored on the way in. Names are those
//! of the protocol, so its reference describes what is only named here. Lengths are CSS pixels,
//! `timestamp`s are seconds of a clock of the browser that only moves forward.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Parameters of a command.
pub trait Command: Serialize {
    /// Name of the method, for example `Page.navigate`.
    const METHOD: &'static str;
    /// Shape of the answer.
    type Answer: DeserializeOwned;
}

/// Parameters of an event.
pub trait EventKind: DeserializeOwned {
    /// Name of the event, for example `Page.loadEventFired`.
    const METHOD: &'static str;
}

/// Answer of a command that returns nothing of use.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct NoAnswer {}

/// Declares a command without parameters.
macro_rules! bare_command {
    ($(#[$doc:meta])* $name:ident, $method:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, serde::Serialize)]
        pub struct $name {}
        command!($name, $method, $crate::protocol::NoAnswer);
    };
}

/// Binds a struct to the method whose parameters it has.
macro_rules! command {
    ($name:ty, $method:literal) => {
        command!($name, $method, $crate::protocol::NoAnswer);
    };
    ($name:ty, $method:literal, $answer:ty) => {
        impl $crate::protocol::Command for $name {
            const METHOD: &'static str = $method;
            type Answer = $answer;
        }
    };
}

/// Binds a struct to the event whose parameters it has.
macro_rules! event {
    ($name:ty, $method:literal) => {
        impl $crate::protocol::EventKind for $name {
            const METHOD: &'static str = $method;
        }
    };
}

pub mod browser;
pub mod dom;
pub mod emulation;
pub mod fetch;
pub mod input;
pub mod inspector;
pub mod log;
pub mod network;
pub mod page;
pub mod runtime;
pub mod storage;
pub mod target;

/// Returns true if a flag is not set, so that it need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
