//! Matching of commands against known forms, with the paths that they open.

use shell_syntax::Word;

use super::checks;
use super::programs::is_cluster;
use super::table::{Class, Kind, Options, Row, Value, rows};

/// Effect of a command of a known form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandEffect {
    /// Class of the form: whether it only reads, apart from its operands.
    pub(crate) class: Class,
    /// Paths that the command names.
    pub(crate) operands: Vec<Operand>,
    /// Programs that the command runs in turn, by their bare names.
    pub(crate) runs: Vec<String>,
}

/// A word of a command that the program may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operand {
    /// Path as written.
    pub(crate) text: String,
    /// True if the shell replaces the path with file names.
    pub(crate) glob: bool,
    /// Use of the path by the program.
    pub(crate) kind: Kind,
    /// True if the word may not be a path at all: a revision, or part of an option.
    pub(crate) uncertain: bool,
}

impl Operand {
    pub(super) fn of(word: &Word, kind: Kind) -> Self {
        Self::new(&word.text, word.glob, kind)
    }

    fn new(text: &str, glob: bool, kind: Kind) -> Self {
        let uncertain = matches!(kind, Kind::Revision | Kind::Revised);
        Self { text: text.to_owned(), glob, kind, uncertain }
    }

    pub(super) fn directory(kind: Kind) -> Self {
        Self::new(".", false, kind)
    }
}

/// Returns the known form of a command, given by its words without wrappers. The program is looked
/// up by the given name: the caller checks whether that name leads to the program.
///
/// # Errors
/// Returns the reason if no form is known.
pub(crate) fn known_form(words: &[Word], class: Class) -> Result<CommandEffect, &'static str> {
    let Some((program, arguments)) = words.split_first() else { return Err("it names no program") };
    let (rows, globals) = rows(&program.text);
    if rows.is_empty() {
        return Err("its program is not a known read-only program");
    }
    if program.text == "tar" && arguments.iter().any(|word| word.text.contains(':')) {
        return Err("`tar` would read this name as a remote file");
    }
    let mut found = CommandEffect { class, operands: Vec::new(), runs: Vec::new() };
    let arguments = match globals {
        Some(globals) => before_subcommand(arguments, globals, &mut found)?,
        None => arguments,
    };
    let mut why = "it is not used in a known read-only way";
    for row in rows.iter().filter(|row| row.class == class) {
        let named = row.subcommands.len();
        let chosen = arguments.get(..named).is_some_and(|words| {
            words.iter().zip(&row.subcommands).all(|(word, name)| word.is_literal() && word.text == *name)
        });
        if !chosen {
            continue;
        }
        let mut found = found.clone();
        match match_row(row, arguments.get(named..).unwrap_or_default(), &mut found) {
            Ok(()) => {
                if program.text.starts_with("python") {
                    found.operands.extend(of_module(arguments, class)?);
                }
                return Ok(found);
            }
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

/// Returns the paths that a Python module opens which is run as a program. Modules have their own
/// rows, under `-m`.
fn of_module(arguments: &[Word], class: Class) -> Result<Vec<Operand>, &'static str> {
    let is_module = |word: &Word| is_cluster(&word.text) && word.text.contains('m');
    let first = arguments.iter().position(|word| !word.text.starts_with('-') || is_module(word));
    let words = first.and_then(|at| arguments.get(at..)).unwrap_or_default();
    let Some((word, module)) = words.split_first().filter(|(word, _)| is_module(word)) else {
        return Ok(Vec::new());
    };
    if word.text.find('m') != Some(word.text.len() - 1) {
        return Err("the module is not a separate word");
    }
    let as_program: Vec<Word> = std::iter::once(Word::literal("-m")).chain(module.iter().cloned()).collect();
    known_form(&as_program, class).map(|form| form.operands)
}

/// Reads the options between a program and its subcommand.
fn before_subcommand<'a>(
    mut arguments: &'a [Word],
    globals: &Options,
    found: &mut CommandEffect,
) -> Result<&'a [Word], &'static str> {
    while let Some(first) =
        arguments.first().filter(|word| word.text.starts_with('-') && word.text != "--version")
    {
        let taken = option(globals, first, arguments.get(1..).unwrap_or_default(), found)?.words;
        arguments = arguments.get(1 + taken..).unwrap_or_default();
    }
    Ok(arguments)
}

fn match_row(row: &Row, words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    if let Some(check) = row.operands.check
        && row.operands.leading.is_empty()
    {
        if !["find", "test", "extended", "format"].contains(&check) {
            options_only(row, words, found)?;
        }
        return checks::check_all(check, words, found);
    }
    let mut state = State { given: 0, demanded: !row.options.demands };
    let mut rest = words;
    let mut literal = false;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        // After a `text` mark, the rest is text once all leading operands are given. A row with
        // options also needs at least one operand before.
        let begun = state.given > 0 || row.options.is_empty();
        let in_text = row.operands.text && begun && state.given >= row.operands.leading.len();
        if in_text {
            // The rest belongs to the program, and is not checked.
            break;
        }
        if !literal && word.text == "--" && word.is_literal() {
            if row.operands.rest {
                break;
            }
            literal = true;
        } else if !literal && is_option(word) {
            let taken = option(&row.options, word, rest, found)?;
            rest = rest.get(taken.words..).unwrap_or_default();
            state.given += usize::from(taken.replaces_operand || (taken.demanded && row.operands.text));
            state.demanded |= taken.demanded;
        } else {
            if !literal && could_be_an_option(word, row.harmless_options) {
                return Err("a file name pattern or an output could expand to an option");
            }
            operand(row, &state, word, found)?;
            state.given += 1;
        }
    }
    if !state.demanded {
        return Err("it is not used in a known read-only way");
    }
    if state.given < row.operands.leading.len() && row.class == Class::Acts && row.operands.text {
        return Err("it runs its input");
    }
    if row.operands.default_directory
        && !found
            .operands
            .iter()
            .any(|operand| !operand.uncertain || matches!(operand.kind, Kind::Revision | Kind::Revised))
    {
        found.operands.push(Operand::directory(Kind::Names));
    }
    Ok(())
}

struct State {
    /// Number of operands so far, including those that an option replaced.
    given: usize,
    demanded: bool,
}

/// Reads the options of a row whose operands a function checks.
fn options_only(row: &Row, words: &[Word], found: &mut CommandEffect) -> Result<(), &'static str> {
    for (at, word) in words.iter().enumerate().filter(|(_, word)| is_option(word) && word.text != "-x") {
        if option(&row.options, word, words.get(at + 1..).unwrap_or_default(), found)?.words > 0 {
            return Err("one of its options takes a value");
        }
    }
    Ok(())
}

fn operand(row: &Row, state: &State, word: &Word, found: &mut CommandEffect) -> Result<(), &'static str> {
    if state.given == 0 && !row.first_words.is_empty() {
        return if row.first_words.contains(&word.text.as_str()) && word.is_literal() {
            Ok(())
        } else {
            Err("it is not used in a known read-only way")
        };
    }
    let at = state.given - usize::from(!row.first_words.is_empty());
    let kind = row.operands.leading.get(at).copied().or(row.operands.repeated);
    let kind = kind.ok_or("it has too many words")?;
    // A lone dash is standard input or output.
    if word.text == "-" {
        match kind {
            Kind::Program | Kind::ProgramFile => return Err("it runs its input"),
            Kind::Content | Kind::Names | Kind::Revision | Kind::Text | Kind::Written => return Ok(()),
            _ => {}
        }
    }
    value(kind, word, &word.text, found)
}

fn is_option(word: &Word) -> bool {
    word.text.len() > 1 && word.text.starts_with('-')
}

/// Returns true if the shell could put an option here: the name of a file that begins with a dash,
/// or an output.
fn could_be_an_option(word: &Word, harmless_options: bool) -> bool {
    let by_name = word.glob && word.text.starts_with(['*', '?', '[']) && !harmless_options;
    // An unknown word begins with a dollar in the text, and each of the words that it splits into
    // may begin with a dash.
    let by_output = word.varies && (word.splits || word.text.starts_with(['-', '$']));
    // A path may be split at its spaces.
    let by_part = word.splits && !harmless_options;
    by_name || by_output || by_part
}

/// Words and marks that an option took.
struct OptionValue {
    words: usize,
    replaces_operand: bool,
    demanded: bool,
}

fn option(
    options: &Options,
    word: &Word,
    after: &[Word],
    found: &mut CommandEffect,
) -> Result<OptionValue, &'static str> {
    const UNKNOWN: &str = "one of its options is not known to be harmless";
    let text = word.text.as_str();
    // `--include=*.rs` stands for itself, or for files with that prefix.
    let named =
        text.split_once('=').filter(|(name, _)| name.starts_with("--") && !name.contains(['*', '?', '[']));
    if word.glob && named.is_none() {
        return Err("one of its options is a file name pattern");
    }
    // The position of the unknown part is unknown too: `--for$(x)mat=` would look like `--format=`.
    if word.varies {
        return Err("one of its options is unknown before it runs");
    }
    let next = |kind: Kind, found: &mut CommandEffect| match after.first() {
        Some(word) => value(kind, word, &word.text, found),
        None => Err("the value of an option is missing"),
    };
    let (name, attached) = match text.split_once('=') {
        Some((name, attached)) if text.starts_with("--") || options.single => (name, Some(attached)),
        _ => (text, None),
    };
    let key = if name.starts_with("--") { name } else { name.get(1..).unwrap_or_default() };
    if let Some(form) = options.find(key)
        && (name.starts_with("--") || options.single || key.len() > 1 || text.len() == 2)
    {
        let words = match (form.value, attached) {
            (Value::None | Value::Two, Some(_)) => return Err(UNKNOWN),
            (Value::None | Value::Attached(_), None) => 0,
            (Value::Attached(kind) | Value::One(kind), Some(attached)) => {
                value(kind, word, attached, found)?;
                0
            }
            (Value::One(kind), None) => {
                next(kind, found)?;
                1
            }
            (Value::Two, None) => 2,
        };
        return Ok(OptionValue { words, replaces_operand: form.replaces_operand, demanded: form.demanded });
    }
    if options.numbers && text.len() > 1 && text.bytes().skip(1).all(|byte| byte.is_ascii_digit()) {
        return Ok(OptionValue { words: 0, replaces_operand: false, demanded: false });
    }
    if !is_cluster(text) || options.single {
        return Err(UNKNOWN);
    }
    cluster(options, word, text, next, found).ok_or(UNKNOWN)?
}

/// Reads letters after one dash, of which the last may take a value.
fn cluster(
    options: &Options,
    word: &Word,
    text: &str,
    next: impl Fn(Kind, &mut CommandEffect) -> Result<(), &'static str>,
    found: &mut CommandEffect,
) -> Option<Result<OptionValue, &'static str>> {
    let mut taken = OptionValue { words: 0, replaces_operand: false, demanded: false };
    for (at, letter) in text.char_indices().skip(1) {
        let end = at + letter.len_utf8();
        let form = options.find(text.get(at..end)?)?;
        taken.replaces_operand |= form.replaces_operand;
        taken.demanded |= form.demanded;
        let rest = text.get(end..)?;
        match form.value {
            Value::None => {}
            Value::Attached(_) if rest.is_empty() => {}
            Value::Attached(kind) => return Some(value(kind, word, rest, found).map(|()| taken)),
            Value::One(kind) if rest.is_empty() => {
                taken.words = 1;
                return Some(next(kind, found).map(|()| taken));
            }
            Value::One(kind) => return Some(value(kind, word, rest, found).map(|()| taken)),
            Value::Two => return None,
        }
    }
    Some(Ok(taken))
}

/// Checks one value or operand. Its meaning must be certain if it matters.
fn value(kind: Kind, word: &Word, text: &str, found: &mut CommandEffect) -> Result<(), &'static str> {
    if word.splits && word.varies {
        return Err("one of its words could become several, or none");
    }
    match kind {
        Kind::Text => return Ok(()),
        Kind::Number => {
            let plain = !text.is_empty()
                && text.len() <= 24
                && text
                    .chars()
                    .all(|character| character.is_ascii_alphanumeric() || "+-.,%:".contains(character));
            return if plain && !word.glob { Ok(()) } else { Err("a number is missing") };
        }
        Kind::Checked(name) => {
            return if word.is_literal() && checks::is_harmless(name, text) {
                Ok(())
            } else {
                Err("a script or a value in it is not known to be harmless")
            };
        }
        Kind::ProgramFile if !text.contains(['.', '/']) => {
            return Err("it may run something other than a file");
        }
        Kind::Content
        | Kind::Names
        | Kind::Revision
        | Kind::Revised
        | Kind::Written
        | Kind::Changed
        | Kind::Removed
        | Kind::Program
        | Kind::ProgramFile => {}
    }
    // The rules treat both kinds alike.
    let kind = if kind == Kind::ProgramFile { Kind::Program } else { kind };
    let of_git = matches!(kind, Kind::Revision | Kind::Revised);
    if word.varies {
        return Err("one of its paths is unknown before it runs");
    }
    if !of_git && text.contains("://") {
        return Err("one of its words is an address instead of a path");
    }
    if matches!(kind, Kind::Written | Kind::Changed | Kind::Removed | Kind::Program) && word.glob {
        return Err("a path that it writes or runs is a file name pattern");
    }
    if text.starts_with('@') && !of_git {
        return Err("one of its words names a file with options");
    }
    if of_git {
        add_of_git(kind, word, text, found);
        return Ok(());
    }
    found.operands.push(Operand::new(text, word.glob, kind));
    Ok(())
}

/// Adds the paths that a word of git may name: `HEAD:.env`, `:0:.env`, `:(top).env` and `1,5:.env`
/// show a file, as `.env` does.
fn add_of_git(kind: Kind, word: &Word, text: &str, found: &mut CommandEffect) {
    let magic = text.strip_prefix(':').map(|rest| rest.split(')').next().unwrap_or_default());
    if magic.is_some_and(|magic| magic.starts_with(['!', '^']) || magic.contains("exclude")) {
        return;
    }
    let parts = text.match_indices([':', ')']).filter_map(|(at, _)| text.get(at + 1..));
    let parts = parts.map(|part| part.trim_start_matches('/')).filter(|part| !part.is_empty());
    for part in parts.chain(std::iter::once(text)) {
        // Git has its own patterns, whose wildcards also match hidden names.
        let glob = word.glob || part.contains(['*', '?', '[']);
        found.operands.push(Operand::new(part, glob, kind));
        let (folder, name) = part.rsplit_once('/').map_or(("", part), |(folder, name)| (folder, name));
        if let Some(hidden) = super::find::hidden(name).filter(|_| glob) {
            found.operands.push(Operand::new(&format!("./{folder}/{hidden}"), true, kind));
        }
        if magic.is_some_and(|magic| magic.contains("icase")) {
            found.operands.push(Operand::new(&part.to_lowercase(), glob, kind));
        }
    }
}

/// Returns every word that could be the path of a file, for a command of no known form. These are
/// the words themselves, and every end of an option that could be its value.
pub(crate) fn possible_paths(words: &[Word]) -> impl Iterator<Item = &str> {
    words.iter().skip(1).flat_map(|word| {
        let text = word.text.as_str();
        let ends: Vec<&str> = if is_cluster(text) {
            text.char_indices().skip(2).take(32).filter_map(|(at, _)| text.get(at..)).collect()
        } else {
            text.split_once(['=', ':', '@']).map(|(_, value)| value).into_iter().collect()
        };
        std::iter::once(text).chain(ends).filter(|end| !end.is_empty())
    })
}
