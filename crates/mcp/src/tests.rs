//! Whole connections, as a client sees them.

mod approval;
mod eras;
mod hostile;
mod lifetime;
