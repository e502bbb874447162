//! Decoding of a file to text: detection of the encoding, and of binary files. Files are read in pieces.

use std::io::{self, Read};

use encoding_rs::{CoderResult, Decoder, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::Hash;

/// Bytes per read.
const PIECE: usize = 64 * 1024;

/// Result of a first pass over a file.
#[derive(Debug)]
pub(crate) struct FirstPass {
    pub(crate) hash: Hash,
    /// Encoding; `None` for a binary file.
    pub(crate) encoding: Option<&'static Encoding>,
}

/// Reads a file to its end to detect its encoding: that of the byte order mark, else UTF-8 if
/// valid, else Windows-1252. Windows-1252 accepts all bytes. A NUL byte outside UTF-16 marks a
/// binary file.
pub(crate) fn look(mut file: impl Read) -> io::Result<FirstPass> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; PIECE];
    let mut named = None;
    let mut is_utf_8 = true;
    let mut has_nul = false;
    // Incomplete character at the end of the previous piece.
    let mut left: Vec<u8> = Vec::new();
    let mut is_first = true;
    loop {
        let read = read_some(&mut file, &mut buffer)?;
        let piece = buffer.get(..read).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        hasher.update(piece);
        if std::mem::take(&mut is_first) {
            named = Encoding::for_bom(piece).map(|(encoding, _)| encoding);
        }
        has_nul = has_nul || piece.contains(&0);
        if is_utf_8 {
            left.extend_from_slice(piece);
            match std::str::from_utf8(&left) {
                Ok(_) => left.clear(),
                Err(error) if error.error_len().is_none() => {
                    left.drain(..error.valid_up_to());
                }
                Err(_) => is_utf_8 = false,
            }
        }
    }
    let is_utf_16 = named == Some(UTF_16LE) || named == Some(UTF_16BE);
    let encoding = match named {
        _ if has_nul && !is_utf_16 => None,
        Some(named) => Some(named),
        None if is_utf_8 && left.is_empty() => Some(UTF_8),
        None => Some(WINDOWS_1252),
    };
    Ok(FirstPass { hash: Hash(*hasher.finalize().as_bytes()), encoding })
}

/// Reads until the buffer is full or the file ends, so that the result does not depend on the size
/// of single reads.
fn read_some(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// A reader that converts a file to UTF-8. Invalid input becomes `U+FFFD`.
pub(crate) struct AsUtf8<R> {
    file: R,
    decoder: Decoder,
    raw: Vec<u8>,
    text: String,
    given: usize,
    hasher: blake3::Hasher,
    ended: bool,
}

impl<R: Read> AsUtf8<R> {
    pub(crate) fn new(file: R, encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder();
        let (raw, text) = (vec![0; PIECE], String::new());
        Self { file, decoder, raw, text, given: 0, hasher: blake3::Hasher::new(), ended: false }
    }

    /// Returns the hash of the bytes read so far.
    pub(crate) fn hash(&self) -> Hash {
        Hash(*self.hasher.finalize().as_bytes())
    }

    fn decode_more(&mut self) -> io::Result<()> {
        let read = read_some(&mut self.file, &mut self.raw)?;
        let raw = self.raw.get(..read).unwrap_or_default();
        self.hasher.update(raw);
        self.ended = raw.is_empty();
        self.text.clear();
        self.given = 0;
        let mut from = 0;
        loop {
            let rest = raw.get(from..).unwrap_or_default();
            self.text.reserve(self.decoder.max_utf8_buffer_length(rest.len()).unwrap_or(PIECE * 3));
            let (result, used, _) = self.decoder.decode_to_string(rest, &mut self.text, self.ended);
            from += used;
            if result == CoderResult::InputEmpty {
                return Ok(());
            }
        }
    }
}

impl<R: Read> Read for AsUtf8<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given >= self.text.len() && !self.ended {
            self.decode_more()?;
        }
        let rest = self.text.as_bytes().get(self.given..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<(&'static str, String)> {
        let looked = look(bytes).unwrap();
        let encoding = looked.encoding?;
        let mut decoding = AsUtf8::new(bytes, encoding);
        let mut text = String::new();
        decoding.read_to_string(&mut text).unwrap();
        assert_eq!(decoding.hash(), looked.hash);
        Some((encoding.name(), text))
    }

    #[test]
    fn a_text_is_read_in_the_encoding_that_it_has() {
        assert_eq!(read("grün".as_bytes()), Some(("UTF-8", "grün".to_owned())));
        assert_eq!(read(b"\xef\xbb\xbfa"), Some(("UTF-8", "a".to_owned())));
        assert_eq!(read(b"gr\xfcn"), Some(("windows-1252", "grün".to_owned())));
        assert_eq!(read(b"\xff\xfeg\0\xfc\0"), Some(("UTF-16LE", "gü".to_owned())));
        assert_eq!(read(b"\xfe\xff\0g\0\xfc"), Some(("UTF-16BE", "gü".to_owned())));
        assert_eq!(read(b""), Some(("UTF-8", String::new())));
        assert_eq!(read(b"\x7fELF\0\0"), None);
    }

    #[test]
    fn a_character_on_the_seam_of_two_pieces_is_whole() {
        let text = format!("{}ü{}", "a".repeat(PIECE - 1), "b".repeat(PIECE));
        assert_eq!(read(text.as_bytes()), Some(("UTF-8", text)));
    }
}
