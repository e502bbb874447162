//! Reads of a part of a file, and scans of the whole file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use roots::OpenedFile;
use tool::Context;

use crate::text::LineEnds;
use crate::version::{self, HASHED_BYTES};

/// Bytes per read of a scan. Even, for encodings with pairs of bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// The requested part of a file.
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// Offset of the part in the file.
    pub(crate) start: u64,
    /// True if the part was cut.
    pub(crate) cut: bool,
}

pub(crate) struct Reader<'a> {
    pub(crate) opened: OpenedFile,
    pub(crate) ends: LineEnds,
    pub(crate) context: &'a Context,
}

/// Facts that only a scan of the whole file gives.
pub(crate) struct FileFacts {
    /// Version identifier of the content.
    pub(crate) version: String,
    /// Number of lines, or `None` for a file too large to be scanned.
    pub(crate) line_count: Option<u64>,
}

impl Reader<'_> {
    /// Reads at most `most` bytes from `start` on.
    pub(crate) fn from(&mut self, start: u64, most: usize) -> io::Result<Part> {
        let size = self.opened.metadata.size_bytes;
        let rest = usize::try_from(size.saturating_sub(start)).unwrap_or(usize::MAX);
        // One byte more than expected, so that the end is detected without another growth of the
        // buffer.
        let mut bytes = Vec::with_capacity(rest.min(most).saturating_add(1));
        match self.opened.file.seek(SeekFrom::Start(start)) {
            Ok(_) => {}
            // No file of this file system is that long, so the offset is past the end.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Ok(Part { bytes, start, cut: false });
            }
            Err(error) => return Err(error),
        }
        let limit = u64::try_from(most).unwrap_or(u64::MAX);
        (&self.opened.file).take(limit).read_to_end(&mut bytes)?;
        let cut = bytes.len() < rest && bytes.len() == most;
        Ok(Part { bytes, start, cut })
    }

    /// Reads at most `most` bytes of these lines, with their line ends.
    pub(crate) fn lines(&mut self, start: u64, end: Option<u64>, most: usize) -> io::Result<Part> {
        let mut part = Part { bytes: Vec::new(), start: 0, cut: false };
        let mut chunk = vec![0; CHUNK_BYTES];
        // Line ends to skip before the first line, and then before the end of the last line.
        let mut before = start - 1;
        let mut wanted = end.map(|end| end - before);
        let mut position = 0;
        loop {
            let length = self.fill(&mut chunk)?;
            let mut rest = &chunk[..length];
            if length == 0 {
                if before > 0 {
                    part.start = position;
                }
                return Ok(part);
            }
            if before > 0 {
                let Some(at) = self.ends.position_after(rest, before) else {
                    before -= self.ends.count(rest);
                    position += u64::try_from(length).unwrap_or_default();
                    continue;
                };
                before = 0;
                rest = &rest[at..];
                part.start = position + u64::try_from(at).unwrap_or_default();
            }
            let end = wanted.and_then(|wanted| self.ends.position_after(rest, wanted));
            wanted = wanted.map(|wanted| wanted - self.ends.count(&rest[..end.unwrap_or(rest.len())]));
            let selected = &rest[..end.unwrap_or(rest.len())];
            let room = most - part.bytes.len();
            part.bytes.extend_from_slice(&selected[..selected.len().min(room)]);
            part.cut = selected.len() > room;
            if part.cut || end.is_some() {
                return Ok(part);
            }
            position += u64::try_from(length).unwrap_or_default();
        }
    }

    /// Scans the whole file, of which `part` is already read.
    pub(crate) fn whole(&mut self, part: Option<&Part>) -> io::Result<FileFacts> {
        let size = self.opened.metadata.size_bytes;
        let is_all = |part: &&Part| {
            part.start == 0 && u64::try_from(part.bytes.len()).is_ok_and(|length| length == size)
        };
        if let Some(Part { bytes, .. }) = part.filter(is_all) {
            let unfinished = !bytes.is_empty() && !self.ends.ends(bytes);
            let line_count = Some(self.ends.count(bytes) + u64::from(unfinished));
            return Ok(FileFacts { version: version::of_content(bytes), line_count });
        }
        if size > HASHED_BYTES {
            return Ok(FileFacts { version: version::of_state(&self.opened.identity), line_count: None });
        }
        self.opened.file.seek(SeekFrom::Start(0))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut count, mut unfinished, mut hash) = (0, false, blake3::Hasher::new());
        loop {
            let length = self.fill(&mut chunk)?;
            if length == 0 {
                let line_count = Some(count + u64::from(unfinished));
                return Ok(FileFacts { version: version::of_hash(&hash.finalize()), line_count });
            }
            hash.update(&chunk[..length]);
            count += self.ends.count(&chunk[..length]);
            unfinished = !self.ends.ends(&chunk[..length]);
        }
    }

    /// Fills the chunk up to an even position or the end of the file.
    fn fill(&self, chunk: &mut [u8]) -> io::Result<usize> {
        if self.context.stop.requested().is_some() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut file: &File = &self.opened.file;
        let mut length = 0;
        while length < chunk.len() {
            match file.read(&mut chunk[length..])? {
                0 => break,
                read => length += read,
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::{Workspace, run_tool};
    use tool::ErasedTool;

    use crate::file_read::FileRead;

    fn read(workspace: &Workspace, arguments: Value) -> Value {
        run_tool(ErasedTool::tool(FileRead).as_ref(), workspace, arguments).unwrap()
    }

    #[test]
    fn a_long_file_says_first_what_it_leaves_out() {
        let line = "äöü and some more\n";
        let workspace =
            Workspace::new().with_files(&[("long", &line.repeat(4_000)), ("line", &"€".repeat(30_000))]);
        workspace.write("binary", [0_u8, 1].repeat(40_000));
        workspace.write(
            "wide",
            "a line\n".repeat(9_000).encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
        );
        for (path, arguments) in [
            ("long", json!({"path": "long"})),
            ("line", json!({"path": "line"})),
            ("binary", json!({"path": "binary"})),
            ("wide", json!({"path": "wide", "encoding": "utf-16le"})),
        ] {
            let mut arguments = arguments;
            let (mut parts, mut next) = (String::new(), Some(0));
            while let Some(offset) = next {
                arguments["offset"] = json!(offset);
                let part = read(&workspace, arguments.clone());
                let content = part["content"].as_str().unwrap();
                assert!(content.chars().count() <= 25_000, "{path}");
                next = part["next_offset"].as_u64();
                if let Some(next) = next {
                    assert_eq!(
                        part.as_object().unwrap().keys().take(2).collect::<Vec<_>>(),
                        ["next_offset", "version"]
                    );
                    let note = part["note"].as_str().unwrap();
                    assert!(note.contains(&format!("continue with `offset` {next}")), "{note}");
                    assert!(content.ends_with('\n') || path == "line" || path == "binary", "{path}");
                    assert!(content.chars().count() > 8_000, "{path}");
                }
                parts.push_str(content);
            }
            let whole = match path {
                "long" => line.repeat(4_000),
                "line" => "€".repeat(30_000),
                "wide" => "a line\n".repeat(9_000),
                // Each part but the last one encodes a multiple of three bytes.
                _ => read(&workspace, json!({"path": path, "max_bytes": 100_000}))["content"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            };
            assert!(parts == whole, "{path}: the parts are not the whole");
        }
    }
}
