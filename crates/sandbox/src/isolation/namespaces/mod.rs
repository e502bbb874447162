//! Full cells: namespaces of their own, which this program makes.

pub(super) mod backend;
mod cell;
mod late;
mod launch;
mod prewarm;
