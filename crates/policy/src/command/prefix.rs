//! Rules about command prefixes.

use std::collections::HashMap;

use shell_syntax::Word;

use super::programs::{base_name, is_cluster};
use super::reach::ReachedCommands;
use crate::Rule;

/// Prefixes of commands that are allowed or denied, compared word by word.
///
/// `*` in a word stands for any characters; a word `*` for any word, and at the end also for no word.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandRules {
    allowed: HashMap<String, Vec<Prefix>>,
    denied: HashMap<String, Denials>,
    /// Denied prefixes whose program is a pattern.
    denied_patterns: Vec<Prefix>,
}

/// Denied prefixes of one program.
#[derive(Debug, Clone, Default)]
struct Denials {
    /// Prefixes whose first operand is a plain word, by that word.
    by_operand: HashMap<String, Vec<Prefix>>,
    others: Vec<Prefix>,
}

/// An entry that lists a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandEntry<'a> {
    pub(crate) rule: &'a Rule,
    /// True if the entry is the whole command, word by word, and more than a program.
    pub(crate) in_full: bool,
    /// True if the entry names more than the program: a subcommand, or the script that an
    /// interpreter runs.
    pub(crate) names_a_script: bool,
}

#[derive(Debug, Clone)]
struct Prefix {
    words: Vec<String>,
    rule: Rule,
}

/// Maximum number of arguments that are searched for a denied prefix.
const MAX_ARGUMENTS: usize = 256;

impl CommandRules {
    /// Adds an entry of `allowed_exec_command`.
    ///
    /// # Errors
    /// Returns a description of the problem if the entry is malformed.
    pub(crate) fn allow(&mut self, rule: Rule) -> Result<(), String> {
        let words = words_of(&rule.entry)?;
        let program = words.first().cloned().unwrap_or_default();
        if program.contains('*') {
            return Err("an allowed command must name its program".into());
        }
        self.allowed.entry(program).or_default().push(Prefix { words, rule });
        Ok(())
    }

    /// Returns true if an entry lists commands of this program.
    pub(crate) fn lists_commands_of(&self, program: &str) -> bool {
        self.allowed.contains_key(program)
    }

    /// Adds an entry of `deny_exec_command`.
    ///
    /// # Errors
    /// Returns a description of the problem if the entry is malformed.
    pub(crate) fn deny(&mut self, rule: Rule) -> Result<(), String> {
        let words = words_of(&rule.entry)?;
        let program = words.first().map(|word| base_name(word).to_owned()).unwrap_or_default();
        let prefix = Prefix { words, rule };
        if program.contains('*') {
            self.denied_patterns.push(prefix);
        } else {
            let denials = self.denied.entry(program).or_default();
            let operand = prefix.words.iter().skip(1).find(|word| !is_option(word));
            match operand.filter(|word| !word.contains('*')) {
                Some(word) => denials.by_operand.entry(word.clone()).or_default().push(prefix),
                None => denials.others.push(prefix),
            }
        }
        Ok(())
    }

    /// Returns the rule that lists the command. The program must be named exactly as in the rule,
    /// so `./pytest` is not `pytest`.
    pub(crate) fn allowed_by(&self, words: &[Word]) -> Option<CommandEntry<'_>> {
        let prefixes = self.allowed.get(&words.first()?.text)?;
        let matches = |prefix: &&Prefix| {
            let mut words = words.iter();
            prefix.words.iter().enumerate().all(|(position, pattern)| match words.next() {
                Some(word) => word.is_literal() && word_matches(pattern, &word.text) || pattern == "*",
                None => pattern == "*" && position + 1 == prefix.words.len(),
            })
        };
        let listed = |prefix: &'_ Prefix| {
            let literal = words.iter().zip(&prefix.words).all(|(word, pattern)| word.text == *pattern);
            let names_a_script =
                prefix.words.get(1).is_some_and(|word| !is_option(word) && !word.contains('*'));
            (literal && words.len() == prefix.words.len() && words.len() > 1, names_a_script)
        };
        let prefix = prefixes.iter().filter(matches).max_by_key(|prefix| listed(prefix))?;
        let (in_full, names_a_script) = listed(prefix);
        Some(CommandEntry { rule: &prefix.rule, in_full, names_a_script })
    }

    /// Returns true if an entry of `allowed_exec_command` names a program in this folder by this path.
    pub(crate) fn lists_program(&self, path: &std::path::Path, directory: &std::path::Path) -> bool {
        let mut named = self.allowed.keys().filter(|program| program.contains('/'));
        named.any(|program| crate::spell::resolve(directory, program).path == path)
    }

    /// Returns the rule that denies every command that an entry of `allowed_exec_command` lists:
    /// the rule is a prefix of the entry.
    pub(crate) fn denies_all_of(&self, entry: &str) -> Option<&Rule> {
        let words: Vec<String> = entry.split_whitespace().map(str::to_owned).collect();
        let program = base_name(words.first()?);
        let all = self.denied.get(program).into_iter().flat_map(Denials::all).chain(&self.denied_patterns);
        all.into_iter().find(|prefix| denies(prefix, &words)).map(|prefix| &prefix.rule)
    }

    /// Returns the rule that denies a program whatever its arguments are.
    pub(crate) fn denies_program(&self, name: &str) -> Option<&Rule> {
        let named = self.denied.get(name).into_iter().flat_map(|denials| &denials.others);
        let by_pattern = || self.denied_patterns.iter().filter(|prefix| denies(prefix, &[name.to_owned()]));
        named.filter(|prefix| prefix.is_program()).chain(by_pattern()).map(|prefix| &prefix.rule).next()
    }

    /// Returns every entry of `deny_exec_command`, with true if it denies a program whatever its
    /// arguments are.
    pub(crate) fn denials(&self) -> impl Iterator<Item = (&Rule, bool)> {
        let all = self.denied.values().flat_map(Denials::all).chain(&self.denied_patterns);
        all.map(|prefix| (&prefix.rule, prefix.is_program()))
    }

    /// Returns the rule that denies a command that the line could run, with the words of the command.
    pub(crate) fn denied_by(&self, reached: &ReachedCommands) -> Option<(&Rule, String)> {
        if self.denied.is_empty() && self.denied_patterns.is_empty() {
            return None;
        }
        reached.starts().find_map(|start| {
            let program = base_name(start.words.first()?);
            let named = self.denied.get(program).and_then(|denials| denials.find(start.words));
            let prefix =
                named.or_else(|| self.denied_patterns.iter().find(|prefix| denies(prefix, start.words)))?;
            let shown = start.words.get(..prefix.words.len()).unwrap_or(start.words).join(" ");
            Some((&prefix.rule, shown))
        })
    }
}

impl Prefix {
    /// Returns true if the prefix names only a program: a `*` at the end also stands for no word.
    fn is_program(&self) -> bool {
        let mut arguments = self.words.iter().skip(1);
        arguments.next().is_none_or(|word| word == "*") && arguments.next().is_none()
    }
}

impl Denials {
    fn all(&self) -> impl Iterator<Item = &Prefix> {
        self.by_operand.values().flatten().chain(&self.others)
    }

    fn find(&self, words: &[String]) -> Option<&Prefix> {
        let arguments = words.get(1..).unwrap_or_default();
        let mut named = first_operands(arguments).filter_map(|word| self.by_operand.get(word)).flatten();
        named
            .find(|prefix| denies(prefix, words))
            .or_else(|| self.others.iter().find(|prefix| denies(prefix, words)))
    }
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

/// Returns the words that may be the first operand. Options are skipped, and so is one word after
/// each, which may be its value.
fn first_operands(arguments: &[String]) -> impl Iterator<Item = &String> {
    let mut after_option = false;
    let certain = arguments.iter().take(MAX_ARGUMENTS).position(|word| {
        let is_operand = !is_option(word) && !after_option;
        after_option = is_option(word);
        is_operand
    });
    let end = certain.map_or(MAX_ARGUMENTS, |position| position + 1).min(arguments.len());
    arguments.iter().take(end).filter(|word| !is_option(word))
}

fn words_of(entry: &str) -> Result<Vec<String>, String> {
    if let Some(character) = entry.chars().find(|character| {
        ";&|<>()$`\"'\\".contains(*character) || (character.is_control() && *character != '\t')
    }) {
        return Err(format!("a command prefix cannot contain {character:?}"));
    }
    let words: Vec<String> = entry.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() { Err("no command is named".into()) } else { Ok(words) }
}

/// Returns true if the command begins as the rule says, in any spelling: the program by its base
/// name, options in any order and cluster, options (with a value) between the rule's words.
fn denies(prefix: &Prefix, words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let Some((program_pattern, patterns)) = prefix.words.split_first() else { return false };
    if !word_matches(base_name(program_pattern), base_name(program)) {
        return false;
    }
    let arguments = arguments.get(..MAX_ARGUMENTS).unwrap_or(arguments);
    let (options, operands): (Vec<&String>, Vec<&String>) =
        patterns.iter().partition(|pattern| is_option(pattern));
    options.iter().all(|option| has_option(arguments, option)) && has_operands(arguments, &operands)
}

fn has_option(arguments: &[String], option: &str) -> bool {
    // `-rf` is a cluster; a longer word, such as `-delete`, is one option.
    if is_cluster(option) && option.len() <= 4 {
        return option.chars().skip(1).all(|letter| {
            arguments.iter().any(|word| {
                let long = match letter.to_ascii_lowercase() {
                    'r' => "--recursive",
                    'f' => "--force",
                    _ => "",
                };
                let other_case = if letter == 'r' { 'R' } else { letter };
                (is_cluster(word) && word.contains([letter, other_case]))
                    || (word.len() > 3 && long.starts_with(word.as_str()))
            })
        });
    }
    arguments.iter().any(|word| {
        let name = word.split('=').next().unwrap_or_default();
        word_matches(option, word)
            || word_matches(option, name)
            || (name.len() > 4 && option.starts_with(name))
    })
}

fn has_operands(arguments: &[String], patterns: &[&String]) -> bool {
    let mut arguments = arguments.iter();
    patterns.iter().enumerate().all(|(position, pattern)| {
        let mut after_option = false;
        for word in arguments.by_ref() {
            if is_option(word) {
                after_option = true;
            } else if word_matches(pattern, word) {
                return true;
            } else if after_option {
                // The word may be the option's value: `git -C folder rm x`.
                after_option = false;
            } else {
                return false;
            }
        }
        *pattern == "*" && position + 1 == patterns.len()
    })
}

/// Returns true if the pattern, in which `*` stands for any characters, matches the word.
pub(crate) fn word_matches(pattern: &str, word: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == word };
    let Some(mut word) = word.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return word.ends_with(part);
        }
        match word.find(part) {
            Some(at) => word = word.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use tool::CommandLine;

    fn rule(entry: &str) -> Rule {
        Rule {
            key: "deny_exec_command",
            entry: entry.to_owned(),
            profile: "p".into(),
            origin: Origin::BuiltIn,
        }
    }

    fn is_denied(entry: &str, line: &str) -> bool {
        let mut rules = CommandRules::default();
        rules.deny(rule(entry)).unwrap();
        rules.denied_by(&ReachedCommands::by(&CommandLine::Shell(line.to_owned()))).is_some()
    }

    #[test]
    fn no_spelling_escapes_a_denied_beginning() {
        for line in [
            "git rm x",
            "/usr/bin/git rm x",
            "git -C dir rm x",
            "git --no-pager -c a=b rm x",
            "sudo git rm x",
            "env A=1 git rm x",
            "timeout 5 nice git rm x",
            "sh -c 'git rm x'",
            "bash -lc 'cd x; git rm y'",
            "ls | git rm x",
            "cd x && git rm y",
            "x=$(git rm y)",
            "find . -exec git rm '{}' +",
            "env -S 'git rm x'",
            "echo git rm x | sh",
            "eval 'git rm' x",
            "'git' \"rm\" x",
            "sudo bash -c 'sh -c \"git rm x\"'",
        ] {
            assert!(is_denied("git rm", line), "{line}");
        }
        for line in
            ["git log rm", "git commit -m 'git rm'", "git", "git rmx", "echo git rm", "grep 'git rm' x"]
        {
            assert!(!is_denied("git rm", line), "{line}");
        }
    }

    #[test]
    fn options_of_a_denied_beginning_count_in_any_order() {
        for line in [
            "rm -rf x",
            "rm -fr x",
            "rm -r -f x",
            "rm x -Rf",
            "rm --recursive --force x",
            "rm -rf",
            "rm --rec -vf x",
        ] {
            assert!(is_denied("rm -rf *", line), "{line}");
        }
        assert!(!is_denied("rm -rf *", "rm -r x"));
        assert!(!is_denied("rm -rf *", "rm x"));
    }

    #[test]
    fn an_allowed_beginning_is_taken_literally() {
        let allows = |entry: &str, line: &str| {
            let mut rules = CommandRules::default();
            rules.allow(rule(entry)).unwrap();
            let Ok(script) = shell_syntax::read(line) else { return false };
            let shell_syntax::Node::Command(command) = &script.steps[0].node else { return false };
            script.steps.len() == 1 && rules.allowed_by(&command.words).is_some()
        };
        assert!(allows("uv sync", "uv sync --frozen"));
        assert!(allows("npm run test:*", "npm run test:unit"));
        assert!(allows("npm run *", "npm run"));
        assert!(!allows("uv sync", "uv --x sync"));
        assert!(!allows("uv sync", "uv run x"));
        assert!(!allows("uv sync", "uv s*"));
        for line in ["./pytest", "/tmp/pytest", "env pytest", "pytest; rm x", "pyt$x"] {
            assert!(!allows("pytest", line), "{line}");
        }
    }

    #[test]
    fn an_entry_that_is_no_beginning_of_one_command_is_refused() {
        for entry in ["", "  ", "curl | sh", "a; b", "$X", "'a b'"] {
            assert!(CommandRules::default().deny(rule(entry)).is_err(), "{entry:?}");
        }
        assert!(CommandRules::default().allow(rule("* x")).is_err());
        assert!(CommandRules::default().deny(rule("* --force")).is_ok());
    }
}
