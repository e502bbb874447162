//! Removal of the content coding of a body, within bounds.

use std::io::{ErrorKind, Read};

use flate2::bufread::GzDecoder;

use crate::header;
use crate::request::{MAX_BODY, Request};

/// Bytes that are decoded at a time.
const STEP: usize = 16 * 1024;

/// First bytes of a body without its content coding.
#[derive(Debug)]
pub(crate) struct DecodedBody {
    pub(crate) bytes: Vec<u8>,
    /// True if these are all bytes of the body.
    pub(crate) is_whole: bool,
}

/// Decodes the body as far as it has arrived.
///
/// # Errors
/// Returns the reason why the body is not understood.
pub(crate) fn decode(request: &Request<'_>) -> Result<DecodedBody, &'static str> {
    let codings = header::values(request.headers, "content-encoding");
    match codings.as_slice() {
        [] => Ok(DecodedBody { bytes: request.body.to_vec(), is_whole: request.is_whole }),
        [one] if matches!(one.as_str(), "identity" | "") => {
            Ok(DecodedBody { bytes: request.body.to_vec(), is_whole: request.is_whole })
        }
        [one] if matches!(one.as_str(), "gzip" | "x-gzip") => gzip(request),
        _ => Err("its body has an unknown content coding"),
    }
}

fn gzip(request: &Request<'_>) -> Result<DecodedBody, &'static str> {
    let broken = "its body is not valid gzip";
    let mut decoder = GzDecoder::new(request.body);
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        bytes.resize(before + STEP, 0);
        let read = decoder.read(&mut bytes[before..]);
        bytes.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            // Servers differ about a second member.
            Ok(0) if decoder.get_ref().is_empty() => {
                return Ok(DecodedBody { bytes, is_whole: request.is_whole });
            }
            Ok(0) => return Err(broken),
            Ok(_) if bytes.len() > MAX_BODY => return Err("its body is too large when it is decoded"),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && !request.is_whole => {
                return Ok(DecodedBody { bytes, is_whole: false });
            }
            Err(_) => return Err(broken),
        }
    }
}
