//! The typed option tables: the known forms of programs, as data in `tables/*.txt`.
//!
//! A row is `NAMES | OPTIONS | OPERANDS`. It stands under one of three headings. Under `== reads`
//! the form only reads. Under `== versions` it only reads too, and the program is otherwise
//! unknown. Under `== acts` it may pass if a profile lists it. A name may have subcommands,
//! `git:stash:list`. `~` before a name means that no option of the program writes or runs anything.
//! A file whose name looks like an option is then harmless.
//!
//! | option | meaning |
//! |---|---|
//! | `-abc` | three flags, which may be clustered; after `!single`, one option of that name |
//! | `-A:n`, `--after:n` | takes a value of this kind, attached or as the next word |
//! | `--color?t`, `-U?n` | takes a value only if it is attached |
//! | `-#` | a number as an option, `-50` |
//! | `...!` | stands for the first operand, which is then not given |
//! | `...+` | at least one of the options with this mark is given |
//! | `= a b` | the first operand is one of these words |
//!
//! | kind | meaning |
//! |---|---|
//! | `n`, `t` | a number; any text |
//! | `r`, `d` | a file whose content is read; a path that is looked at |
//! | `g`, `v` | a revision or a path of git; a revision, or a path that git changes |
//! | `w` | a path that is written, judged as a redirection is |
//! | `x`, `k` | a path of the workspace that is created or changed; one that is removed with all below it |
//! | `p` | a program of the workspace |
//! | `f` | a program whose name has a dot or a slash, so that it is no word of the program's own |
//! | `{name}` | a word that a function of `checks.rs` finds harmless |
//! | `k*`, `k?` | any number; none or one |
//! | `k*=.` | any number; if none is given, the workspace's part below the directory |
//! | `text`, `rest` | everything from here on is text, options too; the same after `--` |

use std::collections::HashMap;
use std::sync::LazyLock;

/// Class of a row: whether its form only reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The form only reads.
    Reads,
    /// The form passes if it is listed.
    Acts,
}

/// Kind of a value or an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Text,
    Content,
    Names,
    Revision,
    /// A revision, or a path that git changes.
    Revised,
    Written,
    Changed,
    Removed,
    Program,
    /// A program file that cannot be confused with a word of another program's language.
    ProgramFile,
    /// A word that a function of `checks.rs` checks, with the function's name.
    Checked(&'static str),
}

/// One known form of a program.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) class: Class,
    /// True if the form only prints a version or help, which many otherwise unknown programs do.
    version_only: bool,
    /// Words after the program that select this row.
    pub(crate) subcommands: Vec<&'static str>,
    /// True if none of the options writes or runs anything.
    pub(crate) harmless_options: bool,
    pub(crate) options: Options,
    pub(crate) first_words: Vec<&'static str>,
    pub(crate) operands: Operands,
}

#[derive(Debug, Default)]
pub(crate) struct Options {
    /// True if options with one dash are words, not clusters of letters.
    pub(crate) single: bool,
    pub(crate) numbers: bool,
    by_name: HashMap<&'static str, OptionForm>,
    /// True if some option is marked with `+`.
    pub(crate) demands: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionForm {
    pub(crate) value: Value,
    pub(crate) replaces_operand: bool,
    pub(crate) demanded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    None,
    Attached(Kind),
    One(Kind),
    /// Two words follow.
    Two,
}

/// Operands of a row: the words that are not options.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    pub(crate) leading: Vec<Kind>,
    pub(crate) repeated: Option<Kind>,
    /// True if the current directory is read when no operand is given (`=.`).
    pub(crate) default_directory: bool,
    /// True if everything from the first operand after the leading ones is text.
    pub(crate) text: bool,
    /// True if everything after `--` is text.
    pub(crate) rest: bool,
    /// Name of the function of `checks.rs` that checks all words.
    pub(crate) check: Option<&'static str>,
}

impl Options {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && !self.numbers
    }

    pub(crate) fn find(&self, name: &str) -> Option<OptionForm> {
        self.by_name.get(name).copied()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    rows: HashMap<&'static str, Vec<Row>>,
    globals: HashMap<&'static str, Options>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables::default();
    for text in [
        include_str!("tables/reading.txt"),
        include_str!("tables/git.txt"),
        include_str!("tables/acting.txt"),
    ] {
        // A malformed row is left out, which only causes more questions. A test checks that every
        // row is well-formed.
        drop(tables.read(text));
    }
    tables
});

/// Returns true if the tables know harmless forms of the program, besides printing its version.
pub(crate) fn has_table(program: &str) -> bool {
    TABLES.rows.get(program).is_some_and(|rows| rows.iter().any(|row| !row.version_only))
}

/// Returns the rows of a program, and its options before a subcommand.
pub(crate) fn rows(program: &str) -> (&'static [Row], Option<&'static Options>) {
    (TABLES.rows.get(program).map_or(&[], Vec::as_slice), TABLES.globals.get(program))
}

impl Tables {
    fn read(&mut self, text: &'static str) -> Result<(), String> {
        let (mut class, mut globals, mut version_only) = (None, None, false);
        let mut wrong = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix("== ") {
                Some("versions") => (class, globals, version_only) = (Some(Class::Reads), None, true),
                Some("reads") => (class, globals, version_only) = (Some(Class::Reads), None, false),
                Some("acts") => (class, globals, version_only) = (Some(Class::Acts), None, false),
                Some(heading) => globals = heading.strip_prefix("globals "),
                None => match (globals, class) {
                    (Some(program), _) => match options(line) {
                        Ok((options, _)) => drop(self.globals.insert(program, options)),
                        Err(problem) => wrong.push(format!("{line}: {problem}")),
                    },
                    (None, Some(class)) => {
                        if let Err(problem) = self.add(line, class, version_only) {
                            wrong.push(format!("{line}: {problem}"));
                        }
                    }
                    (None, None) => wrong.push(format!("{line}: it has no heading")),
                },
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    fn add(&mut self, line: &'static str, class: Class, version_only: bool) -> Result<(), String> {
        let columns: Vec<&'static str> = line.split(" |").map(str::trim).collect();
        let [names, option_words, operand_words] = columns.as_slice() else {
            return Err(format!("it has {} columns", columns.len()));
        };
        for name in names.split_whitespace() {
            let (options, first_words) = options(option_words)?;
            let mut words = name.split(':').filter(|word| !word.is_empty());
            // `~:` is the program `:`.
            let program = if name == "~:" { name } else { words.next().ok_or("it has no name")? };
            let row = Row {
                class,
                version_only,
                subcommands: words.collect(),
                harmless_options: program.starts_with('~'),
                options,
                first_words,
                operands: operands(operand_words)?,
            };
            self.rows.entry(program.trim_start_matches('~')).or_default().push(row);
        }
        Ok(())
    }
}

fn kind(text: &'static str) -> Result<Kind, String> {
    Ok(match text {
        "n" => Kind::Number,
        "t" => Kind::Text,
        "r" => Kind::Content,
        "d" => Kind::Names,
        "g" => Kind::Revision,
        "v" => Kind::Revised,
        "w" => Kind::Written,
        "x" => Kind::Changed,
        "k" => Kind::Removed,
        "p" => Kind::Program,
        "f" => Kind::ProgramFile,
        _ => match text.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) if super::checks::exists(name) => Kind::Checked(name),
            _ => return Err(format!("{text:?} is not a kind")),
        },
    })
}

fn options(text: &'static str) -> Result<(Options, Vec<&'static str>), String> {
    let mut options = Options::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "!single" => options.single = true,
            "=" => return Ok((options, words.collect())),
            _ => add_option(&mut options, word)?,
        }
    }
    Ok((options, Vec::new()))
}

fn add_option(options: &mut Options, word: &'static str) -> Result<(), String> {
    let word = match word.strip_prefix("-#") {
        Some("") => {
            options.numbers = true;
            return Ok(());
        }
        Some(_) if !word.contains([':', '?']) => {
            options.numbers = true;
            word
        }
        _ => word,
    };
    let (body, replaces_operand) = word.strip_suffix('!').map_or((word, false), |body| (body, true));
    let (body, demanded) = body.strip_suffix('+').map_or((body, false), |body| (body, true));
    let form = |value| OptionForm { value, replaces_operand, demanded };
    options.demands |= demanded;
    let (name, form) = match (body.split_once(':'), body.split_once('?')) {
        (Some((name, "t:t")), _) => (name, form(Value::Two)),
        (Some((name, value)), _) => (name, form(Value::One(kind(value)?))),
        (None, Some((name, value))) => (name, form(Value::Attached(kind(value)?))),
        (None, None) => (body, form(Value::None)),
    };
    let letters = name.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    match letters {
        Some(letters) if !options.single && form.value == Value::None && !demanded && !replaces_operand => {
            for (at, letter) in letters.char_indices().filter(|(_, letter)| *letter != '#') {
                // A slice of the table cannot be the dash and the letter, so the name is the letter alone.
                let name = letters.get(at..at + letter.len_utf8()).unwrap_or_default();
                options.by_name.insert(name, form);
            }
        }
        Some(letters) if !letters.is_empty() => drop(options.by_name.insert(letters, form)),
        _ if name.starts_with("--") && name.len() > 2 => drop(options.by_name.insert(name, form)),
        _ => return Err(format!("{word:?} is not an option")),
    }
    Ok(())
}

fn operands(text: &'static str) -> Result<Operands, String> {
    let mut operands = Operands::default();
    for word in text.split_whitespace() {
        if operands.repeated.is_some() && word != "rest" {
            return Err(format!("{word:?} follows operands of any number"));
        }
        match word {
            "text" => operands.text = true,
            "rest" => operands.rest = true,
            _ => {
                if let Some(name) = word.strip_prefix('{').and_then(|name| name.strip_suffix('}'))
                    && super::checks::looks_at_all(name)
                {
                    operands.check = Some(name);
                    continue;
                }
                let (word, default) = word.strip_suffix("=.").map_or((word, false), |word| (word, true));
                operands.default_directory |= default;
                match word.strip_suffix('*') {
                    Some(repeated) => operands.repeated = Some(kind(repeated)?),
                    None => operands.leading.push(kind(word.trim_end_matches('?'))?),
                }
            }
        }
    }
    Ok(operands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_reads() {
        let mut tables = Tables::default();
        for text in [
            include_str!("tables/reading.txt"),
            include_str!("tables/git.txt"),
            include_str!("tables/acting.txt"),
        ] {
            assert_eq!(tables.read(text), Ok(()));
        }
        assert!(tables.rows.len() > 150, "{}", tables.rows.len());
    }

    #[test]
    fn a_row_that_does_not_read_is_reported() {
        let mut tables = Tables::default();
        for text in [
            "== reads\na | -b",
            "== reads\na | -b:q | ",
            "a | | ",
            "== reads\na | b | ",
            "== reads\na | | {nothing}",
        ] {
            assert!(tables.read(text).is_err(), "{text}");
        }
    }
}
