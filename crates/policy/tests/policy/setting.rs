//! A workspace, a home folder, and short helpers for questions.

use std::path::{Path, PathBuf};

use policy::{
    Decision, Dialect, Mode, Origin, Part, Policy, PolicyError, Profiles, Programs, Request, Setup, Source,
    Trust,
};
use tool::{CommandLine, Effect, Level};

pub(crate) const WORKSPACE: &str = "/w/project";
pub(crate) const HOME: &str = "/home/ann";
pub(crate) const STATE: &str = "/home/ann/.local/state/handfast";

pub(crate) fn profiles(json: &str) -> Profiles {
    serde_json::from_str(json).unwrap()
}

/// Returns the user's own file with this `sandbox_config`.
pub(crate) fn user(json: &str) -> Source {
    let file = Path::new("/home/ann/.config/handfast/config.yaml");
    Source::new(Origin::User(file.into()), Trust::Trusted, profiles(json))
}

/// Returns the workspace's file with this `sandbox_config`.
pub(crate) fn workspace(json: &str, trust: Trust) -> Source {
    let file = Path::new("/w/project/handfast.yaml");
    Source::new(Origin::Workspace(file.into()), trust, profiles(json))
}

/// Returns the administrator's file with this `sandbox_config`.
pub(crate) fn managed(json: &str) -> Source {
    let file = Path::new("/etc/handfast/config.yaml");
    Source::new(Origin::Managed(file.into()), Trust::Trusted, profiles(json))
}

#[expect(clippy::large_types_passed_by_value, reason = "it is made for each call")]
pub(crate) fn compile_as(
    sources: &[Source],
    profile: &str,
    mode: Option<Mode>,
    dialect: Dialect,
) -> Result<Policy, PolicyError> {
    Policy::compile(&Setup {
        sources,
        profile,
        mode: mode.map(|mode| (mode, Origin::CommandLine)),
        dialect,
        workspace: Path::new(WORKSPACE),
        home: Some(Path::new(HOME)),
        protected: &[PathBuf::from("/w/project/handfast.yaml"), PathBuf::from(STATE)],
        closed: &[],
        programs: Programs::Presumed,
        tools: &[],
    })
}

pub(crate) fn compile(sources: &[Source], profile: &str) -> Policy {
    compile_as(sources, profile, None, Dialect::default()).unwrap()
}

/// Compiles the profile `normal` of the user's file, in a mode.
pub(crate) fn normal(json: &str, mode: Mode) -> Policy {
    let json = format!(r#"{{"normal": {json}}}"#);
    compile_as(&[user(&json)], "normal", Some(mode), Dialect::default()).unwrap()
}

pub(crate) fn in_workspace(path: &str) -> PathBuf {
    Path::new(WORKSPACE).join(path)
}

pub(crate) fn read(path: &str) -> Effect {
    Effect::Read { path: in_workspace(path) }
}

pub(crate) fn write(path: &str) -> Effect {
    Effect::Write { path: in_workspace(path) }
}

pub(crate) fn delete(path: &str) -> Effect {
    Effect::Delete { path: in_workspace(path) }
}

pub(crate) fn run(line: &str) -> Effect {
    Effect::Run { command: CommandLine::Shell(line.to_owned()), directory: WORKSPACE.into() }
}

pub(crate) fn connect(host: &str) -> Effect {
    Effect::Connect { host: host.to_owned(), port: 443, method: None, only_asks: false }
}

pub(crate) fn decide_all(policy: &Policy, level: Level, effects: &[Effect]) -> Decision {
    let parts: Vec<Part> = effects.iter().cloned().map(Part::from).collect();
    policy.decide(&Request {
        tool: "a_tool",
        level,
        parts: &parts,
        undoable_in_force: false,
        background: false,
    })
}

pub(crate) fn decide(policy: &Policy, level: Level, effect: Effect) -> Decision {
    decide_all(policy, level, &[effect])
}

/// Returns the answer to a shell line, as `deny 1`.
pub(crate) fn answer(policy: &Policy, line: &str) -> String {
    short(&decide(policy, Level::Destructive, run(line)))
}

/// Formats a decision as `deny 1`.
pub(crate) fn short(decision: &Decision) -> String {
    format!("{} {}", decision.verdict.as_str(), decision.line.number())
}
