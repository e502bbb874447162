//! The body of an answer, decoded and bounded.

use fetch::decode::{DecodeError, Decoder};
use fetch::web::{Answer, WebError};

/// Why a body cannot be had.
pub enum BodyError {
    /// It did not come.
    Web(WebError),
    /// It is too large, or no such body as its head says.
    Decode(DecodeError),
}

/// What takes the body of an answer apart. `is_sent` is false where such an answer has none, as that to HEAD.
///
/// # Errors
/// [`DecodeError`] where its head says that it is larger than `limit` bytes, or encoded in a way that nobody asked for.
pub fn decoder(answer: &Answer, is_sent: bool, limit: u64) -> Result<Decoder, DecodeError> {
    let has_body = is_sent && ![204, 304].contains(&answer.status);
    // Several such headers are one list (RFC 9110, section 5.3), and of codings on codings none was asked for.
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

/// The whole body.
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
