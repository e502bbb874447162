//! Values of the variables of a script, as far as they are certain.

use std::collections::{BTreeMap, BTreeSet};

use crate::Word;
use crate::raw::{Part, RawCommand, RawNode, RawStep, RawWord};

/// Variables whose value is known at the current step. Any other variable may have any value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables(BTreeMap<String, Word>);

impl Variables {
    pub(crate) fn get(&self, name: &str) -> Option<&Word> {
        self.0.get(name)
    }

    /// Records a value, or that the value is unknown.
    pub(crate) fn set(&mut self, name: &str, value: Option<Word>) {
        match value {
            Some(value) if is_of_the_script(name) => drop(self.0.insert(name.to_owned(), value)),
            _ => drop(self.0.remove(name)),
        }
    }

    pub(crate) fn forget(&mut self, assigned: &AssignedVariables) {
        if assigned.anything {
            self.0.clear();
        }
        for name in &assigned.names {
            self.0.remove(name);
        }
    }
}

/// Variables that a piece of a script may assign.
#[derive(Debug, Default)]
pub(crate) struct AssignedVariables {
    pub(crate) names: BTreeSet<String>,
    /// True if the piece runs a builtin that may assign any name.
    anything: bool,
}

/// Builtins that assign or unset the variables that their words name.
const ASSIGN_THEIR_WORDS: [&str; 7] = ["declare", "export", "local", "read", "readonly", "typeset", "unset"];

/// Builtins that run their words, or assign variables that their words do not name.
const ASSIGN_ANYTHING: [&str; 13] = [
    ".",
    "builtin",
    "command",
    "coproc",
    "eval",
    "getopts",
    "let",
    "mapfile",
    "readarray",
    "source",
    "time",
    "trap",
    "wait",
];

impl AssignedVariables {
    pub(crate) fn by_steps(steps: &[RawStep]) -> Self {
        let mut assigned = Self::default();
        assigned.add_steps(steps);
        assigned
    }

    pub(crate) fn by_parts(parts: &[Vec<RawStep>]) -> Self {
        let mut assigned = Self::default();
        for part in parts {
            assigned.add_steps(part);
        }
        assigned
    }

    pub(crate) fn by_command(command: &RawCommand) -> Self {
        let mut assigned = Self::default();
        assigned.add_command(command);
        assigned
    }

    // BOUNDED: by `DEEPEST`, to which a line is parsed.
    fn add_steps(&mut self, steps: &[RawStep]) {
        for step in steps {
            match &step.node {
                RawNode::Command(command) => self.add_command(command),
                RawNode::Subshell(steps, _) | RawNode::Group(steps, _) => self.add_steps(steps),
                RawNode::If(parts, _) | RawNode::Case { branches: parts, .. } => {
                    for part in parts {
                        self.add_steps(part);
                    }
                }
                RawNode::While(condition, body, _) => {
                    self.add_steps(condition);
                    self.add_steps(body);
                }
                RawNode::For { name, body, .. } => {
                    self.names.insert(name.clone());
                    self.add_steps(body);
                }
            }
        }
    }

    /// Adds the assignments of one command. Assignments in `$( )` stay within it.
    fn add_command(&mut self, command: &RawCommand) {
        self.names.extend(command.assignments.iter().map(|(name, _)| name.clone()));
        let Some((program, arguments)) = command.words.split_first() else { return };
        let Some(program) = program.as_text() else {
            self.anything = true;
            return;
        };
        let first = arguments.first().map(RawWord::as_text);
        if program == "printf" {
            // `-v` takes a name.
            self.anything |= first.is_some_and(|word| word.is_none_or(|word| word.starts_with('-')));
        } else if program == "command" && matches!(first, Some(Some("-v" | "-V"))) {
        } else if ASSIGN_ANYTHING.contains(&program) {
            self.anything = true;
        } else if ASSIGN_THEIR_WORDS.contains(&program) {
            for word in arguments {
                match word.bits.first() {
                    Some(Part::Text(text)) => {
                        let name = text.split(['=', '+', '[']).next().unwrap_or_default();
                        self.names.insert(name.to_owned());
                    }
                    Some(_) => self.anything = true,
                    None => {}
                }
            }
        }
    }
}

/// Returns true if a variable of this name means nothing to the shell and to programs, even if it
/// is exported.
///
/// The name has a lower-case letter, as variables of scripts have, and is not one of the lower-case
/// names with a meaning. A name that consists of plain nouns, for example `OUT_DIR`, also counts.
pub fn is_of_the_script(name: &str) -> bool {
    let lower = name.chars().any(|character| character.is_ascii_lowercase());
    let known = ["auto_resume", "histchars"].contains(&name)
        || name.to_ascii_lowercase().ends_with("_proxy")
        || name.starts_with("npm_")
        || name == "_";
    let is_noun = |part: &str| {
        let bare = part.trim_end_matches(|character: char| character.is_ascii_digit());
        bare.len() == 1 || NOUNS.contains(&bare)
    };
    !known && (lower || name.split('_').all(is_noun))
}

/// Plain nouns: no variable of the shell or of a known program consists of these alone.
const NOUNS: [&str; 60] = [
    "AFTER", "APP", "BASE", "BEFORE", "BRANCH", "CODE", "COMMIT", "COUNT", "CUR", "CURRENT", "DATA", "DEST",
    "DIR", "DIRS", "DST", "END", "EXIT", "FAILED", "FILE", "FILES", "FIRST", "FOUND", "HASH", "ID", "IDS",
    "INPUT", "ITEM", "ITEMS", "KEY", "LAST", "LINE", "LOG", "LOGFILE", "LOGS", "MAIN", "MSG", "NAME",
    "NAMES", "NEW", "NUM", "OLD", "OUT", "OUTPUT", "PASSED", "PATTERN", "PORT", "PROJECT", "RC", "REPO",
    "RES", "RESULT", "RET", "ROOT", "SCRATCH", "SHA", "SRC", "START", "STATUS", "TOTAL", "URL",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_scripts_are_told_from_those_that_something_looks_at() {
        for name in ["x", "S", "file", "my_dir", "fileName", "OUT", "OUT_DIR", "SRC2", "F"] {
            assert!(is_of_the_script(name), "{name}");
        }
        for name in [
            "PATH",
            "IFS",
            "HOME",
            "GIT_DIR",
            "LD_PRELOAD",
            "http_proxy",
            "HTTP_PROXY",
            "npm_config_x",
            "_",
            "ENV",
            "BASH_ENV",
            "PAGER",
            "PS4",
            "CC",
            "LINES",
            "HOST_PORT_PATH",
            "",
            "__",
            "CDPATH",
            "TMPDIR",
        ] {
            assert!(!is_of_the_script(name), "{name}");
        }
    }
}
