//! The messages of commits that self-development makes, and the commits that it may take back. Pure.

use crate::test_report::cut;

/// Beginning of the subject of a modification.
pub(crate) const MODIFY: &str = "[self-modify]";
/// Beginning of the subject of a new plugin.
pub(crate) const CREATE_PLUGIN: &str = "[self-create-plugin]";
/// Beginning of the subject of a commit that takes another one back.
pub(crate) const ROLLBACK: &str = "[self-rollback]";
/// Trailer that names the commit that was taken back.
const REVERTS: &str = "Handfast-Reverts";

/// A trailer of a commit message.
pub(crate) type Trailer<'a> = (&'a str, &'a str);

/// Returns a commit message: the tag and the subject on one line, the reason, and the trailers.
pub(crate) fn message(tag: &str, subject: &str, body: &str, trailers: &[Trailer<'_>]) -> String {
    let subject = cut(&one_line(subject), 100);
    let body: Vec<String> = body.lines().map(plain).filter(|line| !is_trailer(line)).collect();
    let body = cut(body.join("\n").trim(), 4_000);
    let trailers: Vec<String> =
        trailers.iter().map(|(name, value)| format!("{name}: {}", one_line(value))).collect();
    let parts = [format!("{tag} {subject}"), body, trailers.join("\n")];
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n") + "\n"
}

/// Returns the trailers of a rollback.
pub(crate) fn of_rollback(commit: &str) -> Trailer<'_> {
    (REVERTS, commit)
}

/// Returns true if a line could be read as one of our trailers.
fn is_trailer(line: &str) -> bool {
    line.trim_start().to_lowercase().starts_with("handfast-")
}

fn plain(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).collect()
}

fn one_line(text: &str) -> String {
    plain(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns true if a commit with this subject may be taken back.
pub(crate) fn is_tagged(subject: &str) -> bool {
    [MODIFY, CREATE_PLUGIN].iter().any(|tag| subject.starts_with(&format!("{tag} ")))
}

/// A commit of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) hash: String,
    /// Time of the commit, RFC 3339.
    pub(crate) time: String,
    pub(crate) subject: String,
    /// Commit that this one has taken back.
    pub(crate) reverts: Option<String>,
}

/// Separator of the fields of a commit in `LOG_FORMAT`.
const FIELD: char = '\u{1f}';
/// Separator of commits.
const RECORD: char = '\u{1e}';
/// Format of `git log` whose output [`commits`] reads.
pub(crate) const LOG_FORMAT: &str = "%H%x1f%cI%x1f%s%x1f%B%x1e";

/// Reads the commits that `git log` has printed.
pub(crate) fn commits(log: &str) -> Vec<Commit> {
    let read = |record: &str| {
        let mut fields = record.trim_start().split(FIELD);
        let (hash, time, subject) = (fields.next()?, fields.next()?, fields.next()?);
        let begins = format!("{REVERTS}: ");
        let body = fields.next().unwrap_or_default();
        // A trailer stands in the last paragraph.
        let last = body.trim_end().rsplit("\n\n").next().unwrap_or_default();
        let reverts = last.lines().find_map(|line| line.strip_prefix(&begins)).map(str::to_owned);
        Some(Commit { hash: hash.to_owned(), time: time.to_owned(), subject: subject.to_owned(), reverts })
    };
    log.split(RECORD).filter_map(read).collect()
}

/// Returns the commits that may be taken back: tagged, and not taken back already.
pub(crate) fn revertible(all: &[Commit]) -> Vec<Commit> {
    let taken_back = |hash: &str| all.iter().any(|commit| commit.reverts.as_deref() == Some(hash));
    all.iter().filter(|commit| is_tagged(&commit.subject) && !taken_back(&commit.hash)).cloned().collect()
}

/// Returns true if a text is the full or shortened hash of a commit.
pub(crate) fn is_hash(text: &str) -> bool {
    (7..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_subject_and_no_foreign_trailer() {
        let made = message(
            MODIFY,
            "mend\nadd\u{1b}[31m",
            "why\nHandfast-Reverts: 0123456\nmore",
            &[("Handfast-Path", "src/a.rs\nX: y"), of_rollback("abc")],
        );
        assert_eq!(
            made,
            "[self-modify] mend add[31m\n\nwhy\nmore\n\nHandfast-Path: src/a.rs X: y\nHandfast-Reverts: abc\n"
        );
        assert_eq!(message(ROLLBACK, "x", "", &[]), "[self-rollback] x\n");
    }

    #[test]
    fn only_tagged_commits_that_stand_can_be_taken_back_and_others_are_refused() {
        let log = "aaaaaaa\u{1f}2026-01-01T00:00:00Z\u{1f}[self-rollback] x\u{1f}[self-rollback] x\n\nwhy\n\nHandfast-Reverts: bbbbbbb\n\u{1e}\n\
            bbbbbbb\u{1f}t\u{1f}[self-modify] x\u{1f}[self-modify] x\n\u{1e}\nccccccc\u{1f}t\u{1f}[self-create-plugin] y\u{1f}\u{1e}\n\
            ddddddd\u{1f}t\u{1f}fix [self-modify] z\u{1f}\u{1e}\neeeeeee\u{1f}t\u{1f}[self-modifying] z\u{1f}\u{1e}\n";
        let all = commits(log);
        assert_eq!((all.len(), all[0].reverts.as_deref()), (5, Some("bbbbbbb")));
        let names: Vec<String> = revertible(&all).into_iter().map(|commit| commit.hash).collect();
        assert_eq!(names, ["ccccccc"]);
        for wrong in ["", "HEAD", "abc", "abcdefg", "--all", "ABCDEF0", "0123456 "] {
            assert!(!is_hash(wrong), "{wrong}");
        }
        assert!(is_hash("0123abc"));
    }
}
