//! Judgement of a command as one part of a call: the steps of its line, and the verdict of the
//! lists on each.

use std::path::{Path, PathBuf};

use shell_syntax::{Assignment, Command, Joint, Node, Step, Word, is_of_the_script};
use tool::{Access, CommandLine};

use crate::command::{
    Class, CommandEffect, HostEnvironment, Kind, Operand, ReachedCommands, base_name, dangerous, fed_command,
    is_guarded, is_harmless_assignment, is_interpreter, is_of_the_project, known_form, possible_paths,
    shell_line, unwrap,
};
use crate::judge::{Cause, Judgement};
use crate::lease::LEASE;
use crate::spell::resolve;
use crate::suggest::MissingEntry;
use crate::{NamedWrites, Origin, PathVerdict, Policy};

/// Key of the rule by which a line that only reads passes.
pub const READ_ONLY_COMMANDS: &str = "read_only_commands";

/// Result of the commands of a line for line 7.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    allowed: Option<Cause>,
    /// Reason why the line as a whole does not pass by line 7.
    not_allowed: Option<String>,
    /// Current depth of lines within lines.
    depth: usize,
    /// Directory in which the line starts. It decides which programs of the project the cell finds.
    directory: PathBuf,
    /// Command that is being judged.
    at: String,
    /// Command that prevents the line from passing by line 7.
    refused_at: Option<String>,
}

impl Stages {
    /// Records that the line does more than read, so that `cause` lets it pass.
    pub(crate) fn acts(&mut self, cause: Cause) {
        self.allowed = Some(cause);
    }

    pub(crate) fn refuse(&mut self, why: impl Into<String>) {
        if self.not_allowed.is_none() {
            self.not_allowed = Some(why.into());
            self.refused_at = Some(self.at.clone()).filter(|at| !at.is_empty());
        }
    }
}

/// Directories that a command may run in: more than one after a `cd` that may have failed.
#[derive(Debug, Clone)]
pub(crate) struct Directories {
    pub(crate) paths: Vec<PathBuf>,
    /// True if a name was entered, so that `..` may not lead back.
    pub(crate) through_a_name: bool,
    /// True if a folder was entered that may be a link.
    pub(crate) entered: bool,
}

/// Maximum number of possible directories that are followed.
const MAX_DIRECTORIES: usize = 8;

/// Reason why a program of the project does not count as a reader, whatever its name is.
const OF_PROJECT: &str = "it is a program of the project, where calls can write";

/// Maximum depth to which lines within lines (`sh -c`) are judged.
const DEEPEST_LINE: usize = 3;

impl Policy {
    pub(crate) fn judge_command(
        &self,
        command: &CommandLine,
        directory: &Path,
        real: Option<&Path>,
    ) -> Judgement {
        let shown = match command {
            CommandLine::Shell(line) => line.clone(),
            CommandLine::Argv(words) => words.join(" "),
            CommandLine::Typed { text, .. } => format!("(typed) {text}"),
        };
        let mut judgement = Judgement {
            part: format!("run {shown}"),
            changes_only_the_workspace: true,
            ..Judgement::default()
        };
        self.judge_directory(directory, real, &mut judgement);

        let reached = ReachedCommands::by(command);
        if let Some((rule, words)) = self.commands.denied_by(&reached) {
            let cause = Cause {
                reason: format!("`{words}` is denied by {rule}"),
                hint: Some(self.how_to_change(rule)),
                rule: rule.clone(),
            };
            judgement.denied.get_or_insert(cause);
        }
        let unsure = reached.varies_in_text.then_some("it contains a word that is unknown before it runs");
        if let Some(reason) = reached.hidden.as_deref().or(unsure) {
            judgement.uncertain = Some(Cause {
                rule: self.setting("deny_exec_command", "(any)", Origin::BuiltIn),
                reason: format!("{reason}, so it could hide a command that `deny_exec_command` denies"),
                hint: Some("write it as plain commands, one call each".to_owned()),
            });
        }
        if let Some(reason) = &reached.hidden {
            judgement.not_allowed = Some(format!("{reason}, so no list applies to it"));
        }
        if let Some(line) = &reached.line {
            let mut stages = Stages { directory: directory.to_owned(), ..Stages::default() };
            let paths = vec![directory.to_owned()];
            let directories = Directories { paths, through_a_name: false, entered: false };
            self.walk(&line.steps, directories, &mut stages, &mut judgement);
            match stages.not_allowed {
                None => judgement.allowed = stages.allowed,
                Some(why) => {
                    judgement.not_allowed = judgement.not_allowed.take().or(Some(why));
                    judgement.not_allowed_at = stages.refused_at;
                }
            }
        }
        let around = HostEnvironment {
            directory,
            home: self.home.as_deref(),
            any_absolute: self.dialect.any_absolute_removal,
        };
        if let Some(found) = dangerous(&reached, around) {
            let hint = "name the exact targets; with `dangerous: ask` a human is asked";
            judgement.dangerous = Some(self.dangerous_cause(&found, hint));
        }
        judgement
    }

    /// Judges the directory of a command. A command may start anywhere in a root, even in an
    /// unlisted folder: the files that it opens are judged separately.
    fn judge_directory(&self, directory: &Path, real: Option<&Path>, judgement: &mut Judgement) {
        for directory in std::iter::once(directory).chain(real) {
            if let PathVerdict::Denied(rule) = self.path_verdict(Access::Read, directory) {
                judgement.denied = Some(Cause {
                    reason: format!("its directory {} is denied by {rule}", directory.display()),
                    hint: Some(self.how_to_change(rule)),
                    rule: rule.clone(),
                });
            } else if !self.in_a_root(directory) {
                judgement.unlisted = Some(Cause {
                    rule: self.no_entry("allowed_read_paths"),
                    reason: format!("its directory {} is in no root", directory.display()),
                    hint: Some(self.add_path(Access::Read)),
                });
            }
        }
    }

    /// Applies line 7 to each command, and lines 1 and 6 to the paths that it names. Returns the
    /// directories that are possible afterwards.
    // BOUNDED: by the depth of a parsed line.
    fn walk(
        &self,
        steps: &[Step],
        mut directories: Directories,
        stages: &mut Stages,
        judgement: &mut Judgement,
    ) -> Directories {
        // If a `cd` before `&&` failed, the commands after the list run where the list began.
        let mut skipped: Option<Directories> = None;
        for (at, step) in steps.iter().enumerate() {
            if matches!(step.joint, Joint::Then | Joint::Or)
                && let Some(skipped) = skipped.take()
            {
                directories = directories.or(skipped, stages);
            }
            match &step.node {
                Node::Command(command) => match entered(command) {
                    Some(target) => {
                        self.judge_simple(command, None, &directories, stages, judgement);
                        let inside = directories.enter(target, stages);
                        let certain = !step.negated
                            && !step.background
                            && step.joint != Joint::Or
                            && steps.get(at + 1).is_some_and(|next| next.joint == Joint::And);
                        if certain {
                            let outside = std::mem::replace(&mut directories, inside);
                            skipped = Some(match skipped {
                                Some(skipped) => skipped.or(outside, stages),
                                None => outside,
                            });
                        } else {
                            directories = directories.or(inside, stages);
                        }
                    }
                    None => {
                        let fed = fed_command(steps, at);
                        self.judge_simple(command, fed.as_deref(), &directories, stages, judgement);
                    }
                },
                Node::Subshell(block) => {
                    self.judge_redirects(&block.redirects, &directories, stages, judgement);
                    self.walk(&block.steps, directories.clone(), stages, judgement);
                }
                Node::Group(block) => {
                    self.judge_redirects(&block.redirects, &directories, stages, judgement);
                    let after = self.walk(&block.steps, directories.clone(), stages, judgement);
                    directories = directories.or(after, stages);
                }
                Node::Branches(parts, redirects) | Node::Rounds(parts, redirects) => {
                    self.judge_redirects(redirects, &directories, stages, judgement);
                    let before = directories.clone();
                    for part in parts {
                        let after = self.walk(part, directories.clone(), stages, judgement);
                        directories = directories.or(after, stages);
                    }
                    if matches!(step.node, Node::Rounds(..)) && directories.paths != before.paths {
                        stages.refuse("it changes the directory in a loop");
                    }
                }
            }
        }
        match skipped {
            Some(skipped) => directories.or(skipped, stages),
            None => directories,
        }
    }

    /// Judges a command, or the command to which it passes its input (`fed`).
    fn judge_simple(
        &self,
        command: &Command,
        fed: Option<&[Word]>,
        directories: &Directories,
        stages: &mut Stages,
        judgement: &mut Judgement,
    ) {
        for steps in &command.substituted {
            self.walk(steps, directories.clone(), stages, judgement);
        }
        stages.at = command.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        self.judge_redirects(&command.redirects, directories, stages, judgement);
        let bare = unwrap(&command.words);
        // The shell implements `time` itself, at the beginning only.
        for (at, wrapper) in bare.wrappers.iter().enumerate() {
            if (at > 0 || *wrapper != "time")
                && let Err(why) = self.resolve_program(wrapper)
            {
                stages.refuse(format!("{why}, so no list applies to `{wrapper}`"));
            }
        }
        for Assignment { name, value } in command.assignments.iter().chain(&bare.assignments) {
            // Without a program, a variable of the script is set, which programs do not see.
            let of_the_script = command.words.is_empty() && is_of_the_script(name);
            let divides_what_is_read =
                name == "IFS" && bare.words.first().is_some_and(|word| word.text == "read");
            let harmless = is_harmless_assignment(name, &value.text) && value.is_literal();
            if !(harmless || of_the_script || divides_what_is_read) {
                stages.refuse(format!("it sets `{name}`, which could make a program run something"));
            }
        }
        if command.words.is_empty() {
            let cause = || self.read_only("(none)", "nothing runs".to_owned());
            stages.allowed.get_or_insert_with(cause);
            return;
        }
        if let Some(line) = shell_line(bare.words)
            && stages.depth < DEEPEST_LINE
            && self.resolve_program(bare.words.first().map_or("", |word| &word.text)).is_ok()
        {
            match shell_syntax::read(line) {
                Ok(script) => {
                    stages.depth += 1;
                    self.walk(&script.steps, directories.clone(), stages, judgement);
                    stages.depth -= 1;
                }
                Err(opaque) => stages.refuse(format!("{}, so no list applies to it", opaque.reason)),
            }
            return;
        }
        if fed.is_some()
            && let Err(why) = self.resolve_program("xargs")
        {
            stages.refuse(format!("{why}, so no list applies to `xargs`"));
        }
        self.judge_program(fed.unwrap_or(bare.words), directories, stages, judgement);
    }

    /// Judges a program with its arguments, without wrappers.
    fn judge_program(
        &self,
        words: &[Word],
        directories: &Directories,
        stages: &mut Stages,
        judgement: &mut Judgement,
    ) {
        let Some((named, arguments)) = words.split_first() else { return };
        let mut resolved = self.resolve_program(&named.text);
        // A list may name a program of the project, but then a call may have written the program.
        let of_project =
            resolved.is_err() && self.programs.is_of_project(&named.text, &stages.directory, &self.workspace);
        if of_project {
            resolved = Ok(&named.text);
        }
        let program = resolved.unwrap_or(base_name(&named.text));
        // The tables know programs by their bare names, and by the path that the search path gives.
        let renamed: Vec<Word> =
            std::iter::once(Word::literal(program)).chain(arguments.iter().cloned()).collect();
        let reads = if of_project { Err(OF_PROJECT) } else { known_form(&renamed, Class::Reads) };
        note_sources(&renamed, reads.as_ref().ok(), directories, &mut judgement.named);
        let listed = self
            .commands
            .allowed_by(words)
            .or_else(|| resolved.is_ok().then(|| self.commands.allowed_by(&renamed)).flatten());
        if reads.is_err() {
            // The paths among the words are unknown, so only a denial counts.
            for path in possible_paths(words) {
                for directory in &directories.paths {
                    self.judge_named(&resolve(directory, path).path, judgement);
                }
            }
        }
        // An entry that names a program by its path means that program, wherever it lies.
        let by_path = listed.is_some() && named.text.contains('/');
        let shown = || words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        if let (Err(why), false) = (resolved, by_path) {
            stages.refuse(format!("{why}, so no list applies to `{}`", named.text));
            if let Ok(form) = reads {
                self.judge_form(&form, directories, stages, judgement);
            }
            return;
        }
        match (reads, listed) {
            (Ok(mut form), listed) if !by_path => {
                if program == "git" {
                    self.require_root(directories, stages);
                    // A user who lists git lets it read the work tree: `git add -A` passes, and so
                    // does `git status`.
                    let is_place = |operand: &Operand| operand.kind == Kind::Names && operand.text == ".";
                    if listed.is_some() && form.operands.iter().all(is_place) {
                        form.operands.clear();
                    }
                }
                self.judge_form(&form, directories, stages, judgement);
                for run in &form.runs {
                    if let Err(why) = self.resolve_program(run) {
                        stages.refuse(format!("{why}, so no list applies to `{run}`"));
                    }
                }
                for name in std::iter::once(program).chain(form.runs.iter().map(|run| base_name(run))) {
                    if self.programs.is_launcher(name) {
                        stages.refuse(format!(
                            "`{name}` is a launcher: files in the folder decide what it runs"
                        ));
                    }
                }
                let cause = || self.read_only(program, format!("`{}` only reads", shown()));
                stages.allowed.get_or_insert_with(cause);
            }
            (_, Some(listed)) => {
                self.require_root(directories, stages);
                let form = known_form(&renamed, Class::Acts);
                // The cell limits what such a lease lets run, so the form of the arguments does not matter.
                let in_the_cell = listed.rule.key == LEASE && is_of_the_project(program);
                let guarded = is_guarded(program) && !by_path && !in_the_cell;
                let scripted = listed.names_a_script && is_interpreter(program);
                match form {
                    Ok(form) if !by_path => {
                        self.judge_form(&form, directories, stages, judgement);
                    }
                    Err(why) if guarded && !listed.in_full && !scripted => {
                        stages.refuse(format!("{} lists `{program}`, but {why}", listed.rule));
                    }
                    _ if words.iter().any(|word| word.varies) => {
                        stages.refuse("one of its words is unknown before it runs".to_owned());
                    }
                    _ => {}
                }
                stages.acts(Cause {
                    reason: format!("`{}` is listed by {}", shown(), listed.rule),
                    rule: listed.rule.clone(),
                    hint: None,
                });
            }
            (Ok(_), None) => {}
            (Err(why), None) => {
                if let Ok(form) = known_form(&renamed, Class::Acts) {
                    self.judge_unlisted(&form, directories, judgement);
                }
                if words.iter().all(Word::is_literal)
                    && let [directory] = directories.paths.as_slice()
                {
                    let texts = words.iter().map(|word| word.text.clone()).collect();
                    judgement.missing.push(MissingEntry::Command(texts, directory.clone()));
                }
                stages.refuse(format!(
                    "`{program}` is not known to be read-only ({why}) and not in `allowed_exec_command`"
                ));
            }
        }
    }

    /// Returns the base name of the program, if the written name leads to it and no call can have
    /// put it there.
    fn resolve_program<'a>(&self, named: &'a str) -> Result<&'a str, &'static str> {
        let is_writable =
            |path: &Path| self.roots.iter().any(|root| root.write && path.starts_with(&root.path));
        self.programs.resolve(named, is_writable)
    }

    /// Requires that the directories are roots, where no other user writes: the files that a
    /// program finds there may make it run more.
    fn require_root(&self, directories: &Directories, stages: &mut Stages) {
        if let Some(outside) = directories.paths.iter().find(|directory| !self.in_a_root(directory)) {
            stages.refuse(format!("it runs in {}, which is not a root", outside.display()));
        }
    }

    fn read_only(&self, program: &str, reason: String) -> Cause {
        Cause { rule: self.setting(READ_ONLY_COMMANDS, program, Origin::BuiltIn), reason, hint: None }
    }
}

/// Programs that print their words and read nothing.
const PRINTERS: [&str; 2] = ["echo", "printf"];

/// Records the files whose content a command may write elsewhere: those that its form reads or
/// moves. If its form is unknown, every word that could be a path is recorded.
fn note_sources(
    words: &[Word],
    reads: Option<&CommandEffect>,
    directories: &Directories,
    named: &mut NamedWrites,
) {
    let Some((program, arguments)) = words.split_first() else { return };
    if PRINTERS.contains(&program.text.as_str()) {
        return;
    }
    named.unbound |= !arguments.iter().all(Word::is_literal);
    let acts = if reads.is_none() { known_form(words, Class::Acts).ok() } else { None };
    let texts: Vec<&str> = match reads.or(acts.as_ref()) {
        Some(form) => {
            let is_of_git = |operand: &&Operand| matches!(operand.kind, Kind::Revision | Kind::Revised);
            named.unbound |= form.operands.iter().any(|operand| is_of_git(&operand));
            let is_read = |operand: &&Operand| matches!(operand.kind, Kind::Content | Kind::Removed);
            form.operands.iter().filter(is_read).map(|operand| operand.text.as_str()).collect()
        }
        None => possible_paths(words).take(MAX_SOURCES).collect(),
    };
    named.unbound |= texts.len() >= MAX_SOURCES;
    for text in texts.iter().take(MAX_SOURCES) {
        directories.note_source(text, named);
    }
}

/// Maximum number of recorded files. Beyond it, not everything that may be written is named.
const MAX_SOURCES: usize = 256;

/// Returns the target of a `cd`.
fn entered(command: &Command) -> Option<&Word> {
    match command.words.as_slice() {
        [program, target] if program.text == "cd" => Some(target),
        [program, dashes, target] if program.text == "cd" && dashes.text == "--" => Some(target),
        _ => None,
    }
}

impl Directories {
    /// Returns the directories after a `cd`.
    fn enter(&self, target: &Word, stages: &mut Stages) -> Self {
        let text = target.text.as_str();
        if !target.is_literal() || text.is_empty() || text.starts_with('-') {
            stages.refuse("the target of its `cd` is unknown");
        }
        let named = text.split('/').any(|part| !["", ".", ".."].contains(&part));
        if named && text.contains("..") {
            stages.refuse(format!("`{text}` goes through a folder and back, and the folder could be a link"));
        }
        Self {
            paths: self.paths.iter().map(|path| resolve(path, text).path).collect(),
            through_a_name: self.through_a_name || (named && !text.starts_with('/')),
            entered: self.entered || named,
        }
    }

    /// Returns these directories and the others.
    fn or(mut self, others: Self, stages: &mut Stages) -> Self {
        self.through_a_name |= others.through_a_name;
        self.entered |= others.entered;
        for path in others.paths {
            if !self.paths.contains(&path) {
                self.paths.push(path);
            }
        }
        if self.paths.len() > MAX_DIRECTORIES {
            stages.refuse("it may run in too many directories");
            self.paths.truncate(MAX_DIRECTORIES);
        }
        self
    }
}
