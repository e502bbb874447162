//! Small files that are read whole.

use std::fs::File;
use std::io::{self, Read};

/// Maximum size in bytes of a git configuration that is parsed. Git's own files are below a few
/// thousand bytes.
pub(crate) const LARGEST_CONFIGURATION: u64 = 1024 * 1024;

/// Reads a small file. Returns `None` if it is larger than `limit` bytes.
pub(crate) fn read_small(file: File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut content)?;
    Ok((read as u64 <= limit).then_some(content))
}
