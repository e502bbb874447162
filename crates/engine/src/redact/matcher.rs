//! Search for many texts at once, at the speed of reading memory.
//!
//! A text of at least [`LEAST`] bytes holds, at any position, one of its first [`STRIDE`] pieces of
//! [`PIECE`] bytes at a multiple of [`STRIDE`]. The search therefore examines each of these offsets
//! alone: it checks whether a bit is set for the six bytes there. If so, it compares the few texts
//! that have these six bytes. An automaton for ten thousand texts does not fit into the processor's
//! caches; the bits do.

mod begun;

use std::collections::BTreeSet;
use std::ops::Range;

use vault::SecretBytes;

use self::begun::{Beginnings, may_become_break};
use super::forms::Form;

/// Minimum length in bytes of a text that is found.
pub(super) const LEAST: usize = 12;
const PIECE: usize = 6;
const STRIDE: usize = LEAST - PIECE + 1;
/// Bits per piece. One in this many offsets is compared in vain.
const BITS_EACH: usize = 32;
/// Minimum and maximum number of bits, as powers of two: 8 KiB, and 1 MiB, which is the
/// second-level cache of most processors.
const BITS: Range<u32> = 16..23;
/// Bits per bucket of entries.
const BUCKET: usize = 8;
/// Minimum distance between line breaks within a text that may have some (base64 and hexadecimal
/// have lines of 60 to 76 characters).
const LEAST_LINE: usize = 16;
/// Maximum length of a line break in bytes: `\r\n` as JSON escapes it.
const BREAK: usize = 4;

/// Texts with the index by which they are found.
pub(super) struct Matcher {
    bytes: SecretBytes,
    texts: Vec<Text>,
    /// One bit per hash of a piece.
    bits: Vec<u64>,
    /// Start of each bucket in `entries`, also by hash.
    buckets: Vec<u32>,
    entries: Vec<Entry>,
    beginnings: Beginnings,
    multiplier: u64,
    /// Maximum length in bytes of a text in the input, including line breaks.
    reach: usize,
}

struct Text {
    at: Range<usize>,
    /// Number of the secret to which the text belongs.
    owner: usize,
    wraps: bool,
}

/// Piece of a text: the number of the text and the offset of the piece in it.
#[derive(Clone, Copy)]
struct Entry {
    text: u32,
    offset: u8,
}

/// Occurrence of a text: its position, and the owner of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) at: Range<usize>,
    pub(super) owner: usize,
}

impl Matcher {
    /// Creates a matcher for forms, each with its owner. Forms under [`LEAST`] bytes are never found.
    pub(super) fn new(forms: &[(usize, Form)]) -> Self {
        let forms = || forms.iter().filter(|(_, form)| form.text.len() >= LEAST);
        let mut bytes = SecretBytes::zeroed(forms().map(|(_, form)| form.text.len()).sum());
        let mut texts = Vec::new();
        let mut filled = 0;
        for (owner, form) in forms() {
            let at = filled..filled + form.text.len();
            bytes[at.clone()].copy_from_slice(&form.text);
            filled = at.end;
            texts.push(Text { at, owner: *owner, wraps: form.wraps });
        }
        let pieces = texts.len() * 2 * STRIDE;
        let log = (pieces * BITS_EACH).next_power_of_two().ilog2().clamp(BITS.start, BITS.end);
        let mut seed = [0_u8; 8];
        // Without randomness the matcher finds the same texts, but hash collisions become predictable.
        let _ = getrandom::fill(&mut seed);
        let multiplier = u64::from_le_bytes(seed) | 1 << 63 | 1;
        let reach = texts.iter().map(Self::reach_of).max().unwrap_or(0);
        let beginnings = Beginnings::of(&texts, &bytes);
        let mut matcher = Self {
            bytes,
            texts,
            bits: vec![0; 1 << (log - 6)],
            buckets: Vec::new(),
            entries: Vec::new(),
            beginnings,
            multiplier,
            reach,
        };
        matcher.fill();
        matcher
    }

    fn reach_of(text: &Text) -> usize {
        let breaks = if text.wraps { (text.at.len() / LEAST_LINE + 2) * BREAK } else { 0 };
        text.at.len() + breaks
    }

    fn fill(&mut self) {
        let mut placed = Vec::with_capacity(self.texts.len() * STRIDE);
        for (number, text) in (0_u32..).zip(&self.texts) {
            let bytes = &self.bytes[text.at.clone()];
            // If a line break splits the first pieces, the pieces after the first twelve bytes lie
            // on one line.
            let behind = if text.wraps { LEAST..LEAST + STRIDE } else { 0..0 };
            for offset in (0..STRIDE).chain(behind) {
                let Some(piece) = bytes.get(offset..offset + PIECE) else { continue };
                let mut word = [0_u8; 8];
                word[..PIECE].copy_from_slice(piece);
                let hash = self.hash(u64::from_le_bytes(word));
                placed.push((hash, Entry { text: number, offset: u8::try_from(offset).unwrap_or(0) }));
            }
        }
        placed.sort_unstable_by_key(|(hash, _)| *hash);
        self.buckets = vec![0; self.bits.len() * 64 / BUCKET + 1];
        for (hash, entry) in placed {
            self.bits[hash / 64] |= 1 << (hash % 64);
            self.buckets[hash / BUCKET + 1] += 1;
            self.entries.push(entry);
        }
        let mut before = 0;
        for bucket in &mut self.buckets {
            before += *bucket;
            *bucket = before;
        }
    }

    /// Hashes six bytes; the two upper bytes of the word are ignored.
    #[expect(clippy::cast_possible_truncation, reason = "fewer bits are left than an address has")]
    fn hash(&self, word: u64) -> usize {
        let log = self.bits.len().ilog2() + 6;
        ((word << 16).wrapping_mul(self.multiplier) >> (u64::BITS - log)) as usize
    }

    /// Returns the number of bytes at the end of the input to which later bytes may still add a text.
    pub(super) fn reach(&self) -> usize {
        self.reach
    }

    /// Returns true if the matcher has no texts.
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns true if the input holds any of the texts.
    pub(super) fn finds_any(&self, within: &[u8]) -> bool {
        let mut any = false;
        self.look(within, |_, is_whole| {
            any = is_whole;
            !any
        });
        any
    }

    /// Returns all occurrences in order. Overlapping ones are merged into one, with the owner of
    /// the first; of those that begin at the same byte, the longest counts.
    pub(super) fn find(&self, within: &[u8]) -> Vec<Occurrence> {
        let mut all = Vec::new();
        self.look(within, |found, is_whole| {
            all.extend(Some(found).filter(|_| is_whole));
            true
        });
        merged(all)
    }

    /// Returns the occurrences of every text, and for these owners also every prefix of a text of
    /// at least `least` bytes, as truncation leaves it.
    pub(super) fn find_parts(
        &self,
        within: &[u8],
        owners: &BTreeSet<usize>,
        least: usize,
    ) -> Vec<Occurrence> {
        let mut all = self.find(within);
        for text in self.texts.iter().filter(|text| owners.contains(&text.owner)) {
            let bytes = &self.bytes[text.at.clone()];
            for start in memchr::memmem::find_iter(within, bytes.get(..least).unwrap_or(bytes)) {
                let there = within[start..].iter().zip(bytes).take_while(|(one, other)| one == other).count();
                all.push(Occurrence { at: start..start + there, owner: text.owner });
            }
        }
        merged(all)
    }

    /// Reports each occurrence of a text, and at the end of the input each prefix of one, until
    /// `tell` returns false. The flag is true for a complete text.
    fn look(&self, within: &[u8], mut tell: impl FnMut(Occurrence, bool) -> bool) {
        if self.is_empty() || within.len() < LEAST {
            return;
        }
        let mut place = 0;
        // Each step reads eight bytes, of which six count.
        while let Some(word) = within.get(place..).and_then(|rest| rest.first_chunk::<8>()) {
            let hash = self.hash(u64::from_le_bytes(*word));
            if self.bits[hash / 64] >> (hash % 64) & 1 == 1 && !self.compare(within, place, hash, &mut tell) {
                return;
            }
            place += STRIDE;
        }
        let mut last = [0_u8; 8];
        let rest = within.get(place..).unwrap_or_default();
        if rest.len() >= PIECE {
            last[..rest.len()].copy_from_slice(rest);
            let hash = self.hash(u64::from_le_bytes(last));
            self.compare(within, place, hash, &mut tell);
        }
    }

    #[cold]
    fn compare(
        &self,
        within: &[u8],
        place: usize,
        hash: usize,
        tell: &mut impl FnMut(Occurrence, bool) -> bool,
    ) -> bool {
        let (first, last) = (self.buckets[hash / BUCKET] as usize, self.buckets[hash / BUCKET + 1] as usize);
        for entry in &self.entries[first..last] {
            let text = &self.texts[entry.text as usize];
            let bytes = &self.bytes[text.at.clone()];
            let offset = usize::from(entry.offset);
            let found = if text.wraps {
                wrapped(within, place, bytes, offset)
            } else {
                place.checked_sub(offset).and_then(|start| {
                    let rest = &within[start..];
                    let there = rest.len().min(bytes.len());
                    (rest[..there] == bytes[..there]).then_some((start..start + there, there == bytes.len()))
                })
            };
            if let Some((at, is_whole)) = found
                && !tell(Occurrence { at, owner: text.owner }, is_whole)
            {
                return false;
            }
        }
        true
    }
}

/// Sorts occurrences, and merges overlapping ones.
fn merged(mut all: Vec<Occurrence>) -> Vec<Occurrence> {
    all.sort_by(|one, other| (one.at.start, other.at.end).cmp(&(other.at.start, one.at.end)));
    let mut merged: Vec<Occurrence> = Vec::new();
    for found in all {
        match merged.last_mut() {
            Some(last) if found.at.start < last.at.end => last.at.end = last.at.end.max(found.at.end),
            _ => merged.push(found),
        }
    }
    merged
}

/// Returns the range of `text` around `place`, which holds its byte `offset`, with or without line
/// breaks, and whether the text is complete.
fn wrapped(within: &[u8], place: usize, text: &[u8], offset: usize) -> Option<(Range<usize>, bool)> {
    let (mut end, mut since, mut is_whole) = (place, 0, true);
    for byte in &text[offset..] {
        let rest = &within[end..];
        if rest.first() != Some(byte) {
            let Some(length) = line_break(rest) else {
                if rest.is_empty() || may_become_break(rest) {
                    is_whole = false;
                    break;
                }
                return None;
            };
            if since < LEAST_LINE && end - place > since {
                return None;
            }
            (end, since) = (end + length, 0);
            match within.get(end) {
                None => {
                    is_whole = false;
                    break;
                }
                Some(next) if next != byte => return None,
                Some(_) => {}
            }
        }
        (end, since) = (end + 1, since + 1);
    }
    let (mut start, mut broken) = (place, false);
    for byte in text[..offset].iter().rev() {
        // Line breaks are tried first, because the `n` of one that JSON escapes could match the
        // byte itself. The remaining backslash would then match no byte of a text with line breaks.
        if let Some(length) = line_break_before(&within[..start]) {
            if broken {
                return None;
            }
            (start, broken) = (start - length, true);
        }
        if !within[..start].ends_with(&[*byte]) {
            return None;
        }
        start -= 1;
    }
    Some((start..end, is_whole))
}

/// Line breaks, unescaped and as JSON escapes them.
const BREAKS: [&[u8]; 4] = [b"\r\n", b"\n", b"\\r\\n", b"\\n"];

fn line_break(rest: &[u8]) -> Option<usize> {
    BREAKS.iter().find(|line_break| rest.starts_with(line_break)).map(|line_break| line_break.len())
}

fn line_break_before(before: &[u8]) -> Option<usize> {
    BREAKS.iter().find(|line_break| before.ends_with(line_break)).map(|line_break| line_break.len())
}
