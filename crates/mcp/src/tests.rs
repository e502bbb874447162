//! Whole connections, as a client sees them.

mod apart;
mod approval;
mod eras;
mod hostile;
mod lifetime;
mod tasks;
