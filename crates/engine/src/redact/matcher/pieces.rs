//! Texts that are written in pieces: broken over lines, percent-encoded, or as the digits of a dump.

use memchr::{memchr_iter, memchr2_iter, memmem};

use super::spelling::{Gap, LONGEST_GAP, Reach, Spelling, gap, is_between_digits, is_encoded, squeeze};
use super::{Found, LEAST, Matcher, PIECE, word};

/// Characters before a gap that a text may begin with and still not be found by its first pieces.
const BEFORE: usize = LEAST - 1;
/// Digits that stand together in a dump, at most.
const LONGEST_GROUP: usize = 32;

/// How far the dump that may be there was looked through.
#[derive(Default)]
pub(super) struct Dump {
    done: usize,
}

impl Dump {
    /// Whether these eight bytes may be of one: none is a letter behind `f`. Few words are like that.
    pub(super) fn may_hold(word: u64) -> bool {
        const BELOW_G: u64 = 0x1919_1919_1919_1919;
        word.wrapping_add(BELOW_G) & 0x8080_8080_8080_8080 == 0
    }
}

/// What base64 and hexadecimal are made of.
const ENCODED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it counts to 255")]
        let is = is_encoded(byte as u8);
        table[byte] = is;
        byte += 1;
    }
    table
};

/// Whether a text may go on from before this line break to behind it, which is seldom so in texts for people: nearly all of what is
/// read has no other kind of gap, and what follows takes longer. Lines have eight characters at least.
fn may_break(within: &[u8], at: usize) -> bool {
    const LINE: usize = 8;
    let before = within[..at].iter().rev();
    let before = before.skip_while(|byte| b" \t\r\"',;|\\".contains(byte)).take(LEAST);
    let before = before.take_while(|byte| ENCODED[usize::from(**byte)]).count();
    if before == 0 {
        return false;
    }
    let rest = &within[at + 1..];
    let between = rest.iter().take_while(|byte| b" \t\r\n>#*|\"'".contains(byte)).count();
    let rest = &rest[between..];
    if within[at] != b'\n' || rest.first().is_none_or(|byte| *byte == b'\\') {
        // Escaped, or not there yet.
        return true;
    }
    let behind = rest.iter().take(LEAST).take_while(|byte| ENCODED[usize::from(**byte)]).count();
    behind == rest.len() || (before + behind >= LEAST && before.max(behind) >= LINE)
}

impl Matcher {
    /// Looks for texts that begin before this place, where it looks like a dump of bytes, digits in groups.
    #[cold]
    pub(super) fn look_in_dump(
        &self,
        within: &[u8],
        place: usize,
        dump: &mut Dump,
        tell: &mut impl FnMut(Found, Reach) -> bool,
    ) -> bool {
        let window = within.get(place..place + 8).unwrap_or_default();
        let digits = window.iter().filter(|byte| byte.is_ascii_hexdigit()).count();
        let between = window.iter().filter(|byte| is_between_digits(**byte)).count();
        if digits < 4 || between == 0 || digits + between < window.len() {
            return true;
        }
        let mut at = dump.done.max(place.saturating_sub(LONGEST_GAP));
        while at < place + window.len() {
            let group =
                within[at..].iter().take(LONGEST_GROUP + 1).take_while(|byte| byte.is_ascii_hexdigit());
            let length = group.count();
            // Bytes have two digits each. What is longer is found by its first pieces, but for its end.
            if length % 2 == 0 && length <= LONGEST_GROUP {
                for start in (at + length.saturating_sub(BEFORE + 1)..at + length).step_by(2) {
                    if !self.look_from(within, start, Spelling::Digits, tell) {
                        return false;
                    }
                }
            }
            at += length.max(1);
        }
        dump.done = at;
        true
    }

    /// Looks for texts that have something between their first characters.
    pub(super) fn look_in_pieces(&self, within: &[u8], tell: &mut impl FnMut(Found, Reach) -> bool) {
        for at in memchr2_iter(b'\n', b'\\', within) {
            let goes_on = !may_break(within, at)
                || self.look_before(within, at, Spelling::Lines, tell)
                    && self.look_before(within, at, Spelling::Digits, tell);
            if !goes_on {
                return;
            }
        }
        for at in memmem::find_iter(within, b"0x") {
            if !self.look_before(within, at, Spelling::Digits, tell) {
                return;
            }
        }
        let mut done = 0;
        for at in memchr_iter(b'%', within) {
            let from = done.max(at.saturating_sub(BEFORE));
            if !(from..=at).all(|start| self.look_from(within, start, Spelling::Percent, tell)) {
                return;
            }
            done = at + 1;
        }
    }

    /// Looks for texts that begin before the gap which has a part here.
    fn look_before(
        &self,
        within: &[u8],
        part: usize,
        spelling: Spelling,
        tell: &mut impl FnMut(Found, Reach) -> bool,
    ) -> bool {
        let is_gap = |byte: u8| match spelling {
            Spelling::Lines => b" \t\r\"',;|".contains(&byte),
            _ => is_between_digits(byte),
        };
        let is_text = |byte: u8| match spelling {
            Spelling::Lines => is_encoded(byte),
            _ => byte.is_ascii_hexdigit(),
        };
        let behind = |end: usize, most: usize, is: &dyn Fn(u8) -> bool| {
            within[..end].iter().rev().take(most).take_while(|byte| is(**byte)).count()
        };
        let end = part - behind(part, 16, &is_gap);
        let before = behind(end, BEFORE, &is_text);
        if before == 0 {
            return true;
        }
        let columns: &[bool] = if spelling == Spelling::Digits { &[false, true] } else { &[false] };
        columns.iter().all(|columns| {
            let rest = &within[end..];
            let length = match gap(rest, spelling, *columns) {
                Gap::Of(length) => length,
                Gap::Unknown => rest.len(),
                Gap::None => return true,
            };
            let (behind, count, _) = squeeze::<{ PIECE - 1 }>(&rest[length..], spelling, *columns);
            let mut joined = [0_u8; BEFORE + PIECE - 1];
            joined[..before].copy_from_slice(&within[end - before..end]);
            joined[before..before + count].copy_from_slice(&behind[..count]);
            let starts = joined[..before + count].windows(PIECE).take(before).zip(end - before..);
            starts.into_iter().all(|(piece, start)| self.try_from(within, start, piece, spelling, tell))
        })
    }

    /// Looks for texts that begin here.
    fn look_from(
        &self,
        within: &[u8],
        start: usize,
        spelling: Spelling,
        tell: &mut impl FnMut(Found, Reach) -> bool,
    ) -> bool {
        let (piece, count, _) = squeeze::<PIECE>(&within[start..], spelling, false);
        if count == PIECE && !self.try_from(within, start, &piece, spelling, tell) {
            return false;
        }
        if spelling != Spelling::Digits {
            return true;
        }
        let (other, count, _) = squeeze::<PIECE>(&within[start..], spelling, true);
        count < PIECE || other == piece || self.try_from(within, start, &other, spelling, tell)
    }

    fn try_from(
        &self,
        within: &[u8],
        start: usize,
        piece: &[u8],
        spelling: Spelling,
        tell: &mut impl FnMut(Found, Reach) -> bool,
    ) -> bool {
        let hash = self.hash(word(piece));
        if !self.is_set(hash) {
            return true;
        }
        self.entries_of(hash).iter().filter(|entry| entry.offset == 0).all(|entry| {
            let text = &self.texts[entry.text as usize];
            text.spelling != spelling || self.compare_from(within, start, text, tell)
        })
    }
}
