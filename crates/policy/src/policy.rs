use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tool::Access;

use crate::command::CommandRules;
use crate::host::HostRules;
use crate::merge::{Allowed, DeniedLists, Merged, Written};
use crate::path::{AllowedPaths, Case, PathList, PathRules, Reach, Spot, fold_path, roots};
use crate::{
    BUILT_IN_DENIED_READS, DEFAULT_PROFILE, Dangerous, Denied, Kind, Limits, Mode, Names, Origin,
    PathVerdict, PolicyError, ProfileSource, Programs, RootRight, Rule, Source, Undoable, Warning,
};

/// The rules of one profile, compiled for one workspace. Asking it does no input or output.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) profile: Arc<str>,
    pub(crate) mode: (Mode, Origin),
    pub(crate) dangerous: (Dangerous, Origin),
    pub(crate) undoable: (Undoable, Origin),
    pub(crate) dialect: Dialect,
    pub(crate) strict: bool,
    pub(crate) limits: Limits,
    pub(crate) workspace: PathBuf,
    pub(crate) home: Option<PathBuf>,
    pub(crate) reads: PathRules,
    pub(crate) writes: PathRules,
    pub(crate) protected: Vec<(PathBuf, Rule)>,
    pub(crate) commands: CommandRules,
    /// Some file that counts names `deny_exec_command`.
    pub(crate) denies_commands: bool,
    pub(crate) allowed_hosts: HostRules,
    pub(crate) denied_hosts: HostRules,
    pub(crate) roots: Vec<RootRight>,
    pub(crate) programs: Programs,
    warnings: Vec<Warning>,
}

/// What a policy is compiled from.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The profiles of each file, in the order of precedence: managed, user, workspace.
    pub sources: &'a [Source],
    /// The chosen profile.
    pub profile: &'a str,
    /// The mode chosen for this run, and where; none leaves it to the profile.
    pub mode: Option<(Mode, Origin)>,
    /// What the dialect settles where the profile is silent.
    pub dialect: Dialect,
    /// The workspace: absolute, without links.
    pub workspace: &'a Path,
    /// The home folder: absolute, without links. None where there is none; a rule that names it is then an error.
    pub home: Option<&'a Path>,
    /// What no tool can write: the policy files and the state folder.
    pub protected: &'a [PathBuf],
    /// Where the programs of a cell lie.
    pub programs: Programs,
}

/// What a dialect settles where the profile is silent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// What a dangerous pattern gets.
    pub dangerous: Dangerous,
    /// What an undoable call gets under the built-in `normal` profile. A profile that is written gets the table.
    pub undoable: Undoable,
    /// Whether recursive removal of any absolute path is dangerous.
    pub any_absolute_removal: bool,
}

impl Policy {
    /// Merges the files, follows `inherit`, and compiles the lists.
    ///
    /// # Errors
    /// Names the profile, the key and the entry at fault.
    pub fn compile(setup: &Setup<'_>) -> Result<Self, PolicyError> {
        require_normal("workspace", setup.workspace)?;
        setup.home.map_or(Ok(()), |home| require_normal("home folder", home))?;
        let merged = Merged::new(setup.sources);
        let name = setup.profile;
        if !merged.names().contains(&name) {
            let defined = merged.names().join(", ");
            return Err(PolicyError::UnknownProfile { name: name.to_owned(), defined });
        }
        let lineage = merged.lineage(name)?;
        let ignores_case = merged.is_on(name, |source| source.deny_ignore_case);
        let denied_case = if ignores_case { Case::Ignored } else { Case::Counts };
        let paths = Paths { workspace: setup.workspace, home: setup.home, denied_case };

        let mut denied_reads = merged.denied(name, |source| source.deny_read_paths.as_ref());
        if !denied_reads.named {
            let entries = BUILT_IN_DENIED_READS.map(str::to_owned).to_vec();
            let built_in = Written { profile: name.to_owned(), origin: Origin::BuiltIn, entries };
            denied_reads.lists.insert(0, built_in);
        }
        let denied_writes = merged.denied(name, |source| source.deny_write_paths.as_ref());
        let allowed = |key: fn(&ProfileSource) -> Option<&Vec<String>>| merged.allowed(&lineage, key);
        let reads = PathRules {
            denied: paths.denied("deny_read_paths", denied_reads)?,
            allowed: paths
                .allowed("allowed_read_paths", allowed(|source| source.allowed_read_paths.as_ref()))?,
        };
        let writes = PathRules {
            denied: paths.denied("deny_write_paths", denied_writes)?,
            allowed: paths
                .allowed("allowed_write_paths", allowed(|source| source.allowed_write_paths.as_ref()))?,
        };

        let deny_lists = merged.denied(name, |source| source.deny_exec_command.as_ref());
        let denies_commands = !deny_lists.lists.is_empty();
        let mut commands = CommandRules::default();
        let listed = allowed(|source| source.allowed_exec_command.as_ref()).lists;
        each(listed, "allowed_exec_command", |rule| commands.allow(rule))?;
        each(deny_lists.lists, "deny_exec_command", |rule| commands.deny(rule))?;
        let (mut allowed_hosts, mut denied_hosts) = (HostRules::default(), HostRules::default());
        let listed = allowed(|source| source.allowed_hosts.as_ref()).lists;
        each(listed, "allowed_hosts", |rule| allowed_hosts.add(rule))?;
        let denied = merged.denied(name, |source| source.deny_hosts.as_ref()).lists;
        each(denied, "deny_hosts", |rule| denied_hosts.add(rule))?;

        let built_in_undoable = if name == DEFAULT_PROFILE && !merged.is_written(name) {
            setup.dialect.undoable
        } else {
            Undoable::Table
        };
        let profile: Arc<str> = name.into();
        let protect = |path: &PathBuf| {
            let entry = path.display().to_string();
            let rule = Rule { key: PROTECTED, entry, profile: profile.clone(), origin: Origin::BuiltIn };
            (path.clone(), rule)
        };
        Ok(Self {
            mode: merged.mode(name, setup.mode.clone()),
            dangerous: merged
                .first(name, |source| source.dangerous)
                .unwrap_or((setup.dialect.dangerous, Origin::BuiltIn)),
            undoable: merged
                .first(name, |source| source.undoable)
                .unwrap_or((built_in_undoable, Origin::BuiltIn)),
            dialect: setup.dialect,
            strict: merged.is_on(name, |source| source.strict),
            limits: merged.limits(name),
            workspace: setup.workspace.to_owned(),
            home: setup.home.map(Path::to_owned),
            roots: roots(setup.workspace, &reads, &writes),
            reads,
            writes,
            protected: setup.protected.iter().map(protect).collect(),
            commands,
            denies_commands,
            allowed_hosts,
            denied_hosts,
            programs: setup.programs.clone(),
            warnings: merged.warnings,
            profile,
        })
    }

    /// What the lists say to a path, by its spelling. Whether it is a folder is not known here, so a rule for folders counts.
    ///
    /// This is what a guard asks again about an object that it has opened, and for each entry of a listing or a search.
    pub fn path_verdict(&self, access: Access, path: &Path) -> PathVerdict<'_> {
        let spot = Spot::of(path, &self.workspace);
        match access {
            Access::Read => self.reads.verdict(&spot, Kind::Unknown),
            Access::Write => match self.own_file(path) {
                Some(rule) => PathVerdict::Denied(rule),
                None => self.writes.verdict(&spot, Kind::Unknown),
            },
        }
    }

    /// The rule that keeps every tool from writing the path, because it is Handfast's own. In any case: a file system may not
    /// tell it apart.
    pub fn own_file(&self, path: &Path) -> Option<&Rule> {
        let path = fold_path(path);
        self.protected
            .iter()
            .find(|(protected, _)| path.starts_with(fold_path(protected)))
            .map(|(_, rule)| rule)
    }

    /// [`Policy::path_verdict`] on reading, for the names in one folder.
    pub fn readable_names<'a>(&'a self, folder: &'a Path) -> Names<'a> {
        Names::new(&self.reads, &self.workspace, folder)
    }

    /// The workspace, first, and every listed path outside it.
    pub fn roots(&self) -> &[RootRight] {
        &self.roots
    }

    /// Finds what may not be read, to be masked in a cell.
    pub fn denied_reads(&self) -> Denied<'_> {
        Denied { rules: &self.reads, workspace: &self.workspace }
    }

    /// Finds what may not be written, to be shown read-only in a cell. The protected paths are not among it.
    pub fn denied_writes(&self) -> Denied<'_> {
        Denied { rules: &self.writes, workspace: &self.workspace }
    }

    /// What no tool can write, however it is named.
    pub fn protected(&self) -> impl Iterator<Item = &Path> {
        self.protected.iter().map(|(path, _)| path.as_path())
    }

    /// The name of the profile.
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// The mode that counts.
    pub fn mode(&self) -> Mode {
        self.mode.0
    }

    /// Whether a sandbox weaker than asked for is refused.
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// What one command may use.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether the profile lists hosts, so that its cells have a network.
    pub fn allows_hosts(&self) -> bool {
        !self.allowed_hosts.is_empty()
    }

    /// The keys that were ignored because their file is not trusted.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// The key that a decision names for a protected path.
const PROTECTED: &str = "protected";

fn require_normal(what: &'static str, path: &Path) -> Result<(), PolicyError> {
    let normal = path.is_absolute()
        && path.components().all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    if normal {
        return Ok(());
    }
    Err(PolicyError::NotAbsolute { what, path: path.display().to_string() })
}

/// What path patterns are relative to.
struct Paths<'a> {
    workspace: &'a Path,
    home: Option<&'a Path>,
    /// Whether case counts in what is denied. In what is allowed it always does.
    denied_case: Case,
}

impl Paths<'_> {
    fn denied(&self, key: &'static str, denied: DeniedLists) -> Result<Vec<PathList>, PolicyError> {
        denied
            .lists
            .into_iter()
            .filter(|list| !list.entries.is_empty())
            .map(|list| self.compile(key, list, Reach::Anywhere, self.denied_case))
            .collect()
    }

    fn allowed(&self, key: &'static str, allowed: Allowed) -> Result<AllowedPaths, PolicyError> {
        let lists =
            allowed.lists.into_iter().map(|list| self.compile(key, list, Reach::Workspace, Case::Counts));
        Ok(AllowedPaths { workspace: allowed.default, lists: lists.collect::<Result<_, _>>()? })
    }

    fn compile(
        &self,
        key: &'static str,
        list: Written,
        reach: Reach,
        case: Case,
    ) -> Result<PathList, PolicyError> {
        PathList::compile(rules(list, key).collect(), reach, case, self.workspace, self.home)
    }
}

fn rules(list: Written, key: &'static str) -> impl Iterator<Item = Rule> {
    let profile: Arc<str> = list.profile.into();
    list.entries.into_iter().map(move |entry| Rule {
        key,
        entry,
        profile: profile.clone(),
        origin: list.origin.clone(),
    })
}

fn each(
    lists: Vec<Written>,
    key: &'static str,
    mut add: impl FnMut(Rule) -> Result<(), String>,
) -> Result<(), PolicyError> {
    for rule in lists.into_iter().flat_map(|list| rules(list, key)) {
        add(rule.clone()).map_err(|problem| PolicyError::Entry {
            profile: rule.profile.to_string(),
            key,
            entry: rule.entry.clone(),
            problem,
            origin: rule.origin.to_string(),
        })?;
    }
    Ok(())
}
