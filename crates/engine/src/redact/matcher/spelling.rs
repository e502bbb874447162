//! What may stand between the characters of a text, and what may stand for one of them, by how programs write such texts.

use std::ops::ControlFlow;

/// How a text may be written where it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redact) enum Spelling {
    /// As it is.
    Exact,
    /// Any of its bytes may be percent-encoded, in either case.
    Percent,
    /// Between any two characters there may be a line break, with what programs put around one: indentation, quotes, a mark of
    /// citation or of a comment. So base64 is broken.
    Lines,
    /// The same, and what dumps of bytes have between digits: blanks, commas, colons, `0x`, `\x`, the offset before a line and the
    /// characters behind it. So hexadecimal is broken.
    Digits,
}

/// Bytes between two characters, at most, with the columns of a dump.
pub(super) const LONGEST_GAP: usize = 96;
/// Bytes of a column of a dump, at most, the blanks before it included.
const LONGEST_COLUMN: usize = 40;
/// Digits of the offset before a line of a dump.
const OFFSET: std::ops::RangeInclusive<usize> = 4..=16;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// So many bytes are between this character and the next.
    Of(usize),
    /// Nothing that may stand there is there.
    None,
    /// It cannot be told before more has come.
    Unknown,
}

/// What is between two characters. `columns`: where a line of a dump may have ended, with its columns.
pub(super) fn gap(rest: &[u8], spelling: Spelling, columns: bool) -> Gap {
    match spelling {
        Spelling::Exact | Spelling::Percent => Gap::None,
        Spelling::Lines => line_gap(rest),
        Spelling::Digits if columns => column_gap(rest),
        Spelling::Digits => digit_gap(rest),
    }
}

/// What a backslash begins.
enum Escape {
    /// What escapes a line break, a tab or a byte, also in JSON in JSON: `\n`, `\\n`, `\x`; its length, and the letter.
    Of(usize, u8),
    /// Something else.
    Other,
    /// It cannot be told before more has come.
    Unknown,
}

fn escape(rest: &[u8]) -> Escape {
    let slashes = rest.iter().take(4).take_while(|byte| **byte == b'\\').count();
    match rest.get(slashes) {
        _ if slashes == 0 || slashes > 3 => Escape::Other,
        None => Escape::Unknown,
        Some(letter @ (b'n' | b'r' | b't' | b'x')) => Escape::Of(slashes + 1, *letter),
        Some(_) => Escape::Other,
    }
}

fn line_gap(rest: &[u8]) -> Gap {
    let (mut at, mut broken) = (0, false);
    loop {
        if at > LONGEST_GAP {
            return Gap::None;
        }
        match rest.get(at) {
            None => return if at == 0 { Gap::None } else { Gap::Unknown },
            Some(b'\n') => (at, broken) = (at + 1, true),
            Some(b' ' | b'\t' | b'\r' | b'"' | b'\'' | b'|') => at += 1,
            Some(b',' | b';') if !broken => at += 1,
            Some(b'>' | b'#' | b'*') if broken => at += 1,
            Some(b'\\') => match escape(&rest[at..]) {
                Escape::Unknown => return Gap::Unknown,
                Escape::Of(length, b'n' | b'r' | b't') => {
                    broken |= rest[at + length - 1] != b't';
                    at += length;
                }
                // At the end of a line, which goes on.
                _ if !broken && rest.get(at + 1).is_some_and(|next| b"\r\n".contains(next)) => at += 1,
                _ => break,
            },
            Some(_) => break,
        }
    }
    if broken { Gap::Of(at) } else { Gap::None }
}

fn digit_gap(rest: &[u8]) -> Gap {
    let mut at = 0;
    loop {
        if at > LONGEST_GAP {
            return Gap::None;
        }
        match rest.get(at) {
            None => return if at == 0 { Gap::None } else { Gap::Unknown },
            Some(byte) if is_between_digits(*byte) => at += 1,
            Some(b'>' | b'#' | b'*') if at > 0 => at += 1,
            Some(b'\\') => match escape(&rest[at..]) {
                Escape::Unknown => return Gap::Unknown,
                Escape::Of(length, _) => at += length,
                Escape::Other if rest.get(at + 1).is_some_and(|next| b"\r\n".contains(next)) => at += 1,
                Escape::Other => break,
            },
            Some(b'0') => match rest.get(at + 1) {
                Some(b'x' | b'X') => at += 2,
                _ => break,
            },
            Some(_) => break,
        }
    }
    if at == 0 { Gap::None } else { Gap::Of(at) }
}

/// The end of a line of a dump, with the characters behind its digits, and the offset before the next one's.
fn column_gap(rest: &[u8]) -> Gap {
    // One blank is between two bytes of a line.
    let begins = [&b"  "[..], b" |", b"\t", b"\r", b"\n", b"\\"].iter().any(|begin| rest.starts_with(begin));
    let blank = begins || rest == b" ";
    let window = &rest[..rest.len().min(LONGEST_COLUMN)];
    let Some((line, length)) = blank.then(|| line_end(window)).flatten() else {
        return if blank && rest.len() < LONGEST_COLUMN { Gap::Unknown } else { Gap::None };
    };
    let next = line + length;
    let blanks = rest[next..].iter().take_while(|byte| b" \t".contains(byte)).count();
    let digits = rest[next + blanks..].iter().take(OFFSET.end() + 1);
    let offset = digits.take_while(|byte| byte.is_ascii_hexdigit()).count();
    let behind = next + blanks + offset;
    let at = match rest.get(behind) {
        None => return Gap::Unknown,
        Some(b':' | b' ' | b'\t') if OFFSET.contains(&offset) => behind + 1,
        Some(_) => next,
    };
    match digit_gap(&rest[at..]) {
        Gap::Of(more) => Gap::Of(at + more),
        Gap::None if rest.len() == at => Gap::Unknown,
        Gap::None => Gap::Of(at),
        Gap::Unknown => Gap::Unknown,
    }
}

/// The first end of a line, as it is or as JSON escapes it, and its length.
fn line_end(rest: &[u8]) -> Option<(usize, usize)> {
    (0..rest.len()).find_map(|at| match rest[at] {
        b'\n' => Some((at, 1)),
        b'\\' => match escape(&rest[at..]) {
            Escape::Of(length, b'n') => Some((at, length)),
            _ => None,
        },
        _ => None,
    })
}

/// What stands between the digits of a dump, beside ends of lines.
pub(super) fn is_between_digits(byte: u8) -> bool {
    b" \t\r\n,:;-\"'|".contains(&byte)
}

/// What base64 and hexadecimal are made of.
pub(super) const fn is_encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// The byte that stands at the beginning, and how many bytes it takes there; nothing before more has come.
pub(super) fn byte(rest: &[u8], spelling: Spelling) -> Option<(u8, usize)> {
    let first = *rest.first()?;
    if spelling != Spelling::Percent || first != b'%' {
        return Some((first, 1));
    }
    let digit = |at: usize| rest.get(at).map(|byte| char::from(*byte).to_digit(16));
    match (digit(1), digit(2)) {
        (Some(Some(high)), Some(Some(low))) => Some((u8::try_from(high << 4 | low).unwrap_or(0), 3)),
        (None, _) | (Some(Some(_)), None) => None,
        _ => Some((first, 1)),
    }
}

/// How a text goes on from where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// All of it is there, up to here, and what comes next changes nothing.
    Whole(usize),
    /// All of it is there, up to here, and what shows it once more may still come.
    Open(usize),
    /// What is there is its beginning.
    Begun,
}

/// Follows a text from where it begins. `most`: bytes that it may take in all.
pub(super) fn follow(
    within: &[u8],
    start: usize,
    text: &[u8],
    spelling: Spelling,
    most: usize,
) -> Option<Reach> {
    // Where the columns of a dump may stand in place of what was taken for the next digits.
    let mut others: Vec<(usize, usize)> = Vec::new();
    let (mut at, mut done, mut broken, mut begun) = (start, 0, false, false);
    // So that nobody can make this long, whatever they write.
    let mut steps = 4 * text.len() + 64;
    while let Some(expected) = text.get(done) {
        begun |= byte(&within[at..], spelling).is_none();
        let mut next = step(&within[at..], *expected, spelling, done > 0, false);
        match next {
            ControlFlow::Continue((_, false)) => {}
            // The columns are tried where this fails at once, and else where it fails later.
            _ if spelling == Spelling::Digits && done > 0 => others.push((at, done)),
            _ => {}
        }
        while let ControlFlow::Break(may_come) = next {
            begun |= may_come;
            let Some((before, was)) = others.pop() else { return begun.then_some(Reach::Begun) };
            (at, done) = (before, was);
            next = step(&within[at..], *text.get(done)?, spelling, true, true);
        }
        let ControlFlow::Continue((length, gap)) = next else { return None };
        (at, done, broken, steps) = (at + length, done + 1, broken | gap, steps - 1);
        if steps == 0 || at - start > most {
            return begun.then_some(Reach::Begun);
        }
    }
    Some(if broken && spelling == Spelling::Digits { column(within, at) } else { Reach::Whole(at) })
}

/// The next character, with what is before it: how many bytes that takes, and whether a gap is among them; or that it is not there,
/// and whether it may still come.
fn step(
    rest: &[u8],
    expected: u8,
    spelling: Spelling,
    may_gap: bool,
    columns: bool,
) -> ControlFlow<bool, (usize, bool)> {
    let prefixed =
        spelling == Spelling::Digits && rest.len() > 1 && rest[0] == b'0' && b"xX".contains(&rest[1]);
    if !columns && !prefixed {
        match byte(rest, spelling) {
            None if rest.first() != Some(&expected) => return ControlFlow::Break(true),
            // What may be cut off, and may stand for itself.
            None => return ControlFlow::Continue((1, false)),
            Some((found, length)) if found == expected => return ControlFlow::Continue((length, false)),
            // What stands for itself although it could begin an escape.
            Some(_) if spelling == Spelling::Percent && rest[0] == expected => {
                return ControlFlow::Continue((1, false));
            }
            Some(_) => {}
        }
    }
    if !may_gap {
        return ControlFlow::Break(false);
    }
    match gap(rest, spelling, columns) {
        // Without columns it was tried already.
        other if columns && other == gap(rest, spelling, false) => ControlFlow::Break(false),
        Gap::Unknown => ControlFlow::Break(true),
        Gap::None => ControlFlow::Break(false),
        Gap::Of(length) => match rest.get(length..).unwrap_or_default() {
            [] => ControlFlow::Break(true),
            [found, ..] if *found == expected => ControlFlow::Continue((length + 1, true)),
            // Of `0x`.
            rest => ControlFlow::Break(rest == b"0" && spelling == Spelling::Digits),
        },
    }
}

/// Where a line of a dump ends, whose characters show the same bytes once more. What is too long to be such a line stays.
fn column(within: &[u8], end: usize) -> Reach {
    let rest = &within[end..];
    let window = &rest[..rest.len().min(LONGEST_GAP)];
    let line = line_end(window).map(|(at, _)| at);
    let behind = &window[..line.unwrap_or(window.len())];
    // INVARIANT: it ends at the end of a line or of all there is, so that no character is cut in two.
    let shown = if behind.windows(2).any(|pair| pair == b"  " || pair == b" |") { behind.len() } else { 0 };
    match line {
        Some(_) => Reach::Whole(end + shown),
        None if window.len() < LONGEST_GAP => Reach::Open(end + shown),
        None => Reach::Whole(end),
    }
}

/// The first characters from here on, gaps left out, and whether what is there ends with them, so that more may come.
pub(super) fn squeeze<const N: usize>(
    rest: &[u8],
    spelling: Spelling,
    columns: bool,
) -> ([u8; N], usize, bool) {
    let (mut squeezed, mut count, mut at) = ([0; N], 0, 0);
    while count < N {
        let prefixed = spelling == Spelling::Digits && rest[at..].starts_with(b"0x");
        if spelling == Spelling::Digits && count > 0 && rest[at..] == *b"0" {
            // Of `0x`, perhaps.
            return (squeezed, count, true);
        }
        match byte(&rest[at..], spelling) {
            None => return (squeezed, count, true),
            Some((found, length)) if !prefixed && belongs(found, spelling) => {
                squeezed[count] = found;
                (count, at) = (count + 1, at + length);
            }
            Some(_) if count == 0 => break,
            Some(_) => {
                let first = &rest[at..];
                // Only where a line ends are there columns.
                let length = match gap(first, spelling, columns) {
                    Gap::None if columns => gap(first, spelling, false),
                    other => other,
                };
                match length {
                    Gap::Of(length) if rest.get(at + length).is_none() => return (squeezed, count, true),
                    Gap::Of(length) if belongs(rest[at + length], spelling) => at += length,
                    Gap::Unknown => return (squeezed, count, true),
                    Gap::Of(_) | Gap::None => break,
                }
            }
        }
    }
    (squeezed, count, false)
}

fn belongs(byte: u8, spelling: Spelling) -> bool {
    match spelling {
        Spelling::Exact | Spelling::Percent => true,
        Spelling::Lines => is_encoded(byte),
        Spelling::Digits => byte.is_ascii_hexdigit(),
    }
}
