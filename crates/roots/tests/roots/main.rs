//! Paths, changes and walks below the roots, on real files.

#![allow(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

mod changes;
mod fixture;
mod race;
mod reach;
mod walk;
