//! Capture of a stream in bounded memory: the first and the last bytes, and a file with the whole
//! stream when memory is not enough.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::outcome::CapturedStream;

/// Bytes of the beginning that stay in memory.
const HEAD: usize = 32 * 1024;
/// Bytes of the end that stay in memory.
const TAIL: usize = 96 * 1024;

/// One stream being captured.
pub(crate) struct Capture {
    spool_directory: PathBuf,
    limit: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    newlines: u64,
    ends_in_line: bool,
    spool: Spool,
}

/// The file that receives the whole stream.
enum Spool {
    /// The file is not needed so far.
    Unopened,
    Open(File, u64),
    /// Writing failed; the file, if it was made, contains the bytes before the failure.
    Failed(Option<(File, u64)>, io::Error),
}

impl Capture {
    pub(crate) fn new(spool_directory: PathBuf, limit: u64) -> Self {
        Self {
            spool_directory,
            limit,
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            newlines: 0,
            ends_in_line: false,
            spool: Spool::Unopened,
        }
    }

    /// Captures into a file that receives every byte as it comes.
    pub(crate) fn recorded(file: File, limit: u64) -> Self {
        Self { spool: Spool::Open(file, 0), ..Self::new(PathBuf::new(), limit) }
    }

    /// Takes the next bytes of the stream. Never fails: bytes that cannot be stored are still
    /// counted.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let Some(&last) = chunk.last() else { return };
        self.newlines += memchr::memchr_iter(b'\n', chunk).count() as u64;
        self.ends_in_line = last != b'\n';
        let fits = self.bytes + chunk.len() as u64 <= (HEAD + TAIL) as u64;
        if !fits && matches!(self.spool, Spool::Unopened) {
            self.open_spool();
        }
        self.spool(chunk);
        self.bytes += chunk.len() as u64;
        let room = HEAD - self.head.len();
        let (first, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(TAIL)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(TAIL);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Makes the file and writes the stream so far, all of which is still in memory.
    fn open_spool(&mut self) {
        match tempfile::tempfile_in(&self.spool_directory) {
            Ok(file) => {
                self.spool = Spool::Open(file, 0);
                let so_far = [&self.head, self.tail.make_contiguous() as &[u8]].concat();
                self.spool(&so_far);
            }
            Err(error) => self.spool = Spool::Failed(None, error),
        }
    }

    fn spool(&mut self, chunk: &[u8]) {
        let Spool::Open(file, written) = &mut self.spool else { return };
        let room = usize::try_from(self.limit - *written).unwrap_or(usize::MAX);
        let mut rest = &chunk[..chunk.len().min(room)];
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(count) if count > 0 => {
                    *written += count as u64;
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) => return self.give_up(io::ErrorKind::WriteZero.into()),
                Err(error) => return self.give_up(error),
            }
        }
    }

    fn give_up(&mut self, error: io::Error) {
        let kept = match std::mem::replace(&mut self.spool, Spool::Unopened) {
            Spool::Open(file, written) => Some((file, written)),
            Spool::Unopened | Spool::Failed(..) => None,
        };
        self.spool = Spool::Failed(kept, error);
    }

    /// Returns the number of bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of lines so far, including a last line without a newline.
    pub(crate) fn lines(&self) -> u64 {
        self.newlines + u64::from(self.ends_in_line)
    }

    /// Returns at most `limit` bytes from `offset`, with the offset at which they begin; that
    /// offset is later if the bytes at `offset` are gone. Returns no bytes at the end.
    pub(crate) fn read_at(&self, offset: u64, limit: usize) -> io::Result<(u64, Vec<u8>)> {
        let tail_at = self.bytes - self.tail.len() as u64;
        if let Ok(from) = usize::try_from(offset)
            && from < self.head.len()
        {
            let end = from.saturating_add(limit).min(self.head.len());
            return Ok((offset, self.head[from..end].to_vec()));
        }
        if let Spool::Open(file, written) | Spool::Failed(Some((file, written)), _) = &self.spool
            && offset < tail_at.min(*written)
        {
            let left = usize::try_from(*written - offset).unwrap_or(usize::MAX);
            let mut bytes = vec![0; limit.min(left)];
            file.read_exact_at(&mut bytes, offset)?;
            return Ok((offset, bytes));
        }
        let from = offset.max(tail_at).min(self.bytes);
        let skipped = usize::try_from(from - tail_at).unwrap_or(usize::MAX);
        Ok((from, self.tail.iter().skip(skipped).take(limit).copied().collect()))
    }

    /// Ends the capture and returns its result.
    pub(crate) fn finish(self) -> CapturedStream {
        let lines = self.lines();
        let (file, mut spool_error) = match self.spool {
            Spool::Unopened => (None, None),
            Spool::Open(file, written) => (Some((file, written)), None),
            Spool::Failed(file, error) => (file, Some(error)),
        };
        let (whole, whole_bytes) = match file {
            None => (None, 0),
            Some((mut file, written)) => match file.rewind() {
                Ok(()) => (Some(file), written),
                Err(error) => {
                    spool_error.get_or_insert(error);
                    (None, 0)
                }
            },
        };
        CapturedStream {
            head: self.head,
            tail: self.tail.into(),
            bytes: self.bytes,
            lines,
            whole,
            whole_bytes,
            spool_error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn numbered(from: usize, to: usize) -> Vec<u8> {
        (from..to).flat_map(|number| format!("{number}\n").into_bytes()).collect()
    }

    #[test]
    fn short_output_stays_in_memory_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(folder.path().to_owned(), 1 << 30);
        let text = numbered(0, 10_000);
        text.chunks(777).for_each(|chunk| capture.push(chunk));
        let captured = capture.finish();
        assert_eq!([captured.head, captured.tail].concat(), text);
        assert_eq!((captured.bytes, captured.lines), (text.len() as u64, 10_000));
        assert!(captured.whole.is_none() && captured.spool_error.is_none());
    }

    #[test]
    fn long_output_keeps_both_ends_and_the_whole_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(folder.path().to_owned(), 1 << 30);
        let text = numbered(0, 100_000);
        text.chunks(50_000).for_each(|chunk| capture.push(chunk));
        let captured = capture.finish();
        assert_eq!(captured.head, &text[..HEAD]);
        assert_eq!(captured.tail, &text[text.len() - TAIL..]);
        let mut whole = Vec::new();
        captured.whole.unwrap().read_to_end(&mut whole).unwrap();
        assert_eq!(whole, text);
        assert_eq!(captured.whole_bytes, text.len() as u64);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }

    #[test]
    fn what_is_recorded_is_in_its_file_at_once() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut capture = Capture::recorded(file.reopen().unwrap(), 10);
        capture.push(b"hello");
        assert_eq!(std::fs::read(file.path()).unwrap(), b"hello");
        capture.push(b" there, world");
        let mut recorded = String::new();
        file.read_to_string(&mut recorded).unwrap();
        assert_eq!(recorded, "hello ther");
        assert_eq!(capture.read_at(3, 100).unwrap(), (3, b"lo there, world".to_vec()));
        assert_eq!(capture.finish().bytes, 18);
    }

    #[test]
    fn output_past_the_limit_is_counted_and_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(folder.path().to_owned(), 200_000);
        let text = numbered(0, 100_000);
        text.chunks(1000).for_each(|chunk| capture.push(chunk));
        let captured = capture.finish();
        assert_eq!(captured.whole_bytes, 200_000);
        assert_eq!(captured.bytes, text.len() as u64);
        assert_eq!(captured.lines, 100_000);
        assert_eq!(captured.tail, &text[text.len() - TAIL..]);
    }

    #[test]
    fn one_huge_chunk_without_newline_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(folder.path().to_owned(), 0);
        capture.push(&vec![b'x'; 1_000_000]);
        let captured = capture.finish();
        assert_eq!((captured.bytes, captured.lines, captured.whole_bytes), (1_000_000, 1, 0));
        assert_eq!((captured.head.len(), captured.tail.len()), (HEAD, TAIL));
    }

    #[test]
    fn a_spool_that_cannot_be_written_is_said_and_the_ends_are_kept() {
        let mut capture = Capture::new("/nonexistent-spool".into(), 1 << 30);
        capture.push(&vec![b'x'; 1_000_000]);
        let captured = capture.finish();
        assert_eq!(captured.spool_error.unwrap().kind(), io::ErrorKind::NotFound);
        assert_eq!((captured.bytes, captured.tail.len()), (1_000_000, TAIL));
    }
}
