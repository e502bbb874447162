//! Lines of git's protocols (`gitprotocol-common`): four hexadecimal digits with the length of the
//! whole line, and the rest of the line.

/// Maximum length of a line.
const LONGEST: usize = 65_520;

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PktLine<'a> {
    /// `0000`, the end of a section.
    Flush,
    /// Text or binary data.
    Data(&'a [u8]),
}

/// Failure to read a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PktLineError {
    /// The line has not arrived in full.
    Partial,
    /// The length is invalid, or is one of the special values of protocol version 2.
    Length,
}

/// Reads the next line and moves `rest` behind it.
pub(crate) fn next<'a>(rest: &mut &'a [u8]) -> Result<PktLine<'a>, PktLineError> {
    let Some((digits, after)) = rest.split_first_chunk::<4>() else { return Err(PktLineError::Partial) };
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(PktLineError::Length);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| PktLineError::Length)?;
    let length = usize::from_str_radix(digits, 16).map_err(|_| PktLineError::Length)?;
    if length == 0 {
        *rest = after;
        return Ok(PktLine::Flush);
    }
    if !(4..=LONGEST).contains(&length) {
        return Err(PktLineError::Length);
    }
    let Some((line, after)) = after.split_at_checked(length - 4) else { return Err(PktLineError::Partial) };
    *rest = after;
    Ok(PktLine::Data(line))
}

/// Writes a line. Data beyond the maximum length is cut.
pub(crate) fn write(data: &[u8], to: &mut Vec<u8>) {
    let data = &data[..data.len().min(LONGEST - 4)];
    to.extend_from_slice(format!("{:04x}", data.len() + 4).as_bytes());
    to.extend_from_slice(data);
}
