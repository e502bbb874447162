//! Random lines from a seed, for the tests and for the longer manual search (`examples/fuzz_lines.rs`).

/// A random number generator without a crate: xorshift, which is even enough here.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap_or(1)).unwrap_or_default()
    }

    pub(crate) fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list.get(self.below(list.len())).copied().unwrap_or_default()
    }
}

/// Returns the word in another spelling.
pub(crate) fn respelled(word: &str, random: &mut Random) -> String {
    let mut spelled = String::new();
    for character in word.chars() {
        match random.below(9) {
            0 => spelled.push_str(&format!("'{character}'")),
            1 => spelled.push_str(&format!("\"{character}\"")),
            2 => spelled.push_str(&format!("\\{character}")),
            3 => spelled.push_str(&format!("$'\\x{:02x}'", u32::from(character))),
            4 => spelled.push_str(&format!("$'\\{:03o}'", u32::from(character))),
            5 => spelled.push_str(&format!("''{character}\"\"")),
            6 => spelled.push_str(&format!("\\\n{character}")),
            _ => spelled.push(character),
        }
    }
    spelled
}

/// Returns a line that contains the command.
pub(crate) fn placed(command: &str, random: &mut Random) -> String {
    let wrapper = random.one_of(&[
        "",
        "env ",
        "env A=1 ",
        "timeout 5 ",
        "nice -n 3 ",
        "nohup ",
        "sudo ",
        "command ",
        "time ",
        "stdbuf -oL ",
        "exec ",
        "sudo -u x env ",
        "xargs ",
        "setsid ",
        "/usr/bin/env ",
    ]);
    let command = format!("{wrapper}{command}");
    let before = random.one_of(&[
        "",
        "ls; ",
        "true && ",
        "false || ",
        "ls | ",
        "ls & ",
        "ls\n",
        "! ",
        "A=1 ",
        "cd src && ",
        "# x\n",
    ]);
    let after = random.one_of(&[
        "",
        " 2>&1",
        " > out",
        "; ls",
        " && ls",
        " | cat",
        " &",
        "\nls",
        " # x",
        " || true",
        " 2>/dev/null",
    ]);
    let line = format!("{before}{command}{after}");
    match random.below(9) {
        0 => format!("({line}\n)"),
        1 => format!("{{ {line}\n}}"),
        2 => format!("if true; then {line}\nfi"),
        3 => format!("for i in 1; do {line}\ndone"),
        4 => format!("x=$({line}\n)"),
        5 => format!("echo \"$({line}\n)\""),
        _ => line,
    }
}

/// Commands that the policies of these tests deny.
pub(crate) const DENIED: [&[&str]; 5] = [
    &["git", "rm", "x"],
    &["npm", "publish"],
    &["rm", "-rf", "x"],
    &["/usr/bin/git", "-C", "y", "rm"],
    &["rm", "-r", "-f", "x"],
];

const PIECES: [&str; 64] = [
    "ls", "cat", "git", "log", "x", ".env", "-n", "--", "-x", " ", " ", " ", " ", "\n", ";", "&&", "||", "|",
    "&", "(", ")", "{", "}", "$(", "`", "'", "\"", "\\", "$", "$'", "${", "}", "<<EOF", "\nEOF\n", "<<<",
    "<", ">", ">>", "2>&1", ">|", "&>", "*", "?", "[", "]", "[[", "]]", "if", "then", "fi", "for", "in",
    "do", "done", "while", "case", "esac", "!", "#", "~", "=", "x=1", "time", "\\\n",
];

/// Returns a line of pieces of shell text, in any order.
pub(crate) fn jumble(random: &mut Random) -> String {
    let mut line = String::new();
    for _ in 0..=random.below(24) {
        line.push_str(random.one_of(&PIECES));
        if random.below(3) == 0 {
            line.push(' ');
        }
    }
    line
}

const UNFINISHED: [&str; 40] = [
    "<<", "<<-", "<<<", "<", "<<", "<<", "\"\"", "''", "\"", "'", "\"'\"", "'\"'", "\\", "\\\n", "\n", " ",
    " ", "  ", "\t", "E", "E\n", "\nE\n", "${", "$(", "$((", "$[", "`", "$'", "$\"", "}", ")", "))", "]",
    "@(", "#", ";", "|", "(", "a", "\u{e9}",
];

/// Returns a line of pieces that begin a construct and may not end it, to test the end of the
/// input: here-documents above all.
pub(crate) fn unfinished(random: &mut Random) -> String {
    let mut line = random.one_of(&["", "cat ", "cat <<E", "$(cat <<", "cat <<'E'", "\"$(a <<"]).to_owned();
    for _ in 0..=random.below(10) {
        line.push_str(random.one_of(&UNFINISHED));
    }
    line
}
