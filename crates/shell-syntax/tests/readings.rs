//! Readings of lines, and lines that are opaque.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail so")]

use shell_syntax::Joint::{And, Or, Pipe, Then};
use shell_syntax::{Command, Node, Redirect, Script, read};

fn only(line: &str) -> Command {
    let script = read(line).unwrap_or_else(|opaque| panic!("{line:?}: {}", opaque.reason));
    match <[_; 1]>::try_from(script.steps).unwrap().map(|step| step.node) {
        [Node::Command(command)] => command,
        [other] => panic!("{line:?} is {other:?}"),
    }
}

fn words(line: &str) -> Vec<String> {
    only(line).words.into_iter().map(|word| word.text).collect()
}

#[test]
fn words_are_what_the_program_will_see() {
    assert_eq!(words("ls -la  src"), ["ls", "-la", "src"]);
    assert_eq!(words("r''m -\"r\"f \\/"), ["rm", "-rf", "/"]);
    assert_eq!(words(r"$'\x72\x6d' $'\055rf'"), ["rm", "-rf"]);
    assert_eq!(words("find . -e\\xec x '{}' \\;"), ["find", ".", "-exec", "x", "{}", ";"]);
    assert_eq!(words("git show stash@{0} HEAD~1"), ["git", "show", "stash@{0}", "HEAD~1"]);
    assert_eq!(words("a \\\n  b \\\n c"), ["a", "b", "c"]);
    assert_eq!(words("awk '{print $1}' x # y"), ["awk", "{print $1}", "x"]);
    assert_eq!(words("git commit -m \"$(cat <<'EOF'\nIt's $x\nEOF\n)\""), ["git", "commit", "-m", "It's $x"]);
    let globs: Vec<bool> = only("cat *.rs '*.rs' $?").words.iter().map(|word| word.glob).collect();
    assert_eq!(globs, [false, true, false, true]);
    let varies = only("echo \"$(date)\" x");
    assert!(varies.words[1].varies && !varies.words[2].varies && varies.substituted.len() == 1);
}

#[test]
fn redirections_and_assignments_are_apart_from_words() {
    let command = only("A=1 B='x y' make -j4 2>/dev/null >out <in 2>&1 arg");
    assert_eq!(
        command.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>(),
        ["make", "-j4", "arg"]
    );
    let assigned: Vec<(&str, &str)> =
        command.assignments.iter().map(|each| (each.name.as_str(), each.value.text.as_str())).collect();
    assert_eq!(assigned, [("A", "1"), ("B", "x y")]);
    let written = |redirect: &Redirect| matches!(redirect, Redirect::Write(_));
    assert_eq!(command.redirects.iter().filter(|redirect| written(redirect)).count(), 2);
    assert_eq!(only("cat <<-'E'\n\tx\n\tE").redirects, [Redirect::Text("x\n".to_owned())]);
    assert_eq!(only("cat <<< x").redirects, [Redirect::Text("x\n".to_owned())]);
}

#[test]
fn lists_pipes_groups_and_loops_keep_their_structure() {
    let joints = |script: &Script| script.steps.iter().map(|step| step.joint).collect::<Vec<_>>();
    let script = read("a && b || c | d; e & f\ng").unwrap();
    assert_eq!(joints(&script), [Then, And, Or, Pipe, Then, Then, Then]);
    assert!(script.steps[4].background && !script.steps[5].background);
    assert!(read("! a").unwrap().steps[0].negated);
    assert!(matches!(read("(a; b)").unwrap().steps[0].node, Node::Subshell(_)));
    assert!(matches!(read("{ a; } > x").unwrap().steps[0].node, Node::Group(_)));
    let Node::Rounds(rounds, _) = &read("for f in a b; do cat \"$f\"; done").unwrap().steps[0].node else {
        panic!("no loop")
    };
    let Node::Command(second) = &rounds[1][0].node else { panic!("no command") };
    assert_eq!(second.words[1].text, "b");
    let Node::Branches(parts, _) = &read("if a; then b; elif c; then d; else e; fi").unwrap().steps[0].node
    else {
        panic!("no branches")
    };
    assert_eq!(parts.len(), 5);
}

#[test]
fn what_is_not_known_before_it_runs_is_marked_and_spelled() {
    let marks = |line: &str| {
        let word = only(line).words.remove(1);
        (word.text, word.varies, word.splits)
    };
    for (line, text, varies, splits) in [
        ("a \"$b\"", "$b", true, false),
        ("a $b", "$b", true, true),
        ("a x${b}y", "x$by", true, true),
        ("a \"-$1 $!\"", "-$1 $!", true, false),
        ("a \"${b:-c} ${b%.*}\"", "$b $b", true, false),
        ("a \"x $(b) y $(c)\"", "x $() y $()", true, false),
        ("a x$(b)", "x$()", true, true),
        ("a '$b'", "$b", false, false),
        ("a $$x", "*x", false, false),
        ("a \"${b[0]} ${PIPESTATUS[1]}\"", "$b *", true, false),
        ("a '`b`'", "`b`", false, false),
        ("a \"\\`b\\`\"", "`b`", false, false),
        ("a \\`", "`", false, false),
    ] {
        assert_eq!(marks(line), (text.to_owned(), varies, splits), "{line}");
    }
    let both = only("a \"$(b; c) $(d)\" $(e)").substituted;
    assert_eq!(both.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1]);
}

/// Returns the text of each word `x` that a line runs, in their order.
fn words_of_x(line: &str) -> Vec<String> {
    fn walk(steps: &[shell_syntax::Step], found: &mut Vec<String>) {
        for step in steps {
            match &step.node {
                Node::Command(command) => {
                    for steps in &command.substituted {
                        walk(steps, found);
                    }
                    if let [program, word] = command.words.as_slice()
                        && program.text == "x"
                    {
                        found.push(word.text.clone());
                    }
                }
                Node::Subshell(block) | Node::Group(block) => walk(&block.steps, found),
                Node::Branches(parts, _) | Node::Rounds(parts, _) => {
                    for part in parts {
                        walk(part, found);
                    }
                }
            }
        }
    }
    let script = read(line).unwrap_or_else(|opaque| panic!("{line:?}: {}", opaque.reason));
    let mut found = Vec::new();
    walk(&script.steps, &mut found);
    found
}

#[test]
fn a_variable_has_its_value_as_long_as_its_assignment_has_certainly_run() {
    for (line, expected) in [
        ("a=1; x $a", "1"),
        ("a=1 b=$a; x \"$b$a\"", "11"),
        ("a=1 && x $a", "1"),
        ("c && a=1 && x $a; x $a", "1 $a"),
        ("c || a=1; x $a", "$a"),
        ("c || a=1 && x $a", "$a"),
        ("a=1; c && a=2; x $a", "$a"),
        ("a=1; a=2; x $a", "2"),
        ("a=1 & x $a", "$a"),
        ("a=1 | c; x $a", "$a"),
        ("a=1; (a=2; x $a); x $a", "2 1"),
        ("a=1; { a=2; }; x $a", "2"),
        ("a=1; if c; then a=2; x $a; else x $a; fi; x $a", "2 $a $a"),
        ("a=1; while c; do x $a; a=2; x $a; done; x $a", "$a 2 $a"),
        ("a=1; for i in 1 2; do x $a$i; done; x $i", "11 12 $i"),
        ("a=1; for i in 1 2; do x $a; a=$i; done; x $a", "$a $a $a"),
        ("for i in $b; do x $i; done", "$i"),
        ("for i in 1 $(x b); do x $i; done", "b $i"),
        ("a=1; case c in d) a=2;; esac; x $a", "$a"),
        ("a=1; x $(a=2; x $a); x $a", "2 $() 1"),
        ("a=1; read a; x $a", "$a"),
        ("a=1; unset a; x $a", "$a"),
        ("a=1; eval b; x $a", "$a"),
        ("a=1; time read a; x $a", "$a"),
        ("a=1; printf -v a b; x $a", "$a"),
        ("a=1; a=2 c; x $a", "$a"),
        ("a='1 2'; x \"$a\"", "1 2"),
        ("a='1 2'; x $a", "$a"),
        ("a='*'; x $a", "$a"),
        ("a=; x $a", "$a"),
        ("a=~; x $a", ""),
        ("PATH=1; x $PATH", "$PATH"),
        ("a=$(c); x $a", "$a"),
        ("a=$(cat <<'E'\n1\nE\n); x $a", "1"),
        ("a=1; x ${a} ; x ${a%1}", "1 $a"),
    ] {
        if expected.is_empty() {
            assert!(read(line).is_err(), "{line}");
        } else {
            assert_eq!(words_of_x(line).join(" "), expected, "{line}");
        }
    }
}

#[test]
fn conditions_and_cases_are_read_with_what_runs_in_them() {
    assert_eq!(words("[[ a ]]"), ["[[", "-n", "a", "]]"]);
    assert_eq!(
        words("[[ -f a && ! ( $b == c* || -L d ) && \"$e\" -gt 3 ]]"),
        [
            "[[", "-f", "a", "&&", "!", "(", "$b", "==", "c*", "||", "-h", "d", ")", "&&", "$e", "-gt", "3",
            "]]"
        ]
    );
    assert_eq!(words("[[ a = b || $x =~ ^b+$ ]]"), ["[[", "a", "==", "b", "||", "$x", "=~", "^b+$", "]]"]);
    assert_eq!(only("[[ $(a) == $(b) ]]").substituted.len(), 2);
    assert_eq!(words_of_x("case $(x 1) in $(x 2)|b) x 3;; *) x 4; x 5;; esac"), ["1", "2", "3", "4", "5"]);
    assert_eq!(words_of_x("case a in (b) ;; c) x 1 ;& d) x 2\nesac > e"), ["1", "2"]);
}

#[test]
fn all_else_is_opaque() {
    for line in [
        "",
        " ",
        "#",
        "a `b`",
        "a $((1))",
        "a {b,c}",
        "a ~",
        "a <(b)",
        "a <> b",
        "a {fd}> b",
        "f() { a; }",
        "((1))",
        "select a in b; do c; done",
        "for ((;;)); do a; done",
        "coproc a",
        "a |& b",
        "a 'b",
        "a \"b",
        "a\rb",
        "a\0",
        "a \u{202e}b",
        "a\u{a0}b",
        "a <<E\n$b\nE",
        "a[0]=1",
        "a+=1",
        "a=(b)",
        "$a",
        "*",
        "'' a",
        "a > $b",
        "a > \"$(b)\"",
        "$a/b",
        "\"$(a)\" b",
        "a \"$@\"",
        "a ${b:=c}",
        "a ${!b}",
        "a ${b[c]}",
        "a ${b[@]}",
        "a \"`b`\"",
        "a '`'`b`",
        "a \"'`b`'\"",
        "a \\\\`b`",
        "a \"x $((1))\"",
        "a \"x $(b <<'E'\nE\n)\"",
        "[[ a",
        "[[ a && ]]",
        "[[ $(( 1 )) -eq 1 ]]",
        "[[ a =~ $(b) ]]",
        "[[ a == ${b:-$(c)} ]]",
        "'[[' a ]]",
        "\\[[ a ]]",
        "case a in `b`) c;; esac",
        "for PATH in a; do b; done",
        "a > *",
        "a > /dev/tcp/b/1",
        "for PATH in a; do b; done",
        "a $'\\''",
        "a $\"b\"",
        "a | ",
        "&& a",
        "a &&",
        "()",
        "{ }",
        "!",
        "a ;; b",
    ] {
        assert!(read(line).is_err(), "{line:?} is read as {:?}", read(line));
    }
}

#[test]
fn what_is_too_long_too_deep_or_too_much_is_opaque_and_ends() {
    for piece in [
        "(", "((", "{ ", "$(", "\"$(", "if ", "a|", "a;", "a&&", "<<<", "<<A ", "f() ", "! ", "`", "[ ",
        "a ", "${", "$((", "'",
    ] {
        for size in [2_000, 32_000, 70_000] {
            assert!(read(&format!("{}a|", piece.repeat(size / piece.len()))).is_err(), "{piece}");
        }
    }
    // Scripts in words are read again and again until their ends are found.
    for piece in ["a ~ ", "x=${y} ", "\"z\" ", "a <<< b; "] {
        let inner = piece.repeat(30_000 / piece.len());
        let nested = (0..7).fold(inner, |inner, _| format!("a \"x $({inner})\""));
        assert!(read(&nested).is_err(), "{piece}");
    }
    let deep = |levels: usize| format!("{}a;{}", "{ ".repeat(levels), " };".repeat(levels));
    assert!(read(&deep(3)).is_ok() && read(&deep(9)).is_err());
    assert!(read(&"a\n".repeat(200)).is_ok() && read(&"a\n".repeat(300)).is_err());
}

/// The tokenizer of `brush-parser` took memory without end for each of these lines, or would for
/// the line as one token of a substitution.
#[test]
fn a_here_document_whose_end_is_no_plain_word_is_opaque_and_takes_no_memory() {
    for line in [
        "<<E${\"\" ",
        "<<EOF${${\"\" ||>> | &&-x& ",
        "cat <<-E${\"\" ",
        "cat <<  'E'${\"\" ",
        "cat <<\"E${\"\" ",
        "cat <\\\n<E${\"\" ",
        "cat <<E$(\"\" ",
        "cat <<E`\"\" ",
        "$(cat <<E${\"\" )",
        "cat <<'' ",
        "cat <<\"\" ",
        "cat <<-'' ",
        "cat << '' ",
        "cat <<\\\n'' ",
        "cat <<'\"' ",
        "cat <<\"'\" ",
        "cat <<'\\' ",
        "cat <<''\"\"'' ",
        "cat <<'' | ls",
        "cat \\\\<<'' ",
        "cat \\<<<'' ",
        "cat <<<<<'' ",
        "cat <<a}${\"\" ",
        "cat <<a]${\"\" ",
        "cat <<@( )${\"\" ",
        "${ << }${\"\" ",
        "$(cat <<  E",
        "$(cat <<  E) ",
        "$(cat << ;",
        "$(cat << (",
        "$(cat << ) ",
        "$(cat <<\t) ",
        "$[ << ] ",
        "$(cat << \n",
        "$(cat << ",
        "$(( $((1)) << \"\" ))",
        "$(( $((1)) << '' ",
        "echo $(cat <\\\n<'' )",
        "echo \"$(cat <\\\n<'' )\"",
        "echo $(cat <# a\n<'' )",
    ] {
        assert!(read(line).is_err(), "{line:?}");
        let quoted = format!("a <<E\n{line}");
        assert!(read(&quoted).is_err(), "{quoted:?}");
    }
    let plain = |line: &str| {
        let reason = read(line).err().map(|opaque| opaque.reason).unwrap_or_default();
        assert!(!reason.contains("no plain word"), "{line:?}: {reason}");
    };
    // Control: text after the word, or in single quotes, is accepted.
    for line in [
        "cat <<'E' | grep \"$HOME\"\na\nE\n",
        "cat <<'$E'\na\n$E\n",
        "cat <<< \"$x\"",
        "cat <<< ''",
        "cat <<E\na\nE\n",
        "cat << E\na\nE\n",
        "cat <<-\tE\na\nE\n",
        "cat <<'E'\ncout << \", \" << x << endl;\nprint(1 << 2, 1<<n)\nE\n",
        "x=$(cat <<E\na\nE\n)",
    ] {
        plain(line);
    }
    assert!(read("cat <<'E'\ncout << \" \" << x;\nprint(1 << 2)\nE\n").is_ok());
}

#[test]
fn a_here_document_among_many_words_or_with_a_long_end_is_opaque() {
    let among = |words: usize| read(&format!("cat <<E{}\nE\n", " a".repeat(words)));
    assert!(among(2_000).is_ok());
    assert!(among(16_000).is_err());
    assert!(read(&format!("cat <<E{}\nE\n", ";a".repeat(16_000))).is_err());
    assert!(read(&format!("{}cat <<E\nE\n", "f()".repeat(10_000))).is_err());
    let ends =
        |length: usize| read(&format!("cat <<'{0}'\n{1}{0}\n", "a".repeat(length), "b\n".repeat(9_000)));
    assert!(ends(100).is_ok());
    assert!(ends(300).is_err());
    // Control: the text itself may have many words.
    assert!(read(&format!("cat <<'E'\n{}E\n", "if a: return a + b\n".repeat(1_600))).is_ok());
}
