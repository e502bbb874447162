//! Everything that a command line could run.

use std::collections::HashSet;

use shell_syntax::{
    Assignment, Command, Joint, Node, Redirect, Script as Parsed, Step, Word, is_of_the_script,
};
use tool::CommandLine;

use super::environment::is_harmless_assignment;
use super::lenient_split::{Segment, segments};
use super::matching::known_form;
use super::programs::{
    FED_WRAPPERS, INERT, WRAPPERS, base_name, has_inline_code, is_interpreter, is_shell, runs_standard_input,
    shell_script,
};
use super::scripts_run::takes_scripts;
use super::table::Class;
use super::wrappers::{UnwrappedCommand, unwrap};
use super::xargs::fed_command;

/// Everything that a line could run, as far as it is visible: its commands, the commands that they
/// wrap, and the scripts that they are passed.
///
/// More is listed than would run, because deny rules check all of it.
#[derive(Debug, Default)]
pub(crate) struct ReachedCommands {
    /// The line itself, if it was understood.
    pub(crate) line: Option<Parsed>,
    /// The line itself and every script in it.
    pub(super) scripts: Vec<Script>,
    /// Reason why more than the listed commands could run, or `None` if nothing is hidden.
    pub(crate) hidden: Option<String>,
    /// Reason why the code that runs is not named in the line, or `None` if every program and
    /// script is.
    pub(crate) unnamed: Option<String>,
    /// True if a word of a known form that acts is unknown before it runs.
    pub(crate) varies_in_text: bool,
    seen: HashSet<String>,
}

/// A script, split into segments between its operators.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) segments: Vec<Segment>,
    /// True if the script was understood; otherwise any word may be a program.
    pub(super) understood: bool,
    /// True if a part of the script runs its input, so that words that are only printed may run as
    /// well.
    feeds_an_interpreter: bool,
}

/// A place where a command may begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    /// The program and the words after it.
    pub(super) words: &'a [String],
    /// True if the word most likely belongs to a program that only prints or searches.
    pub(super) inert: bool,
}

/// Maximum depth of scripts in scripts, and maximum number of scripts.
const DEEPEST_SCRIPT: usize = 4;
const MAX_SCRIPTS: usize = 64;

impl ReachedCommands {
    /// Reads a command.
    pub(crate) fn by(command: &CommandLine) -> Self {
        let mut reached = ReachedCommands::default();
        match command {
            CommandLine::Shell(line) => match shell_syntax::read(line) {
                Ok(parsed) => {
                    reached.read_commands(&parsed, line, 0);
                    reached.line = Some(parsed);
                }
                Err(opaque) => reached.read_loosely(line, opaque.reason),
            },
            // The text is judged as if for a shell, which the program may be, but never as
            // understood. The text may be the rest of an earlier one, or mean something else to
            // this program.
            CommandLine::Typed { text, .. } => {
                match shell_syntax::read(text) {
                    Ok(parsed) => reached.read_commands(&parsed, text, 0),
                    Err(opaque) => reached.read_loosely(text, opaque.reason),
                }
                reached.hide("its effect on a running program is unknown");
                reached.not_named("its effect on a running program is unknown");
            }
            CommandLine::Argv(words) if words.first().is_none_or(String::is_empty) => {
                reached.hide("no program is named");
            }
            CommandLine::Argv(words) => {
                let words: Vec<Word> = words.iter().map(Word::literal).collect();
                let text = texts(&words).join(" ");
                let node = Node::Command(Command { words, ..Command::default() });
                let step = Step { joint: Joint::Then, negated: false, background: false, node };
                let parsed = Parsed { steps: vec![step] };
                reached.read_commands(&parsed, &text, 0);
                reached.line = Some(parsed);
            }
        }
        reached
    }

    /// Returns every place where a command may begin.
    pub(super) fn starts(&self) -> impl Iterator<Item = Start<'_>> {
        self.scripts
            .iter()
            .flat_map(|script| script.segments.iter().flat_map(|segment| script.starts(segment)))
    }

    /// Returns the words of each of these places: the program and the words after it.
    pub(crate) fn starts_in_words(&self) -> impl Iterator<Item = &[String]> {
        self.starts().map(|start| start.words)
    }

    /// Returns the program at each of these places, as spelled.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        self.starts_in_words().filter_map(|words| words.first()).map(String::as_str)
    }

    fn hide(&mut self, reason: impl Into<String>) {
        self.hidden.get_or_insert_with(|| reason.into());
    }

    fn not_named(&mut self, why: impl Into<String>) {
        self.unnamed.get_or_insert_with(|| why.into());
    }

    fn read(&mut self, text: &str, depth: usize) {
        if !self.seen.insert(text.to_owned()) {
            return;
        }
        if depth > DEEPEST_SCRIPT || self.scripts.len() >= MAX_SCRIPTS {
            self.read_loosely(text, "it contains scripts in scripts");
            return;
        }
        match shell_syntax::read(text) {
            Ok(parsed) => self.read_commands(&parsed, text, depth),
            Err(opaque) => self.read_loosely(text, opaque.reason),
        }
    }

    fn read_loosely(&mut self, text: &str, reason: &str) {
        self.hide(reason);
        self.not_named(reason);
        let segments = segments(text);
        let feeds =
            |words: &[String]| (0..words.len()).any(|at| words.get(at..).is_some_and(runs_standard_input));
        self.scripts.push(Script {
            text: text.to_owned(),
            feeds_an_interpreter: segments.iter().any(|segment| segment.piped && feeds(&segment.words)),
            segments,
            understood: false,
        });
    }

    fn read_commands(&mut self, parsed: &Parsed, text: &str, depth: usize) {
        let mut flat = CommandSequence::default();
        flat.steps(&parsed.steps, false, false);
        let CommandSequence { segments, varies, varies_in_text, unnamed } = flat;
        if let Some(why) = unnamed {
            self.not_named(why);
        }
        if varies {
            self.hide("it contains a word that is unknown before it runs");
        }
        self.varies_in_text |= varies_in_text;
        let script =
            Script { text: text.to_owned(), segments, understood: true, feeds_an_interpreter: false };
        let mut inner: Vec<String> = Vec::new();
        for (at, segment) in script.segments.iter().enumerate() {
            if segment.words.first().is_some_and(|word| WRAPPERS.contains(&base_name(word))) {
                // `env -S 'git rm x'`, `ssh host 'git rm x'`, `watch 'git rm x'`.
                let texts = segment.words.iter().filter(|word| word.contains([' ', '\t', '\n', ';']));
                inner.extend(texts.cloned());
            }
            // The words of a first `eval` contain those of a second one.
            if let Some(start) = script
                .starts(segment)
                .find(|start| start.words.first().is_some_and(|word| word == "eval" || word == "trap"))
            {
                inner.push(start.words.get(1..).unwrap_or_default().join(" "));
            }
            for Start { words, .. } in script.starts(segment) {
                let program = words.first().map_or("", |word| base_name(word));
                inner.extend(shell_script(words).map(str::to_owned));
                if has_inline_code(words) && !segment.reads {
                    self.hide(format!("`{program}` runs code from the command line"));
                    self.not_named(format!("`{program}` runs code from the command line and may load files"));
                }
                if FED_WRAPPERS.contains(&program) && !segment.reads {
                    self.hide(format!("`{program}` runs its input"));
                    self.not_named(format!("`{program}` runs its input"));
                }
                if OF_THE_SHELL.contains(&program) {
                    self.hide(format!(
                        "`{program}` changes the meaning of later commands, or runs its words"
                    ));
                }
                if (segment.piped || !segment.texts.is_empty()) && runs_standard_input(words) {
                    self.hide(format!("`{program}` runs its piped input"));
                    if segment.piped {
                        self.not_named(format!("`{program}` runs its piped input"));
                    }
                    inner.extend(segment.texts.iter().cloned());
                    // The output of the earlier commands may be known: their own words.
                    let earlier =
                        script.segments.get(..at).unwrap_or_default().iter().filter(|_| segment.piped);
                    for earlier in earlier {
                        inner.push(earlier.words.get(1..).unwrap_or_default().join(" "));
                        inner.extend(earlier.texts.iter().cloned());
                    }
                }
            }
        }
        self.scripts.push(script);
        for text in inner.iter().filter(|text| !text.trim().is_empty()) {
            self.read(text, depth + 1);
        }
    }
}

/// Builtins that run their words, or after which a name means something else.
const OF_THE_SHELL: [&str; 9] =
    ["eval", "source", ".", "exec", "trap", "alias", "enable", "coproc", "builtin"];

fn texts(words: &[Word]) -> Vec<String> {
    words.iter().map(|word| word.text.clone()).collect()
}

/// The commands of a line, one after the other.
#[derive(Default)]
struct CommandSequence {
    segments: Vec<Segment>,
    varies: bool,
    varies_in_text: bool,
    unnamed: Option<String>,
}

impl CommandSequence {
    // BOUNDED: by the depth of a parsed line.
    fn steps(&mut self, steps: &[Step], piped: bool, substituted: bool) {
        for (at, step) in steps.iter().enumerate() {
            // The first command of a group that is piped into reads the pipe.
            let piped = step.joint == Joint::Pipe || (piped && at == 0);
            match &step.node {
                Node::Command(command) => {
                    let fed = fed_command(steps, at).is_some();
                    self.command(command, fed, piped, substituted);
                }
                Node::Subshell(block) | Node::Group(block) => {
                    self.steps(&block.steps, piped, substituted);
                    self.redirects(&block.redirects, piped);
                }
                Node::Branches(parts, redirects) | Node::Rounds(parts, redirects) => {
                    for part in parts {
                        self.steps(part, piped, substituted);
                    }
                    self.redirects(redirects, piped);
                }
            }
        }
    }

    fn command(&mut self, command: &Command, fed: bool, piped: bool, substituted: bool) {
        let unknown =
            |assignment: &&Assignment| assignment.value.varies && !is_of_the_script(&assignment.name);
        self.varies |= command.assignments.iter().any(|assignment| unknown(&assignment));
        let mut words = texts(&command.words);
        add_redirects(&command.redirects, &mut words);
        let bare = unwrap(&command.words);
        let program = bare.words.first().map_or("", |word| word.text.as_str());
        let reads = fed || known_form(bare.words, Class::Reads).is_ok();
        if !reads && self.unnamed.is_none() {
            self.unnamed = names_no_code(command, &bare);
        }
        self.varies_in_text |= fed;
        if command.words.iter().any(|word| word.varies) && !reads {
            // In a known form an unknown word is text, which only matters to deny rules that could
            // name it.
            let known = known_form(bare.words, Class::Acts).is_ok();
            *(if known { &mut self.varies_in_text } else { &mut self.varies }) = true;
        }
        self.segments.push(Segment {
            words,
            piped,
            substituted,
            reads,
            states: !reads && !WORDS_ARE_TEXT.contains(&program),
            texts: here_documents(&command.redirects),
        });
        for steps in &command.substituted {
            self.steps(steps, false, true);
        }
    }

    /// Adds redirections of a group, which count as a command without a program.
    fn redirects(&mut self, redirects: &[Redirect], piped: bool) {
        let mut words = Vec::new();
        add_redirects(redirects, &mut words);
        let texts = here_documents(redirects);
        if !words.is_empty() || !texts.is_empty() {
            self.segments.push(Segment { words, piped, reads: true, texts, ..Segment::default() });
        }
    }
}

/// Returns the reason why the command does not name the code that it runs.
fn names_no_code(command: &Command, bare: &UnwrappedCommand<'_>) -> Option<String> {
    let mut assignments = command.assignments.iter().chain(&bare.assignments);
    let sets = assignments.find(|Assignment { name, value }| {
        let of_the_script = command.words.is_empty() && is_of_the_script(name);
        !(of_the_script || (value.is_literal() && is_harmless_assignment(name, &value.text)))
    });
    if let Some(Assignment { name, .. }) = sets {
        return Some(format!("it sets `{name}`, through which programs may load other code"));
    }
    let program = base_name(&bare.words.first()?.text);
    if SETTING.contains(&program) {
        return Some(format!("`{program}` changes the meaning of later commands"));
    }
    if program == "find" && bare.words.iter().any(|word| word.text.contains("{}")) {
        return Some("`find` runs a program on its results".to_owned());
    }
    let acts = known_form(bare.words, Class::Acts).is_ok();
    let unknown = |word: &&Word| word.varies || (word.glob && takes_scripts(program));
    let word = bare.words.iter().find(unknown).filter(|_| !acts)?;
    Some(format!("`{}` is unknown before it runs", word.text))
}

/// Builtins that change what later names, variables and options mean, in forms that do more than read.
const SETTING: [&str; 14] = [
    "alias", "bind", "builtin", "complete", "coproc", "declare", "enable", "export", "hash", "local",
    "readonly", "set", "shopt", "typeset",
];

/// Programs whose words are text for people.
const WORDS_ARE_TEXT: [&str; 4] = ["git", "gh", "bd", "jj"];

fn add_redirects(redirects: &[Redirect], words: &mut Vec<String>) {
    for redirect in redirects {
        match redirect {
            Redirect::Write(target) => words.extend([">".to_owned(), target.text.clone()]),
            Redirect::Read(source) => words.extend(["<".to_owned(), source.text.clone()]),
            Redirect::Descriptor | Redirect::Text(_) => {}
        }
    }
}

fn here_documents(redirects: &[Redirect]) -> Vec<String> {
    redirects
        .iter()
        .filter_map(|redirect| if let Redirect::Text(text) = redirect { Some(text.clone()) } else { None })
        .collect()
}

impl Script {
    /// Returns every place in the segment where a command may begin.
    pub(super) fn starts<'a>(&self, segment: &'a Segment) -> impl Iterator<Item = Start<'a>> + use<'a> {
        let words = segment.words.as_slice();
        let program = words.first().map_or("", |word| base_name(word));
        let runs = words.iter().position(|word| {
            program == "find" && ["-exec", "-execdir", "-ok", "-okdir"].contains(&word.as_str())
        });
        let everywhere = !self.understood || WRAPPERS.contains(&program);
        let inert = !self.understood && !self.feeds_an_interpreter && INERT.contains(&program);
        (0..words.len())
            .filter(move |at| everywhere || *at == 0 || runs.is_some_and(|runs| *at > runs))
            .filter_map(move |at| Some(Start { words: words.get(at..)?, inert }))
    }

    /// Returns true if the segment has an interpreter that would run its input, and no other code
    /// to run.
    pub(super) fn awaits_code(&self, segment: &Segment) -> bool {
        self.starts(segment).any(|start| {
            let Some((program, arguments)) = start.words.split_first() else { return false };
            // `$()` is the output of the next segment.
            let no_operand =
                |word: &String| word.starts_with(['-', '+', '<']) || ["", "$()"].contains(&word.as_str());
            match base_name(program) {
                "eval" | "source" | "." => true,
                program => (is_shell(program) || is_interpreter(program)) && arguments.iter().all(no_operand),
            }
        })
    }
}
