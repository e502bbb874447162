//! All file tools on real files: hostile paths and patches, full disks, kills.

#![expect(clippy::disallowed_methods, reason = "some tests are about another process and what it leaves")]
#![expect(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

mod disk;
mod family;
mod history;
mod hostile;
mod kill;
mod patches;
mod search;
