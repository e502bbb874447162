//! The threads of the memory, as resources of the runtime.

use jiff::Timestamp;
use memory::Memories;
use tool::{Clock, Owner, Resource, ResourcePool, ResourceUsage};

/// The thread that makes vectors of memory entries after the answers.
pub(crate) struct MemoryThreads {
    memories: Memories,
    /// Time from which the memory has been open.
    since: Timestamp,
}

impl MemoryThreads {
    pub(crate) fn new(memories: Memories, clock: &dyn Clock) -> Self {
        Self { memories, since: clock.now() }
    }
}

impl ResourcePool for MemoryThreads {
    fn list(&self, _: Timestamp) -> Vec<Resource> {
        let working = self.memories.is_working().then(|| Resource {
            kind: "thread",
            owner: Owner::Runtime,
            since: self.since,
            description: "vectors of memory entries".to_owned(),
            usage: ResourceUsage { threads: 1, ..ResourceUsage::default() },
        });
        working.into_iter().collect()
    }

    fn stop(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.memories.request_stop();
        }
    }

    fn join(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.memories.stop();
        }
    }
}
