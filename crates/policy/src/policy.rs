//! The compiled policy.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tool::Access;

use crate::ceiling::Bounds;
use crate::command::CommandRules;
use crate::each::each;
use crate::examples::require_examples;
use crate::host::HostRules;
use crate::merge::{Allowed, DeniedLists, MergedSources};
use crate::names::{NameRules, Shape};
use crate::narrow::Narrowing;
use crate::pages::PageRules;
use crate::path::{
    AllowedPaths, Case, LocatedPath, PathList, PathRules, PatternReach, fold_path, is_below, roots,
};
use crate::push::PushRules;
use crate::{
    BUILT_IN_DENIED_READS, CallersOver, CommandsSee, DEFAULT_PROFILE, Dangerous, DeniedPaths, Isolation,
    Kind, Limits, List, Mode, Names, Origin, ParentAnswers, PathVerdict, PolicyError, Programs, RootRight,
    Rule, Source, Undoable, UnlistedHosts, Warning,
};

/// Rules of one profile, compiled for one workspace. No question to a policy does input or output.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) profile: Arc<str>,
    pub(crate) mode: (Mode, Origin),
    pub(crate) dangerous: (Dangerous, Origin),
    pub(crate) undoable: (Undoable, Origin),
    pub(crate) unlisted_hosts: (UnlistedHosts, Origin),
    pub(crate) parent_may_answer: (ParentAnswers, Origin),
    pub(crate) commands_see: (CommandsSee, Origin),
    /// Number of callers above which an edit is asked about.
    pub(crate) callers_over: (CallersOver, Origin),
    /// Paths that the cell of one call shows in addition to the listed ones.
    pub(crate) also_seen: Vec<PathBuf>,
    pub(crate) dialect: Dialect,
    pub(crate) isolation: (Isolation, Origin),
    pub(crate) strict: bool,
    /// Limits from the user's own files, else from the dialect; and the upper bounds from other files.
    pub(crate) limits: (Limits, Limits),
    pub(crate) workspace: PathBuf,
    pub(crate) home: Option<PathBuf>,
    pub(crate) reads: PathRules,
    pub(crate) writes: PathRules,
    /// Paths that run automatically, in addition to the built-in ones.
    pub(crate) auto_run: PathRules,
    pub(crate) protected: Vec<(PathBuf, Rule)>,
    pub(crate) commands: CommandRules,
    /// Entries of `moderate_exec_command`, each of which is also valid in `allowed_exec_command`.
    pub(crate) moderate: Vec<Rule>,
    /// True if a file that counts has an entry of `deny_exec_command`.
    pub(crate) denies_commands: bool,
    pub(crate) allowed_hosts: HostRules,
    pub(crate) denied_hosts: HostRules,
    pub(crate) allowed_secrets: NameRules,
    pub(crate) denied_secrets: NameRules,
    pub(crate) pushes: PushRules,
    pub(crate) pages: PageRules,
    pub(crate) allowed_statements: NameRules,
    pub(crate) denied_statements: NameRules,
    pub(crate) denied_changes: NameRules,
    pub(crate) denied_tools: NameRules,
    pub(crate) roots: Vec<RootRight>,
    /// Folders that the lists let calls write, whatever a ceiling takes away.
    pub(crate) written: Vec<PathBuf>,
    pub(crate) programs: Programs,
    pub(crate) cell_writes: bool,
    pub(crate) bounds: Option<Arc<Bounds>>,
    pub(crate) warnings: Vec<Warning>,
    /// Policy with further leases that count for calls whose every change can be undone, and for no
    /// other calls.
    pub(crate) leased_in_the_cell: Option<Arc<Policy>>,
    /// The policies before narrowing, if an untrusted file narrows this one.
    pub(crate) narrowing: Option<Arc<Narrowing>>,
}

/// Input from which a policy is compiled.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// Profiles of each file, in the order of precedence: managed, user, workspace.
    pub sources: &'a [Source],
    /// Name of the chosen profile.
    pub profile: &'a str,
    /// Mode chosen for this run, with its place; `None` leaves it to the profile.
    pub mode: Option<(Mode, Origin)>,
    /// Settings of the dialect, for keys that the profile does not name.
    pub dialect: Dialect,
    /// Path of the workspace: absolute, without links.
    pub workspace: &'a Path,
    /// Path of the home folder: absolute, without links. Without one, a rule that names the home
    /// folder is an error.
    pub home: Option<&'a Path>,
    /// Paths that no tool can write: the policy files and the state folder.
    pub protected: &'a [PathBuf],
    /// Patterns of paths that no tool reads or writes, whatever the profile says: the files of
    /// databases. A program that has a database open would find its files damaged if another
    /// program touched them.
    pub closed: &'a [String],
    /// Lookup of the programs of a cell.
    pub programs: Programs,
    /// Names of all tools, which rules may name. If the list is empty, any name is accepted.
    pub tools: &'a [&'a str],
}

/// Settings of a dialect, for keys that the profile does not name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// Treatment of a dangerous pattern.
    pub dangerous: Dangerous,
    /// Treatment of an undoable call under the profile `normal`. Every other profile uses the table.
    pub undoable: Undoable,
    /// True if recursive removal of any absolute path is dangerous.
    pub any_absolute_removal: bool,
    /// True if a call that does more than read is asked about, unless the user's own lists or the
    /// mode `full_auto` let it pass.
    pub asks_unless_reading: bool,
    /// True if a tool is refused a path outside the workspace, whatever lists or humans say.
    pub only_workspace: bool,
    /// Paths that are never read or written, whatever the profile says: patterns of the deny lists.
    pub denied_paths: &'static [&'static str],
    /// Reason that is given for a denial by `denied_paths`.
    pub denied_reason: Option<&'static str>,
    /// Person to ask instead, in the hint of a denial by `denied_paths`.
    pub denied_hint: Option<&'static str>,
    /// Setting for what commands see of the workspace, if the profile lists the paths that may be read.
    pub commands_see: CommandsSee,
    /// Limits of one command, for those that the profile does not name.
    pub limits: Limits,
}

impl Policy {
    /// Returns true if line 8 lets a call pass whose changes can all be undone. If false, no caller
    /// needs to check that.
    pub fn passes_undoable(&self) -> bool {
        self.undoable.0 == Undoable::Pass
    }

    /// Merges the files, follows `inherit`, and compiles the lists.
    ///
    /// # Errors
    /// Returns an error that names the profile, the key and the entry at fault.
    pub fn compile(setup: &Setup<'_>) -> Result<Self, PolicyError> {
        Self::of_trusted(setup)?.narrowed(setup)
    }

    /// Compiles the permissions of the trusted files, and the denials of all files.
    pub(crate) fn of_trusted(setup: &Setup<'_>) -> Result<Self, PolicyError> {
        require_normal("workspace", setup.workspace)?;
        require_examples(setup)?;
        setup.home.map_or(Ok(()), |home| require_normal("home folder", home))?;
        let merged = MergedSources::new(setup.sources);
        let name = setup.profile;
        if !merged.names().contains(&name) {
            let names = merged.names();
            let near = tool::nearest(name, names.iter().copied()).map(str::to_owned);
            return Err(PolicyError::UnknownProfile {
                name: name.to_owned(),
                defined: names.join(", "),
                near,
            });
        }
        let lineage = merged.lineage(name)?;
        let ignores_case = merged.is_on(name, "deny_ignore_case", |source| source.deny_ignore_case).0;
        let denied_case = if ignores_case { Case::Ignored } else { Case::Counts };
        let paths = Paths { workspace: setup.workspace, home: setup.home, denied_case };

        let mut denied_reads = merged.denied(name, List::DenyReadPaths);
        if !denied_reads.named {
            denied_reads.lists.insert(0, built_in_denied_reads(name));
        }
        if !setup.dialect.denied_paths.is_empty() {
            denied_reads.lists.push(built_in(name, List::DenyReadPaths, setup.dialect.denied_paths));
        }
        let closed: Vec<&str> = setup.closed.iter().map(String::as_str).collect();
        if !closed.is_empty() {
            denied_reads.lists.push(built_in(name, List::DenyReadPaths, &closed));
        }
        let mut denied_writes = merged.denied(name, List::DenyWritePaths);
        if !setup.dialect.denied_paths.is_empty() {
            denied_writes.lists.push(built_in(name, List::DenyWritePaths, setup.dialect.denied_paths));
        }
        if !closed.is_empty() {
            denied_writes.lists.push(built_in(name, List::DenyWritePaths, &closed));
        }
        let allowed = |list| merged.allowed(&lineage, list);
        let reads = PathRules {
            denied: paths.denied(denied_reads)?,
            allowed: paths.allowed(allowed(List::AllowedReadPaths))?,
            also_allowed: Vec::new(),
        };
        let writes = PathRules {
            denied: paths.denied(denied_writes)?,
            allowed: paths.allowed(allowed(List::AllowedWritePaths))?,
            also_allowed: Vec::new(),
        };

        let names_no_list = reads.allowed.workspace;
        let commands_see = if names_no_list { CommandsSee::Workspace } else { setup.dialect.commands_see };

        let auto_run = PathRules {
            denied: paths.denied(merged.denied(name, List::AutoRunPaths))?,
            allowed: AllowedPaths::default(),
            also_allowed: Vec::new(),
        };

        let deny_lists = merged.denied(name, List::DenyExecCommand);
        let denies_commands = deny_lists.lists.iter().any(|list| !list.is_empty());
        let mut commands = CommandRules::default();
        each(allowed(List::AllowedExecCommand).lists, |rule| commands.allow(rule))?;
        each(deny_lists.lists, |rule| commands.deny(rule))?;
        let mut moderate = Vec::new();
        each(allowed(List::ModerateExecCommand).lists, |rule| {
            moderate.push(rule.clone());
            CommandRules::default().allow(rule)
        })?;
        let (mut allowed_hosts, mut denied_hosts) = (HostRules::default(), HostRules::default());
        each(allowed(List::AllowedHosts).lists, |rule| allowed_hosts.add(rule))?;
        each(merged.denied(name, List::DenyHosts).lists, |rule| denied_hosts.add(rule))?;
        let named = |lists: Vec<Vec<Rule>>, shape| {
            let mut rules = NameRules::new(shape);
            each(lists, |rule| rules.add(rule)).map(|()| rules)
        };
        let denied = |list| merged.denied(name, list).lists;
        let allowed_secrets = named(allowed(List::AllowedSecrets).lists, Shape::Secret)?;
        let denied_secrets = named(denied(List::DenySecrets), Shape::Secret)?;
        let pushes = PushRules::of(allowed(List::AllowedGitPush).lists, denied(List::DenyGitPush))?;
        let pages = PageRules::of(allowed(List::BrowserSubmit).lists, denied(List::BrowserDeny))?;
        let allowed_statements = named(allowed(List::AllowedDatabaseStatements).lists, Shape::Statement)?;
        let denied_statements = named(denied(List::DenyDatabaseStatements), Shape::Statement)?;
        let denied_changes = named(denied(List::DenyHandfastChanges), Shape::Change)?;
        let denied_tools = named(denied(List::DenyTools), Shape::Tool)?;
        denied_tools.require_known(setup.tools)?;

        let built_in_undoable =
            if name == DEFAULT_PROFILE { setup.dialect.undoable } else { Undoable::Table };
        let profile: Arc<str> = name.into();
        let protect = |path: &PathBuf| {
            let entry = path.display().to_string();
            let rule = Rule { key: PROTECTED, entry, profile: profile.clone(), origin: Origin::BuiltIn };
            (path.clone(), rule)
        };
        let roots = roots(setup.workspace, &reads, &writes);
        Ok(Self {
            mode: merged.mode(name, setup.mode.clone()),
            dangerous: merged.dangerous(name, setup.dialect.dangerous),
            undoable: merged.undoable(name, built_in_undoable),
            unlisted_hosts: merged.unlisted_hosts(name),
            parent_may_answer: merged.parent_may_answer(name),
            commands_see: merged.commands_see(name, commands_see),
            callers_over: merged.callers_over(name),
            also_seen: Vec::new(),
            dialect: setup.dialect,
            isolation: merged.isolation(name),
            strict: merged.is_on(name, "strict", |source| source.strict).0,
            limits: over_dialect(merged.limits(name), &setup.dialect.limits),
            workspace: setup.workspace.to_owned(),
            home: setup.home.map(Path::to_owned),
            written: roots.iter().filter(|root| root.write).map(|root| root.path.clone()).collect(),
            roots,
            reads,
            writes,
            auto_run,
            protected: setup.protected.iter().map(protect).collect(),
            commands,
            moderate,
            denies_commands,
            allowed_hosts,
            denied_hosts,
            allowed_secrets,
            denied_secrets,
            pushes,
            pages,
            allowed_statements,
            denied_statements,
            denied_changes,
            denied_tools,
            programs: setup.programs.clone(),
            cell_writes: true,
            bounds: None,
            warnings: merged.warnings,
            leased_in_the_cell: None,
            narrowing: None,
            profile,
        })
    }

    /// Returns the verdict on a path, by its spelling. A rule for folders counts too, because it is
    /// unknown here whether the path is a folder.
    ///
    /// A guard asks again about an object that it has opened, and for each entry of a listing or a search.
    pub fn path_verdict(&self, access: Access, path: &Path) -> PathVerdict<'_> {
        if let Some(rule) = self.beyond(access) {
            return PathVerdict::Denied(rule);
        }
        let spot = LocatedPath::of(path, &self.workspace);
        match access {
            Access::Read => self.reads.verdict(&spot, Kind::Unknown),
            Access::Write => match self.own_file(path) {
                Some(rule) => PathVerdict::Denied(rule),
                None => self.writes.verdict(&spot, Kind::Unknown),
            },
        }
    }

    /// Prepares a path for several questions about it.
    pub fn spot<'a>(&self, path: &'a Path) -> LocatedPath<'a> {
        LocatedPath::of(path, &self.workspace)
    }

    /// Returns true if no list of writable paths has the path, and the path is not denied.
    pub fn is_outside_writes(&self, spot: &LocatedPath<'_>) -> bool {
        self.beyond(Access::Write).is_none()
            && self.writes.verdict(spot, Kind::Unknown) == PathVerdict::Outside
    }

    /// Returns the rule that keeps every tool from writing the path, because it is Handfast's own.
    /// The comparison ignores case, because a file system may not distinguish it.
    pub fn own_file(&self, path: &Path) -> Option<&Rule> {
        let path = fold_path(path);
        self.protected
            .iter()
            .find(|(protected, _)| is_below(&path, &fold_path(protected)))
            .map(|(_, rule)| rule)
    }

    /// Prepares [`Policy::path_verdict`] on reading, for the names in one folder.
    pub fn readable_names<'a>(&'a self, folder: &'a Path) -> Names<'a> {
        Names::new(&self.reads, &self.workspace, folder, self.beyond(Access::Read).is_some())
    }

    /// Returns the workspace, first, and every listed path outside it.
    pub fn roots(&self) -> &[RootRight] {
        &self.roots
    }

    /// Returns the folders that the lists let calls write, whatever a ceiling takes away from one
    /// caller: what lies in them may come from a call.
    pub fn written_folders(&self) -> &[PathBuf] {
        &self.written
    }

    /// Returns a finder of paths that may not be read, to be masked in a cell.
    pub fn denied_reads(&self) -> DeniedPaths<'_> {
        DeniedPaths { rules: &self.reads, workspace: &self.workspace }
    }

    /// Returns a finder of paths that may not be written, to be shown read-only in a cell. The
    /// protected paths are not among them.
    pub fn denied_writes(&self) -> DeniedPaths<'_> {
        DeniedPaths { rules: &self.writes, workspace: &self.workspace }
    }

    /// Returns a finder of paths that the profile lists as run by a later program, in addition to
    /// the built-in ones.
    pub fn listed_auto_run(&self) -> DeniedPaths<'_> {
        DeniedPaths { rules: &self.auto_run, workspace: &self.workspace }
    }

    /// Returns every rule by which [`Policy::denied_reads`] and [`Policy::denies_program`] decide,
    /// as text that changes when they do.
    pub fn denials_as_text(&self) -> String {
        let lists = self.reads.denied.iter().map(crate::path::PathList::as_text);
        let mut commands: Vec<String> = self.denied_commands().map(|(rule, _)| rule.entry.clone()).collect();
        commands.sort();
        lists.chain(commands).collect::<Vec<_>>().join("\n")
    }

    /// Returns the rule of `deny_exec_command` that denies this program, named without its folder,
    /// whatever its arguments are.
    pub fn denies_program(&self, name: &str) -> Option<&Rule> {
        self.commands.denies_program(name)
    }

    /// Returns every rule of `deny_exec_command`, with true if it denies a program whatever its
    /// arguments are.
    pub fn denied_commands(&self) -> impl Iterator<Item = (&Rule, bool)> {
        self.commands.denials()
    }

    /// Returns the paths that no tool can write, in any spelling.
    pub fn protected(&self) -> impl Iterator<Item = &Path> {
        self.protected.iter().map(|(path, _)| path.as_path())
    }

    /// Returns the home folder, if there is one.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns the possible paths of the user's own git configuration.
    pub fn users_git_configuration(&self) -> Vec<PathBuf> {
        let names = [".gitconfig", ".config/git/config"];
        self.home.iter().flat_map(|home| names.map(|name| home.join(name))).collect()
    }

    /// Returns the name of the profile.
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// Returns the questions of sub-agents that agents above them may answer.
    pub fn parent_may_answer(&self) -> ParentAnswers {
        self.parent_may_answer.0
    }

    /// Returns the mode that counts.
    pub fn mode(&self) -> Mode {
        self.mode.0
    }

    /// Returns the isolation of commands.
    pub fn isolation(&self) -> Isolation {
        self.isolation.0
    }

    /// Returns true if a sandbox weaker than requested is refused.
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// Returns the limits of one command, as far as files name them.
    pub fn limits(&self) -> Limits {
        let (own, most) = self.limits;
        own.lower(most)
    }

    /// Returns the limits, with the built-in value of each limit that the user does not name. An
    /// untrusted file can lower a built-in value too, and raises none.
    pub fn limits_over(&self, built_in: Limits) -> Limits {
        let (own, most) = self.limits;
        own.or(built_in).lower(most)
    }

    /// Returns the keys that do not count as written, because their file is not trusted.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

fn over_dialect((own, most): (Limits, Limits), dialect: &Limits) -> (Limits, Limits) {
    (own.or(*dialect), most)
}

/// Key that a decision names for a protected path.
const PROTECTED: &str = "protected";

fn require_normal(what: &'static str, path: &Path) -> Result<(), PolicyError> {
    let normal = path.is_absolute()
        && path.components().all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    if normal {
        return Ok(());
    }
    Err(PolicyError::NotAbsolute { what, path: path.display().to_string() })
}

/// Folders that path patterns are relative to.
struct Paths<'a> {
    workspace: &'a Path,
    home: Option<&'a Path>,
    /// Case sensitivity of deny lists. Allow lists are always case-sensitive.
    denied_case: Case,
}

impl Paths<'_> {
    fn denied(&self, denied: DeniedLists) -> Result<Vec<PathList>, PolicyError> {
        let named = denied.lists.into_iter().filter(|list| !list.is_empty());
        named.map(|list| self.compile(list, PatternReach::Anywhere, self.denied_case)).collect()
    }

    fn allowed(&self, allowed: Allowed) -> Result<AllowedPaths, PolicyError> {
        let lists =
            allowed.lists.into_iter().map(|list| self.compile(list, PatternReach::Workspace, Case::Counts));
        Ok(AllowedPaths { workspace: allowed.default, lists: lists.collect::<Result<_, _>>()? })
    }

    fn compile(&self, list: Vec<Rule>, reach: PatternReach, case: Case) -> Result<PathList, PolicyError> {
        PathList::compile(list, reach, case, self.workspace, self.home)
    }
}

/// Returns [`BUILT_IN_DENIED_READS`] as rules of a profile.
pub(crate) fn built_in_denied_reads(profile: &str) -> Vec<Rule> {
    built_in(profile, List::DenyReadPaths, &BUILT_IN_DENIED_READS)
}

fn built_in(profile: &str, list: List, entries: &[&str]) -> Vec<Rule> {
    let profile: Arc<str> = profile.into();
    let rule = |entry: &&str| Rule {
        key: list.key(),
        entry: (*entry).to_owned(),
        profile: profile.clone(),
        origin: Origin::BuiltIn,
    };
    entries.iter().map(rule).collect()
}
