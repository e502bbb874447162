//! The second wall around files: Landlock rules that say the same as the mounts do.
//!
//! They also keep signals and abstract Unix sockets inside, where the kernel knows these scopes.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, Scope,
};

use crate::child::blueprint::{Kind, Landlock, c_string};
use crate::error::SandboxError;
use crate::sys;

/// The first version that can allow moving a file from one folder to another. Version 1 always refuses, which no
/// build system would survive.
const OLDEST: i32 = 2;

/// The version that this kernel offers, when it is one that a cell uses.
pub(crate) fn version() -> Option<i32> {
    sys::landlock_version().ok().filter(|&version| version >= OLDEST)
}

/// The rules of a cell, still without paths.
pub(crate) struct Rules {
    ruleset: OwnedFd,
    abi: ABI,
    paths: Vec<(CString, u64)>,
}

/// What may be done below a path.
#[derive(Clone, Copy)]
pub(crate) enum Rights {
    /// Read, list, execute.
    Read,
    /// That, and every change that makes no device.
    Write,
    /// Read and write what is there, and control devices.
    Devices,
    /// Read and write what is there.
    Processes,
    /// List folders.
    List,
}

impl Rules {
    pub(crate) fn new(version: i32) -> Result<Self, SandboxError> {
        let abi = ABI::from(version);
        let ruleset: Option<OwnedFd> = ruleset(abi)
            .map_err(|error| SandboxError::Setup {
                doing: "making the Landlock rules".to_owned(),
                source: std::io::Error::other(error.to_string()),
            })?
            .into();
        let ruleset = ruleset.ok_or_else(|| SandboxError::Setup {
            doing: "making the Landlock rules".to_owned(),
            source: std::io::ErrorKind::Unsupported.into(),
        })?;
        Ok(Self { ruleset, abi, paths: Vec::new() })
    }

    pub(crate) fn allow(&mut self, path: &Path, kind: Kind, rights: Rights) -> Result<(), SandboxError> {
        let read = AccessFs::from_read(self.abi);
        let all = AccessFs::from_all(self.abi);
        let mut rights = match rights {
            Rights::Read => read,
            Rights::Write => all & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev),
            Rights::Devices => {
                all & (AccessFs::ReadFile
                    | AccessFs::WriteFile
                    | AccessFs::ReadDir
                    | AccessFs::Truncate
                    | AccessFs::IoctlDev)
            }
            Rights::Processes => all & (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir),
            Rights::List => AccessFs::ReadDir.into(),
        };
        if kind == Kind::File {
            rights &= AccessFs::from_file(self.abi);
        }
        self.paths.push((c_string("path", path)?, rights.bits()));
        Ok(())
    }

    /// The part for the new process, and the ruleset, which must stay open until that process is made.
    pub(crate) fn into_parts(self) -> (Landlock, OwnedFd) {
        (Landlock { ruleset: self.ruleset.as_raw_fd(), rules: self.paths }, self.ruleset)
    }
}

fn ruleset(abi: ABI) -> Result<::landlock::RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    let scopes: BitFlags<Scope> = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create()
}
