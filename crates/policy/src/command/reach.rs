use std::collections::HashSet;

use tool::CommandLine;

use super::lexer::{Parsed, SimpleCommand, Word, parse};
use super::loose::{Segment, segments};
use super::programs::{
    FED_WRAPPERS, INERT, WRAPPERS, base_name, has_inline_code, is_interpreter, is_shell, runs_standard_input,
    shell_script,
};

/// Everything that a line could run, as far as it can be seen: its commands, what they wrap, and the scripts they are given.
///
/// More is listed than would run, because a rule that denies looks at all of it.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// The commands of the line itself, where it was understood.
    pub(crate) commands: Option<Vec<SimpleCommand>>,
    /// The line itself and every script in it.
    pub(super) scripts: Vec<Script>,
    /// Why more than what is listed could run; none where nothing is hidden.
    pub(crate) hidden: Option<String>,
    seen: HashSet<String>,
}

/// A script, in the stretches between its operators.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) segments: Vec<Segment>,
    /// Whether the lexer understood it; otherwise any word may be a program.
    understood: bool,
    /// Whether some part of it runs what it reads, so that words that are only printed may run as well.
    feeds_an_interpreter: bool,
}

/// One place where a command may begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    /// The program and what follows it.
    pub(super) words: &'a [String],
    /// Whether it is most likely a word of a program that only prints or searches.
    pub(super) inert: bool,
}

/// Deeper scripts in scripts, and more of them, are not read.
const DEEPEST_SCRIPT: usize = 4;
const MOST_SCRIPTS: usize = 64;

impl Reached {
    /// Reads a command.
    pub(crate) fn by(command: &CommandLine) -> Self {
        let mut reached = Reached::default();
        match command {
            CommandLine::Shell(line) => match parse(line) {
                Parsed::Commands(commands) => {
                    reached.read_commands(&commands, line, 0);
                    reached.commands = Some(commands);
                }
                Parsed::Opaque { reason } => reached.read_loosely(line, &reason),
            },
            // Judged as if to a shell, which it may be, but never as understood: the line may be the rest of one that was
            // typed before, or mean something else to this program.
            CommandLine::Typed { text, .. } => {
                match parse(text) {
                    Parsed::Commands(commands) => reached.read_commands(&commands, text, 0),
                    Parsed::Opaque { reason } => reached.read_loosely(text, &reason),
                }
                reached.hide("what a running program makes of it is not known");
            }
            CommandLine::Argv(words) if words.first().is_none_or(String::is_empty) => {
                reached.hide("no program is named");
            }
            CommandLine::Argv(words) => {
                let commands = vec![SimpleCommand { words: words.iter().map(Word::literal).collect() }];
                reached.read_commands(&commands, &words.join(" "), 0);
                reached.commands = Some(commands);
            }
        }
        reached
    }

    /// Every place where a command may begin.
    pub(super) fn starts(&self) -> impl Iterator<Item = Start<'_>> {
        self.scripts
            .iter()
            .flat_map(|script| script.segments.iter().flat_map(|segment| script.starts(segment)))
    }

    fn hide(&mut self, reason: impl Into<String>) {
        self.hidden.get_or_insert_with(|| reason.into());
    }

    fn read(&mut self, text: &str, depth: usize) {
        if !self.seen.insert(text.to_owned()) {
            return;
        }
        if depth > DEEPEST_SCRIPT || self.scripts.len() >= MOST_SCRIPTS {
            self.read_loosely(text, "it holds scripts in scripts");
            return;
        }
        match parse(text) {
            Parsed::Commands(commands) => self.read_commands(&commands, text, depth),
            Parsed::Opaque { reason } => self.read_loosely(text, &reason),
        }
    }

    fn read_loosely(&mut self, text: &str, reason: &str) {
        self.hide(reason);
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

    fn read_commands(&mut self, commands: &[SimpleCommand], text: &str, depth: usize) {
        let segments: Vec<Segment> = commands
            .iter()
            .enumerate()
            .map(|(position, command)| Segment {
                words: command.texts(),
                piped: position > 0,
                substituted: false,
            })
            .collect();
        let script =
            Script { text: text.to_owned(), segments, understood: true, feeds_an_interpreter: false };
        let mut inner: Vec<String> = Vec::new();
        for segment in &script.segments {
            if segment.words.first().is_some_and(|word| WRAPPERS.contains(&base_name(word))) {
                // `env -S 'git rm x'`, `ssh host 'git rm x'`, `watch 'git rm x'`.
                let texts = segment.words.iter().filter(|word| word.contains([' ', '\t', '\n', ';']));
                inner.extend(texts.cloned());
            }
            // What a first `eval` takes holds what a second one does.
            if let Some(start) =
                script.starts(segment).find(|start| start.words.first().is_some_and(|word| word == "eval"))
            {
                inner.push(start.words.get(1..).unwrap_or_default().join(" "));
            }
            for Start { words, .. } in script.starts(segment) {
                let program = words.first().map_or("", |word| base_name(word));
                inner.extend(shell_script(words).map(str::to_owned));
                if has_inline_code(words) {
                    self.hide(format!("`{program}` runs code that stands in the line"));
                }
                if FED_WRAPPERS.contains(&program) {
                    self.hide(format!("`{program}` runs what it reads"));
                }
                if segment.piped && runs_standard_input(words) {
                    self.hide(format!("`{program}` runs what is piped into it"));
                    // What the earlier commands print may be known: their own words.
                    inner.extend(
                        script
                            .segments
                            .iter()
                            .map(|earlier| earlier.words.get(1..).unwrap_or_default().join(" ")),
                    );
                }
            }
        }
        self.scripts.push(script);
        for text in inner.iter().filter(|text| !text.trim().is_empty()) {
            self.read(text, depth + 1);
        }
    }
}

impl Script {
    /// Every place in the segment where a command may begin.
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

    /// Whether an interpreter that would run what it is given stands in the segment, with nothing else to run.
    pub(super) fn awaits_code(&self, segment: &Segment) -> bool {
        self.starts(segment).any(|start| {
            let Some((program, arguments)) = start.words.split_first() else { return false };
            let no_operand = |word: &String| word.is_empty() || word.starts_with(['-', '+', '<']);
            match base_name(program) {
                "eval" | "source" | "." => true,
                program => (is_shell(program) || is_interpreter(program)) && arguments.iter().all(no_operand),
            }
        })
    }
}
