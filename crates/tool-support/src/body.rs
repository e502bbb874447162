//! Decoded, bounded bodies of responses.

use fetch::decode::{DecodeError, Decoder};
use fetch::web::{Answer, WebError};

/// Reason why a body cannot be read.
pub enum BodyError {
    /// The body did not arrive.
    Web(WebError),
    /// The body exceeds the limit, or contradicts its headers.
    Decode(DecodeError),
}

/// Builds the decoder for the body of a response. `is_sent` is false if the response has no body,
/// as for a HEAD request.
///
/// # Errors
/// [`DecodeError`] if the headers announce more than `limit` bytes, or an encoding that was not requested.
pub fn decoder(answer: &Answer, is_sent: bool, limit: u64) -> Result<Decoder, DecodeError> {
    let has_body = is_sent && ![204, 304].contains(&answer.status);
    // Several Content-Encoding headers form one list (RFC 9110, section 5.3). Stacked codings were
    // not requested.
    let encodings = answer.headers.get_all(fetch::CONTENT_ENCODING).iter();
    let encodings: Vec<&str> =
        encodings.filter(|_| has_body).map(|value| value.to_str().unwrap_or("?")).collect();
    let decoder = Decoder::new(&encodings.join(","), limit)?;
    let announced = answer.header(fetch::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if has_body && announced.is_some_and(|length| length > limit) {
        return Err(DecodeError::Large { limit });
    }
    Ok(decoder)
}

/// Reads the whole body.
///
/// # Errors
/// [`BodyError`].
pub async fn whole(answer: &mut Answer, mut decoder: Decoder) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(piece) = answer.piece().await.map_err(BodyError::Web)? {
        body.extend(decoder.push(&piece).map_err(BodyError::Decode)?);
    }
    body.extend(decoder.finish().map_err(BodyError::Decode)?);
    Ok(body)
}
