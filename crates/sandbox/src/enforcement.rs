//! What was really in force around a command, as facts for its result.

use std::path::PathBuf;

use serde::Serialize;

use crate::limits::{Limit, LimitInForce};

/// What was in force. Setting up a cell fails as a whole when one part of it does, so what is named here was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Enforcement {
    /// What the cell had to do with, where this program could make it none.
    pub degraded: Option<Degraded>,
    /// The kinds of namespaces that the cell had of its own.
    pub namespaces: &'static [&'static str],
    /// The version of Landlock that the kernel offered; `None` where it was not used.
    pub landlock_abi: Option<i32>,
    /// Whether system calls were filtered.
    pub seccomp: bool,
    /// Whose rights the command had on the host.
    pub user: UserMapping,
    /// What became of denied files that came while the command ran.
    pub denied_files: DeniedFiles,
    /// What could be reached over the network.
    pub network: NetworkReach,
    /// Where changes of the workspace went.
    pub workspace: WorkspaceChanges,
    /// With an overlay: what the command could write to and yet was no part of it, such as further roots and what is
    /// mounted below the workspace.
    pub direct: Vec<PathBuf>,
    /// What became of the home.
    pub home: Home,
    /// The limits, and what held each.
    pub limits: Vec<LimitInForce>,
    /// What the kernel did not offer, and so was not in force.
    pub missing: Vec<String>,
}

/// What becomes of denied files that come while a command runs. Those that are there when it starts are covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedFiles {
    /// They can be read.
    AtStart,
    /// They are covered within milliseconds. What the command has opened until then, it can go on reading.
    Watched,
}

/// What becomes of what a command writes into its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// It is gone with the command.
    Fresh,
    /// Caches stay for the next command of the workspace; the rest is gone.
    CachesKept,
}

/// What a command can reach over the network: never the host, and no other machine but through who holds the doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkReach {
    /// Its own loopback device.
    Own,
    /// A loopback device, and with it the servers, of the cells that came from the same spawner.
    Session,
    /// That, and what the holder of its [`Doors`](crate::Doors) lets through.
    Doors,
}

/// Where changes go that a command makes in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceChanges {
    /// Into the workspace, at once.
    Direct,
    /// Into the upper folder of an overlay. The workspace is not touched.
    Overlay,
    /// Nowhere: the workspace is read-only.
    ReadOnly,
}

/// What confines a command on a host that refuses namespaces to this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Degraded {
    /// Namespaces that the system's bwrap has made, without what only this program's own have: an overlay, a network for
    /// the session, and covers for what comes later.
    Bubblewrap,
    /// Landlock and the filter of system calls alone.
    Landlock,
}

impl Degraded {
    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bwrap",
            Self::Landlock => "landlock",
        }
    }
}

/// Whose rights a command has on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UserMapping {
    /// Those of the user who started Handfast.
    Own,
    /// Those of the owner of the workspace: Handfast runs as root, on a host without namespaces.
    WorkspaceOwner,
    /// Those of no user at all: Handfast runs as root, the command under an id that owns nothing, and id-mapped
    /// mounts show it the roots as its own.
    IdMapped,
}

impl Enforcement {
    /// What is less than all that a cell can be: what is missing, and the limits that are not held exactly. Empty
    /// where nothing is.
    pub fn shortcomings(&self) -> Vec<String> {
        // Nothing holds the space on disks, or the number of processes without their threads, exactly on any machine.
        let watched = [Limit::DiskSpace, Limit::ProcessCount];
        let asked = self.limits.iter().filter(|it| !watched.contains(&it.limit));
        let inexact = asked.filter(|it| !it.layer.is_exact());
        let limits = inexact
            .map(|it| format!("the limit on {} is held by {} alone", it.limit.as_str(), it.layer.as_str()));
        self.missing.iter().map(|what| format!("{what} is missing")).chain(limits).collect()
    }

    /// The facts as short words, for the `sandbox` field of a result's metadata.
    pub fn summary(&self) -> Vec<String> {
        let mut words = vec![match self.degraded {
            Some(degraded) => format!("degraded:{}", degraded.as_str()),
            None => format!("namespaces:{}", self.namespaces.join("+")),
        }];
        words.push("file_system:allow_list".to_owned());
        words.push(match self.network {
            NetworkReach::Own => "network:none".to_owned(),
            NetworkReach::Session => "network:session".to_owned(),
            NetworkReach::Doors => "network:allowed_hosts".to_owned(),
        });
        words.push("capabilities:none".to_owned());
        if self.seccomp {
            words.push("seccomp".to_owned());
        }
        if let Some(version) = self.landlock_abi {
            words.push(format!("landlock:{version}"));
        }
        words.push(match self.user {
            UserMapping::Own => "user:own".to_owned(),
            UserMapping::WorkspaceOwner => "user:workspace_owner".to_owned(),
            UserMapping::IdMapped => "user:id_mapped".to_owned(),
        });
        words.push(match self.denied_files {
            DeniedFiles::AtStart => "denied_files:at_start".to_owned(),
            DeniedFiles::Watched => "denied_files:watched".to_owned(),
        });
        words.push(match self.workspace {
            WorkspaceChanges::Direct => "workspace:direct".to_owned(),
            WorkspaceChanges::Overlay => "workspace:overlay".to_owned(),
            WorkspaceChanges::ReadOnly => "workspace:read_only".to_owned(),
        });
        words.push(match self.home {
            Home::Fresh => "home:fresh".to_owned(),
            Home::CachesKept => "home:caches_kept".to_owned(),
        });
        words.extend(self.direct.iter().map(|path| format!("direct:{}", path.display())));
        words.extend(
            self.limits.iter().map(|LimitInForce { limit, layer, .. }| {
                format!("limit:{}={}", limit.as_str(), layer.as_str())
            }),
        );
        words.extend(self.missing.iter().map(|what| format!("missing:{what}")));
        words
    }
}
