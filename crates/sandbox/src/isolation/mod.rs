//! Isolation of commands: one seam, and the backends behind it.
//!
//! A [`Backend`](backend::Backend) starts cells, and a [`Cell`](cell::Cell) is one of them, seen
//! from outside. `namespaces` makes full cells. `bubblewrap` makes cells with the system's bwrap,
//! and `landlock_only` makes cells of Landlock and a stricter system call filter. The last two
//! confine less, and every result reports the kind and the missing parts.
//!
//! [`choice`] chooses among the backends. Outside of this module nobody names one: the rest of the
//! program asks an [`Isolation`] about its abilities.

pub(crate) mod backend;
mod bubblewrap;
pub(crate) mod cell;
mod choice;
mod first_process;
mod landlock_only;
mod namespaces;
#[cfg(test)]
mod suite;
mod trial;

pub use backend::{CellHost, Isolation, IsolationChoice};
pub use trial::try_namespaces;
