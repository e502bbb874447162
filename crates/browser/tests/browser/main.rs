//! Tests of a browser against a real Chromium, started once for all of them. Each test has a session
//! of its own, and pages of a server on the loopback device.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod dialogs;
mod downloads;
mod extension;
mod files;
mod frames;
mod harness;
mod hostile;
mod life;
mod log;
mod navigation;
mod page;
mod pictures;
mod server;
mod settling;
mod tabs;
