//! Decompression of bodies within a size limit.
//!
//! A decompression bomb is dropped as soon as its output passes the limit, before the output is in memory.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Content codings that servers may use, as the value of `Accept-Encoding`.
pub const ACCEPTED: &str = "gzip, br, zstd, deflate";
/// Largest zstd window, as a power of two: the maximum that RFC 9659 allows a server.
const ZSTD_WINDOW: u32 = 23;
/// Bytes that are decompressed at a time, and the maximum output of one such step. A larger output
/// is a decompression bomb.
const STEP: usize = 16 * 1024;
const MAX_OF_A_STEP: u64 = 64 * 1024 * 1024;
/// Buffer between the brotli decompressor and its output, in bytes.
const BUFFER: usize = 16 * 1024;

/// Reason why a body cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The body has an encoding that was not requested.
    #[error("the body is encoded as {encoding:?}, which was not requested")]
    Unknown {
        /// Value of `Content-Encoding`, at most 100 characters.
        encoding: String,
    },
    /// The body exceeds the limit.
    #[error("the body is larger than {limit} bytes")]
    Large {
        /// Limit in bytes.
        limit: u64,
    },
    /// The body is not valid in its declared encoding.
    #[error("the body is not valid {encoding}")]
    Broken {
        /// Declared encoding.
        encoding: &'static str,
        /// Error of the decompressor.
        #[source]
        source: io::Error,
    },
}

/// Decodes a body piece by piece.
pub struct Decoder {
    how: How,
    limit: u64,
    /// Bytes that may still be output.
    left: u64,
}

enum How {
    Plain,
    /// `deflate` means zlib's format to some servers and raw deflate to others; the first byte tells which.
    Undecided,
    Coded(&'static str, Box<dyn DecodingSink>),
}

/// A decompressor over a [`Sink`].
trait DecodingSink: Write + Send {
    fn sink(&mut self) -> &mut Sink;
    /// Finishes the stream at the end of the input.
    fn end(&mut self) -> io::Result<()>;
}

impl DecodingSink for MultiGzDecoder<Sink> {
    fn sink(&mut self) -> &mut Sink {
        self.get_mut()
    }

    fn end(&mut self) -> io::Result<()> {
        self.try_finish()
    }
}

impl DecodingSink for ZlibDecoder<Sink> {
    fn sink(&mut self) -> &mut Sink {
        self.get_mut()
    }

    fn end(&mut self) -> io::Result<()> {
        self.try_finish()
    }
}

impl DecodingSink for DeflateDecoder<Sink> {
    fn sink(&mut self) -> &mut Sink {
        self.get_mut()
    }

    fn end(&mut self) -> io::Result<()> {
        self.try_finish()
    }
}

impl DecodingSink for DecompressorWriter<Sink> {
    fn sink(&mut self) -> &mut Sink {
        self.get_mut()
    }

    fn end(&mut self) -> io::Result<()> {
        self.close()
    }
}

impl DecodingSink for zstd::stream::write::Decoder<'static, Sink> {
    fn sink(&mut self) -> &mut Sink {
        self.get_mut()
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// Collects output up to a limit.
#[derive(Default)]
struct Sink {
    out: Vec<u8>,
    left: u64,
    is_full: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        if length > self.left {
            self.is_full = true;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.left -= length;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Decoder {
    /// Creates a decoder for this `Content-Encoding` that outputs at most `limit` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Unknown`]; [`DecodeError::Broken`] if the decompressor cannot be created.
    pub fn new(encoding: &str, limit: u64) -> Result<Self, DecodeError> {
        let codings = encoding.split(',').map(str::trim).filter(|coding| !coding.is_empty());
        let codings: Vec<String> =
            codings.map(str::to_ascii_lowercase).filter(|coding| coding != "identity").collect();
        let coded = |name, coding: Box<dyn DecodingSink>| How::Coded(name, coding);
        let how = match codings.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => How::Plain,
            ["gzip" | "x-gzip"] => coded("gzip", Box::new(MultiGzDecoder::new(Sink::default()))),
            ["deflate"] => How::Undecided,
            ["br"] => coded("brotli", Box::new(DecompressorWriter::new(Sink::default(), BUFFER))),
            ["zstd"] => {
                let broken = |source| DecodeError::Broken { encoding: "zstd", source };
                let mut decoder = zstd::stream::write::Decoder::new(Sink::default()).map_err(broken)?;
                decoder.window_log_max(ZSTD_WINDOW).map_err(broken)?;
                coded("zstd", Box::new(decoder))
            }
            _ => {
                let encoding = encoding.chars().take(100).collect();
                return Err(DecodeError::Unknown { encoding });
            }
        };
        Ok(Self { how, limit, left: limit })
    }

    /// Returns true if the body is passed through unchanged.
    pub fn is_plain(&self) -> bool {
        matches!(self.how, How::Plain)
    }

    /// Decodes the next piece of the body, up to the last point that the server flushed.
    ///
    /// # Errors
    /// [`DecodeError::Large`], [`DecodeError::Broken`].
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<u8>, DecodeError> {
        if let (How::Undecided, Some(first)) = (&self.how, piece.first()) {
            // RFC 1950: the lower half of the first byte is 8, and the window has at most 2^15
            // bytes. No encoder starts a raw deflate stream (RFC 1951) with such a byte.
            let is_zlib = first & 0x0f == 8 && first >> 4 <= 7;
            let coding: Box<dyn DecodingSink> = if is_zlib {
                Box::new(ZlibDecoder::new(Sink::default()))
            } else {
                Box::new(DeflateDecoder::new(Sink::default()))
            };
            self.how = How::Coded("deflate", coding);
        }
        let limit = self.limit;
        let How::Coded(encoding, coding) = &mut self.how else {
            self.left = self.left.checked_sub(piece.len() as u64).ok_or(DecodeError::Large { limit })?;
            return Ok(piece.to_vec());
        };
        let mut out = Vec::new();
        for step in piece.chunks(STEP) {
            out.extend(through(encoding, coding.as_mut(), &mut self.left, limit, |coding| {
                coding.write_all(step)?;
                // Flush, so that decoded output never waits for the next input.
                coding.flush()
            })?);
        }
        Ok(out)
    }

    /// Returns the remaining output after the end of the body.
    ///
    /// # Errors
    /// The errors of [`Decoder::push`].
    pub fn finish(mut self) -> Result<Vec<u8>, DecodeError> {
        match &mut self.how {
            How::Plain | How::Undecided => Ok(Vec::new()),
            How::Coded(encoding, coding) => {
                through(encoding, coding.as_mut(), &mut self.left, self.limit, |coding| coding.end())
            }
        }
    }
}

/// Runs one step and returns its output, counted against the limit.
fn through(
    encoding: &'static str,
    coding: &mut dyn DecodingSink,
    left: &mut u64,
    limit: u64,
    step: impl FnOnce(&mut dyn DecodingSink) -> io::Result<()>,
) -> Result<Vec<u8>, DecodeError> {
    coding.sink().left = (*left).min(MAX_OF_A_STEP);
    let done = step(coding);
    let sink = coding.sink();
    let out = std::mem::take(&mut sink.out);
    match done {
        _ if sink.is_full => Err(DecodeError::Large { limit }),
        Ok(()) => {
            *left -= out.len() as u64;
            Ok(out)
        }
        Err(source) => Err(DecodeError::Broken { encoding, source }),
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;

    use super::*;

    fn compressed(encoding: &str, content: &[u8]) -> Vec<u8> {
        let level = Compression::default();
        match encoding {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            "deflate" => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            "bare" => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            "zstd" => zstd::encode_all(content, 3).unwrap(),
            // A stream of one uncompressed block (RFC 7932, section 9.2), followed by the empty last block.
            "br" => {
                let mut stream = vec![0x0c];
                let length = u32::try_from(content.len() - 1).unwrap();
                let header = (length << 3) | (1 << 19);
                stream.extend(&header.to_le_bytes()[..3]);
                stream.extend(content);
                stream.push(0x03);
                stream
            }
            _ => content.to_vec(),
        }
    }

    fn decoded(encoding: &str, body: &[u8], limit: u64, step: usize) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = Decoder::new(encoding, limit)?;
        let mut out = Vec::new();
        for piece in body.chunks(step) {
            out.extend(decoder.push(piece)?);
        }
        out.extend(decoder.finish()?);
        Ok(out)
    }

    #[test]
    fn a_body_comes_out_as_it_was_in_whatever_pieces_it_comes() {
        let content = b"one two three ".repeat(500);
        for (made, said) in [
            ("", ""),
            ("", "identity"),
            ("gzip", "gzip"),
            ("gzip", "X-GZIP"),
            ("deflate", "deflate"),
            ("bare", "deflate"),
            ("zstd", "zstd"),
        ] {
            for step in [1, 7, 1_000_000] {
                let body = compressed(made, &content);
                assert_eq!(decoded(said, &body, 7_000, step).unwrap(), content, "{made} {said} {step}");
            }
        }
    }

    /// `one two three ` repeated 500 times, from the reference encoder at its best compression.
    const BY_BROTLI: &[u8] = &[
        0x1b, 0x57, 0x1b, 0xf8, 0x1d, 0x09, 0x36, 0x4e, 0x76, 0x6d, 0x9e, 0x85, 0x84, 0x35, 0x48, 0xd9, 0x9b,
        0x9c, 0xa0, 0x4b, 0x34, 0xb7, 0xbb, 0x78, 0x30, 0x1e, 0x80, 0x60, 0x02, 0xa0, 0xe4, 0xb0, 0x02,
    ];

    #[test]
    fn brotli_as_its_encoder_writes_it_comes_out_as_it_was() {
        let content = b"one two three ".repeat(500);
        for step in [1, 5, 1_000] {
            assert_eq!(decoded("br", BY_BROTLI, 7_000, step).unwrap(), content, "{step}");
        }
        assert!(matches!(decoded("br", BY_BROTLI, 6_999, 10), Err(DecodeError::Large { .. })));
        let cut = &BY_BROTLI[..BY_BROTLI.len() - 2];
        assert!(matches!(decoded("br", cut, 7_000, 10), Err(DecodeError::Broken { .. })));
    }

    #[test]
    fn what_was_flushed_comes_out_at_once() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
        let mut decoder = Decoder::new("gzip", 1_000).unwrap();
        for event in [&b"data: one\n\n"[..], b"data: two\n\n"] {
            encoder.write_all(event).unwrap();
            encoder.flush().unwrap();
            let piece = std::mem::take(encoder.get_mut());
            assert_eq!(decoder.push(&piece).unwrap(), event);
        }
    }

    #[test]
    fn a_bomb_is_let_go_at_its_limit() {
        let zeros = vec![0_u8; 8 * 1024 * 1024];
        for encoding in ["gzip", "deflate", "zstd", ""] {
            let body = compressed(encoding, &zeros);
            let error = decoded(encoding, &body, 100_000, 1 << 20).unwrap_err();
            assert!(matches!(error, DecodeError::Large { limit: 100_000 }), "{encoding}: {error:?}");
        }
    }

    #[test]
    fn what_is_not_what_it_says_is_broken_or_unknown() {
        for encoding in ["gzip", "br", "zstd", "deflate"] {
            let found = decoded(encoding, &b"\xff\xfe is no such thing".repeat(10), 1_000, 1_000);
            assert!(matches!(found, Err(DecodeError::Broken { .. })), "{encoding}: {found:?}");
        }
        for encoding in ["compress", "gzip, gzip", "sdch"] {
            assert!(matches!(Decoder::new(encoding, 1), Err(DecodeError::Unknown { .. })), "{encoding}");
        }
    }
}
