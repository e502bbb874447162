//! Gmail: logins, requests and messages.

pub(crate) mod addresses;
pub(crate) mod api;
pub(crate) mod compose;
pub(crate) mod errors;
pub(crate) mod listing;
pub(crate) mod message;
pub mod oauth;
pub(crate) mod place;
pub(crate) mod reply;
pub(crate) mod saving;
pub(crate) mod tokens;
