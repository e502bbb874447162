//! Entries, and archives of them whose bytes depend on the entries alone.

use std::io::Write;

use flate2::{Compression, GzBuilder};

use crate::command::{Failure, Result};

/// One file of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Path within the archive, without a leading `/`.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    /// True if everybody may run the file.
    pub(crate) runs: bool,
}

impl Entry {
    /// Creates a file that nobody runs.
    pub(crate) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into(), runs: false }
    }

    /// Creates a program.
    pub(crate) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into(), runs: true }
    }

    /// Returns the rights of the file.
    pub(crate) fn mode(&self) -> u32 {
        if self.runs { 0o755 } else { 0o644 }
    }
}

/// Returns a tar archive of the entries, sorted by path, with their folders. `prefix` precedes every
/// path, and `time` is in seconds since 1970.
pub(crate) fn tar(prefix: &str, entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    let mut archive = tar::Builder::new(Vec::new());
    let mut folders = std::collections::BTreeSet::new();
    for entry in sorted {
        let path = format!("{prefix}{}", entry.path);
        for (at, _) in path.match_indices('/') {
            let folder = &path[..=at];
            if folder != "./" && folders.insert(folder.to_owned()) {
                let mut header = header(tar::EntryType::Directory, 0o755, time);
                header.set_size(0);
                append(&mut archive, &mut header, folder, &[])?;
            }
        }
        let mut header = header(tar::EntryType::Regular, entry.mode(), time);
        header.set_size(length(&entry.bytes)?);
        append(&mut archive, &mut header, &path, &entry.bytes)?;
    }
    archive.into_inner().map_err(|error| Failure(format!("cannot finish an archive: {error}")))
}

/// Returns the bytes compressed with gzip, without a name and a time.
pub(crate) fn gzip(bytes: &[u8], compression: Compression) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), compression);
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map_err(|error| Failure(format!("cannot compress: {error}")))
}

/// Returns the size in bytes.
pub(crate) fn length(bytes: &[u8]) -> Result<u64> {
    u64::try_from(bytes.len()).map_err(|_| Failure::new("a file is too large"))
}

fn header(kind: tar::EntryType, mode: u32, time: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn append(
    archive: &mut tar::Builder<Vec<u8>>,
    header: &mut tar::Header,
    path: &str,
    bytes: &[u8],
) -> Result<()> {
    let named = header.set_username("root").and_then(|()| header.set_groupname("root"));
    let added = named.and_then(|()| archive.append_data(header, path, bytes));
    added.map_err(|error| Failure(format!("cannot add {path} to an archive: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_depends_on_no_order_and_names_its_folders_once() {
        let (a, b) = (Entry::file("x/a", "1"), Entry::program("x/y/b", "2"));
        let one = tar("p-1/", &[a.clone(), b.clone()], 7).unwrap();
        assert_eq!(one, tar("p-1/", &[b, a], 7).unwrap());
        let mut archive = tar::Archive::new(&one[..]);
        let listed: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let (mode, time) = (header.mode().unwrap(), header.mtime().unwrap());
                assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
                format!("{} {mode:o} {time}", entry.path().unwrap().display())
            })
            .collect();
        assert_eq!(
            listed,
            ["p-1/ 755 7", "p-1/x/ 755 7", "p-1/x/a 644 7", "p-1/x/y/ 755 7", "p-1/x/y/b 755 7"]
        );
    }

    #[test]
    fn a_compressed_file_carries_no_time() {
        let bytes = gzip(b"text", Compression::best()).unwrap();
        assert_eq!(bytes[4..8], [0; 4]);
    }
}
