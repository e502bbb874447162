//! The plan of a call: its effects, before anything happens.

use std::path::PathBuf;

use crate::{Effect, Level};

/// Plan of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// All effects, in the order in which they would happen.
    pub effects: Vec<Effect>,
    /// Level of the call, if the arguments change it.
    pub level: Option<Level>,
    /// True if the changes of the call are kept apart and committed to the workspace in one step
    /// when the call has ended. The call then runs a command that ends with it on a snapshot of the
    /// workspace, or drafts files, and changes the workspace in no other way.
    pub on_snapshot: bool,
    /// True if the processes that the call starts outlive it and therefore change the workspace
    /// directly.
    pub background: bool,
    /// True if the processes that the call starts also outlive the caller's session and then belong
    /// to the holder of the session.
    pub outlives_session: bool,
    /// Old and new path of an entry that the call renames without changing it. Undoing the rename
    /// requires no saved bytes.
    pub renames: Option<(PathBuf, PathBuf)>,
    /// Id of the changes that an earlier call kept aside and this call commits to the workspace.
    pub applies: Option<String>,
    /// Names of those secrets among the effects that are the tool's own login, which the user
    /// created for the tool. A query with this login counts as a read.
    pub login: Vec<String>,
    /// Plan of the call that a dry run tries; `None` for other calls. The outer plan then lists the
    /// reads of the trial.
    pub dry_run: Option<Box<Plan>>,
    /// Hosts and secrets to which the processes of the call are limited. `None` for those of the profile.
    pub network: Option<NetworkLimit>,
}

/// Upper bound of what the processes of a call may reach, in addition to the rules of the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkLimit {
    /// Hosts, in the form of `allowed_hosts`. Without one, the processes have no network.
    pub hosts: Vec<String>,
    /// Names of the secrets that may be sent to those hosts.
    pub secrets: Vec<String>,
}

impl Plan {
    /// Creates a plan at the tool's own level.
    pub fn of(effects: Vec<Effect>) -> Self {
        Self {
            effects,
            level: None,
            on_snapshot: false,
            background: false,
            outlives_session: false,
            renames: None,
            applies: None,
            login: Vec::new(),
            dry_run: None,
            network: None,
        }
    }

    /// Returns this plan with its changes kept apart, if a snapshot is available.
    #[must_use]
    pub fn on_snapshot(mut self) -> Self {
        self.on_snapshot = true;
        self
    }

    /// Returns the plan of a dry run of this plan if `is_dry_run` is true, and this plan otherwise.
    /// The dry run reads the paths that this plan would change, and is as safe as any read.
    #[must_use]
    pub fn only_tried(self, is_dry_run: bool) -> Self {
        if !is_dry_run {
            return self;
        }
        let looked_at = |effect: &Effect| match effect {
            Effect::Write { path } | Effect::Delete { path } => Some(Effect::Read { path: path.clone() }),
            Effect::Connect { host, port, method, .. } => {
                let (host, method) = (host.clone(), method.clone());
                Some(Effect::Connect { host, port: *port, method, only_asks: true })
            }
            // A dry run performs no action, and it may always read the agent's own data.
            Effect::DatabaseWrite { .. }
            | Effect::Act { .. }
            | Effect::Browse { .. }
            | Effect::Schedule { .. }
            | Effect::UseTool { .. } => None,
            other => Some(other.clone()),
        };
        let mut effects: Vec<Effect> = self.effects.iter().filter_map(looked_at).collect();
        effects.dedup();
        Self {
            effects,
            level: Some(Level::Safe),
            on_snapshot: self.on_snapshot,
            dry_run: Some(Box::new(self)),
            ..Self::of(Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_reads_what_the_call_would_change() {
        let path = || std::path::PathBuf::from("/w/f");
        let plan = Plan::of(vec![
            Effect::Read { path: path() },
            Effect::Write { path: path() },
            Effect::Delete { path: "/w/g".into() },
            Effect::DatabaseWrite { statement: "insert t".to_owned() },
        ]);
        assert_eq!(plan.clone().only_tried(false), plan);
        let tried = plan.clone().on_snapshot().only_tried(true);
        assert_eq!(tried.effects, [Effect::Read { path: path() }, Effect::Read { path: "/w/g".into() }]);
        assert_eq!((tried.level, tried.on_snapshot), (Some(Level::Safe), true));
        assert_eq!(tried.dry_run.as_deref(), Some(&plan.on_snapshot()));
    }
}
