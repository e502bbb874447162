//! Fetches, in the protocol versions 0, 1 and 2.

use crate::encoding::DecodedBody;
use crate::header;
use crate::pkt_line::{self, PktLine, PktLineError};
use crate::request::{Meaning, Request, unclear};

/// Beginnings of the first line of a fetch.
const FIRST: [&[u8]; 9] = [
    b"want ",
    b"shallow ",
    b"deepen ",
    b"deepen-since ",
    b"deepen-not ",
    b"filter ",
    b"have ",
    b"done",
    b"command=",
];

/// Judges a request to `git-upload-pack`, which only reads. Its type and its first line show that
/// it is not meant for another service with such a path.
pub(crate) fn judge(request: &Request<'_>, body: &DecodedBody) -> Meaning {
    if !header::is_type(request.headers, "application/x-git-upload-pack-request") {
        return unclear(request, "its body is not that of a fetch");
    }
    match pkt_line::next(&mut body.bytes.as_slice()) {
        Ok(PktLine::Flush) => Meaning::Reading,
        Ok(PktLine::Data(line)) if FIRST.iter().any(|first| line.starts_with(first)) => Meaning::Reading,
        Err(PktLineError::Partial) if !request.is_whole => Meaning::NeedMore(request.body.len() * 2),
        _ => unclear(request, "its body is not that of a fetch"),
    }
}
