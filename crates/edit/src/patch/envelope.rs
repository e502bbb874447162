//! The patch format of coding models: `*** Begin Patch`, a section per file, `*** End Patch`.

use super::unified::{Lines, numbers, read_line};
use super::{Action, BEGIN, END, FileChange, Hunk, Line, PatchError, Sign};

const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

pub(super) fn read(text: &str) -> Result<Vec<FileChange>, PatchError> {
    let mut lines = Lines::of(text);
    while lines.peek().is_some_and(|line| line.trim().is_empty()) {
        lines.next += 1;
    }
    if lines.take().is_none_or(|line| line.trim() != BEGIN) {
        return Err(PatchError::at(lines.next, format!("the first line must be exactly `{BEGIN}`")));
    }
    let mut files = Vec::new();
    loop {
        let number = lines.number();
        let line = lines.take().ok_or_else(|| PatchError::at(number, format!("it ends without `{END}`")))?;
        if line.trim() == END {
            break;
        }
        let line = line.trim_end();
        if let Some(path) = line.strip_prefix(ADD) {
            files.push(add(&mut lines, path, number)?);
        } else if let Some(path) = line.strip_prefix(DELETE) {
            files.push(FileChange { shows_old_content: false, ..change(Action::Delete, path, number)? });
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            files.push(update(&mut lines, path, number)?);
        } else if !line.is_empty() {
            let problem =
                format!("`{}` does not begin a part of a patch: {ADD}, {DELETE}, {UPDATE}", shortened(line));
            return Err(PatchError::at(number, problem));
        }
    }
    if lines.all_blank() {
        return Ok(files);
    }
    Err(PatchError::at(lines.number(), format!("text follows `{END}`")))
}

impl Lines<'_> {
    fn all_blank(&mut self) -> bool {
        while let Some(line) = self.peek() {
            if !line.trim().is_empty() {
                return false;
            }
            self.next += 1;
        }
        true
    }
}

fn shortened(line: &str) -> String {
    line.chars().take(60).collect()
}

fn change(action: Action, path: &str, line: usize) -> Result<FileChange, PatchError> {
    let path = path.trim();
    if path.is_empty() {
        return Err(PatchError::at(line, "the file has no name"));
    }
    Ok(FileChange {
        line,
        action,
        path: path.to_owned(),
        source: None,
        mode: None,
        shows_old_content: true,
        hunks: Vec::new(),
    })
}

fn add(lines: &mut Lines<'_>, path: &str, number: usize) -> Result<FileChange, PatchError> {
    let mut hunk = Hunk { line: number + 1, start: Some(0), ..Hunk::default() };
    while let Some(line) = lines.peek().filter(|line| !line.starts_with("*** ")) {
        let text = line
            .strip_prefix('+')
            .ok_or_else(|| PatchError::at(lines.number(), "every line of a new file must begin with `+`"))?;
        hunk.lines.push(Line { sign: Sign::Added, text: text.to_owned(), ended: true });
        lines.next += 1;
    }
    let hunks = if hunk.lines.is_empty() { Vec::new() } else { vec![hunk] };
    Ok(FileChange { hunks, ..change(Action::Add, path, number)? })
}

fn update(lines: &mut Lines<'_>, path: &str, number: usize) -> Result<FileChange, PatchError> {
    let mut made = change(Action::Update, path, number)?;
    if let Some(to) = lines.peek().and_then(|line| line.trim_end().strip_prefix(MOVE)) {
        let to = change(Action::Rename, to, lines.number())?;
        made = FileChange { line: number, source: Some(made.path), ..to };
        lines.next += 1;
    }
    while let Some(line) = lines.peek() {
        if line.starts_with("*** ") {
            break;
        }
        if line.trim().is_empty() && lines.next_part_follows() {
            lines.next += 1;
            continue;
        }
        made.hunks.push(hunk(lines)?);
    }
    if made.hunks.is_empty() && made.action == Action::Update {
        return Err(PatchError::at(number, format!("{} is unchanged: no hunk follows", made.path)));
    }
    Ok(made)
}

impl Lines<'_> {
    /// Returns true if only empty lines precede the next section.
    fn next_part_follows(&self) -> bool {
        self.ahead().find(|line| !line.trim().is_empty()).is_none_or(|line| line.starts_with("*** "))
    }
}

fn hunk(lines: &mut Lines<'_>) -> Result<Hunk, PatchError> {
    let mut hunk = Hunk { line: lines.number(), ..Hunk::default() };
    while let Some(header) = lines.peek().filter(|line| line.starts_with("@@")) {
        if let Some(numbers) = numbers(header) {
            hunk.start = Some(numbers.start);
            lines.next += 1;
            continue;
        }
        let anchor = header[2..].trim_end_matches('\r').trim().trim_end_matches("@@").trim_end();
        if !anchor.is_empty() {
            hunk.anchors.push(anchor.to_owned());
        }
        lines.next += 1;
    }
    while let Some(line) = lines.peek() {
        if line.trim_end() == END_OF_FILE {
            hunk.at_end = true;
            lines.next += 1;
            break;
        }
        if line.starts_with("@@") || line.starts_with("*** ") {
            break;
        }
        if line.trim().is_empty() {
            if lines.next_part_follows() {
                break;
            }
            // The whole run is taken at once, so that it is scanned once.
            while let Some(blank) = lines.peek().filter(|line| line.trim().is_empty()).and_then(read_line) {
                hunk.lines.push(blank);
                lines.next += 1;
            }
            continue;
        }
        let read = read_line(line).ok_or_else(|| {
            PatchError::at(lines.number(), "a line of a hunk must begin with a space, `-` or `+`")
        })?;
        hunk.lines.push(read);
        lines.next += 1;
    }
    if hunk.added() + hunk.removed() == 0 {
        return Err(PatchError::at(hunk.line, "the hunk changes nothing"));
    }
    Ok(hunk)
}

#[cfg(test)]
mod tests {
    use super::super::Patch;
    use super::*;

    #[test]
    fn every_part_is_understood() {
        let text = "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n\
            @@ class A\n@@     def f\n     x\n-    y\n+    z\n@@\n-last\n+end\n*** End of File\n\n*** Delete File: gone\n*** End Patch\n";
        let files = Patch::read(text, None).unwrap().files;
        let actions: Vec<_> = files.iter().map(|file| (file.action, file.path.as_str())).collect();
        assert_eq!(
            actions,
            [(Action::Add, "new.txt"), (Action::Rename, "src/b.rs"), (Action::Delete, "gone")]
        );
        assert_eq!(files[0].hunks[0].added(), 2);
        let [first, second] = &files[1].hunks[..] else { panic!("{files:?}") };
        assert_eq!((files[1].source.as_deref(), first.lines.len()), (Some("src/a.rs"), 3));
        assert_eq!(first.anchors, ["class A", "def f"]);
        assert!(second.at_end && !first.at_end);
    }

    #[test]
    fn what_is_no_envelope_is_refused_with_its_line() {
        for (text, line, said) in [
            ("*** Begin Patch\n*** End Patch\n", 1, "changes no file"),
            ("*** Begin Patch\n*** Add File: x\n+a\n", 4, "ends without"),
            ("*** Begin Patch\n*** Add File: x\na\n*** End Patch", 3, "must begin with `+`"),
            ("*** Begin Patch\n*** Frob File: x\n*** End Patch", 2, "does not begin a part"),
            ("*** Begin Patch\n*** Update File: x\n*** End Patch", 2, "no hunk"),
            ("*** Begin Patch\n*** Update File: x\n@@\n a\n*** End Patch", 3, "changes nothing"),
            ("*** Begin Patch\n*** Update File: x\n@@\n-a\nb\n*** End Patch", 5, "must begin with a space"),
            ("*** Begin Patch\n*** Delete File: x\n*** End Patch\nrm", 4, "follows"),
        ] {
            let error = Patch::read(text, None).unwrap_err();
            assert!(error.line == line && error.problem.contains(said), "{text}: {error}");
        }
    }
}
