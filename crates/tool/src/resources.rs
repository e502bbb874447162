//! Resources that outlive the call that started them: who owns them, what a list shows of them,
//! and how they end.

use jiff::Timestamp;

use crate::{CallId, SessionId};

/// Owner of a resource. A resource ends with its owner at the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// One call, for work that nobody waits for after its end.
    Call(CallId),
    /// The session of a caller.
    Session(SessionId),
    /// The credential that sessions belong to. What it owns outlives each of them.
    Holder(SessionId),
    /// The runtime. Its end is the end of every other owner.
    Runtime,
}

impl Owner {
    /// Returns true if resources of `other` end with this owner.
    pub fn includes(&self, other: &Owner) -> bool {
        *self == Owner::Runtime || self == other
    }
}

/// One resource, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Kind of the resource, in a few words: `background command`, `network`, ...
    pub kind: &'static str,
    /// Owner of the resource.
    pub owner: Owner,
    /// Time at which the resource was made.
    pub since: Timestamp,
    /// Purpose of the resource, in words for a human.
    pub description: String,
    /// Usage of this machine.
    pub usage: ResourceUsage,
}

/// Usage of this machine by a resource. `None` means that the figure is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Number of threads of this process.
    pub threads: u64,
    /// Number of open descriptors of this process.
    pub descriptors: Option<u64>,
    /// Number of bytes in memory or on disk.
    pub bytes: Option<u64>,
}

/// All resources of one kind in a runtime.
///
/// The engine has a list of pools. It tells each pool when an owner ends, and shows what all of
/// them hold.
pub trait ResourcePool: Send + Sync {
    /// Returns the resources that exist now.
    fn list(&self, now: Timestamp) -> Vec<Resource>;

    /// Asks every resource that ends with `owner` to end. Does not wait. After the end of
    /// [`Owner::Runtime`], the pool accepts no further resource.
    fn stop(&self, owner: &Owner);

    /// Waits until the resources that [`ResourcePool::stop`] asked to end have ended, and removes
    /// them. Blocks.
    fn join(&self, owner: &Owner);
}
