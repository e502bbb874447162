//! Guards for the roots of tests.

use std::path::Path;

use roots::{Guard, Refusal};

/// A guard that allows everything.
#[derive(Debug, Clone, Copy)]
pub struct Permissive;

impl Guard for Permissive {
    fn may_read(&self, _real: &Path) -> Result<(), Refusal> {
        Ok(())
    }

    fn may_write(&self, _real: &Path) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A guard that denies paths with a component of one of these names, at any depth.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenyNames {
    /// Names that must not be read.
    pub read: &'static [&'static str],
    /// Names that must not be written.
    pub write: &'static [&'static str],
}

impl DenyNames {
    fn judge(real: &Path, names: &[&str]) -> Result<(), Refusal> {
        match names.iter().find(|name| real.iter().any(|part| part == **name)) {
            None => Ok(()),
            Some(name) => Err(Refusal {
                reason: format!("the rule `{name}` denies it"),
                hint: Some("this is what the policy's own hint would say".to_owned()),
            }),
        }
    }
}

impl Guard for DenyNames {
    fn may_read(&self, real: &Path) -> Result<(), Refusal> {
        Self::judge(real, self.read)
    }

    fn may_write(&self, real: &Path) -> Result<(), Refusal> {
        Self::judge(real, self.write)
    }
}
