//! Cells of Landlock and a stricter system call filter alone.

pub(super) mod launch;
mod private;
mod rules;
