//! Messages for a command that looked for another machine and found none.
//!
//! If the session's network has a way out, it knows each name that it refused. Otherwise nothing
//! sees the requests of programs, and the only sources are the output of the command and the hosts
//! in its line.

use std::net::IpAddr;

use policy::{ConnectionVerdict, Policy, hosts_fetched};
use tool::{BoxFuture, Effect};

use crate::Engine;
use crate::call::Call;
use crate::cell_spec::Rules;
use crate::connections::ConnectionSummary;

/// Port used in the check of a host whose port is unknown.
const HTTPS: u16 = 443;

/// Maximum number of hosts that one answer names.
const MAX_NAMED: usize = 5;

const NO_HOSTS: &str = "no network here: `allowed_hosts` lists no host; commands reach only servers of \
     this session on `localhost`";
const NOT_THAT_HOST: &str = "no network here except the hosts in `allowed_hosts` and servers of this \
     session on `localhost`";

const ONLY_READS: &str = "no network here: a command that passes as read-only has none";

impl Engine {
    /// Returns the deadline of the call's run. It rests while a connection is held.
    pub(crate) fn deadline(&self, call: &Call) -> BoxFuture<'static, ()> {
        let (timer, timeout) = (self.timer.clone(), call.timeout);
        match call.connections.clone() {
            Some(connections) => Box::pin(async move { connections.deadline(timer.as_ref(), timeout).await }),
            None => Box::pin(async move { timer.sleep(timeout).await }),
        }
    }

    /// Ends the connections of the call, unless its commands continue in the background.
    pub(crate) async fn settle_connections(&self, call: &mut Call) {
        let Some(connections) = call.connections.take() else { return };
        let ConnectionSummary { reached, note } = connections.end().await;
        call.reached = reached;
        call.warnings.extend(note);
    }

    /// Returns a message for a failed command that passed because it can be undone, if a folder that
    /// the profile lists was read-only for that reason.
    pub(crate) fn told_by_read_only_roots(&self, call: &Call) -> Option<String> {
        let has_failed = call.exit_code.is_some_and(|code| code != 0);
        if !has_failed || !call.passed_as_undoable() {
            return None;
        }
        let rules = call.rules(self);
        let listed = rules.roots().iter().filter(|root| root.write && root.path != self.place.workspace);
        let listed: Vec<String> = listed.map(|root| root.path.display().to_string()).collect();
        (!listed.is_empty()).then(|| {
            format!(
                "{} was read-only for this command, because the command passed as undoable; a command of                  `allowed_exec_command`, or one that a person approves, can write there",
                listed.join(", ")
            )
        })
    }

    /// Returns messages about the hosts that the commands of a call did not reach because no list
    /// names them.
    pub(crate) fn told_by_network(&self, call: &Call, missed: Option<Vec<String>>) -> Vec<String> {
        let line = call.effects.iter().find_map(|part| match &part.effect {
            Effect::Run { command, .. } => Some(command),
            _ => None,
        });
        if line.is_none() && missed.is_none() {
            return Vec::new();
        }
        let network = self.network(call);
        let refused = self.networks.take_notes(&network.owner);
        if !refused.is_empty() {
            return refused;
        }
        let rules = call.rules(self);
        if matches!(network.rules, Rules::These(_)) {
            // A host in the line need not have been refused: the way out has refused nothing.
            let mut hosts = missed.unwrap_or_default();
            hosts.retain(|host| !matches!(rules.connection_verdict(host, HTTPS), ConnectionVerdict::Ask(_)));
            return if hosts.is_empty() { hosts } else { unreached(&rules, hosts, NOT_THAT_HOST) };
        }
        if call.passed_as_reading() && rules.asks_about_hosts() {
            return missed.map_or_else(Vec::new, |_| vec![ONLY_READS.to_owned()]);
        }
        let named = line.map(hosts_fetched).unwrap_or_default();
        let Some(missed) = missed else {
            return if named.is_empty() { named } else { unreached(&rules, named, NO_HOSTS) };
        };
        let notes = unreached(&rules, [missed, named].concat(), NO_HOSTS);
        if notes.is_empty() && rules.allows_hosts() { vec![ONLY_READS.to_owned()] } else { notes }
    }
}

/// Returns for each host why it was not reached, or `unless_named` if no host is known.
fn unreached(rules: &Policy, mut hosts: Vec<String>, unless_named: &str) -> Vec<String> {
    if hosts.is_empty() {
        return vec![unless_named.to_owned()];
    }
    hosts.retain(|host| !is_this_machine(host));
    hosts.sort_unstable();
    hosts.dedup();
    let reasons = hosts.iter().filter_map(|host| rules.host_verdict(host, HTTPS).err());
    let mut notes: Vec<String> =
        reasons.take(MAX_NAMED).map(|reason| format!("no network here: {reason}")).collect();
    notes.dedup();
    notes
}

fn is_this_machine(host: &str) -> bool {
    let is_own = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_own)
}
