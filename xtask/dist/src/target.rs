//! The architectures of a release, each with the names that the formats have for it.

use std::fmt;
use std::str::FromStr;

/// One architecture that a release supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    X86_64,
    Aarch64,
}

impl Target {
    pub(crate) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Returns the target of this machine, if releases support it.
    pub(crate) fn of_this_machine() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Returns Rust's name. The C library is musl, which links into the program as a whole.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-musl",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Returns the name in Debian packages, which containers use too.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Returns Node's name.
    pub(crate) fn node(self) -> &'static str {
        match self {
            Self::X86_64 => "x64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Returns the name in the platform tags of Python wheels.
    pub(crate) fn python(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Returns the machine number in the program's head, from the ELF standard.
    pub(crate) fn elf_machine(self) -> u16 {
        match self {
            Self::X86_64 => elf::abi::EM_X86_64,
            Self::Aarch64 => elf::abi::EM_AARCH64,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.triple())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|target| target.triple() == text);
        found.ok_or_else(|| format!("releases support {}", Self::ALL.map(Self::triple).join(" and ")))
    }
}
