use serde::Serialize;

/// Reads a line for the shell.
///
/// Only plain simple commands and pipelines of them are understood: words of safe characters, single quotes, and double quotes
/// without `$`, backtick, backslash or `!`. A line with anything else is [`Parsed::Opaque`].
pub fn parse(line: &str) -> Parsed {
    match Lexer::default().read(line) {
        Ok(commands) => Parsed::Commands(commands),
        Err(reason) => Parsed::Opaque { reason: reason.to_owned() },
    }
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parsed {
    /// The commands of a pipeline, in order; a single command is a pipeline of one.
    Commands(Vec<SimpleCommand>),
    /// It could mean anything.
    Opaque {
        /// The first thing that is not understood.
        reason: String,
    },
}

/// A program and its arguments, as the program will see them but for globs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimpleCommand {
    /// The words; the first is the program. There is at least one.
    pub words: Vec<Word>,
}

/// One word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Word {
    /// The text without its quotes.
    pub text: String,
    /// Whether the shell replaces it with the names of files: it holds `*`, `?` or `[` outside quotes.
    pub glob: bool,
}

impl Word {
    /// A word that stands for itself.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), glob: false }
    }
}

impl SimpleCommand {
    /// The program as it is named.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", |word| &word.text)
    }

    /// The texts of the words.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.words.iter().map(|word| word.text.clone()).collect()
    }
}

impl std::fmt::Display for SimpleCommand {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.texts().join(" "))
    }
}

/// Longer lines are opaque: no plain command is, and looking closer would take long.
const LONGEST_LINE: usize = 64 * 1024;
/// More commands than this in one pipeline are opaque.
const MOST_COMMANDS: usize = 64;

/// Words that begin something other than a simple command, in bash or in a POSIX shell.
const RESERVED: [&str; 22] = [
    "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while",
];

#[derive(Default)]
struct Lexer {
    commands: Vec<SimpleCommand>,
    words: Vec<Word>,
    /// The word being read; none between words.
    word: Option<Word>,
}

impl Lexer {
    fn read(mut self, line: &str) -> Result<Vec<SimpleCommand>, &'static str> {
        // A final newline ends the line and means nothing.
        let line = line.trim_end_matches('\n');
        if line.len() > LONGEST_LINE {
            return Err("it is too long");
        }
        if line.chars().any(is_deceptive) {
            return Err("it holds a control character, or one that changes how the line looks");
        }
        let mut rest = line.chars();
        while let Some(character) = rest.next() {
            match character {
                ' ' | '\t' => self.end_word()?,
                '|' => self.end_command()?,
                '\'' => self.quoted(&mut rest, '\'', "")?,
                '"' => self.quoted(&mut rest, '"', "$`\\!")?,
                character => self.plain(character)?,
            }
        }
        self.end_command()?;
        Ok(self.commands)
    }

    fn plain(&mut self, character: char) -> Result<(), &'static str> {
        let first = self.word.is_none();
        let before = self.word.as_ref().and_then(|word| word.text.chars().last());
        let is_program = self.words.is_empty();
        match character {
            ';' | '&' => return Err("it holds several commands"),
            '<' | '>' => return Err("it redirects"),
            '(' | ')' => return Err("it holds a subshell or a substitution"),
            '$' | '`' => return Err("it holds an expansion"),
            '{' | '}' => return Err("it holds braces"),
            '\\' => return Err("it holds a backslash outside quotes"),
            '#' => return Err("it holds a comment"),
            // After `=` and `:` some shells expand it too.
            '~' if first || matches!(before, Some('=' | ':')) => {
                return Err("it holds a home folder to expand");
            }
            '=' if is_program => return Err("it assigns a variable"),
            '*' | '?' | '[' if is_program => return Err("its program is a pattern"),
            '!' if is_program => return Err("it negates"),
            '*' | '?' | '[' => {
                let word = self.word();
                word.glob = true;
                word.text.push(character);
            }
            character if is_plain(character) => self.word().text.push(character),
            _ => return Err("it holds a character with a meaning of its own"),
        }
        Ok(())
    }

    fn quoted(
        &mut self,
        rest: &mut std::str::Chars<'_>,
        quote: char,
        refused: &str,
    ) -> Result<(), &'static str> {
        let word = self.word();
        for character in rest.by_ref() {
            if character == quote {
                return Ok(());
            }
            if refused.contains(character) {
                return Err("it holds an expansion");
            }
            // A quoted `*` in a word that also holds a plain one is taken for a plain one: the word then stands for more.
            word.text.push(character);
        }
        Err("a quote is not closed")
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_with(|| Word::literal(""))
    }

    fn end_word(&mut self) -> Result<(), &'static str> {
        let Some(word) = self.word.take() else { return Ok(()) };
        if self.words.is_empty() {
            if word.text.is_empty() {
                return Err("its program is an empty word");
            }
            if word.text.contains('=') {
                return Err("it assigns a variable");
            }
            if RESERVED.contains(&word.text.as_str()) {
                return Err("it begins with a word of the shell's own");
            }
        }
        self.words.push(word);
        Ok(())
    }

    fn end_command(&mut self) -> Result<(), &'static str> {
        self.end_word()?;
        if self.words.is_empty() {
            return Err("a command is missing");
        }
        if self.commands.len() == MOST_COMMANDS {
            return Err("it holds too many commands");
        }
        self.commands.push(SimpleCommand { words: std::mem::take(&mut self.words) });
        Ok(())
    }
}

/// Characters that stand for themselves in every shell at every place that `plain` lets them through.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "_-./:,+@%^=~]!".contains(character)
}

/// Control characters but the tab, and characters that hide, reorder or look like space.
fn is_deceptive(character: char) -> bool {
    let control = character.is_control() && character != '\t';
    let space = character.is_whitespace() && !matches!(character, ' ' | '\t');
    control || space || tool::is_invisible(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads_as(line: &str, expected: &[&[&str]]) {
        let Parsed::Commands(commands) = parse(line) else { panic!("{line:?} is opaque: {:?}", parse(line)) };
        let words: Vec<Vec<String>> = commands.iter().map(SimpleCommand::texts).collect();
        assert_eq!(words, expected);
    }

    #[test]
    fn words_are_what_the_program_will_see() {
        reads_as("ls -la  src", &[&["ls", "-la", "src"]]);
        reads_as("grep -n 'a $b' \"c d\"\n", &[&["grep", "-n", "a $b", "c d"]]);
        reads_as("cat a'b'\"c\"d", &[&["cat", "abcd"]]);
        reads_as("find . ! -name x", &[&["find", ".", "!", "-name", "x"]]);
        reads_as("a 'x|y' | b ''", &[&["a", "x|y"], &["b", ""]]);
        reads_as("git show HEAD~1", &[&["git", "show", "HEAD~1"]]);
        reads_as("'ls' größe", &[&["ls", "größe"]]);
    }

    #[test]
    fn a_glob_outside_quotes_is_marked() {
        let Parsed::Commands(commands) = parse("cat *.rs '*.rs'") else { panic!() };
        let globs: Vec<bool> = commands[0].words.iter().map(|word| word.glob).collect();
        assert_eq!(globs, [false, true, false]);
    }

    #[test]
    fn all_else_is_opaque() {
        for line in [
            "",
            "  ",
            "|",
            "a |",
            "| a",
            "a || b",
            "a |& b",
            "a; b",
            "a & b",
            "a && b",
            "a > b",
            "a < b",
            "a <<x",
            "a $b",
            "a `b`",
            "a \"$b\"",
            "a \"`b`\"",
            "a \"\\b\"",
            "a \"!b\"",
            "(a)",
            "a {b,c}",
            "a \\b",
            "a # b",
            "a 'b",
            "a \"b",
            "X=1 a",
            "~/a",
            "a ~",
            "a ~bob",
            "a --x=~/y",
            "*",
            "l? a",
            "! a",
            "time a",
            "if a",
            "'' a",
            "a\nb",
            "a\rb",
            "a\0",
            "a\u{202e}b",
            "a\u{a0}b",
            "a\u{200b}b",
            "a 'b\nc'",
            "a 'b\u{7}'",
            "a €",
        ] {
            assert!(matches!(parse(line), Parsed::Opaque { .. }), "{line:?} was understood");
        }
        assert!(matches!(parse(&"a ".repeat(40_000)), Parsed::Opaque { .. }));
        assert!(matches!(parse(&"a|".repeat(100)), Parsed::Opaque { .. }));
    }
}
