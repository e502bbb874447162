//! Cells made by the system's bwrap, for hosts on which this program may not use namespaces but
//! bwrap may: an AppArmor profile allows it, or it is set-user-id.

mod arguments;
pub(super) mod launch;
mod tool;
