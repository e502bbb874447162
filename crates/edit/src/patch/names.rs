//! File names in the headers of a patch.

use super::PatchError;

/// The names of both sides of a patch without git's own headers; `None` for a side that is
/// `/dev/null`.
pub(super) struct Sides {
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
}

/// Parses the name in a `--- ` or `+++ ` line, and reports whether its time marks a missing file.
pub(super) fn of_header(line: &str, number: usize) -> Result<(String, bool), PatchError> {
    let line = line.trim_end_matches('\r');
    if let Some(quoted) = line.strip_prefix('"') {
        let (name, rest) =
            unquoted(quoted).ok_or_else(|| PatchError::at(number, "a quoted name does not end"))?;
        return Ok((name, is_epoch(rest)));
    }
    let (name, time) = line.split_once('\t').unwrap_or((line, ""));
    Ok((name.trim_end().to_owned(), is_epoch(time)))
}

/// Returns true for the first moment of Unix time, with which `diff -N` marks a missing file.
fn is_epoch(time: &str) -> bool {
    let time = time.trim_start();
    time.starts_with("1970-01-01 ") || time.starts_with("1969-12-31 ")
}

/// Parses a line that has only a name, such as that of `rename from`.
pub(super) fn plain(name: &str, number: usize) -> Result<String, PatchError> {
    of_header(name, number).map(|(name, _)| name)
}

/// Parses the name of a `diff --git` line, whose two names differ only in the prefix.
pub(super) fn of_git_line(rest: &str) -> Option<String> {
    let rest = rest.trim_end_matches('\r');
    if let Some(quoted) = rest.strip_prefix('"') {
        let (old, rest) = unquoted(quoted)?;
        let new = rest.trim_start();
        let new = new.strip_prefix('"').map_or_else(|| Some(new.to_owned()), |new| Some(unquoted(new)?.0))?;
        return same(&old, &new);
    }
    if let Some((old, new)) = rest.split_once(" \"") {
        return same(old, &unquoted(new)?.0);
    }
    // A name may have spaces, so the line is split where both halves have equal length.
    let middle = rest.len() / 2;
    (rest.as_bytes().get(middle) == Some(&b' ')).then(|| same(&rest[..middle], &rest[middle + 1..]))?
}

fn same(old: &str, new: &str) -> Option<String> {
    match (without_prefix(old), without_prefix(new)) {
        (Some(old), Some(new)) if old == new => Some(new.to_owned()),
        _ => (old == new).then(|| new.to_owned()),
    }
}

/// Returns the name without git's prefix for a side: `a/`, `b/`, or a letter for the compared
/// version.
fn without_prefix(name: &str) -> Option<&str> {
    let (prefix, rest) = name.split_once('/')?;
    matches!(prefix, "a" | "b" | "i" | "w" | "c" | "o" | "1" | "2").then_some(rest)
}

impl Sides {
    /// Derives the names of both sides. `git` means that both have prefixes unless they are equal.
    pub(super) fn of(old: &str, new: &str, git: bool) -> Self {
        let there = |name: &str| (name != "/dev/null").then(|| name.to_owned());
        match (there(old), there(new)) {
            (Some(old), Some(new)) => {
                let name = name_of_both(&old, &new, git);
                Self { old: Some(name.clone()), new: Some(name) }
            }
            (old, new) => {
                let strip = |name: String| match without_prefix(&name) {
                    Some(rest) => rest.to_owned(),
                    None => name,
                };
                Self { old: old.map(strip), new: new.map(strip) }
            }
        }
    }
}

fn name_of_both(old: &str, new: &str, git: bool) -> String {
    if old == new {
        return new.to_owned();
    }
    if let (Some(of_old), Some(of_new)) = (without_prefix(old), without_prefix(new))
        && (git || of_old == of_new || old.starts_with("a/") && new.starts_with("b/"))
    {
        return of_new.to_owned();
    }
    // The output of `diff -r` for two folders.
    if let (Some((_, of_old)), Some((_, of_new))) = (old.split_once('/'), new.split_once('/'))
        && of_old == of_new
    {
        return of_new.to_owned();
    }
    // The output of `diff f.orig f` or `diff f f.new`: the shorter name is the file's own.
    if old.starts_with(new) || !new.starts_with(old) { new.to_owned() } else { old.to_owned() }
}

/// Parses a name in C quotes, given without its first quote. Returns the name and the text after
/// it.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let bytes = quoted.as_bytes();
    let (mut name, mut at) = (Vec::new(), 0);
    loop {
        match *bytes.get(at)? {
            b'"' => return Some((String::from_utf8_lossy(&name).into_owned(), quoted.get(at + 1..)?)),
            b'\\' => {
                at += 1;
                let escaped = *bytes.get(at)?;
                name.push(match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'0'..=b'3' => {
                        let digits = quoted.get(at..at + 3)?;
                        at += 2;
                        u8::from_str_radix(digits, 8).ok()?
                    }
                    other => other,
                });
            }
            other => name.push(other),
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_tools_meant() {
        let name = |old: &str, new: &str| Sides::of(old, new, false).new.unwrap();
        for (old, new, meant) in [
            ("a/src/x", "b/src/x", "src/x"),
            ("src/x", "src/x", "src/x"),
            ("a/x", "a/x", "a/x"),
            ("old/src/x", "new/src/x", "src/x"),
            ("x.orig", "x", "x"),
            ("x", "x.new", "x"),
            ("/dev/null", "b/x", "x"),
            ("i/x", "w/x", "x"),
        ] {
            assert_eq!(name(old, new), meant, "{old} {new}");
        }
        assert_eq!(of_git_line("a/with space b/with space").unwrap(), "with space");
        assert_eq!(of_git_line(r#""a/gr\303\266\303\237e" "b/gr\303\266\303\237e""#).unwrap(), "größe");
        assert_eq!(of_git_line("a/x b/y"), None);
        assert_eq!(of_header("a/x\t2026-01-01 00:00:00", 1).unwrap(), ("a/x".into(), false));
        assert_eq!(of_header("x\t1970-01-01 00:00:00.000000000 +0000", 1).unwrap(), ("x".into(), true));
    }
}
