//! The user's browser: a full Chromium with the extension, driven from outside as its user would.

mod driven;
mod hostile;
mod sharing;
