//! Links of the host in places that the cell does not show otherwise.

use std::path::Path;

use super::View;
use crate::child::blueprint::{Place, Step, c_string};
use crate::error::SandboxError;
use crate::roots::Roots;
use crate::spec::CellSpec;
use crate::system::{self, HOME};

/// Folders of the cell in which nothing can be added after they are made.
const CLOSED: [&str; 4] = ["/.cell", "/dev", "/proc", "/sys"];

impl View {
    /// Makes the links of the specification. Comes after the roots, in which the host's own links
    /// are.
    pub(super) fn links(&mut self, spec: &CellSpec, roots: &Roots) -> Result<(), SandboxError> {
        if spec.links.is_empty() {
            return Ok(());
        }
        let system = system::entries()?;
        let is_shown = |at: &Path| {
            roots.all().any(|root| at.starts_with(&root.at))
                || system.iter().any(|entry| at.starts_with(entry.path()))
                || CLOSED.iter().chain([&HOME]).any(|own| at.starts_with(own))
        };
        for (at, text) in &spec.links {
            // A mount point cannot lie behind a link.
            let leads_to_root = roots.all().any(|root| root.at.starts_with(at));
            let leads_to_own = Path::new(HOME).starts_with(at)
                || spec.links.keys().any(|other| other != at && other.starts_with(at));
            if !is_shown(at) && !leads_to_root && !leads_to_own {
                self.steps.push(Step::Link { at: Place::new(at)?, text: c_string("link", text)? });
            }
        }
        Ok(())
    }
}
