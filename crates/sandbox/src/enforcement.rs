//! The restrictions that were in force around a command, as facts for its result.

use std::path::PathBuf;

use serde::Serialize;

use crate::limits::values::{Limit, LimitInForce};

/// The restrictions that were in force. Setting up a cell fails as a whole if a part fails, so
/// everything named here was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Enforcement {
    /// Weaker confinement that was used because no ordinary cell was available.
    pub degraded: Option<Degraded>,
    /// Kinds of namespaces that belonged to the cell.
    pub namespaces: &'static [&'static str],
    /// Version of Landlock that the kernel offered; `None` if Landlock was not used.
    pub landlock_abi: Option<i32>,
    /// True if system calls were filtered.
    pub seccomp: bool,
    /// The user whose rights the command had on the host.
    pub user: UserMapping,
    /// Treatment of denied files that appeared while the command ran.
    pub denied_files: DeniedFiles,
    /// Reach of the command over the network.
    pub network: NetworkReach,
    /// Destination of the command's changes to the workspace.
    pub workspace: WorkspaceChanges,
    /// Writable paths outside of the overlay, if there is one: further roots, and mounts below the
    /// workspace.
    pub direct: Vec<PathBuf>,
    /// Lifetime of the home's content.
    pub home: Home,
    /// The limits, with the layer that enforced each.
    pub limits: Vec<LimitInForce>,
    /// Names of features that the kernel did not offer and that were not in force.
    pub missing: Vec<String>,
}

/// Treatment of denied files that appear while a command runs. Files that exist at its start are
/// covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedFiles {
    /// Files that appear later can be read.
    AtStart,
    /// Files that appear later are covered within milliseconds. A file that the command opened
    /// before that stays readable.
    Watched,
}

/// Lifetime of the files that a command writes into its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// All files disappear with the command.
    Fresh,
    /// Caches stay for the next command of the workspace; all other files disappear.
    CachesKept,
}

/// Reach of a command over the network. It never reaches the host, and reaches other machines only
/// through the owner of the doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkReach {
    /// A private loopback device of the cell.
    Own,
    /// A loopback device shared with the cells of one spawner, including their servers.
    Session,
    /// The session's loopback device, and the connections that the owner of its
    /// [`Doors`](crate::Doors) allows.
    Doors,
}

/// Destination of the changes that a command makes in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceChanges {
    /// The workspace itself, immediately.
    Direct,
    /// The upper folder of an overlay. The workspace stays unchanged.
    Overlay,
    /// Refused, because the workspace is read-only.
    ReadOnly,
}

/// Confinement of a command on a host that refuses namespaces to this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Degraded {
    /// Namespaces that the system's bwrap has made. They lack an overlay, a session network and
    /// covers for later files, which need this program's own namespaces.
    Bubblewrap,
    /// Landlock and the system call filter alone.
    Landlock,
}

impl Degraded {
    /// Returns the name as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bwrap",
            Self::Landlock => "landlock",
        }
    }
}

/// The user whose rights a command has on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UserMapping {
    /// The user who started Handfast.
    Own,
    /// The owner of the workspace: Handfast runs as root, on a host without namespaces.
    WorkspaceOwner,
    /// An id that owns no file on the host: Handfast runs as root, and the command under that id.
    /// Id-mapped mounts show it the roots as its own.
    IdMapped,
}

impl Enforcement {
    /// Lists the differences from a full cell: missing features, and limits that are not enforced
    /// exactly. The list is empty for a full cell.
    pub fn shortcomings(&self) -> Vec<String> {
        // No machine exactly enforces the limit on disk space, or on processes without their
        // threads.
        let watched = [Limit::DiskSpace, Limit::ProcessCount];
        let asked = self.limits.iter().filter(|it| !watched.contains(&it.limit));
        let inexact = asked.filter(|it| !it.layer.is_exact());
        let limits = inexact.map(|it| {
            format!("the limit on {} is enforced only by {}", it.limit.as_str(), it.layer.as_str())
        });
        self.missing.iter().map(|what| format!("{what} is missing")).chain(limits).collect()
    }

    /// Returns the facts as short words, for the `sandbox` field of a result's metadata.
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
