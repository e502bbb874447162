//! Attempts that one process makes and that are either refused or not.

use std::ffi::OsString;

use super::amount;
use super::scene::{Scene, set_user_id_program};
use crate::enforcement::{Degraded, Enforcement};

/// One attempt with its control.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Name of the line of `docs/GUARANTEES.md` that the attempt tests; `None` if nothing is
    /// promised.
    pub(super) promise: Option<&'static str>,
    /// Mechanism that should refuse the attempt.
    pub(super) enforced_by: Wall,
    /// Arguments of the attempt in the cell.
    pub(super) inside: Vec<OsString>,
    /// Arguments of the control outside, which must work.
    pub(super) outside: Vec<OsString>,
    /// Interpretation of the answers.
    pub(super) reading: Reading,
}

/// The interpretation of an attempt's answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// The answers count literally.
    Plain,
    /// The host may refuse the attempt to every process, and then a refusal inside counts as well.
    HostMayRefuse,
    /// A kill counts as a refusal.
    MayKill,
    /// The state of the host counts instead of the answer: the cell may have a private object of
    /// the same name.
    ByEvidence,
}

/// Name of the file next to the workspace that must not appear.
pub(super) const MADE: &str = "made-inside";

/// The mechanism that refuses an attempt: in a cell with namespaces, and in one without.
#[derive(Clone, Copy)]
pub(super) struct Wall {
    with: &'static str,
    without: &'static str,
}

impl Wall {
    const fn new(with: &'static str, without: &'static str) -> Self {
        Self { with, without }
    }

    pub(super) fn of(self, enforcement: &Enforcement) -> &'static str {
        if enforcement.degraded == Some(Degraded::Landlock) { self.without } else { self.with }
    }
}

const MOUNTS: Wall = Wall::new("mount namespace, Landlock", "Landlock");
const SOCKET_FILES: Wall = Wall::new("mount namespace", "seccomp");
const COVER: Wall = Wall::new("mounts over what is denied", "Landlock");
const NETWORK: Wall = Wall::new("network namespace", "seccomp, Landlock");
const PROCESSES: Wall = Wall::new("pid namespace", "Landlock");
const SYSTEM_CALLS: Wall = Wall::new("seccomp, no capabilities", "seccomp, no capabilities");
const NAMESPACES: Wall = Wall::new("seccomp, limit of namespaces", "seccomp");
const MODES: Wall = Wall::new("seccomp", "seccomp");
const PROGRAMS: Wall = Wall::new("no new privileges, mounts without set-user-id", "no new privileges");
const COVER_OF_SOCKETS: Wall = Wall::new("mounts over what listens", "seccomp");
const LIMITS: Wall =
    Wall::new("control group, resource limits, watchdog", "control group, resource limits, watchdog");
const BOUNDED: &str = "command-bounded";
/// Mechanism that ends all descendants of a command.
pub(super) const END: Wall = Wall::new("pid namespace", "the cell's first process");
/// Mechanism that gives the command's files to the owner.
pub(super) const OWNER: Wall = Wall::new("user namespace, id-mapped mount", "it runs as that user");

/// Returns all cases, in the order in which they are shown.
pub(super) fn all(scene: &Scene) -> Vec<Case> {
    let file = |path: &str| scene.inside(path).into_os_string();
    let beside = |path: &str| scene.outside(path).into_os_string();
    let port = || vec![scene.loopback.to_string().into()];
    let mut cases = vec![
        Case::new("file-outside", "host-absent", MOUNTS, "read", vec![beside("file")]),
        Case::new("write-outside", "host-absent", MOUNTS, "write", vec![])
            .sides(vec![beside(MADE)], vec![beside("made-outside")])
            .read(Reading::ByEvidence),
        Case::new("write-read-only-root", "host-absent", MOUNTS, "write", vec![beside("shown/made")]),
        Case::new("denied-file", "denied-files-absent", COVER, "read", vec![file("denied/file")]),
        Case::new("denied-file-by-symlink", "denied-files-absent", COVER, "read-by-symlink", vec![]).sides(
            vec![file("denied/file"), file("plain/symlink-in")],
            vec![file("denied/file"), file("plain/symlink-out")],
        ),
        Case::new("denied-file-by-hard-link", "denied-files-absent", COVER, "read-by-hard-link", vec![])
            .sides(
                vec![file("denied/file"), file("plain/link-in")],
                vec![file("denied/file"), file("plain/link-out")],
            ),
        Case::new("denied-file-after-rename", "denied-files-absent", COVER, "read-after-rename", vec![])
            .sides(
                vec![file("moved-in"), file("away-in"), file("away-in/file")],
                vec![file("moved-out"), file("away-out"), file("away-out/file")],
            ),
        Case::new("denied-file-other-name", "", COVER, "read", vec![file("other-name")]),
        Case::new("host-loopback", "host-absent", NETWORK, "connect", port()),
        Case::new(
            "host-abstract-socket",
            "host-absent",
            NETWORK,
            "connect-abstract",
            vec![scene.abstract_name.clone()],
        ),
        Case::new("host-socket-file", "host-absent", SOCKET_FILES, "connect-path", vec![beside("socket")]),
        Case::new(
            "socket-in-workspace",
            "host-sockets-absent",
            COVER_OF_SOCKETS,
            "connect-path",
            vec![file("socket")],
        ),
        Case::new(
            "host-process-seen",
            "host-absent",
            PROCESSES,
            "see",
            vec![scene.victims[0].argument.clone()],
        ),
        Case::new("host-process-killed", "host-absent", PROCESSES, "kill", vec![])
            .sides(
                vec![scene.victims[0].pid().to_string().into()],
                vec![scene.victims[1].pid().to_string().into()],
            )
            .read(Reading::ByEvidence),
    ];
    for (name, way) in [
        ("namespace-by-unshare", "unshare"),
        ("namespace-by-clone", "clone"),
        ("namespace-by-clone3", "clone3"),
    ] {
        let case = Case::new(name, "kernel-surface", NAMESPACES, "namespace", vec![way.into()]);
        cases.push(case.read(Reading::HostMayRefuse));
    }
    cases.push(
        Case::new("mount", "kernel-surface", SYSTEM_CALLS, "mount", vec![file("mount")])
            .read(Reading::HostMayRefuse),
    );
    cases.push(
        Case::new("trace", "kernel-surface", SYSTEM_CALLS, "trace", vec![]).read(Reading::HostMayRefuse),
    );
    if let Some(program) = set_user_id_program() {
        let program = vec![program.into_os_string()];
        cases.push(Case::new(
            "set-user-id-program",
            "command-unprivileged",
            PROGRAMS,
            "set-user-id-program",
            program,
        ));
    }
    cases.push(Case::new(
        "set-user-id-mode",
        "no-set-user-id-left",
        MODES,
        "set-user-id-mode",
        vec![file("mode")],
    ));
    cases.extend(limits(scene));
    cases
}

/// Returns the attempts to use more resources than the cell may.
fn limits(scene: &Scene) -> Vec<Case> {
    let amount = |amount: u64| OsString::from(amount.to_string());
    let file = |name: &str| vec![scene.inside(name).into_os_string(), amount(amount::FILE)];
    vec![
        Case::new("memory", BOUNDED, LIMITS, "memory", vec![amount(amount::MEMORY)]).read(Reading::MayKill),
        Case::new("processes", BOUNDED, LIMITS, "processes", vec![amount(amount::PROCESSES)])
            .read(Reading::MayKill),
        Case::new("file-size", BOUNDED, LIMITS, "file-size", vec![])
            .sides(file("plain/large-in"), file("plain/large-out"))
            .read(Reading::MayKill),
    ]
}

impl Case {
    /// Builds a case with equal attempts inside and outside. An empty promise stands for none.
    fn new(
        name: &'static str,
        promise: &'static str,
        enforced_by: Wall,
        attempt: &'static str,
        arguments: Vec<OsString>,
    ) -> Self {
        let whole: Vec<OsString> = [attempt.into()].into_iter().chain(arguments).collect();
        let promise = (!promise.is_empty()).then_some(promise);
        Self { name, promise, enforced_by, outside: whole.clone(), inside: whole, reading: Reading::Plain }
    }

    fn sides(mut self, inside: Vec<OsString>, outside: Vec<OsString>) -> Self {
        self.inside.extend(inside);
        self.outside.extend(outside);
        self
    }

    fn read(self, reading: Reading) -> Self {
        Self { reading, ..self }
    }
}
