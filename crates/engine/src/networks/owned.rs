//! The networks as resources with owners.

use jiff::Timestamp;
use tool::{Owner, Resource, ResourcePool, ResourceUsage};

use super::{Networks, OfSession, State};
use crate::call;

impl ResourcePool for Networks {
    fn list(&self, _now: Timestamp) -> Vec<Resource> {
        let state = self.state();
        let network = |session: &OfSession| {
            session.network.as_ref()?;
            let way_out = if session.way_out.is_some() { ", with a way out to other hosts" } else { "" };
            Some(Resource {
                kind: "network",
                owner: session.owner.clone(),
                since: session.since,
                description: format!("network of the commands{way_out}"),
                usage: ResourceUsage::default(),
            })
        };
        let carrier = state.carrier.as_ref().map(|(_, since)| Resource {
            kind: "thread",
            owner: Owner::Runtime,
            since: *since,
            description: "egress".to_owned(),
            usage: ResourceUsage { threads: 1, ..ResourceUsage::default() },
        });
        state.sessions.values().filter_map(network).chain(carrier).collect()
    }

    /// Refuses further spare networks after the end of the runtime. Closes nothing yet, because
    /// commands use their network until they have ended.
    fn stop(&self, owner: &Owner) {
        if *owner == Owner::Runtime {
            self.state().is_closed = true;
        }
    }

    fn join(&self, owner: &Owner) {
        let mut released = Vec::new();
        let mut state = self.state();
        match owner {
            Owner::Call(_) => {}
            Owner::Session(session) => {
                for name in call::owners(session) {
                    released.extend(state.take(&name));
                }
            }
            Owner::Holder(holder) => released.extend(state.take(&holder.0)),
            Owner::Runtime => {
                released.extend(state.sessions.drain().map(|(_, session)| session));
                state.ceilings.clear();
            }
        }
        let carrier = state.carrier.take_if(|_| *owner == Owner::Runtime);
        drop(state);
        self.let_go(released);
        // The thread ends after the connections that it carries.
        drop(carrier);
    }
}

impl State {
    /// Takes all networks of an owner: also those of callers under a ceiling, of scripts, and of tools without hosts.
    fn take(&mut self, name: &str) -> Vec<OfSession> {
        self.ceilings.remove(name);
        let is_owned = |other: &String| {
            other.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        self.sessions.extract_if(|other, _| is_owned(other)).map(|(_, session)| session).collect()
    }
}
