//! Reads of a session's output, live or stored, by bytes or by matching lines.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use regex::bytes::Regex;
use sandbox::{Part, Phase, Session};
use tool::{Context, ToolError};

use crate::plain;

/// Pause in the output after which it is read: a program writes an answer in several pieces.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes that are searched at a time, and the maximum length of a line that is matched as one.
const SEARCHED: usize = 64 * 1024;

/// The requested part of the output.
pub(crate) struct RequestedPart {
    /// First byte.
    pub(crate) offset: u64,
    /// Maximum number of bytes.
    pub(crate) limit: usize,
    /// Maximum number of lines.
    pub(crate) lines: usize,
    /// Filter for lines.
    pub(crate) regex: Option<Regex>,
    /// True to preserve control sequences.
    pub(crate) raw: bool,
}

/// Reads the requested part. If there is no output yet, waits for it until `until`.
pub(crate) fn read(
    context: &Context,
    source: &dyn Source,
    wanted: &RequestedPart,
    until: Instant,
) -> Result<io::Result<OutputRead>, ToolError> {
    let mut from = wanted.offset;
    loop {
        if Instant::now() < until {
            source.wait(context, from, until);
        }
        context.stop.check()?;
        // The state is read before the output: output that arrives in between is then treated as
        // incomplete.
        let grows = source.grows();
        let read = match &wanted.regex {
            None => piece(source, wanted, grows),
            Some(regex) => matching(context, source, wanted, regex, grows)?,
        };
        match read {
            Ok(read) if read.text.is_empty() && grows && Instant::now() < until => from = read.seen.max(from),
            read => return Ok(read),
        }
    }
}

/// A source of output: a session, or the stored output of a session that ended with an earlier
/// process.
pub(crate) trait Source {
    fn read(&self, offset: u64, limit: usize) -> io::Result<Part>;
    /// Returns the current end of the output.
    fn end(&self) -> io::Result<u64>;
    /// Returns true if more output may come.
    fn grows(&self) -> bool;
    /// Waits until there is output past `offset`, or until `until`.
    fn wait(&self, context: &Context, offset: u64, until: Instant);
}

pub(crate) struct Live<'a>(pub(crate) &'a Session);

impl Source for Live<'_> {
    fn read(&self, offset: u64, limit: usize) -> io::Result<Part> {
        self.0.read(offset, limit)
    }

    fn end(&self) -> io::Result<u64> {
        Ok(self.0.status().bytes)
    }

    fn grows(&self) -> bool {
        !matches!(self.0.status().phase, Phase::Ended(_))
    }

    fn wait(&self, context: &Context, offset: u64, until: Instant) {
        let given_up = || context.stop.requested().is_some();
        self.0.wait_for_output(offset, until, given_up);
        loop {
            let seen = self.0.status().bytes;
            let pause = until.min(Instant::now() + PAUSE);
            self.0.wait_for_output(seen, pause, given_up);
            if self.0.status().bytes == seen || Instant::now() >= until || given_up() {
                return;
            }
        }
    }
}

pub(crate) struct SpoolFile(pub(crate) File);

impl Source for SpoolFile {
    fn read(&self, offset: u64, limit: usize) -> io::Result<Part> {
        let size = self.0.metadata()?.len();
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; limit.min(left)];
        self.0.read_exact_at(&mut bytes, offset.min(size))?;
        Ok(Part { offset, bytes })
    }

    fn end(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn grows(&self) -> bool {
        false
    }

    fn wait(&self, _: &Context, _: u64, _: Instant) {}
}

/// The result of a read.
pub(crate) struct OutputRead {
    pub(crate) text: Vec<u8>,
    /// Offset of the first byte.
    pub(crate) offset: u64,
    /// Offset at which the next read continues.
    pub(crate) next: u64,
    /// End of the output that was scanned.
    seen: u64,
}

/// Reads at most `limit` bytes and `lines` lines. A longer output is cut after a whole line, or else
/// between characters and control sequences.
fn piece(source: &dyn Source, wanted: &RequestedPart, grows: bool) -> io::Result<OutputRead> {
    let part = source.read(wanted.offset, wanted.limit)?;
    let full = part.bytes.len() == wanted.limit;
    let more = grows || full;
    let seen = part.offset + part.bytes.len() as u64;
    let mut newlines = part.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let last_allowed = newlines.nth(wanted.lines - 1).map(|(index, _)| index);
    let last_line = part.bytes.iter().rposition(|byte| *byte == b'\n').filter(|_| full);
    let bytes = match last_allowed.or(last_line) {
        Some(newline) => &part.bytes[..=newline],
        None if more => &part.bytes[..plain::whole_characters(&part.bytes)],
        None => &part.bytes[..],
    };
    let (mut text, mut covered) =
        if wanted.raw { (bytes.to_vec(), bytes.len()) } else { plain::plain(bytes, more) };
    if covered == 0 && full {
        // A limit smaller than a character or a sequence must still make progress.
        (text, covered) = (part.bytes.clone(), part.bytes.len());
    }
    Ok(OutputRead { text, offset: part.offset, next: part.offset + covered as u64, seen })
}

/// Returns the matching lines, about `limit` bytes and at most `lines` of them. The search continues after the last
/// line that was complete or matched. An incomplete last line, such as a prompt, matches by the
/// part that is there.
fn matching(
    context: &Context,
    source: &dyn Source,
    wanted: &RequestedPart,
    regex: &Regex,
    grows: bool,
) -> Result<io::Result<OutputRead>, ToolError> {
    let mut found =
        OutputRead { text: Vec::new(), offset: wanted.offset, next: wanted.offset, seen: wanted.offset };
    let mut first = true;
    let mut lines = 0;
    loop {
        context.stop.check()?;
        let part = match source.end().and_then(|end| Ok((source.read(found.next, SEARCHED)?, end))) {
            Ok(part) => part,
            Err(error) => return Ok(Err(error)),
        };
        let (part, end) = part;
        if std::mem::take(&mut first) {
            found.offset = part.offset;
        }
        found.next = part.offset;
        found.seen = part.offset + part.bytes.len() as u64;
        // A piece shorter than requested and before the end: the output after it is no longer
        // stored.
        let (full, at_end) = (part.bytes.len() == SEARCHED, found.seen >= end);
        let mut rest = &part.bytes[..];
        while !rest.is_empty() {
            let line = match line_end(rest) {
                Some(end) => &rest[..=end],
                // The line continues in the next piece, unless it is longer than a piece.
                None if full && !at_end && rest.len() < SEARCHED => break,
                None => rest,
            };
            let being_written = grows && at_end && !line.ends_with(b"\n");
            let ended = line.strip_suffix(b"\n").unwrap_or(line);
            let text = if wanted.raw {
                ended.to_vec()
            } else {
                plain::plain(ended.strip_suffix(b"\r").unwrap_or(ended), false).0
            };
            let matches = regex.is_match(&text);
            if being_written && !matches {
                break;
            }
            if matches {
                let is_long = !found.text.is_empty() && found.text.len() + text.len() >= wanted.limit;
                if is_long || lines >= wanted.lines {
                    return Ok(Ok(found));
                }
                lines += 1;
                found.text.extend_from_slice(&text);
                found.text.push(b'\n');
            }
            found.next += line.len() as u64;
            rest = &rest[line.len()..];
        }
        if at_end {
            return Ok(Ok(found));
        }
    }
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::run_tool;
    use tool::{AnyTool, ErasedTool};

    use crate::shell_execute::tests::workspace;
    use crate::{ShellExecute, ShellSession};

    #[test]
    fn a_page_of_default_size_has_no_more_lines_than_clients_show() {
        let workspace = workspace();
        let act = |tool: &dyn AnyTool, arguments: Value| run_tool(tool, &workspace, arguments).unwrap();
        let command = json!({"command": "seq 5000; exec sleep 1000", "background": true});
        let id = act(ErasedTool::tool(ShellExecute).as_ref(), command)["session_id"].clone();
        let read = |arguments: Value| act(ErasedTool::tool(ShellSession).as_ref(), arguments);
        let last = json!({"action": "read", "session_id": id, "wait": 60, "regex": "^5000$"});
        assert_eq!(read(last)["content"], "5000\n");
        for regex in [None, Some(".")] {
            let (mut offset, mut seen) = (0, String::new());
            for lines in [1_900, 1_900, 1_200] {
                let page = json!({"action": "read", "session_id": id, "offset": offset, "regex": regex});
                let page = read(page);
                let content = page["content"].as_str().unwrap();
                assert_eq!(content.lines().count(), lines, "{regex:?} at {offset}");
                seen.push_str(content);
                offset = page["next_offset"].as_u64().unwrap();
            }
            assert_eq!(seen.lines().last(), Some("5000"));
        }
        let asked = json!({"action": "read", "session_id": id, "limit": 100_000});
        assert_eq!(read(asked)["content"].as_str().unwrap().lines().count(), 5_000);
    }
}
