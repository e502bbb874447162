//! Permissions that a human grants beyond one call, as rules in addition to those of the profile.
//!
//! A lease only decides questions. It never overrides a deny list, a dangerous pattern, a critical
//! level or a file that runs automatically.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shell_syntax::{Command, Node, Step, Word};
use tool::{Access, CommandLine, Effect};

use crate::command::{
    ReachedCommands, Runs, base_name, has_table, is_never_leased, is_of_the_project, unwrap,
};
use crate::path::{Case, PathList, PatternReach, roots};
use crate::suggest::path_entry;
use crate::{Origin, Part, PathVerdict, Policy, Request, Rule, Verdict};

/// Calls that a lease covers, beyond exactly one plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LeasePattern {
    /// Commands that begin with these words, compared like an entry of `allowed_exec_command`.
    Command(String),
    /// Writing these paths of the workspace: an entry of `allowed_write_paths`.
    Write(String),
    /// Reading this folder outside the workspace, with everything below it.
    Read(PathBuf),
}

/// Key that a decision names for a lease.
pub(crate) const LEASE: &str = "lease";

/// Maximum number of words of a command prefix.
const MAX_WORDS: usize = 8;

impl Policy {
    /// Returns the policy with these leases. A lease that is not permitted is ignored.
    #[must_use]
    pub fn with_leases(&self, leases: &[(Arc<str>, LeasePattern)]) -> Policy {
        if let Some(policy) = self.narrowed_with_leases(leases) {
            return policy;
        }
        let mut policy = self.clone();
        let mut in_the_cell: Vec<Rule> = Vec::new();
        for (id, pattern) in leases {
            if self.may_lease(pattern).is_err() {
                continue;
            }
            let rule = |entry: String| Rule {
                key: LEASE,
                entry,
                profile: self.profile.clone(),
                origin: Origin::Lease(id.clone()),
            };
            // `may_lease` above has already refused patterns that cannot be compiled.
            match pattern {
                LeasePattern::Command(words) if is_bound_to_the_cell(words) => {
                    in_the_cell.push(rule(words.clone()));
                }
                LeasePattern::Command(words) => drop(policy.commands.allow(rule(words.clone()))),
                LeasePattern::Write(entry) => {
                    policy.writes.allowed.lists.extend(self.list(rule(entry.clone())));
                }
                LeasePattern::Read(folder) => {
                    policy.reads.allowed.lists.extend(self.list(rule(tool::path_text(folder))));
                }
            }
        }
        policy.roots = roots(&policy.workspace, &policy.reads, &policy.writes);
        if !in_the_cell.is_empty() {
            let mut leased = policy.clone();
            for rule in in_the_cell {
                drop(leased.commands.allow(rule));
            }
            policy.leased_in_the_cell = Some(Arc::new(leased));
        }
        policy
    }

    /// Returns true if a lease of this pattern covers only calls whose every change can be undone. The
    /// name of such a program says too little, and the cell limits what the program does.
    pub fn counts_in_the_cell_alone(&self, pattern: &LeasePattern) -> bool {
        matches!(pattern, LeasePattern::Command(words) if is_bound_to_the_cell(words))
    }

    /// Returns a function that is true for the commands that a lease of this pattern would let pass, and
    /// nothing else does.
    pub fn lease_coverage(&self, pattern: &LeasePattern) -> impl Fn(&Part) -> bool + '_ {
        // A pattern that may not be leased adds nothing.
        let leased = self.with_leases(&[("?".into(), pattern.clone())]);
        move |part| {
            let leased = leased.leased_in_the_cell.as_deref().unwrap_or(&leased);
            self.judge(part).allowed.is_none() && leased.judge(part).allowed.is_some()
        }
    }

    fn list(&self, rule: Rule) -> Option<PathList> {
        PathList::compile(
            vec![rule],
            PatternReach::Workspace,
            Case::Counts,
            &self.workspace,
            self.home.as_deref(),
        )
        .ok()
    }

    /// Checks whether this pattern may be leased at all.
    ///
    /// # Errors
    /// Returns the reason if the pattern may not be leased.
    pub fn may_lease(&self, pattern: &LeasePattern) -> Result<(), String> {
        match pattern {
            LeasePattern::Command(words) => self.may_lease_command(words),
            LeasePattern::Write(entry) => self.may_lease_write(entry),
            LeasePattern::Read(folder) => self.may_lease_folder(folder),
        }
    }

    fn may_lease_command(&self, entry: &str) -> Result<(), String> {
        let words: Vec<&str> = entry.split_whitespace().collect();
        let program = words.first().copied().unwrap_or_default();
        let rule = Rule {
            key: LEASE,
            entry: entry.to_owned(),
            profile: self.profile.clone(),
            origin: Origin::BuiltIn,
        };
        crate::command::CommandRules::default().allow(rule)?;
        if words.len() > MAX_WORDS {
            return Err(format!("a prefix has at most {MAX_WORDS} words"));
        }
        if entry.contains('*') {
            return Err("a prefix cannot contain `*`: it already allows any further words".to_owned());
        }
        if let Some(what) = is_never_leased(base_name(program)).filter(|_| !is_bound_to_the_cell(entry)) {
            return Err(format!(
                "`{}` {what}, so its name does not limit a call; allow exactly this call instead",
                base_name(program)
            ));
        }
        self.resolve_leased(program).map_err(|why| format!("{why}; allow exactly this call instead"))
    }

    fn resolve_leased(&self, program: &str) -> Result<(), &'static str> {
        let is_writable =
            |path: &Path| self.roots.iter().any(|root| root.write && path.starts_with(&root.path));
        self.programs.resolve(program, is_writable).map(drop)
    }

    fn may_lease_write(&self, entry: &str) -> Result<(), String> {
        if entry.starts_with(['!', '/', '~', '$']) || entry.split('/').any(|part| part == "..") {
            return Err("a lease to write needs a path relative to the workspace".to_owned());
        }
        let rule = Rule {
            key: LEASE,
            entry: entry.to_owned(),
            profile: self.profile.clone(),
            origin: Origin::BuiltIn,
        };
        PathList::compile(
            vec![rule],
            PatternReach::Workspace,
            Case::Counts,
            &self.workspace,
            self.home.as_deref(),
        )
        .map(drop)
        .map_err(|error| error.to_string())
    }

    fn may_lease_folder(&self, folder: &Path) -> Result<(), String> {
        let shown = folder.display();
        let text = folder.to_str().ok_or("its name is not UTF-8")?;
        let normal = folder.is_absolute() && !folder.components().any(|part| part.as_os_str() == "..");
        if !normal || text.contains(['*', '?', '[', ']', '{', '}', '\\', '!', '$']) || text.ends_with('/') {
            return Err(format!("{shown} is not a plain absolute path, as a lease to read needs"));
        }
        let meets = |other: &Path| folder.starts_with(other) || other.starts_with(folder);
        if folder.parent().is_none()
            || ["/proc", "/sys", "/dev", "/run"].iter().any(|top| folder.starts_with(top))
        {
            return Err(format!("a lease to read cannot cover {shown}"));
        }
        if meets(&self.workspace) {
            return Err(format!("{shown} contains the workspace or is in it"));
        }
        if self.home.as_deref().is_some_and(|home| home.starts_with(folder)) {
            return Err(format!("{shown} contains the whole home folder; name a folder in it"));
        }
        if self.protected.iter().any(|(protected, _)| meets(protected)) {
            return Err(format!("{shown} contains files of Handfast or is one of them"));
        }
        match self.path_verdict(Access::Read, folder) {
            PathVerdict::Denied(rule) => Err(format!("{shown} is denied by {rule}")),
            _ => Ok(()),
        }
    }

    /// Returns a lease that would let this call pass, and similar calls: the narrowest that is
    /// worth a question.
    pub fn lease_for(&self, request: &Request<'_>) -> Option<LeasePattern> {
        let pattern = self.candidate(request.parts)?;
        self.may_lease(&pattern).ok()?;
        let leased = self.with_leases(&[("?".into(), pattern.clone())]);
        (leased.decide(request).verdict == Verdict::Pass).then_some(pattern)
    }

    /// Returns a lease to write everything below one folder of the workspace, if the call writes
    /// files of that folder and otherwise only reads. Returns `None` for the workspace itself,
    /// because that lease would cover all of it.
    pub fn lease_for_folder(&self, request: &Request<'_>) -> Option<LeasePattern> {
        let mut written: Vec<&Path> = Vec::new();
        for part in request.parts {
            match &part.effect {
                Effect::Write { path } => written.push(part.real.as_deref().unwrap_or(path).parent()?),
                Effect::Read { .. } => {}
                _ => return None,
            }
        }
        let (folder, others) = written.split_first()?;
        let is_below = *folder != self.workspace && folder.starts_with(&self.workspace);
        if !is_below || others.iter().any(|other| other != folder) {
            return None;
        }
        let pattern = LeasePattern::Write(format!("{}/**", path_entry(folder, &self.workspace)?));
        self.may_lease(&pattern).ok()?;
        let leased = self.with_leases(&[("?".into(), pattern.clone())]);
        (leased.decide(request).verdict == Verdict::Pass).then_some(pattern)
    }

    fn candidate(&self, parts: &[Part]) -> Option<LeasePattern> {
        let outside: Vec<&Path> = parts
            .iter()
            .filter_map(|part| match &part.effect {
                Effect::Read { path } => Some(part.real.as_deref().unwrap_or(path)),
                _ => None,
            })
            .filter(|path| self.path_verdict(Access::Read, path) == PathVerdict::Outside)
            .collect();
        if let [path] = outside.as_slice() {
            return Some(LeasePattern::Read(path.to_path_buf()));
        }
        let [Part { effect: Effect::Run { command, .. }, .. }] = parts else { return None };
        let commands = commands_of(command)?;
        let mut unlisted = commands.iter().filter(|command| !self.passes_alone(command));
        let first = unlisted.next()?;
        // The words of a program with a table are the files that it changes, and do not name an action.
        let program = base_name(first.first()?);
        let is_of_the_project = is_of_the_project(program);
        if has_table(program) && !is_of_the_project {
            return None;
        }
        let words = beginning(first)?;
        // The name of a package manager alone, without an action, names too much to be offered.
        if is_of_the_project && !words.contains(' ') {
            return None;
        }
        unlisted
            .all(|other| beginning(other).as_ref() == Some(&words))
            .then_some(LeasePattern::Command(words))
    }

    fn passes_alone(&self, words: &[String]) -> bool {
        let effect =
            Effect::Run { command: CommandLine::Argv(words.to_vec()), directory: self.workspace.clone() };
        self.judge(&effect.into()).allowed.is_some()
    }

    /// Returns the common shape of similar calls, to count how often a human was asked about them.
    pub fn shape(&self, request: &Request<'_>) -> String {
        let mut shapes: Vec<String> = request.parts.iter().map(|part| self.shape_of(&part.effect)).collect();
        shapes.dedup();
        shapes.truncate(4);
        format!("{} {}", request.tool, shapes.join(", "))
    }

    fn shape_of(&self, effect: &Effect) -> String {
        match effect {
            Effect::Run { command, .. } => {
                let commands = commands_of(command).unwrap_or_default();
                let telling = commands.iter().find(|words| !self.passes_alone(words)).or(commands.first());
                match telling.and_then(|words| beginning(words)) {
                    Some(beginning) => format!("run {beginning}"),
                    None => "run".to_owned(),
                }
            }
            Effect::Read { path } => format!("read {}", tool::path_text(path.parent().unwrap_or(path))),
            Effect::Write { path } => format!("write {}", tool::path_text(path.parent().unwrap_or(path))),
            Effect::Delete { path } => format!("delete {}", tool::path_text(path.parent().unwrap_or(path))),
            Effect::Connect { host, port, .. } => format!("connect {host}:{port}"),
            // Calls are alike if they do the same kind of thing there, for any recipient.
            Effect::Act { host, .. } => format!("act at {host}"),
            Effect::Browse { origin, access, .. } => format!("{} {origin}", access.as_str()),
            Effect::UseSecret { name, host } => format!("use {name} at {host}"),
            Effect::DatabaseWrite { statement } => format!("database {statement}"),
            // Calls are alike if they schedule anything.
            Effect::Schedule { .. } => "schedule".to_owned(),
            Effect::UseTool { server, tool, .. } => format!("use {server} {tool}"),
            Effect::ChangeHandfast { what } => format!("change {what}"),
        }
    }

    /// Reports what a command would run, as far as its line shows.
    pub fn runs(&self, command: &CommandLine, directory: &Path) -> Runs {
        crate::command::runs(ReachedCommands::by(command), directory, &self.workspace, &self.programs)
    }
}

/// Returns the command as it was read: one line for each command that it runs, with wrappers.
///
/// # Errors
/// Returns the reason if the command could do anything.
pub fn as_read(command: &CommandLine) -> Result<Vec<String>, String> {
    let reached = ReachedCommands::by(command);
    if let Some(why) = reached.hidden {
        return Err(why);
    }
    let parsed = reached.line.ok_or("it could not be parsed")?;
    let mut commands = Vec::new();
    collect(&parsed.steps, &mut commands);
    Ok(commands.iter().map(|command| spelled(&command.words)).filter(|line| !line.is_empty()).collect())
}

/// Returns the words of each command of a parsed line, without wrappers.
fn commands_of(command: &CommandLine) -> Option<Vec<Vec<String>>> {
    let parsed = ReachedCommands::by(command).line?;
    let mut commands = Vec::new();
    collect(&parsed.steps, &mut commands);
    let words = |command: &&Command| {
        let bare = unwrap(&command.words).words;
        bare.iter().map(|word| word.text.clone()).collect::<Vec<_>>()
    };
    Some(commands.iter().map(words).filter(|words| !words.is_empty()).collect())
}

// BOUNDED: by the depth of a parsed line.
fn collect<'a>(steps: &'a [Step], into: &mut Vec<&'a Command>) {
    for step in steps {
        match &step.node {
            Node::Command(command) => {
                into.push(command);
                for steps in &command.substituted {
                    collect(steps, into);
                }
            }
            Node::Subshell(block) | Node::Group(block) => collect(&block.steps, into),
            Node::Branches(parts, _) | Node::Rounds(parts, _) => {
                for steps in parts {
                    collect(steps, into);
                }
            }
        }
    }
}

/// Joins the words, and quotes each word that would not stand for itself.
fn spelled(words: &[Word]) -> String {
    let plain = |text: &str| {
        !text.is_empty()
            && text.chars().all(|letter| letter.is_alphanumeric() || "-_./:=,@%+".contains(letter))
    };
    let word = |word: &Word| match word.text.as_str() {
        text if plain(text) => text.to_owned(),
        text => format!("'{}'", text.replace('\'', "'\\''")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns true if the first of these words is a program whose effects are those of the cell.
fn is_bound_to_the_cell(words: &str) -> bool {
    is_of_the_project(base_name(words.split_whitespace().next().unwrap_or_default()))
}

/// Returns the program and the next word, if that word names an action of the program.
fn beginning(words: &[String]) -> Option<String> {
    let program = words.first()?;
    let is_name = |word: &&String| {
        word.starts_with(|letter: char| letter.is_ascii_lowercase())
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_:".contains(letter))
    };
    Some(match words.get(1).filter(is_name) {
        Some(operand) => format!("{program} {operand}"),
        None => program.clone(),
    })
}
