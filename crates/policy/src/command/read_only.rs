use super::lexer::{SimpleCommand, Word};
use super::programs::is_cluster;

/// A word of a read-only command that the program may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operand {
    /// The path as written.
    pub(crate) text: String,
    /// Whether the shell replaces it with names of files.
    pub(crate) glob: bool,
    /// Whether the program shows what the file holds, not only that it is there.
    pub(crate) shows_content: bool,
    /// Whether it is only a part of an option (`--file=x`, `-fx`), which may be no path at all.
    pub(crate) attached: bool,
}

/// What the program does with its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opens {
    /// It opens none of them.
    Nothing,
    /// It shows what is in files.
    Content,
    /// It shows that files are there, and how large they are.
    Names,
}

/// The read-only commands of the EloPhanto source (`shell_execute`, "Safety").
///
/// Their manuals (GNU coreutils 9, grep 3, findutils 4, procps 4, debianutils 5) were read for options that write a file or run
/// a program: `find` alone has any. None takes an output file by an abbreviated long option.
const PROGRAMS: [(&str, Opens); 14] = [
    ("ls", Opens::Names),
    ("cat", Opens::Content),
    ("pwd", Opens::Nothing),
    ("which", Opens::Nothing),
    ("echo", Opens::Nothing),
    ("grep", Opens::Content),
    ("find", Opens::Names),
    ("wc", Opens::Content),
    ("head", Opens::Content),
    ("tail", Opens::Content),
    ("df", Opens::Names),
    ("du", Opens::Names),
    ("ps", Opens::Nothing),
    ("uname", Opens::Nothing),
];

/// What of `find` writes or runs; longer names that begin so count too.
const FIND_ACTIONS: [&str; 5] = ["-delete", "-exec", "-ok", "-fprint", "-fls"];

/// Tests of `find` whose value is a path that is opened.
const FIND_PATHS: [&str; 5] = ["-newer", "-anewer", "-cnewer", "-samefile", "-files0-from"];

/// Options of other programs that go by the same name as one of the fourteen (ugrep's and BSD's `grep`).
const FOREIGN_OPTIONS: [&str; 5] = ["--filter", "--pager", "--view", "--save-config", "--decompress"];

/// The operands of a read-only command.
///
/// # Errors
/// Why the command is not known to only read.
pub(crate) fn reads_only(command: &SimpleCommand) -> Result<Vec<Operand>, &'static str> {
    let Some((program, arguments)) = command.words.split_first() else { return Err("it names no program") };
    let Some((name, opens)) = PROGRAMS.iter().find(|(name, _)| *name == program.text) else {
        return Err("its program is not one of those that only read");
    };
    if *opens == Opens::Nothing {
        return Ok(Vec::new());
    }
    if arguments.iter().any(|word| FOREIGN_OPTIONS.iter().any(|option| word.text.starts_with(option))) {
        return Err("one of its options runs a program in some versions");
    }
    if *name == "find" {
        return find_operands(arguments);
    }
    let pattern = if *name == "grep" { grep_pattern(arguments) } else { None };
    let mut operands = Vec::new();
    let mut options_end = false;
    let mut before: Option<&Word> = None;
    for (position, word) in arguments.iter().enumerate() {
        let is_option = !options_end && word.text.starts_with('-') && word.text.len() > 1;
        if is_option && word.glob {
            return Err("an option of it is a pattern of file names");
        }
        if is_option {
            options_end = word.text == "--";
            operands.extend(attached(&word.text));
        } else if pattern != Some(position) && word.text != "-" && !is_number_of(name, before, word) {
            operands.push(Operand {
                text: word.text.clone(),
                glob: word.glob,
                shows_content: *opens == Opens::Content,
                attached: false,
            });
        }
        before = Some(word);
    }
    let named = operands.iter().any(|operand| !operand.attached);
    if !named && (*opens == Opens::Names || (*name == "grep" && is_recursive(arguments))) {
        operands.push(directory(*opens == Opens::Content));
    }
    Ok(operands)
}

fn find_operands(arguments: &[Word]) -> Result<Vec<Operand>, &'static str> {
    // A file may be named `-delete`, and the shell would put its name where the glob stands.
    if arguments.iter().any(|word| word.glob) {
        return Err("`find` with a pattern of file names could be given any option");
    }
    if arguments.iter().any(|word| FIND_ACTIONS.iter().any(|action| word.text.starts_with(action))) {
        return Err("`find` is told to write or to run something");
    }
    let operand =
        |text: &str| Operand { text: text.to_owned(), glob: false, shows_content: false, attached: false };
    let mut words = arguments.iter().map(|word| word.text.as_str()).peekable();
    while let Some(option) =
        words.next_if(|word| ["-H", "-L", "-P", "-D"].contains(word) || word.starts_with("-O"))
    {
        if option == "-D" {
            words.next();
        }
    }
    let mut operands = Vec::new();
    while let Some(start) = words.next_if(|word| !word.starts_with('-') && !["(", "!"].contains(word)) {
        operands.push(operand(start));
    }
    if operands.is_empty() {
        operands.push(directory(false));
    }
    while let Some(test) = words.next() {
        if FIND_PATHS.iter().any(|path| test.starts_with(path)) {
            operands.extend(words.next().map(operand));
        }
    }
    Ok(operands)
}

fn directory(shows_content: bool) -> Operand {
    Operand { text: ".".to_owned(), glob: false, shows_content, attached: false }
}

/// Every end of an option that could be a value: behind `=`, or behind each letter of a cluster.
fn attached(option: &str) -> Vec<Operand> {
    let ends: Vec<&str> = if is_cluster(option) {
        option.char_indices().skip(2).filter_map(|(at, _)| option.get(at..)).collect()
    } else {
        option.split_once('=').map(|(_, value)| value).into_iter().collect()
    };
    ends.into_iter()
        .filter(|end| !end.is_empty())
        .map(|end| Operand { text: end.to_owned(), glob: false, shows_content: true, attached: true })
        .collect()
}

/// Whether the word is the number that the option before it takes.
fn is_number_of(program: &str, before: Option<&Word>, word: &Word) -> bool {
    let takes_numbers = ["head", "tail", "grep", "du", "ls", "df"].contains(&program);
    let digits = word.text.trim_start_matches(['+', '-']);
    takes_numbers
        && before.is_some_and(|before| before.text.starts_with('-') && before.text != "--")
        && digits.starts_with(|character: char| character.is_ascii_digit())
        && digits.trim_start_matches(|character: char| character.is_ascii_digit()).len() <= 3
        && digits.chars().all(|character| character.is_ascii_alphanumeric())
}

fn is_recursive(arguments: &[Word]) -> bool {
    arguments.iter().any(|word| {
        (is_cluster(&word.text) && word.text.contains(['r', 'R']))
            || (word.text.len() > 3
                && ["--recursive", "--dereference-recursive"].iter().any(|long| long.starts_with(&word.text)))
    })
}

/// The position of the word that `grep` takes as its pattern, where that is certain.
fn grep_pattern(arguments: &[Word]) -> Option<usize> {
    // With `-e` or `-f`, attached or in a cluster, all other words are files.
    let given_otherwise = arguments.iter().any(|word| {
        let name = word.text.split('=').next().unwrap_or_default();
        (is_cluster(&word.text) && word.text.contains(['e', 'f']))
            || (name.len() > 2 && ["--regexp", "--file"].iter().any(|long| long.starts_with(name)))
    });
    if given_otherwise {
        return None;
    }
    let mut skip = false;
    for (position, word) in arguments.iter().enumerate() {
        if std::mem::take(&mut skip) {
            continue;
        }
        match word.text.as_str() {
            "--" => return (position + 1 < arguments.len()).then_some(position + 1),
            "-" => return Some(position),
            text if text.starts_with("--") => {
                // These take a value, as the next word where none is attached.
                let takes = ["--after-context", "--before-context", "--context", "--max-count", "--label"]
                    .iter()
                    .chain(&["--binary-files", "--devices", "--directories", "--exclude", "--include"])
                    .chain(&["--exclude-from", "--exclude-dir", "--group-separator"]);
                skip = takes.into_iter().any(|long| long.starts_with(text));
            }
            text if is_cluster(text) => skip = text.ends_with(['A', 'B', 'C', 'm', 'd', 'D']),
            _ => return Some(position),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Parsed, parse};
    use super::*;

    fn operands(line: &str) -> Result<Vec<String>, &'static str> {
        let Parsed::Commands(commands) = parse(line) else { panic!("{line:?} is opaque") };
        let operands = reads_only(&commands[0])?;
        Ok(operands.into_iter().filter(|operand| !operand.attached).map(|operand| operand.text).collect())
    }

    #[test]
    fn operands_are_the_words_that_are_opened() {
        assert_eq!(operands("cat a b").unwrap(), ["a", "b"]);
        assert_eq!(operands("head -n 50 src/x").unwrap(), ["src/x"]);
        assert_eq!(operands("grep -rn 'fn main' src").unwrap(), ["src"]);
        assert_eq!(operands("grep -A 3 x y").unwrap(), ["y"]);
        assert_eq!(operands("grep -e x y").unwrap(), ["x", "y"]);
        assert_eq!(operands("grep --regexp=x y").unwrap(), ["y"]);
        assert_eq!(operands("grep -r x").unwrap(), ["."]);
        assert_eq!(operands("find src -name .env -type f").unwrap(), ["src"]);
        assert_eq!(operands("find -L . -newer .env").unwrap(), [".", ".env"]);
        assert_eq!(operands("ls").unwrap(), ["."]);
        assert_eq!(operands("echo .env").unwrap(), [""; 0]);
    }

    #[test]
    fn values_attached_to_options_are_looked_at() {
        let all = |line: &str| {
            let Parsed::Commands(commands) = parse(line) else { panic!() };
            reads_only(&commands[0]).unwrap().into_iter().map(|operand| operand.text).collect::<Vec<_>>()
        };
        assert!(all("grep -f.env x").contains(&".env".to_owned()));
        assert!(all("grep -nf.env x").contains(&".env".to_owned()));
        assert!(all("grep --fil=.env x").contains(&".env".to_owned()));
        assert!(all("wc --files0-from=.env").contains(&".env".to_owned()));
    }

    #[test]
    fn what_writes_or_runs_is_not_read_only() {
        for line in [
            "find . -delete",
            "find . -exec rm x",
            "find . -execdir x",
            "find . -ok x",
            "find . -okdir x",
            "find . -fprint x",
            "find . -fprint0 x",
            "find . -fprintf x y",
            "find . -fls x",
            "find . -name *.rs",
            "./ls",
            "/bin/ls",
            "/tmp/cat x",
            "LS",
            "tee x",
            "sort x",
            "sed -n p x",
            "grep --filter=sh x",
            "cat -*",
        ] {
            assert!(operands(line).is_err(), "{line}");
        }
    }
}
