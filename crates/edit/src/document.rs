//! Files as text that can be edited: decoding and encoding that restores each unedited byte.

use encoding_rs::{EncoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// The content of a file as text, with the encoding and byte order mark that are needed to write it
/// back.
#[derive(Debug, Clone)]
pub struct Document {
    text: Vec<u8>,
    encoding: &'static Encoding,
    mark: &'static [u8],
}

/// A reason why the content of a file cannot be edited as text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The content has NUL bytes, which text does not have.
    #[error("it is binary")]
    Binary,
    /// The content has bytes that are invalid in the encoding, or that would not be written back
    /// unchanged.
    #[error("it has bytes that are not valid {encoding}")]
    NotIn {
        /// Name of the encoding.
        encoding: &'static str,
    },
}

/// An error for a text that cannot be written in the encoding of its file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{encoding} has no character {character:?}")]
pub struct NotEncodable {
    /// Name of the encoding.
    pub encoding: &'static str,
    /// A character that the encoding does not have.
    pub character: char,
}

const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF_16LE_MARK: &[u8] = b"\xff\xfe";
const UTF_16BE_MARK: &[u8] = b"\xfe\xff";

impl Document {
    /// Decodes the content of a file. The default encoding is the one that the byte order mark
    /// names, or else UTF-8.
    ///
    /// A file read as UTF-8 may have invalid bytes: these are preserved, and no edit can name them.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(bytes: Vec<u8>, encoding: Option<&'static Encoding>) -> Result<Self, ReadError> {
        let encoding = encoding.unwrap_or_else(|| match &bytes {
            bytes if bytes.starts_with(UTF_16LE_MARK) => UTF_16LE,
            bytes if bytes.starts_with(UTF_16BE_MARK) => UTF_16BE,
            _ => UTF_8,
        });
        let mark = match encoding {
            encoding if encoding == UTF_8 => UTF_8_MARK,
            encoding if encoding == UTF_16LE => UTF_16LE_MARK,
            encoding if encoding == UTF_16BE => UTF_16BE_MARK,
            _ => b"",
        };
        let mark = if bytes.starts_with(mark) { mark } else { b"" };
        if encoding == UTF_8 {
            let mut text = bytes;
            text.drain(..mark.len());
            if memchr::memchr(0, &text).is_some() {
                return Err(ReadError::Binary);
            }
            return Ok(Self { text, encoding, mark });
        }
        let not_in = ReadError::NotIn { encoding: encoding.name() };
        let text = encoding
            .decode_without_bom_handling_and_without_replacement(&bytes[mark.len()..])
            .ok_or_else(|| not_in.clone())?;
        if memchr::memchr(0, text.as_bytes()).is_some() {
            return Err(ReadError::Binary);
        }
        let document = Self { text: text.into_owned().into_bytes(), encoding, mark };
        // Some encodings write one character in several ways, and text that is not edited must be
        // written back unchanged.
        if document.write(&document.text).ok().as_ref() != Some(&bytes) {
            return Err(not_in);
        }
        Ok(document)
    }

    /// Returns the text in UTF-8, without a byte order mark. A file that was read as UTF-8 may have
    /// invalid bytes.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the name of the encoding.
    pub fn encoding(&self) -> &'static str {
        self.encoding.name()
    }

    /// Returns true if the document accepts text with characters beyond ASCII: false for UTF-8 with
    /// invalid bytes.
    pub fn takes_any_character(&self) -> bool {
        self.encoding != UTF_8 || std::str::from_utf8(&self.text).is_ok()
    }

    /// Returns the bytes of the file with `text` as its content.
    ///
    /// # Errors
    /// [`NotEncodable`] if the file's encoding lacks a character.
    pub fn write(&self, text: &[u8]) -> Result<Vec<u8>, NotEncodable> {
        let mut bytes = self.mark.to_vec();
        if self.encoding == UTF_8 {
            bytes.extend_from_slice(text);
            return Ok(bytes);
        }
        let text = String::from_utf8_lossy(text);
        if self.encoding == UTF_16LE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        } else if self.encoding == UTF_16BE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
        } else {
            let mut encoder = self.encoding.new_encoder();
            let (mut rest, mut last) = (&*text, false);
            while !last {
                let room = encoder.max_buffer_length_from_utf8_without_replacement(rest.len()).unwrap_or(0);
                bytes.reserve(room.max(16));
                let (result, read) =
                    encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
                rest = &rest[read..];
                match result {
                    EncoderResult::InputEmpty => last = true,
                    EncoderResult::OutputFull => {}
                    EncoderResult::Unmappable(character) => {
                        return Err(NotEncodable { encoding: self.encoding.name(), character });
                    }
                }
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(label: &str) -> Option<&'static Encoding> {
        Encoding::for_label(label.as_bytes())
    }

    #[test]
    fn every_encoding_comes_out_as_it_went_in() {
        for (bytes, encoding, text) in [
            (b"\xef\xbb\xbfa\r\n".to_vec(), None, "a\r\n"),
            (b"\xff\xfea\0\n\0".to_vec(), None, "a\n"),
            (b"\xfe\xff\0a\0\xe9".to_vec(), None, "aé"),
            (b"a\0b\0".to_vec(), label("utf-16le"), "ab"),
            (b"caf\xe9".to_vec(), label("latin1"), "café"),
            (b"\x82\xa0\x82\xa2".to_vec(), label("shift_jis"), "あい"),
        ] {
            let document = Document::read(bytes.clone(), encoding).unwrap();
            assert_eq!(document.text(), text.as_bytes());
            assert_eq!(document.write(document.text()).unwrap(), bytes);
        }
    }

    #[test]
    fn what_would_not_come_out_as_it_was_is_refused() {
        assert_eq!(Document::read(b"a\0b".to_vec(), None).unwrap_err(), ReadError::Binary);
        for (bytes, encoding) in
            [(&b"\x3d\xd8a\0"[..], "utf-16le"), (b"a\0\n", "utf-16le"), (b"\xff", "euc-jp")]
        {
            let error = Document::read(bytes.to_vec(), label(encoding)).unwrap_err();
            assert!(matches!(error, ReadError::NotIn { .. }), "{error}");
        }
        let latin = Document::read(b"x".to_vec(), label("latin1")).unwrap();
        assert_eq!(latin.write("→".as_bytes()).unwrap_err().character, '→');
    }

    #[test]
    fn other_bytes_in_utf_8_are_kept() {
        let document = Document::read(b"caf\xe9\n".to_vec(), None).unwrap();
        assert!(!document.takes_any_character());
        assert_eq!(document.write(document.text()).unwrap(), b"caf\xe9\n");
    }
}
