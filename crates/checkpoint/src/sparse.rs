//! Content of a large file without its holes: saving and restoring cost only the time and space of
//! its data.
//!
//! The stored form is a stream of the blocks that are not all zeros, each with its number and
//! length, followed by the file size. All numbers are little-endian and have eight bytes. Equal
//! contents result in equal streams, however the file system lays them out.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, Stat, seek};
use rustix::io::Errno;

use crate::state::LARGEST_HASHED;

/// Size of a block in bytes.
const BLOCK: u64 = 64 * 1024;

/// Marker in place of a block number, before the size of the file.
const END: u64 = u64::MAX;

/// Returns true if a file is stored without its holes: it is large, and at least half of it consists
/// of holes.
pub(crate) fn is_sparse(stat: &Stat) -> bool {
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    let allocated = u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512);
    size > LARGEST_HASHED && allocated <= size / 2
}

/// A reader that converts a file to the stream of its blocks.
pub(crate) struct Sparse<'a> {
    file: &'a File,
    size: u64,
    /// Offset at which the search for data continues.
    at: u64,
    /// Last produced part of the stream; `handed_out` counts its bytes already read.
    made: Vec<u8>,
    handed_out: usize,
    has_ended: bool,
}

impl<'a> Sparse<'a> {
    pub(crate) fn new(file: &'a File, size: u64) -> Self {
        Self { file, size, at: 0, made: Vec::new(), handed_out: 0, has_ended: false }
    }

    /// Produces the next part of the stream: a block, or the end.
    fn make(&mut self) -> io::Result<()> {
        self.made.clear();
        self.handed_out = 0;
        while self.at < self.size {
            match seek(self.file, SeekFrom::Data(self.at)) {
                Ok(data) => self.at = self.at.max(data / BLOCK * BLOCK),
                // The rest of the file is a hole.
                Err(Errno::NXIO) => break,
                // The file system does not support holes: everything is data.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno.into()),
            }
            let length = BLOCK.min(self.size.saturating_sub(self.at));
            if length == 0 {
                break;
            }
            self.made.extend((self.at / BLOCK).to_le_bytes());
            self.made.extend(length.to_le_bytes());
            let start = self.made.len();
            self.made.resize(start + usize::try_from(length).map_err(io::Error::other)?, 0);
            self.file.read_exact_at(&mut self.made[start..], self.at)?;
            self.at += length;
            if !is_zero(&self.made[start..]) {
                return Ok(());
            }
            self.made.clear();
        }
        self.made.extend(END.to_le_bytes());
        self.made.extend(self.size.to_le_bytes());
        self.has_ended = true;
        Ok(())
    }
}

impl Read for Sparse<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.handed_out == self.made.len() && !self.has_ended {
            self.make()?;
        }
        let rest = &self.made[self.handed_out..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.handed_out += count;
        Ok(count)
    }
}

/// Writes the file of a stream, with its holes.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if the stream is invalid.
pub(crate) fn write(to: &File, from: &mut dyn Read) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut block = Vec::new();
    loop {
        let number = next_number(from)?;
        let length = next_number(from)?;
        if number == END {
            to.set_len(length)?;
            return if from.read(&mut [0])? == 0 { Ok(()) } else { Err(invalid()) };
        }
        if length > BLOCK {
            return Err(invalid());
        }
        block.resize(usize::try_from(length).map_err(io::Error::other)?, 0);
        from.read_exact(&mut block)?;
        to.write_all_at(&block, number.checked_mul(BLOCK).ok_or_else(invalid)?)?;
    }
}

fn next_number(from: &mut dyn Read) -> io::Result<u64> {
    let mut number = [0; 8];
    from.read_exact(&mut number)?;
    Ok(u64::from_le_bytes(number))
}

/// Returns true if all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustix::fs::fstat;

    use super::*;

    fn stream(file: &File) -> Vec<u8> {
        let (mut bytes, size) = (Vec::new(), file.metadata().unwrap().len());
        Sparse::new(file, size).read_to_end(&mut bytes).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn a_file_comes_back_with_its_holes_and_the_same_content_gives_the_same_stream(
            pieces in proptest::collection::vec((0..40 * BLOCK, proptest::collection::vec(any::<u8>(), 0..200)), 0..12),
            size in 0..50 * BLOCK,
        ) {
            let (file, dense) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
            file.set_len(size).unwrap();
            for (at, piece) in &pieces {
                file.write_all_at(piece, *at).unwrap();
            }
            let mut bytes = Vec::new();
            (&file).read_to_end(&mut bytes).unwrap();
            dense.write_all_at(&bytes, 0).unwrap();
            let kept = stream(&file);
            prop_assert_eq!(&stream(&dense), &kept);
            let restored = tempfile::tempfile().unwrap();
            write(&restored, &mut kept.as_slice()).unwrap();
            let mut again = Vec::new();
            (&restored).read_to_end(&mut again).unwrap();
            prop_assert!(again == bytes);
        }
    }

    #[test]
    fn a_terabyte_of_holes_takes_no_room_and_a_broken_stream_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(b"end", (1 << 40) - 3).unwrap();
        assert!(is_sparse(&fstat(&file).unwrap()));
        let kept = stream(&file);
        assert!(kept.len() < 2 * usize::try_from(BLOCK).unwrap());
        let restored = tempfile::tempfile().unwrap();
        write(&restored, &mut kept.as_slice()).unwrap();
        assert!(is_sparse(&fstat(&restored).unwrap()));
        assert_eq!(stream(&restored), kept);
        for broken in [&kept[..kept.len() - 1], &[kept.as_slice(), b"x"].concat(), &[0xfe; 64]] {
            write(&restored, &mut &broken[..]).unwrap_err();
        }
    }
}
