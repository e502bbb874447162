//! Checks whether small program texts in a line only print. Each returns false if it is unsure.

/// Accepts a `sed` script whose commands neither write nor read a file nor run anything.
pub(super) fn sed_only_prints(script: &str) -> bool {
    let mut rest = script.trim_start();
    while let Some(first) = rest.chars().next() {
        let next = match first {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' | ',' | '0'..='9' | '$' | '~' | '+' => rest.get(1..),
            '/' => expression(&rest[1..], '/').map(|rest| rest.trim_start_matches(['I', 'M'])),
            'p' | 'd' | '=' | 'n' | 'N' | 'l' | 'h' | 'H' | 'g' | 'G' | 'x' | 'D' | 'P' => {
                command_end(&rest[1..])
            }
            'q' | 'Q' => command_end(rest[1..].trim_start_matches(|digit: char| digit.is_ascii_digit())),
            's' => substitution(&rest[1..]),
            'y' => two_parts(&rest[1..], delimited).and_then(command_end),
            _ => None,
        };
        match next {
            Some(next) => rest = next,
            None => return false,
        }
    }
    true
}

/// Checks that a command ends here, and returns the rest. A letter would be another flag.
fn command_end(rest: &str) -> Option<&str> {
    let trimmed = rest.trim_start_matches([' ', '\t']);
    (trimmed.is_empty() || trimmed.starts_with([';', '}', '\n'])).then_some(trimmed)
}

fn substitution(rest: &str) -> Option<&str> {
    let rest = two_parts(rest, expression)?;
    // `e` runs, `w` writes, `m` changes the meaning of a line.
    let flags =
        rest.trim_start_matches(|flag: char| matches!(flag, 'g' | 'p' | 'I' | 'i') || flag.is_ascii_digit());
    command_end(flags)
}

fn two_parts(rest: &str, first: fn(&str, char) -> Option<&str>) -> Option<&str> {
    let delimiter = rest.chars().next()?;
    if delimiter.is_alphanumeric() || delimiter.is_whitespace() || matches!(delimiter, '\\' | ';' | '}') {
        return None;
    }
    let rest = first(rest.get(delimiter.len_utf8()..)?, delimiter)?;
    delimited(rest, delimiter)
}

/// Returns the text after the delimiter.
fn delimited(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == delimiter {
            return text.get(at + delimiter.len_utf8()..);
        } else if character == '\n' {
            return None;
        }
    }
    None
}

/// Returns the text after the delimiter of a regular expression.
///
/// Some versions of `sed` look for the end of a bracket first, and others accept a delimiter in a
/// bracket. If they would differ, the result is `None`.
fn expression(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    // Number of characters so far in the open bracket.
    let mut bracket: Option<usize> = None;
    let mut before = '\0';
    for (at, character) in text.char_indices() {
        if character == '\n' {
            return None;
        }
        if character == delimiter && !escaped {
            return if bracket.is_none() { text.get(at + delimiter.len_utf8()..) } else { None };
        }
        bracket = match bracket {
            None if character == '[' && !escaped => Some(0),
            None => None,
            // A bracket that begins with its end, and classes with a delimiter, are read in too
            // many ways.
            Some(0) if character == ']' => return None,
            Some(0) if character == '^' => Some(0),
            Some(_) if character == ']' && before == ':' => Some(1),
            Some(_) if character == ']' => None,
            Some(_) if before == '[' && matches!(character, '.' | '=') => return None,
            Some(_) if before == '[' && character == ':' && !names_a_class(text.get(at + 1..)?) => {
                return None;
            }
            Some(length) => Some(length + 1),
        };
        escaped = character == '\\' && !escaped;
        before = character;
    }
    None
}

/// Returns true if the text continues as `alpha:]` does.
fn names_a_class(rest: &str) -> bool {
    rest.trim_start_matches(|letter: char| letter.is_ascii_lowercase()).starts_with(":]")
}

/// Accepts an `awk` program that prints only to standard output.
///
/// A redirection or a pipe to a command follows `print` or `printf`, and everything else that
/// reaches outside has a name. Both are searched in the bare text, where no quote can hide them.
pub(super) fn awk_only_prints(program: &str) -> bool {
    let named = ["system", "getline", "@", "ARGV", "ARGC", "close", "fflush", "extension", "PROCINFO"];
    if named.iter().any(|name| program.contains(name)) {
        return false;
    }
    let after_print = program.find("print").and_then(|at| program.get(at..)).unwrap_or_default();
    !after_print.replace("||", "").contains('|') && !after_print.contains('>')
}

/// Accepts a `jq` filter that reads only its input.
pub(super) fn jq_only_filters(filter: &str) -> bool {
    let named = [
        "env",
        "ENV",
        "input_filename",
        "import",
        "include",
        "modulemeta",
        "$__prog",
        "get_search_list",
        "load",
        "eval",
    ];
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    named.iter().all(|name| {
        filter.match_indices(name).all(|(at, _)| {
            let before = filter.get(..at).and_then(|before| before.chars().last());
            let after = filter.get(at + name.len()..).and_then(|after| after.chars().next());
            // `.environment`, `.env`, and names that only contain the word are harmless.
            after.is_some_and(is_part) || before.is_some_and(|before| is_part(before) || before == '.')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sed_scripts_that_print_are_told_from_those_that_write_or_run() {
        for script in [
            "1,20p",
            "5p",
            "/x/p",
            "$p",
            "$!d",
            "1,/end/p",
            "/a/,/b/p",
            "s/a/b/",
            "s/a/b/g",
            "s|a|b|gp",
            "s#a#b#;s/c/d/",
            "1!G;h;$!d",
            "/x/{p;q}",
            "10q",
            "1~2p",
            "/^$/d",
            "=",
            "/a/I,+3p",
            "y/ab/cd/",
            "1d; $d",
            "s/\\//x/g",
            "s/[^a-z]//g",
            "s/^[[:space:]]*x/y/",
            "s/a/[/",
            "s/\\[a/b]/",
            "s/[\\/]x/y/",
            "/[[:alpha:]_]/p",
        ] {
            assert!(sed_only_prints(script), "{script}");
        }
        for script in [
            "w x",
            "1w x",
            "s/a/b/w x",
            "s/a/b/e",
            "s/a/b/ge",
            "e",
            "1e id",
            "e id",
            "r x",
            "R x",
            "W x",
            "F",
            "1,3w x",
            "s/a/b/gw x",
            "p;w x",
            "p\nw x",
            "/x/w y",
            "y/a/b/w x",
            "s,a,b,e",
            "sxaxbxe",
            "s/a/b",
            "p w",
            "{e id}",
            "1,2{w x\n}",
            "s/[/]/e",
            "s/[/]/x/g",
            "s/[]/[]/;s/e;/x/p",
            "s/[^]/[]/;s/e;/x/p",
            "s/]x[/][]/;s/e;/x/p",
            "/[]/,/[]/p",
            "s/[[:a]/x/;s/:]]/y/",
            "s/[[:alpha:]/]/x/e",
            "v",
            "i\\\nx",
            "a x",
            "c x",
            ":a;ba",
            "t",
            "z",
            "s/x[/]/w f/",
            "\\,x,w y",
            "s\na\nb\ne",
        ] {
            assert!(!sed_only_prints(script), "{script}");
        }
    }

    #[test]
    fn awk_programs_that_print_are_told_from_those_that_write_or_run() {
        for program in [
            "{print $1}",
            "NR>5",
            "NR>=5 && NR<=9",
            "$3 > 5 {print $1}",
            "/x/ || /y/ {print}",
            "{s+=$1} END {print s}",
            "{printf \"%s\\n\", $1}",
            "!seen[$0]++",
            "NR==1,NR==9",
            "length > 100",
        ] {
            assert!(awk_only_prints(program), "{program}");
        }
        for program in [
            "BEGIN{system(\"id\")}",
            "{print > \"f\"}",
            "{print >> \"f\"}",
            "{print | \"sh\"}",
            "{printf \"x\" > \"f\"}",
            "{\"id\" | getline}",
            "{getline < \"f\"}",
            "@load \"x\"",
            "/\"/ {print \"x\" > \"f\"}",
            "BEGIN{ARGV[1]=\"x\"}",
            "{print |& \"sh\"}",
            "{ print $1 |\"sh\" }",
            "BEGIN{\"id\"|getline x;print x}",
            "{print||\"x\"|\"sh\"}",
        ] {
            assert!(!awk_only_prints(program), "{program}");
        }
    }

    #[test]
    fn jq_filters_that_look_elsewhere_are_known() {
        for filter in [
            ".",
            ".a[] | {b, c}",
            ".env",
            ".environment",
            ".a.env.b",
            "[.[] | select(.x == 1)] | length",
            "$x + 1",
            ".payload",
        ] {
            assert!(jq_only_filters(filter), "{filter}");
        }
        for filter in [
            "env",
            "$ENV",
            "$ENV.PATH",
            "env.HOME",
            ". | env",
            "input_filename",
            "import \"a\" as b; .",
            "include \"a\"; .",
        ] {
            assert!(!jq_only_filters(filter), "{filter}");
        }
    }
}
