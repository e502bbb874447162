//! The finding of a probe, and the program that makes its attempts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::spec::Entrance;

/// The finding of a probe.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Probe {
    /// Name of the attempt, one word.
    pub name: &'static str,
    /// Name of the line in `docs/GUARANTEES.md` that was tested; `None` if nothing is promised.
    pub promise: Option<&'static str>,
    /// Result of the test.
    pub verdict: Verdict,
    /// Mechanism that refuses the attempt.
    pub enforced_by: String,
    /// Observed result.
    pub detail: String,
    /// Advice if the verdict is not [`Verdict::Holds`].
    pub hint: Option<String>,
}

/// The verdict on a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The attempt was refused, and works without a cell.
    Holds,
    /// The attempt worked.
    Fails,
    /// The attempt could not be made.
    Unknown,
}

/// A program that calls [`attempt`](crate::attempt) with the words after its own arguments, before it starts a
/// thread.
#[derive(Clone, Debug)]
pub struct Attempter {
    /// Absolute path of the program, which the cells of the probe show.
    pub program: PathBuf,
    /// Own arguments of the program.
    pub arguments: Vec<OsString>,
    /// Entrance for cells that the system's bwrap makes.
    pub entrance: Option<Entrance>,
}

impl Attempter {
    /// Returns a command for the program, to run without a cell.
    #[expect(
        clippy::disallowed_methods,
        reason = "the control of a probe is the same attempt without a cell"
    )]
    pub fn outside(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command
    }
}

/// Builds a finding, with the hint for its verdict.
pub(super) fn finding(
    name: &'static str,
    promise: Option<&'static str>,
    verdict: Verdict,
    enforced_by: &str,
    detail: String,
) -> Probe {
    let hint = match (verdict, promise) {
        (Verdict::Holds, _) => None,
        (Verdict::Fails, Some(_)) => {
            Some("do not rely on this machine's sandbox for this; report it with the detail")
        }
        (Verdict::Fails, None) => Some("this is not promised; see docs/THREAT_MODEL.md"),
        (Verdict::Unknown, _) => Some("this could not be tested here; see the detail"),
    };
    Probe {
        name,
        promise,
        verdict,
        enforced_by: enforced_by.to_owned(),
        detail,
        hint: hint.map(str::to_owned),
    }
}
