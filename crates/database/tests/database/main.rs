//! Statements on real files: what may be done, what is refused, what comes back.

mod files;
mod statements;
mod undo;
mod world;
