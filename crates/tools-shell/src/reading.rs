//! Reading the output of a session, live or kept, by bytes or by lines that match.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use regex::bytes::Regex;
use sandbox::{Part, Phase, Session};
use tool::{Context, ToolError};

use crate::plain;

/// How long output must pause before it is read: a program writes an answer in several pieces.
const PAUSE: Duration = Duration::from_millis(50);
/// What is searched at once, and the longest line that is matched as one.
const SEARCHED: usize = 64 * 1024;

/// What of the output is wanted.
pub(crate) struct Wanted {
    /// The first byte.
    pub(crate) offset: u64,
    /// Bytes at most.
    pub(crate) limit: usize,
    /// Only lines that match.
    pub(crate) regex: Option<Regex>,
    /// With what the program tells its terminal.
    pub(crate) raw: bool,
}

/// Reads what is wanted, and waits for it until `until` where there is nothing yet.
pub(crate) fn read(
    context: &Context,
    source: &dyn Source,
    wanted: &Wanted,
    until: Instant,
) -> Result<io::Result<Reading>, ToolError> {
    let mut from = wanted.offset;
    loop {
        if Instant::now() < until {
            source.wait(context, from, until);
        }
        context.stop.check()?;
        // Asked before reading: what comes in between is then read as output that may go on.
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

/// What is read from: a session, or the kept output of one that has ended with an earlier process.
pub(crate) trait Source {
    fn read(&self, offset: u64, limit: usize) -> io::Result<Part>;
    /// Where it ends, by now.
    fn end(&self) -> io::Result<u64>;
    /// Whether more may come.
    fn grows(&self) -> bool;
    /// Waits until there is something past `offset`, or it is `until`.
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

pub(crate) struct Kept(pub(crate) File);

impl Source for Kept {
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

/// What was read.
pub(crate) struct Reading {
    pub(crate) text: Vec<u8>,
    /// Where it begins.
    pub(crate) offset: u64,
    /// Where to read on.
    pub(crate) next: u64,
    /// How far the output has been looked at.
    seen: u64,
}

/// Reads so many bytes at most: whole lines where there is more than that, or cut between characters and control sequences.
fn piece(source: &dyn Source, wanted: &Wanted, grows: bool) -> io::Result<Reading> {
    let part = source.read(wanted.offset, wanted.limit)?;
    let full = part.bytes.len() == wanted.limit;
    let more = grows || full;
    let seen = part.offset + part.bytes.len() as u64;
    let last_line = part.bytes.iter().rposition(|byte| *byte == b'\n').filter(|_| full);
    let bytes = match last_line {
        Some(newline) => &part.bytes[..=newline],
        None if more => &part.bytes[..plain::whole_characters(&part.bytes)],
        None => &part.bytes[..],
    };
    let (mut text, mut covered) =
        if wanted.raw { (bytes.to_vec(), bytes.len()) } else { plain::plain(bytes, more) };
    if covered == 0 && full {
        // A limit smaller than a character or a sequence must not stand still.
        (text, covered) = (part.bytes.clone(), part.bytes.len());
    }
    Ok(Reading { text, offset: part.offset, next: part.offset + covered as u64, seen })
}

/// The matching lines, about so many bytes of them, and where the search goes on: behind the last line that was looked at
/// and either was whole or matched. A line that is still being written matches as far as it is there, as a prompt does.
fn matching(
    context: &Context,
    source: &dyn Source,
    wanted: &Wanted,
    regex: &Regex,
    grows: bool,
) -> Result<io::Result<Reading>, ToolError> {
    let mut found =
        Reading { text: Vec::new(), offset: wanted.offset, next: wanted.offset, seen: wanted.offset };
    let mut first = true;
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
        // Less than was asked for, and not the end: what comes next is not kept any more.
        let (full, at_end) = (part.bytes.len() == SEARCHED, found.seen >= end);
        let mut rest = &part.bytes[..];
        while !rest.is_empty() {
            let line = match line_end(rest) {
                Some(end) => &rest[..=end],
                // It goes on in the next piece, unless it is longer than any.
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
                if !found.text.is_empty() && found.text.len() + text.len() >= wanted.limit {
                    return Ok(Ok(found));
                }
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
