//! The built program: what it is, as its own bytes say.

use std::path::{Path, PathBuf};
use std::process::Command;

use elf::ElfBytes;
use elf::endian::AnyEndian;

use crate::command::{Failure, Result, capture};
use crate::product::Product;
use crate::target::Target;

/// The program for one target.
pub(crate) struct Program {
    pub(crate) target: Target,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    /// True if the program needs no library of the system.
    pub(crate) is_static: bool,
    /// The program with further languages that belongs to it, if that is packed too.
    pub(crate) languages: Option<Vec<u8>>,
}

impl Program {
    /// Reads the program of this name. If it is one of this machine's architecture, it must be of the workspace's version.
    pub(crate) fn read(path: &Path, name: &str, product: &Product) -> Result<Self> {
        let shown = path.display();
        let bytes = std::fs::read(path).map_err(|error| Failure(format!("cannot read {shown}: {error}")))?;
        let (target, is_static) = kind(&bytes).map_err(|why| Failure(format!("{shown} {why}")))?;
        let path =
            path.canonicalize().map_err(|error| Failure(format!("cannot resolve {shown}: {error}")))?;
        let program = Self { target, path, bytes, is_static, languages: None };
        if program.runs_here() {
            let stated = capture(Command::new(&program.path).arg("--version"))?;
            let expected = format!("{name} {}", product.version);
            if stated.trim() != expected {
                let stated = stated.trim();
                return Err(Failure(format!("{shown} is `{stated}`, not `{expected}`; build it again")));
            }
        }
        Ok(program)
    }

    /// Returns true if the program is one of this machine's architecture.
    pub(crate) fn runs_here(&self) -> bool {
        Target::of_this_machine() == Some(self.target)
    }
}

/// Returns the target of a program, and true if it is static.
fn kind(bytes: &[u8]) -> Result<(Target, bool), String> {
    let not = |error: elf::ParseError| format!("is not a Linux program: {error}");
    let file = ElfBytes::<AnyEndian>::minimal_parse(bytes).map_err(not)?;
    let machine = file.ehdr.e_machine;
    let target = Target::ALL.into_iter().find(|target| target.elf_machine() == machine);
    let target =
        target.ok_or_else(|| format!("is a program for machine {machine}, which no release supports"))?;
    let mut segments = file.segments().into_iter().flatten();
    Ok((target, segments.all(|segment| segment.p_type != elf::abi::PT_INTERP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_own_bytes() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(kind(&this).unwrap().0, Target::of_this_machine().unwrap());
        let mut other = this.clone();
        // The machine stands at byte 18 of the head; 243 is RISC-V.
        other[18..20].copy_from_slice(&243_u16.to_le_bytes());
        assert!(kind(&other).unwrap_err().contains("machine 243"));
        for broken in [&b""[..], b"#!/bin/sh\n", &this[..40]] {
            assert!(kind(broken).unwrap_err().starts_with("is not a Linux program"));
        }
    }
}
