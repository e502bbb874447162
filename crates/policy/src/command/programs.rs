//! Facts about programs that follow from their names alone.

/// Programs that run the program which their arguments name. Any later word may be the program.
pub(super) const WRAPPERS: &[&str] = &[
    "bun",
    "bunx",
    "builtin",
    "busybox",
    "bwrap",
    "cargo",
    "cgexec",
    "chroot",
    "chrt",
    "command",
    "direnv",
    "doas",
    "docker",
    "env",
    "exec",
    "fakeroot",
    "firejail",
    "flock",
    "ionice",
    "kubectl",
    "ltrace",
    "make",
    "nerdctl",
    "nice",
    "nix",
    "nix-shell",
    "nohup",
    "npm",
    "npx",
    "nsenter",
    "numactl",
    "parallel",
    "pdm",
    "pipenv",
    "pkexec",
    "pnpm",
    "podman",
    "poetry",
    "prlimit",
    "proot",
    "rtk",
    "runuser",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "sg",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "tsx",
    "unbuffer",
    "unshare",
    "uv",
    "uvx",
    "valgrind",
    "watch",
    "xargs",
    "xvfb-run",
    "yarn",
];

/// Wrappers that also read arguments from elsewhere, so that the line does not show what runs.
pub(super) const FED_WRAPPERS: &[&str] = &["xargs", "parallel"];

/// Shells: `-c` takes a line.
pub(super) const SHELLS: &[&str] =
    &["ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "yash", "zsh"];

/// Programs that only show their words, or search for them.
pub(super) const INERT: &[&str] = &[
    "ag", "apropos", "echo", "egrep", "fgrep", "grep", "info", "man", "printf", "rg", "type", "whatis",
    "whereis", "which",
];

/// Programs that fetch from other machines.
pub(super) const DOWNLOADERS: &[&str] =
    &["aria2c", "axel", "curl", "fetch", "ftp", "http", "httpie", "https", "lynx", "wget", "wget2", "xh"];

/// Interpreters other than shells, by the prefix of their name, with the options that take code.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("python", &["-c"]),
    ("pypy", &["-c"]),
    ("node", &["-e", "-p", "-pe", "--eval", "--print"]),
    ("deno", &["eval", "-e"]),
    ("bun", &["-e", "-p", "--eval", "--print"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("php", &["-r", "-B", "-R", "-E"]),
    ("lua", &["-e"]),
    ("tclsh", &[]),
    ("pwsh", &["-c", "-Command", "-command", "-EncodedCommand", "-e"]),
    ("powershell", &["-c", "-Command", "-command", "-EncodedCommand", "-e"]),
    ("Rscript", &["-e"]),
    ("osascript", &["-e"]),
];

/// Programs whose first operand is a program text that can run others.
const SCRIPTED: &[&str] = &["awk", "gawk", "mawk", "nawk", "original-awk"];

/// Returns the name without its folder.
pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns true if the program's first operand is a program text.
pub(super) fn is_scripted(program: &str) -> bool {
    SCRIPTED.contains(&base_name(program))
}

/// Returns true if the program is a shell.
pub(super) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&base_name(program))
}

/// Returns the options that take code, if the program is an interpreter other than a shell.
fn code_options(program: &str) -> Option<&'static [&'static str]> {
    let name = base_name(program);
    INTERPRETERS.iter().find_map(|(prefix, options)| {
        let version = name.strip_prefix(prefix)?;
        version
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".-w".contains(&byte) || byte == b'm' || byte == b't')
            .then_some(*options)
    })
}

/// Returns true if the program is a shell or another interpreter.
pub(crate) fn is_interpreter(program: &str) -> bool {
    is_shell(program) || code_options(program).is_some()
}

/// Maximum number of words that are searched for the first operand.
const MAX_OPTIONS: usize = 256;

/// Returns the arguments up to the first operand: options, and words after one, which may be its value.
fn options(arguments: &[String]) -> &[String] {
    let mut after_option = false;
    let operand = arguments.iter().take(MAX_OPTIONS).position(|word| {
        let is_option = word.starts_with(['-', '+']);
        let is_operand = !is_option && !after_option;
        after_option = is_option;
        is_operand
    });
    // The first operand may itself be `eval`, as in `deno eval CODE`.
    let end = operand.map_or(MAX_OPTIONS, |position| position + 1).min(arguments.len());
    arguments.get(..end).unwrap_or(arguments)
}

/// Returns true if the interpreter's arguments contain code, or are too many to be checked. For a
/// shell see [`shell_script`].
pub(super) fn has_inline_code(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    if SCRIPTED.contains(&base_name(program)) {
        return true;
    }
    let (code, shell) = (code_options(program), is_shell(program));
    let options = if code.is_some() || shell { options(arguments) } else { return false };
    if options.len() == MAX_OPTIONS {
        return true;
    }
    let python = base_name(program).starts_with("py");
    let holds_code = |word: &String| {
        code.unwrap_or_default().iter().any(|option| {
            // `-c` may be the last letter of a cluster, and may have the code attached.
            word.starts_with(option)
                || match option.strip_prefix('-') {
                    Some(letter) if letter.len() == 1 => is_cluster(word) && word.contains(letter),
                    _ => false,
                }
        })
    };
    options.iter().take_while(|word| !(python && *word == "-m")).any(holds_code)
}

/// Returns the line that a shell's `-c` takes.
pub(super) fn shell_script(words: &[String]) -> Option<&str> {
    let (program, arguments) = words.split_first()?;
    if !is_shell(program) {
        return None;
    }
    let position = options(arguments).iter().position(|word| is_cluster(word) && word.contains('c'))?;
    let mut rest = arguments.get(position + 1..)?.iter().take(MAX_OPTIONS);
    // `bash -c -- LINE` and `bash -c -x LINE`: the line is the first word that is not an option.
    rest.find(|word| !word.starts_with(['-', '+'])).map(String::as_str)
}

/// Returns true if an interpreter with these words runs its standard input.
pub(super) fn runs_standard_input(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    if !is_interpreter(program) || has_inline_code(words) || shell_script(words).is_some() {
        return false;
    }
    let shell = is_shell(program);
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(word) = arguments.next() {
        match word {
            "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" | "-s" | "<" | "<<" | "<<<" => return true,
            "--" => {}
            "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" if shell => drop(arguments.next()),
            "-W" | "-X" | "-r" | "--require" | "--import" if !shell => drop(arguments.next()),
            "-m" if !shell => return false,
            word if shell && is_cluster(word) && word.contains('s') => return true,
            word if word.starts_with(['-', '+']) => {}
            _ => return false,
        }
    }
    true
}

/// Returns true for one dash and letters.
pub(super) fn is_cluster(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && !word.starts_with("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn inline_code_is_found_in_clusters_and_attached() {
        for line in [
            "python3 -c x",
            "/usr/bin/python3.12 -Ic x",
            "node -e x",
            "perl -ne x",
            "ruby -ex",
            "awk x f",
            "deno eval x",
        ] {
            assert!(has_inline_code(&words(line)), "{line}");
        }
        for line in
            ["python3 x.py -c y", "python3 -m pytest -c x", "node server.js", "pythonista -c x", "ls -c"]
        {
            assert!(!has_inline_code(&words(line)), "{line}");
        }
    }

    #[test]
    fn the_line_of_a_shell_is_found_behind_other_options() {
        assert_eq!(shell_script(&words("bash -lc ls")), Some("ls"));
        assert_eq!(shell_script(&words("/bin/sh -e -c -- ls")), Some("ls"));
        assert_eq!(shell_script(&words("sh script.sh -c")), None);
    }

    #[test]
    fn an_interpreter_without_script_runs_its_input() {
        for line in ["sh", "bash -s -- x", "bash -x", "python3 -", "bash -o pipefail", "perl /dev/stdin"] {
            assert!(runs_standard_input(&words(line)), "{line}");
        }
        for line in ["sh x.sh", "python3 -m json.tool", "python3 -c x", "perl -pe x", "jq .", "sh -c x"] {
            assert!(!runs_standard_input(&words(line)), "{line}");
        }
    }
}
