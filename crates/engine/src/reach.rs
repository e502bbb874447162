//! Resolution of the paths of a call, and the roots in which its tool may act.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use policy::{Part, PathVerdict, Policy};
use roots::{Guard, LastLink, ReadableNames, Refusal, Right, Root, Roots, real_path};
use rustix::fs::{Mode, OFlags};
use tool::{Access, Effect, Place, Plan, ToolError};

use crate::cell::shown;
use crate::denied::DeniedFiles;

/// Roots of this runtime, opened once, and the rules about paths in them.
pub(crate) struct AccessScope {
    policy: Arc<Policy>,
    denied: Arc<DeniedFiles>,
    workspace: PathBuf,
    roots: Vec<Root>,
}

impl AccessScope {
    pub(crate) fn open(
        policy: Arc<Policy>,
        denied: Arc<DeniedFiles>,
        place: &Place,
    ) -> Result<Self, roots::RootsError> {
        let mut opened = Vec::new();
        for root in policy.roots() {
            let right = if root.write { Right::Write } else { Right::Read };
            match Root::open(&root.path, right) {
                Ok(root) => opened.push(root),
                // A listed folder that cannot be opened is skipped, so no call can act in it. The
                // workspace must exist.
                Err(_) if root.path != place.workspace => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { policy, denied, workspace: place.workspace.clone(), roots: opened })
    }

    /// Returns the denied files.
    pub(crate) fn denied(&self) -> Arc<DeniedFiles> {
        self.denied.clone()
    }

    /// Returns the effects, each with its real path if symbolic links lead elsewhere.
    pub(crate) fn resolve(plan: &Plan) -> Vec<Part> {
        let is_login =
            |effect: &Effect| matches!(effect, Effect::UseSecret { name, .. } if plan.login.contains(name));
        // A file that is read and then written is named twice in a row.
        let mut last: Option<(&Effect, Option<PathBuf>)> = None;
        let lead = |effect| {
            let found = match last.take() {
                Some((before, found)) if is_same_place(before, effect) => found,
                _ => real(effect),
            };
            last = Some((effect, found.clone()));
            Part {
                real: found,
                effect: effect.clone(),
                runs: None,
                states: stated(effect),
                impact: policy::Impact::Unasked,
                is_login: is_login(effect),
            }
        };
        plan.effects.iter().map(lead).collect()
    }

    /// Resolves the paths of the same effects again.
    pub(crate) fn lead_again(parts: &[Part]) -> Vec<Part> {
        let again =
            |part: &Part| Part { real: real(&part.effect), states: stated(&part.effect), ..part.clone() };
        parts.iter().map(again).collect()
    }

    /// Returns the roots for one call. Paths that a human approved are reachable for this call,
    /// even outside the roots and the profile's lists. `covered` names the workspace paths that
    /// were saved because the tool will change them; the tool may change no others.
    pub(crate) fn roots(
        &self,
        parts: &[Part],
        approved: bool,
        covered: Option<Vec<PathBuf>>,
    ) -> Result<Roots, ToolError> {
        let mut granted = GrantedPath::default();
        let mut roots = self.roots.clone();
        if approved {
            for part in parts {
                let Some((access, named)) = part.effect.path() else { continue };
                let path = part.real.as_deref().unwrap_or(named);
                if self.policy.path_verdict(access, path) == PathVerdict::Outside {
                    let right = if access == Access::Write { Right::Write } else { Right::Read };
                    let root = Root::open(path, right).map_err(|error| {
                        ToolError::new(tool::Code::NotFound, error.to_string()).because(error)
                    })?;
                    roots.push(root);
                    granted.add(access, path);
                }
            }
        }
        let guard = PolicyGuard {
            policy: self.policy.clone(),
            denied: self.denied.clone(),
            workspace: self.workspace.clone(),
            hidden: OnceLock::new(),
            granted,
            covered,
        };
        Ok(Roots::new(roots, Arc::new(guard)))
    }
}

/// Returns true if both effects concern the target of the same path.
fn is_same_place(one: &Effect, other: &Effect) -> bool {
    match (one, other) {
        (
            Effect::Read { path } | Effect::Write { path },
            Effect::Read { path: other } | Effect::Write { path: other },
        ) => path == other,
        _ => false,
    }
}

/// Maximum size in bytes of a file that is searched for statements. A larger file counts as one
/// that may hold any statement.
const LARGEST_STATEMENTS: u64 = 1024 * 1024;

/// Returns the reason why the statements are dangerous that a command reads from files. A missing
/// file may be created before the command reads it.
fn stated(effect: &Effect) -> Option<String> {
    let Effect::Run { command, directory } = effect else { return None };
    policy::statement_files(command, directory).iter().find_map(|file| {
        let shown = tool::path_text(&file.path);
        match text_of(&file.path) {
            Some(text) => {
                policy::dangerous_statements(&text).map(|why| format!("{why}, in a statement of {shown}"))
            }
            None if file.certain => {
                Some(format!("it runs the statements of {shown}, which cannot be inspected"))
            }
            None => None,
        }
    })
}

/// Returns the text of a file whose size does not exceed the limit.
fn text_of(path: &Path) -> Option<String> {
    use std::io::Read;
    // `NONBLOCK` prevents waiting if the path is a FIFO.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let is_small = file.metadata().is_ok_and(|data| data.is_file() && data.len() <= LARGEST_STATEMENTS);
    let mut bytes = Vec::new();
    file.take(LARGEST_STATEMENTS).read_to_end(&mut bytes).ok().filter(|_| is_small)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the real path of an effect, or the real working directory of a command, if it differs
/// from the named one.
fn real(effect: &Effect) -> Option<PathBuf> {
    let named = match effect {
        Effect::Run { directory, .. } => directory,
        other => other.path()?.1,
    };
    // A removal or a move acts on a link itself; every other effect acts on its target.
    let last = if matches!(effect, Effect::Delete { .. }) { LastLink::Keep } else { LastLink::Follow };
    // A path that cannot be followed is judged by its name; the tool will get the same error.
    real_path(named, last).ok().filter(|real| real != named)
}

/// Paths that a human allowed for one call although the profile does not list them.
#[derive(Default)]
struct GrantedPath(Vec<(Access, PathBuf)>);

impl GrantedPath {
    fn add(&mut self, access: Access, path: &Path) {
        self.0.push((access, path.to_owned()));
    }

    fn covers(&self, access: Access, path: &Path) -> bool {
        self.0
            .iter()
            .any(|(granted, root)| (*granted == access || access == Access::Read) && path.starts_with(root))
    }
}

/// Guard that asks the policy again about every path that a file tool reaches.
struct PolicyGuard {
    policy: Arc<Policy>,
    denied: Arc<DeniedFiles>,
    workspace: PathBuf,
    /// Denied files with several names, as of the first time that this call met a file with several
    /// names, or the reason why they are unknown.
    hidden: OnceLock<Result<HashSet<(u64, u64)>, String>>,
    granted: GrantedPath,
    covered: Option<Vec<PathBuf>>,
}

impl PolicyGuard {
    /// Refuses changes of paths that were not saved, because a path may lead elsewhere than when
    /// its plan was resolved.
    fn is_saved(&self, path: &Path) -> Result<(), Refusal> {
        let is_covered = |covered: &Vec<PathBuf>| {
            covered.iter().any(|saved| path.starts_with(saved)) || !path.starts_with(&self.workspace)
        };
        if self.covered.as_ref().is_none_or(is_covered) {
            return Ok(());
        }
        Err(Refusal {
            reason: format!("{} was not saved before the call began", path.display()),
            hint: Some("a path of the call has a new target; repeat the call".to_owned()),
        })
    }

    fn may(&self, access: Access, path: &Path) -> Result<(), Refusal> {
        match self.policy.path_verdict(access, path) {
            PathVerdict::Denied(rule) => Err(Refusal { reason: format!("denied by {rule}"), hint: None }),
            PathVerdict::Outside if !self.granted.covers(access, path) => Err(Refusal {
                reason: format!("{} is not on the profile's list", path.display()),
                hint: Some("name it in the call itself, which can then ask for approval".to_owned()),
            }),
            PathVerdict::Outside | PathVerdict::Workspace | PathVerdict::Listed(_) => Ok(()),
        }
    }
}

impl Guard for PolicyGuard {
    fn may_read(&self, real: &Path) -> Result<(), Refusal> {
        self.may(Access::Read, real)
    }

    fn readable_names<'a>(&'a self, folder: &'a Path) -> ReadableNames<'a> {
        let names = self.policy.readable_names(folder);
        Box::new(move |name| names.is_allowed(name) || self.may_read(&folder.join(name)).is_ok())
    }

    fn may_read_under_any_name(&self, real: &Path, file: (u64, u64)) -> Result<(), Refusal> {
        let hidden = self.hidden.get_or_init(|| {
            let roots = shown(&self.policy, &self.workspace);
            self.denied.hidden_with_several_names(&roots).map_err(|error| error.to_string())
        });
        let reason = match hidden {
            Ok(hidden) if !hidden.contains(&file) => return Ok(()),
            Ok(_) => format!("{} is another name (a hard link) of a file that is denied", real.display()),
            Err(error) => {
                format!("it has other names, and the check whether one of them is denied failed: {error}")
            }
        };
        Err(Refusal { reason, hint: Some("a copy of the file is judged by the name of the copy".to_owned()) })
    }

    fn may_write(&self, real: &Path) -> Result<(), Refusal> {
        self.is_saved(real)?;
        self.may(Access::Write, real)
    }
}

/// Returns one effect as a line for people.
pub(crate) fn line(part: &Part, place: &Place) -> String {
    let leads =
        part.real.as_ref().map(|real| format!(" (leads to {})", place.show(real))).unwrap_or_default();
    match &part.effect {
        Effect::Read { path } => format!("read {}{leads}", place.show(path)),
        Effect::Write { path } => format!("write {}{leads}", place.show(path)),
        Effect::Delete { path } => format!("delete {}{leads}", place.show(path)),
        Effect::Run { command, directory } => {
            let command = match command {
                tool::CommandLine::Shell(line) => line.clone(),
                tool::CommandLine::Argv(words) => format!("{words:?}"),
                tool::CommandLine::Typed { session, text } => {
                    return format!("type into the session {session}: {text:?}");
                }
            };
            format!("run in {}: {command}", place.show(directory))
        }
        Effect::Connect { host, port, method, only_asks } => {
            let method = method.as_deref().map(|method| format!("{method} to ")).unwrap_or_default();
            let asks = if *only_asks { ", only to look up data" } else { "" };
            format!("connect: {method}{host}:{port}{asks}")
        }
        Effect::Browse { origin, what, .. } => format!("{what}, on {origin}"),
        Effect::Act { host, what } => format!("{what}, at {host}"),
        Effect::UseSecret { name, host } => format!("use the secret {name} at {host}"),
        Effect::DatabaseWrite { statement } => format!("change a database: {statement}"),
        Effect::Schedule { what } => format!("schedule: {what}"),
        Effect::UseTool { server, tool, definition } => {
            format!("use the tool {tool} of {server} (definition {definition})")
        }
        Effect::ChangeHandfast { what } => format!("change Handfast: {what}"),
    }
}
