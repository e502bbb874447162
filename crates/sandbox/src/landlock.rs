//! The second barrier around files: Landlock rules that allow the same access as the mounts.
//!
//! The rules also confine signals and abstract Unix sockets, if the kernel knows these scopes.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    Scope,
};
use rustix::fs::{Mode, OFlags, open};

use crate::child::blueprint::{Kind, c_string};
use crate::error::SandboxError;
use crate::sys;

/// Oldest version that can allow moving a file from one folder to another. Version 1 always refuses
/// that, which breaks every build system.
const OLDEST: i32 = 2;

/// Returns the version that this kernel offers, if a cell can use it.
pub(crate) fn version() -> Option<i32> {
    sys::landlock_version().ok().filter(|&version| version >= OLDEST)
}

/// Access rights by path.
pub(crate) struct Rules {
    abi: ABI,
    paths: Vec<(CString, u64)>,
}

/// Rights below a path.
#[derive(Clone, Copy)]
pub(crate) enum Rights {
    /// Read, list, execute.
    Read,
    /// All of [`Self::Read`], and every change except making devices.
    Write,
    /// Read and write existing files, and control devices.
    Devices,
    /// Read and write existing files.
    Processes,
    /// List folders.
    List,
}

impl Rights {
    /// Returns the rights as `LANDLOCK_ACCESS_FS_*`, for this version and kind of object.
    pub(crate) fn bits(self, abi: ABI, kind: Kind) -> u64 {
        let read = AccessFs::from_read(abi);
        let all = AccessFs::from_all(abi);
        let rights = match self {
            Self::Read => read,
            Self::Write => all & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev),
            Self::Devices => {
                all & (AccessFs::ReadFile
                    | AccessFs::WriteFile
                    | AccessFs::ReadDir
                    | AccessFs::Truncate
                    | AccessFs::IoctlDev)
            }
            Self::Processes => all & (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir),
            Self::List => AccessFs::ReadDir.into(),
        };
        if kind == Kind::File { (rights & AccessFs::from_file(abi)).bits() } else { rights.bits() }
    }
}

impl Rules {
    /// Returns an empty list of rules for this version of Landlock.
    pub(crate) fn new(version: i32) -> Self {
        Self { abi: ABI::from(version), paths: Vec::new() }
    }

    pub(crate) fn allow(&mut self, path: &Path, kind: Kind, rights: Rights) -> Result<(), SandboxError> {
        self.paths.push((c_string("path", path)?, rights.bits(self.abi, kind)));
        Ok(())
    }

    /// Returns the paths with their rights as `LANDLOCK_ACCESS_FS_*`.
    pub(crate) fn paths(&self) -> &[(CString, u64)] {
        &self.paths
    }

    pub(crate) fn into_paths(self) -> Vec<(CString, u64)> {
        self.paths
    }
}

/// Makes a ruleset of this version without rules, which allows no access.
pub(crate) fn ruleset(version: i32) -> Result<OwnedFd, SandboxError> {
    made(create(ABI::from(version), false))
}

/// Makes a ruleset without rules for a cell without a network namespace, which refuses TCP too.
pub(crate) fn ruleset_alone(version: i32) -> Result<OwnedFd, SandboxError> {
    made(create(ABI::from(version), true))
}

/// Makes a ruleset that forbids only signals to processes outside of the restricted ones.
pub(crate) fn ruleset_for_signals() -> Result<OwnedFd, SandboxError> {
    // Every ruleset forbids moving a file to another folder unless a rule allows it.
    let moving = AccessFs::Refer;
    let create = || exactly().handle_access(moving)?.scope(Scope::Signal)?.create();
    let ruleset = made(create())?;
    let failed = SandboxError::io("making the Landlock rules");
    let root = open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    sys::landlock_allow(ruleset.as_raw_fd(), root.as_fd(), BitFlags::from(moving).bits())
        .map_err(SandboxError::io("making the Landlock rules"))?;
    Ok(ruleset)
}

fn made(created: Result<::landlock::RulesetCreated, RulesetError>) -> Result<OwnedFd, SandboxError> {
    let failed = |source| SandboxError::Setup { doing: "making the Landlock rules".to_owned(), source };
    let made: Option<OwnedFd> =
        created.map_err(|error| failed(std::io::Error::other(error.to_string())))?.into();
    made.ok_or_else(|| failed(std::io::ErrorKind::Unsupported.into()))
}

fn create(abi: ABI, network: bool) -> Result<::landlock::RulesetCreated, RulesetError> {
    let mut ruleset = exactly().handle_access(AccessFs::from_all(abi))?;
    if network {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    let scopes: BitFlags<Scope> = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create()
}

/// Returns an empty ruleset that fails if the kernel lacks any part.
fn exactly() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}
