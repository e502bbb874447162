//! The unified format of `diff -u`, and git's variant with its own headers.

use super::names::{self, Sides};
use super::{Action, FileChange, Hunk, Line, Mode, PatchError, Sign};

/// The lines of a patch, numbered.
pub(super) struct Lines<'a> {
    all: Vec<&'a str>,
    pub(super) next: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let all = if text.is_empty() { Vec::new() } else { text.split('\n').collect() };
        Self { all, next: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.all.get(self.next).copied()
    }

    fn peek_second(&self) -> Option<&'a str> {
        self.all.get(self.next + 1).copied()
    }

    pub(super) fn take(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.next += 1;
        Some(line)
    }

    /// Returns the lines that are not read yet.
    pub(super) fn ahead(&self) -> impl Iterator<Item = &'a str> {
        self.all[self.next.min(self.all.len())..].iter().copied()
    }

    /// Returns the number of the next line, counted from 1.
    pub(super) fn number(&self) -> usize {
        self.next + 1
    }
}

/// The headers of one file.
#[derive(Default)]
struct Headers {
    line: usize,
    git: bool,
    of_git_line: Option<String>,
    old: Option<(String, bool)>,
    new: Option<(String, bool)>,
    from: Option<String>,
    to: Option<String>,
    copies: bool,
    created: bool,
    deleted: bool,
    mode: Option<Mode>,
}

/// Parses all files. Hunks without a file header are about the file at `path`.
pub(super) fn read(text: &str, path: Option<&str>) -> Result<Vec<FileChange>, PatchError> {
    let mut lines = Lines::of(text);
    let mut files = Vec::new();
    while let Some(line) = lines.peek() {
        let number = lines.number();
        if line.starts_with("diff --git ") || is_header_pair(&lines) {
            files.push(file(&mut lines, path)?);
        } else if is_hunk(line) {
            let named = path.filter(|_| files.is_empty()).ok_or_else(|| {
                PatchError::at(
                    number,
                    "a hunk without a file: lines `--- a/FILE` and `+++ b/FILE` must come before it",
                )
            })?;
            let hunks = hunks(&mut lines)?;
            files.push(FileChange {
                line: number,
                action: Action::Update,
                path: named.to_owned(),
                source: None,
                mode: None,
                shows_old_content: true,
                hunks,
            });
        } else if let Some(names) = line.strip_prefix("Binary files ") {
            return Err(binary(number, names));
        } else if looks_like_a_rest(line) && !files.is_empty() {
            let problem =
                "more lines than the header of the hunk above states; `@@ @@` without numbers has no limit";
            return Err(PatchError::at(number, problem));
        } else {
            // Prose around a patch: a message, a signature, `Index:` lines of other tools.
            lines.next += 1;
        }
    }
    Ok(files)
}

/// Returns true for a line that can belong to the previous hunk. The line `-- ` begins the
/// signature of a mail.
fn looks_like_a_rest(line: &str) -> bool {
    line.starts_with(['+', '-', ' ']) && line.trim_end() != "--" && !line.trim().is_empty()
}

fn is_header_pair(lines: &Lines<'_>) -> bool {
    lines.peek().is_some_and(|line| line.starts_with("--- "))
        && lines.peek_second().is_some_and(|line| line.starts_with("+++ "))
}

fn is_hunk(line: &str) -> bool {
    line.starts_with("@@")
}

fn binary(number: usize, names: &str) -> PatchError {
    let names = names.trim_end();
    PatchError::at(
        number,
        format!("a binary change ({names}), but only text can be patched; file_write accepts base64"),
    )
}

fn file(lines: &mut Lines<'_>, path: Option<&str>) -> Result<FileChange, PatchError> {
    let mut headers = Headers { line: lines.number(), ..Headers::default() };
    if let Some(rest) = lines.peek().and_then(|line| line.strip_prefix("diff --git ")) {
        headers.git = true;
        headers.of_git_line = names::of_git_line(rest);
        lines.next += 1;
        while let Some(line) = lines.peek() {
            if !headers.extended(line.trim_end_matches('\r'), lines.number())? {
                break;
            }
            lines.next += 1;
        }
    }
    if is_header_pair(lines) {
        let name = |line: Option<&str>, number| names::of_header(line.map_or("", |line| &line[4..]), number);
        let old = name(lines.peek(), lines.number())?;
        let new = name(lines.peek_second(), lines.number() + 1)?;
        if headers.are_about(&old.0, &new.0) {
            (headers.old, headers.new) = (Some(old), Some(new));
            lines.next += 2;
        }
    }
    let hunks = if lines.peek().is_some_and(is_hunk) { hunks(lines)? } else { Vec::new() };
    headers.change(hunks, path)
}

impl Headers {
    /// Parses one of git's own header lines. Returns true if the line was one.
    fn extended(&mut self, line: &str, number: usize) -> Result<bool, PatchError> {
        let name = |rest: &str| names::plain(rest, number).map(Some);
        if let Some(mode) = line.strip_prefix("new file mode ") {
            (self.created, self.mode) = (true, Some(mode_of(mode, number)?));
        } else if let Some(mode) = line.strip_prefix("deleted file mode ") {
            self.is_link(mode, number)?;
            self.deleted = true;
        } else if let Some(mode) = line.strip_prefix("new mode ") {
            self.mode = Some(mode_of(mode, number)?);
        } else if let Some(mode) = line.strip_prefix("old mode ") {
            mode_of(mode, number)?;
        } else if let Some(rest) = line.strip_prefix("rename from ") {
            self.from = name(rest)?;
        } else if let Some(rest) = line.strip_prefix("rename to ") {
            self.to = name(rest)?;
        } else if let Some(rest) = line.strip_prefix("copy from ") {
            (self.from, self.copies) = (name(rest)?, true);
        } else if let Some(rest) = line.strip_prefix("copy to ") {
            (self.to, self.copies) = (name(rest)?, true);
        } else if let Some(rest) = line.strip_prefix("index ") {
            if let Some(mode) = rest.split(' ').nth(1) {
                self.is_link(mode, number)?;
            }
        } else if line.starts_with("GIT binary patch") {
            return Err(binary(number, self.of_git_line.as_deref().unwrap_or("GIT binary patch")));
        } else if let Some(names) = line.strip_prefix("Binary files ") {
            return Err(binary(number, names));
        } else {
            return Ok(line.starts_with("similarity index ") || line.starts_with("dissimilarity index "));
        }
        Ok(true)
    }

    /// Records the mode of a file whose mode does not change. Only a symbolic link matters.
    fn is_link(&mut self, mode: &str, number: usize) -> Result<(), PatchError> {
        if mode_of(mode, number)? == Mode::Link {
            self.mode = Some(Mode::Link);
        }
        Ok(())
    }

    /// Returns true if the `---` and `+++` names are those of git's own headers, and not of the
    /// next file.
    fn are_about(&self, old: &str, new: &str) -> bool {
        let known = |named: &str, known: Option<&String>| {
            known.is_none_or(|known| {
                named == "/dev/null" || named == known || named.ends_with(&format!("/{known}"))
            })
        };
        let of_git_line = self.of_git_line.as_ref();
        known(old, self.from.as_ref().or(of_git_line)) && known(new, self.to.as_ref().or(of_git_line))
    }

    fn change(self, hunks: Vec<Hunk>, path: Option<&str>) -> Result<FileChange, PatchError> {
        let (line, mode, changes) = (self.line, self.mode, !hunks.is_empty());
        let made = |action, path: String, source| FileChange {
            line,
            action,
            path,
            source,
            mode,
            shows_old_content: true,
            hunks,
        };
        if let (Some(from), Some(to)) = (self.from, self.to) {
            let action = if self.copies { Action::Copy } else { Action::Rename };
            return Ok(made(action, to, Some(from)));
        }
        let (mut created, mut deleted) = (self.created, self.deleted);
        let sides = match (&self.old, &self.new) {
            (Some((old, no_old)), Some((new, no_new))) => {
                created |= *no_old;
                deleted |= *no_new;
                Some(Sides::of(old, new, self.git))
            }
            _ => None,
        };
        let name = match sides {
            Some(Sides { old: None, new: Some(new) }) => {
                created = true;
                Some(new)
            }
            Some(Sides { old: Some(old), new: None }) => {
                deleted = true;
                Some(old)
            }
            Some(Sides { new: Some(new), .. }) => Some(new),
            Some(Sides { old: None, new: None }) | None => None,
        };
        let name = self.of_git_line.or(name).or_else(|| path.map(str::to_owned));
        let name = name
            .ok_or_else(|| PatchError::at(line, "the headers name no file, or two files without a rename"))?;
        let action = match (created, deleted) {
            (true, true) => return Err(PatchError::at(line, "the file is both created and deleted")),
            (true, false) => Action::Add,
            (false, true) => Action::Delete,
            (false, false) => Action::Update,
        };
        if action == Action::Update && !changes && mode.is_none() {
            return Err(PatchError::at(line, format!("{name} is unchanged: no hunk follows its header")));
        }
        Ok(made(action, name, None))
    }
}

fn mode_of(mode: &str, number: usize) -> Result<Mode, PatchError> {
    match mode.trim() {
        "100755" => Ok(Mode::Executable),
        "120000" => Ok(Mode::Link),
        "160000" => {
            Err(PatchError::at(number, "a submodule (mode 160000), which a patch of files cannot change"))
        }
        mode if mode.len() == 6 && mode.starts_with("100") => {
            let executable =
                mode.as_bytes().get(3).is_some_and(|owner| matches!(owner, b'1' | b'3' | b'5' | b'7'));
            Ok(if executable { Mode::Executable } else { Mode::Regular })
        }
        other => Err(PatchError::at(number, format!("mode {other} is not 100644, 100755 or 120000"))),
    }
}

fn hunks(lines: &mut Lines<'_>) -> Result<Vec<Hunk>, PatchError> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut reached = 0;
    while let Some(header) = lines.peek().filter(|line| is_hunk(line)) {
        let number = lines.number();
        lines.next += 1;
        let hunk = match numbers(header) {
            Some(numbers) => {
                let hunk = counted(lines, number, &numbers)?;
                // The header of a hunk without old lines names the line before it.
                let start = numbers.start + usize::from(numbers.old == 0);
                if start < reached {
                    return Err(PatchError::at(
                        number,
                        "the hunk overlaps the one before it, or comes before it",
                    ));
                }
                reached = start + numbers.old;
                hunk
            }
            None => uncounted(lines, number, header)?,
        };
        if hunk.added() + hunk.removed() == 0 {
            return Err(PatchError::at(number, "the hunk changes nothing"));
        }
        hunks.push(hunk);
    }
    Ok(hunks)
}

pub(super) struct Numbers {
    pub(super) start: usize,
    old: usize,
    new: usize,
}

/// Parses the numbers of `@@ -12,3 +12,4 @@`. Returns `None` for a header without numbers, as
/// models write it.
pub(super) fn numbers(header: &str) -> Option<Numbers> {
    let rest = header.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |range: &str| match range.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((range.parse().ok()?, 1)),
    };
    let ((start, old), (_, new)): ((usize, usize), (usize, usize)) = (range(old)?, range(new)?);
    Some(Numbers { start, old, new })
}

fn counted(lines: &mut Lines<'_>, number: usize, numbers: &Numbers) -> Result<Hunk, PatchError> {
    let mut hunk = Hunk { line: number, start: Some(numbers.start), ..Hunk::default() };
    let (mut old, mut new) = (numbers.old, numbers.new);
    while old > 0 || new > 0 {
        let at = lines.number();
        let cut = || {
            let said = format!("{} old and {} new lines", numbers.old, numbers.new);
            PatchError::at(
                at,
                format!(
                    "the hunk on line {number} states {said}, but ends with {old} and {new} of them missing"
                ),
            )
        };
        let line = lines.take().ok_or_else(cut)?;
        if line.starts_with('\\') {
            unended(&mut hunk, at)?;
            continue;
        }
        let line = read_line(line).ok_or_else(cut)?;
        let (is_old, is_new) = (line.sign != Sign::Added, line.sign != Sign::Removed);
        if is_old && old == 0 || is_new && new == 0 {
            return Err(PatchError::at(at, format!("more lines than the hunk on line {number} states")));
        }
        old -= usize::from(is_old);
        new -= usize::from(is_new);
        hunk.lines.push(line);
    }
    while lines.peek().is_some_and(|line| line.starts_with('\\')) {
        unended(&mut hunk, lines.number())?;
        lines.next += 1;
    }
    Ok(hunk)
}

/// Parses a hunk whose header has no numbers: the hunk ends where another part begins.
fn uncounted(lines: &mut Lines<'_>, number: usize, header: &str) -> Result<Hunk, PatchError> {
    let anchor = header.trim_start_matches('@').trim_end_matches(['@', '\r']).trim();
    let anchors = if anchor.is_empty() || anchor == "..." { Vec::new() } else { vec![anchor.to_owned()] };
    let mut hunk = Hunk { line: number, anchors, ..Hunk::default() };
    while let Some(line) = lines.peek() {
        if is_hunk(line) || line.starts_with("diff --git ") || is_header_pair(lines) {
            break;
        }
        if line.starts_with('\\') {
            unended(&mut hunk, lines.number())?;
        } else {
            let Some(line) = read_line(line) else { break };
            hunk.lines.push(line);
        }
        lines.next += 1;
    }
    // Empty lines at the end separate the parts of a patch.
    while hunk.lines.last().is_some_and(|line| line.sign == Sign::Context && line.text.is_empty()) {
        hunk.lines.pop();
    }
    Ok(hunk)
}

/// Parses a line of a hunk. Editors strip the single blank of an empty context line, so an empty
/// line is one.
pub(super) fn read_line(line: &str) -> Option<Line> {
    let (sign, text) = match line.as_bytes().first() {
        None | Some(b'\r') => (Sign::Context, line),
        Some(b' ') => (Sign::Context, &line[1..]),
        Some(b'-') => (Sign::Removed, &line[1..]),
        Some(b'+') => (Sign::Added, &line[1..]),
        Some(_) => return None,
    };
    Some(Line { sign, text: text.to_owned(), ended: true })
}

/// Applies `\ No newline at end of file` to the line before it.
fn unended(hunk: &mut Hunk, number: usize) -> Result<(), PatchError> {
    let last = hunk.lines.last_mut().ok_or_else(|| PatchError::at(number, "a note without a line"))?;
    last.ended = false;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Patch;
    use super::*;

    fn files(text: &str) -> Vec<(Action, String, Option<String>, usize)> {
        let read = Patch::read(text, None).unwrap();
        read.files.into_iter().map(|file| (file.action, file.path, file.source, file.hunks.len())).collect()
    }

    #[test]
    fn every_header_of_git_is_understood() {
        let text = "From: somebody\n\nA message\n---\n a | 2 +-\n\ndiff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\
            diff --git a/new b/new\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n\\ No newline at end of file\n\
            diff --git a/empty b/empty\nnew file mode 100644\nindex 0..e69\n\
            diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n\
            diff --git a/from b/to\nsimilarity index 100%\nrename from from\nrename to to\n\
            diff --git a/script b/script\nold mode 100644\nnew mode 100755\n-- \n2.40.0\n";
        let expected = [
            (Action::Update, "x", None, 1),
            (Action::Add, "new", None, 1),
            (Action::Add, "empty", None, 0),
            (Action::Delete, "gone", None, 1),
            (Action::Rename, "to", Some("from"), 0),
            (Action::Update, "script", None, 0),
        ];
        let expected = expected
            .map(|(action, path, from, hunks)| (action, path.to_owned(), from.map(str::to_owned), hunks));
        assert_eq!(files(text), expected);
    }

    #[test]
    fn what_is_no_patch_is_refused_with_its_line() {
        for (text, line, said) in [
            ("", 1, "changes no file"),
            ("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n", 7, "missing"),
            ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n d\n", 7, "more lines"),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-b\n+c\n@@ -1 +1 @@\n-b\n+c\n", 6, "overlaps"),
            ("@@ -1 +1 @@\n-a\n+b\n", 1, "without a file"),
            ("diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", 3, "binary"),
            ("diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\n", 3, "binary"),
            (
                "diff --git a/m b/m\nindex 1..2 160000\n--- a/m\n+++ b/m\n@@ -1 +1 @@\n-Sub\n+sub\n",
                2,
                "submodule",
            ),
            ("--- a/x\n+++ b/x\n", 1, "is unchanged"),
            ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n b\n", 3, "changes nothing"),
        ] {
            let error = Patch::read(text, None).unwrap_err();
            assert!(error.line == line && error.problem.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_header_without_hunks_takes_none_of_the_next_file() {
        let text = "diff --git a/from b/to\nsimilarity index 100%\nrename from from\nrename to to\n\
            --- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
        let actions: Vec<_> =
            files(text).into_iter().map(|(action, path, _, hunks)| (action, path, hunks)).collect();
        assert_eq!(actions, [(Action::Rename, "to".to_owned(), 0), (Action::Update, "x".to_owned(), 1)]);
    }

    #[test]
    fn a_hunk_without_numbers_and_a_patch_without_names_are_taken() {
        let patch = Patch::read("@@ fn main @@\n a\n-b\n+c\n\n", Some("x")).unwrap();
        let hunk = &patch.files[0].hunks[0];
        assert_eq!((patch.files[0].path.as_str(), hunk.start, hunk.lines.len()), ("x", None, 3));
        assert_eq!(hunk.anchors, ["fn main"]);
    }
}
